"""The state of one direction of a connection: its next byte, waiting pieces, recent segments, acknowledged offsets.

1. A position is an offset: bytes since the start of the stream, never wrapped. SYN and FIN take no offset.
2. A sequence number means the offset nearest to the next expected byte, so streams may be longer than 4 GiB.
3. Segments with numbers too far off are strays until there is more evidence.
4. A direction holds waiting pieces, ``overlap_history`` delivered bytes and ``recent_segments`` identities. It is small
   if nothing is missing: every open connection has two.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from mqsniff.limits import Limits
from mqsniff.streams.events import CloseReason
from mqsniff.streams.segment import HALF, MASK, NO_BYTES, Segment, distance
from mqsniff.streams.waiting import Added, StreamPiece, WaitingPieces, first_difference

PIECE_STATE: Final = 256
"""Bytes that a piece, an acknowledgement or a stray takes besides its data."""


class AckedBeyond(NamedTuple):
    """The peer acknowledged all bytes before ``offset``, and some of them are not delivered."""

    offset: int
    sent: int | None
    """Sequence number after the acknowledging segment; None if it was not sent by the peer."""
    packets: int
    """Number of packets of the connection at that time."""
    ts_ns: int


class Stray(NamedTuple):
    """A segment with an implausible sequence number."""

    segment: Segment
    data: bytes
    ack: int


# One shared empty object for all directions, as most never need their own; it is replaced before something is added.
_NOTHING: Final = WaitingPieces()
_NOTHING_ACKED: Final[list[AckedBeyond]] = []
_NO_STRAYS: Final[list[Stray]] = []


class Direction:
    """State and counters of one direction: 0 is sent by the low endpoint, 1 by the high one."""

    __slots__ = (
        "_history",
        "_limits",
        "acked_beyond",
        "anchored",
        "beyond",
        "duplicates",
        "end",
        "end_by",
        "ended",
        "gap_bytes",
        "ignored",
        "index",
        "next",
        "oddities",
        "origin",
        "out_of_order",
        "packets",
        "recent",
        "reset",
        "retransmitted",
        "started",
        "strays",
        "unseen_from",
        "waiting",
    )

    def __init__(self, index: int, limits: Limits) -> None:
        self._limits = limits
        self._history = NO_BYTES
        self.index = index
        """The number of the direction in events."""
        self.started = False
        self.anchored = False
        """Whether its SYN was captured, so that offset 0 is certain."""
        self.origin = 0
        """Sequence number of offset 0."""
        self.next = 0
        """Offset of the next byte to deliver."""
        self.end: int | None = None
        """Offset at which a FIN or RST ended it."""
        self.end_by: CloseReason | None = None
        self.reset = False
        """Whether it sent a plausible RST."""
        self.ended = False
        """Whether all bytes before ``end`` are delivered."""
        self.beyond: tuple[int, int] | None = None
        """Sequence numbers of the first byte that came after ``end``, and after the last one."""
        self.unseen_from: int | None = None
        """Offset at which an unseen direction began to be lost; else None."""
        self.waiting = _NOTHING
        self.acked_beyond = _NOTHING_ACKED
        """Acknowledgements of the peer beyond ``next``, in rising order of offset and packets."""
        self.strays = _NO_STRAYS
        self.recent = NO_BYTES
        """The last segments with payload, SYN or FIN, as mqsniff.streams.segment packs them."""
        self.packets = self.gap_bytes = self.retransmitted = self.out_of_order = self.duplicates = self.ignored = 0
        self.oddities = 0
        """Number of problems reported for ignored segments."""

    def start(self, seq: int) -> None:
        """Set the sequence number of offset 0."""
        self.started, self.origin = True, seq

    @property
    def next_seq(self) -> int:
        """Sequence number of the next byte to deliver."""
        return self.origin + self.next & MASK

    def offset_of(self, seq: int) -> int:
        """The offset with this sequence number that is nearest to the next byte; negative before the start."""
        return self.next + ((seq - self.origin - self.next + HALF) & MASK) - HALF

    @property
    def flows(self) -> bool:
        """Whether it has begun, and nothing waits, is missing or is implausible."""
        return self.started and not (self.waiting.pieces or self.acked_beyond or self.strays or self.beyond)

    @property
    def gave_all(self) -> bool:
        """Whether nothing waits or is missing up to its end, or to the last byte that is known of."""
        if self.waiting.pieces or self.acked_beyond or self.unseen_from is not None:
            return False
        return self.end is None or self.end == self.next

    @property
    def has_history(self) -> bool:
        """Whether it keeps delivered bytes."""
        return bool(self._history)

    @property
    def state_size(self) -> int:
        """Bytes that it holds, nearly, besides the object."""
        size = len(self._history) + len(self.recent)
        if self.flows:
            return size
        strays = sum(len(stray.data) + PIECE_STATE for stray in self.strays)
        noted = len(self.waiting.pieces) + len(self.acked_beyond)
        return size + self.waiting.size + PIECE_STATE * noted + strays

    @property
    def is_stuck(self) -> bool:
        """Whether its next byte is missing, and not just waiting for bytes of the peer."""
        return not self.waiting.pieces or self.waiting.head.offset > self.next

    def is_plausible(self, start: int, stop: int) -> bool:
        """Whether a segment at these offsets is plausible."""
        waits = self.waiting.pieces[-1].stop if self.waiting.pieces else 0
        acknowledged = self.acked_beyond[-1].offset if self.acked_beyond else 0
        reach = self._limits.reach_max
        return start - max(self.next, waits, acknowledged) <= reach and self.next - stop <= reach

    def wait(self, piece: StreamPiece) -> Added:
        """Keep a piece until it can be delivered."""
        if not self.waiting.pieces:
            self.waiting = WaitingPieces()
        return self.waiting.add(piece)

    # ---- acknowledgements of the peer

    def acknowledge(self, offset: int, sender: Segment, packets: int) -> None:
        """Note that the peer's segment ``sender`` acknowledged up to ``offset``.

        A later segment of the peer with a smaller acknowledgement cancels earlier ones: they were damaged or forged (or
        segments with the same sequence number were swapped; then the grace period starts again).
        """
        acked = self.acked_beyond
        while acked and acked[-1].offset > offset and _sent_after(sender, acked[-1].sent):
            acked.pop()
        if acked and acked[-1].offset == offset and _sent_after(sender, acked[-1].sent):
            acked[-1] = acked[-1]._replace(sent=sender.stop_seq)
        self.expect(offset, sender.stop_seq, packets, sender.ts_ns)

    def expect(self, offset: int, sent: int | None, packets: int, ts_ns: int) -> None:
        """Start the grace period for missing bytes before ``offset``."""
        acked = self.acked_beyond
        if offset <= (acked[-1].offset if acked else self.next):
            return
        if not acked:
            self.acked_beyond = [AckedBeyond(offset, sent, packets, ts_ns)]
        elif len(acked) < self._limits.reorder_segments:
            acked.append(AckedBeyond(offset, sent, packets, ts_ns))
        else:
            acked[-1] = acked[-1]._replace(offset=offset, sent=sent)

    def limit_to(self, end: int) -> None:
        """Drop expectations of bytes at or after ``end``."""
        first = next((place for place, acked in enumerate(self.acked_beyond) if acked.offset >= end), None)
        if first is not None:
            self.acked_beyond[first:] = [self.acked_beyond[first]._replace(offset=end)] if end > self.next else []

    def mark_unseen(self) -> None:
        """Mark a direction as unseen: its next byte follows the acknowledgements of the peer."""
        if self.acked_beyond:
            self.unseen_from, self.next = self.next, self.acked_beyond[-1].offset
            self.acked_beyond = _NOTHING_ACKED

    # ---- delivered bytes

    def advance(self, offset: int) -> None:
        """Note that all bytes before ``offset`` are delivered or given up."""
        self.next = offset
        acked, done = self.acked_beyond, 0
        while done < len(acked) and acked[done].offset <= offset:
            done += 1
        if done:
            del acked[:done]

    def remember(self, data: bytes) -> None:
        """Keep delivered bytes, to compare retransmissions with them."""
        history, cap = self._history, self._limits.overlap_history
        if not history:
            self._history = history = bytearray()
        history += data[-cap:]
        if len(history) > cap:
            del history[: len(history) - cap]

    def forget(self) -> None:
        """Drop the delivered bytes: after a gap, or once both directions have closed."""
        self._history = NO_BYTES

    def clash(self, offset: int, data: bytes) -> int | None:
        """Offset of the first byte of ``data`` that differs from the delivered one, if that is remembered."""
        start = max(offset, self.next - len(self._history))
        stop = min(offset + len(data), self.next)
        if start >= stop:
            return None
        first = len(self._history) - self.next
        known = bytes(self._history[first + start : first + stop])
        again = data[start - offset : stop - offset]
        return None if known == again else start + first_difference(known, again)

    # ---- strays

    def add_stray(self, stray: Stray) -> None:
        """Keep an implausible segment; drops strays that are not near it."""
        segment, strays = stray.segment, self.strays
        if not strays or abs(distance(segment.seq, strays[-1].segment.seq)) > self._limits.reach_max:
            self.strays = [stray]
            return
        if any(other.segment.seq == segment.seq and other.segment.size == segment.size for other in strays):
            return
        if len(strays) >= self._limits.strays_max:
            del strays[0]
        strays.append(stray)

    def strays_confirmed(self, ack: int) -> bool:
        """Whether the peer's acknowledgement confirms the strays."""
        first = self.strays[0].segment.first_seq
        return 0 < distance(ack, first) <= distance(self.strays[-1].segment.stop_seq, first) + self._limits.reach_max

    def take_strays(self) -> list[Stray]:
        """Remove and return all strays, in order of their sequence numbers."""
        base = self.strays[0].segment.first_seq
        strays = sorted(self.strays, key=lambda stray: distance(stray.segment.first_seq, base))
        self.drop_strays()
        return strays

    def drop_strays(self) -> None:
        """Drop the strays: the stream continued elsewhere."""
        self.strays = _NO_STRAYS

    def add_beyond(self, first: int, stop: int) -> None:
        """Note the sequence numbers of bytes that came after the end."""
        if self.beyond is not None and 0 <= distance(first, self.beyond[0]) <= self._limits.reach_max:
            first = self.beyond[0]
        self.beyond = first, stop

    def is_revived_by(self, ack: int) -> bool:
        """Whether the peer acknowledges bytes that came after the end.

        If so, the FIN or RST was forged, or a new connection uses the ports, whose SYN is not in the capture.
        """
        if self.beyond is None or self.end is None:
            return False
        first, stop = self.beyond
        return 0 < distance(ack, first) <= distance(stop, first) and self.offset_of(ack) != self.end + 1


def _sent_after(segment: Segment, sent: int | None) -> bool:
    return sent is None or distance(segment.seq, sent) >= 0
