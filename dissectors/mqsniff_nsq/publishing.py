"""Messages in the bodies of PUB, DPUB and MPUB: sizes, spans and record batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from mqsniff.model import Problem, RecordBatch, Value
from mqsniff_nsq.lines import INT32
from mqsniff_nsq.rules import check_size, spec_violations
from mqsniff_nsq.tables import MAX_BODY_SIZE

MILLISECOND_NS = 1_000_000


@dataclass(slots=True)
class Messages:
    """The messages of one MPUB whose size was captured."""

    count: int | None
    """Number of messages by the head of the body; None if it was lost."""
    sizes: list[int] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    stop: int = 0
    """End of the last message."""
    refused: bool = False
    """Whether nsqd refuses the next message by its size."""
    limited: bool = False

    @property
    def body(self) -> Value:
        """The messages for a body; equal sizes share one object, so that a million messages stay small."""
        shown: dict[int, Value] = {}
        return [shown.setdefault(size, {"size": size}) for size in self.sizes]

    def check(self, body_size: int, *, whole: bool) -> Iterator[Problem]:
        """Problems that nsqd refuses or overlooks."""
        if self.count is not None and not 0 < self.count <= (MAX_BODY_SIZE - 4) // 5:
            yield spec_violations("out_of_range", f"a count of {self.count} messages", "num_messages")
        for index, size in enumerate(self.sizes):
            if problem := next(check_size(size, f"messages[{index}]"), None):
                yield problem
                break
        if self.refused:
            yield spec_violations(
                "out_of_range", "a message size that points past the end of the body", f"messages[{len(self.sizes)}]"
            )
        elif whole and len(self.sizes) == self.count and self.stop != body_size:
            yield spec_violations(
                "format",
                "the size of the body differs from the sum of its messages; the messages are used",
                "body_size",
            )
        if self.limited:
            yield Problem("limit", "error", f"the first {len(self.sizes)} messages are shown", "messages")


def read_messages(data: bytes, start: int, end: int, most: int) -> Messages:
    """The messages of an MPUB's body at ``start``, in a frame that ends at ``end``; ``data`` may be shorter."""
    if len(data) < start + 4:
        return Messages(None)
    (count,) = INT32.unpack_from(data, start)
    messages = Messages(count)
    at, there, sizes, starts = start + 4, len(data) - 4, messages.sizes, messages.starts
    while len(sizes) < count and at <= there:
        (size,) = INT32.unpack_from(data, at)
        if size <= 0 or at + 4 + size > end:
            messages.refused = True
            break
        if len(sizes) == most:
            messages.limited = True
            break
        sizes.append(size)
        starts.append(at + 4)
        at += 4 + size
    messages.stop = at - start
    return messages


def batch_of(data: bytes, starts: list[int], sizes: list[int], constant: dict[str, Any]) -> RecordBatch:
    """A record batch over messages in ``data``; a cut one keeps its size and its captured bytes."""
    end = len(data)
    stops = [min(start + size, end) for start, size in zip(starts, sizes, strict=True)]
    return RecordBatch(
        data, len(sizes), constant, {"value_size": sizes}, values=([min(start, end) for start in starts], stops)
    )


def deliver_at(ts_ns: int, defer_ms: int | None) -> int | None:
    """Delivery time of a message that was deferred at ``ts_ns``; None if unknown."""
    if defer_ms is None or not 0 <= defer_ms < 1 << 40:
        return None
    return ts_ns + defer_ms * MILLISECOND_NS
