"""State of reading one field of record data: batches, problems and remaining budgets.

1. Plain bytes, records, batches and problems are bounded for the whole field, so that hostile bytes cannot grow memory.
2. Paths of problems start at the field: ``batches[2].crc``.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from mqsniff.limits import Limits
from mqsniff.model import Problem, ProblemKind, RecordBatch, Severity, Undecoded, Value

MILLISECOND_NS: Final = 1_000_000
SEQUENCE_MAX: Final = (1 << 31) - 1
RECORDS_MAX: Final = Limits().elements_max
NOTES_MAX: Final = Limits().message_problems_max
CONTROL_MAX: Final = 1 << 14
"""Control records of one field that are shown: one byte of a compressed batch may become half a kilobyte."""
BATCHES_MAX: Final = 1 << 17
"""Most batches of one field: 64 MiB of the smallest would be a million heads of a kilobyte each."""
WRAPPERS_MAX: Final = Limits().wrapper_depth
LOG_APPEND: Final = 0x08
"""Bit of the attributes of batches and messages: their times are the broker's."""


def timestamp_type(attributes: int) -> str:
    """Kafka's name of the timestamp type in these attributes."""
    return "LogAppendTime" if attributes & LOG_APPEND else "CreateTime"


@dataclass(slots=True)
class Batch:
    """One record batch, one wrapper message, or a run of plain messages."""

    head: dict[str, Any]
    """Its head, as bodies show it."""
    start: int
    """Offset of its first byte in the data."""
    stop: int
    """Offset after its last captured byte."""
    first_offset: int = 0
    last_offset: int = -1
    """It takes up the offsets from first to last, with those of compacted records; none if last is below first."""
    producer_id: int = -1
    transactional: bool = False
    control_types: tuple[int, ...] = ()
    """Types of its control records (0: abort, 1: commit, …); empty for a batch of data."""
    records: RecordBatch | None = None
    """None if records are not wanted or cannot be read."""


@dataclass(slots=True)
class RecordDataReading:
    """A field ``data[start:stop]`` of record data, and its content so far."""

    data: bytes
    start: int
    stop: int
    lost: bool
    """Whether the capture lost bytes of the field after ``stop``."""
    open_records: bool
    plain_left: int
    """Bytes that compressed batches may still become."""
    wrapper_depth: int = WRAPPERS_MAX
    """Most levels of compressed message sets."""
    records_left: int = RECORDS_MAX
    records_why: str = "more records in one field than elements_max"
    """Why no more records are opened than that."""
    control_left: int = CONTROL_MAX
    """Control records that may still be shown."""
    batches: list[Batch] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    cut: int = 0
    """Bytes at the end of the field that begin a batch which the broker cut at the client's limit."""
    begun: Batch | None = None
    """The head of that batch; None if there is none, if too few bytes are there, or if the capture lost the rest."""
    undecoded: tuple[int, int] | None = None
    """(start, stop) of bytes at the end that are no batch."""
    notes: int = 0

    @property
    def records(self) -> tuple[RecordBatch, ...]:
        """The opened batches with records, in order; with the cut one if it was opened."""
        if len(self.batches) == 1 and self.begun is None:  # a generator costs 1 µs
            records = self.batches[0].records
            return () if records is None or not records.count else (records,)
        batches = self.batches if self.begun is None else [*self.batches, self.begun]
        return tuple(batch.records for batch in batches if batch.records is not None and batch.records.count)

    def body(self, size: int) -> dict[str, Value]:
        """The field as bodies show it; it has ``size`` bytes on the wire."""
        body: dict[str, Value] = {"size": size, "batches": [batch.head for batch in self.batches]}
        if self.undecoded is not None:
            start, stop = self.undecoded
            body["undecoded"] = Undecoded(self.data[start:stop])
        return body

    def cut_off(self, by: str) -> dict[str, Value]:
        """The cut batch as bodies show it: its sender, its bytes, its head."""
        return {"cut_by": by, "size": self.cut, **(self.begun.head if self.begun is not None else {})}

    def add_cut(self, batch: Batch) -> None:
        """Add a batch without an end: one of the field's batches if the capture lost the end, else ``begun``."""
        if self.lost:
            self.batches.append(batch)
        else:
            self.begun = batch

    @property
    def cut_bytes(self) -> bytes:
        """The bytes of the cut batch at the end of the field."""
        return self.data[self.stop - self.cut : self.stop]

    def note(self, kind: ProblemKind, severity: Severity, detail: str, path: str = "", size: int | None = None) -> None:
        """Note a problem of the current batch, up to a limit."""
        self.notes += 1
        if self.notes < NOTES_MAX:
            where = f"batches[{len(self.batches)}]{'.' if path else ''}{path}"
            self.problems.append(Problem(kind, severity, detail, where, size=size))
        elif self.notes == NOTES_MAX:
            self.problems.append(Problem("limit", "warning", "more problems in these records than are noted"))

    def give_up(self, pos: int, kind: ProblemKind, detail: str) -> int:
        """Leave all bytes from ``pos`` on undecoded; returns the end of the field."""
        self.note(kind, "error", detail, size=self.stop - pos)
        self.undecoded = (pos, self.stop)
        return self.stop

    def pass_over(self, pos: int, stop: int) -> int:
        """Leave a batch of known size undecoded; returns the offset after it."""
        head: dict[str, Any] = {"magic": self.data[pos + 16], "undecoded": Undecoded(self.data[pos:stop])}
        self.batches.append(Batch(head, pos, stop))
        return stop

    def take_records(self, count: int) -> int:
        """How many of ``count`` records may still be opened."""
        granted = min(count, self.records_left)
        self.records_left -= granted
        if granted < count:
            self.note("limit", "error", self.records_why)
        return granted


def time_ns(milliseconds: int) -> int | None:
    """Nanoseconds of a time in milliseconds; None for none (-1)."""
    return milliseconds * MILLISECOND_NS if milliseconds >= 0 else None


def offsets_from(base: int, deltas: Sequence[int]) -> Sequence[int]:
    """Offsets relative to ``base``, wrapped to 64 bits as in Java."""
    if not -(1 << 62) < base < 1 << 62:
        return array("q", [int64(base + delta) for delta in deltas])
    if isinstance(deltas, range):
        return range(base + deltas.start, base + deltas.stop)
    return array("q", [base + delta for delta in deltas])


def sequences_from(base: int, deltas: Sequence[int]) -> Sequence[int]:
    """Sequence numbers relative to ``base``; 0 follows the largest int32."""
    if isinstance(deltas, range) and base + deltas.stop <= SEQUENCE_MAX:
        return range(base + deltas.start, base + deltas.stop)
    return array("q", [base + delta & SEQUENCE_MAX for delta in deltas])


def int64(number: int) -> int:
    """A number wrapped to 64 bits, signed."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)
