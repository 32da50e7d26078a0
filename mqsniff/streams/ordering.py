"""Both directions of one connection: pieces of payload in, chunks and gaps out, in the order of cause.

1. Bytes are delivered in the order of their offset, and after those bytes of the peer that they acknowledge.
2. If a byte is missing, later bytes wait. Missing bytes are given up (a gap) at the first packet of the connection
   that comes ``gap_grace_packets`` packets and ``gap_grace_ns`` after the peer acknowledged beyond them, when a limit
   of waiting bytes is reached, and at the end. If no packet of the peer is captured, the grace period begins at the
   first segment after the missing bytes.
3. A direction without a captured packet during its grace period is unseen: nothing waits for it any more, and its loss
   is one gap, reported when it is captured again or at the end.
4. If bytes of both directions can be delivered, those of the earlier packet come first.
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
    """Retransmissions, zero windows and stalls of a connection (``troubles``); lists are indexed by direction."""

    __slots__ = ("longest_stall_ns", "seen", "zero_window_since_ns", "zero_windows")

    def __init__(self) -> None:
        self.seen: dict[ProblemKind, int] = {}
        """Number of each kind."""
        self.zero_windows: list[int] = [0, 0]
        self.longest_stall_ns: list[int | None] = [None, None]
        self.zero_window_since_ns: list[int | None] = [None, None]
        """Since when a direction has a zero window."""

    @property
    def has_zero_window(self) -> bool:
        """Whether either direction has a zero window."""
        return self.zero_window_since_ns[0] is not None or self.zero_window_since_ns[1] is not None


class Ordering:
    """Orders the bytes of both directions, and fills the outbox."""

    __slots__ = (
        "_packet",
        "_release",
        "_ts_ns",
        "directions",
        "has_output",
        "last_ns",
        "limits",
        "outbox",
        "packets",
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
        self.has_output = False
        """Whether any bytes or gap were delivered."""
        self.troubles: Troubles | None = None
        """None if there were none."""
        self.look_at(first.ts_ns, first.packet, first.ordinal)

    def look_at(self, ts_ns: int, packet: int, release: int) -> None:
        """Set the current packet, and the ordinal of the events that it releases."""
        self._ts_ns, self._packet, self._release = ts_ns, packet, release

    @property
    def current(self) -> tuple[int, int, int]:
        """Time and id of the current packet, and the ordinal of the events that it releases."""
        return self._ts_ns, self._packet, self._release

    def mark(self, offset: int) -> Mark:
        """A mark for a stream offset at the current packet."""
        return Mark(offset, self._ts_ns, self._packet, self._release)

    def begin(self, segment: Segment) -> Direction:
        """Count a packet and make it the current one; returns its direction."""
        me = self.directions[segment.direction]
        self.packets += 1
        ts_ns = segment.ts_ns
        self.last_ns = max(self.last_ns, ts_ns)
        self._ts_ns, self._packet, self._release = ts_ns, segment.packet, segment.ordinal
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
        """Report a problem of bytes of a direction."""
        problem = Problem(kind, severity, detail, offset=offset, size=size)
        self.outbox.put(StreamProblem(problem, self.mark(offset), me.index))

    # ---- in

    def store(self, me: Direction, pieces: list[StreamPiece]) -> tuple[int, int | None]:
        """Deliver adjacent pieces of one segment, or let them wait.

        Returns how many bytes were new, and the offset at which waiting bytes first differed from them.
        """
        first, stop = pieces[0], pieces[-1].stop
        room = not me.waiting.pieces or me.waiting.head.offset >= stop
        if first.offset == me.next and room and not self._is_held(me, first):
            for piece in pieces:
                self.deliver(me, piece)
            return stop - first.offset, None
        if not self.peer(me).packets:
            me.expect(first.offset, None, self.packets, self._ts_ns)
        added = [me.wait(piece) for piece in pieces]
        clashes = [each.clash for each in added if each.clash is not None]
        return sum(each.fresh for each in added), min(clashes, default=None)

    def finish_at(self, me: Direction, offset: int, reason: CloseReason) -> None:
        """End a direction at ``offset``."""
        me.end, me.end_by = offset, reason
        me.limit_to(offset)
        dropped = me.waiting.cut(offset)
        if dropped:
            self.problem(me, "trailing_bytes", f"{dropped} bytes after the end of the stream", offset, dropped)
        self._check_end(me)

    def settle(self) -> None:
        """Deliver bytes that need not wait any more, and give up those that the current packet shows to be lost."""
        one, two = self.directions
        if one.waiting.pieces or two.waiting.pieces:
            self._pump()
            self._relieve(one)
            self._relieve(two)
        if one.acked_beyond or two.acked_beyond:
            self._expire()

    # ---- out

    def _is_held(self, me: Direction, piece: StreamPiece) -> bool:
        """Whether a piece has to wait for bytes of the peer that it acknowledges."""
        peer = self.directions[1 - me.index]
        return piece.ack > peer.next and bool(peer.acked_beyond)

    def _pump(self) -> None:
        """Deliver pieces that need not wait, the earlier packet first."""
        while True:
            ready = [me for me in self.directions if me.waiting.pieces and me.waiting.head.offset <= me.next]
            free = [me for me in ready if not self._is_held(me, me.waiting.head)]
            if not free and len(ready) == len(self.directions):
                free = ready  # each acknowledges the other: no later packet can tell which was first
            if not free:
                return
            me = min(free, key=_head_ordinal)
            self.deliver(me, me.waiting.pop())

    def is_next(self, me: Direction, piece: StreamPiece) -> bool:
        """Whether a piece of captured bytes can be delivered at once: most segments of most connections."""
        if piece.offset != me.next or me.waiting.pieces or piece.data is None:
            return False
        return len(piece.data) == piece.stop - piece.offset and not self._is_held(me, piece)

    def deliver(self, me: Direction, piece: StreamPiece) -> None:
        """Give a piece, whose turn it is."""
        self.has_output = True
        mark = Mark(piece.offset, piece.ts_ns, piece.packet, self._release)
        if piece.data is None:
            self._report_gap(me, StreamGap(me.index, piece.offset, piece.stop - piece.offset, mark))
        else:
            self.outbox.put_bytes(me.index, piece.offset, piece.data, [mark])
            me.remember(piece.data)
        me.advance(piece.stop)
        if me.end is not None:
            self._check_end(me)

    def give_up(self, me: Direction, stop: int, *, known: bool = True) -> None:
        """Report the bytes from the next one to ``stop`` as lost."""
        self._report_gap(me, StreamGap(me.index, me.next, stop - me.next, self.mark(me.next), known))
        me.advance(stop)
        self._check_end(me)

    def _report_gap(self, me: Direction, gap: StreamGap) -> None:
        self.has_output = True
        me.gap_bytes += gap.length
        me.forget()
        self.outbox.put(gap)

    def _check_end(self, me: Direction) -> None:
        if me.end is None or me.end_by is None or me.ended or me.next < me.end:
            return
        me.ended = self.has_output = True
        self.outbox.put(StreamClosed(me.index, me.end_by, self.mark(me.next), peer_reset=self.peer(me).reset))

    # ---- missing bytes

    def _expire(self) -> None:
        """Give up missing bytes whose grace period is over."""
        while True:
            due = [
                me for me in self.directions if me.acked_beyond and me.is_stuck and self._is_over(me.acked_beyond[0])
            ]
            if not due:
                return
            me = min(due, key=_first_packets)
            if me.packets:
                *_, last = takewhile(self._is_over, me.acked_beyond)
                self.give_up(me, min(last.offset, me.waiting.head.offset) if me.waiting.pieces else last.offset)
            else:
                me.mark_unseen()
            self._pump()

    def _is_over(self, acked: AckedBeyond) -> bool:
        packets, ns = self.packets - acked.packets, self.last_ns - acked.ts_ns
        return packets >= self.limits.gap_grace_packets and ns >= self.limits.gap_grace_ns

    def _relieve(self, me: Direction) -> None:
        """Give up missing bytes until the waiting pieces of a direction are below their limits."""
        waiting = me.waiting
        while waiting.size > self.limits.reorder_max or len(waiting.pieces) > self.limits.reorder_segments:
            self._unblock(me)

    def _unblock(self, me: Direction) -> None:
        """Give up the missing bytes that the first piece of a direction waits for, its own or the peer's."""
        head, peer = me.waiting.head, self.peer(me)
        if head.offset > me.next:
            self.give_up(me, head.offset)
        elif self._is_held(me, head) and not peer.packets:
            peer.mark_unseen()
        elif self._is_held(me, head) and peer.is_stuck:
            self.give_up(peer, min(head.ack, peer.waiting.head.offset) if peer.waiting.pieces else head.ack)
        self._pump()

    def resume_seen(self, me: Direction) -> None:
        """Report the loss of an unseen direction as one gap, when it is captured again or at the end."""
        start, me.unseen_from = me.unseen_from, None
        if start is not None and start < me.next:
            self._report_gap(me, StreamGap(me.index, start, me.next - start, self.mark(start)))

    # ---- the end

    def release(self, me: Direction) -> None:
        """Deliver all waiting pieces of one direction."""
        while me.waiting.pieces:
            if me.waiting.head.offset > me.next:
                self.give_up(me, me.waiting.head.offset)
            self.deliver(me, me.waiting.pop())

    def flush(self) -> None:
        """Deliver all waiting pieces of both directions, and report what is missing at their ends."""
        one, two = self.directions
        if one.gave_all and two.gave_all:
            return
        self._pump()
        while heads := [me for me in self.directions if me.waiting.pieces]:
            self._unblock(min(heads, key=_head_ordinal))
        for me in self.directions:
            self.resume_seen(me)
            self._end_tail(me)

    def _end_tail(self, me: Direction) -> None:
        stop = me.end if me.end is not None else me.acked_beyond[-1].offset if me.acked_beyond else me.next
        # A single missing number at the end of a connection that was being closed is a FIN, not a byte.
        if stop == me.next + 1 and (me.end_by == "rst" or (me.end is None and self.peer(me).end_by == "fin")):
            self.finish_at(me, me.next, me.end_by or "fin")
        elif stop > me.next:
            self.give_up(me, stop)


def _head_ordinal(me: Direction) -> int:
    return me.waiting.head.ordinal


def _first_packets(me: Direction) -> int:
    return me.acked_beyond[0].packets
