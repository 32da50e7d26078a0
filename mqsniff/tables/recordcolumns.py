"""Record batches in, Arrow blocks of the table ``records`` out: columns from the batch to the block. Hot.

1. Values that all records of a batch share are repeated by an index, and byte spans become arrays by ``buffers``; no
   Python code runs per record. Exceptions: columns that a dissector gives as a list are read once; headers without
   spans and values that are cut are made one by one.
2. Rows equal those of its slow twin ``tables.rows.record_rows``, which NDJSON uses.
3. Waiting records are bounded by ``BLOCK_BYTES``, ``BLOCK_ROWS``, ``BLOCK_BATCHES``, ``BLOCK_TEXT`` and one batch; a
   larger batch becomes many blocks.
4. Batches of few records become rows, by ``recordvalues``, until a larger one comes; then all are columns up to the end
   of the block: traffic that mixes both makes no small blocks.
5. The identity of a connection is read when a batch is added, not when its block is made.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, repeat
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mqsniff.model import ConnectionInfo, HeaderSpans, Int64s, Message, RecordBatch
from mqsniff.tables.buffers import as_text, bool_array, gathered, is_text, number_array, numbers_in, offsets_of
from mqsniff.tables.cells import array_of, numbers_array, numbers_of, repeated
from mqsniff.tables.recordvalues import FEW, FewRecords
from mqsniff.tables.rows import Captures, Row, record_columns, record_constants
from mqsniff.tables.schemas import TABLES, Column, arrow_schema, arrow_type, names_of
from mqsniff.tables.values import Redaction

BLOCK_BYTES: Final = 4 << 20
"""With 8 MiB the peak of a run to Parquet is 32 MB higher, and the time the same."""
BLOCK_ROWS: Final = 1 << 16
BLOCK_BATCHES: Final = 1 << 13
"""A waiting batch of one record costs 3 KB: a limit of rows alone would allow 200 MB."""

BLOCK_TEXT: Final = 64 << 20
"""Bytes of text that rows repeat: a client id of 32 KB in 65,536 rows would make 2 GB."""

_COLUMNS: Final = {column.name: column for column in TABLES["records"]}
_TEXTS: Final = names_of("records", "text")
_OBJECTS: Final = names_of("records", "json")
_ENCODINGS: Final = ("utf8", "base64", "cut", "redacted")
_UTF8, _BASE64, _CUT, _REDACTED = range(len(_ENCODINGS))
_CODES: Final = {name: code for code, name in enumerate(_ENCODINGS)}


@dataclass(slots=True)
class HeldBatch:
    """Some records of a batch that wait for their block."""

    constants: Row
    columns: dict[str, Sequence[Any]]
    batch: RecordBatch
    start: int
    stop: int
    base: int
    """Where the data of the batch begin in the data of the block."""

    def __len__(self) -> int:
        return self.stop - self.start

    def column(self, name: str) -> Sequence[Any]:
        """A column of its records."""
        values = self.columns.get(name)
        if values is None:
            return [self.constants[name]] * len(self)
        return _part(values, self.start, self.stop)

    def places(self, spans: tuple[Sequence[int], Sequence[int]] | None, edge: int) -> Sequence[int] | repeat[int]:
        """Starts (edge 0) or stops (edge 1) of its keys or values in the batch's data; -1 for null."""
        return repeat(-1, len(self)) if spans is None else _part(spans[edge], self.start, self.stop)


def _part(values: Sequence[Any], start: int, stop: int) -> Sequence[Any]:
    return values if start == 0 and stop == len(values) else values[start:stop]


class RecordColumns:
    """Collects record batches until they make a block."""

    def __init__(self, captures: Captures, shown: Redaction) -> None:
        self._captures = captures
        self._shown = shown
        self._few = FewRecords(captures, shown)
        self._as_rows = True
        """Whether batches of few records become rows; if not, they are columns among those of larger batches."""
        self._forget()

    def _forget(self) -> None:
        self._held: list[HeldBatch] = []
        self._data: list[bytes] = []
        self._size = 0
        self._rows = 0
        self._text = 0

    def add(self, connection: ConnectionInfo, message: Message, batch: RecordBatch) -> Iterator[pa.RecordBatch]:
        """Add a batch; gives the blocks that are full."""
        if self._as_rows:
            if batch.count < FEW:
                if self._few.add(connection, message, batch):
                    yield self.block()
                return
            if self._few:
                yield self.block()
            self._as_rows = False
        constants = record_constants(connection, message, batch, self._captures, self._shown)
        columns = record_columns(batch, self._shown)
        width = sum([len(text) for name in _TEXTS if isinstance(text := constants[name], str)])
        step = max(1, min(BLOCK_ROWS, BLOCK_TEXT // (width + 1)))
        for start in range(0, batch.count, step):
            stop = min(start + step, batch.count)
            self._held.append(HeldBatch(constants, columns, batch, start, stop, self._place(batch.data)))
            self._rows += stop - start
            self._text += width * (stop - start)
            if self._full:
                yield self.block()

    @property
    def _full(self) -> bool:
        return (
            self._rows >= BLOCK_ROWS
            or self._size >= BLOCK_BYTES
            or self._text >= BLOCK_TEXT
            or len(self._held) >= BLOCK_BATCHES
        )

    def _place(self, data: bytes) -> int:
        """Where data begin in the block; batches of one message often share theirs."""
        if not self._data or self._data[-1] is not data:
            self._data.append(data)
            self._size += len(data)
        return self._size - len(data)

    @property
    def waiting(self) -> int:
        """Records that wait for a block."""
        return self._rows + len(self._few)

    def block(self) -> pa.RecordBatch:
        """The waiting records as a block; after one of columns, the next begins as rows if its batches had few."""
        if self._few:
            return self._few.block()
        self._as_rows = self._rows < FEW * len(self._held)
        made = RecordBlock(self._held, self._data, self._shown).made()
        self._forget()
        return made


class RecordBlock:
    """Makes one block, of Arrow arrays here, of lines in ``sinks.arrowlines``."""

    def __init__(self, held: list[HeldBatch], data: list[bytes], shown: Redaction) -> None:
        self.held = held
        self.data = data[0] if len(data) == 1 else b"".join(data)
        self._shown = shown
        self._counts = np.fromiter(map(len, held), np.int64, len(held))
        self.rows = int(self._counts.sum())
        self.owner = np.repeat(np.arange(len(held), dtype=np.int32), self._counts)
        """Which of ``held`` a record belongs to."""
        self.varying = frozenset().union(*(each.columns for each in held))
        constants = (each.constants.values() for each in held)
        self._constants = dict(zip(held[0].constants, zip(*constants, strict=True), strict=True))
        """Column -> its value in each of ``held``; all have their columns in the same order."""
        self._base = self._repeated([each.base for each in held])
        self.end = self._repeated([each.base + len(each.batch.data) for each in held])

    def _repeated(self, numbers: list[int]) -> Int64s:
        """A number of each batch, repeated for its records."""
        return np.array(numbers, np.int64)[self.owner]

    def made(self) -> pa.RecordBatch:
        """The block."""
        special = {**self._payloads(), "headers": self._headers()}
        special |= {name: self._objects(name) for name in _OBJECTS}
        special["record_index"] = self._record_index()
        arrays = [special[name] if name in special else self._plain(column) for name, column in _COLUMNS.items()]
        return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema("records"))

    # ---- columns as the dissector gave them

    def _plain(self, column: Column) -> pa.Array:
        name = column.name
        if name in self.varying:
            parts = (each.column(name) for each in self.held)
            if column.type in {"int64", "timestamp"}:
                return numbers_array(parts, column.type)
            return array_of(list(chain.from_iterable(parts)), column.type)
        values = self._constants[name]
        first = values[0]
        if values.count(first) < len(values):
            return array_of(values, column.type).take(number_array(self.owner))
        return repeated(first, column.type, self.rows)

    def _record_index(self) -> pa.Array:
        indexes = (
            each.column("record_index") if "record_index" in each.columns else range(each.start, each.stop)
            for each in self.held
        )
        return numbers_array(indexes, "int64")

    def _objects(self, name: str) -> pa.Array:
        """A column of JSON."""
        if name not in self.varying and not any(self._constants[name]):
            return pa.nulls(self.rows, arrow_type("json"))
        values = chain.from_iterable(each.column(name) for each in self.held)
        return array_of([None if value is None else self._shown.json(value) for value in values], "json")

    # ---- keys and values

    def _payloads(self) -> dict[str, pa.Array]:
        starts, stops = self.spans([each.batch.keys for each in self.held])
        key, key_encoding = self._payload(starts, stops, stops - starts)
        starts, stops = self.spans([each.batch.values for each in self.held])
        null = starts < 0
        given_sizes = self._plain(_COLUMNS["value_size"])
        sizes = np.where(null, 0, np.maximum(stops - starts, numbers_in(given_sizes)))
        value, value_encoding = self._payload(starts, stops, sizes)
        return {
            "key": key,
            "key_encoding": key_encoding,
            "value": value,
            "value_encoding": pc.if_else(bool_array(null), self._plain(_COLUMNS["value_encoding"]), value_encoding),
            "value_size": pc.if_else(bool_array(null), given_sizes, number_array(sizes)),
        }

    def spans(self, spans: list[tuple[Sequence[int], Sequence[int]] | None]) -> tuple[Int64s, Int64s]:
        """Spans in the data of the block; (-1, -1) for null."""
        pairs = list(zip(self.held, spans, strict=True))
        starts, stops = (numbers_of(each.places(own, edge) for each, own in pairs) for edge in (0, 1))
        null = starts < 0
        return np.where(null, -1, starts + self._base), np.where(null, -1, stops + self._base)

    def _payload(self, starts: Int64s, stops: Int64s, sizes: Int64s) -> tuple[pa.Array, pa.Array]:
        """(the shown keys or values, whose full sizes are ``sizes``; their encodings)."""
        null = starts < 0
        if not self._shown.payload:
            codes = np.full(self.rows, _REDACTED)
            return pa.nulls(self.rows, pa.binary()), _encodings(codes, null)
        starts, stops = np.minimum(starts, self.end), np.minimum(stops, self.end)
        most = self._shown.max_bytes
        if most is not None:
            stops = np.minimum(stops, starts + most)
        cut = np.flatnonzero(~null & (stops - starts < sizes))
        kinds = self._cut(cut, starts, stops, sizes) if len(cut) else []
        values = gathered(self.data, starts, stops)
        codes = np.where(is_text(values), _UTF8, _BASE64)
        codes[cut] = kinds
        return values, _encodings(codes, null)

    def _cut(self, cut: Int64s, starts: Int64s, stops: Int64s, sizes: Int64s) -> list[int]:
        """The encodings of values that are cut; text loses a character that the cut divides."""
        kinds: list[int] = []
        for index in cut.tolist():
            start = int(starts[index])
            shown, encoding = self._shown.record_data(self.data[start : int(stops[index])], int(sizes[index]))
            stops[index] = start + len(shown or b"")
            kinds.append(_CODES[encoding])
        return kinds

    # ---- headers

    def _headers(self) -> pa.Array:
        places, counts, null, made = self.header_places()
        lists = number_array(offsets_of(counts))
        data = b"".join((self.data, *made)) if any(made) else self.data
        keys = as_text(gathered(data, places[0::4], places[1::4]))
        values = gathered(data, places[2::4], places[3::4])
        if not self._shown.payload:
            values = array_of([self._shown.redacted(value) for value in values.to_pylist()], "payload")
        kind = arrow_type("headers")
        members = pa.StructArray.from_arrays([keys, values], fields=list(kind.value_type))
        mask = bool_array(null) if null.any() else None
        return pa.ListArray.from_arrays(lists, members, type=kind, mask=mask)

    def header_places(self) -> tuple[Int64s, Int64s, Any, list[bytes]]:
        """(spans of all headers as in ``HeaderSpans``, counts, which are null, data that follows the block's own)."""
        places: list[Sequence[int]] = []
        bases: list[int] = []
        counts: list[Sequence[int] | repeat[int]] = []
        made: list[bytes] = []
        room = len(self.data)
        for each in self.held:
            if each.batch.headers is None:
                counts.append(repeat(-1 if each.constants["headers"] is None else 0, len(each)))
                continue
            spans, base, data = _header_spans(each, room)
            counts.append(spans.counts)
            places.append(spans.places)
            bases.append(base)
            made.append(data)
            room += len(data)
        sizes = [len(one) for one in places]
        joined = numbers_of(places)
        joined = np.where(joined < 0, -1, joined + np.repeat(np.array(bases, np.int64), sizes))
        flat = numbers_of(counts)
        return joined, np.maximum(flat, 0), flat < 0, made


def _encodings(codes: Any, null: Any) -> pa.Array:
    return array_of(_ENCODINGS, "text").take(number_array(codes.astype(np.int8), null))


def _header_spans(held: HeldBatch, room: int) -> tuple[HeaderSpans, int, bytes]:
    """(spans of the headers, their base offset, their data if it is not yet in the block)."""
    spans = held.batch.header_spans() if held.batch.header_spans is not None else None
    if spans is None:
        return _made(held, room)
    if len(held) < held.batch.count:
        ends = [0, *accumulate(spans.counts)]
        places = spans.places[4 * ends[held.start] : 4 * ends[held.stop]]
        spans = HeaderSpans(spans.counts[held.start : held.stop], places)
    return spans, held.base, b""


def _made(held: HeldBatch, room: int) -> tuple[HeaderSpans, int, bytes]:
    """As above, for headers that the dissector gives as pairs."""
    counts: list[int] = []
    places: list[int] = []
    parts: list[bytes] = []
    at = 0
    for headers in _part(held.batch.headers or (), held.start, held.stop):
        counts.append(len(headers))
        for key, value in headers:
            name = key.encode(errors="backslashreplace")
            parts += (name, value or b"")
            stop = at + len(name)
            end = stop + len(value or b"")
            places += (at, stop, -1, -1) if value is None else (at, stop, stop, end)
            at = end
    return HeaderSpans(counts, places), room, b"".join(parts)
