"""Replaces the record data of bodies by what they show of it; gives messages their records with all columns.

1. Every field of record data is replaced.
2. Produced records wait for the broker's response, in which their topic and partition are looked up.
3. Records of the metadata log are always opened, for the topic names in them; messages have them only if wanted.

``fields`` reads the fields; ``marking`` adds the columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mqsniff.codecs.inflation import InflationBudget
from mqsniff.dissector import Settings
from mqsniff.model import Message, Problem, RecordBatch
from mqsniff.spec.layout import Layout
from mqsniff.spec.wire import Extent, as_name
from mqsniff_kafka.fetching import Fetching
from mqsniff_kafka.fieldpaths import NO_ID, BodyFields, Branch, holders
from mqsniff_kafka.records.batches import RecordDataReading
from mqsniff_kafka.records.fields import RecordFields
from mqsniff_kafka.records.marking import mark_all, mark_answered, mark_delivered, mark_produced
from mqsniff_kafka.records.secrets import hide_secrets
from mqsniff_kafka.records.snapshots import Snapshots, is_metadata_log, topics_named

ABORTED_FIELDS: Final = 2
"""Fields of a whole aborted transaction."""


@dataclass(slots=True)
class Produced:
    """Records of one partition that wait for the broker's response."""

    topic: str | None
    """Name or id."""
    partition: int | None
    reading: RecordDataReading | None
    lone: RecordBatch | None = None
    """In place of a reading, where nobody wants more than amounts."""

    @property
    def records(self) -> tuple[RecordBatch, ...]:
        """The batches."""
        if self.reading is not None:
            return self.reading.records
        return () if self.lone is None else (self.lone,)


def replace_all(branch: Branch, body: BodyFields) -> None:
    """Replace record data that is not read by its size."""
    found: list[tuple[BodyFields, tuple[str, ...]]] = []
    holders(branch, body, found)
    for inner, fields in found:
        for field in fields:
            extent = inner.get(field)
            if isinstance(extent, Extent):
                inner[field] = {"size": extent.stop - extent.start}


class RecordData:
    """Reads the record data of the messages of one connection."""

    __slots__ = ("_budget", "_settings", "_snapshots")

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._snapshots = Snapshots()
        self._budget = InflationBudget(settings.limits, settings.work)

    def _fields(self, message: Message, layout: Layout, cut_by: str) -> RecordFields:
        frame, limits = message.frame, self._settings.limits
        self._budget.earn(len(frame.data))
        return RecordFields(
            frame.data,
            frame.size,
            layout.struct.flexible,
            message.problems,
            limits.message_problems_max,
            limits.decompress_max,
            cut_by,
            limits.wrapper_depth,
            self._budget,
        )

    def _hide(self, reading: RecordDataReading, topic: str | None) -> None:
        if not self._settings.show_secrets:
            hide_secrets(reading, topic)

    def produced(self, message: Message, layout: Layout) -> list[Produced]:
        """Read a Produce request; its message gets the records."""
        fields = self._fields(message, layout, "client")
        found: list[Produced] = []
        wanted = self._settings.wanted
        opened, amounts = "records" in wanted, "amounts" in wanted
        for path, topic, partition in _partitions(message.body, "topic_data", "partition_data"):
            reading = fields.read(partition, "records", path, opened=opened, amounts=amounts)
            if reading is None:
                if fields.lone is not None:
                    found.append(_produced_lone(topic, partition, fields.lone))
                continue
            if reading.cut and not reading.lost:
                detail = "a batch without its end"
                message.problems.append(Problem("malformed", "error", detail, f"{path}.records", size=reading.cut))
            if reading.records:
                name, constant = _topic(topic)
                mark_all(reading, constant | {"partition": partition.get("index")})
                mark_produced(reading)
                self._hide(reading, name)
                reading.data = b""  # the response needs no bytes, and may never come
                found.append(Produced(name, partition.get("index"), reading))
        message.records = tuple(batch for one in found for batch in one.records)
        return found

    def snapshot(self, message: Message, layout: Layout) -> None:
        """Read the response to FetchSnapshot; its message gets the records that became whole."""
        fields = self._fields(message, layout, "broker")
        for path, topic, partition in _partitions(message.body, "topics", "partitions"):
            (name, constant), number = _topic(topic), partition.get("index")
            snapshot = (name, number, *(partition.get("snapshot_id") or {}).values())
            reading = fields.read_piece(partition, path, self._snapshots, snapshot)
            if reading is not None:
                self._add(message, reading, name, constant | {"partition": number}, reader="follower")

    def delivered(self, message: Message, layout: Layout, fetch: Fetching) -> None:
        """Read the response to a fetch; its message gets the records."""
        fields = self._fields(message, layout, "broker")
        topics = "responses" if "responses" in message.body else "topics"
        for path, topic, partition in _partitions(message.body, topics, "partitions"):
            (name, constant), number = _topic(topic), partition.get("partition_index")
            reading = fields.read(
                partition, "records", path, opened="records" in self._settings.wanted or is_metadata_log(name)
            )
            if reading is None:
                continue
            pending = fetch.partitions.get((name, number)) if name is not None and number is not None else None
            aborted = _aborted(partition.get("aborted_transactions"))
            constant["partition"] = number
            self._add(message, reading, name, constant, reader=fetch.reader, fetch_offset=pending, aborted=aborted)
            for batch in reading.records:
                _count_deliveries(batch, partition.get("acquired_records"))

    def _add(
        self,
        message: Message,
        reading: RecordDataReading,
        topic: str | None,
        constant: dict[str, Any],
        *,
        reader: str,
        fetch_offset: int | None = None,
        aborted: list[tuple[int, int]] | None = None,
    ) -> None:
        """Add the records of a partition, and the topic names that they teach, to a message."""
        if is_metadata_log(topic):
            message.teaches += tuple(dict.fromkeys(topics_named(reading)))
        if "records" in self._settings.wanted:
            mark_all(reading, constant)
            self._hide(reading, topic)
            mark_delivered(reading, reader=reader, fetch_offset=fetch_offset, aborted=aborted)
            message.records += reading.records


def _partitions(body: BodyFields, topics: str, partitions: str) -> Iterator[tuple[str, BodyFields, BodyFields]]:
    """(path of the partition, topic, partition) of a body."""
    for at, topic in enumerate(body.get(topics) or ()):
        for index, partition in enumerate(topic.get(partitions) or ()):
            yield f"{topics}[{at}].{partitions}[{index}]", topic, partition


def _topic(topic: BodyFields) -> tuple[str | None, dict[str, Any]]:
    """(name or id of a topic, its columns)."""
    name, topic_id = _named(topic)
    return name or topic_id, {"topic": name, "topic_id": topic_id}


def _named(topic: BodyFields) -> tuple[str | None, str | None]:
    """(name, id) of a topic."""
    topic_id = topic.get("topic_id")
    return as_name(topic.get("name", topic.get("topic"))), topic_id if topic_id != NO_ID else None


def _aborted(named: list[BodyFields] | None) -> list[tuple[int, int]] | None:
    """(producer id, first offset) of each aborted transaction; None for null, as in read_uncommitted."""
    if named is None:
        return None
    return [(one["producer_id"], one["first_offset"]) for one in named if len(one) >= ABORTED_FIELDS]


def _produced_lone(topic: BodyFields, partition: BodyFields, lone: RecordBatch) -> Produced:
    """Records of a partition of which only amounts are known."""
    name, constant = _topic(topic)
    number = partition.get("index")
    lone.constant |= constant | {"partition": number, "direction": "produce"}
    return Produced(name, number, None, lone)


def _count_deliveries(batch: RecordBatch, acquired: list[BodyFields] | None) -> None:
    """Fill in how often a share group got each record, this time included; ranges are in order."""
    if not acquired:
        return
    ranges = [(one.get("first_offset", 0), one.get("last_offset", -1), one.get("delivery_count")) for one in acquired]
    counts: list[Any] = []
    at = 0
    for offset in batch.columns["offset"]:
        if offset is None:
            counts.append(None)
            continue
        while at < len(ranges) and ranges[at][1] < offset:
            at += 1
        inside = at < len(ranges) and ranges[at][0] <= offset
        counts.append(ranges[at][2] if inside else None)
    batch.columns["attempts"] = counts


def complete(produced: Sequence[Produced], answer: Message) -> None:
    """Fill produced records from their response: offsets, times and ``ack``."""
    partitions: dict[tuple[str | None, Any], BodyFields] = {}
    body: BodyFields = answer.body
    for topic in body.get("responses") or ():
        name, topic_id = _named(topic)
        for partition in topic.get("partition_responses") or ():
            partitions[name or topic_id, partition.get("index")] = partition
    for one in produced:
        found = partitions.get((one.topic, one.partition))
        if found is None or found.get("error_code") is None:
            continue
        failed = found["error_code"] != 0
        for batch in one.records:
            batch.constant["ack"] = "failed" if failed else "acked"
        if not failed and one.reading is not None:
            log_append_time_ms = found.get("log_append_time_ms", -1)
            mark_answered(one.reading, found.get("base_offset", -1), log_append_time_ms)
