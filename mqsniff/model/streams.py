"""The bytes of connections with their places in stream, time and capture.

A packet is named by one integer, ``capture index << 40 | number``; the number is 1-based, as Wireshark counts frames.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from mqsniff.model.values import Side

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


class Mark(NamedTuple):
    """From this stream offset on, bytes came with this packet and were released by that one.

    ``release`` is the ordinal of the packet that let the bytes through: their own for bytes in order, the one that
    filled (or gave up) a hole for bytes that had to wait.
    """

    offset: int
    ts_ns: int
    packet: int
    release: int


@dataclass(slots=True)
class Chunk:
    """Contiguous bytes of one side at an absolute stream offset. ``marks`` is not empty and starts at or before it."""

    side: Side
    offset: int
    data: bytes
    marks: list[Mark]


@dataclass(slots=True)
class Gap:
    """Bytes of one side that the capture lost. ``known`` is false where a layer cannot tell how many they were."""

    side: Side
    offset: int
    length: int
    mark: Mark
    """Time and packet at which the loss was noticed; ``mark.offset`` is ``offset``."""
    known: bool = True
