"""One direction of one connection: where its next byte is, what waits, what was seen, and what the peer has of it.

1. A position is an offset: bytes since the start of the stream, never wrapped. SYN and FIN take no offset.
2. Sequence numbers are read as the offset nearest to the next expected byte, so streams may be longer than 4 GiB.
3. Numbers that lie too far off need more evidence: until then such segments are strays.
4. A direction holds what waits, ``overlap_history`` delivered bytes and ``recent_segments`` identities, no more. What
   an undisturbed one needs is kept small: there are two of these for every open connection.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from mqsniff.limits import Limits
from mqsniff.streams.events import CloseReason
from mqsniff.streams.segment import HALF, MASK, Segment, distance
from mqsniff.streams.waiting import Added, StreamPiece, WaitingPieces, first_difference


class AckedBeyond(NamedTuple):
    """The peer said that it has all bytes before ``offset``, and some of them are not delivered."""

    offset: int
    sent: int | None
    """Sequence number behind the acknowledging segment; None if it was not one of the peer."""
    packets: int
    """How many packets of the connection had been seen by then."""
    ts_ns: int


class Stray(NamedTuple):
    """A segment whose sequence number is implausible so far."""

    segment: Segment
    data: bytes
    ack: int


# What most directions have, for ever: one object for all of them. It is replaced where something is added to it.
_NOTHING: Final = WaitingPieces()
_NO_PASSED: Final[list[AckedBeyond]] = []
_NO_STRAYS: Final[list[Stray]] = []


class Direction:
    """State and counters of one direction: 0 is sent by the low endpoint, 1 by the high one."""

    __slots__ = (
        "_history",
        "_limits",
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
        "passed",
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
        self._history = bytearray()
        self.index = index
        """Which of the two it is, as events name it."""
        self.started = False
        self.anchored = False
        """Whether its SYN was seen, so that offset 0 is certain."""
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
        """Whether everything before ``end`` is delivered."""
        self.beyond: tuple[int, int] | None = None
        """Sequence numbers at and behind bytes that came after ``end``."""
        self.unseen_from: int | None = None
        """Where its loss began, while the capture has shown no packet of it."""
        self.waiting = _NOTHING
        self.passed = _NO_PASSED
        """What the peer acknowledged beyond ``next``: offsets rise, and so do packets."""
        self.strays = _NO_STRAYS
        self.recent = bytearray()
        """The last segments that took up sequence numbers, as mqsniff.streams.segment keeps them."""
        self.packets = self.gap_bytes = self.retransmitted = self.out_of_order = self.duplicates = self.ignored = 0
        self.oddities = 0
        """Problems told of segments that were ignored."""

    def start(self, seq: int) -> None:
        """Let a sequence number be offset 0."""
        self.started, self.origin = True, seq

    @property
    def next_seq(self) -> int:
        """Sequence number of the next byte to deliver."""
        return self.origin + self.next & MASK

    def offset_of(self, seq: int) -> int:
        """The offset nearest to the next byte that has this sequence number; negative before the start."""
        return self.next + ((seq - self.origin - self.next + HALF) & MASK) - HALF

    @property
    def flows(self) -> bool:
        """Whether it has begun, and nothing of it waits, is missing or is doubtful."""
        return self.started and not (self.waiting.pieces or self.passed or self.strays or self.beyond)

    @property
    def is_stuck(self) -> bool:
        """Whether its next byte is missing, rather than waiting for the peer's."""
        return not self.waiting.pieces or self.waiting.head.offset > self.next

    def believes(self, start: int, stop: int) -> bool:
        """Whether a segment at these offsets can be part of what goes on here."""
        waits = self.waiting.pieces[-1].stop if self.waiting.pieces else 0
        acknowledged = self.passed[-1].offset if self.passed else 0
        reach = self._limits.reach_max
        return start - max(self.next, waits, acknowledged) <= reach and self.next - stop <= reach

    def wait(self, piece: StreamPiece) -> Added:
        """Keep a piece until it can be delivered."""
        if not self.waiting.pieces:
            self.waiting = WaitingPieces()
        return self.waiting.add(piece)

    # ---- what the peer has

    def acknowledge(self, offset: int, sender: Segment, packets: int) -> None:
        """Note that the peer, by ``sender``, acknowledged up to ``offset``.

        A later segment of the peer that acknowledges less takes back what an earlier one said: that one was damaged
        or forged (segments of the same sequence number may also have been swapped; then the grace begins anew).
        """
        passed = self.passed
        while passed and passed[-1].offset > offset and _sent_after(sender, passed[-1].sent):
            passed.pop()
        if passed and passed[-1].offset == offset and _sent_after(sender, passed[-1].sent):
            passed[-1] = passed[-1]._replace(sent=sender.stop_seq)
        self.expect(offset, sender.stop_seq, packets, sender.ts_ns)

    def expect(self, offset: int, sent: int | None, packets: int, ts_ns: int) -> None:
        """Start the clock for bytes before ``offset`` that should be there and are not."""
        passed = self.passed
        if offset <= (passed[-1].offset if passed else self.next):
            return
        if not passed:
            self.passed = [AckedBeyond(offset, sent, packets, ts_ns)]
        elif len(passed) < self._limits.reorder_segments:
            passed.append(AckedBeyond(offset, sent, packets, ts_ns))
        else:
            passed[-1] = passed[-1]._replace(offset=offset, sent=sent)

    def limit_to(self, end: int) -> None:
        """No byte at or after ``end`` is expected any more."""
        first = next((place for place, passed in enumerate(self.passed) if passed.offset >= end), None)
        if first is not None:
            self.passed[first:] = [self.passed[first]._replace(offset=end)] if end > self.next else []

    def mark_unseen(self) -> None:
        """Let a direction of which no packet is captured follow what its peer acknowledges."""
        if self.passed:
            self.unseen_from, self.next = self.next, self.passed[-1].offset
            self.passed = _NO_PASSED

    # ---- what was delivered

    def advance(self, offset: int) -> None:
        """All bytes before ``offset`` are delivered or given up."""
        self.next = offset
        passed, done = self.passed, 0
        while done < len(passed) and passed[done].offset <= offset:
            done += 1
        if done:
            del passed[:done]

    def remember(self, data: bytes) -> None:
        """Keep delivered bytes, to compare what is sent again with them."""
        history, cap = self._history, self._limits.overlap_history
        history += data[-cap:]
        if len(history) > cap:
            del history[: len(history) - cap]

    def forget(self) -> None:
        """Drop the delivered bytes: after a gap, or once both directions have closed."""
        if self._history:
            self._history = bytearray()

    def clash(self, offset: int, data: bytes) -> int | None:
        """Offset of the first byte of ``data`` that differs from what was delivered there, as far as it is known."""
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
        """Keep an implausible segment; strays that are not near it are dropped."""
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
        """Whether the peer's acknowledgement says that the strays are what it has received."""
        first = self.strays[0].segment.first_seq
        return 0 < distance(ack, first) <= distance(self.strays[-1].segment.stop_seq, first) + self._limits.reach_max

    def take_strays(self) -> list[Stray]:
        """All strays, in order of their sequence numbers; none are left."""
        base = self.strays[0].segment.first_seq
        strays = sorted(self.strays, key=lambda stray: distance(stray.segment.first_seq, base))
        self.drop_strays()
        return strays

    def drop_strays(self) -> None:
        """Forget the strays: the stream has gone on elsewhere."""
        self.strays = _NO_STRAYS

    def add_beyond(self, first: int, stop: int) -> None:
        """Note the sequence numbers of bytes that came after the end."""
        if self.beyond is not None and 0 <= distance(first, self.beyond[0]) <= self._limits.reach_max:
            first = self.beyond[0]
        self.beyond = first, stop

    def is_revived_by(self, ack: int) -> bool:
        """Whether the peer acknowledges bytes that came after the end.

        Then the FIN or RST was forged, or the ports were taken again by a connection whose SYN is not in the capture.
        """
        if self.beyond is None or self.end is None:
            return False
        first, stop = self.beyond
        return 0 < distance(ack, first) <= distance(stop, first) and self.offset_of(ack) != self.end + 1


def _sent_after(segment: Segment, sent: int | None) -> bool:
    return sent is None or distance(segment.seq, sent) >= 0
