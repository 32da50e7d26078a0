"""Record data of bodies in; in its place what bodies show of it, and records with all their columns out.

1. Every field of record data is replaced, wherever it stands. Pieces of snapshots begin anywhere, so they are sizes.
2. Produced records wait for the broker's answer, which is found by topic and partition.
3. What the compressed batches of one message may become is bounded for all of its fields together.

Batches are read by ``batches``, and get their columns from ``recordrows``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from dissectors.kafka.batches import Reading, read_batches
from dissectors.kafka.fetching import Fetching
from dissectors.kafka.marks import NO_ID, Body, Branch, holders
from dissectors.kafka.recordrows import mark_all, mark_answered, mark_delivered, mark_produced
from mqsniff.dissector import Settings
from mqsniff.model import Message, Problem, RecordBatch
from mqsniff.spec.layout import Layout
from mqsniff.spec.wire import Extent, Malformed, read_uvarint

UNALIGNED: Final = "unaligned_records"
ABORTED_FIELDS: Final = 2
"""Fields of an aborted transaction; one that was cut has fewer."""


@dataclass(slots=True)
class Produced:
    """Records of one partition that wait for the broker's answer."""

    topic: str | None
    """Name or id."""
    partition: int | None
    reading: Reading


@dataclass(slots=True)
class _Source:
    """The message whose fields are being read."""

    data: bytes
    size: int
    flexible: bool
    settings: Settings
    problems: list[Problem]
    plain_left: int

    def read(self, body: Body, field: str, path: str) -> Reading | None:
        """Replace one field of record data; None where there is none, or only its size is told.

        ``path`` leads to the body, for problems.
        """
        extent = body.get(field)
        if not isinstance(extent, Extent):
            return None
        lost = extent.stop == len(self.data) < self.size
        size = self._wire_size(extent) if lost else extent.stop - extent.start
        if field == UNALIGNED:
            body[field] = {"size": size}
            return None
        reading = read_batches(
            self.data,
            extent.start,
            extent.stop,
            decompress_max=self.plain_left,
            open_records=self.settings.records,
            lost=lost and size > extent.stop - extent.start,
        )
        self.plain_left = max(0, reading.plain_left)
        body[field] = reading.body(size)
        self._note(f"{path}.{field}", reading.problems)
        return reading

    def _note(self, path: str, problems: Sequence[Problem]) -> None:
        """Keep the problems of a field under its path."""
        room = self.settings.limits.message_problems_max - len(self.problems)
        for problem in problems[: max(0, room)]:
            problem.path = f"{path}.{problem.path}" if problem.path else path
            self.problems.append(problem)

    def _wire_size(self, extent: Extent) -> int:
        """Length of a field whose end is lost, from the number before it; what is there where that is unclear."""
        data, start = self.data, extent.start
        there = extent.stop - start
        if not self.flexible:
            return max(there, int.from_bytes(data[start - 4 : start], "big", signed=True))
        for width in range(1, 6):
            try:
                length, stop = read_uvarint(data, start - width, start)
            except Malformed:
                continue
            if stop == start and there < length <= self.size - start + 1:
                return length - 1
        return there


def replace_all(branch: Branch, body: Body) -> None:
    """Put sizes in the place of record data that nobody reads."""
    found: list[tuple[Body, tuple[str, ...]]] = []
    holders(branch, body, found)
    for inner, fields in found:
        for field in fields:
            extent = inner.get(field)
            if isinstance(extent, Extent):
                inner[field] = {"size": extent.stop - extent.start}


class RecordData:
    """Reads the record data of the messages of one connection."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def _source(self, message: Message, layout: Layout) -> _Source:
        frame, settings = message.frame, self._settings
        flexible = layout.struct.flexible
        room = settings.limits.decompress_max
        return _Source(frame.data, frame.size, flexible, settings, message.problems, room)

    def produced(self, message: Message, layout: Layout) -> list[Produced]:
        """Read a Produce request; its message gets the records."""
        source = self._source(message, layout)
        found: list[Produced] = []
        for path, topic, partition in _partitions(message.body, "topic_data", "partition_data"):
            reading = source.read(partition, "records", path)
            if reading is None:
                continue
            if reading.cut and not reading.lost:
                detail = "a batch without its end"
                message.problems.append(Problem("malformed", "error", detail, f"{path}.records", size=reading.cut))
            if reading.records:
                name, constant = _topic(topic)
                mark_all(reading, constant | {"partition": partition.get("index")})
                mark_produced(reading)
                found.append(Produced(name, partition.get("index"), reading))
        message.records = tuple(batch for one in found for batch in one.reading.records)
        return found

    def delivered(self, message: Message, layout: Layout, fetch: Fetching | None) -> None:
        """Read the response to a fetch, or with None to FetchSnapshot; its message gets the records."""
        source = self._source(message, layout)
        found: list[RecordBatch] = []
        topics = "responses" if "responses" in message.body else "topics"
        for path, topic, partition in _partitions(message.body, topics, "partitions"):
            field = UNALIGNED if UNALIGNED in partition else "records"
            reading = source.read(partition, field, path)
            if reading is None or fetch is None:
                continue
            name, constant = _topic(topic)
            number = partition.get("partition_index")
            mark_all(reading, constant | {"partition": number})
            asked = fetch.partitions.get((name, number)) if name is not None and number is not None else None
            mark_delivered(
                reading,
                reader=fetch.reader,
                asked_offset=asked,
                aborted=_aborted(partition.get("aborted_transactions")),
            )
            for batch in reading.records:
                _count_deliveries(batch, partition.get("acquired_records"))
            found += reading.records
        message.records = tuple(found)


def _partitions(body: Body, topics: str, partitions: str) -> Iterator[tuple[str, Body, Body]]:
    """(path of the partition, topic, partition) of a body."""
    for at, topic in enumerate(body.get(topics) or ()):
        for index, partition in enumerate(topic.get(partitions) or ()):
            yield f"{topics}[{at}].{partitions}[{index}]", topic, partition


def _topic(topic: Body) -> tuple[str | None, dict[str, Any]]:
    """What names a topic, and its columns."""
    name = topic.get("name", topic.get("topic"))
    topic_id = topic.get("topic_id")
    name = name if isinstance(name, str) else None
    topic_id = topic_id if topic_id != NO_ID else None
    return name or topic_id, {"topic": name, "topic_id": topic_id}


def _aborted(named: list[Body] | None) -> list[tuple[int, int]] | None:
    """(producer id, first offset) of each; None for null, which readers of uncommitted data get."""
    if named is None:
        return None
    return [(one["producer_id"], one["first_offset"]) for one in named if len(one) >= ABORTED_FIELDS]


def _count_deliveries(batch: RecordBatch, acquired: list[Body] | None) -> None:
    """How often a share group has got each record, this time included; ranges stand in order."""
    if not acquired:
        return
    ranges = [(one.get("first_offset", 0), one.get("last_offset", -1), one.get("delivery_count")) for one in acquired]
    counts: list[Any] = []
    at = 0
    for offset in batch.columns["offset"]:
        while at < len(ranges) and ranges[at][1] < offset:
            at += 1
        inside = at < len(ranges) and ranges[at][0] <= offset
        counts.append(ranges[at][2] if inside else None)
    batch.columns["attempts"] = counts


def complete(produced: Sequence[Produced], answer: Message) -> None:
    """Give produced records what the answer to their request tells: offsets, times, and whether they were taken."""
    told = {
        (_topic(topic)[0], partition.get("index")): partition
        for _, topic, partition in _partitions(answer.body, "responses", "partition_responses")
    }
    for one in produced:
        partition = told.get((one.topic, one.partition))
        if partition is None or partition.get("error_code") is None:
            continue
        failed = partition["error_code"] != 0
        for batch in one.reading.records:
            batch.constant["ack"] = "failed" if failed else "acked"
        if not failed:
            log_append_time_ms = partition.get("log_append_time_ms", -1)
            mark_answered(one.reading, partition.get("base_offset", -1), log_append_time_ms)
