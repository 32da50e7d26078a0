"""The bundles of one flow in, the items of its connections out: the same decoding as that of one process.

1. One flow is alive at a time, and of it what ``bundles.merged`` and its connections hold.
2. What a connection shows depends on its own packets only, so a flow alone gives what it gives among others.
3. A fault of our own takes its flow, never the job: what was decoded stays, and a problem says where it ended.
4. Want of memory is the machine's, wherever it was caught: it fails the task, so that an attempt with more gives the
   rows that every other attempt gives.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, Final

from mqsniff.batch.bundles import Bundle, PiecePlaces, merged, read_key
from mqsniff.decode.conversation import Conversation, RunContext
from mqsniff.model import ClosedItem, Item, Problem, ProblemItem, SegmentBatch
from mqsniff.streams.connection import Connection
from mqsniff.streams.events import ConnectionClosed
from mqsniff.streams.flows import FlowEvents, FlowTable
from mqsniff.topics import When

SLICE_SEGMENTS: Final = 8192
"""Segments whose events may stand in memory together: where they are small, each costs more than its bytes."""

_COLUMNS: Final = (
    *("flow", "direction", "seq", "ack", "flags", "start", "stop", "size", "ip_id"),
    *("ts_ns", "packet", "ordinal", "interface"),
)


class InputLost(Exception):  # noqa: N818  # it says what happened
    """The bundles could not be read to their end: a failure of the task, not of the traffic."""


_END: Final[When] = ((1 << 63) - 1, 0)


class Order:
    """Which packet of the flow released what it told last."""

    def __init__(self) -> None:
        self._batch: SegmentBatch | None = None
        self.release = 0
        """Ordinal of that packet in the flow."""

    def enter(self, batch: SegmentBatch) -> None:
        """The next items are those of these segments."""
        self._batch = batch

    def leave(self) -> None:
        """The next items are those of the flow's end."""
        self._batch = None

    @property
    def now(self) -> When:
        """That packet."""
        batch = self._batch
        place = 0 if batch is None else self.release - int(batch.ordinal[0])
        if batch is None or place >= len(batch):
            return _END
        return int(batch.ts_ns[max(place, 0)]), int(batch.packet[max(place, 0)])


def items_of(
    bundles: Iterable[Bundle], placing: PiecePlaces, context: RunContext, order: Order | None = None
) -> Iterator[Item]:
    """Everything that one flow tells; its bundles come in the order of ``PiecePlaces.key``.

    ``order`` follows the items.

    Raises InputLost where ``bundles`` raises, MemoryError; nothing else.
    """
    conversations: dict[Connection, Conversation] = {}
    order = order or Order()
    try:
        for item in _items(_events(_guarded(bundles), placing, context, order), context, conversations, order):
            _refuse_want_of_memory(item)
            yield item
    except (InputLost, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001  # the border of the task
        yield from _quarantined(error, conversations.values())


def _items(
    events: Iterable[FlowEvents], context: RunContext, conversations: dict[Connection, Conversation], order: Order
) -> Iterator[Item]:
    """The items of all connections; ``conversations`` are those that are open."""
    for release, connection, event in chain.from_iterable(events):
        conversation = conversations.get(connection)
        if conversation is None:
            conversation = conversations[connection] = Conversation(connection, context)
        for order.release, _, item in conversation.items(release, event):
            yield item
        if isinstance(event, ConnectionClosed):
            del conversations[connection]


def _events(bundles: Iterator[Bundle], placing: PiecePlaces, context: RunContext, order: Order) -> Iterator[FlowEvents]:
    first = next(bundles, None)
    if first is None:
        return
    flows = FlowTable(context.settings.limits, read_key(first.key)[0])
    for batch in merged(chain((first,), bundles), placing):
        for start in range(0, len(batch), SLICE_SEGMENTS):
            segments = _slice(batch, slice(start, start + SLICE_SEGMENTS))
            order.enter(segments)
            yield from flows.feed(segments)
    order.leave()
    yield from flows.end()


def _slice(batch: SegmentBatch, rows: slice) -> SegmentBatch:
    """Some segments of a batch, over the same buffer."""
    if len(batch) <= SLICE_SEGMENTS:
        return batch
    columns: dict[str, Any] = {name: getattr(batch, name)[rows] for name in _COLUMNS}
    return SegmentBatch(batch.buffer, batch.flows, **columns)


def _guarded(bundles: Iterable[Bundle]) -> Iterator[Bundle]:
    try:
        yield from bundles
    except Exception as error:
        raise InputLost(f"{type(error).__name__}: {error}") from error


def _refuse_want_of_memory(item: Item) -> None:
    """Raise MemoryError for a contained fault that was one."""
    if isinstance(item, ProblemItem) and item.problem.kind == "internal":
        detail = item.problem.detail
        if detail.startswith(MemoryError.__name__):
            raise MemoryError(detail)


def _quarantined(error: Exception, conversations: Iterable[Conversation]) -> Iterator[Item]:
    """The fault, told for each connection that it ends."""
    problem = Problem("internal", "error", f"{type(error).__name__}: decoded no further")
    for conversation in conversations:
        info = conversation.info
        yield ProblemItem(info, problem, info.first_ts_ns, info.first_packet)
        yield ClosedItem(info)
    if not conversations:
        yield ProblemItem(None, problem, None, None)
