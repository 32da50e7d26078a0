"""A record batch in, its rows of ``records`` as lines of JSON out: values that records share are rendered once. Hot.

1. A line equals, byte for byte, what ``ndjson_line`` makes of the row of ``record_rows``: that is the slow twin.
2. Columns that vary are rendered as columns. Numbers are serialised as one list; text, times and other values one by
   one. No dict per record.
3. Constants and the names of columns are the bytes between two columns that vary, so that a line is one join.
4. At most ``LINES`` lines are in memory together, with about ``SIZE`` bytes of record data, however large a batch is.

In batches of 40 records of 800 bytes it takes 7 µs per record on one core, the slow twin 11, and the whole run 17;
tshark's JSON takes 160 (``benchmarks/run.py kafka-records``). For a few records, columns cost more than they save.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain, repeat
from typing import Any, Final, TypeAlias, get_args

import orjson

from mqsniff.model import ConnectionInfo, Message, RecordBatch
from mqsniff.tables.rows import Captures, Row, listed, record_columns, record_constants
from mqsniff.tables.schemas import names_of
from mqsniff.tables.times import rfc3339
from mqsniff.tables.values import Encoding, Redaction, base64, text_of

LINES: Final = 256
SIZE: Final = 1 << 20
_NAMES: Final = names_of("records")
_HEADS: Final = {name: f',"{name}":'.encode() for name in _NAMES}
_TIMES: Final = frozenset(names_of("records", "timestamp"))
_OBJECTS: Final = frozenset(names_of("records", "headers", "json"))
_NUMBERS: Final = frozenset((int, bool))
_SPANNED: Final = frozenset(("key", "key_encoding", "value", "value_encoding", "value_size"))
"""Columns that are rendered with ``key`` or ``value``."""
_ENCODINGS: Final = {
    (name, encoding): f',"{name}_encoding":"{encoding}"'.encode()
    for name in ("key", "value")
    for encoding in get_args(Encoding)
}

_Column: TypeAlias = tuple[bytes, list[bytes]]
"""(bytes before each value of a column, its values); if the first is empty, each value includes the column's name."""
_Spans: TypeAlias = Iterable[tuple[int, int]]
"""Start and stop of keys or values; a negative start is null."""


def record_lines(
    connection: ConnectionInfo, message: Message, batch: RecordBatch, captures: Captures, shown: Redaction
) -> Iterator[bytes]:
    """The lines of a batch with newlines, some at a time (rule 4)."""
    common = record_constants(connection, message, batch, captures, shown)
    columns = record_columns(batch, shown)
    step = max(1, min(LINES, SIZE * batch.count // max(1, len(batch.data))))
    for start in range(0, batch.count, step):
        stop = min(start + step, batch.count)
        varying = _varying(common, columns, batch, shown, start, stop)
        lines = zip(*_parts(common, varying, shown, stop - start), strict=True)
        yield b"".join(chain.from_iterable(lines))


def _parts(common: Row, varying: dict[str, _Column], shown: Redaction, count: int) -> Iterator[Iterable[bytes]]:
    """The parts of a line in order, each for all lines: constant bytes and varying columns in turn."""
    before = b'{"table":"records"'
    constants: Row = {}
    for name in _NAMES:
        if name in varying:
            head, values = varying[name]
            yield repeat(before + _cells(constants, shown) + head, count)
            yield values
            before, constants = b"", {}
        elif name not in _SPANNED:
            constants[name] = common[name]
    yield repeat(before + _cells(constants, shown) + b"}\n", count)


def _varying(  # noqa: PLR0917  # two of them are a part
    common: Row, every: dict[str, Sequence[Any]], batch: RecordBatch, shown: Redaction, start: int, stop: int
) -> dict[str, _Column]:
    """The columns of records ``start`` to ``stop`` that vary."""
    columns: dict[str, Sequence[Any]] = {"record_index": range(start, stop)}
    columns |= {name: listed(column[start:stop]) for name, column in every.items()}
    if "ordering_key" in columns:
        keys = zip(columns["ordering_key"], columns["ordering_key_encoding"], strict=True)
        columns["ordering_key"] = [
            None if key is None else base64(key) if encoding == "base64" else key.decode() for key, encoding in keys
        ]
    made = {name: _column(name, column, shown) for name, column in columns.items() if name not in _SPANNED}
    if batch.headers is not None:
        made["headers"] = b"", list(_headers(batch, start, stop, shown))
    if batch.keys is not None:
        made["key"] = b"", list(_keys(batch.data, _cut(batch.keys, start, stop), shown))
    spans = repeat((-1, -1), stop - start) if batch.values is None else _cut(batch.values, start, stop)
    given = (columns.get(name) or repeat(common[name], stop - start) for name in ("value_encoding", "value_size"))
    made["value"] = b"", list(_values(batch.data, spans, zip(*given, strict=True), shown))
    return made


def _cut(spans: tuple[Sequence[int], Sequence[int]], start: int, stop: int) -> _Spans:
    return zip(listed(spans[0][start:stop]), listed(spans[1][start:stop]), strict=True)


def _column(name: str, column: Sequence[Any], shown: Redaction) -> _Column:
    """A column of values that are not record data."""
    if name in _TIMES:
        known = {value: _cell(name, value, shown) for value in set(column)}
        return b"", [known[value] for value in column]
    if _NUMBERS.issuperset(map(type, column)):
        try:
            return _HEADS[name], orjson.dumps(list(column))[1:-1].split(b",")
        except TypeError:  # an integer of more than 64 bits
            pass
    return b"", [_cell(name, value, shown) for value in column]


def _cell(name: str, value: Any, shown: Redaction) -> bytes:
    """A value with the column's name; empty for null."""
    return _cells({name: value}, shown)


def _cells(columns: Row, shown: Redaction) -> bytes:
    """Some adjacent columns, without nulls and times that the format does not have."""
    named = {name: rfc3339(v) if name in _TIMES else v for name, v in columns.items() if v is not None}
    there = {name: value for name, value in named.items() if value is not None}
    return b"," + shown.row_json(there, _OBJECTS)[1:-1] if there else b""


def _headers(batch: RecordBatch, start: int, stop: int, shown: Redaction) -> Iterator[bytes]:
    """The column ``headers``."""
    assert batch.headers is not None
    head = _HEADS["headers"]
    for index in range(start, stop):
        headers = batch.headers[index]
        if not headers:
            yield head + b"[]"
        elif shown.payload:
            yield b"%b[%b]" % (head, b",".join([_header(key, value, shown) for key, value in headers]))
        else:
            yield head + shown.json(shown.headers(headers))


def _header(key: str, value: bytes | None, shown: Redaction) -> bytes:
    """A header; most values are text."""
    text = None if value is None else text_of(value)
    spelled = shown.json(value) if text is None else orjson.dumps(text)
    return b'{"key":%b,"value":%b}' % (_header_key(key), spelled)


@lru_cache(maxsize=1024)
def _header_key(key: str) -> bytes:
    """The key of a header, cached: there are few different ones."""
    return Redaction().json(key)


def _keys(data: bytes, spans: _Spans, shown: Redaction) -> Iterator[bytes]:
    """The columns ``key`` and ``key_encoding`` of each record."""
    for start, stop in spans:
        yield b"" if start < 0 else _payload("key", data[start:stop], stop - start, shown)


def _values(data: bytes, spans: _Spans, known: Iterable[tuple[Any, Any]], shown: Redaction) -> Iterator[bytes]:
    """The columns ``value``, ``value_encoding`` and ``value_size``; the dissector may give the last two."""
    for (start, stop), (encoding, size) in zip(spans, known, strict=True):
        if start < 0:
            yield _cells({"value_encoding": encoding, "value_size": size}, shown)
        else:
            whole = max(stop - start, size or 0)
            yield b'%b,"value_size":%d' % (_payload("value", data[start:stop], whole, shown), whole)


def _payload(name: str, data: bytes, size: int, shown: Redaction) -> bytes:
    """A key or value of ``size`` bytes, as far as it was captured, and its encoding."""
    text, encoding = shown.record_text(data, size)
    encoding_part = _ENCODINGS[name, encoding]
    return encoding_part if text is None else _HEADS[name] + orjson.dumps(text) + encoding_part
