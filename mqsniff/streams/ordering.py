"""Both directions of one connection: pieces of payload in, chunks and gaps out, in the order of cause.

1. Bytes are delivered in the order of their offset, and after those bytes of the peer that they acknowledge.
2. Where a byte is missing, later bytes wait. The hole is given up (a Gap) by the first packet of the connection that
   comes ``gap_grace_packets`` packets and ``gap_grace_ns`` after the peer acknowledged past it, when a cap on what
   waits is hit, and at the end. Where the capture shows nothing of the peer, the first segment behind the hole starts
   the clock.
3. A direction that shows no packet during its grace is dark: nothing waits for it any more, and its loss is one Gap,
   told when it shows up or at the end.
4. Of what could go out in both directions, the packet that came first goes first.
"""

from __future__ import annotations

from itertools import takewhile

from mqsniff.limits import Limits
from mqsniff.model import Mark, Problem, ProblemKind, Severity
from mqsniff.streams.events import CloseReason, Outbox, StreamClosed, StreamGap, StreamProblem
from mqsniff.streams.reassembly import AckedBeyond, Direction
from mqsniff.streams.segment import Segment
from mqsniff.streams.waiting import StreamPiece


class Troubles:
    """What delayed the bytes of a connection (``troubles``); lists are indexed by direction."""

    __slots__ = ("longest_stall_ns", "seen", "shut_ns", "zero_windows")

    def __init__(self) -> None:
        self.seen: dict[ProblemKind, int] = {}
        """How many there were of each kind."""
        self.zero_windows: list[int] = [0, 0]
        self.longest_stall_ns: list[int | None] = [None, None]
        self.shut_ns: list[int | None] = [None, None]
        """Since when a direction takes no bytes."""

    @property
    def is_shut(self) -> bool:
        """Whether either direction takes no bytes."""
        return self.shut_ns[0] is not None or self.shut_ns[1] is not None


class Ordering:
    """Holds both directions and fills the outbox."""

    __slots__ = (
        "_packet",
        "_release",
        "_ts_ns",
        "directions",
        "last_ns",
        "limits",
        "outbox",
        "packets",
        "told",
        "troubles",
    )

    def __init__(self, limits: Limits, first: Segment) -> None:
        self.limits = limits
        self.outbox = Outbox(limits.chunk_max)
        self.directions = Direction(0, limits), Direction(1, limits)
        self.packets = 0
        """Packets of the connection so far."""
        self.last_ns = first.ts_ns
        """Largest time of a packet so far."""
        self.told = False
        """Whether anything of the streams went out."""
        self.troubles: Troubles | None = None
        """What kept bytes from going on; None where nothing did."""
        self.look_at(first.ts_ns, first.packet, first.ordinal)

    def look_at(self, ts_ns: int, packet: int, release: int) -> None:
        """Say which packet the next calls are about, and at which ordinal they release what they release."""
        self._ts_ns, self._packet, self._release = ts_ns, packet, release

    def mark(self, offset: int) -> Mark:
        """A stream offset at the packet that is looked at."""
        return Mark(offset, self._ts_ns, self._packet, self._release)

    def begin(self, segment: Segment) -> Direction:
        """Count a packet and look at it; returns its direction."""
        me = self.directions[segment.direction]
        self.packets += 1
        self.last_ns = max(self.last_ns, segment.ts_ns)
        self.look_at(segment.ts_ns, segment.packet, segment.ordinal)
        me.packets += 1
        if me.unseen_from is not None:
            self.resume_seen(me)
        return me

    def peer(self, me: Direction) -> Direction:
        """The other direction."""
        return self.directions[1 - me.index]

    def problem(
        self,
        me: Direction,
        kind: ProblemKind,
        detail: str,
        offset: int,
        size: int | None,
        *,
        severity: Severity = "warning",
    ) -> None:
        """Tell something odd about bytes of a direction."""
        problem = Problem(kind, severity, detail, offset=offset, size=size)
        self.outbox.put(StreamProblem(problem, self.mark(offset), me.index))

    # ---- in

    def store(self, me: Direction, pieces: list[StreamPiece]) -> tuple[int, int | None]:
        """Deliver adjoining pieces of one segment, or let them wait.

        Returns how many bytes were new, and the offset at which waiting bytes first differed from them.
        """
        first, stop = pieces[0], pieces[-1].stop
        room = not me.waiting.pieces or me.waiting.head.offset >= stop
        if first.offset == me.next and room and not self._is_held(me, first):
            for piece in pieces:
                self._deliver(me, piece)
            return stop - first.offset, None
        if not self.peer(me).packets:
            me.expect(first.offset, None, self.packets, self._ts_ns)
        added = [me.wait(piece) for piece in pieces]
        clashes = [each.clash for each in added if each.clash is not None]
        return sum(each.fresh for each in added), min(clashes, default=None)

    def finish_at(self, me: Direction, offset: int, reason: CloseReason) -> None:
        """Nothing that a direction sends counts from ``offset`` on."""
        me.end, me.end_by = offset, reason
        me.limit_to(offset)
        dropped = me.waiting.cut(offset)
        if dropped:
            self.problem(me, "trailing_bytes", f"{dropped} bytes after the end of the stream", offset, dropped)
        self._check_end(me)

    def settle(self) -> None:
        """Let out what the packet made free, and give up what it showed to be lost."""
        one, two = self.directions
        if one.waiting.pieces or two.waiting.pieces:
            self._pump()
            self._relieve(one)
            self._relieve(two)
        if one.passed or two.passed:
            self._expire()

    # ---- out

    def _is_held(self, me: Direction, piece: StreamPiece) -> bool:
        """Whether a piece acknowledges bytes of the peer that may still come."""
        peer = self.directions[1 - me.index]
        return piece.ack > peer.next and bool(peer.passed)

    def _pump(self) -> None:
        """Deliver what waits for nothing any more, the packet that came first before the others."""
        while True:
            ready = [me for me in self.directions if me.waiting.pieces and me.waiting.head.offset <= me.next]
            free = [me for me in ready if not self._is_held(me, me.waiting.head)]
            if not free and len(ready) == len(self.directions):
                free = ready  # each acknowledges the other: no packet to come can tell which was first
            if not free:
                return
            me = min(free, key=_head_ordinal)
            self._deliver(me, me.waiting.pop())

    def _deliver(self, me: Direction, piece: StreamPiece) -> None:
        self.told = True
        mark = Mark(piece.offset, piece.ts_ns, piece.packet, self._release)
        if piece.data is None:
            self._tell_gap(me, StreamGap(me.index, piece.offset, piece.stop - piece.offset, mark))
        else:
            self.outbox.put_bytes(me.index, piece.offset, piece.data, [mark])
            me.remember(piece.data)
        me.advance(piece.stop)
        self._check_end(me)

    def give_up(self, me: Direction, stop: int, *, known: bool = True) -> None:
        """Declare the bytes from the next one to ``stop`` lost."""
        self._tell_gap(me, StreamGap(me.index, me.next, stop - me.next, self.mark(me.next), known))
        me.advance(stop)
        self._check_end(me)

    def _tell_gap(self, me: Direction, gap: StreamGap) -> None:
        self.told = True
        me.gap_bytes += gap.length
        me.forget()
        self.outbox.put(gap)

    def _check_end(self, me: Direction) -> None:
        if me.end is None or me.end_by is None or me.ended or me.next < me.end:
            return
        me.ended = self.told = True
        self.outbox.put(StreamClosed(me.index, me.end_by, self.mark(me.next), peer_reset=self.peer(me).reset))

    # ---- holes

    def _expire(self) -> None:
        """Give up the holes whose grace is over."""
        while True:
            due = [me for me in self.directions if me.passed and me.is_stuck and self._is_over(me.passed[0])]
            if not due:
                return
            me = min(due, key=_first_packets)
            if me.packets:
                *_, last = takewhile(self._is_over, me.passed)
                self.give_up(me, min(last.offset, me.waiting.head.offset) if me.waiting.pieces else last.offset)
            else:
                me.mark_unseen()
            self._pump()

    def _is_over(self, passed: AckedBeyond) -> bool:
        packets, ns = self.packets - passed.packets, self.last_ns - passed.ts_ns
        return packets >= self.limits.gap_grace_packets and ns >= self.limits.gap_grace_ns

    def _relieve(self, me: Direction) -> None:
        """Give up holes until what waits in a direction is below its caps."""
        waiting = me.waiting
        while waiting.size > self.limits.reorder_max or len(waiting.pieces) > self.limits.reorder_segments:
            self._unblock(me)

    def _unblock(self, me: Direction) -> None:
        """Give up the hole that the head of a direction waits for, its own or the peer's."""
        head, peer = me.waiting.head, self.peer(me)
        if head.offset > me.next:
            self.give_up(me, head.offset)
        elif self._is_held(me, head) and not peer.packets:
            peer.mark_unseen()
        elif self._is_held(me, head) and peer.is_stuck:
            self.give_up(peer, min(head.ack, peer.waiting.head.offset) if peer.waiting.pieces else head.ack)
        self._pump()

    def resume_seen(self, me: Direction) -> None:
        """Report the loss of a dark direction as one gap, once it shows a packet or at the end."""
        start, me.unseen_from = me.unseen_from, None
        if start is not None and start < me.next:
            self._tell_gap(me, StreamGap(me.index, start, me.next - start, self.mark(start)))

    # ---- the end

    def release(self, me: Direction) -> None:
        """Deliver all that waits in one direction, whatever it waits for."""
        while me.waiting.pieces:
            if me.waiting.head.offset > me.next:
                self.give_up(me, me.waiting.head.offset)
            self._deliver(me, me.waiting.pop())

    def flush(self) -> None:
        """Deliver all that waits in both directions and tell what is missing at their ends."""
        self._pump()
        while heads := [me for me in self.directions if me.waiting.pieces]:
            self._unblock(min(heads, key=_head_ordinal))
        for me in self.directions:
            self.resume_seen(me)
            self._end_tail(me)

    def _end_tail(self, me: Direction) -> None:
        stop = me.end if me.end is not None else me.passed[-1].offset if me.passed else me.next
        # One number that is missing at the very end, where the connection was being closed, is a FIN and no byte.
        if stop == me.next + 1 and (me.end_by == "rst" or (me.end is None and self.peer(me).end_by == "fin")):
            self.finish_at(me, me.next, me.end_by or "fin")
        elif stop > me.next:
            self.give_up(me, stop)


def _head_ordinal(me: Direction) -> int:
    return me.waiting.head.ordinal


def _first_packets(me: Direction) -> int:
    return me.passed[0].packets
