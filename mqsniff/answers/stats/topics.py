"""Record batches in, a row for each topic out: what was produced and delivered, and beside it what was not new data.

1. A record counts once: as ``produced`` or ``delivered``, or as the first of ``BESIDE`` that is true of it.
2. Bytes are those of values (``value_size``), uncompressed; keys and headers do not count.
3. ``resent``: its producer had sent this sequence number, or a later one, to the same partition before. Only producers
   that number what they send can be seen to repeat themselves. Of a message in chunks the joined one counts.
4. Batches are not taken apart where all of their records are of one kind: ``take`` runs once a batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from mqsniff.answers.stats.keeping import OTHERS, KeptTallies, StatRow
from mqsniff.limits import SECOND_NS
from mqsniff.model import Message, RecordBatch, TopicRole

BESIDE: Final = (
    *("control", "refused", "chunks", "resent"),
    *("follower", "other_readers", "aborted", "left_out", "before_asked", "redelivered"),
)
"""What is counted beside produced and delivered records, in the order in which it is asked."""
_FIELDS: Final = ("control", "ack", "chunk_id", "reader", "aborted", "left_out", "before_asked", "attempts")
"""Columns of records that tell it."""
_TURN: Final = 1 << 30
"""Sequence numbers so far apart have begun anew."""

ProtocolTopic = tuple[str, str | None]
"""(protocol, topic)."""


class RecordCounts:
    """Records of one direction."""

    __slots__ = ("count", "size")

    def __init__(self) -> None:
        self.count = self.size = 0


class TopicTally:
    """What is counted of one topic."""

    __slots__ = ("counts", "first_ns", "last_ns")

    def __init__(self) -> None:
        self.counts: dict[str, RecordCounts] = {}
        self.first_ns = self.last_ns = 0

    def add(self, what: str, count: int, size: int) -> None:
        """Count records."""
        counts = self.counts.get(what)
        if counts is None:
            counts = self.counts[what] = RecordCounts()
        counts.count += count
        counts.size += size

    def row(self, duration_ns: int | None) -> StatRow:
        """The figures as columns; rates are over the whole capture."""
        row: StatRow = {}
        for what in ("produced", "delivered"):
            counts = self.counts.get(what) or RecordCounts()
            row[what] = counts.count
            row[f"{what}_bytes"] = counts.size
            row[f"{what}_per_s"] = _rate(counts.count, duration_ns)
            row[f"{what}_bytes_per_s"] = _rate(counts.size, duration_ns)
        for what in BESIDE:
            counts = self.counts.get(what) or RecordCounts()
            row[what] = counts.count
            row[f"{what}_bytes"] = counts.size
        return row


class TopicStats:
    """Topics by protocol and name; a topic whose name nobody taught goes by its id."""

    def __init__(self, limit: int, roles: dict[str, Any]) -> None:
        """``roles``: protocol -> what tells the role of a topic by its name."""
        self._topics: KeptTallies[ProtocolTopic, TopicTally] = KeptTallies(limit, TopicTally)
        self._sent: dict[tuple[Any, ...], tuple[int, int]] = {}
        self._limit = limit
        self._roles = roles

    def take(self, message: Message, batch: RecordBatch) -> None:
        """Count a batch. Hot: once a batch."""
        constant, columns, count = batch.constant, batch.columns, batch.count
        topic = constant.get("topic")
        if topic is None:
            topic = constant.get("topic_id")
        if topic is None and "topic" in columns:
            self._take_apart(message, batch)
            return
        tally = self._topics.of((message.protocol, topic))
        resent = self._is_resent(message.protocol, topic, batch)
        if columns.keys().isdisjoint(_FIELDS):
            tally.add(_what(constant.get("direction"), constant, resent=resent), count, sum_of_values(batch))
            return
        sizes = sizes_of_values(batch)
        told = [(name, columns[name]) for name in _FIELDS if name in columns]
        for index in range(count):
            own = constant | {name: column[index] for name, column in told}
            tally.add(_what(constant.get("direction"), own, resent=resent), 1, sizes[index])

    def _take_apart(self, message: Message, batch: RecordBatch) -> None:
        """Count a batch whose records are of several topics."""
        sizes, columns = sizes_of_values(batch), batch.columns
        told = [(name, columns[name]) for name in (*_FIELDS, "topic") if name in columns]
        for index in range(batch.count):
            own = batch.constant | {name: column[index] for name, column in told}
            tally = self._topics.of((message.protocol, own.get("topic")))
            tally.add(_what(own.get("direction"), own, resent=False), 1, sizes[index])

    def _is_resent(self, protocol: str, topic: str | None, batch: RecordBatch) -> bool:
        """Whether a producer has sent this batch before (rule 3)."""
        constant = batch.constant
        if constant.get("direction") != "produce" or not batch.count or constant.get("joined"):
            return False
        producer = constant.get("producer_id")
        if producer is None:
            producer = constant.get("producer_name")
        sequence = batch.columns["sequence"][0] if "sequence" in batch.columns else constant.get("sequence")
        if producer is None or sequence is None:
            return False
        key = (protocol, topic, constant.get("partition"), producer, constant.get("producer_epoch"))
        number = (sequence, constant.get("chunk_id") or 0)
        before = self._sent.get(key)
        if before is not None and number <= before and before[0] - sequence < _TURN:
            return True
        if before is not None or len(self._sent) < self._limit:
            self._sent[key] = (sequence + batch.count - 1, number[1])
        return False

    def rows(self, duration_ns: int | None) -> list[StatRow]:
        """A row a topic: those of users first, then by records."""
        found = [self._row(key, tally, duration_ns) for key, tally in self._topics]
        return sorted(
            found, key=lambda row: (row["role"] is not None, -row["produced"] - row["delivered"], row["topic"])
        )

    def tallies(self) -> Iterator[tuple[ProtocolTopic | None, TopicTally]]:
        """(protocol and topic, tally) in the order in which topics were first seen; at last None for all others."""
        return iter(self._topics)

    def role(self, protocol: str, topic: str | None) -> TopicRole | None:
        """What a topic is for besides data of users."""
        tell = self._roles.get(protocol)
        role: TopicRole | None = tell(topic) if topic is not None and tell is not None else None
        return role

    def _row(self, key: ProtocolTopic | None, tally: TopicTally, duration_ns: int | None) -> StatRow:
        protocol, topic = key or (OTHERS, OTHERS)
        role = self.role(protocol, topic)
        return {"protocol": protocol, "topic": topic or "(no name)", "role": role, **tally.row(duration_ns)}


def _what(direction: Any, own: dict[str, Any], *, resent: bool) -> str:
    """What a record counts as (rule 1)."""
    if own.get("control"):
        return "control"
    chunk = own.get("chunk_id") is not None and not own.get("joined")
    if direction == "produce":
        if own.get("ack") == "failed":
            return "refused"
        if chunk:
            return "chunks"
        return "resent" if resent else "produced"
    reader = own.get("reader")
    if reader is not None and reader != "consumer":
        return "follower" if reader == "follower" else "other_readers"
    if chunk:
        return "chunks"
    if own.get("aborted"):
        return "aborted"
    if own.get("left_out") is not None:
        return "left_out"
    if own.get("before_asked"):
        return "before_asked"
    return "redelivered" if (own.get("attempts") or 1) > 1 else "delivered"


def sum_of_values(batch: RecordBatch) -> int:
    """Bytes of the values of a batch, as the column ``value_size`` adds up."""
    if "value_size" in batch.columns or batch.values is None or batch.constant.get("value_size") is not None:
        return sum(sizes_of_values(batch))
    starts, stops = batch.values
    if batch.count == 1:
        return int(stops[0] - starts[0]) if starts[0] >= 0 else 0
    if len(starts) and min(starts) >= 0:
        return int(sum(stops) - sum(starts))
    return sum(sizes_of_values(batch))


def sizes_of_values(batch: RecordBatch) -> list[int]:
    """Bytes of each value; 0 for null."""
    told: Sequence[Any] = batch.columns.get("value_size") or [batch.constant.get("value_size")] * batch.count
    if batch.values is None:
        return [size or 0 for size in told]
    starts, stops = batch.values
    return [
        size or 0 if start < 0 else max(int(stop - start), size or 0)
        for start, stop, size in zip(starts, stops, told, strict=True)
    ]


def _rate(number: int, duration_ns: int | None) -> float | None:
    return round(number * SECOND_NS / duration_ns, 3) if duration_ns else None
