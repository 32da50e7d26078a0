"""A TCP segment as reassembly looks at it, and the arithmetic of its 32-bit numbers (RFC 9293, section 3.4)."""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from mqsniff.limits import Limits

FIN: Final = 1
SYN: Final = 2
RST: Final = 4
ACK: Final = 16

MASK: Final = 0xFFFF_FFFF
HALF: Final = 0x8000_0000


def distance(later: int, earlier: int) -> int:
    """How far a sequence number lies ahead of another, modulo 2**32: negative when it lies behind."""
    return ((later - earlier + HALF) & MASK) - HALF


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


IDENTITY_FIELDS: Final = 7
_IDENTITY: Final = struct.Struct(f"={IDENTITY_FIELDS}q")


class Recent:
    """The last segments of a direction that took up sequence numbers, to tell copies by the tap from retransmissions.

    Kept packed: 56 bytes a segment, since every open connection has two of these.
    """

    __slots__ = ("_limits", "_packed")

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._packed = bytearray()

    def add(self, segment: Segment) -> None:
        """Remember a segment."""
        self.add_packed(_IDENTITY.pack(*segment[:IDENTITY_FIELDS]))

    def add_packed(self, identities: bytes) -> None:
        """Remember segments given as rows of seven native int64."""
        packed = self._packed
        packed += identities
        excess = len(packed) - self._limits.recent_segments * _IDENTITY.size
        if excess > 0:
            del packed[:excess]

    def has_copy_of(self, segment: Segment) -> bool:
        """Whether the tap has shown this very packet before; equal payload is the caller's to check."""
        return any(self._is_copy(segment, row) for row in self._alike(segment))

    def has(self, segment: Segment) -> bool:
        """Whether the same sequence numbers came in one segment before."""
        return any(True for _ in self._alike(segment))

    def _alike(self, segment: Segment) -> list[tuple[int, ...]]:
        ends = segment.flags & (SYN | FIN)
        return [
            row
            for row in _IDENTITY.iter_unpack(self._packed)
            if row[0] == segment.seq and row[1] == segment.size and row[2] & (SYN | FIN) == ends
        ]

    def _is_copy(self, segment: Segment, row: tuple[int, ...]) -> bool:
        _, _, _, ip_id, ack, ts_ns, interface = row
        # An identification of 0 is no identification (RFC 6864, section 4.1), like that of IPv6; then the
        # acknowledgement has to do: a retransmission that carries the same one within 10 ms counts as a copy.
        same = ip_id == segment.ip_id if min(ip_id, segment.ip_id) > 0 else ack == segment.ack
        return same and (interface != segment.interface or abs(segment.ts_ns - ts_ns) <= self._limits.doubled_ns)
