"""Who talks to whom: batches of segments in, each connection's stream events out, in the order of their release.

1. A flow is two endpoints and carries one connection after another: a packet that the last one does not own opens the
   next.
2. What becomes of a connection depends on its own packets and their times. Sweeps only free what is over by these
   times: a sweep stands before a certain packet, wherever batches end.
3. Above ``connections_max`` the connections that were silent longest are closed, with a ``limit`` problem.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import TypeAlias

from mqsniff.limits import Limits
from mqsniff.model import FlowKey, SegmentBatch
from mqsniff.streams.connection import Connection, Ending
from mqsniff.streams.events import StreamEvent
from mqsniff.streams.runs import Group, Run, Sheet
from mqsniff.streams.segment import Segment
from mqsniff.streams.sweeps import SWEEP_NS, SweepClock, Turn

_RETRY_ROWS = 32

FlowEvents: TypeAlias = Iterator[tuple[int, Connection, StreamEvent]]
"""(release, connection, event) of one flow: ``release`` never falls."""


class Flows:
    """All connections of a run."""

    def __init__(self, limits: Limits, domain: str = "", *, find_runs: bool = True) -> None:
        """``domain`` is the capture domain that goes into connection ids; without ``find_runs`` each row goes alone."""
        self._limits = limits
        self._domain = domain
        self._find_runs = find_runs
        self._clock = SweepClock()
        self._connections: dict[FlowKey, Connection] = {}
        self._last_ordinal = -1

    def __len__(self) -> int:
        return len(self._connections)

    def feed(self, batch: SegmentBatch) -> list[FlowEvents]:
        """The events of each flow that the batch touches or lets end, in order of the first packet.

        The iterators are lazy and independent of each other; all must be exhausted before the next batch is fed and
        while the batch's buffer is valid.
        """
        if not len(batch):
            return []
        turns = self._clock.advance(batch)
        sheet = Sheet(batch, [turn.row for turn in turns], self._limits, find_runs=self._find_runs)
        self._last_ordinal = int(batch.ordinal[-1])
        touched = {batch.flows[group.flow]: group for group in sheet.groups}
        ended = [*self._evict(touched, int(batch.ordinal[0])), *self._sweep(touched, turns)]
        for key in touched:  # the dictionary stays in the order of last use
            if key in self._connections:
                self._connections[key] = self._connections.pop(key)
        return ended + [self._flow(key, group, sheet, turns) for key, group in touched.items()]

    def end(self) -> Iterator[FlowEvents]:
        """The last events of every connection, oldest first; released behind the last packet."""
        connections = sorted(self._connections.values(), key=_age)
        self._connections.clear()
        for connection in connections:
            yield _finish(connection, self._last_ordinal + 1, "end")

    # ---- connections that nothing touches

    def _evict(self, touched: dict[FlowKey, Group], ordinal: int) -> list[FlowEvents]:
        excess = len(self._connections) - self._limits.connections_max
        excess += sum(key not in self._connections for key in touched)
        if excess <= 0:
            return []
        oldest = list(islice((key for key in self._connections if key not in touched), excess))
        return [_finish(self._connections.pop(key), ordinal, "limit") for key in oldest]

    def _sweep(self, touched: dict[FlowKey, Group], turns: list[Turn]) -> list[FlowEvents]:
        ended = []
        for turn in turns:
            over = [key for key, each in self._connections.items() if key not in touched and _is_over(each, turn)]
            ended += [_finish(self._connections.pop(key), turn.ordinal, "idle") for key in over]
        return ended

    # ---- connections of a batch

    def _flow(self, key: FlowKey, group: Group, sheet: Sheet, turns: list[Turn]) -> FlowEvents:
        """The events of one flow's rows, and of the sweeps between them."""
        ahead = deque(turns)
        for run in sheet.runs(group):
            while ahead and ahead[0].ordinal <= sheet.first_ordinal(run):
                yield from self._sweep_one(key, ahead.popleft())
            connection = self._connections.get(key)
            if run.fast and connection is not None and connection.can_take(run):
                connection.take_run(run, sheet)
            else:
                yield from self._rows(key, run, sheet)
        if key in self._connections:
            self._connections[key].outbox.flush()
            yield from _events(self._connections[key])
        for turn in ahead:
            yield from self._sweep_one(key, turn)

    def _rows(self, key: FlowKey, run: Run, sheet: Sheet) -> FlowEvents:
        """Take the segments of a run one by one; where it is a fast one, until the rest of it can go at once."""
        connection = self._connections.get(key)
        retry = run.first + _RETRY_ROWS if run.fast else run.stop
        for row, segment in sheet.segments(run):
            if row >= retry and segment.size and connection is not None:
                rest = sheet.rest(run, row)
                if connection.can_take(rest):
                    connection.take_run(rest, sheet)
                    return
                retry = row + _RETRY_ROWS
            if self._find_runs and connection is not None and connection.take_plain(segment, sheet.view):
                continue
            if connection is None or not connection.owns(segment):
                yield from self._replace(key, segment)
                connection = self._connections[key]
            connection.take(segment, sheet.view)
            if connection.outbox.ready:
                yield from _events(connection)

    def _replace(self, key: FlowKey, segment: Segment) -> FlowEvents:
        """Open the connection that a segment belongs to; the one before it on the same flow is over."""
        old = self._connections.pop(key, None)
        self._connections[key] = Connection(key, segment, self._limits, self._domain)
        if old is not None:
            yield from _finish(old, segment.ordinal, "idle" if segment.ts_ns > old.deadline_ns else "replaced")

    def _sweep_one(self, key: FlowKey, turn: Turn) -> FlowEvents:
        connection = self._connections.get(key)
        if connection is not None and _is_over(connection, turn):
            yield from _finish(self._connections.pop(key), turn.ordinal, "idle")


def _is_over(connection: Connection, turn: Turn) -> bool:
    return connection.deadline_ns + SWEEP_NS < turn.now_ns


def _finish(connection: Connection, release: int, ending: Ending) -> FlowEvents:
    connection.finish(release, ending)
    yield from _events(connection)


def _events(connection: Connection) -> FlowEvents:
    for release, event in connection.outbox.take():
        yield release, connection, event


def _age(connection: Connection) -> int:
    return connection.first_ordinal
