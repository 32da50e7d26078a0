"""What a field of record data turns into while it is read: batches, problems, and what may still be spent on it.

1. What hostile bytes can buy is bounded for the field as a whole: plain bytes, records, batches, notes.
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
"""Control records of one field that are shown: a byte of a compressed batch may make an object of half a kilobyte."""
BATCHES_MAX: Final = 1 << 17
"""Batches of one field: 64 MiB of the smallest would make a million heads of a kilobyte each."""
WRAPPERS_MAX: Final = Limits().wrapper_depth
LOG_APPEND: Final = 0x08
"""Bit of the attributes of batches and messages: the broker set their times."""


def timestamp_type(attributes: int) -> str:
    """Who set the times of a batch or a message with these attributes, as Kafka's TimestampType names it."""
    return "LogAppendTime" if attributes & LOG_APPEND else "CreateTime"


@dataclass(slots=True)
class Batch:
    """One record batch, one wrapper message, or a run of plain messages."""

    head: dict[str, Any]
    """What bodies show of it."""
    start: int
    """Its first byte in the field's data."""
    stop: int
    """One past the last of its bytes that are there."""
    first_offset: int = 0
    last_offset: int = -1
    """Offsets that it takes up, those of records that a compaction removed included; none where last is below first."""
    producer_id: int = -1
    transactional: bool = False
    control_types: tuple[int, ...] = ()
    """What its control records say (0: abort, 1: commit, …); empty for a batch of data."""
    records: RecordBatch | None = None
    """Only where records were asked for and can be had."""


@dataclass(slots=True)
class RecordDataReading:
    """A field ``data[start:stop]`` of record data, and what was found in it."""

    data: bytes
    start: int
    stop: int
    lost: bool
    """Whether the capture lost bytes of the field behind ``stop``."""
    open_records: bool
    plain_left: int
    """Bytes that compressed batches may still become."""
    wrapper_depth: int = WRAPPERS_MAX
    """Compressed message sets inside each other that are opened."""
    records_left: int = RECORDS_MAX
    control_left: int = CONTROL_MAX
    """Control records that may still be shown."""
    batches: list[Batch] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    cut: int = 0
    """Bytes at the end of the field that are the start of a batch: brokers cut where the client's limit is."""
    begun: Batch | None = None
    """What these bytes tell of that batch; None for none, for a few bytes, and where the capture lost its rest."""
    undecoded: tuple[int, int] | None = None
    """Bytes at the end that are no batch."""
    notes: int = 0

    @property
    def records(self) -> tuple[RecordBatch, ...]:
        """The opened batches that hold records, in order; with the one that is begun, where it was opened."""
        batches = self.batches if self.begun is None else [*self.batches, self.begun]
        return tuple(batch.records for batch in batches if batch.records is not None and batch.records.count)

    def body(self, size: int) -> dict[str, Value]:
        """What bodies show of the field, which has ``size`` bytes on the wire."""
        body: dict[str, Value] = {"size": size, "batches": [batch.head for batch in self.batches]}
        if self.undecoded is not None:
            start, stop = self.undecoded
            body["undecoded"] = Undecoded(self.data[start:stop])
        return body

    def cut_off(self, by: str) -> dict[str, Value]:
        """What bodies show of a batch whose sender left its end out: who that was, the bytes there, the head."""
        return {"cut_by": by, "size": self.cut, **(self.begun.head if self.begun is not None else {})}

    def add_cut(self, batch: Batch) -> None:
        """Add a batch whose end is not in the field: one of its batches where the capture lost the end."""
        if self.lost:
            self.batches.append(batch)
        else:
            self.begun = batch

    @property
    def cut_bytes(self) -> bytes:
        """The bytes of the batch that was begun at the end of the field."""
        return self.data[self.stop - self.cut : self.stop]

    def note(self, kind: ProblemKind, severity: Severity, detail: str, path: str = "", size: int | None = None) -> None:
        """Note what is odd about the batch that is being read, up to a limit."""
        self.notes += 1
        if self.notes < NOTES_MAX:
            where = f"batches[{len(self.batches)}]{'.' if path else ''}{path}"
            self.problems.append(Problem(kind, severity, detail, where, size=size))
        elif self.notes == NOTES_MAX:
            self.problems.append(Problem("limit", "warning", "more problems in these records than are noted"))

    def give_up(self, pos: int, kind: ProblemKind, detail: str) -> int:
        """Leave all from ``pos`` on as bytes; gives the end of the field."""
        self.note(kind, "error", detail, size=self.stop - pos)
        self.undecoded = (pos, self.stop)
        return self.stop

    def pass_over(self, pos: int, stop: int) -> int:
        """Leave a batch of known size as bytes; gives the place behind it."""
        head: dict[str, Any] = {"magic": self.data[pos + 16], "undecoded": Undecoded(self.data[pos:stop])}
        self.batches.append(Batch(head, pos, stop))
        return stop

    def take_records(self, count: int) -> int:
        """How many of ``count`` records may be opened."""
        granted = min(count, self.records_left)
        self.records_left -= granted
        if granted < count:
            self.note("limit", "error", "more records in one field than elements_max")
        return granted


def times_ns(base: int, deltas: Sequence[int]) -> Sequence[int | None]:
    """Times in milliseconds, counted from ``base``, as nanoseconds; None for none (-1)."""
    try:
        times = array("q", [(base + delta) * MILLISECOND_NS for delta in deltas])
    except OverflowError:
        return [time_ns(base + delta) for delta in deltas]
    return times if min(times, default=0) >= 0 else [time_ns(base + delta) for delta in deltas]


def time_ns(milliseconds: int) -> int | None:
    """A time in milliseconds as nanoseconds; None for none (-1)."""
    return milliseconds * MILLISECOND_NS if milliseconds >= 0 else None


def counted(deltas: array[int]) -> Sequence[int]:
    """Deltas as a range where they count from 0, which they do unless a compaction removed records."""
    count = range(len(deltas))
    return count if deltas == array("q", count) else deltas


def offsets_from(base: int, deltas: Sequence[int]) -> Sequence[int]:
    """Offsets counted from ``base``, wrapped to 64 bits as Java does."""
    if not -(1 << 62) < base < 1 << 62:
        return array("q", [int64(base + delta) for delta in deltas])
    if isinstance(deltas, range):
        return range(base + deltas.start, base + deltas.stop)
    return array("q", [base + delta for delta in deltas])


def sequences_from(base: int, deltas: Sequence[int]) -> Sequence[int]:
    """Sequence numbers counted from ``base``; 0 comes behind the largest int32."""
    if isinstance(deltas, range) and base + deltas.stop <= SEQUENCE_MAX:
        return range(base + deltas.start, base + deltas.stop)
    return array("q", [base + delta & SEQUENCE_MAX for delta in deltas])


def int64(number: int) -> int:
    """A number wrapped to 64 bits, signed."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)
