"""Finds the layer of a connection whose beginning was not captured.

1. nsqd and its clients write a Snappy chunk for each flush. The head of an uncompressed chunk is a write of its own, so
   that the packet after it looks like a plain frame. Bytes of both sides are held until their layer is known.
2. The layer is Snappy if a chunk with a right checksum holds a frame. It is clear text if two packets of a side begin
   with a frame, if a packet begins with IDENTIFY or its reply (which negotiate layers), after ``detect_max`` bytes of a
   side, and at the end of a side.
3. Only whole packets decide, at the next packet, gap or end, so that the cut into chunks does not matter.

Source: google/snappy ``framing_format.txt``; golang/snappy ``encode.go``, Writer; nsqio/nsq ``nsqd/client_v2.go``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mqsniff.codecs.snappy import Snappy
from mqsniff.codecs.snappy_chunks import (
    COMPRESSED,
    IDENTIFIER,
    UNCOMPRESSED,
    Unreadable,
    chunk_size,
    may_be_chunk,
    read_chunk,
)
from mqsniff.dissector import NEED, NO_FRAME, Probed, Sample
from mqsniff.limits import Limits
from mqsniff.model import Chunk, Gap, Side
from mqsniff_nsq import commands, frames
from mqsniff_nsq.tables import MAGIC_V2

SNAPPY: Final = "snappy"
PLAIN: Final = "plain"

DATA: Final = (COMPRESSED, UNCOMPRESSED)
_HEAD_MAX: Final = 256
"""Bytes of a packet that suffice to see whether it begins with a frame."""
_PACKETS: Final = 2
"""Packets of a side that must begin with a frame to prove clear text (rule 2)."""
_STARTS: Final = 16
"""Likely starts of a sample that are checked, from the last one back: a sample may hold thousands."""


class Joining:
    """The held events of a connection whose layer is not known yet."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.held: list[Chunk | Gap] = []
        """Held events, in order."""
        self._scouts = (Snappy(limits), Snappy(limits))
        self._in_snappy = False
        self._plain = [0, 0]
        self._negotiates = False
        self._sizes = [0, 0]
        self._packet: tuple[Side, int] | None = None
        self._head = b""

    def verdict_before(self, side: Side, packet: int) -> str | None:
        """The layer by the packets before this one; None: not known, or the packet continues the last chunk."""
        return None if self._packet == (side, packet) else self.verdict()

    def verdict(self) -> str | None:
        """The layer by all held packets; None: not known."""
        self._end_packet()
        if self._negotiates:
            return PLAIN
        if self._in_snappy:
            return SNAPPY
        is_plain = max(self._plain) >= _PACKETS or max(self._sizes) > self._limits.detect_max
        return PLAIN if is_plain else None

    def hold(self, packet: Chunk) -> None:
        """Hold bytes of one packet."""
        side = packet.side
        self._packet = side, packet.marks[0].packet
        self._head = (self._head + packet.data)[:_HEAD_MAX]
        self._sizes[side] += len(packet.data)
        self.held.append(packet)
        for item in self._scouts[side].feed(packet.data):
            if isinstance(item, bytes) and _holds_frame(side, item):
                self._in_snappy = True

    def lose(self, gap: Gap) -> None:
        """Hold a gap."""
        self.held.append(gap)
        for _ in self._scouts[gap.side].gap(max(gap.length, 1)):
            pass

    def _end_packet(self) -> None:
        """The packet is whole: examine its start."""
        if self._packet is None:
            return
        (side, _), head = self._packet, self._head
        self._packet, self._head = None, b""
        if side is Side.CLIENT:
            self._negotiates |= head.startswith((MAGIC_V2, b"IDENTIFY"))
            self._plain[side] += commands.may_begin(head) is True
        elif isinstance(frames.probe(head), int):
            self._negotiates |= head[frames.HEAD : frames.HEAD + 1] == b"{"
            self._plain[side] += 1


def probe_identifier(head: bytes) -> Probed:
    """Size of the identifier that opens a Snappy stream; it may follow a reply to IDENTIFY."""
    if head.startswith(IDENTIFIER):
        return len(IDENTIFIER)
    return NEED if IDENTIFIER.startswith(head) else NO_FRAME


def packets_of(chunk: Chunk) -> Iterator[Chunk]:
    """A chunk as one chunk for each packet."""
    marks, stop = chunk.marks, chunk.offset + len(chunk.data)
    for index, mark in enumerate(marks):
        start = max(mark.offset, chunk.offset)
        end = marks[index + 1].offset if index + 1 < len(marks) else stop
        if end > start:
            data = chunk.data[start - chunk.offset : end - chunk.offset]
            yield Chunk(chunk.side, start, data, [mark._replace(offset=start)])


def begins_in_snappy(side: Side, sample: Sample) -> bool:
    """Whether a segment of a sample begins with a Snappy chunk that has a right checksum and holds a frame."""
    for start in sample.starts[-_STARTS:]:
        head = sample.data[start : start + 16]
        size = chunk_size(head)
        if not size or head[0] not in DATA or start + size > len(sample.data) or not may_be_chunk(head, size):
            continue
        plain = read_chunk(sample.data[start : start + size])
        if not isinstance(plain, Unreadable) and _holds_frame(side, plain):
            return True
    return False


def _holds_frame(side: Side, plain: bytes) -> bool:
    """Whether a frame begins anywhere in the plain bytes of a chunk."""
    probe, scan = (commands.probe, commands.scan) if side is Side.CLIENT else (frames.probe, frames.scan)
    at = 0
    while (at := scan(plain, at)) < len(plain):
        if isinstance(probe(plain[at : at + _HEAD_MAX]), int):
            return True
        at += 1
    return False
