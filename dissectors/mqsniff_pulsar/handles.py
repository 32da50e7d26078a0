"""What a connection has opened under numbers of its own: producers, consumers, their permits and deliveries.

1. A number means what was opened under it last, also behind the close: late frames still belong to it.
2. What was opened where the capture does not show has no name; its first use by each side says so.
3. At most ``handles_max`` of a kind are remembered, and names of at most NAME_MAX characters.
4. Permits: a FLOW adds, a delivery takes one for each message. They are unknown where the opening was not seen.
5. A batch is unsettled until its last message is; ``Delivery`` knows which of them are left.
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
"""Messages of a batch whose settlement is followed one by one; a larger one is settled as a whole."""

EntryId = tuple[int, int]
"""(ledger, entry): what orders the entries of a topic."""


@dataclass(slots=True)
class Producer:
    """A producer; ``topic`` is None where its opening was not seen."""

    topic: str | None = None
    name: str | None = None
    partition: int | None = field(init=False)

    def __post_init__(self) -> None:
        self.partition = partition_of(self.topic)


@dataclass(slots=True)
class Delivery:
    """A delivered entry: how many of its messages are unsettled, and which (None: it is settled as a whole)."""

    left: int
    indexes: int | None
    """Bit i stands for message i."""

    @classmethod
    def of(cls, count: int, wanted: int | None) -> Delivery:
        """An entry of ``count`` messages, of which only ``wanted`` (bits as in ``indexes``) are to be delivered."""
        if not 1 < count <= BATCH_MAX:
            return cls(max(count, 1), None)
        indexes = (1 << count) - 1
        if wanted is not None:
            indexes &= wanted
        return cls(indexes.bit_count(), indexes)

    def settle(self, rest: int | None) -> int:
        """How many messages an acknowledgement settles that leaves ``rest`` (bits as in ``indexes``; None: nothing)."""
        before = self.left
        if rest is None or self.indexes is None:
            self.left = 0
        else:
            self.indexes &= rest
            self.left = self.indexes.bit_count()
        return before - self.left

    def restore(self, indexes: int) -> int:
        """How many messages are unsettled again: the broker refused to settle these."""
        before, self.indexes = self.left, (self.indexes or 0) | indexes
        self.left = self.indexes.bit_count()
        return self.left - before


@dataclass(slots=True)
class Consumer:
    """A consumer; ``topic`` is None where its opening was not seen."""

    topic: str | None = None
    subscription: str | None = None
    name: str | None = None
    sub_type: str | None = None
    partition: int | None = field(init=False)
    permits: int | None = None
    """Messages that the broker may still send."""
    in_flight: int = 0
    """Messages that were delivered and are unsettled."""
    unsettled: list[EntryId] = field(default_factory=list)
    """Entries in their order."""

    def __post_init__(self) -> None:
        self.partition = partition_of(self.topic)

    def take(self, entry: EntryId, count: int, room: int) -> None:
        """Note an unsettled entry of ``count`` messages; of more than ``room`` entries the first is forgotten."""
        insort(self.unsettled, entry)
        self.in_flight += count
        if len(self.unsettled) > room:
            del self.unsettled[0]

    def release(self, entry: EntryId, count: int, *, last: bool) -> None:
        """Note that ``count`` messages of an entry are out of its hands; the ``last`` ones take the entry with them."""
        at = bisect_left(self.unsettled, entry)
        if at < len(self.unsettled) and self.unsettled[at] == entry:
            self.in_flight -= count
            if last:
                del self.unsettled[at]

    def take_back(self, entry: EntryId, count: int) -> None:
        """Note that ``count`` messages of an unsettled entry are in its hands again."""
        at = bisect_left(self.unsettled, entry)
        if at < len(self.unsettled) and self.unsettled[at] == entry:
            self.in_flight += count

    def upto(self, entry: EntryId) -> list[EntryId]:
        """The unsettled entries up to this one, itself among them."""
        return self.unsettled[: bisect_right(self.unsettled, entry)]

    @property
    def is_persistent(self) -> bool:
        """Whether its messages want to be acknowledged: those of non-persistent topics all have the same id."""
        return self.topic is None or not self.topic.startswith("non-persistent:")


Handle = TypeVar("Handle", Producer, Consumer, str)


class Handles(Generic[Handle]):
    """Number -> what was opened under it."""

    def __init__(self, unseen: Callable[[], Handle], room: int) -> None:
        self._known: dict[int, Handle] = {}
        self._missed: dict[int, set[Side]] = {}
        """Numbers whose opening was not seen, and who has used them."""
        self._unseen: Callable[[], Handle] = unseen
        self._room = room

    def open(self, number: int, handle: Handle) -> None:
        """Remember what was opened."""
        self._missed.pop(number, None)
        self._known.pop(number, None)
        self._known[number] = handle
        if len(self._known) > self._room:
            oldest = next(iter(self._known))
            del self._known[oldest]
            self._missed.pop(oldest, None)

    def get(self, number: int, side: Side) -> tuple[Handle, bool]:
        """(what the number means, whether its opening was not seen and this is the first use by this side)."""
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
    """The number of the partition that a topic is by its name, None for one without partitions."""
    _, found, number = (topic or "").rpartition("-partition-")
    return int(number) if found and number.isdecimal() and len(number) < 10 else None


def name_of(value: Any) -> str | None:
    """A name as it is remembered."""
    name = as_name(value)
    return name if name is not None and len(name) <= NAME_MAX else None
