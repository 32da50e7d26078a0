"""Plain bytes of a record batch of magic 2 in, its records as columns of spans and deltas out. Hot.

1. ``walk`` strides straight on: varints of one and two bytes are read in place, all others by ``wire``. The record at
   which it stumbles goes through ``read_record``, of which its slow twin, ``walk_slowly``, consists.
2. A record is taken whole or not at all: its fields, headers included, have to end exactly where its length says.
3. Headers are checked in the walk and decoded when somebody asks for them.

Measured on one core by ``benchmarks/recordwalk.py``: 0.8 µs a record of the usual sizes, 0.5 µs a small one, the slow
twin 2.9 and 2.4. Columns made by NumPy behind a walk of the lengths alone took 2.1 and 0.25 µs: batches of 16 KiB hold
some twenty usual records, too few to make up for its calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, overload

from mqsniff.spec.wire import CUT, Malformed, read_varint, read_varlong

RECORD_MIN: Final = 7
"""Bytes of the smallest record: length, attributes, two deltas, two lengths and a count."""
WIDTH: Final = 7


class Record(NamedTuple):
    """One record: places are offsets in the walked bytes, -1 for null (and for no headers)."""

    timestamp_delta: int
    offset_delta: int
    key_start: int
    key_stop: int
    value_start: int
    value_stop: int
    headers_start: int


class Walked(NamedTuple):
    """The whole records of a batch, in the order of ``Record`` one after the other, and how the walk ended."""

    flat: list[int]
    stop: int
    """One past the last record."""
    why: str | None = None
    """What is wrong with the bytes at ``stop``."""
    cut: bool = False
    """The bytes end inside a record that may be sound."""

    @property
    def records(self) -> int:
        """How many records there are."""
        return len(self.flat) // WIDTH

    def column(self, index: int) -> list[int]:
        """A field of ``Record`` by its position."""
        return self.flat[index::WIDTH]


def walk(data: bytes, pos: int, end: int, count: int) -> Walked:
    """Read ``count`` records of ``data[pos:end]``, or as many as are whole and sound before that."""
    flat: list[int] = []
    while True:
        pos = _stride(data, pos, end, count - len(flat) // WIDTH, flat)
        if len(flat) == count * WIDTH:
            return Walked(flat, pos)
        try:
            record, pos = read_record(data, pos, end)
        except Malformed as error:
            return Walked(flat, pos, str(error), _runs_out(data, pos, end))
        flat += record


def walk_slowly(data: bytes, pos: int, end: int, count: int) -> Walked:
    """Do what ``walk`` does, record by record."""
    flat: list[int] = []
    for _ in range(count):
        try:
            record, pos = read_record(data, pos, end)
        except Malformed as error:
            return Walked(flat, pos, str(error), _runs_out(data, pos, end))
        flat += record
    return Walked(flat, pos)


def _stride(data: bytes, pos: int, end: int, count: int, flat: list[int]) -> int:  # noqa: C901, PLR0915  # rule 1
    """Append up to ``count`` records to ``flat``; gives the place behind the last one that it could read."""
    last = pos
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
                headers = pos
                pos = _skip_headers(data, pos, stop)
            else:
                headers = -1
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


def read_record(data: bytes, pos: int, end: int) -> tuple[Record, int]:
    """Read one record: (it, the place behind it)."""
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
    headers = pos
    try:
        pos = _skip_headers(data, pos, stop)
    except IndexError:
        raise Malformed(CUT) from None
    if pos != stop:
        raise Malformed("record of another size than its fields")
    return Record(timestamp, offset, key, key_stop, value, value_stop, headers if data[headers] else -1), stop


def _read_span(data: bytes, pos: int, end: int) -> tuple[int, int, int]:
    """Read where bytes stand: (start, stop, the place behind them), -1 twice for null."""
    size, pos = read_varint(data, pos, end)
    if size == -1:
        return -1, -1, pos
    if size < 0:
        raise Malformed("negative length")
    if size > end - pos:
        raise Malformed("length beyond the record")
    return pos, pos + size, pos + size


# ---- headers


def _skip_headers(data: bytes, pos: int, end: int) -> int:
    """Give the place behind the headers whose count stands at ``pos``; IndexError where ``data`` ends inside them."""
    count, pos = read_varint(data, pos, end)
    if count < 0:
        raise Malformed("negative number of headers")
    if 2 * count > end - pos:
        raise Malformed("more headers than bytes")
    for _ in range(count):
        size = data[pos]
        if size < 0x80 and not size & 1:
            pos += 1 + (size >> 1)
        else:
            size, pos = read_varint(data, pos, end)
            if size < 0:
                raise Malformed("header without a key")
            pos += size
        size = data[pos]
        if size < 0x80 and not size & 1:
            pos += 1 + (size >> 1)
        else:
            size, pos = read_varint(data, pos, end)
            if size < -1:
                raise Malformed("negative length")
            pos += max(size, 0)
    return pos


def read_headers(data: bytes, pos: int) -> list[tuple[str, bytes | None]]:
    """Decode the headers whose count stands at ``pos``; only for what a walk has accepted."""
    end = len(data)
    count, pos = read_varint(data, pos, end)
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        size, pos = read_varint(data, pos, end)
        key = data[pos : pos + size].decode(errors="backslashreplace")
        size, pos = read_varint(data, pos + size, end)
        if size < 0:
            headers.append((key, None))
        else:
            headers.append((key, data[pos : pos + size]))
            pos += size
    return headers


class Headers(Sequence[list[tuple[str, bytes | None]]]):
    """The headers of each record of a batch, decoded when asked for."""

    __slots__ = ("_data", "_starts")

    def __init__(self, data: bytes, starts: list[int]) -> None:
        self._data = data
        self._starts = starts

    def __len__(self) -> int:
        return len(self._starts)

    @overload
    def __getitem__(self, index: int) -> list[tuple[str, bytes | None]]: ...
    @overload
    def __getitem__(self, index: slice) -> list[list[tuple[str, bytes | None]]]: ...

    def __getitem__(self, index: int | slice) -> list[tuple[str, bytes | None]] | list[list[tuple[str, bytes | None]]]:
        if isinstance(index, slice):
            return [self[at] for at in range(*index.indices(len(self)))]
        start = self._starts[index]
        return [] if start < 0 else read_headers(self._data, start)
