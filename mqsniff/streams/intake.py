"""The segments of a connection in, one at a time; pieces of its streams, checked for plausibility, out.

1. The bytes that come first count; other bytes at the same offset are a problem.
2. Bytes that came before are a retransmission; the same packet again is a duplicate by the tap; one byte before the
   expected one is a keep-alive probe (RFC 9293, section 3.8.4).
3. A direction starts at the first of SYN, payload and the peer's acknowledgement; bytes before are ignored.
4. A segment with a sequence number far from all known ones waits as a stray until the peer acknowledges it or, if the
   peer is not in the capture, until enough strays follow each other. Then the stream continues there, after a gap.
5. Bytes that the snap length cut off are lost if no other packet brings them in time.
"""

from __future__ import annotations

from mqsniff.model import ProblemKind
from mqsniff.streams.ordering import Ordering
from mqsniff.streams.reassembly import Direction, Stray
from mqsniff.streams.segment import FIN, MASK, Segment, has_copy, has_same, remember
from mqsniff.streams.troubles import came_late, sent_again
from mqsniff.streams.waiting import StreamPiece


def acknowledge(ordering: Ordering, me: Direction, segment: Segment) -> int:
    """Process the acknowledgement of ``me``; returns the peer's offset that it names, 0 if implausible."""
    peer = ordering.peer(me)
    if not peer.started:
        peer.start(segment.ack)
        return 0
    if peer.strays and peer.strays_confirmed(segment.ack):
        _resume(ordering, peer)
    offset = peer.offset_of(segment.ack)
    if offset == peer.next and not peer.acked_beyond:
        return offset
    if abs(offset - peer.next) > ordering.limits.jump_max:
        detail = f"acknowledgement {offset - peer.next:+d} bytes from the peer's stream: not believed"
        _ignore(ordering, me, "out_of_range", detail)
        return 0
    if peer.end is not None:
        offset = min(offset, peer.end)
    if peer.unseen_from is not None:
        peer.next = max(peer.next, offset)
    else:
        peer.acknowledge(offset, segment, ordering.packets)
    return offset


def receive(ordering: Ordering, me: Direction, segment: Segment, data: bytes, ack: int) -> None:
    """Process the captured payload and the FIN of a segment; ``ack`` is what ``acknowledge`` returned."""
    if not me.started:
        me.start(segment.first_seq)
    offset = me.offset_of(segment.first_seq)
    stop = offset + segment.size
    if offset != me.next and not me.is_plausible(offset, stop):
        _stray(ordering, me, Stray(segment, data, ack))
        return
    if me.strays:
        me.drop_strays()
    if segment.size:
        _payload(
            ordering, me, segment, StreamPiece(offset, stop, data, ack, segment.ts_ns, segment.packet, segment.ordinal)
        )
    if segment.flags & FIN:
        _fin(ordering, me, segment, stop)


def repeated(ordering: Ordering, me: Direction, segment: Segment) -> bool:
    """Count a segment without new bytes; returns whether it is a duplicate by the tap."""
    if has_copy(me.recent, segment, ordering.limits):
        me.duplicates += 1
        return True
    sent_again(ordering, me, segment)
    me.recent = remember(me.recent, segment, ordering.limits)
    return False


def reset(ordering: Ordering, me: Direction, segment: Segment) -> bool:
    """Process a RST; returns whether it is plausible.

    The payload of a RST (RFC 9293, section 3.5.3) is not part of the stream.
    """
    if segment.size:
        _ignore(ordering, me, "trailing_bytes", f"{segment.size} bytes in a RST segment", segment.size)
    if not me.started:
        me.reset = True
        return True
    offset = me.offset_of(segment.seq)
    if abs(offset - me.next) > ordering.limits.reach_max:
        detail = f"RST {offset - me.next:+d} bytes from the stream: not believed"
        _ignore(ordering, me, "out_of_range", detail)
        return False
    me.reset = True
    if me.end is None:
        ordering.finish_at(me, max(offset, me.next), "rst")
    return True


# ---- payload


def _payload(ordering: Ordering, me: Direction, segment: Segment, piece: StreamPiece) -> None:
    if me.end is None and ordering.is_next(me, piece):
        ordering.deliver(me, piece)
        me.recent = remember(me.recent, segment, ordering.limits)
    else:
        _place_payload(ordering, me, segment, piece)


def _place_payload(ordering: Ordering, me: Direction, segment: Segment, piece: StreamPiece) -> None:
    """Deliver a segment with payload, or let it wait, or find that its bytes are known."""
    stop = piece.stop
    if me.end is not None and stop > me.end:
        if segment.size > 1 or piece.offset != me.end:  # else a keep-alive probe: its byte has the FIN's number
            _beyond_end(ordering, me, segment, stop - max(piece.offset, me.end))
        stop = me.end
        if stop <= piece.offset:
            return
    old_clash = me.clash(piece.offset, piece.data or b"") if piece.offset < me.next else None
    if stop <= me.next:
        _again(ordering, me, segment, piece, old_clash)
        return
    pieces = _pieces(piece, max(piece.offset, me.next), stop)
    late = bool(me.waiting.pieces) and pieces[0].offset < me.waiting.pieces[-1].offset
    filled = late and pieces[0].offset == me.next and me.is_stuck
    behind_ns = me.waiting.head.ts_ns if filled else 0
    fresh, clash = ordering.store(me, pieces)
    clash = clash if old_clash is None else old_clash
    if not fresh:
        _again(ordering, me, segment, piece, clash)
        return
    if fresh < stop - piece.offset:
        sent_again(ordering, me, segment)
    me.out_of_order += late
    if filled:
        came_late(ordering, me, segment.ts_ns - behind_ns, pieces[0].offset)
    me.recent = remember(me.recent, segment, ordering.limits)
    if clash is not None:
        _overlap(ordering, me, clash, stop)


def _again(ordering: Ordering, me: Direction, segment: Segment, piece: StreamPiece, clash: int | None) -> None:
    """A segment all of whose bytes are known."""
    if segment.size == 1 and piece.offset == me.next - 1 and not has_same(me.recent, segment):
        return  # a keep-alive probe, whose byte may be any
    if clash is None:
        repeated(ordering, me, segment)
        return
    sent_again(ordering, me, segment)
    me.recent = remember(me.recent, segment, ordering.limits)
    _overlap(ordering, me, clash, piece.stop)


def _overlap(ordering: Ordering, me: Direction, clash: int, stop: int) -> None:
    detail = "bytes were sent again and differ: the first ones are kept"
    ordering.problem(me, "overlap", detail, clash, stop - clash)


# ---- the end of a direction


def _fin(ordering: Ordering, me: Direction, segment: Segment, offset: int) -> None:
    if me.end is None and offset >= me.next:
        if not segment.size:
            me.recent = remember(me.recent, segment, ordering.limits)
        ordering.finish_at(me, offset, "fin")
    elif me.end == offset:
        if not segment.size:
            repeated(ordering, me, segment)
    elif me.end_by != "rst":
        detail = "FIN at another place than where the stream ends: ignored"
        _ignore(ordering, me, "out_of_range", detail)


def _beyond_end(ordering: Ordering, me: Direction, segment: Segment, size: int) -> None:
    """Note and report that the last ``size`` bytes of a segment are after the end of the stream."""
    stop = segment.first_seq + segment.size
    me.add_beyond(stop - size & MASK, stop & MASK)
    _ignore(ordering, me, "trailing_bytes", f"{size} bytes after the end of the stream", size)


# ---- implausible segments


def _ignore(ordering: Ordering, me: Direction, kind: ProblemKind, detail: str, size: int | None = None) -> None:
    me.ignored += 1
    if me.oddities < ordering.limits.oddities_max:
        me.oddities += 1
        ordering.problem(me, kind, detail, me.next, size)


def _stray(ordering: Ordering, me: Direction, stray: Stray) -> None:
    segment = stray.segment
    if me.end is not None:
        _beyond_end(ordering, me, segment, segment.size)
        return
    off = me.offset_of(segment.first_seq) - me.next
    _ignore(ordering, me, "out_of_range", f"segment {off:+d} bytes from the stream: not believed", segment.size)
    me.add_stray(stray)
    if ordering.peer(me).packets == 0 and len(me.strays) >= ordering.limits.strays_sure:
        _resume(ordering, me)


def _resume(ordering: Ordering, me: Direction) -> None:
    """Continue at the strays: the capture lost more than seemed plausible."""
    strays = me.take_strays()
    ordering.release(me)
    first = strays[0].segment.first_seq
    if me.anchored or me.next or me.gap_bytes:
        jump = first - me.next_seq & MASK
        # A stream that wrapped around all sequence numbers in between looks the same.
        ordering.give_up(me, me.next + jump, known=jump <= ordering.limits.jump_max)
    else:
        me.start(first)
    me.acked_beyond.clear()
    me.ignored -= len(strays)
    for stray in strays:
        receive(ordering, me, stray.segment, stray.data, stray.ack)


def _pieces(piece: StreamPiece, start: int, stop: int) -> list[StreamPiece]:
    """The parts of a segment between two offsets: captured bytes, then those that the snap length cut off."""
    data = piece.data or b""
    captured = min(piece.offset + len(data), stop)
    if start == piece.offset and captured == piece.stop:
        return [piece]
    bounds = (
        (start, captured, data[start - piece.offset : captured - piece.offset]),
        (max(start, captured), stop, None),
    )
    return [piece._replace(offset=low, stop=high, data=part) for low, high, part in bounds if low < high]
