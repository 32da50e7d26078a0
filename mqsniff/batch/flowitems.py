"""The bundles of one flow in, the items of its connections out: the same decoding as that of one process.

1. One flow is in memory at a time: what ``bundles.merged`` and its connections hold.
2. The items of a connection depend on its own packets only, so a flow decoded alone gives the same items.
3. An exception in our code ends its flow, never the job: decoded items stay, and a problem says where decoding ended.
4. A MemoryError fails the task, wherever it was caught, so that an attempt with more memory gives all rows.
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
"""Segments whose events may be in memory together: an event of a small segment is larger than its bytes."""

_COLUMNS: Final = (
    *("flow", "direction", "seq", "ack", "flags", "start", "stop", "size", "ip_id"),
    *("ts_ns", "packet", "ordinal", "interface"),
)


class BundlesLost(Exception):  # noqa: N818  # it says what happened
    """Reading the bundles failed: a failure of the task, not of the traffic."""


_END: Final[When] = ((1 << 63) - 1, 0)


class ReleaseCursor:
    """The packet that released the last item of a flow."""

    def __init__(self) -> None:
        self._batch: SegmentBatch | None = None
        self.release = 0
        """Ordinal of that packet in the flow."""

    def enter(self, batch: SegmentBatch) -> None:
        """The next items come from these segments."""
        self._batch = batch

    def leave(self) -> None:
        """The next items come from the end of the flow."""
        self._batch = None

    @property
    def now(self) -> When:
        """Time and number of that packet."""
        batch = self._batch
        place = 0 if batch is None else self.release - int(batch.ordinal[0])
        if batch is None or place >= len(batch):
            return _END
        return int(batch.ts_ns[max(place, 0)]), int(batch.packet[max(place, 0)])


def items_of(
    bundles: Iterable[Bundle], placing: PiecePlaces, context: RunContext, cursor: ReleaseCursor | None = None
) -> Iterator[Item]:
    """All items of one flow, whose bundles come in the order of ``PiecePlaces.key``.

    ``cursor`` is kept up to date. Raises BundlesLost where ``bundles`` raises, MemoryError; nothing else.
    """
    conversations: dict[Connection, Conversation] = {}
    cursor = cursor or ReleaseCursor()
    try:
        for item in _items(_events(_guarded(bundles), placing, context, cursor), context, conversations, cursor):
            _raise_out_of_memory(item)
            yield item
    except (BundlesLost, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001  # the border of the task
        yield from _closed_by_fault(error, conversations.values())


def _items(
    events: Iterable[FlowEvents],
    context: RunContext,
    conversations: dict[Connection, Conversation],
    cursor: ReleaseCursor,
) -> Iterator[Item]:
    """The items of all connections; ``conversations`` are those that are open."""
    for release, connection, event in chain.from_iterable(events):
        conversation = conversations.get(connection)
        if conversation is None:
            conversation = conversations[connection] = Conversation(connection, context)
        for cursor.release, _, item in conversation.items(release, event):
            yield item
        if isinstance(event, ConnectionClosed):
            del conversations[connection]


def _events(
    bundles: Iterator[Bundle], placing: PiecePlaces, context: RunContext, cursor: ReleaseCursor
) -> Iterator[FlowEvents]:
    first = next(bundles, None)
    if first is None:
        return
    flows = FlowTable(context.settings.limits, read_key(first.key)[0])
    for batch in merged(chain((first,), bundles), placing):
        for start in range(0, len(batch), SLICE_SEGMENTS):
            segments = _slice(batch, slice(start, start + SLICE_SEGMENTS))
            cursor.enter(segments)
            yield from flows.feed(segments)
    cursor.leave()
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
        raise BundlesLost(f"{type(error).__name__}: {error}") from error


def _raise_out_of_memory(item: Item) -> None:
    """Raise MemoryError if the item reports one that was caught."""
    if isinstance(item, ProblemItem) and item.problem.kind == "internal":
        detail = item.problem.detail
        if detail.startswith(MemoryError.__name__):
            raise MemoryError(detail)


def _closed_by_fault(error: Exception, conversations: Iterable[Conversation]) -> Iterator[Item]:
    """A problem and the end of each connection that an exception ends."""
    problem = Problem("internal", "error", f"{type(error).__name__}: decoded no further")
    for conversation in conversations:
        info = conversation.info
        yield ProblemItem(info, problem, info.first_ts_ns, info.first_packet)
        yield ClosedItem(info)
    if not conversations:
        yield ProblemItem(None, problem, None, None)
