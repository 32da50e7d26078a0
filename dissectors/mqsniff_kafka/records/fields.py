"""Reads the fields of record data of one message, and replaces them by what bodies show.

1. Plain bytes of compressed batches are bounded for all fields of the message together.
2. If the end of a field was lost, its length is read from the number before it.
3. A field may be a piece of a snapshot, which may begin and end inside a batch: see ``snapshots``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from mqsniff.codecs.blocks import TOO_LARGE
from mqsniff.codecs.inflation import PLAIN_SPENT, InflationBudget
from mqsniff.model import Problem, RecordBatch
from mqsniff.spec.wire import Extent, Malformed, read_uvarint
from mqsniff_kafka.fieldpaths import BodyFields
from mqsniff_kafka.records.batches import RecordDataReading, read_batches
from mqsniff_kafka.records.lone import lone_amounts, lone_head, lone_record
from mqsniff_kafka.records.snapshots import Snapshots

UNALIGNED: Final = "unaligned_records"


@dataclass(slots=True)
class RecordFields:
    """The record data of one message."""

    data: bytes
    size: int
    flexible: bool
    problems: list[Problem]
    problems_max: int
    plain_left: int
    """Plain bytes that compressed batches of the message may still have."""
    cut_by: str
    """The sender, which cut the last batch of a field if it has no end."""
    wrapper_depth: int
    budget: InflationBudget
    lone: RecordBatch | None = None
    """What the field that was read last amounts to, where it was read by its head."""

    def read(
        self, body: BodyFields, field: str, path: str, *, opened: bool, amounts: bool = False
    ) -> RecordDataReading | None:
        """Read and replace one field of record data; None if there is none, or nothing more than the body shows.

        ``path``: path of the body, for problems. ``opened``: whether its records are wanted; ``amounts``: whether
        ``lone`` is enough of them.
        """
        self.lone = None
        extent = body.get(field)
        if not isinstance(extent, Extent):
            return None
        size, lost = self._wire_size(extent)
        if (
            (amounts or not opened)
            and not lost
            and (head := lone_head(self.data, extent.start, extent.stop)) is not None
        ):
            self.lone = lone_amounts(self.data, extent.start, extent.stop, head) if amounts else None
            if self.lone is not None or not opened:
                body[field] = {"size": size, "batches": [head]}
                return None
        if opened and not lost and (single := self._lone(extent)) is not None:
            body[field] = single.body(size)
            return single
        cut = lost and size > extent.stop - extent.start
        reading = self._batches(self.data, extent, opened=opened, lost=cut)
        body[field] = shown = reading.body(size)
        if reading.cut and not reading.lost:
            shown["partial_batch"] = reading.cut_off(self.cut_by)
        self._note(f"{path}.{field}", reading.problems)
        return reading

    def _lone(self, extent: Extent) -> RecordDataReading | None:
        """The field, if it is one sound batch of one plain record. Hot: producers often send such."""
        if self.budget.records_left < 1 or (batch := lone_record(self.data, extent.start, extent.stop)) is None:
            return None
        self.budget.spend(0, 1)
        reading = RecordDataReading(self.data, extent.start, extent.stop, False, True, self.plain_left)  # noqa: FBT003
        reading.batches.append(batch)
        return reading

    def read_piece(self, body: BodyFields, path: str, snapshots: Snapshots, snapshot: Any) -> RecordDataReading | None:
        """Read and replace a piece of a snapshot; None if there is none, or if the start of a batch is not known."""
        extent = body.get(UNALIGNED)
        if not isinstance(extent, Extent):
            return None
        size, lost = self._wire_size(extent)
        shown: BodyFields = {"size": size}
        body[UNALIGNED] = shown
        position = body["position"]  # the field precedes the records, so it was read
        joined = snapshots.join(snapshot, position, self.data[extent.start : extent.stop])
        if joined is None:
            return None
        data, goes_on = joined.data, position + size < body["size"]
        reading = self._batches(data, Extent(joined.start, len(data)), opened=True, lost=lost)
        shown |= reading.body(size)
        if joined.unread:
            shown["unread"] = joined.unread
        follows = position + size if goes_on and not lost else None
        shown["begun"] = waiting = snapshots.follow(snapshot, follows, joined, reading)
        if waiting and not goes_on and not lost:
            reading.note("malformed", "error", "a batch without its end", size=waiting)
        self._note(f"{path}.{UNALIGNED}", reading.problems)
        return reading

    def _batches(self, data: bytes, extent: Extent, *, opened: bool, lost: bool = False) -> RecordDataReading:
        budget = self.budget
        allowed = min(self.plain_left, budget.plain_left)
        reading = read_batches(
            data,
            extent.start,
            extent.stop,
            decompress_max=allowed,
            open_records=opened,
            lost=lost,
            wrapper_depth=self.wrapper_depth,
            records_max=budget.records_left,
        )
        if allowed < self.plain_left:
            for problem in reading.problems:
                if problem.detail == TOO_LARGE:
                    problem.detail = PLAIN_SPENT
        made = allowed - max(0, reading.plain_left)
        budget.spend(made, sum(batch.count for batch in reading.records))
        self.plain_left -= made
        return reading

    def _note(self, path: str, problems: Sequence[Problem]) -> None:
        """Add the problems of a field, with its path before theirs."""
        room = self.problems_max - len(self.problems)
        for problem in problems[: max(0, room)]:
            problem.path = f"{path}.{problem.path}" if problem.path else path
            self.problems.append(problem)

    def _wire_size(self, extent: Extent) -> tuple[int, bool]:
        """(length of a field, whether its end may be lost: then it is read from the number before the field)."""
        lost = extent.stop == len(self.data) < self.size
        return (self._told_size(extent) if lost else extent.stop - extent.start), lost

    def _told_size(self, extent: Extent) -> int:
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
