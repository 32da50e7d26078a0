"""Rows of one table as CSV (RFC 4180): a header, then one line per row, each with CR LF.

1. Null is an empty cell, empty text is ``""``. Times are RFC 3339 with nine digits and Z; lists and objects are JSON.
2. Keys and values of records are text; base64 if their ``*_encoding`` says so.
3. Text from the traffic is never a formula: a cell that a spreadsheet would run (it begins with ``=``, ``+``, ``-``,
   ``@``, their full-width forms, tab, CR or LF) gets an apostrophe in front, which marks text in spreadsheets. Numbers
   keep their sign: columns of integers are not changed, nor is text that is a number (``-1``).
4. A cell is quoted if it holds a quote, a line break, or a character that a spreadsheet may use as separator.
5. On a terminal, control characters are escaped.

Source of rule 3: OWASP, CSV Injection.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, BinaryIO, Final

from mqsniff.model import Item
from mqsniff.tables.escape import safe
from mqsniff.tables.rows import Captures, Row, rows_of
from mqsniff.tables.schemas import TABLES, TableName, names_of
from mqsniff.tables.times import rfc3339
from mqsniff.tables.values import Redaction, base64

_FORMULA: Final = re.compile(r"[=+\-@\t\r\n＝＋－＠]")
_NUMBER: Final = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?\Z", re.ASCII)
_QUOTED: Final = re.compile(r'[",;|\t\r\n]|^ | $')


class CsvSink:
    """Writes the rows of one table to a binary stream; ``terminal``: the stream is a terminal."""

    def __init__(
        self, stream: BinaryIO, captures: Captures, table: TableName, shown: Redaction, *, terminal: bool = False
    ) -> None:
        self._stream = stream
        self._captures = captures
        self._table: TableName = table
        self._shown = shown
        self._terminal = terminal
        self._times = names_of(table, "timestamp")
        self._payloads = names_of(table, "payload")
        self._texts = names_of(table, "texts")
        self._json = names_of(table, "json", "headers")
        self._put(column.name for column in TABLES[table])

    def write(self, item: Item) -> None:
        """Write an item's rows of the table."""
        for _, row in rows_of(item, self._captures, (self._table,), self._shown):
            self._put(self._cells(row))

    def tick(self) -> None:
        """Flush, so that the reader of a pipe sees what was written."""
        self._stream.flush()

    def _cells(self, row: Row) -> Iterable[Any]:
        cells = row.copy()
        for name in self._times:
            if (ts_ns := row[name]) is not None:
                cells[name] = rfc3339(ts_ns)
        for name in self._payloads:
            if (data := row[name]) is not None:
                cells[name] = base64(data) if row[f"{name}_encoding"] == "base64" else data.decode()
        for name in self._texts:
            if (texts := row[name]) is not None:
                readable = [text.encode(errors="backslashreplace").decode() for text in texts]
                cells[name] = self._shown.json(readable).decode()
        for name in self._json:
            if (value := row[name]) is not None:
                cells[name] = self._shown.json(value).decode()
        return cells.values()

    def _put(self, cells: Iterable[Any]) -> None:
        self._stream.write(csv_line(cells, terminal=self._terminal))


def csv_line(cells: Iterable[Any], *, terminal: bool = False) -> bytes:
    """A line of cells that hold None, a bool, a number or text; its CR LF included."""
    return (",".join(_cell(cell, terminal=terminal) for cell in cells) + "\r\n").encode(errors="backslashreplace")


def _cell(value: Any, *, terminal: bool) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case str():
            return _text(value, terminal=terminal)
    return str(value)


def _text(text: str, *, terminal: bool) -> str:
    if not text:
        return '""'
    if _FORMULA.match(text) and not _NUMBER.match(text):
        text = "'" + text
    if terminal:
        text = safe(text)
    return '"' + text.replace('"', '""') + '"' if _QUOTED.search(text) else text
