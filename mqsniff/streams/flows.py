"""The table of flows: batches of segments in, the stream events of each connection out.

1. A flow is two endpoints; its connections follow each other: a packet that does not belong to the current connection
   opens the next.
2. The events of a connection depend on its own packets and their times only. A sweep closes connections that have
   expired by these times. It comes at an expiry tick, before the packet where capture time crosses a 10 s boundary:
   the same packets give the same sweeps, wherever batches end.
3. A wrong capture clock may expire a connection too early, if packets of other connections agree with it. Its later
   packets then become a second connection, with a ``clock`` problem, for the last ``swept_max`` of these connections.
4. Above ``connections_max`` connections are closed, with a ``limit`` problem: the oldest lone SYNs, then the least
   recently used connections.
5. The expiry clock is the largest time that sixteen packets in a row have reached: a single damaged time does not move
   it.
6. A step ahead of more than ``STEP_NS`` is uncertain: the clock may be set back. The step counts once ``SURE_PACKETS``
   packets in a row, or ``STEP_NS`` more of capture time, follow it; it is dropped if a packet goes back to a time
   before it.
7. A SYN without an answer waits as its fields, a tenth of a connection: its events come with the next packet, or at its
   end. Whoever has to know of connections at their first packet does without this (``lone_syns``).
8. A worker of several feeds all segments and says which flows are its own: expiry ticks depend on all of them.
9. The caller may count the state of all connections, close those that are silent for longest (``state_max``), and park
   those that hold nothing: they wake with their next packet.
"""

from __future__ import annotations

import heapq
import struct
from bisect import bisect_right
from collections import OrderedDict, deque
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np

from mqsniff.limits import SECOND_NS, Limits
from mqsniff.model import FlowKey, Problem, SegmentBatch
from mqsniff.streams.connection import SYN_STATE, Connection, Ending
from mqsniff.streams.events import StreamEvent
from mqsniff.streams.runs import FlowGroup, FlowSortedBatch, SegmentRun
from mqsniff.streams.segment import ACK, FIN, FLAGS, RST, SIZE, SYN, Segment, SegmentRow
from mqsniff.streams.selection import select_segments

if TYPE_CHECKING:
    from mqsniff.model import Int64s
    from mqsniff.streams.runs import Bools


# ---- expiry ticks

SWEEP_NS: Final = 10 * SECOND_NS
"""Capture time between two sweeps, and how far packet times may be out of order for a sweep."""
STEP_NS: Final = 60 * SECOND_NS
SURE_PACKETS: Final = 1024
_AGREEING = 16


class ExpiryTick(NamedTuple):
    """A sweep at a capture time, before a row of the batch; ``ordinal`` is that of the row's packet."""

    row: int
    ordinal: int
    now_ns: int


class ExpiryClock:
    """Capture time on which several packets agree."""

    def __init__(self) -> None:
        self._tail = np.empty(0, np.int64)
        self._begun = False
        self._next_ns = 0
        """Time of the next sweep, once it has begun."""
        self._now_ns = 0
        """The clock before an uncertain step."""
        self._uncertain_ns: int | None = None
        """Time after an uncertain step; None if there is none."""
        self._behind = 0
        """Packets after that step."""

    def advance(self, batch: SegmentBatch) -> list[ExpiryTick]:
        """The sweeps that fall into a batch, in order."""
        times = np.concatenate((self._tail, batch.ts_ns))
        before = len(self._tail)
        self._tail = times[-(_AGREEING - 1) :]
        if len(times) < _AGREEING:
            return []
        if self._begun and self._uncertain_ns is None and int(times.max()) < self._next_ns:
            return []
        agreed = np.lib.stride_tricks.sliding_window_view(times, _AGREEING).min(axis=1)
        if not self._begun:
            self._begun, self._now_ns = True, int(agreed[0])
            self._next_ns = _next_sweep(self._now_ns)
        ticks: list[ExpiryTick] = []
        place = 0
        while (found := self._find(agreed, place)) is not None:
            place, swept = found
            if swept:
                row, now_ns = place + _AGREEING - 1 - before, int(agreed[place])
                ticks.append(ExpiryTick(row, int(batch.ordinal[row]), now_ns))
                self._now_ns, self._next_ns = now_ns, _next_sweep(now_ns)
        return ticks

    def _find(self, agreed: Int64s, place: int) -> tuple[int, bool] | None:
        """(next row, whether a sweep comes before it), from a row on; None at the end of the batch."""
        if self._uncertain_ns is not None:
            return self._find_uncertain(agreed, place, self._uncertain_ns)
        hit = _first(agreed[place:] >= self._next_ns)
        if hit is None:
            self._now_ns = max(self._now_ns, int(agreed[place:].max(initial=self._now_ns)))
            return None
        stop = place + hit
        now_ns = max(self._now_ns, int(agreed[place:stop].max(initial=self._now_ns)))
        step = int(agreed[stop]) - now_ns
        self._now_ns = now_ns
        if step > STEP_NS:
            self._uncertain_ns, self._behind = int(agreed[stop]), 0
            return stop + 1, False
        return stop, True

    def _find_uncertain(self, agreed: Int64s, place: int, uncertain_ns: int) -> tuple[int, bool] | None:
        """As ``_find``, after an uncertain step."""
        ahead = agreed[place:]
        back = _first(ahead < uncertain_ns - SWEEP_NS)
        sure = _first(ahead >= uncertain_ns + STEP_NS)
        enough = SURE_PACKETS - self._behind - 1
        if enough < len(ahead) and (sure is None or enough < sure):
            sure = enough
        if sure is not None and (back is None or sure < back):
            self._uncertain_ns = None
            return place + sure, True
        if back is not None:
            self._uncertain_ns = None
            return place + back, False
        self._behind += len(ahead)
        return None


def _first(marked: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> int | None:
    """Index of the first that is true."""
    if not marked.any():
        return None
    return int(marked.argmax())


def _next_sweep(now_ns: int) -> int:
    return (now_ns // SWEEP_NS + 1) * SWEEP_NS


# ---- flows

FlowEvents: TypeAlias = list[tuple[int, Connection, StreamEvent]]
"""(release, connection, event) of one flow, whose connections follow each other; ``release`` never decreases."""

_FIELDS: Final = struct.Struct(f"={len(Segment._fields)}q")
_NO_PAYLOAD: Final = memoryview(b"")
_RETRY_ROWS = 32
_ENDED_EARLY: Final = (
    "the clock of other connections ran ahead and ended what came before on these ports: it is shown as two connections"
)


class FlowTable:
    """All connections of a run."""

    def __init__(
        self,
        limits: Limits,
        domain: str = "",
        *,
        find_runs: bool = True,
        lone_syns: bool = False,
        touched: set[Connection] | None = None,
    ) -> None:
        """``domain`` is the capture domain, a part of connection ids; ``lone_syns``: rule 7.

        ``touched`` gets every connection that had packets; its owner empties it. Without ``find_runs`` every segment
        takes the slow path, which gives the same events.
        """
        self._limits = limits
        self._domain = domain
        self._find_runs = find_runs
        self._clock = ExpiryClock()
        self._connections: dict[FlowKey, Connection] = {}
        self._lone_syns = lone_syns
        self._touched = touched
        self._syns: dict[FlowKey, bytes] = {}
        """Lone SYNs, oldest first: their fields, packed."""
        self.slow_segments = 0
        """Segments that were processed one by one so far, by the slow path."""
        self._last_ordinal = -1
        self._swept: OrderedDict[FlowKey, int] = OrderedDict()  # a dict finds its first entry behind deleted ones
        """Connections that the last sweeps closed -> time until which they would have stayed open (rule 3)."""

    def __len__(self) -> int:
        return len(self._connections) + len(self._syns)

    def feed(self, batch: SegmentBatch, own: Bools | None = None) -> list[FlowEvents]:
        """The events of each flow that has packets in the batch or expires, by its first packet there.

        ``own``: the segments of flows that are processed here, if not all are (rule 8). Events hold copies of the
        payload, no views of the batch.
        """
        if not len(batch):
            return []
        ticks = self._clock.advance(batch)
        self._last_ordinal = int(batch.ordinal[-1])
        if own is not None and not own.all():
            batch = select_segments(batch, own)
            if not len(batch):
                return self._sweep({}, ticks)
            rows = np.searchsorted(batch.ordinal, [tick.ordinal for tick in ticks])
            ticks = [tick._replace(row=int(row)) for tick, row in zip(ticks, rows, strict=True)]
        sorted_batch = FlowSortedBatch(batch, [tick.row for tick in ticks], self._limits, find_runs=self._find_runs)
        touched = {batch.flows[group.flow]: group for group in sorted_batch.groups}
        ended = [*self._evict(touched, int(batch.ordinal[0])), *self._sweep(touched, ticks)]
        return ended + [self._flow(key, group, sorted_batch, ticks) for key, group in touched.items()]

    def end(self) -> Iterator[FlowEvents]:
        """The last events of every connection, oldest connection first; released after the last packet."""
        opened = sorted((each.first_ordinal, key) for key, each in self._connections.items())
        lone = sorted((_segment(packed).ordinal, key) for key, packed in self._syns.items())
        for _, key in heapq.merge(opened, lone):
            yield _finished(self._pop(key), self._last_ordinal + 1, "end")

    # ---- too much state

    def tables(self) -> list[FlowTable]:
        """The table of each domain."""
        return [self]

    def connections(self) -> Iterator[Connection]:
        """All connections but lone SYNs, the least recently used one first."""
        return iter(self._connections.values())

    @property
    def lone_size(self) -> int:
        """Bytes of state of lone SYNs."""
        return SYN_STATE * len(self._syns)

    def silent_since(self) -> Iterator[tuple[int, int, FlowKey]]:
        """(time of the last packet, ordinal of the first, flow) of each connection."""
        for key, each in self._connections.items():
            yield each.last_ns, each.first_ordinal, key
        for key, packed in self._syns.items():
            syn = _segment(packed)
            yield syn.ts_ns, syn.ordinal, key

    def close(self, key: FlowKey, ordinal: int) -> FlowEvents:
        """The last events of a connection that ``state_max`` closes."""
        return _finished(self._pop(key), ordinal, "state")

    def open_connections(self) -> list[Connection]:
        """The connections that may get packets."""
        return list(self._connections.values())

    def forget(self, connection: Connection) -> None:
        """Drop a connection; it gives no more events."""
        if self._connections.get(connection.key) is connection:
            del self._connections[connection.key]

    # ---- connections without packets in the batch

    def _evict(self, touched: dict[FlowKey, FlowGroup], ordinal: int) -> list[FlowEvents]:
        excess = len(self) - self._limits.connections_max
        excess += sum(key not in self._connections and key not in self._syns for key in touched)
        if excess <= 0:
            return []
        known = (key for keys in (self._syns, self._connections) for key in keys if key not in touched)
        oldest = list(islice(known, excess))
        return [_finished(self._pop(key), ordinal, "limit") for key in oldest]

    def _sweep(self, touched: dict[FlowKey, FlowGroup], ticks: list[ExpiryTick]) -> list[FlowEvents]:
        if not ticks:
            return []
        times = [tick.now_ns for tick in ticks]
        last = times[-1]
        overs = [(over_ns, key) for key, each in self._connections.items() if (over_ns := _over_ns(each)) < last]
        spare = self._limits.idle_ns + SWEEP_NS
        overs += [
            (ns + spare, key) for key, packed in self._syns.items() if (ns := _segment(packed).ts_ns) + spare < last
        ]
        over = sorted((bisect_right(times, over_ns), key) for over_ns, key in overs if key not in touched)
        return [self._swept_away(key, ticks[place].ordinal) for place, key in over]

    def _swept_away(self, key: FlowKey, release: int) -> FlowEvents:
        """The last events of a connection that a sweep closes."""
        connection = self._pop(key)
        self._swept.pop(key, None)
        self._swept[key] = connection.deadline_ns
        if len(self._swept) > self._limits.swept_max:
            del self._swept[next(iter(self._swept))]
        return _finished(connection, release, "idle")

    # ---- connections of the batch

    def _flow(
        self, key: FlowKey, group: FlowGroup, sorted_batch: FlowSortedBatch, ticks: list[ExpiryTick]
    ) -> FlowEvents:
        """Process the rows of one flow, and the sweeps between them."""
        events: FlowEvents = []
        ahead = deque(ticks)
        if key in self._syns:
            self._connections[key] = self._pop(key)
        elif (known := self._connections.get(key)) is not None:
            known.wake()
        for run in sorted_batch.runs(group):
            while ahead and ahead[0].ordinal <= sorted_batch.first_ordinal(run):
                events += self._sweep_one(key, ahead.popleft())
            connection = self._connections.get(key)
            if run.fast and connection is not None and connection.can_take(run):
                connection.take_run(run, sorted_batch)
            else:
                events += self._rows(key, run, sorted_batch)
        connection = self._connections.pop(key, None)
        if connection is None:  # a lone SYN
            for tick in ahead:
                events += self._sweep_one(key, tick)
            return events
        self._connections[key] = connection  # keeps the dictionary in the order of last use
        if self._touched is not None:
            self._touched.add(connection)
        events += _events(connection)
        for tick in ahead:
            events += self._sweep_one(key, tick)
        return events

    def _rows(self, key: FlowKey, run: SegmentRun, sorted_batch: FlowSortedBatch) -> FlowEvents:
        """Process the segments of a run one by one; those of a fast run until the rest can be processed at once.

        Returns the last events of connections that this ended.
        """
        events: FlowEvents = []
        connection = self._connections.get(key)
        retry = run.first + _RETRY_ROWS if run.fast else run.stop
        for row, fields in sorted_batch.rows(run):
            if row >= retry and connection is not None and fields[SIZE]:
                rest = sorted_batch.rest(run, row)
                if connection.can_take(rest):
                    connection.take_run(rest, sorted_batch)
                    break
                retry = row + _RETRY_ROWS
            if self._find_runs and connection is not None and connection.take_plain(fields, sorted_batch.view):
                continue
            if connection is None and self._lone_syns:
                if key in self._syns:
                    self._connections[key] = connection = self._pop(key)
                elif _is_lone_syn(fields) and key not in self._swept:
                    self._syns[key] = _FIELDS.pack(*fields)
                    continue
            self.slow_segments += 1
            segment = Segment(*fields)
            if connection is None or not connection.owns(segment):
                if connection is not None:
                    over = segment.ts_ns > connection.deadline_ns
                    events += _finished(connection, segment.ordinal, "idle" if over else "replaced")
                self._connections[key] = connection = Connection(key, segment, self._limits, self._domain)
                connection.take(segment, sorted_batch.view)
                if self._swept and segment.ts_ns <= self._swept.pop(key, segment.ts_ns - 1):
                    connection.note(Problem("clock", "warning", _ENDED_EARLY))
                continue
            connection.take(segment, sorted_batch.view)
        return events

    def _sweep_one(self, key: FlowKey, tick: ExpiryTick) -> FlowEvents:
        if key in self._syns:
            if _segment(self._syns[key]).ts_ns + self._limits.idle_ns + SWEEP_NS >= tick.now_ns:
                return []
            return self._swept_away(key, tick.ordinal)
        connection = self._connections.get(key)
        if connection is None or _over_ns(connection) >= tick.now_ns:
            return []
        return self._swept_away(key, tick.ordinal)

    def _pop(self, key: FlowKey) -> Connection:
        """Remove a connection and return it; a lone SYN becomes one."""
        packed = self._syns.pop(key, None)
        if packed is None:
            return self._connections.pop(key)
        segment = _segment(packed)
        connection = Connection(key, segment, self._limits, self._domain)
        connection.take(segment, _NO_PAYLOAD)
        return connection


def _is_lone_syn(fields: SegmentRow) -> bool:
    return fields[FLAGS] & (SYN | ACK | FIN | RST) == SYN and not fields[SIZE]


def _segment(packed: bytes) -> Segment:
    return Segment(*_FIELDS.unpack(packed))


def _over_ns(connection: Connection) -> int:
    """Capture time after which a sweep closes a connection."""
    return connection.deadline_ns + SWEEP_NS


def _finished(connection: Connection, release: int, ending: Ending) -> FlowEvents:
    connection.finish(release, ending)
    return _events(connection)


def _events(connection: Connection) -> FlowEvents:
    return [(release, connection, event) for release, event in connection.take_events()]
