"""One connection: its packets in, singly or as runs; its events and final statistics out.

1. A packet belongs to the connection unless it came too late or shows that the ports are in use again.
2. The sender of the SYN is the client. After the first bytes were delivered, later handshake segments do not change
   this, so that decoders can rely on it.
3. A run of segments in order is delivered at once if nothing waits, is missing or is implausible; other segments are
   processed one by one. Tests compare both ways.
4. After its close, a connection accepts late packets for ``linger_ns``; its statistics are final after that.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from functools import lru_cache
from hashlib import blake2b
from itertools import accumulate
from operator import sub
from typing import Final, Literal, TypeAlias

from mqsniff.limits import Limits
from mqsniff.model import FlowKey, Mark, Problem
from mqsniff.streams import intake, troubles
from mqsniff.streams.events import (
    CloseReason,
    ConnectionClosed,
    ConnectionEstablished,
    ConnectionOpened,
    ConnectionStats,
    StreamEvent,
    StreamProblem,
)
from mqsniff.streams.handshake import Handshake
from mqsniff.streams.ordering import Ordering
from mqsniff.streams.parking import pack, unpack
from mqsniff.streams.reassembly import Direction
from mqsniff.streams.runs import FlowSortedBatch, SegmentRun
from mqsniff.streams.segment import (
    ACK,
    FIN,
    IDENTITY,
    MASK,
    PLAIN_FLAGS,
    RST,
    SYN,
    ZERO_WINDOW,
    Segment,
    SegmentRow,
    distance,
    has_copy,
    remember,
    remember_packed,
)

CONNECTION_STATE: Final = 2048
"""Bytes that an open connection takes at least, with what decodes it but for its protocol."""
SYN_STATE: Final = 512
"""Bytes that a SYN without an answer takes."""

_NUMBERS: Final = struct.Struct(">4q")
"""Numbers that are a part of a connection's name."""

Ending: TypeAlias = Literal["idle", "replaced", "limit", "state", "end"]
"""Why a connection gets no more packets."""


_NOBODYS_ORDERING: Final = Ordering(Limits(), Segment(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0))
_NOBODYS_HANDSHAKE: Final = Handshake()


class Connection:
    """A connection that gets packets."""

    __slots__ = (
        "_close_reason",
        "_closed_by",
        "_closing_ns",
        "_flowing",
        "_handshake",
        "_last_packet",
        "_limits",
        "_ordering",
        "_parked",
        "_parked_ns",
        "_reset",
        "client_direction",
        "counted_state",
        "first_ordinal",
        "first_packet",
        "first_ts_ns",
        "id",
        "key",
        "seen_from_start",
    )

    def __init__(self, key: FlowKey, first: Segment, limits: Limits, domain: str = "") -> None:
        self.key = key
        self.id = connection_id(domain, key, first)
        self.first_ts_ns = first.ts_ns
        self.first_packet = first.packet
        self.first_ordinal = first.ordinal
        self.client_direction: int | None = None
        """Direction of the client (0: sent by the low endpoint); None if the handshake was not captured."""
        self.seen_from_start = False
        """Whether a SYN of either side was captured, so that offset 0 is the first byte of each stream."""
        self.counted_state = 0
        """Bytes of state when they were last counted; for whoever counts them."""
        self._limits = limits
        self._ordering = Ordering(limits, first)
        self._handshake = Handshake()
        self._closing_ns: int | None = None
        self._close_reason: CloseReason | None = None
        self._closed_by: int | None = None
        self._reset = False
        self._flowing = False  # both have begun, and nothing waits, is missing, closes or is implausible
        self._last_packet = first.packet
        self._parked: bytes | None = None
        """What it knows, packed, while it is parked; ``_ordering`` and ``_handshake`` are those of nobody then."""
        self._parked_ns = 0

    # ---- parking

    def park(self) -> bool:
        """Pack a connection that holds nothing; whether it is parked now. It takes no packet before ``wake``."""
        if self._parked is None and self._closing_ns is None and not self._ordering.outbox.filled:
            packed = pack(self._ordering, self._handshake)
            if packed is not None:
                self._parked, self._parked_ns = packed, self._ordering.last_ns
                self._ordering, self._handshake = _NOBODYS_ORDERING, _NOBODYS_HANDSHAKE
        return self._parked is not None

    def wake(self) -> None:
        """Unpack a parked connection."""
        if self._parked is not None:
            self._ordering, self._handshake = unpack(self._parked, self._limits)
            self._parked = None

    @property
    def last_ns(self) -> int:
        """Largest time of a packet so far."""
        return self._ordering.last_ns if self._parked is None else self._parked_ns

    @property
    def state_size(self) -> int:
        """Bytes of state that it takes, nearly: a function of its packets."""
        self.wake()
        ordering = self._ordering
        if ordering.packets == 1 and self._handshake.pending:
            return SYN_STATE
        one, two = ordering.directions
        return CONNECTION_STATE + one.state_size + two.state_size

    @property
    def deadline_ns(self) -> int:
        """Capture time after which packets belong to another connection."""
        if self._closing_ns is not None:
            return self._closing_ns + self._limits.linger_ns
        return self.last_ns + self._limits.idle_ns

    def take_events(self) -> list[tuple[int, StreamEvent]]:
        """(release, event) of all events so far, in order; each is returned once."""
        return self._ordering.outbox.take()

    def place_of(self, direction: int, seq: int) -> int | None:
        """The stream offset of a sequence number, the one nearest to the next byte; None before the direction began."""
        self.wake()
        way = self._ordering.directions[direction]
        return way.offset_of(seq) if way.started else None

    # ---- does a packet belong here

    def owns(self, segment: Segment) -> bool:
        """Whether a segment with the connection's addresses and ports belongs to it."""
        if segment.ts_ns > self.deadline_ns:
            return False
        me, peer = self._pair(segment.direction)
        if segment.flags & SYN:
            return self._owns_syn(segment, me, peer)
        return not (segment.flags & ACK and peer.is_revived_by(segment.ack))

    def _owns_syn(self, segment: Segment, me: Direction, peer: Direction) -> bool:
        same = me.started and me.origin == segment.first_seq
        if segment.flags & ACK:
            if me.started:
                return same
            return not peer.started or 0 <= peer.offset_of(segment.ack) <= peer.next
        over = me.ended and peer.ended and not has_copy(me.recent, segment, self._limits)
        if self._reset or over:  # a client that connects again may use the same number again
            first_ns = self._handshake.syn_ns
            return same and first_ns is not None and segment.ts_ns - first_ns <= self._limits.doubled_ns
        if me.started:
            return same
        return peer.anchored and self._handshake.pending

    def _pair(self, direction: int) -> tuple[Direction, Direction]:
        one, two = self._ordering.directions
        return (two, one) if direction else (one, two)

    def note(self, problem: Problem) -> None:
        """Report a problem of the whole connection, at the last packet."""
        self._ordering.outbox.put(StreamProblem(problem, self._ordering.mark(0)))

    # ---- one segment

    def take(self, segment: Segment, view: memoryview) -> None:
        """Process the next packet; ``view`` is the buffer with its payload."""
        me = self._ordering.begin(segment)
        self._last_packet = segment.packet
        flags = segment.flags
        self._see_handshake(me, segment)
        ack = intake.acknowledge(self._ordering, me, segment) if flags & ACK else 0
        if flags & ZERO_WINDOW or self._has_zero_window:
            troubles.see_window(self._ordering, me, segment)
        if flags & RST:
            if intake.reset(self._ordering, me, segment):
                self._reset = True
                self._see_who_closes(me)
        elif segment.size or flags & FIN:
            data = bytes(view[segment.start : min(segment.stop, segment.start + segment.size)])
            intake.receive(self._ordering, me, segment, data, ack)
            if me.end is not None:
                self._see_who_closes(me)
        self._ordering.settle()
        self._see_close(segment.ts_ns)
        one, two = self._ordering.directions
        calm = self._closing_ns is None and not self._handshake.pending and not self._has_zero_window
        self._flowing = calm and one.flows and two.flows

    @property
    def _has_zero_window(self) -> bool:
        """Whether there is a zero window, which the next segment of its side may open."""
        return self._ordering.troubles is not None and self._ordering.troubles.has_zero_window

    def _see_who_closes(self, me: Direction) -> None:
        """Note which side sent the first FIN or RST."""
        if self._closed_by is None:
            self._closed_by = me.index

    def _see_handshake(self, me: Direction, segment: Segment) -> None:
        """Process a packet as a part of the handshake."""
        ordering, handshake = self._ordering, self._handshake
        if handshake.client is None and not segment.flags & SYN:
            if ordering.packets == 1:
                ordering.outbox.put(ConnectionOpened(ordering.mark(0), None))
            return
        copy = bool(segment.flags & SYN) and self._anchor(me, segment)
        pending = handshake.pending
        handshake.take(segment, copy=copy)
        if not ordering.has_output:
            self.client_direction = handshake.client
            self.seen_from_start = handshake.client is not None
        if ordering.packets == 1:
            ordering.outbox.put(ConnectionOpened(ordering.mark(0), handshake.client))
        if pending and not handshake.pending:
            ordering.outbox.put(ConnectionEstablished(ordering.mark(0)))

    def _anchor(self, me: Direction, segment: Segment) -> bool:
        """Set the start of a direction by its SYN; returns whether the SYN is a duplicate by the tap."""
        known = me.anchored
        if not me.started:
            me.start(segment.first_seq)
        me.anchored = True
        if segment.size:  # counted with its payload
            return known and has_copy(me.recent, segment, self._limits)
        if known:
            return intake.repeated(self._ordering, me, segment)
        me.recent = remember(me.recent, segment, self._limits)
        return False

    def _see_close(self, ts_ns: int) -> None:
        one, two = self._ordering.directions
        one_over = one.end is not None or not one.packets
        if not self._reset and not (one_over and (two.end is not None or not two.packets)):
            self._closing_ns = self._close_reason = None
        elif self._closing_ns is None:
            self._closing_ns = ts_ns
            self._close_reason = "rst" if self._reset else "fin"
        if one.ended and two.ended:
            one.forget()
            two.forget()

    # ---- segments in order

    def take_plain(self, row: SegmentRow, view: memoryview) -> bool:
        """Deliver a segment if it is the next one of its side and nothing else has to be done; else return False."""
        seq, size, flags, ip_id, ack, ts_ns, interface, direction, start, stop, packet, ordinal = row
        if not self._flowing or flags & PLAIN_FLAGS != ACK or stop - start != size:
            return False
        me, peer = self._pair(direction)
        if (size and seq != me.next_seq) or not self._goes_through(me, peer, ack, 0, ts_ns):
            return False
        ordering = self._ordering
        me.packets += 1
        ordering.packets += 1
        ordering.last_ns = max(ordering.last_ns, ts_ns)
        self._last_packet = packet
        if size:
            ordering.has_output = True
            data = bytes(view[start:stop])
            ordering.outbox.put_bytes(me.index, me.next, data, [Mark(me.next, ts_ns, packet, ordinal)])
            me.remember(data)
            identity = IDENTITY.pack(seq, size, flags, ip_id, ack, ts_ns, interface)
            me.recent = remember_packed(me.recent, identity, self._limits)
            me.next += size
        return True

    def can_take(self, run: SegmentRun) -> bool:
        """Whether a run is the next one of its side and nothing else has to be done."""
        me, peer = self._pair(run.direction)
        if not self._flowing or run.seq != me.next_seq or (run.replies and peer.unseen_from is not None):
            return False
        return self._goes_through(me, peer, run.ack, run.ack_spread, run.first_ns)

    def _goes_through(self, me: Direction, peer: Direction, ack: int, spread: int, first_ns: int) -> bool:
        if me.end is not None or me.unseen_from is not None:
            return False
        if first_ns > self._ordering.last_ns + self._limits.idle_ns:
            return False
        ahead = distance(ack, peer.next_seq)
        return spread - self._limits.jump_max <= ahead <= peer.ended

    def take_run(self, run: SegmentRun, sheet: FlowSortedBatch) -> None:
        """Deliver a run that ``can_take`` allows."""
        ordering = self._ordering
        me, peer = self._pair(run.direction)
        count = run.stop - run.first
        me.packets += count - run.replies
        peer.packets += run.replies
        ordering.packets += count
        ordering.last_ns = max(ordering.last_ns, run.last_ns)
        ordering.has_output = True
        self._last_packet = run.last_packet
        rows = sheet.payloads(run)
        offsets = list(accumulate(map(sub, rows.stops, rows.starts), initial=me.next))
        marks = list(map(Mark, offsets, rows.ts_ns, rows.packets, rows.ordinals))
        low = 0
        while low < len(marks):
            high = _block_end(offsets, low, self._limits.chunk_max)
            data = sheet.join(rows.starts[low:high], rows.stops[low:high])
            ordering.outbox.put_bytes(me.index, offsets[low], data, marks[low:high])
            me.remember(data)
            low = high
        me.recent = remember_packed(me.recent, sheet.identities(run, self._limits.recent_segments), self._limits)
        me.next = offsets[-1]

    # ---- the end

    def finish(self, release: int, ending: Ending) -> None:
        """End the connection: deliver what waits, then the statistics, released at this ordinal."""
        self.wake()
        ordering = self._ordering
        ordering.look_at(ordering.last_ns, self._last_packet, release)
        ordering.flush()
        troubles.conclude(ordering)
        self._see_close(ordering.last_ns)  # a missing number may have turned out to be a FIN
        if ending == "limit":
            self.note(Problem("limit", "error", f"more than {self._limits.connections_max} connections: forgotten"))
        elif ending == "state":
            detail = "open connections hold more than state_max: this one was silent for longest and is forgotten"
            self.note(Problem("limit", "error", detail))
        ordering.outbox.put(ConnectionClosed(self.stats(ending), ordering.mark(0)))

    def stats(self, ending: Ending = "end") -> ConnectionStats:
        """The statistics so far."""
        one, two = self._ordering.directions
        handshake, odd = self._handshake, self._ordering.troubles
        outcome = handshake.outcome
        began = outcome in {"established", "mid-stream"}
        return ConnectionStats(
            outcome=outcome,
            first_ts_ns=self.first_ts_ns,
            last_ts_ns=self._ordering.last_ns,
            packets=(one.packets, two.packets),
            sizes=(one.next, two.next),
            gap_bytes=(one.gap_bytes, two.gap_bytes),
            retransmitted_segments=one.retransmitted + two.retransmitted,
            out_of_order_segments=one.out_of_order + two.out_of_order,
            duplicate_packets=one.duplicates + two.duplicates,
            ignored_segments=one.ignored + two.ignored,
            handshake_seen=handshake.seen,
            close_reason=self._close_reason,
            open_at_end=began and self._close_reason is None and ending != "replaced",
            forgotten=ending in {"idle", "limit", "state"} and self._close_reason is None,
            client_rtt_ns=handshake.client_rtt_ns,
            server_rtt_ns=handshake.server_rtt_ns,
            resets=(one.reset, two.reset),
            closed_by=self._closed_by,
            zero_windows=(0, 0) if odd is None else (odd.zero_windows[0], odd.zero_windows[1]),
            longest_stall_ns=(None, None) if odd is None else (odd.longest_stall_ns[0], odd.longest_stall_ns[1]),
        )


def _block_end(offsets: list[int], low: int, size: int) -> int:
    """Index of the first segment that no longer fits into a chunk which begins with segment ``low``."""
    if offsets[-1] - offsets[low] <= size:
        return len(offsets) - 1
    return max(low + 1, bisect_right(offsets, offsets[low] + size) - 1)


def connection_id(domain: str, key: FlowKey, first: Segment) -> str:
    """A connection's name, 32 hex digits: a hash of capture domain, tunnel, endpoints and first packet."""
    low, high = key.low_ip, key.high_ip
    numbers = _NUMBERS.pack(key.low_port, key.high_port, first.ts_ns, first.seq & MASK)
    named = (
        _sized_texts(domain, key.tunnel),
        len(low).to_bytes(4, "big"),
        low,
        len(high).to_bytes(4, "big"),
        high,
        numbers,
    )
    return blake2b(b"".join(named), digest_size=16).hexdigest()


@lru_cache(maxsize=1024)
def _sized_texts(domain: str, tunnel: str) -> bytes:
    """The texts in a connection's name, each after its size: they are the same for most connections."""
    texts = domain.encode(errors="surrogatepass"), tunnel.encode()
    return b"".join([part for text in texts for part in (len(text).to_bytes(4, "big"), text)])
