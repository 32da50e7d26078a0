"""A TCP segment as reassembly needs it, the arithmetic of its 32-bit numbers, and the last segments of a direction.

1. Sequence numbers are compared modulo 2**32 (RFC 9293, section 3.4).
2. Of each direction the last ``recent_segments`` are remembered, to find packets that the tap has captured twice. Seven
   fields of a segment are kept, 56 bytes: every direction of every open connection has some.
3. A copy by the tap has the same sequence numbers and identification, and comes soon or on another interface. The
   caller has to check that its payload is the same too.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple, TypeAlias

from mqsniff.limits import Limits

FIN: Final = 1
SYN: Final = 2
RST: Final = 4
ACK: Final = 16
SHUT: Final = 64
"""Not in the TCP header: the segment announces a window of zero, its sender takes no more bytes for now."""

MASK: Final = 0xFFFF_FFFF
HALF: Final = 0x8000_0000


def distance(later: int, earlier: int) -> int:
    """How far a sequence number lies ahead of another, modulo 2**32: negative when it lies behind."""
    return ((later - earlier + HALF) & MASK) - HALF


SegmentRow: TypeAlias = tuple[int, int, int, int, int, int, int, int, int, int, int, int]
"""The fields of a ``Segment`` as a plain tuple: most segments are processed without making the object."""

PLAIN_FLAGS: Final = SYN | FIN | RST | ACK | SHUT
"""Of these a segment in the middle of a stream has ACK alone."""


class Segment(NamedTuple):
    """One row of a SegmentBatch; the first seven fields tell whether two segments are the same."""

    seq: int
    size: int
    flags: int
    ip_id: int
    ack: int
    ts_ns: int
    interface: int
    direction: int
    start: int
    stop: int
    packet: int
    ordinal: int

    @property
    def first_seq(self) -> int:
        """Sequence number of the first payload byte: a SYN takes one of its own."""
        return self.seq + (self.flags >> 1 & 1) & MASK

    @property
    def stop_seq(self) -> int:
        """Sequence number of what its sender sends next: SYN and FIN take one each."""
        return self.seq + self.size + (self.flags >> 1 & 1) + (self.flags & FIN) & MASK


SIZE: Final = Segment._fields.index("size")


# ---- the last segments of a direction

IDENTITY_FIELDS: Final = 7
IDENTITY: Final = struct.Struct(f"={IDENTITY_FIELDS}q")
"""The first fields of ``Segment``, packed (rule 2)."""


def remember(recent: bytearray, segment: Segment, limits: Limits) -> None:
    """Add a segment."""
    remember_packed(recent, IDENTITY.pack(*segment[:IDENTITY_FIELDS]), limits)


def remember_packed(recent: bytearray, identities: bytes, limits: Limits) -> None:
    """Add segments given as rows of seven native int64: the first fields of ``Segment``."""
    recent += identities
    excess = len(recent) - limits.recent_segments * IDENTITY.size
    if excess > 0:
        del recent[:excess]


def has_same(recent: bytearray, segment: Segment) -> bool:
    """Whether one of the segments took up exactly the same sequence numbers."""
    return bool(_same(recent, segment))


def has_copy(recent: bytearray, segment: Segment, limits: Limits) -> bool:
    """Whether one of the segments is the same packet."""
    return any(_is_copy(row, segment, limits) for row in _same(recent, segment))


def first_seen(recent: bytearray, segment: Segment, limits: Limits) -> tuple[int | None, bool]:
    """(time at which the first byte of a segment was first seen, whether that is exact).

    If that segment was dropped since, gives the time of the oldest remembered one, which came later.
    """
    first, oldest_ns = segment.seq, None
    for seq, size, flags, _, _, ts_ns, _ in IDENTITY.iter_unpack(recent):
        if oldest_ns is None:
            oldest_ns = ts_ns
        taken = size + (flags >> 1 & 1) + (flags & FIN)
        if 0 <= distance(first, seq) < taken:
            return ts_ns, True
    full = len(recent) >= limits.recent_segments * IDENTITY.size
    return (oldest_ns if full else None), False


def _same(recent: bytearray, segment: Segment) -> list[tuple[int, ...]]:
    ends = segment.flags & (SYN | FIN)
    return [
        row
        for row in IDENTITY.iter_unpack(recent)
        if row[0] == segment.seq and row[1] == segment.size and row[2] & (SYN | FIN) == ends
    ]


def _is_copy(row: tuple[int, ...], segment: Segment, limits: Limits) -> bool:
    _, _, _, ip_id, ack, ts_ns, interface = row
    # An identification of 0 is no identification (RFC 6864, section 4.1), and IPv6 has none: then the acknowledgement
    # has to do, and a retransmission that carries the same one within these 10 ms counts as a copy.
    same = ip_id == segment.ip_id if min(ip_id, segment.ip_id) > 0 else ack == segment.ack
    return same and (interface != segment.interface or abs(segment.ts_ns - ts_ns) <= limits.doubled_ns)
