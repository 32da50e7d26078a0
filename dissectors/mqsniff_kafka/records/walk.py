"""Reads the records of a batch of magic 2 into columns of spans and deltas. Hot.

1. ``walk`` reads varints of one and two bytes in line, longer ones by ``wire``. A record that is odd goes through
   ``read_record``, of which its slow twin, ``walk_slowly``, consists.
2. A record is read whole or not at all: its fields and headers must end exactly where its length says.
3. The walk finds the places of headers; they become text and bytes on demand.
4. Numbers are native in the compiled build (``spec.vectors``): they become arrays of C integers there, and Python
   objects where Python reads them. Python reads batches of records of one shape by ``evenrun``.

``benchmarks/recordwalk.py`` on one core of a busy machine, CPU time a record: for values of 30 bytes 0.01 µs compiled
and 0.66 µs in Python, a third less where all have one shape; for values of 20 to 4096 bytes, a third of them with
headers, 0.04 µs and 1.2 µs.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Final

from mqsniff.spec.vectors import compact, extend, i64, is_native, packed, vec
from mqsniff.spec.wire import CUT, Malformed, read_varint, read_varlong
from mqsniff_kafka.records.evenrun import EVEN_MIN, EvenColumns, SoundRecord, may_be_even
from mqsniff_kafka.records.reading import MILLISECOND_NS, time_ns

RECORD_MIN: Final = 7
"""Bytes of the smallest record: length, attributes, two deltas, two lengths and a count."""
HEADERS_MAX: Final = 1 << 20
"""Most headers of one batch: two bytes may become the places of a header."""
TIME_MS_MAX: Final = ((1 << 63) - 1) // MILLISECOND_NS
"""The last time whose nanoseconds are an int64."""
_PLACES_FIRST: Final = 1 << 12
"""Places of headers that room is made for at the first ones, beyond their own; later ones double it."""
_NATIVE: Final = is_native(vec[i64]([0] * 0))


class WalkedRecords:
    """The whole records of a batch as columns, and how the walk ended; spans are offsets in the walked bytes."""

    __slots__ = (
        *("_header_counts", "_key_stops", "_keys", "_offsets", "_placed", "_places", "_room", "_timestamps"),
        *("_value_stops", "_values", "cut", "headers", "in_order", "records", "stop", "why"),
    )

    def __init__(self, room: int, start: int) -> None:
        """``room``: most records that there can be; ``start``: offset of the first."""
        self.records: i64 = 0
        """Number of records."""
        self.headers: i64 = 0
        """Number of their headers."""
        self.in_order = True
        """Whether offset deltas count from 0, as they do unless a compaction removed records."""
        self.stop: i64 = start
        """Offset after the last record."""
        self.why: str | None = None
        """What is wrong with the bytes at ``stop``."""
        self.cut = False
        """Whether the bytes end inside a record that may be sound."""
        self._timestamps = vec[i64]([0] * room)
        self._offsets = vec[i64]([0] * room)
        self._keys = vec[i64]([0] * room)
        self._key_stops = vec[i64]([0] * room)
        self._values = vec[i64]([0] * room)
        self._value_stops = vec[i64]([0] * room)
        self._header_counts = vec[i64]([0] * room)
        self._places = vec[i64]([0] * 0)
        self._placed: i64 = 0
        """Headers whose places were written last, whether their record is sound or not."""
        self._room: i64 = room

    @property
    def size(self) -> int:
        """Bytes of memory that its columns take once they are compact."""
        return 8 * (7 * self._room + len(self._places))

    def compact(self) -> None:
        """Take less memory; nothing is read into it after this."""
        self._timestamps, self._offsets = compact(self._timestamps), compact(self._offsets)
        self._keys, self._key_stops = compact(self._keys), compact(self._key_stops)
        self._values, self._value_stops = compact(self._values), compact(self._value_stops)
        self._header_counts, self._places = compact(self._header_counts), compact(self._places)

    def fill(self, columns: EvenColumns) -> None:
        """Take the columns of sound records without headers, made otherwise; nothing is read into it after this."""
        self.records, self.stop, self.in_order = columns.records, columns.stop, columns.in_order
        self._timestamps, self._offsets = compact(columns.timestamps), compact(columns.offsets)
        self._keys, self._key_stops, self._values, self._value_stops = map(compact, columns.spans)
        self._header_counts = compact([0] * columns.records)
        self._room = columns.records

    # ---- columns

    @property
    def deltas(self) -> Sequence[int]:
        """Offset deltas."""
        return range(self.records) if self.in_order else packed(self._offsets, self.records)

    @property
    def timestamp_deltas(self) -> array[int]:
        """Times in milliseconds after that of the batch."""
        return packed(self._timestamps, self.records)

    @property
    def keys(self) -> tuple[array[int], array[int]]:
        """(starts, stops) of keys; -1 for null."""
        return packed(self._keys, self.records), packed(self._key_stops, self.records)

    @property
    def values(self) -> tuple[array[int], array[int]]:
        """(starts, stops) of values; -1 for null."""
        return packed(self._values, self.records), packed(self._value_stops, self.records)

    @property
    def places(self) -> array[int]:
        """Places of all headers, as in ``HeaderSpans``."""
        return packed(self._places, 4 * self.headers)

    @property
    def header_counts(self) -> array[int]:
        """Number of headers of each record."""
        return packed(self._header_counts, self.records)

    def times_ns(self, base: int) -> Sequence[int | None]:
        """Times in nanoseconds, where that of the batch is ``base`` milliseconds; None for none (below 0)."""
        if not 0 <= base <= TIME_MS_MAX:
            return [time_ns(base + delta) for delta in self.timestamp_deltas]
        if not _NATIVE and self.records:
            numbers = self.timestamp_deltas
            if -base <= min(numbers) and max(numbers) <= TIME_MS_MAX - base:
                return array("q", [(base + delta) * MILLISECOND_NS for delta in numbers])
        deltas = self._timestamps
        times = vec[i64]([0] * self.records)
        first: i64 = base
        lowest, highest = -first, TIME_MS_MAX - first
        for at in range(self.records):
            delta = deltas[at]
            if delta < lowest or delta > highest:
                return [time_ns(base + delta) for delta in self.timestamp_deltas]
            times[at] = (first + delta) * MILLISECOND_NS
        return packed(times, self.records)

    # ---- records, written by the walks

    def stride(self, data: bytes, end: i64, count: i64) -> None:  # noqa: C901, PLR0915  # rule 1
        """Read records up to ``count`` in all, or to the first one that is odd."""
        timestamps, offsets, header_counts = self._timestamps, self._offsets, self._header_counts
        keys, key_stops, values, value_stops = self._keys, self._key_stops, self._values, self._value_stops
        pos = self.stop
        last, at, in_order = pos, self.records, self.in_order
        headers = placed = self.headers
        try:
            for at in range(at, min(count, self._room)):  # noqa: B020  # the range is made once
                size: i64 = data[pos]
                pos += 1
                if size > 0x7F:
                    more: i64 = data[pos]
                    if more < 0x80:
                        size += (more << 7) - 0x80
                        pos += 1
                    else:
                        size, pos = read_varint(data, pos - 1, end)
                        size <<= 1
                stop = pos + (size >> 1)
                if stop > end or size & 1:
                    break

                timestamp: i64 = data[pos + 1]
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

                offset: i64 = data[pos]
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
                if size != 1:
                    if size > 0x7F:
                        size, pos = read_varint(data, pos - 1, stop)
                        size <<= 1
                    if size & 1 or size < 0:
                        break
                    key = pos
                    key_stop = pos = pos + (size >> 1)
                else:
                    key = key_stop = -1

                size = data[pos]
                pos += 1
                if size != 1:
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
                else:
                    value = value_stop = -1

                if data[pos]:
                    pos = self._place_headers(data, pos, stop, headers)
                    placed = self._placed
                else:
                    pos += 1
                if pos != stop:
                    break
                if offset != at:
                    in_order = False
                timestamps[at] = timestamp
                offsets[at] = offset
                keys[at] = key
                key_stops[at] = key_stop
                values[at] = value
                value_stops[at] = value_stop
                header_counts[at] = placed - headers
                headers = placed
                last = stop
            else:
                at = min(count, self._room)
        except (IndexError, Malformed):
            pass
        self.records, self.headers, self.stop, self.in_order = at, headers, last, in_order

    def first_even(self, data: bytes, pos: int, end: int) -> SoundRecord | None:
        """Read the record at ``pos`` into the first row; None if it is odd or has headers."""
        self.records, self.stop = 0, pos
        self.stride(data, end, 1)
        if not self.records or self.headers:
            return None
        key, value = (self._keys[0], self._key_stops[0]), (self._values[0], self._value_stops[0])
        return SoundRecord(pos, self.stop, *key, *value)

    def read_record(self, data: bytes, end: i64) -> None:
        """Read one record; Malformed if it is not whole and sound."""
        pos, at = self.stop, self.records
        size, start = read_varint(data, pos, end)
        stop = start + size
        if size < RECORD_MIN - 1:
            raise Malformed("record too short")
        if stop > end:
            raise Malformed(CUT)
        timestamp, pos = read_varlong(data, start + 1, stop)
        offset, pos = read_varint(data, pos, stop)
        key, key_stop, pos = _read_span(data, pos, stop)
        value, value_stop, pos = _read_span(data, pos, stop)
        try:
            pos = self._place_headers(data, pos, stop, self.headers)
        except IndexError:
            raise Malformed(CUT) from None
        if pos != stop:
            raise Malformed("record of another size than its fields")
        self._timestamps[at], self._offsets[at] = timestamp, offset
        self._keys[at], self._key_stops[at] = key, key_stop
        self._values[at], self._value_stops[at] = value, value_stop
        self._header_counts[at] = self._placed - self.headers
        self.headers = self._placed
        self.in_order = self.in_order and offset == at
        self.records, self.stop = at + 1, stop

    def _place_headers(self, data: bytes, pos: i64, end: i64, headers: i64) -> i64:
        """Write the places of the headers whose count is at ``pos`` after those of ``headers`` headers.

        Returns the offset after them; IndexError if ``data`` ends inside them.
        """
        count: i64 = data[pos]
        if count < 0x80 and not count & 1:
            count >>= 1
            pos += 1
        else:
            count, pos = read_varint(data, pos, end)
        if count < 0:
            raise Malformed("negative number of headers")
        if 2 * count > end - pos:
            raise Malformed("more headers than bytes")
        if count + headers > HEADERS_MAX:
            raise Malformed("more headers in a batch than are read")
        at = 4 * headers
        last = at + 4 * count
        if last > len(self._places):
            self._make_room(last)
        places = self._places
        while at < last:
            size: i64 = data[pos]
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
                value = pos
                if size < 0:
                    value = -1
                else:
                    pos += size
            places[at] = key
            places[at + 1] = stop
            places[at + 2] = value
            places[at + 3] = pos
            at += 4
        self._placed = headers + count
        return pos

    def _make_room(self, wanted: i64) -> None:
        """Make room for more places: at first as if all records had as many, within a limit, then twice as many."""
        more = wanted
        if len(self._places) == 0:
            more = max(wanted, min(wanted * self._room, _PLACES_FIRST))
        self._places = extend(self._places, vec[i64]([0] * more))


def walk(data: bytes, pos: int, end: int, count: int) -> WalkedRecords:
    """Read ``count`` records of ``data[pos:end]``, or as many as are whole and sound before that."""
    if not _NATIVE and count >= EVEN_MIN and may_be_even(data, pos):
        even = walk_even(data, pos, end, count)
        if even is not None:
            return even
    walked = WalkedRecords(_most(pos, end, count), pos)
    while True:
        walked.stride(data, end, count)
        if walked.records == count or not _reads_one(walked, data, end):
            return walked


def walk_even(data: bytes, pos: int, end: int, count: int) -> WalkedRecords | None:
    """As ``walk``, if all records come in runs of one shape; only where vectors are lists."""
    columns = EvenColumns(pos)
    probe = WalkedRecords(1, pos)
    while columns.records < count:
        first = probe.first_even(data, columns.stop, end)
        if first is None or not columns.add_run(data, first, end, count):
            return None
    walked = WalkedRecords(0, pos)
    walked.fill(columns)
    return walked


def walk_slowly(data: bytes, pos: int, end: int, count: int) -> WalkedRecords:
    """As ``walk``, record by record."""
    walked = WalkedRecords(_most(pos, end, count), pos)
    while walked.records < count and _reads_one(walked, data, end):
        pass
    return walked


def _most(pos: int, end: int, count: int) -> int:
    """Most records that there can be; a false count takes no memory."""
    return max(0, min(count, (end - pos) // RECORD_MIN))


def _reads_one(walked: WalkedRecords, data: bytes, end: int) -> bool:
    """Read one record; false if it is not whole and sound: then what is wrong is noted."""
    try:
        walked.read_record(data, end)
    except Malformed as error:
        walked.why, walked.cut = str(error), _runs_out(data, walked.stop, end)
        return False
    return True


def _runs_out(data: bytes, pos: int, end: int) -> bool:
    """Whether the bytes end before the record at ``pos`` does."""
    try:
        size, pos = read_varint(data, pos, end)
    except Malformed as error:
        return str(error) == CUT
    return size > end - pos


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
