"""Record data of bodies in; in its place what bodies show of it, and records with all their columns out.

1. Every field of record data is replaced, wherever it stands. Pieces of snapshots begin anywhere, so they are sizes.
2. Produced records have the producer's offsets; the broker's follow one by one from the base offset that it answers.
3. A record is aborted where its transaction is one that the answer names, until that transaction's abort marker.
4. What the compressed batches of one message may become is bounded for all of its fields together.

Sources: ``Fetcher`` and ``LogValidator`` of Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from dissectors.kafka.batches import Batch, Reading, read_batches
from dissectors.kafka.marks import NO_ID, Body, Branch, holders
from mqsniff.dissector import Settings
from mqsniff.model import Problem, RecordBatch
from mqsniff.spec.wire import Extent, Malformed, read_uvarint

UNALIGNED: Final = "unaligned_records"
ABORT: Final = 0


@dataclass(slots=True)
class Produced:
    """Records of one partition that wait for the broker's answer."""

    topic: str | None
    partition: int
    batches: tuple[RecordBatch, ...]


@dataclass(slots=True)
class _Source:
    """The message whose fields are being read."""

    data: bytes
    size: int
    flexible: bool
    settings: Settings
    problems: list[Problem]
    plain_left: int
    opened: bool

    def read(self, body: Body, field: str) -> Reading | None:
        """Replace one field of record data; None where there is none, or only its size is told."""
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
            open_records=self.opened,
            lost=lost and size > extent.stop - extent.start,
        )
        self.plain_left = max(0, reading.plain_left)
        body[field] = reading.body(size)
        return reading

    def note(self, path: str, problems: Sequence[Problem]) -> None:
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

    def _source(self, data: bytes, size: int, *, flexible: bool, problems: list[Problem]) -> _Source:
        settings = self._settings
        opened = settings.records
        return _Source(data, size, flexible, settings, problems, settings.limits.decompress_max, opened)

    def produced(
        self, body: Body, data: bytes, size: int, *, flexible: bool, problems: list[Problem]
    ) -> list[Produced]:
        """Read a Produce request."""
        source = self._source(data, size, flexible=flexible, problems=problems)
        found: list[Produced] = []
        for at, topic in enumerate(body.get("topic_data") or ()):
            for index, partition in enumerate(topic.get("partition_data") or ()):
                reading = source.read(partition, "records")
                if reading is None:
                    continue
                path = f"topic_data[{at}].partition_data[{index}].records"
                source.note(path, reading.problems)
                if reading.cut and not reading.lost:
                    problems.append(Problem("malformed", "error", "a batch without its end", path, size=reading.cut))
                name, constant = _topic(topic)
                constant |= {"partition": partition.get("index"), "direction": "produce"}
                for batch in reading.records:
                    batch.constant |= constant
                    batch.columns["client_offset"] = batch.columns.pop("offset")
                if reading.records:
                    found.append(Produced(name, partition.get("index", -1), reading.records))
        return found

    def delivered(
        self, body: Body, data: bytes, size: int, reader: str, *, flexible: bool, problems: list[Problem]
    ) -> tuple[RecordBatch, ...]:
        """Read a Fetch, ShareFetch or FetchSnapshot response; ``reader``: who asked."""
        source = self._source(data, size, flexible=flexible, problems=problems)
        found: list[RecordBatch] = []
        for at, topic in enumerate(body.get("responses") or body.get("topics") or ()):
            for index, partition in enumerate(topic.get("partitions") or ()):
                field = UNALIGNED if UNALIGNED in partition else "records"
                reading = source.read(partition, field)
                if reading is None:
                    continue
                source.note(f"responses[{at}].partitions[{index}].records", reading.problems)
                _mark_aborted(reading.batches, partition.get("aborted_transactions"))
                _, constant = _topic(topic)
                constant |= {"partition": partition.get("partition_index"), "direction": "deliver", "reader": reader}
                for batch in reading.records:
                    batch.constant |= constant
                    _count_deliveries(batch, partition.get("acquired_records"))
                found += reading.records
        return tuple(found)


def _topic(topic: Body) -> tuple[str | None, dict[str, Any]]:
    """What names a topic, and its columns."""
    name = topic.get("name", topic.get("topic"))
    topic_id = topic.get("topic_id")
    name = name if isinstance(name, str) else None
    topic_id = topic_id if topic_id != NO_ID else None
    return name or topic_id, {"topic": name, "topic_id": topic_id}


def _mark_aborted(batches: Sequence[Batch], named: list[Body] | None) -> None:
    """Tell of each batch whether its transaction was aborted; without a list (read_uncommitted) nobody knows."""
    if named is None:
        return
    waiting = sorted(named, key=lambda one: one.get("first_offset", 0), reverse=True)
    aborted: set[Any] = set()
    for batch in batches:
        while waiting and waiting[-1].get("first_offset", 0) <= batch.last_offset:
            aborted.add(waiting.pop().get("producer_id"))
        if batch.control_types:
            if batch.control_types[0] == ABORT:
                aborted.discard(batch.producer_id)
        elif batch.records is not None:
            batch.records.constant["aborted"] = batch.transactional and batch.producer_id in aborted


def _count_deliveries(batch: RecordBatch, acquired: list[Body] | None) -> None:
    """How often a share group has got each record, this time included."""
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


def complete(produced: Sequence[Produced], rows: Sequence[dict[str, Any]]) -> None:
    """Give produced records what the answer's rows tell: offsets, and whether they were taken."""
    told = {(row["topic"] or row["topic_id"], row["partition"]): row for row in rows}
    for one in produced:
        row = told.get((one.topic, one.partition))
        if row is None or row.get("error_code") is None:
            continue
        failed = row["error_code"] != 0
        offset = row.get("offset")
        for batch in one.batches:
            batch.constant["ack"] = "failed" if failed else "acked"
            if not failed and isinstance(offset, int) and offset >= 0:
                batch.columns["offset"] = range(offset, offset + batch.count)
                batch.constant["base_offset"] = offset
                offset += batch.count
