"""The first reading of the captures: items in, the records that were asked for out, and what else there is.

1. A record is one however often it was sent and delivered: its names (``identities``) tell.
2. At most ``trace_records_max`` records are told apart; beyond them there are "more than" so many.
3. Where nothing fits, the nearest names and the offsets that were seen are told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from mqsniff.answers.trace.acting import Acts
from mqsniff.answers.trace.identities import content_of, identities
from mqsniff.limits import Limits
from mqsniff.model import CaptureInfo, Item, Message, RecordBatch, RecordItem
from mqsniff.tables.rows import record_rows
from mqsniff.tables.values import Redaction

NAMES_MAX: Final = 1000
"""Topics and partitions that are remembered to be told where nothing was found."""

Choose = Callable[[Message, RecordBatch], RecordBatch | None]
"""The records of a batch that were asked for; None where none was."""


@dataclass(slots=True, eq=False)
class TracedRecord:
    """A record that was asked for, and all names that it was seen under."""

    row: dict[str, Any]
    """Its first row of ``records``, as it may be shown."""
    content: bytes
    first_ns: int
    names: dict[tuple[Any, ...], None] = field(default_factory=dict)
    places: dict[tuple[Any, ...], None] = field(default_factory=dict)
    """Where it lies: (topic, partition, offset, broker); the broker is None where all brokers agree on places."""
    topics: dict[str, None] = field(default_factory=dict)
    """Topics that it, or a copy of it, was seen in, and their ids."""
    transactions: dict[str, int] = field(default_factory=dict)
    """Transactions that it was sent in, and when."""

    @property
    def topic(self) -> str | None:
        """Its topic, or the id of it."""
        topic: str | None = self.row["topic"] or self.row["topic_id"]
        return topic

    def lies(self, row: dict[str, Any]) -> None:
        """Note where one of its rows says that it lies."""
        broker = row["server"] if row["message_id"] is not None else None
        for topic in filter(None, (row["topic"], row["topic_id"])):
            self.topics[topic] = None
            if row["offset"] is not None:
                self.places[topic, row["partition"], row["offset"], broker] = None


@dataclass(slots=True)
class SeenOffsets:
    """What was seen of one partition."""

    first: int | None = None
    last: int | None = None
    records: int = 0

    def take(self, offsets: Iterable[int | None], count: int) -> None:
        """Note the offsets of some records."""
        self.records += count
        known = [offset for offset in offsets if offset is not None]
        if known:
            self.first = min(known) if self.first is None else min(self.first, *known)
            self.last = max(known) if self.last is None else max(self.last, *known)


class RecordFinder:
    """Looks for records."""

    def __init__(
        self, choose: Choose, message_ids: tuple[str, ...], acts: Acts, shown: Redaction, limits: Limits
    ) -> None:
        self._choose = choose
        self._ids = message_ids
        self._acts = acts
        self._shown = shown
        self._most = limits.trace_records_max
        self._named: dict[tuple[Any, ...], TracedRecord] = {}
        self._by_content: dict[tuple[str, str | None, bytes], TracedRecord] = {}
        self._records: dict[int, TracedRecord] = {}
        self.overflow = False
        """Whether there are more records than are told apart."""
        self.partitions: dict[tuple[str, str, int | None], SeenOffsets] = {}
        """What records there are, by protocol, topic and partition."""
        self.seen = 0
        """Records of all topics, as often as they were seen."""

    def take(self, item: Item, captures: list[CaptureInfo]) -> None:
        """Look at an item."""
        if not isinstance(item, RecordItem):
            return
        self._note(item.message, item.batch)
        batch = self._choose(item.message, item.batch)
        if batch is None:
            return
        rows = record_rows(item.connection, item.message, batch, captures, self._shown)
        for index, row in enumerate(rows):
            if (not self._ids or self._has_id(row)) and not row["control"]:
                self._found(item.message, row, content_of(batch, index))

    def found(self) -> list[TracedRecord]:
        """The records, the oldest first; what has no name of its own belongs to the delivery with the same content."""
        named: dict[tuple[str | None, bytes], list[TracedRecord]] = {}
        for record in self._records.values():
            if record.names:
                named.setdefault((record.topic, record.content), []).append(record)
        for record in [record for record in self._records.values() if not record.names]:
            same = named.get((record.topic, record.content), ())
            if len(same) == 1:
                same[0].first_ns = min(same[0].first_ns, record.first_ns)
                del self._records[id(record)]
        return sorted(self._records.values(), key=lambda record: record.first_ns)

    def _has_id(self, row: dict[str, Any]) -> bool:
        told, unique = row["message_id"], row["unique_key"]
        return any(
            wanted in (told, unique) or (told is not None and told.startswith(f"{wanted}:")) for wanted in self._ids
        )

    def _found(self, message: Message, row: dict[str, Any], content: bytes) -> None:
        names = identities(row)
        record = next((self._named[name] for name in names if name in self._named), None)
        if record is None and not names:
            record = self._by_content.get((row["protocol"], row["topic"], content))
        if record is None:
            if len(self._records) >= self._most:
                self.overflow = True
                return
            record = TracedRecord(row, content, row["ts_ns"])
            self._records[id(record)] = record
            if not names:
                self._by_content[row["protocol"], row["topic"], content] = record
        record.first_ns = min(record.first_ns, row["ts_ns"])
        self._rename(record, names)
        record.lies(row)
        if row["offset"] is not None and record.row["offset"] is None:
            record.row |= {name: row[name] for name in ("offset", "partition", "message_id") if row[name] is not None}
        if row["direction"] == "produce":
            for act in self._acts.of(message):
                if act.transaction is not None:
                    record.transactions.setdefault(act.transaction, row["ts_ns"])

    def _rename(self, record: TracedRecord, names: Iterable[tuple[Any, ...]]) -> None:
        """Take names to a record, and all other records that have them."""
        for name in names:
            other = self._named.get(name)
            if other is not None and other is not record:
                record.names |= other.names
                record.places |= other.places
                record.topics |= other.topics
                record.transactions = other.transactions | record.transactions
                record.first_ns = min(record.first_ns, other.first_ns)
                self._records.pop(id(other), None)
                for old in other.names:
                    self._named[old] = record
            record.names[name] = None
            self._named[name] = record

    def _note(self, message: Message, batch: RecordBatch) -> None:
        """Remember what there is."""
        self.seen += batch.count
        offsets = batch.columns.get("offset")
        for topic, partition, indexes in _places(batch):
            place = message.protocol, topic, partition
            if place not in self.partitions and len(self.partitions) >= NAMES_MAX:
                continue
            known = [batch.constant.get("offset") if offsets is None else offsets[i] for i in _ends(indexes)]
            self.partitions.setdefault(place, SeenOffsets()).take(known, len(indexes))


def _places(batch: RecordBatch) -> Iterator[tuple[str, int | None, range | list[int]]]:
    """(topic, partition, indexes) of the records of a batch."""
    constant, columns = batch.constant, batch.columns
    if not columns.keys() & {"topic", "topic_id", "partition"}:
        topic = constant.get("topic") or constant.get("topic_id")
        yield topic or "?", constant.get("partition"), range(batch.count)
        return
    places: dict[tuple[str, int | None], list[int]] = {}
    for index in range(batch.count):
        told = {
            name: columns[name][index] if name in columns else constant.get(name)
            for name in ("topic", "topic_id", "partition")
        }
        places.setdefault((told["topic"] or told["topic_id"] or "?", told["partition"]), []).append(index)
    for (topic, partition), indexes in places.items():
        yield topic, partition, indexes


def _ends(indexes: range | list[int]) -> tuple[int, ...]:
    """The first and the last index: offsets ascend inside a batch."""
    return (indexes[0], indexes[-1]) if len(indexes) else ()
