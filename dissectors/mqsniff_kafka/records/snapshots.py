"""Joins the pieces of a metadata-log snapshot on one connection, so that batches can be read.

1. A piece ends at the follower's limit, often inside a batch. The start of that batch waits for the next pieces; they
   are joined once, when the batch is whole.
2. A record of such a batch is given with the piece in which it ends, since the next piece may never come. Records of a
   compressed batch, which Kafka does not write there, are given with the last piece.
3. If the piece before was not seen, the start of the first batch is unknown. Then reading starts at the first whole
   batch with a right checksum; without one, only the size of the piece is shown.
4. A follower fetches one snapshot after the other: one is kept, with at most twice ``BEGUN_MAX`` of its bytes.
5. KRaft's metadata log has the same topic id in every cluster. The 2.8 preview gave it another name, and fetched it by
   name.
6. A TopicRecord of this log gives a topic id its name for ever: replicas have no other source of names.
7. Bytes of an unfinished batch are joined when the next record is whole, so that a record over many pieces costs one
   copy. Problems of the batch are noted when all of it was read.

Sources: KIP-500, KIP-630; ``KafkaRaftClient``, ``FileRawSnapshotReader``, ``Topic.CLUSTER_METADATA_TOPIC_NAME`` and
``TopicRecord`` of Apache Kafka.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from crc32c import crc32c

from mqsniff.limits import MIB
from mqsniff.spec.wire import Malformed, as_name, read_varint
from mqsniff_kafka.fieldpaths import METADATA_LOG
from mqsniff_kafka.formats.internaltopics import METADATA_TOPICS, decode_framed
from mqsniff_kafka.records.batches import CHECKED_FROM, HEAD, LENGTH_MIN, OVERHEAD, read_batches, records_of
from mqsniff_kafka.records.compression import CODEC_MASK
from mqsniff_kafka.records.reading import Batch, RecordDataReading
from mqsniff_kafka.records.walk import walk

# ---- batches that are not whole yet

TRIES: Final = 256
"""Offsets whose checksum is tried: each may cost a pass over all bytes after it."""

_MAY_BE_BATCH: Final = re.compile(rb"\x00[\x00-\xff]{7}\x00[\x00-\xff]{7}\x02(?=[\x00-\xff]{4}\x00[\x00-\x7f])")
"""Offset, length, epoch, magic, checksum, attributes."""


@dataclass(slots=True)
class BegunRecords:
    """The records so far of one uncompressed batch of magic 2."""

    given: int = 0
    """Number of records that were given."""
    _head: dict[str, Any] | None = None
    _parts: list[bytes] = field(default_factory=list)
    """Its bytes after these records; all of its bytes until its head is whole."""
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
        """Add the whole records to the reading; returns the offset after them."""
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


# ---- the metadata log

PAGE: Final = "cluster_metadata"
TOPIC_RECORD: Final = 2
TYPE_AT: Final = 1
"""Offset of the type in a record: the frame version before it is a varint of one byte, so far."""


def is_metadata_log(topic: str | None) -> bool:
    """Whether a topic name or id is the metadata log's."""
    return topic in METADATA_TOPICS or topic == METADATA_LOG[0]


def topics_named(reading: RecordDataReading) -> Iterator[tuple[str, str]]:
    """(topic id, name) of each TopicRecord in opened records of the log."""
    for batch in reading.records:
        if batch.values is None or batch.constant.get("control"):
            continue
        for start, stop in zip(*batch.values, strict=True):
            if start >= 0 and batch.data[start + TYPE_AT : stop][:1] == bytes((TOPIC_RECORD,)):
                yield from _named(batch.data[start:stop])


def _named(value: bytes) -> Iterator[tuple[str, str]]:
    try:
        record = decode_framed(PAGE, value)["value"]
    except Malformed:
        return
    name, topic_id = as_name(record.get("name")), record.get("topic_id")
    if name is not None and isinstance(topic_id, str):
        yield topic_id, name


# ---- snapshots

BEGUN_MAX: Final = 8 * MIB
"""The largest batch of a metadata log (``KafkaRaftClient.MAX_BATCH_SIZE_BYTES``)."""


@dataclass(slots=True)
class _Begun:
    """A snapshot whose last piece has not come yet."""

    snapshot: Any
    position: int
    """Position of the next piece."""
    parts: list[bytes]
    """The start of a batch, up to ``position``."""
    size: int
    wants: int
    """Number of bytes that the next attempt needs."""
    records: BegunRecords
    """The records of that batch that were given already."""


class JoinedSnapshot(NamedTuple):
    """The bytes that can be read with a piece."""

    data: bytes
    start: int = 0
    """Offset of the first batch in them."""
    unread: int = 0
    """Bytes of the piece before that batch (rule 3)."""
    begun: _Begun | None = None
    """The batch that the piece continues or ends."""
    inside: bytes | None = None
    """The piece, if that batch does not end in it."""


class Snapshots:
    """The unfinished snapshot of one connection."""

    def __init__(self) -> None:
        self._begun: _Begun | None = None

    def join(self, snapshot: Any, position: int, piece: bytes) -> JoinedSnapshot | None:
        """The bytes from the start of a batch to the end of a piece; empty while that batch is not whole.

        None if no batch is found.
        """
        begun, self._begun = self._begun, None
        if position == 0:
            return JoinedSnapshot(piece)
        if begun is None or (begun.snapshot, begun.position) != (snapshot, position):
            start = find_batch(piece)
            return None if start is None else JoinedSnapshot(piece, start, unread=start)
        begun.parts.append(piece)
        begun.size += len(piece)
        begun.position += len(piece)
        if begun.size >= begun.wants:
            return JoinedSnapshot(b"".join(begun.parts), begun=begun)
        return JoinedSnapshot(b"", begun=begun, inside=piece)

    def follow(self, snapshot: Any, position: int | None, joined: JoinedSnapshot, reading: RecordDataReading) -> int:
        """Note what was read of a piece; add the records that end in it if their batch does not.

        ``position``: of the next piece; None if there is none, or if the end of this one was lost. Returns the number
        of bytes that wait for the end of their batch.
        """
        begun = joined.begun
        if joined.inside is not None:
            assert begun is not None
            begun.records.add(reading, joined.inside)
            self._begun = begun if position is not None else None
            return begun.size
        if begun is not None:
            drop_records(reading, begun.records.given)
        if reading.lost:
            return 0
        rest, records = reading.cut_bytes, BegunRecords()
        records.add(reading, rest)
        wants = OVERHEAD
        if len(rest) >= OVERHEAD:
            wants += int.from_bytes(rest[8:OVERHEAD], "big", signed=True)
        if position is not None and wants <= BEGUN_MAX:
            self._begun = _Begun(snapshot, position, [rest], len(rest), wants, records)
        return len(rest)
