"""Bytes of a pcap file in, PacketBatches out.

Source: draft-ietf-opsawg-pcap. The "modified" variant, with record heads of 24 bytes, is Alexey Kuznetsov's; libpcap
reads it too.

1. A captured length over ``max(snaplen, 256 KiB)``, or over ``limits.packet_max``, is no record: the capture ends there
   with a problem. A smaller snap length is not enforced, as it often is wrong.
2. Zeros are no empty packets. A second pcap file after the first is read too.

Hot: 0.17 µs per packet on one core (``benchmarks/sources.py``), in NumPy columns except the walk over the heads.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from mqsniff.limits import KIB, SECOND_NS, Limits
from mqsniff.model import CaptureInfo, Int32s, Int64s, PacketBatch
from mqsniff.sources.batches import new_batch, report
from mqsniff.sources.parsers import Head, Heads, Parsed, RecordHeadLayout, SectionLosses, Spent, gather, walk

FILE_HEAD: Final = 24
SNAPLEN_MIN: Final = 256 * KIB
"""What libpcap allows, whatever the file head says."""
LINKTYPE_MASK: Final = 0x03FFFFFF
"""The upper bits of the link type word are about a frame check sequence."""


class _Magic(NamedTuple):
    """Byte order, resolution and variant, by the first four bytes."""

    order: str
    tick_ns: int
    record_head: int

    @property
    def records(self) -> RecordHeadLayout:
        """Record heads: seconds, fraction, captured length, length on the wire; eight more bytes if modified."""
        return RecordHeadLayout(size_place=8, extra=self.record_head, least=self.record_head)


MAGICS: Final = {
    word.to_bytes(4, "little" if order == "<" else "big"): _Magic(order, tick_ns, record_head)
    for order in "<>"
    for word, tick_ns, record_head in ((0xA1B2C3D4, 1000, 16), (0xA1B23C4D, 1, 16), (0xA1B2CD34, 1000, 24))
}
OTHER_HEADS: Final = {b"\x0a\x0d\x0d\x0a": "pcapng", b"\x1f\x8b\x08": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}


class PcapParser:
    """A Parser for pcap."""

    def __init__(self, info: CaptureInfo, limits: Limits) -> None:
        self._info = info
        self._packet_max = limits.packet_max
        self._magic: _Magic | None = None
        self._size_max = 0
        self._linktype = 0
        self.heads = Heads()
        self.last_ns = 0
        self.begins_untimed = False
        info.format = "pcap"

    def resume(self, heads: Sequence[Head], last_ns: int) -> None:
        """See Parser; only the last head matters."""
        for head in heads:
            self.heads.add(*head)
        self.last_ns = last_ns
        self._read_file_head(heads[-1].data)

    def losses(self) -> SectionLosses:
        """See Parser; none, as the format has no field for them."""
        return SectionLosses({}, 0, None)

    def notes(self) -> Spent:
        """See Parser; none, as above."""
        return Spent()

    def parse(self, buffer: bytearray, start: int, stop: int, offset: int) -> Parsed:
        """See Parser."""
        if self._magic is None:
            if stop - start < FILE_HEAD:
                return Parsed(None, start, FILE_HEAD)
            head = bytes(buffer[start : start + FILE_HEAD])
            why = self._read_file_head(head)
            if why:
                self._refuse(why, offset)
                return Parsed(None, start, 0, over=True)
            self.heads.add(offset, head)
            return Parsed(None, start + FILE_HEAD, 0)
        return self._parse_records(self._magic, buffer, start, stop, offset)

    def finish(self, left: int, offset: int) -> None:
        """See Parser."""
        if self._magic is None:
            self._refuse("cut inside its file head", offset)
        elif left:
            packet = self._info.packets + 1
            report(self._info, f"cut at byte {offset + left}, inside packet {packet}", offset + left, packet=packet)

    def _read_file_head(self, head: bytes) -> str:
        """Read a file head; returns what is wrong with it."""
        magic = MAGICS[head[:4]]
        major, minor, _zone, _figures, snaplen, network = struct.unpack(magic.order + "2H4I", head[4:])
        if major != 2:
            return f"pcap of version {major}.{minor}, only 2 is known"
        self._magic = magic
        self._size_max = min(max(snaplen, SNAPLEN_MIN), self._packet_max)
        self._linktype = network & LINKTYPE_MASK
        return ""

    def _refuse(self, why: str, offset: int) -> None:
        if self.heads.found:
            report(self._info, f"the next pcap file in it cannot be read: {why}", offset)
        else:
            self._info.unreadable = why

    def _parse_records(self, magic: _Magic, buffer: bytearray, start: int, stop: int, offset: int) -> Parsed:
        records, position = walk(buffer, magic.order, start, stop, magic.records)
        batch = None
        if len(records):
            heads = gather(buffer, records, magic.record_head // 4, magic.order + "u4")
            sound = self._sound(magic, heads)
            batch = self._batch(magic, buffer, records[:sound], heads[:sound]) if sound else None
            if sound < len(records):
                at = int(records[sound])
                return self._stumble(buffer, at, offset + at - start, batch)
        if stop - position < magic.record_head:
            return Parsed(batch, position, magic.record_head)
        (size,) = struct.unpack_from(magic.order + "I", buffer, position + 8)
        if size > self._size_max:
            return self._stumble(buffer, position, offset + position - start, batch)
        return Parsed(batch, position, magic.record_head + size)

    def _sound(self, magic: _Magic, heads: Int64s) -> int:
        """Number of valid records before the first invalid one."""
        size = heads[:, 2]
        if size.min() > 0 and size.max() <= self._size_max:
            return len(heads)
        magics = struct.unpack(f"{magic.order}{len(MAGICS)}I", b"".join(MAGICS))
        file_head = np.isin(heads[:, 0], magics) & ~heads[:, 2:4].any(axis=1)
        none = (size > self._size_max) | file_head | ~heads[:, :4].any(axis=1)
        return int(none.argmax()) if none.any() else len(heads)

    def _batch(self, magic: _Magic, buffer: bytearray, records: Int64s, heads: Int64s) -> PacketBatch:
        caplen = heads[:, 2].copy()
        ts_ns = heads[:, 0] * SECOND_NS + heads[:, 1] * magic.tick_ns
        self.last_ns = int(ts_ns[-1])
        return new_batch(
            self._info,
            buffer,
            ts_ns=ts_ns,
            start=records + magic.record_head,
            caplen=caplen,
            wirelen=np.maximum(heads[:, 3], caplen),
            linktype=np.full(len(records), self._linktype, np.int32),
            interface=_interfaces(magic, heads),
        )

    def _stumble(self, buffer: bytearray, at: int, offset: int, batch: PacketBatch | None) -> Parsed:
        """There is no record at ``at``: read another file head, or end the capture."""
        head = bytes(buffer[at : at + 16])
        if head[:4] in MAGICS:
            report(self._info, f"another pcap file begins at byte {offset}; read on", offset, "warning")
            self._magic = None
            return Parsed(batch, at, FILE_HEAD)
        other = next((name for start, name in OTHER_HEADS.items() if head.startswith(start)), "")
        what = f"a {other} file begins there" if other else "its length is impossible" if any(head) else "zeros"
        packet = self._info.packets + 1
        report(self._info, f"no packet {packet} at byte {offset}: {what}", offset, packet=packet)
        return Parsed(batch, at, 0, over=True)


def _interfaces(magic: _Magic, heads: Int64s) -> Int32s:
    """The modified variant names the interface; the others have one."""
    if magic.record_head == 16:
        return np.zeros(len(heads), np.int32)
    return heads[:, 4].astype(np.int32)
