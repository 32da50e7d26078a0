"""Addresses, numbers and bytes of a TCP segment in, an IP packet with right checksums out.

Sources: RFC 791 section 3.1, RFC 8200 sections 3 and 8.1, RFC 9293 section 3.1, RFC 1071 (checksums).
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

LINKTYPE_RAW: Final = 101
"""Packets begin with their IP header."""
WINDOW: Final = 65_535
_TCP: Final = 6
_HOPS: Final = 64
_IPV4_SIZE: Final = 20
_TCP_SIZE: Final = 20
_LENGTH_MAX: Final = 65_535
_DONT_FRAGMENT: Final = 0x4000


class TcpHead(NamedTuple):
    """What a segment's header says."""

    source: tuple[bytes, int]
    """IP address and port."""
    target: tuple[bytes, int]
    seq: int
    ack: int
    flags: int


def ip_packet(head: TcpHead, payload: bytes) -> bytes:
    """The packet of a segment; its length is 0, as after segmentation offload, where it does not fit its field."""
    segment = _segment(head, payload)
    (source, _), (target, _) = head.source, head.target
    if len(source) == 4:
        length = _IPV4_SIZE + len(segment)
        fields = (0x45, 0, _fitting(length), 0, _DONT_FRAGMENT, _HOPS, _TCP, 0, source, target)
        made = bytearray(struct.pack(">BBHHHBBH4s4s", *fields))
        struct.pack_into(">H", made, 10, checksum(bytes(made)))
        return bytes(made) + segment
    return struct.pack(">IHBB16s16s", 6 << 28, _fitting(len(segment)), _TCP, _HOPS, source, target) + segment


def _fitting(length: int) -> int:
    return length if length <= _LENGTH_MAX else 0


def _segment(head: TcpHead, payload: bytes) -> bytes:
    """The header of a segment and its payload."""
    (source, port), (target, peer_port) = head.source, head.target
    ports, numbers = (port, peer_port), (head.seq & 0xFFFFFFFF, head.ack & 0xFFFFFFFF)
    made = struct.pack(">HHIIBBHHH", *ports, *numbers, _TCP_SIZE // 4 << 4, head.flags & 0x3F, WINDOW, 0, 0) + payload
    pseudo = source + target + struct.pack(">II", len(made), _TCP)
    return made[:16] + struct.pack(">H", checksum(pseudo + made)) + made[18:]


def checksum(data: bytes) -> int:
    """The Internet checksum of bytes that are not all zero (RFC 1071): their words' sum modulo 65535, inverted."""
    total = int.from_bytes(data + b"\0" * (len(data) % 2)) % 0xFFFF
    return ~(total or 0xFFFF) & 0xFFFF
