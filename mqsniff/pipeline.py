"""The main loop: packets of a source in, items in the order of the packets that released them out.

1. Packets are processed in slices, so that not all items of a window are in memory together.
2. Each connection of a slice gives a lazy stream of items; a merge sorts them by release, then by connection.
   Connections whose events come from one packet each (small messages) are sorted into one stream first: decision 003.
3. Topic names are filled in after the merge: an item shows the names that were learned before it in this order, and
   records of internal topics are decoded with them.
4. ``None`` is yielded after each batch, so that live output can be flushed.
5. Slices end where the number of packets is a multiple of ``SLICE_PACKETS``, so that the state of open connections is
   counted, and bounded, at the same packets however they were read (``openstate``).
6. A worker of several decodes the connections of its share only, and the first of them tells what belongs to none
   (``WorkShare``, decision 025).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Final, NoReturn, Protocol

from mqsniff.decode.conversation import Conversation, Placed, RunContext
from mqsniff.decode.internal import InternalTopics
from mqsniff.decode.observer import RunObserver
from mqsniff.decode.openstate import COUNTED_PACKETS, OpenState
from mqsniff.decode.registry import Registry, load_dissectors
from mqsniff.decode.rowbudget import CONNECTION_ROWS, LARGE, ROWS_SPENT, RowBudget
from mqsniff.dissector import Settings, WorkCount
from mqsniff.model import (
    CaptureInfo,
    ClosedItem,
    ConnectionInfo,
    Item,
    MessageItem,
    OpenedItem,
    PacketBatch,
    Problem,
    ProblemItem,
    RecordItem,
    SegmentBatch,
    packet_id,
)
from mqsniff.sources.batches import slice_batch
from mqsniff.sources.domains import domain_finder
from mqsniff.streams.connection import Connection
from mqsniff.streams.domains import DomainFlows
from mqsniff.streams.events import ConnectionClosed, StreamChunk, StreamEvent
from mqsniff.streams.flows import FlowEvents, FlowTable
from mqsniff.streams.packets import PacketDecoder
from mqsniff.tls.keylog import TLS_KEY_LOG, KeyLog, KeyRing
from mqsniff.topics import TopicDirectory

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SLICE_PACKETS: Final = 8192
"""Packets of one slice; their items may be in memory together."""


class Source(Protocol):
    """An input: files, a pipe, an interface."""

    captures: list[CaptureInfo]

    def batches(self) -> Iterator[PacketBatch]:
        """Packets in merged order; an empty batch means that none has arrived."""
        ...


class WorkShare(Protocol):
    """The part of a run that one worker of several does."""

    jobs: int
    """The workers of the run."""
    tells_rest: bool
    """Whether problems that belong to no connection are told here."""

    def bind(self, topics: TopicDirectory) -> None:
        """Get the topic names of the run, to fill in what other workers learned."""
        ...

    def own(self, segments: SegmentBatch) -> NDArray[np.bool_]:
        """Which segments belong to connections of this worker; called once for each slice."""
        ...

    def begin(self, *, at_end: bool = False) -> None:
        """The items so far are complete; the next ones come from the next slice, or from the end of the input."""
        ...

    def in_order(self, placed: Iterator[Placed]) -> Iterator[Placed]:
        """Items before their topic names are filled in: when each is given, the names before it are known."""
        ...

    def check_limits(self, connections: int, state: int) -> None:
        """Raise if this worker holds more than its share of what a run may hold."""
        ...

    def exceed(self) -> NoReturn:
        """Raise, since this worker made more than its share of what a run may make."""
        ...


@dataclass(slots=True)
class Totals:
    """Counts of a run."""

    packets: int = 0
    other_packets: int = 0
    """Packets that carry no TCP."""
    cut_packets: int = 0
    """Packets of which the capture holds only the beginning."""
    backward_packets: int = 0
    """Packets that are older than the one before them."""
    segments: int = 0
    connections: int = 0
    messages: int = 0
    by_protocol: dict[str, int] = field(default_factory=dict)
    problems: dict[str, int] = field(default_factory=dict)


class Pipeline:
    """One run over one source."""

    def __init__(
        self,
        source: Source,
        settings: Settings,
        *,
        decode_as: Mapping[int, str] | None = None,
        domain: str = "",
        observer: RunObserver | None = None,
        keys: Sequence[KeyLog] | None = (),
        share: WorkShare | None = None,
    ) -> None:
        """``domain``: which captures are one, see ``sources.domains``; ValueError for an invalid pattern.

        ``keys`` open TLS, besides those in the captures; None: TLS stays closed, whatever the captures hold.

        ``share``: what this process does of the run; None: all.
        """
        self._source = source
        self._share = share
        settings = replace(settings, work=WorkCount())  # settings may be those of several runs
        ring = None if keys is None else KeyRing(keys, self._secrets)
        self._context = RunContext(Registry(load_dissectors(), decode_as), settings, observer, ring)
        self._decoder = PacketDecoder(settings.limits)
        self._open = OpenState(settings.limits)
        limits, lone, touched = settings.limits, observer is None, self._open.touched
        self._flows: FlowTable | DomainFlows = FlowTable(limits, lone_syns=lone, touched=touched)
        if domain:
            find = domain_finder(domain)
            self._flows = DomainFlows(
                limits, lambda index: find(source.captures[index].name), lone_syns=lone, touched=touched
            )
        self._conversations: dict[Connection, Conversation] = {}
        self._topics = TopicDirectory(limit=settings.limits.topics_max)
        self._internal = InternalTopics(self._context.registry.dissectors)
        if share is not None:
            share.bind(self._topics)
        self._numbered = 0
        self._rows = RowBudget(settings.limits, settings.work, 1 if share is None else share.jobs)
        self.totals = Totals()
        self._last_ns = -(1 << 63)

    @property
    def keys(self) -> KeyRing | None:
        """What opens TLS."""
        return self._context.keys

    @property
    def captures(self) -> list[CaptureInfo]:
        """The inputs, with what their readers found."""
        return self._source.captures

    @property
    def topics(self) -> TopicDirectory:
        """Topic names that are known so far."""
        return self._topics

    def open_connections(self) -> list[Connection]:
        """The connections that may get packets."""
        return self._flows.open_connections()

    def forget(self, connection: Connection) -> None:
        """Drop a connection: no item comes of it."""
        self._flows.forget(connection)
        self._conversations.pop(connection, None)

    def _secrets(self) -> list[bytes]:
        """Key logs in the captures, as far as they were read."""
        return [data for capture in self.captures for kind, data in capture.secrets if kind == TLS_KEY_LOG]

    def items(self, write_waiting: Callable[[], object] | None = None) -> Iterator[Item | None]:
        """All items of the source, in order; None after each batch.

        ``write_waiting`` is called before the last problems: an output that lets rows wait writes them. Records of
        internal topics are decoded only then, and their dissector may raise.
        """
        for entry in self._context.registry.loaded:
            if entry.problem:
                yield from self._notices([Problem("internal", "error", entry.problem)])
        for batch in self._source.batches():
            self._rows.look_at(self.captures, batch)
            for start, stop in _slices(batch.ordinal, len(batch)):
                yield from self._slice(slice_batch(batch, start, stop))
                if (batch.ordinal + stop) % COUNTED_PACKETS == 0:
                    yield from self._bound_state(batch.ordinal + stop)
            yield from self._faults()
            yield None
            self._count_work()
            if self._rows.is_spent(self.captures):
                if self._share is not None:
                    self._share.exceed()
                yield from self._notices([Problem("limit", "error", ROWS_SPENT)])
                break
        self._begin(at_end=False)
        odds = self._decoder.close()
        yield from self._notices([replace(odd.problem, ts_ns=odd.ts_ns, packet=odd.packet) for odd in odds])
        self._begin(at_end=True)
        # All are released by the end, the oldest connection first.
        yield from self._merged([chain.from_iterable(map(self._flow, self._flows.end()))])
        yield None
        if write_waiting is not None:
            write_waiting()
        yield from self._faults()
        self._begin(at_end=False)
        if self._topics.refused:
            yield from self._notices([Problem("limit", "warning", "more topic ids were learned than topics_max")])
        for capture in self.captures:
            yield from self._notices([replace(each, packet=packet_id(capture.index, 0)) for each in capture.problems])
        yield None

    def _count_work(self) -> None:
        """Count what costs a compressed capture more than its rows: some packets and segments, and open connections."""
        if not self._rows.bounded:
            return
        self._open.count(self._conversations)
        self._rows.count_state(self._open.size)
        work = self._context.settings.work
        work.odd_packets = self._decoder.odd_count
        work.slow_segments = sum(table.slow_segments for table in self._flows.tables())

    def _begin(self, *, at_end: bool) -> None:
        """Tell the share of a worker what comes next."""
        if self._share is not None:
            self._share.begin(at_end=at_end)

    def _slice(self, batch: PacketBatch) -> Iterator[Item]:
        """The items that some packets release."""
        self._begin(at_end=False)
        segments = self._decoder.decode(batch)
        share = self._share
        if self._context.observer is not None:
            self._context.observer.see_segments(segments)
        self.totals.packets += len(batch)
        self.totals.other_packets += segments.skipped_packets
        self._look_at(batch)
        self.totals.segments += len(segments)
        odd: Iterator[Placed] = (
            (each.ordinal, -1, ProblemItem(None, each.problem, each.ts_ns, each.packet)) for each in segments.problems
        )
        flows: list[FlowEvents] = []
        apart: FlowEvents = []
        for events in self._flows.feed(segments, None if share is None else share.own(segments)):
            if all(map(_is_of_one_packet, events)):
                apart += events
            else:
                flows.append(events)
        if apart:
            apart.sort(key=_place)
            flows.append(apart)
        streams = [self._flow(events) for events in flows]
        if share is not None:
            share.check_limits(len(self._flows), self._open.size)
        if segments.problems and (share is None or share.tells_rest):
            streams.append(odd)
        return self._merged(streams)

    def _bound_state(self, ordinal: int) -> Iterator[Item]:
        """Close connections that are silent for longest while all together hold more than ``state_max``."""
        self._open.count(self._conversations)
        if self._share is not None:
            self._share.check_limits(len(self._flows), self._open.size + sum(t.lone_size for t in self._flows.tables()))
        for table, key in self._open.excess(self._flows.tables()):
            yield from self._merged([self._flow(table.close(key, ordinal))])

    def _look_at(self, batch: PacketBatch) -> None:
        """Count what is odd about packets as such."""
        totals, times = self.totals, batch.ts_ns
        totals.cut_packets += int((batch.caplen < batch.wirelen).sum())
        if len(times):
            totals.backward_packets += int((times[1:] < times[:-1]).sum()) + int(times[0] < self._last_ns)
            self._last_ns = int(times[-1])

    def _flow(self, events: FlowEvents) -> Iterator[Placed]:
        """The items of one flow, whose connections follow each other, or of several whose events are in order."""
        for release, connection, event in events:
            conversation = self._conversations.get(connection)
            if conversation is None:
                conversation = self._conversations[connection] = Conversation(connection, self._context)
                self.totals.connections += 1
            yield from conversation.items(release, event)
            if isinstance(event, ConnectionClosed):
                del self._conversations[connection]
                self._open.closed(connection)

    def _merged(self, placed: list[Iterator[Placed]]) -> Iterator[Item]:
        """Items in order of release, then of the connections' first packets; names are known from here on."""
        merged = placed[0] if len(placed) == 1 else heapq.merge(*placed)
        if self._share is not None:
            merged = self._share.in_order(merged)
        budget = self._rows
        for _, _, item in merged:
            budget.rows += 1
            if isinstance(item, MessageItem):
                message = item.message
                if budget.bounded and message.frame.size >= LARGE:
                    budget.count_body(message.body)
                if message.teaches:
                    yield from self._topics.learn(message)
                if message.topic_ids:
                    self._topics.fill_message(message)
                totals = self.totals
                totals.messages += 1
                totals.by_protocol[message.protocol] = totals.by_protocol.get(message.protocol, 0) + 1
            elif isinstance(item, ProblemItem):
                self._count(item.problem)
                if item.connection is not None:
                    self._number(item.connection)
            elif isinstance(item, RecordItem):
                budget.count_records(item.batch)
                self._topics.fill_records(item.message.protocol, item.batch)
                item.batch = self._internal.decoded(item.message.protocol, item.batch)
            elif isinstance(item, OpenedItem | ClosedItem):
                budget.rows += CONNECTION_ROWS
                self._number(item.connection)
            yield item

    def _faults(self) -> Iterator[Item]:
        """Problems for exceptions of dissectors at records of internal topics."""
        while self._internal.faults:
            self._count(fault := Problem("internal", "error", self._internal.faults.pop()))
            yield ProblemItem(None, fault, None, None)

    def _number(self, connection: ConnectionInfo) -> None:
        """Count a connection that shows for the first time: before any of its messages, which come when it is open."""
        if not connection.number:
            self._numbered += 1
            connection.number = self._numbered

    def _count(self, problem: Problem) -> None:
        self.totals.problems[problem.kind] = self.totals.problems.get(problem.kind, 0) + 1

    def _notices(self, problems: Iterable[Problem]) -> Iterator[Item]:
        """Items of problems that belong to no connection; one worker of several tells them."""
        if self._share is None or self._share.tells_rest:
            for problem in problems:
                self._count(problem)
                yield ProblemItem(None, problem, problem.ts_ns, problem.packet)


def _slices(ordinal: int, count: int) -> Iterator[tuple[int, int]]:
    """(start, stop) of the slices of a batch whose first packet has this ordinal (rule 5)."""
    start = 0
    while start < count:
        stop = min(count, start + SLICE_PACKETS - (ordinal + start) % SLICE_PACKETS)
        yield start, stop
        start = stop


def _is_of_one_packet(placed: tuple[int, Connection, StreamEvent]) -> bool:
    """Whether one packet releases all items of an event."""
    event = placed[2]
    return not isinstance(event, StreamChunk) or len(event.marks) == 1


def _place(placed: tuple[int, Connection, StreamEvent]) -> tuple[int, int]:
    """Sort key of an event among those of all connections."""
    return placed[0], placed[1].first_ordinal
