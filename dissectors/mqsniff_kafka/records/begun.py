"""Whole records of a batch that begins or ends in another message.

1. Bytes are joined when the next record is whole, so that a record over many pieces costs one copy.
2. Problems of the batch are noted when all of it was read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final

from crc32c import crc32c

from mqsniff.spec.wire import Malformed, read_varint
from mqsniff_kafka.records.batches import CHECKED_FROM, HEAD, LENGTH_MIN, OVERHEAD, read_batches, records_of
from mqsniff_kafka.records.compression import CODEC_MASK
from mqsniff_kafka.records.reading import Batch, RecordDataReading
from mqsniff_kafka.records.walk import walk

TRIES: Final = 256
"""Offsets whose checksum is tried: each may cost a pass over all bytes behind it."""

_MAY_BE_BATCH: Final = re.compile(rb"\x00[\x00-\xff]{7}\x00[\x00-\xff]{7}\x02(?=[\x00-\xff]{4}\x00[\x00-\x7f])")
"""Offset, length, epoch, magic, checksum, attributes."""


@dataclass(slots=True)
class BegunRecords:
    """The records so far of one uncompressed batch of magic 2."""

    given: int = 0
    """Number of records that were given."""
    _head: dict[str, Any] | None = None
    _parts: list[bytes] = field(default_factory=list)
    """Its bytes behind these records; all of its bytes until its head is whole."""
    _size: int = 0
    _wants: int = HEAD.size
    """Number of bytes that the next attempt needs; 0: no attempt."""

    def add(self, reading: RecordDataReading, data: bytes) -> None:
        """Take the next bytes of the batch; adds the records that end in them to the reading."""
        self._parts.append(data)
        self._size += len(data)
        if not 0 < self._wants <= self._size:
            return
        rest = b"".join(self._parts)
        if self._head is None:
            head = _head_of(rest)
            if head is None:
                self._wants = 0
                return
            self._head, rest = head, rest[HEAD.size :]
        stop = self._give(reading, self._head, rest)
        rest = rest[stop:]
        self._parts, self._size = [rest], len(rest)
        if self._wants:
            self._wants = _record_size(rest)

    def _give(self, reading: RecordDataReading, head: dict[str, Any], rest: bytes) -> int:
        """Add the whole records to the reading; returns the offset behind them."""
        walked = walk(rest, 0, len(rest), min(head["records"] - self.given, reading.records_left))
        if walked.records:
            records = records_of(reading, head, rest, walked)
            records.columns["record_index"] = range(self.given, self.given + walked.records)
            reading.begun = Batch(head, reading.stop - reading.cut, reading.stop, records=records)
            reading.records_left -= walked.records
            self.given += walked.records
        if not walked.cut:
            self._wants = 0
        return walked.stop


def _head_of(data: bytes) -> dict[str, Any] | None:
    """The head of a batch that is not whole; None if its records cannot be read yet (compression)."""
    begun = read_batches(data, 0, len(data), decompress_max=0, open_records=False).begun
    if begun is None or begun.head["magic"] != 2 or begun.head["attributes"] & CODEC_MASK:
        return None
    return begun.head if begun.head["records"] > 0 else None


def _record_size(data: bytes) -> int:
    """Size of the record that begins here; if not known yet, one more than the bytes at hand."""
    try:
        size, pos = read_varint(data, 0, len(data))
    except Malformed:
        return len(data) + 1
    return pos + size


def drop_records(reading: RecordDataReading, count: int) -> None:
    """Remove records that were given before from the start of a reading's first batch."""
    records = reading.batches[0].records if reading.batches and count else None
    if records is None:
        return
    assert records.keys is not None
    assert records.values is not None
    columns: dict[str, Any] = {"record_index": range(records.count), **records.columns}
    records.columns = {name: column[count:] for name, column in columns.items()}
    (keys, key_stops), (values, value_stops) = records.keys, records.values
    records.keys, records.values = (keys[count:], key_stops[count:]), (values[count:], value_stops[count:])
    if records.headers is not None:
        records.headers, records.header_spans = records.headers[count:], None
    records.count -= count


def find_batch(data: bytes) -> int | None:
    """Offset of the first whole batch of magic 2 with a right checksum; None if there is none."""
    tries, pos = TRIES, 0
    while tries and (found := _MAY_BE_BATCH.search(data, pos)) is not None:
        start = found.start()
        stop = start + OVERHEAD + int.from_bytes(data[start + 8 : start + OVERHEAD], "big")
        if start + OVERHEAD + LENGTH_MIN <= stop <= len(data):
            tries -= 1
            checksum = int.from_bytes(data[start + CHECKED_FROM - 4 : start + CHECKED_FROM], "big")
            if crc32c(memoryview(data)[start + CHECKED_FROM : stop]) == checksum:
                return start
        pos = start + 1
    return None
