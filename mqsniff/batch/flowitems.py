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
    guarded = _guarded(bundles)
    first = next(guarded, None)
    if first is None:
        return
    flow = FlowDecoder(read_key(first.key)[0], context)
    flow.use(placing, context, cursor or ReleaseCursor())
    yield from flow.read(chain((first,), guarded))
    yield from flow.end()


class FlowDecoder:
    """Decodes one flow, bundle by bundle; what it knows between two bundles can be pickled (``carried``)."""

    def __init__(self, domain: str, context: RunContext) -> None:
        self._flows = FlowTable(context.settings.limits, domain)
        self._conversations: dict[Connection, Conversation] = {}
        """Those that are open."""
        self._segments = 0
        """Segments so far."""
        self._failed = False

    def __getstate__(self) -> tuple[object, ...]:
        return self._flows, self._conversations, self._segments, self._failed

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self._flows, self._conversations, self._segments, self._failed = state

    def use(self, placing: PiecePlaces, context: RunContext, cursor: ReleaseCursor) -> None:
        """Set what a flow shares with the others of a task; ``cursor`` is kept up to date from now on."""
        self._placing, self._context, self._cursor = placing, context, cursor

    @property
    def connection(self) -> Connection | None:
        """The connection that may get more packets; the connections of a flow follow each other."""
        return next(iter(self._flows.open_connections()), None)

    def read(self, bundles: Iterable[Bundle]) -> Iterator[Item]:
        """The items that the segments of some bundles release."""
        return self._decoded(self._events(_guarded(bundles)))

    def end(self) -> Iterator[Item]:
        """The items that the end of the flow releases."""
        self._cursor.leave()
        return self._decoded(self._flows.end())

    def _decoded(self, events: Iterable[FlowEvents]) -> Iterator[Item]:
        """The items of events, behind the border of the task (rules 3 and 4)."""
        if self._failed:
            return
        try:
            for item in self._items(events):
                _raise_out_of_memory(item)
                yield item
        except (BundlesLost, MemoryError):
            raise
        except Exception as error:  # noqa: BLE001  # the border of the task
            self._failed = True
            yield from _closed_by_fault(error, self._conversations.values())

    def _items(self, events: Iterable[FlowEvents]) -> Iterator[Item]:
        conversations, cursor = self._conversations, self._cursor
        for release, connection, event in chain.from_iterable(events):
            conversation = conversations.get(connection)
            if conversation is None:
                conversation = conversations[connection] = Conversation(connection, self._context)
            for cursor.release, _, item in conversation.items(release, event):
                yield item
            if isinstance(event, ConnectionClosed):
                del conversations[connection]

    def _events(self, bundles: Iterable[Bundle]) -> Iterator[FlowEvents]:
        for batch in merged(bundles, self._placing, ordinal=self._segments):
            self._segments += len(batch)
            for start in range(0, len(batch), SLICE_SEGMENTS):
                segments = _slice(batch, slice(start, start + SLICE_SEGMENTS))
                self._cursor.enter(segments)
                yield from self._flows.feed(segments)


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
