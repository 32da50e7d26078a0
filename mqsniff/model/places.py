"""The name of a packet: one integer, ``capture index << 40 | number``, number 1-based as Wireshark counts frames."""

from __future__ import annotations

from typing import Final

PACKET_BITS: Final = 40
PACKET_MASK: Final = (1 << PACKET_BITS) - 1


def packet_id(capture: int, number: int) -> int:
    """The one-integer name of packet ``number`` (1-based) of the capture with this index."""
    return capture << PACKET_BITS | number


def packet_number(packet: int) -> int:
    """The 1-based number inside its capture of a packet named by ``packet_id``."""
    return packet & PACKET_MASK


def packet_capture(packet: int) -> int:
    """The index of the capture of a packet named by ``packet_id``."""
    return packet >> PACKET_BITS
