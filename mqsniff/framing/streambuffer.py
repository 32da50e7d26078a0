"""Buffers the bytes of one side until they become frames, with their stream offsets and packets.

1. All offsets are stream offsets; only ``data`` and ``base`` know of the buffer.
2. ``position`` is where the next frame starts; bytes before it are dropped at the next join.
3. Small chunks are kept in a list and joined when enough is there, so that a large frame costs one copy.
4. Bytes and gaps after a gap are held, in order, while the side waits for its peer.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterator
from enum import Enum
from operator import attrgetter
from typing import Final

from mqsniff.dissector import IncrementalSize, Sized
from mqsniff.model import Chunk, Frame, Gap, Mark, Side


class Mode(Enum):
    """State of one side."""

    STEP = "in step: frame follows frame"
    WAIT = "waits for the peer"
    SEARCH = "looks for a frame"
    INCOMPLETE = "lets the rest of a frame pass whose bytes are lost or too many"


STEP: Final = Mode.STEP
WAIT: Final = Mode.WAIT
SEARCH: Final = Mode.SEARCH
INCOMPLETE: Final = Mode.INCOMPLETE
"""Looked up once: to find a member of an enumeration costs 0.1 µs, and these are needed for each chunk and frame."""

_OFFSET: Final = attrgetter("offset")


class StreamBuffer:
    """Buffer, marks and mode of one side."""

    __slots__ = (
        "_buffer",
        "_held_bytes",
        "_mark_at",
        "_marks",
        "_tail",
        "answer",
        "base",
        "closed",
        "end",
        "held",
        "mode",
        "paused_at",
        "peer",
        "position",
        "side",
        "size_seen_at",
        "stopped_waiting",
        "walked",
        "wants",
    )

    def __init__(self, side: Side) -> None:
        self.side, self.peer = side, side.peer
        self.mode: Mode = STEP
        self.base = 0
        self.position = 0
        self.end = 0
        self.wants = 0
        self.walked: IncrementalSize | None = None
        self.answer: Sized | None = None
        """Result of ``frame_size`` at ``position``, kept so that it is called once."""
        self.size_seen_at = -1
        self.paused_at = -1
        """``end`` when the peer began to send."""
        self.closed = False
        self.stopped_waiting = False
        self.held: deque[Chunk | Gap] | None = None
        """None as long as nothing was held: an empty one takes more than the rest of the object."""
        self._buffer = b""
        self._tail: list[bytes] = []
        self._marks: list[Mark] = []
        self._mark_at = 0
        self._held_bytes = 0

    # ---- bytes in

    def add(self, chunk: Chunk) -> None:
        """Append contiguous bytes; ``chunk.offset`` is ``end``."""
        if not self._tail and self.position == self.end:
            self.base = self.position = chunk.offset
            self._buffer = chunk.data
        else:
            self._tail.append(chunk.data)
        self.end = chunk.offset + len(chunk.data)
        if self._mark_at:
            del self._marks[: self._mark_at]
            self._mark_at = 0
        self._marks += chunk.marks

    @property
    def idle(self) -> bool:
        """Whether the side is in step and nothing of it is buffered or held."""
        idle = self.wants <= self.position == self.end and self.mode is STEP
        return idle and not (self._tail or self.held or self.walked)

    def whole(self, chunk: Chunk, now: int) -> Frame:
        """The frame that is exactly one chunk of one packet, on an idle side: as ``add`` and then ``take``."""
        offset, size, mark = chunk.offset, len(chunk.data), chunk.marks[0]
        self.base, self._buffer = offset, chunk.data
        self.position = self.end = offset + size
        self._marks, self._mark_at = [mark], 0
        ts_ns, packet = mark.ts_ns, mark.packet
        return Frame(self.side, offset, size, chunk.data, ts_ns, ts_ns, packet, packet, now)

    def jump(self, offset: int) -> None:
        """Continue at this offset with an empty buffer."""
        self._buffer, self._tail = b"", []
        self.base = self.position = self.end = offset
        self.wants = 0
        self.walked = None

    def hold(self, event: Chunk | Gap) -> None:
        """Keep an event until the side stops to wait for its peer (rule 4)."""
        if self.held is None:
            self.held = deque()
        self.held.append(event)
        if isinstance(event, Chunk):
            self._held_bytes += len(event.data)

    def next_held(self) -> Chunk | Gap:
        """Remove and return the oldest held event."""
        assert self.held is not None
        event = self.held.popleft()
        if isinstance(event, Chunk):
            self._held_bytes -= len(event.data)
        return event

    @property
    def available(self) -> int:
        """Bytes that are buffered from ``position`` on."""
        return self.end - self.position

    @property
    def waiting_bytes(self) -> int:
        """Bytes that wait for the peer."""
        return self.available + self._held_bytes

    def data(self) -> bytes:
        """All buffered bytes; the first stands at ``base``."""
        if self._tail:
            done = self.position - self.base
            self._buffer = b"".join([self._buffer[done:], *self._tail])
            self._tail = []
            self.base = self.position
        return self._buffer

    # ---- frames out

    def want(self, size: int) -> None:
        """Make no new attempt before ``size`` bytes are buffered."""
        self.wants = self.position + size

    def head(self, size: int, skip: int = 0) -> bytes:
        """Up to ``size`` bytes, ``skip`` bytes after ``position``."""
        at = self.position - self.base + skip
        if self._tail and len(self._buffer) < at + size:
            self.data()
            at = skip
        return self._buffer[at : at + size]

    def take(self, size: int, now: int) -> Frame | None:
        """The frame of ``size`` bytes at ``position``, None when not all of it is there."""
        start = self.position
        if self.end - start < size:
            return None
        data = self.data()
        at = start - self.base
        first = self.forget_marks(start)
        self.position = start + size
        self.walked = None
        last = self.mark_of(self.position - 1)
        release = max(now, last.release)
        return Frame(
            self.side, start, size, data[at : at + size], first.ts_ns, last.ts_ns, first.packet, last.packet, release
        )

    def size_release(self, frame: Frame) -> int:
        """Ordinal of the packet whose byte showed the size of the frame; that byte may be after the frame."""
        if self.size_seen_at < self.position:
            return frame.release
        at, self.size_seen_at = self.size_seen_at, -1
        return self.mark_of(at).release

    # ---- packets

    def mark_of(self, offset: int) -> Mark:
        """Time and packet of the byte at ``offset``, which must not lie before the mark of ``position``."""
        marks, at = self._marks, self._mark_at
        if at + 1 == len(marks) or marks[at + 1].offset > offset:
            return marks[at]
        return marks[bisect_right(marks, offset, at + 1, key=_OFFSET) - 1]

    def forget_marks(self, offset: int) -> Mark:
        """As ``mark_of``; also drops the marks before."""
        marks, at = self._marks, self._mark_at
        last = len(marks) - 1
        while at < last and marks[at + 1].offset <= offset:
            at += 1
        self._mark_at = at
        return marks[at]

    def packet_starts(self) -> list[int]:
        """Stream offsets of the first buffered bytes of packets, from ``position`` on."""
        return [mark.offset for mark in self._marks if self.position <= mark.offset < self.end]

    def begins_packet(self, offset: int) -> bool:
        """Whether the bytes of a packet begin at a stream offset."""
        marks = self._marks
        at = bisect_left(marks, offset, self._mark_at, key=_OFFSET)
        if at == len(marks) or marks[at].offset != offset:
            return False
        return at == self._mark_at or marks[at].packet != marks[at - 1].packet

    def ends_packet(self, offset: int) -> bool:
        """Whether the bytes of a packet end at a stream offset."""
        return offset == self.end or self.begins_packet(offset)

    def packet_ends(self) -> Iterator[tuple[int, int]]:
        """(stream offset, release) of the end of each packet's buffered bytes, beginning with the oldest mark kept."""
        marks = self._marks
        for at in range(self._mark_at, len(marks)):
            yield marks[at + 1].offset if at + 1 < len(marks) else self.end, marks[at].release

    # ---- giving bytes back

    def hand_back(self, offset: int) -> list[Chunk | Gap]:
        """Remove and return what was fed from ``offset`` on (not before ``position``)."""
        data = self.data()
        cut = max(offset, self.position) - self.base
        back: list[Chunk | Gap] = []
        if cut < len(data):
            start = self.base + cut
            marks = [m for m in self._marks if m.offset > start]
            back.append(Chunk(self.side, start, data[cut:], [self.mark_of(start), *marks]))
            self._buffer = data[:cut]
            self._marks = [m for m in self._marks if m.offset <= start]
            self.end = start
        if self.held is not None:
            back += self.held
            self.held = None
        self._held_bytes = 0
        self.wants = 0
        return back
