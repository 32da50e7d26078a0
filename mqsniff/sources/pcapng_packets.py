"""Indices of packet blocks of one pcapng section in; columns of the packets and their options out.

Source: draft-ietf-opsawg-pcapng, sections 4.3 (enhanced), 4.4 (simple) and appendix A (the obsolete packet block).

1. Everything is a NumPy column; no Python code runs per packet.
2. Simple and obsolete blocks are converted to the layout of enhanced ones.
3. A captured length past the end of its block is cut.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from mqsniff.model import Int64s
from mqsniff.sources.parsers import gather
from mqsniff.sources.pcapng_blocks import BlockType, padded

if TYPE_CHECKING:
    from numpy.typing import NDArray

PACKET_MIN: Final = 32
"""Size of an enhanced or obsolete packet block without data."""
SIMPLE_MIN: Final = 16
KIND, SIZE, INTERFACE, TIME_HIGH, TIME_LOW, CAPLEN, WIRELEN = range(7)
"""The words of an enhanced packet block before its data."""
LOST_NOT_KNOWN: Final = 0xFFFF
OPTIONS_MAX: Final = 64
"""Options of a packet that are read: a block of 64 MiB could hold 16 million."""


@dataclass(slots=True)
class PacketBlocks:
    """Columns of n packet blocks of any kind, each of shape (n,)."""

    at: Int64s
    """Index of the block."""
    size: Int64s
    simple: NDArray[np.bool_]
    interface: Int64s
    ticks: NDArray[np.uint64]
    """Timestamp in units of its interface; 0 for simple blocks."""
    data: Int64s
    """Index of the packet's first byte."""
    caplen: Int64s
    wirelen: Int64s
    too_long: NDArray[np.bool_]
    """Whether the captured length reached beyond the block."""
    same_sizes: NDArray[np.bool_]
    """Whether both lengths of the block are equal."""
    lost: Int64s | None
    """Packets lost before this one, from obsolete blocks."""


def are_packets(kind: Int64s, size: Int64s, size_max: int) -> NDArray[np.bool_]:
    """Which blocks are packet blocks that can be read, by their types and sizes."""
    simple = kind == BlockType.SIMPLE_PACKET
    least = np.where(simple, SIMPLE_MIN, PACKET_MIN)
    known = (kind == BlockType.PACKET) | (kind == BlockType.OLD_PACKET) | simple
    return np.asarray(known & (size >= least) & (size <= size_max))


def read_blocks(buffer: bytearray, order: str, at: Int64s) -> PacketBlocks:
    """The columns of packet blocks at these indices (at least one), which are complete and pass ``are_packets``."""
    words, simple = _shape_simple(buffer, order, at)
    lost = _shape_old(words, order)
    size = words[:, SIZE]
    room = size - np.where(simple, SIMPLE_MIN, PACKET_MIN)
    return PacketBlocks(
        at=at,
        size=size,
        simple=simple,
        interface=words[:, INTERFACE],
        ticks=words[:, TIME_HIGH].astype(np.uint64) << np.uint64(32) | words[:, TIME_LOW].astype(np.uint64),
        data=at + np.where(simple, SIMPLE_MIN - 4, PACKET_MIN - 4),
        caplen=np.minimum(words[:, CAPLEN], room),
        wirelen=np.maximum(words[:, WIRELEN], words[:, CAPLEN]),
        too_long=~simple & (words[:, CAPLEN] > room),
        same_sizes=gather(buffer, at + size - 4, 1, order + "u4")[:, 0] == size,
        lost=lost,
    )


def _shape_simple(buffer: bytearray, order: str, at: Int64s) -> tuple[Int64s, NDArray[np.bool_]]:
    """(the words before the data of each block, in the layout of enhanced ones; which blocks are simple)."""
    kind = gather(buffer, at, 1, order + "u4")[:, 0]
    simple = kind == BlockType.SIMPLE_PACKET
    if not simple.any():
        return gather(buffer, at, 7, order + "u4"), simple
    words = np.zeros((len(at), 7), np.int64)
    words[~simple] = gather(buffer, at[~simple], 7, order + "u4")
    kind_size_length = gather(buffer, at[simple], 3, order + "u4")
    words[np.ix_(simple, (KIND, SIZE, CAPLEN))] = kind_size_length
    words[simple, WIRELEN] = kind_size_length[:, 2]
    return words, simple


def _shape_old(words: Int64s, order: str) -> Int64s | None:
    """Convert obsolete blocks: their interface has 16 bits, followed by a count of losses, which is returned."""
    old = words[:, KIND] == BlockType.OLD_PACKET
    if not old.any():
        return None
    low, high = words[:, INTERFACE] & 0xFFFF, words[:, INTERFACE] >> 16
    interface, lost = (low, high) if order == "<" else (high, low)
    words[old, INTERFACE] = interface[old]
    return np.where(old & (lost != LOST_NOT_KNOWN), lost, 0)


class PacketOptions(NamedTuple):
    """One option of each of some packets: positions among the blocks, codes, indices and sizes of the values."""

    packet: Int64s
    code: Int64s
    at: Int64s
    size: Int64s


def read_packet_options(buffer: bytearray, order: str, blocks: PacketBlocks) -> Iterator[PacketOptions]:
    """The first options of all packets that have one, then the second ones, and so on."""
    cursor = blocks.data + padded(blocks.caplen)
    end = blocks.at + blocks.size - 4
    packet = np.flatnonzero(~blocks.simple & ~blocks.too_long & (cursor + 4 <= end))
    cursor, end = cursor[packet], end[packet]
    for _ in range(OPTIONS_MAX):
        if not len(packet):
            return
        code, size = gather(buffer, cursor, 2, order + "u2").T
        following = cursor + 4 + padded(size)
        fits = (code != 0) & (cursor + 4 + size <= end)
        yield PacketOptions(packet[fits], code[fits], cursor[fits] + 4, size[fits])
        more = fits & (following + 4 <= end)
        packet, cursor, end = packet[more], following[more], end[more]


def read_counts(buffer: bytearray, order: str, at: Int64s) -> Int64s:
    """64-bit counts at these indices; those beyond int64 become negative."""
    first, second = gather(buffer, at, 2, order + "u4").T
    low, high = (first, second) if order == "<" else (second, first)
    counts: Int64s = high << 32 | low
    return counts
