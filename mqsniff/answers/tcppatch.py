"""Bytes of a TCP payload overwritten in a packet, and the checksum of the segment repaired.

1. The checksum changes by the difference of the payloads (RFC 1624): one that was right stays right, one that was left
   to the network card stays as wrong as it was. That of the IP header covers no payload.
2. The header is found from the payload backwards, by its own length, ports and sequence number: whatever tunnel or
   link layer lies around it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final, NamedTuple

_HEADER_WORDS: Final = range(5, 16)
_CHECKSUM_AT: Final = 16


class PayloadPatch(NamedTuple):
    """Bytes of a payload, counted from its first one, and what they become."""

    start: int
    stop: int
    fill: int
    """The byte that stands in their place."""


def patched(
    packet: bytearray, payload: tuple[int, int], ports: frozenset[int], seq: int, patches: Iterable[PayloadPatch]
) -> bool:
    """Overwrite bytes of the payload ``packet[start:stop]`` in place; False where no TCP header is found before it."""
    start, stop = payload
    header = _header(packet, start, ports, seq)
    before = _sum(packet[start:stop])
    for patch in patches:
        first, last = start + max(patch.start, 0), min(start + patch.stop, stop)
        if first < last:
            packet[first:last] = bytes((patch.fill,)) * (last - first)
    if header is None:
        return False
    at = header + _CHECKSUM_AT
    (checksum,) = struct.unpack_from(">H", packet, at)
    total = (~checksum & 0xFFFF) + (~before & 0xFFFF) + _sum(packet[start:stop])
    struct.pack_into(">H", packet, at, ~_folded(total) & 0xFFFF)
    return True


def _header(packet: bytearray, payload: int, ports: frozenset[int], seq: int) -> int | None:
    """Where the TCP header starts whose payload starts there."""
    for words in _HEADER_WORDS:
        at = payload - 4 * words
        if at < 0:
            return None
        source, target, number = struct.unpack_from(">HHI", packet, at)
        if packet[at + 12] >> 4 == words and number == seq and {source, target} == ports:
            return at
    return None


def _sum(data: bytes | bytearray) -> int:
    """The sum of 16-bit words in ones' complement."""
    even = bytes(data) + b"\0" * (len(data) % 2)
    return _folded(sum(struct.unpack(f">{len(even) // 2}H", even)))


def _folded(total: int) -> int:
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return total
