"""Record batches in, their rows of ``records`` as lines of JSON out: values that records share are rendered once. Hot.

1. A line equals, byte for byte, what ``ndjson_line`` makes of the row of ``record_rows``: that is the slow twin.
2. Columns that vary are rendered as columns. Numbers are serialised as one list; text, times and other values one by
   one. No dict per record.
3. Constants and the names of columns are the bytes between two columns that vary, so that a line is one join.
4. At most ``LINES`` lines are in memory together, with about ``SIZE`` bytes of record data, however large a batch is.

5. From ``KERNELS_FROM`` records on, batches wait until they make a block for ``arrowlines``: ``tick`` of the sink, and
   each line of another table, end a block. Whatever waits is bounded by ``BLOCK_ROWS`` and ``BLOCK_BYTES``.

In batches of 40 records of 800 bytes it takes 7 µs per record on one core, the slow twin 11, and the whole run 17;
tshark's JSON takes 160 (``benchmarks/run.py kafka-records``). For a few records, columns cost more than they save.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain, repeat
from typing import Any, Final, NamedTuple, TypeAlias, get_args

import orjson

from mqsniff.model import ConnectionInfo, Message, RecordBatch
from mqsniff.tables.rows import Captures, Row, listed, record_columns, record_constants
from mqsniff.tables.schemas import names_of
from mqsniff.tables.times import rfc3339
from mqsniff.tables.values import Encoding, Redaction, base64, text_of

LINES: Final = 256
SIZE: Final = 1 << 20
NAMES: Final = names_of("records")
HEADS: Final = {name: f',"{name}":'.encode() for name in NAMES}
TIMES: Final = frozenset(names_of("records", "timestamp"))
_TEXTS: Final = names_of("records", "text")
OBJECTS: Final = frozenset(names_of("records", "headers", "json"))
_NUMBERS: Final = frozenset((int, bool))
SPANNED: Final = frozenset(("key", "key_encoding", "value", "value_encoding", "value_size"))
"""Columns that are rendered with ``key`` or ``value``."""
_ENCODINGS: Final = {
    (name, encoding): f',"{name}_encoding":"{encoding}"'.encode()
    for name in ("key", "value")
    for encoding in get_args(Encoding)
}

_Column: TypeAlias = tuple[bytes, list[bytes]]
"""(bytes before each value of a column, its values); if the first is empty, each value includes the column's name."""
KERNELS_FROM: Final = 1 << 14
"""Fewer records do not pay for the import of Arrow."""
BLOCK_ROWS: Final = 1 << 12
BLOCK_BYTES: Final = 4 << 20
"""Of record data, and of text that rows repeat."""
BLOCK_ROWS_MIN: Final = 128
"""For fewer records, or fewer in a batch than ``FEW``, kernels cost more than they save."""
FEW: Final = 4

_Spans: TypeAlias = Iterable[tuple[int, int]]
"""Start and stop of keys or values; a negative start is null."""


class BatchColumns(NamedTuple):
    """A batch as columns of the table, as it was when it came."""

    common: Row
    """Values that all its rows share."""
    columns: dict[str, Sequence[Any]]
    batch: RecordBatch


class BatchPiece(NamedTuple):
    """Some records of a batch."""

    told: BatchColumns
    start: int
    stop: int


def batch_columns(
    connection: ConnectionInfo, message: Message, batch: RecordBatch, captures: Captures, shown: Redaction
) -> BatchColumns:
    """What the lines of a batch are made of."""
    return BatchColumns(
        record_constants(connection, message, batch, captures, shown), record_columns(batch, shown), batch
    )


class RecordLines:
    """Turns the batches of a run into lines."""

    def __init__(self, captures: Captures, shown: Redaction) -> None:
        self._captures = captures
        self._shown = shown
        self._told = 0
        self._waiting: list[BatchPiece] = []
        self.rows = 0
        """Records whose lines were not given."""
        self._size = 0
        self._data = 0

    @property
    def waits(self) -> bool:
        """Whether there are records whose lines were not given."""
        return self.rows > 0

    def add(self, connection: ConnectionInfo, message: Message, batch: RecordBatch) -> Iterator[bytes | memoryview]:
        """The next batch; gives lines, of batches before it too."""
        told = batch_columns(connection, message, batch, self._captures, self._shown)
        self._told += batch.count
        if self._told < KERNELS_FROM or not self._shown.payload or self._shown.max_bytes is not None:
            yield from record_lines(told, self._shown)
            return
        data = 0 if self._waiting and self._waiting[-1].told.batch.data is batch.data else len(batch.data)
        if self._data and self._data + data > BLOCK_BYTES:
            yield from self.rest()
        self._data += data
        row_size = 1 + _extent(batch) // batch.count + _width(told.common)
        step = max(1, min(BLOCK_ROWS, BLOCK_BYTES // row_size))
        for start in range(0, batch.count, step):
            stop = min(start + step, batch.count)
            if self.rows + stop - start > BLOCK_ROWS or self._size + row_size * (stop - start) > BLOCK_BYTES:
                yield from self.rest()
            self._waiting.append(BatchPiece(told, start, stop))
            self.rows += stop - start
            self._size += row_size * (stop - start)

    def rest(self) -> Iterator[bytes | memoryview]:
        """The lines of the records that wait."""
        waiting, rows = self._waiting, self.rows
        self._waiting, self.rows, self._size, self._data = [], 0, 0, 0
        if rows >= max(BLOCK_ROWS_MIN, FEW * len(waiting)):
            from mqsniff.sinks.arrowlines import block_lines  # noqa: PLC0415  # start-up is a budget

            yield block_lines(waiting, self._shown)
            return
        for told, start, stop in waiting:
            yield from record_lines(told, self._shown, start, stop)


def _extent(batch: RecordBatch) -> int:
    """About how many bytes the records of a batch have: batches may share their data."""
    starts, stops = batch.values or ((), ())
    if len(starts) == 0 or starts[0] < 0 or stops[-1] < starts[0]:
        return len(batch.data)
    return min(len(batch.data), int(stops[-1] - starts[0]))


def _width(common: Row) -> int:
    """The length of the text that all rows of a batch repeat."""
    return sum([len(text) for name in _TEXTS if isinstance(text := common[name], str)])


def record_lines(told: BatchColumns, shown: Redaction, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
    """The lines of records ``start`` to ``stop`` with newlines, some at a time (rule 4)."""
    batch = told.batch
    end = batch.count if stop is None else stop
    step = max(1, min(LINES, SIZE * batch.count // max(1, len(batch.data))))
    varying = _varying(told)
    for first in range(start, end, step):
        last = min(first + step, end)
        columns = {name: _rendered(name, told, first, last, shown) for name in varying}
        lines = zip(*_parts(told.common, columns, shown, last - first), strict=True)
        yield b"".join(chain.from_iterable(lines))


def _parts(common: Row, varying: dict[str, _Column], shown: Redaction, count: int) -> Iterator[Iterable[bytes]]:
    """The parts of a line in order, each for all lines: constant bytes and varying columns in turn."""
    before = b'{"table":"records"'
    constants: Row = {}
    for name in NAMES:
        if name in varying:
            head, values = varying[name]
            yield repeat(before + cells(constants, shown) + head, count)
            yield values
            before, constants = b"", {}
        elif name not in SPANNED:
            constants[name] = common[name]
    yield repeat(before + cells(constants, shown) + b"}\n", count)


def _varying(told: BatchColumns) -> list[str]:
    """The columns that vary, but for those that are rendered with others."""
    batch = told.batch
    names = {"record_index": True, "headers": batch.headers is not None, "key": batch.keys is not None, "value": True}
    names |= {name: name not in SPANNED for name in told.columns}
    return [name for name, varies in names.items() if varies]


def cells_of(name: str, told: BatchColumns, start: int, stop: int, shown: Redaction) -> list[bytes]:
    """A column of records ``start`` to ``stop`` with its name, whether it varies in this batch or not."""
    if name not in _varying(told):
        return [b"" if name in SPANNED else _cell(name, told.common[name], shown)] * (stop - start)
    head, values = _rendered(name, told, start, stop, shown)
    return [head + value for value in values] if head else values


def _rendered(name: str, told: BatchColumns, start: int, stop: int, shown: Redaction) -> _Column:
    """A column that varies."""
    common, columns, batch = told
    match name:
        case "headers" if batch.headers is not None:
            return b"", list(_headers(batch, start, stop, shown))
        case "key" if batch.keys is not None:
            return b"", list(_keys(batch.data, _cut(batch.keys, start, stop), shown))
        case "value":
            spans = repeat((-1, -1), stop - start) if batch.values is None else _cut(batch.values, start, stop)
            given = (
                repeat(common[each], stop - start) if columns.get(each) is None else listed(columns[each][start:stop])
                for each in ("value_encoding", "value_size")
            )
            return b"", list(_values(batch.data, spans, zip(*given, strict=True), shown))
        case "record_index" if name not in columns:
            return _column(name, range(start, stop), shown)
    values = listed(columns[name][start:stop])
    if name == "ordering_key":
        values = _ordering_keys(values, listed(columns["ordering_key_encoding"][start:stop]))
    return _column(name, values, shown)


def _ordering_keys(keys: Sequence[bytes | None], encodings: Sequence[Encoding | None]) -> list[str | None]:
    pairs = zip(keys, encodings, strict=True)
    return [None if key is None else base64(key) if encoding == "base64" else key.decode() for key, encoding in pairs]


def _cut(spans: tuple[Sequence[int], Sequence[int]], start: int, stop: int) -> _Spans:
    return zip(listed(spans[0][start:stop]), listed(spans[1][start:stop]), strict=True)


def _column(name: str, column: Sequence[Any], shown: Redaction) -> _Column:
    """A column of values that are not record data."""
    if name in TIMES:
        known = {value: _cell(name, value, shown) for value in set(column)}
        return b"", [known[value] for value in column]
    if _NUMBERS.issuperset(map(type, column)):
        try:
            return HEADS[name], orjson.dumps(list(column))[1:-1].split(b",")
        except TypeError:  # an integer of more than 64 bits
            pass
    return b"", [_cell(name, value, shown) for value in column]


def _cell(name: str, value: Any, shown: Redaction) -> bytes:
    """A value with the column's name; empty for null."""
    return cells({name: value}, shown)


def cells(columns: Row, shown: Redaction) -> bytes:
    """Some adjacent columns, without nulls and times that the format does not have."""
    named = {name: rfc3339(v) if name in TIMES else v for name, v in columns.items() if v is not None}
    there = {name: value for name, value in named.items() if value is not None}
    return b"," + shown.row_json(there, OBJECTS)[1:-1] if there else b""


def _headers(batch: RecordBatch, start: int, stop: int, shown: Redaction) -> Iterator[bytes]:
    """The column ``headers``."""
    assert batch.headers is not None
    head = HEADS["headers"]
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
            yield cells({"value_encoding": encoding, "value_size": size}, shown)
        else:
            whole = max(stop - start, size or 0)
            yield b'%b,"value_size":%d' % (_payload("value", data[start:stop], whole, shown), whole)


def _payload(name: str, data: bytes, size: int, shown: Redaction) -> bytes:
    """A key or value of ``size`` bytes, as far as it was captured, and its encoding."""
    text, encoding = shown.record_text(data, size)
    encoding_part = _ENCODINGS[name, encoding]
    return encoding_part if text is None else HEADS[name] + orjson.dumps(text) + encoding_part
