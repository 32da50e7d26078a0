"""Pieces of snapshots of the metadata log in, one connection's; the bytes that batches can be read from, out.

1. A piece ends where the follower's limit is, perhaps inside a batch, whose beginning waits for the next pieces. They
   are joined once, when the batch has ended.
2. Each record of such a batch is given with the piece in which it ends, as the next one may never come; those of a
   compressed batch, which nobody writes there, with the last one.
3. If the piece before was not seen, the start of the first batch is unknown: the piece is read from its first whole
   batch with a right checksum on, and shown by its size if it has none.
4. A follower fetches one snapshot after the other: one is remembered, and twice ``BEGUN_MAX`` bytes of it at most.
5. KRaft's metadata log has the same topic id in every cluster. The 2.8 preview gave it another name, and fetched it by
   name.
6. A TopicRecord of this log gives a topic's id its name for good: replicas learn names from nothing else.

Sources: KIP-500, KIP-630; ``KafkaRaftClient``, ``FileRawSnapshotReader``, ``Topic.CLUSTER_METADATA_TOPIC_NAME`` and
``TopicRecord`` of Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from mqsniff.limits import MIB
from mqsniff.spec.wire import Malformed, as_name
from mqsniff_kafka.fieldpaths import METADATA_LOG
from mqsniff_kafka.formats.internaltopics import METADATA_TOPICS, decode_framed
from mqsniff_kafka.records.begun import BegunRecords, drop_records, find_batch
from mqsniff_kafka.records.reading import RecordDataReading

# ---- the metadata log

PAGE: Final = "cluster_metadata"
TOPIC_RECORD: Final = 2
TYPE_AT: Final = 1
"""Where a record has its type, behind the version of its frame: varints of one byte, so far."""


def is_metadata_log(topic: str | None) -> bool:
    """Whether a name or an id is the metadata log's."""
    return topic in METADATA_TOPICS or topic == METADATA_LOG[0]


def topics_named(reading: RecordDataReading) -> Iterator[tuple[str, str]]:
    """(topic id, name) of each topic that opened records of the log name."""
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
OVERHEAD: Final = 12
"""Bytes of a batch up to its length, which counts those behind."""


@dataclass(slots=True)
class _Begun:
    """A snapshot that pieces are still to come of."""

    snapshot: Any
    position: int
    """Where the next piece begins."""
    parts: list[bytes]
    """The beginning of a batch, which ends at ``position``."""
    size: int
    wants: int
    """Bytes that have to be there before it is worth looking again."""
    records: BegunRecords
    """What is given of that batch before it ends."""


class JoinedSnapshot(NamedTuple):
    """What can be read with a piece."""

    data: bytes
    start: int = 0
    """Where a batch begins in it."""
    unread: int = 0
    """Bytes of the piece before the first batch that can be read (rule 3)."""
    begun: _Begun | None = None
    """The batch that the piece goes on with, or ends."""
    inside: bytes | None = None
    """The piece, where that batch does not end in it."""


class Snapshots:
    """The snapshot that one connection is in the middle of."""

    def __init__(self) -> None:
        self._begun: _Begun | None = None

    def join(self, snapshot: Any, position: int, piece: bytes) -> JoinedSnapshot | None:
        """The bytes from the beginning of a batch on that end with a piece, none while that batch goes on.

        None where no batch can be found.
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
        """Take note of what was read of a piece, and give the records that end in it, if their batch does not.

        ``position``: where the next piece begins; None for none, and where the end of this one was lost. Gives the
        bytes that wait for the end of their batch.
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
