"""Reads the records of a batch of magic 2 into columns of spans and deltas. Hot.

1. ``walk`` reads varints of one and two bytes in line, longer ones by ``wire``. A record that is odd goes through
   ``read_record``, of which its slow twin, ``walk_slowly``, consists.
2. A record is read whole or not at all: its fields and headers must end exactly where its length says.
3. The walk finds the places of headers; they become text and bytes on demand.
4. Columns are arrays of C integers: rows are made of them later, at 16 ns a number; a list of int objects took 75 ns.

Measured on one core by ``benchmarks/recordwalk.py``: 1.0 µs a record of the usual sizes, 0.6 µs a small one, the slow
twin 2.9 and 2.5. A walk of the lengths with NumPy for the columns took 2.1 and 0.25 µs: batches of 16 KiB hold some
twenty usual records, too few to make up for its calls.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from operator import sub
from typing import Final, NamedTuple, overload

from mqsniff.model import HeaderSpans
from mqsniff.spec.wire import CUT, Malformed, read_varint, read_varlong

RECORD_MIN: Final = 7
"""Bytes of the smallest record: length, attributes, two deltas, two lengths and a count."""
WIDTH: Final = 7
HEADERS_MAX: Final = 1 << 20
"""Most headers of one batch: two bytes may become the places of a header."""


class Record(NamedTuple):
    """One record; spans are offsets in the walked bytes, -1 for null."""

    timestamp_delta: int
    offset_delta: int
    key_start: int
    key_stop: int
    value_start: int
    value_stop: int
    headers: int
    """Number of headers of the batch up to this record, its own included."""


class WalkedRecords(NamedTuple):
    """The whole records of a batch, as fields of ``Record`` in one flat array, and how the walk ended."""

    flat: array[int]
    places: array[int]
    """Places of all headers, as in ``HeaderSpans``."""
    stop: int
    """Offset after the last record."""
    why: str | None = None
    """What is wrong with the bytes at ``stop``."""
    cut: bool = False
    """Whether the bytes end inside a record that may be sound."""

    @property
    def records(self) -> int:
        """Number of records."""
        return len(self.flat) // WIDTH

    def column(self, index: int) -> array[int]:
        """A field of all records, by its position in ``Record``."""
        return self.flat[index::WIDTH]


def walk(data: bytes, pos: int, end: int, count: int) -> WalkedRecords:
    """Read ``count`` records of ``data[pos:end]``, or as many as are whole and sound before that."""
    flat: list[int] = []
    places: list[int] = []
    while True:
        pos = _stride(data, pos, end, count - len(flat) // WIDTH, flat, places)
        _forget(flat, places)
        if len(flat) == count * WIDTH:
            return _walked(flat, places, pos)
        try:
            record, pos = read_record(data, pos, end, places)
        except Malformed as error:
            _forget(flat, places)
            return _walked(flat, places, pos, str(error), cut=_runs_out(data, pos, end))
        flat += record


def walk_slowly(data: bytes, pos: int, end: int, count: int) -> WalkedRecords:
    """As ``walk``, record by record."""
    flat: list[int] = []
    places: list[int] = []
    for _ in range(count):
        try:
            record, pos = read_record(data, pos, end, places)
        except Malformed as error:
            _forget(flat, places)
            return _walked(flat, places, pos, str(error), cut=_runs_out(data, pos, end))
        flat += record
    return _walked(flat, places, pos)


def _walked(
    flat: list[int], places: list[int], stop: int, why: str | None = None, *, cut: bool = False
) -> WalkedRecords:
    """Put the numbers of a walk into arrays of C (rule 4)."""
    return WalkedRecords(array("q", flat), array("q", places), stop, why, cut)


def _forget(flat: list[int], places: list[int]) -> None:
    """Remove the headers of a record that was not read."""
    del places[4 * (flat[-1] if flat else 0) :]


def _stride(  # noqa: C901, PLR0915, PLR0917  # rule 1
    data: bytes, pos: int, end: int, count: int, flat: list[int], places: list[int]
) -> int:
    """Append up to ``count`` records to ``flat``; returns the offset after the last one that it could read."""
    last = pos
    headers = len(places) // 4
    try:
        for _ in range(count):
            size = data[pos]
            pos += 1
            if size > 0x7F:
                more = data[pos]
                if more < 0x80:
                    size += (more << 7) - 0x80
                    pos += 1
                    stop = pos + (size >> 1)
                else:
                    zigzag, pos = read_varint(data, pos - 1, end)
                    stop = pos + zigzag
                    size = 0
            else:
                stop = pos + (size >> 1)
            if stop > end or size & 1:
                break

            timestamp = data[pos + 1]
            pos += 2
            if timestamp > 0x7F:
                more = data[pos]
                if more < 0x80:
                    timestamp += (more << 7) - 0x80
                    pos += 1
                    timestamp = timestamp >> 1 ^ -(timestamp & 1)
                else:
                    timestamp, pos = read_varlong(data, pos - 1, stop)
            else:
                timestamp = timestamp >> 1 ^ -(timestamp & 1)

            offset = data[pos]
            pos += 1
            if offset > 0x7F:
                more = data[pos]
                if more < 0x80:
                    offset += (more << 7) - 0x80
                    pos += 1
                    offset = offset >> 1 ^ -(offset & 1)
                else:
                    offset, pos = read_varint(data, pos - 1, stop)
            else:
                offset = offset >> 1 ^ -(offset & 1)

            size = data[pos]
            pos += 1
            if size == 1:
                key = key_stop = -1
            else:
                if size > 0x7F:
                    size, pos = read_varint(data, pos - 1, stop)
                    size <<= 1
                if size & 1 or size < 0:
                    break
                key = pos
                key_stop = pos = pos + (size >> 1)

            size = data[pos]
            pos += 1
            if size == 1:
                value = value_stop = -1
            else:
                if size > 0x7F:
                    more = data[pos]
                    if more < 0x80:
                        size += (more << 7) - 0x80
                        pos += 1
                    else:
                        size, pos = read_varint(data, pos - 1, stop)
                        size <<= 1
                if size & 1 or size < 0:
                    break
                value = pos
                value_stop = pos = pos + (size >> 1)

            if data[pos]:
                pos = _place_headers(data, pos, stop, places)
                headers = len(places) // 4
            else:
                pos += 1
            if pos != stop:
                break
            flat += (timestamp, offset, key, key_stop, value, value_stop, headers)
            last = stop
    except (IndexError, Malformed):
        return last
    return last


def _runs_out(data: bytes, pos: int, end: int) -> bool:
    """Whether the bytes end before the record at ``pos`` does."""
    try:
        size, pos = read_varint(data, pos, end)
    except Malformed as error:
        return str(error) == CUT
    return size > end - pos


def read_record(data: bytes, pos: int, end: int, places: list[int]) -> tuple[Record, int]:
    """Read one record: (it, offset after it); appends its headers to ``places``."""
    size, pos = read_varint(data, pos, end)
    stop = pos + size
    if size < RECORD_MIN - 1:
        raise Malformed("record too short")
    if stop > end:
        raise Malformed(CUT)
    timestamp, pos = read_varlong(data, pos + 1, stop)
    offset, pos = read_varint(data, pos, stop)
    key, key_stop, pos = _read_span(data, pos, stop)
    value, value_stop, pos = _read_span(data, pos, stop)
    try:
        pos = _place_headers(data, pos, stop, places)
    except IndexError:
        raise Malformed(CUT) from None
    if pos != stop:
        raise Malformed("record of another size than its fields")
    return Record(timestamp, offset, key, key_stop, value, value_stop, len(places) // 4), stop


def _read_span(data: bytes, pos: int, end: int) -> tuple[int, int, int]:
    """Read a length and skip its bytes: (start, stop, offset after them); -1 twice for null."""
    size, pos = read_varint(data, pos, end)
    if size == -1:
        return -1, -1, pos
    if size < 0:
        raise Malformed("negative length")
    if size > end - pos:
        raise Malformed("length beyond the record")
    return pos, pos + size, pos + size


# ---- headers


def _place_headers(data: bytes, pos: int, end: int, places: list[int]) -> int:
    """Append the places of the headers whose count is at ``pos``; returns the offset after them.

    IndexError if ``data`` ends inside them.
    """
    count = data[pos]
    if count < 0x80 and not count & 1:
        count >>= 1
        pos += 1
    else:
        count, pos = read_varint(data, pos, end)
    if count < 0:
        raise Malformed("negative number of headers")
    if 2 * count > end - pos:
        raise Malformed("more headers than bytes")
    if count + len(places) // 4 > HEADERS_MAX:
        raise Malformed("more headers in a batch than are read")
    for _ in range(count):
        size = data[pos]
        if size < 0x80 and not size & 1:
            key = pos + 1
            stop = key + (size >> 1)
        else:
            size, key = read_varint(data, pos, end)
            if size < 0:
                raise Malformed("header without a key")
            stop = key + size
        size = data[stop]
        if size < 0x80 and not size & 1:
            value = stop + 1
            pos = value + (size >> 1)
        else:
            size, pos = read_varint(data, stop, end)
            if size < -1:
                raise Malformed("negative length")
            value = -1 if size < 0 else pos
            pos += max(size, 0)
        places += (key, stop, value, pos)
    return pos


class RecordHeaders(Sequence[list[tuple[str, bytes | None]]]):
    """The headers of each record of a batch, made into pairs on demand."""

    __slots__ = ("_data", "_places", "_stops")

    def __init__(self, data: bytes, walked: WalkedRecords) -> None:
        self._data = data
        self._places = walked.places
        self._stops = array("q", (0,)) + walked.column(Record._fields.index("headers"))

    def __len__(self) -> int:
        return len(self._stops) - 1

    @overload
    def __getitem__(self, index: int) -> list[tuple[str, bytes | None]]: ...
    @overload
    def __getitem__(self, index: slice) -> list[list[tuple[str, bytes | None]]]: ...

    def __getitem__(self, index: int | slice) -> list[tuple[str, bytes | None]] | list[list[tuple[str, bytes | None]]]:
        if isinstance(index, slice):
            return [self[at] for at in range(*index.indices(len(self)))]
        index = range(len(self))[index]
        data, places = self._data, self._places[4 * self._stops[index] : 4 * self._stops[index + 1]]
        return [
            (data[key:stop].decode(errors="backslashreplace"), None if value < 0 else data[value:end])
            for key, stop, value, end in _by_fours(places)
        ]

    def spans(self) -> HeaderSpans:
        """The places of all headers."""
        return HeaderSpans(array("q", map(sub, self._stops[1:], self._stops)), self._places)


def _by_fours(places: Sequence[int]) -> Iterator[tuple[int, int, int, int]]:
    """Places in groups of four."""
    numbers = iter(places)
    return zip(numbers, numbers, numbers, numbers, strict=True)
