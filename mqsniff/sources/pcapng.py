"""Bytes of a pcapng file in, PacketBatches out.

Source: draft-ietf-opsawg-pcapng. Columns of packets are made by pcapng_packets.py, the other blocks are read by
pcapng_blocks.py.

1. A section resets byte order and interfaces; its length is not used.
2. Packets and interfaces are numbered across all sections.
3. A simple packet has no time: it gets that of the packet before it, 0 at the start.
4. Unknown blocks of any size are skipped.
5. A block with an impossible length, or with two different lengths, ends the capture with a problem. Packet blocks may
   have a wrong second length, since the next block confirms the first.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from mqsniff.limits import MIB, Limits
from mqsniff.model import CaptureInfo, Int64s, PacketBatch, ProblemKind, Severity
from mqsniff.sources.batches import join_batches, new_batch, report
from mqsniff.sources.parsers import (
    Head,
    Heads,
    Losses,
    Parsed,
    RecordHeadLayout,
    SectionLosses,
    Spent,
    gather,
    lost,
    walk,
)
from mqsniff.sources.pcap import MAGICS
from mqsniff.sources.pcapng_blocks import COMMENT, BlockType, CaptureNotes, Interfaces
from mqsniff.sources.pcapng_packets import (
    PACKET_MIN,
    SIMPLE_MIN,
    PacketBlocks,
    are_packets,
    read_blocks,
    read_counts,
    read_packet_options,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

SECTION_MAGIC: Final = b"\x0a\x0d\x0d\x0a"
"""Equal in both byte orders."""
SIZE_MIN: Final[dict[int, int]] = {
    BlockType.SECTION: 28,
    BlockType.INTERFACE: 20,
    BlockType.OLD_PACKET: PACKET_MIN,
    BlockType.SIMPLE_PACKET: SIMPLE_MIN,
    BlockType.NAMES: 12,
    BlockType.STATISTICS: 24,
    BlockType.PACKET: PACKET_MIN,
    BlockType.SECRETS: 20,
}
"""The blocks that are read, and their minimum sizes."""
BLOCK_MIN: Final = 12
BLOCKS: Final = RecordHeadLayout(size_place=4, extra=0, least=BLOCK_MIN)
CHECKED_MAX: Final = MIB
"""Unknown blocks up to this size are read as a whole, so that both their lengths can be compared."""
BYTE_ORDERS: Final = {b"\x4d\x3c\x2b\x1a": "<", b"\x1a\x2b\x3c\x4d": ">"}
EPB_DROPCOUNT: Final = 4
IMPOSSIBLE: Final = "its length is impossible"


class PcapngParser:
    """A Parser for pcapng."""

    def __init__(self, info: CaptureInfo, limits: Limits) -> None:
        self._info = info
        self._block_max = limits.packet_max + MIB
        self._interfaces_max = limits.interfaces_max
        self._notes = CaptureNotes(info, limits)
        self._order = ""
        self._interfaces = Interfaces(0)
        self._losses_first: Losses | None = None  # set when the section at the start is over
        self._lost_between = 0
        self.heads = Heads()
        self.last_ns = 0
        self.begins_untimed = False
        info.format = "pcapng"

    def resume(self, heads: Sequence[Head], last_ns: int) -> None:
        """See Parser."""
        for offset, data in heads:
            self.parse(bytearray(data), 0, len(data), offset)
        self.last_ns = last_ns
        self._losses_first = None
        self._lost_between = 0
        self._notes.spent = Spent()

    def parse(self, buffer: bytearray, start: int, stop: int, offset: int) -> Parsed:
        """See Parser."""
        shift = offset - start
        known = len(self._info.problems)
        batches: list[PacketBatch] = []
        at, need, over = start, 0, False
        while not need and not over:
            at, over = self._read_run(buffer, at, stop, shift, batches)
            if not over:
                at, need, over = self._read_single(buffer, at, stop, shift)
        losses = self.losses()
        self._info.dropped = lost(losses.first) + losses.between + lost(losses.last or {})
        # Packets are read after the blocks between them; their problems come in file order nevertheless.
        self._info.problems[known:] = sorted(self._info.problems[known:], key=lambda problem: problem.offset or 0)
        return Parsed(join_batches(batches) if batches else None, at, need, over)

    def losses(self) -> SectionLosses:
        """See Parser."""
        now = self._interfaces.losses()
        if self._losses_first is None:
            return SectionLosses(now, 0, None)
        return SectionLosses(self._losses_first, self._lost_between, now)

    def notes(self) -> Spent:
        """See Parser."""
        return self._notes.spent

    def finish(self, left: int, offset: int) -> None:
        """See Parser."""
        if not self._order:
            self._info.unreadable = "cut inside its section header"
        elif left:
            report(self._info, f"cut at byte {offset + left}, inside a block", offset + left)

    def _read_run(
        self, buffer: bytearray, at: int, stop: int, shift: int, batches: list[PacketBatch]
    ) -> tuple[int, bool]:
        """Read complete blocks in the current byte order; returns the next index, and ``Parsed.over``."""
        if not self._order:
            return at, False
        index, behind = walk(buffer, self._order, at, stop, BLOCKS)
        kinds, sizes = gather(buffer, index, 2, self._order + "u4").T
        packets = are_packets(kinds, sizes, self._block_max)
        first = 0
        for other in np.flatnonzero(~packets).tolist():
            at, kind, size = int(index[other]), int(kinds[other]), int(sizes[other])
            if kind == BlockType.SECTION:
                self._add_batch(batches, buffer, index[first:other][packets[first:other]], shift)
                first = other
                if BYTE_ORDERS.get(bytes(buffer[at + 8 : at + 12])) != self._order:
                    return at, False
            if self._read_block(bytes(buffer[at : at + size]), kind, size, at + shift):
                self._add_batch(batches, buffer, index[first:other][packets[first:other]], shift)
                return at, True
        self._add_batch(batches, buffer, index[first:][packets[first:]], shift)
        return behind, False

    def _read_single(self, buffer: bytearray, at: int, stop: int, shift: int) -> tuple[int, int, bool]:
        """Read an incomplete block or one in another byte order: the next index, ``Parsed.need``, ``Parsed.over``."""
        if stop - at < BLOCK_MIN:
            return at, BLOCK_MIN, False
        head = bytes(buffer[at : at + BLOCK_MIN])
        order = BYTE_ORDERS.get(head[8:], "") if head.startswith(SECTION_MAGIC) else self._order
        if not order:
            return at, 0, self._stop(at + shift, head, IMPOSSIBLE)
        kind, size = struct.unpack_from(order + "2I", head)
        if not self._possible(head, kind, size):
            return at, 0, self._stop(at + shift, head, IMPOSSIBLE)
        if at + size > stop and (kind in SIZE_MIN or size <= CHECKED_MAX):
            return at, size, False
        return at + size, 0, self._read_block(bytes(buffer[at : at + size]), kind, size, at + shift)

    def _possible(self, head: bytes, kind: int, size: int) -> bool:
        """Whether a block of this type can have this size; ``head`` is its beginning."""
        return (
            head[:4] not in MAGICS
            and size >= SIZE_MIN.get(kind, BLOCK_MIN)
            and (size <= self._block_max or kind not in SIZE_MIN)
        )

    def _read_block(self, block: bytes, kind: int, size: int, offset: int) -> bool:
        """Read a block without packets; True if the capture ends with it."""
        if not self._possible(block, kind, size):
            return self._stop(offset, block, IMPOSSIBLE)
        if kind not in SIZE_MIN and size > CHECKED_MAX:
            return False
        order = BYTE_ORDERS[block[8:12]] if kind == BlockType.SECTION else self._order
        if struct.unpack_from(order + "I", block, size - 4) != (size,):
            return self._stop(offset, block, "its two lengths differ")
        body = block[8:-4]
        match kind:
            case BlockType.SECTION:
                self.heads.add(offset, block)
                return self._begin_section(body, order, offset)
            case BlockType.INTERFACE:
                self.heads.add(offset, block)
                self._add_interface(body, offset)
            case BlockType.NAMES:
                self._notes.read_names(body, order, offset)
            case BlockType.STATISTICS:
                self._interfaces.read_statistics(body, order)
            case BlockType.SECRETS:
                self._notes.read_secrets(body, order, offset)
        return False

    def _begin_section(self, body: bytes, order: str, offset: int) -> bool:
        """Read a section header; True if its version is unknown."""
        major, minor = struct.unpack_from(order + "2H", body, 4)
        if major != 1:
            return self._stop(offset, b"", f"pcapng of version {major}.{minor}, only 1 is known")
        if self._order and self._losses_first is None:
            self._losses_first = self._interfaces.losses()
        elif self._order:
            self._lost_between += lost(self._interfaces.losses())
        self._order = order
        self._interfaces = Interfaces(self._interfaces.first + len(self._interfaces))
        self._notes.add_comments(body[16:], order, offset)
        return False

    def _add_interface(self, body: bytes, offset: int) -> None:
        if len(self._interfaces) >= self._interfaces_max:
            report(self._info, "more interfaces than interfaces_max; the rest is not known", offset, "error", "limit")
            return
        self._interfaces.add(body, self._order, offset)
        self._notes.add_comments(body[8:], self._order, offset)

    def _stop(self, offset: int, head: bytes, why: str) -> bool:
        """End the capture: no block can be read at this offset."""
        if not self._order:
            self._info.unreadable = why
        else:
            why = "a pcap file begins there" if head[:4] in MAGICS else why
            report(self._info, f"no block at byte {offset}: {why}", offset)
        return True

    def _add_batch(self, batches: list[PacketBatch], buffer: bytearray, at: Int64s, shift: int) -> None:
        """Add the packets of the blocks at these indices, all of the current section."""
        if len(at):
            batches.append(self._batch(read_blocks(buffer, self._order, at), buffer, shift))

    def _batch(self, blocks: PacketBlocks, buffer: bytearray, shift: int) -> PacketBatch:
        row = self._interfaces.rows(blocks.interface, blocks.at + shift)
        self._limit_simple(blocks, row)
        ts_ns, held = self._interfaces.times(row, blocks.ticks)
        if blocks.simple.any():
            self.begins_untimed |= bool(blocks.simple[0]) and not self._info.packets
            ts_ns = self._fill_times(ts_ns, blocks.simple)
        self.last_ns = int(ts_ns[-1])
        self._report_odd(blocks, row, held, shift)
        if blocks.lost is not None:
            self._interfaces.lose(row, blocks.lost)
        self._read_options(buffer, blocks, row, shift)
        return new_batch(
            self._info,
            buffer,
            ts_ns=ts_ns,
            start=blocks.data,
            caplen=blocks.caplen,
            wirelen=blocks.wirelen,
            linktype=self._interfaces.linktypes(row),
            interface=self._interfaces.numbers(row),
        )

    def _limit_simple(self, blocks: PacketBlocks, row: Int64s) -> None:
        """Limit simple packets to the snap length of interface 0."""
        snaplen = self._interfaces.snaplen(0)
        if snaplen:
            cut = blocks.simple & (row == 0)
            blocks.caplen[cut] = np.minimum(blocks.caplen[cut], snaplen)

    def _fill_times(self, ts_ns: Int64s, simple: NDArray[np.bool_]) -> Int64s:
        """Give each packet without a time that of the packet before it."""
        timed = np.maximum.accumulate(np.where(simple, -1, np.arange(len(simple))))
        return np.where(timed >= 0, ts_ns[timed], self.last_ns)

    def _read_options(self, buffer: bytearray, blocks: PacketBlocks, row: Int64s, shift: int) -> None:
        """Read comments and loss counters from the options of packets."""
        for options in read_packet_options(buffer, self._order, blocks):
            for index in np.flatnonzero(options.code == COMMENT).tolist():
                packet, at, size = (int(column[index]) for column in (options.packet, options.at, options.size))
                offset = int(blocks.at[packet]) + shift
                if not self._notes.add_comment(buffer[at : at + size], offset, self._info.packets + 1 + packet):
                    break
            counts = np.flatnonzero((options.code == EPB_DROPCOUNT) & (options.size == 8))
            if len(counts):
                self._interfaces.lose(row[options.packet[counts]], read_counts(buffer, self._order, options.at[counts]))

    def _report_odd(self, blocks: PacketBlocks, row: Int64s, held: NDArray[np.bool_], shift: int) -> None:
        odd: tuple[tuple[NDArray[np.bool_], ProblemKind, Severity, str], ...] = (
            (blocks.too_long, "input", "error", "a packet's captured length reaches beyond its block"),
            (~blocks.same_sizes, "input", "warning", "the two lengths of a packet's block differ"),
            (row == len(self._interfaces), "input", "error", "a packet's interface was not described before it"),
            (~held, "clock", "warning", "a packet's time is beyond what nanoseconds in 64 bits can hold"),
        )
        for where, kind, severity, detail in odd:
            if where.any():
                report(self._info, detail, int(blocks.at[where.argmax()]) + shift, severity, kind)
