"""Retransmissions, zero windows and stalls of a connection, which tell delays of the network from those of brokers.

1. Problems are reported for retransmissions, zero windows, and stalls of ``stall_ns`` and more: at most
   ``troubles_max`` of each kind per connection, and at the end the number of the others.
2. A stall is time for which bytes of a side were delayed: until they were sent again, until missing bytes before them
   came, or until a peer with a zero window opened it again (RFC 9293, section 3.8.6.1).
3. Times are measured at the point of capture. For a retransmission, the time begins when its bytes were first seen, as
   far as ``recent_segments`` reach.
4. A connection without these needs no memory for them.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from mqsniff.limits import MILLISECOND_NS
from mqsniff.model import Problem, ProblemKind
from mqsniff.streams.events import StreamProblem
from mqsniff.streams.ordering import Ordering, Troubles
from mqsniff.streams.reassembly import Direction
from mqsniff.streams.segment import ACK, FIN, RST, SYN, ZERO_WINDOW, Segment, first_seen

_KINDS: Final[tuple[ProblemKind, ...]] = ("retransmission", "zero_window", "stall")


class _Trouble(NamedTuple):
    """One problem to report."""

    kind: ProblemKind
    detail: str
    offset: int
    size: int = 0


def sent_again(ordering: Ordering, me: Direction, segment: Segment) -> None:
    """Count a segment that repeats bytes, a SYN or a FIN."""
    me.retransmitted += 1
    names = [name for name, flag in (("SYN", SYN), ("FIN", FIN)) if segment.flags & flag]
    if segment.size:
        names.append(f"{segment.size} bytes")
    detail = f"{' and '.join(names)} sent again"
    since_ns, exact = first_seen(me.recent, segment, ordering.limits)
    if since_ns is not None and segment.ts_ns >= since_ns:
        span_ns = segment.ts_ns - since_ns
        detail += f" after {'' if exact else 'more than '}{_milliseconds(span_ns)}"
        _stalled(ordering, me, span_ns)
    _report(ordering, me, _Trouble("retransmission", detail, me.offset_of(segment.first_seq), segment.size))


def came_late(ordering: Ordering, me: Direction, span_ns: int, offset: int) -> None:
    """Note that missing bytes have come, ``span_ns`` after the first bytes after them."""
    if span_ns >= 0:
        _stalled(ordering, me, span_ns)
        if span_ns >= ordering.limits.stall_ns:
            detail = f"bytes came {_milliseconds(span_ns)} after the bytes that follow them"
            _report(ordering, me, _Trouble("stall", detail, offset))


def see_window(ordering: Ordering, me: Direction, segment: Segment) -> None:
    """Process the window of a segment, which may be zero, or open a zero window again."""
    if segment.flags & (SYN | RST) or not segment.flags & ACK:
        return
    troubles = _troubles(ordering)
    since_ns = troubles.zero_window_since_ns[me.index]
    if not segment.flags & ZERO_WINDOW:
        if since_ns is not None:
            troubles.zero_window_since_ns[me.index] = None
            _opened(ordering, me, segment.ts_ns - since_ns, "until the peer opened its window again")
    elif since_ns is None:
        troubles.zero_window_since_ns[me.index] = segment.ts_ns
        troubles.zero_windows[me.index] += 1
        _report(ordering, me, _Trouble("zero_window", "takes no more bytes: a window of zero", me.next))


def conclude(ordering: Ordering) -> None:
    """The connection has ended: report windows that stayed zero, and how many problems were not reported."""
    troubles = ordering.troubles
    if troubles is None:
        return
    for me in ordering.directions:
        since_ns = troubles.zero_window_since_ns[me.index]
        if since_ns is not None:
            _opened(ordering, me, ordering.last_ns - since_ns, "by a window of zero of the peer, to the end")
    for kind in _KINDS:
        more = troubles.seen.get(kind, 0) - ordering.limits.troubles_max
        if more > 0:
            problem = Problem(kind, "info", f"{more} more: {ordering.limits.troubles_max} are told one by one")
            ordering.outbox.put(StreamProblem(problem, ordering.mark(0)))


def _opened(ordering: Ordering, me: Direction, span_ns: int, how: str) -> None:
    """A zero window of ``me`` delayed the peer for ``span_ns``."""
    peer = ordering.peer(me)
    if span_ns >= 0:
        _stalled(ordering, peer, span_ns)
        if span_ns >= ordering.limits.stall_ns:
            _report(ordering, peer, _Trouble("stall", f"held up for {_milliseconds(span_ns)} {how}", peer.next))


def _stalled(ordering: Ordering, me: Direction, span_ns: int) -> None:
    longest = _troubles(ordering).longest_stall_ns
    before = longest[me.index]
    longest[me.index] = span_ns if before is None else max(before, span_ns)


def _report(ordering: Ordering, me: Direction, trouble: _Trouble) -> None:
    seen, (kind, detail, offset, size) = _troubles(ordering).seen, trouble
    seen[kind] = seen.get(kind, 0) + 1
    if seen[kind] <= ordering.limits.troubles_max:
        ordering.problem(me, kind, detail, max(offset, 0), size or None, severity="info")


def _troubles(ordering: Ordering) -> Troubles:
    if ordering.troubles is None:
        ordering.troubles = Troubles()
    return ordering.troubles


def _milliseconds(span_ns: int) -> str:
    return f"{span_ns // MILLISECOND_NS}.{span_ns // 1000 % 1000:03d} ms"
