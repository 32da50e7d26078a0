"""A TCP segment as reassembly looks at it, and the arithmetic of its 32-bit numbers (RFC 9293, section 3.4)."""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

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
"""The fields of a ``Segment``, for those who do not need it as one: most segments are taken as they come."""


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
