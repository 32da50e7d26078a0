"""A TCP segment as reassembly needs it, the arithmetic of its 32-bit numbers, and the last segments of a direction.

1. Sequence numbers are compared modulo 2**32 (RFC 9293, section 3.4).
2. The last ``recent_segments`` of each direction are remembered, to find duplicates by the tap. Of each, seven fields
   are kept, 56 bytes, as every direction of every open connection has them.
3. A duplicate by the tap has the same sequence numbers and identification, and comes soon or on another interface. The
   caller has to check that the payload is equal too.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple, TypeAlias

from mqsniff.limits import Limits

FIN: Final = 1
SYN: Final = 2
RST: Final = 4
ACK: Final = 16
ZERO_WINDOW: Final = 64
"""Not a flag of the TCP header: the segment announces a zero window."""

MASK: Final = 0xFFFF_FFFF
HALF: Final = 0x8000_0000


def distance(later: int, earlier: int) -> int:
    """How far a sequence number is ahead of another, modulo 2**32; negative if it is behind."""
    return ((later - earlier + HALF) & MASK) - HALF


SegmentRow: TypeAlias = tuple[int, int, int, int, int, int, int, int, int, int, int, int]
"""The fields of a ``Segment`` as a tuple: most segments are processed without making the object."""

PLAIN_FLAGS: Final = SYN | FIN | RST | ACK | ZERO_WINDOW
"""Of these flags, a segment in the middle of a stream has only ACK."""


class Segment(NamedTuple):
    """One row of a SegmentBatch; duplicates are equal in the first seven fields."""

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
        """Sequence number of the first payload byte; a SYN takes one number."""
        return self.seq + (self.flags >> 1 & 1) & MASK

    @property
    def stop_seq(self) -> int:
        """The next sequence number of the sender; SYN and FIN take one number each."""
        return self.seq + self.size + (self.flags >> 1 & 1) + (self.flags & FIN) & MASK


SIZE: Final = Segment._fields.index("size")
FLAGS: Final = Segment._fields.index("flags")


# ---- the last segments of a direction

NO_BYTES: Final = bytearray()
"""Shared by all that hold none: most directions of idle connections. It is replaced before something is added."""
IDENTITY_FIELDS: Final = 7
IDENTITY: Final = struct.Struct(f"={IDENTITY_FIELDS}q")
"""The first fields of ``Segment``, packed (rule 2)."""


def remember(recent: bytearray, segment: Segment, limits: Limits) -> bytearray:
    """The segments with one more."""
    return remember_packed(recent, IDENTITY.pack(*segment[:IDENTITY_FIELDS]), limits)


def remember_packed(recent: bytearray, identities: bytes, limits: Limits) -> bytearray:
    """The segments with more of them, given as rows of seven native int64: the first fields of ``Segment``.

    It is the same object with more in it, unless it was ``NO_BYTES``.
    """
    if not recent:
        recent = bytearray()
    recent += identities
    excess = len(recent) - limits.recent_segments * IDENTITY.size
    if excess > 0:
        del recent[:excess]
    return recent


def has_same(recent: bytearray, segment: Segment) -> bool:
    """Whether one of the segments has exactly the same sequence numbers."""
    return bool(_same(recent, segment))


def has_copy(recent: bytearray, segment: Segment, limits: Limits) -> bool:
    """Whether one of the segments is the same packet (rule 3)."""
    return any(_is_copy(row, segment, limits) for row in _same(recent, segment))


def first_seen(recent: bytearray, segment: Segment, limits: Limits) -> tuple[int | None, bool]:
    """(time at which the first byte of a segment was first seen, whether that is exact).

    If that segment is no longer remembered, gives the time of the oldest one, which came later.
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
    # An identification of 0 is none (RFC 6864, section 4.1), nor has IPv6 any: then the acknowledgement number decides,
    # and a retransmission with the same number within these 10 ms counts as a duplicate.
    same = ip_id == segment.ip_id if min(ip_id, segment.ip_id) > 0 else ack == segment.ack
    return same and (interface != segment.interface or abs(segment.ts_ns - ts_ns) <= limits.doubled_ns)
