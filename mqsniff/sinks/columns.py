"""Items in, the columns of tables that the user named out, side by side for people.

1. A line of names stands above the first row, and wherever rows of another table follow.
2. Columns grow with what they have to hold and never shrink, up to ``_WIDTH_MAX``; rows go out as they come.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import BinaryIO, Final

from mqsniff.model import Item
from mqsniff.sinks.paint import Paint, Role
from mqsniff.sinks.rowlines import field_texts
from mqsniff.sinks.textoptions import TextOptions
from mqsniff.tables.rows import Captures, rows_of
from mqsniff.tables.schemas import TABLES, TableName, names_of

_WIDTH_MAX: Final = 40
"""Characters that a value is filled up to: a long one must not widen all rows."""


class ColumnSink:
    """Writes the named columns of tables to a binary stream."""

    def __init__(self, stream: BinaryIO, captures: Captures, fields: Sequence[str], options: TextOptions) -> None:
        self._stream = stream
        self._captures = captures
        self._options = options
        self._paint = Paint(color=options.color, width=options.width, wide=options.wide)
        tables: Collection[TableName] = options.tables
        self._fields = {table: tuple(name for name in fields if name in names_of(table)) for table in tables}
        self._tables = [table for table in TABLES if self._fields.get(table)]
        self._widths = {table: [len(name) for name in self._fields[table]] for table in self._tables}
        self._table: TableName | None = None
        """That of the last row."""

    def write(self, item: Item) -> None:
        """Write the rows of an item."""
        for table, row in rows_of(item, self._captures, self._tables, self._options.shown):
            fields, widths = self._fields[table], self._widths[table]
            texts = list(field_texts(table, row, fields, self._options.shown))
            widths[:] = [max(width, min(len(text), _WIDTH_MAX)) for width, text in zip(widths, texts, strict=True)]
            if table != self._table:
                self._table = table
                self._put("tcp", fields, widths)
            self._put("", texts, widths)

    def tick(self) -> None:
        """Let a reader see what was written so far."""
        self._stream.flush()

    def _put(self, role: Role, texts: Sequence[str], widths: Sequence[int]) -> None:
        padded = "  ".join(text.ljust(width) for text, width in zip(texts, widths, strict=True))
        line = self._paint.line([(role, padded)])
        self._stream.write(line.encode(self._options.encoding, "backslashreplace") + b"\n")
