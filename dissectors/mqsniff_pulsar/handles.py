"""Producers and consumers by their ids on a connection, with permits and deliveries.

1. An id means the last handle that was opened with it, also after its close: late frames still belong to it.
2. A handle whose opening was not captured has no topic; the first message of each side that uses it says so.
3. At most ``handles_max`` of each kind are kept, with names of at most NAME_MAX characters.
4. A FLOW adds permits, a delivery takes one for each message. They are unknown if the opening was not captured.
5. A batch is unsettled until all its messages are settled; ``Delivery`` has those that are left.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

from mqsniff.model import Side
from mqsniff.spec.wire import as_name

NAME_MAX: Final = 4_096
BATCH_MAX: Final = 1 << 16
"""Largest batch whose messages are settled one by one; a larger one is settled as a whole."""

EntryId = tuple[int, int]
"""(ledger, entry), in the order of a topic's entries."""


@dataclass(slots=True)
class Producer:
    """A producer; ``topic`` is None if its opening was not captured."""

    topic: str | None = None
    name: str | None = None
    partition: int | None = field(init=False)

    def __post_init__(self) -> None:
        self.partition = partition_of(self.topic)


@dataclass(slots=True)
class Delivery:
    """A delivered entry: number and indexes of its unsettled messages (None: it is settled as a whole)."""

    left: int
    indexes: int | None
    """Bit i stands for message i."""

    @classmethod
    def of(cls, count: int, wanted: int | None) -> Delivery:
        """An entry of ``count`` messages, of which only ``wanted`` (bits as in ``indexes``) are delivered."""
        if not 1 < count <= BATCH_MAX:
            return cls(max(count, 1), None)
        indexes = (1 << count) - 1
        if wanted is not None:
            indexes &= wanted
        return cls(indexes.bit_count(), indexes)

    def settle(self, rest: int | None) -> int:
        """Settle all messages but ``rest`` (bits as in ``indexes``; None: all); returns how many that were."""
        before = self.left
        if rest is None or self.indexes is None:
            self.left = 0
        else:
            self.indexes &= rest
            self.left = self.indexes.bit_count()
        return before - self.left

    def restore(self, indexes: int) -> int:
        """Make messages unsettled again that the broker refused to settle; returns how many that were."""
        before, self.indexes = self.left, (self.indexes or 0) | indexes
        self.left = self.indexes.bit_count()
        return self.left - before


@dataclass(slots=True)
class Consumer:
    """A consumer; ``topic`` is None if its opening was not captured."""

    topic: str | None = None
    subscription: str | None = None
    name: str | None = None
    sub_type: str | None = None
    partition: int | None = field(init=False)
    permits: int | None = None
    """Messages that the broker may still send."""
    in_flight: int = 0
    """Delivered messages that are unsettled."""
    unsettled: list[EntryId] = field(default_factory=list)
    """Unsettled entries, in order."""

    def __post_init__(self) -> None:
        self.partition = partition_of(self.topic)

    def take(self, entry: EntryId, count: int, room: int) -> None:
        """Add an unsettled entry of ``count`` messages; beyond ``room`` entries the first is dropped."""
        insort(self.unsettled, entry)
        self.in_flight += count
        if len(self.unsettled) > room:
            del self.unsettled[0]

    def release(self, entry: EntryId, count: int, *, last: bool) -> None:
        """Note that ``count`` messages of an entry are settled; with the ``last`` ones the entry is removed."""
        at = bisect_left(self.unsettled, entry)
        if at < len(self.unsettled) and self.unsettled[at] == entry:
            self.in_flight -= count
            if last:
                del self.unsettled[at]

    def take_back(self, entry: EntryId, count: int) -> None:
        """Note that ``count`` messages of an unsettled entry are unsettled again."""
        at = bisect_left(self.unsettled, entry)
        if at < len(self.unsettled) and self.unsettled[at] == entry:
            self.in_flight += count

    def upto(self, entry: EntryId) -> list[EntryId]:
        """The unsettled entries up to and with this one."""
        return self.unsettled[: bisect_right(self.unsettled, entry)]

    @property
    def is_persistent(self) -> bool:
        """Whether its messages are acknowledged: those of non-persistent topics are not."""
        return self.topic is None or not self.topic.startswith("non-persistent:")


Handle = TypeVar("Handle", Producer, Consumer, str)


class Handles(Generic[Handle]):
    """Id -> the handle that was opened with it."""

    def __init__(self, unseen: Callable[[], Handle], room: int) -> None:
        self._known: dict[int, Handle] = {}
        self._missed: dict[int, set[Side]] = {}
        """Ids whose opening was not captured -> the sides that have used them."""
        self._unseen: Callable[[], Handle] = unseen
        self._room = room

    def open(self, number: int, handle: Handle) -> None:
        """Add a handle."""
        self._missed.pop(number, None)
        self._known.pop(number, None)
        self._known[number] = handle
        if len(self._known) > self._room:
            oldest = next(iter(self._known))
            del self._known[oldest]
            self._missed.pop(oldest, None)

    def get(self, number: int, side: Side) -> tuple[Handle, bool]:
        """(handle of an id, whether its opening was not captured and this side uses it for the first time)."""
        handle = self._known.get(number)
        if handle is None:
            handle = self._unseen()
            self.open(number, handle)
            self._missed[number] = set()
        users = self._missed.get(number)
        if users is None or side in users:
            return handle, False
        users.add(side)
        return handle, True


def partition_of(topic: str | None) -> int | None:
    """The partition in the name of a topic; None if it has none."""
    _, found, number = (topic or "").rpartition("-partition-")
    return int(number) if found and number.isdecimal() and len(number) < 10 else None


def name_of(value: Any) -> str | None:
    """A name, cut to NAME_MAX characters."""
    name = as_name(value)
    return name if name is not None and len(name) <= NAME_MAX else None
