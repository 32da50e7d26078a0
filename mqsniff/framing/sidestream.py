"""The bytes of one side that wait to become frames, and where in the stream they stand.

1. All offsets are stream offsets; only ``data`` and ``base`` know of the buffer.
2. ``position`` is where the next frame starts; bytes before it are dropped at the next join.
3. Small chunks are kept in a list and joined when enough is there, so that a large frame costs one copy.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from enum import Enum

from mqsniff.dissector import Walk
from mqsniff.model import Chunk, Frame, Gap, Mark, ProblemKind, Side, Skipped


class Mode(Enum):
    """What a side is doing."""

    STEP = "in step: frame follows frame"
    WAIT = "waits for the peer"
    SEARCH = "looks for a frame"
    HOLED = "lets the rest of a frame pass whose bytes are lost or too many"


class SideStream:
    """Buffer, marks and mode of one side."""

    def __init__(self, side: Side) -> None:
        self.side = side
        self.mode = Mode.STEP
        self.base = 0
        self.position = 0
        self.end = 0
        self.wants = 0
        self.walked: Walk | None = None
        self.told_at = -1
        self.search_wants = 0
        self.closed = False
        self.tired = False
        self.held: deque[Chunk | Gap] = deque()
        self._buffer = b""
        self._tail: list[bytes] = []
        self._marks: list[Mark] = []
        self._mark_at = 0
        self._held_bytes = 0
        self._skip_from = 0
        self._skip_why = ""
        self._skip_mark: Mark | None = None
        self._missing = False
        self._missing_from: int | None = None
        self._seen = 0
        self._found_at = -1
        self._holed: Frame | None = None
        self._holes: list[tuple[int, int]] = []

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

    def jump(self, offset: int) -> None:
        """Go on at this offset with nothing buffered."""
        self._buffer, self._tail = b"", []
        self.base = self.position = self.end = offset
        self.wants = 0
        self.walked = None

    def hold(self, event: Chunk | Gap) -> None:
        """Keep what comes behind a gap while the side waits."""
        self.held.append(event)
        if isinstance(event, Chunk):
            self._held_bytes += len(event.data)

    def unhold(self) -> Chunk | Gap:
        """The oldest event that was held."""
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
        """Do not try again before so many bytes are there."""
        self.wants = self.position + size

    def ready(self) -> bool:
        """Whether another try is worth it."""
        return self.end > self.position and self.end >= self.wants

    def head(self, size: int, skip: int = 0) -> bytes:
        """Up to ``size`` bytes, ``skip`` bytes behind ``position``."""
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
        first = self._walk(start)
        self.position = start + size
        self.walked = None
        last = self.mark_of(self.position - 1)
        release = max(now, last.release)
        return Frame(
            self.side, start, size, data[at : at + size], first.ts_ns, last.ts_ns, first.packet, last.packet, release
        )

    def told(self, frame: Frame) -> int:
        """Ordinal of the packet with the byte that told a frame's size, which may stand behind the frame."""
        if self.told_at < self.position:
            return frame.release
        at, self.told_at = self.told_at, -1
        return self.mark_of(at).release

    def mark_of(self, offset: int) -> Mark:
        """Time and packet of the byte at ``offset`` (not before ``position``'s mark)."""
        marks, at = self._marks, self._mark_at
        last = len(marks) - 1
        while at < last and marks[at + 1].offset <= offset:
            at += 1
        return marks[at]

    def _walk(self, offset: int) -> Mark:
        """As ``mark_of``, and forget the marks before."""
        marks, at = self._marks, self._mark_at
        last = len(marks) - 1
        while at < last and marks[at + 1].offset <= offset:
            at += 1
        self._mark_at = at
        return marks[at]

    # ---- frames with holes

    def open_holed(self, size: int, keep: int) -> None:
        """Take what is there (at most ``keep`` bytes) as the start of a frame whose rest will pass undecoded."""
        start, there = self.position, min(self.available, size)
        at = start - self.base
        data = self.data()[at : at + min(there, keep)] if not self._tail else self.data()[: min(there, keep)]
        first, last = self._walk(start), self.mark_of(start + there - 1)
        self._holed = Frame(
            self.side, start, size, data, first.ts_ns, last.ts_ns, first.packet, last.packet, last.release
        )
        self._holes = []
        self.walked = None
        self.position = start + there
        self.mode = Mode.HOLED

    @property
    def holed_end(self) -> int:
        """Where the frame with holes ends."""
        return self._holed.offset + self._holed.size if self._holed else 0

    def swallow(self) -> bool:
        """Let buffered bytes of the frame pass; true when its end was reached."""
        frame = self._holed
        assert frame is not None
        self.position = min(self.end, self.holed_end)
        self._note_last(frame, self.position - 1)
        return self.position == self.holed_end

    def _note_last(self, frame: Frame, offset: int) -> None:
        mark = self.mark_of(offset)
        frame.last_ts_ns, frame.last_packet = mark.ts_ns, mark.packet
        frame.release = max(frame.release, mark.release)

    def add_hole(self, gap: Gap) -> None:
        """Note lost bytes inside the frame; the stream goes on behind them (or at the frame's end)."""
        frame = self._holed
        assert frame is not None
        stop = min(gap.offset + gap.length, self.holed_end) if gap.known else gap.offset
        self._holes.append((gap.offset - frame.offset, stop - frame.offset))
        self.jump(stop)

    def take_holed(self, now: int) -> Frame:
        """The frame with holes; framing goes on behind what was seen of it."""
        frame = self._holed
        assert frame is not None
        self._holed = None
        frame.holes = tuple(self._holes)
        frame.release = max(frame.release, now)
        self.mode = Mode.STEP
        self.wants = 0
        return frame

    # ---- searching

    def miss(self, start: int | None) -> None:
        """Frames may be missing from this offset on; None where nobody knows how much was lost."""
        if not self._missing or start is None:
            self._missing_from = start
        self._missing = True

    def missed(self) -> int | None:
        """How many bytes before ``position`` may have been frames, as ``miss`` has told; None for nobody knows."""
        start, self._missing = self._missing_from, False
        return None if start is None else self.position - start

    def lose_step(self, why: str) -> None:
        """From ``position`` on, frames have to be searched for."""
        self.mode = Mode.SEARCH
        self.miss(self.position)
        self._skip_from = self.position
        if self.position == self._found_at:  # ``probe`` and ``frame_size`` disagree: never ask twice for one offset
            self.position += 1
        self._skip_why = why
        self._skip_mark = None
        self.walked = None
        self._seen = self.position
        self.search_wants = self.position + 1
        self.wants = 0

    def unseen_packets(self) -> Iterator[tuple[int, int]]:
        """(stream offset, release) of the end of each packet's bytes that the search has not seen yet."""
        self._skip_mark = self._skip_mark or self.mark_of(self._skip_from)
        self._walk(self.position)
        marks = self._marks
        for at in range(self._mark_at, len(marks)):
            stop = marks[at + 1].offset if at + 1 < len(marks) else self.end
            if stop > self._seen:
                self._seen = stop
                yield stop, marks[at].release

    def found(self) -> Skipped | None:
        """The search has put ``position`` on a frame: in step again; what was passed over, if anything."""
        self.mode = Mode.STEP
        self._found_at = self.position
        return self._skipped()

    def unfound(self) -> Skipped | None:
        """The run ended without a frame: all of it is passed over, and the search goes on behind."""
        self.position = self.end
        skipped = self._skipped()
        self._skip_from = self.position
        self._skip_mark = None
        return skipped

    def skip_rest(self, why: str, kind: ProblemKind) -> Skipped:
        """Everything buffered is passed over."""
        self._skip_from, self._skip_why, self._skip_mark = self.position, why, None
        self.position = self.end
        self.walked = None
        skipped = self._skipped(kind)
        assert skipped is not None
        return skipped

    def _skipped(self, kind: ProblemKind = "undecoded") -> Skipped | None:
        length = self.position - self._skip_from
        if length <= 0:
            return None
        first = self._skip_mark or self.mark_of(self._skip_from)
        return Skipped(self.side, self._skip_from, length, self._skip_why, kind, first.ts_ns, first.packet)

    # ---- giving bytes back

    def surrender(self, offset: int) -> list[Chunk | Gap]:
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
            self._seen = min(self._seen, start)
        back += self.held
        self.held.clear()
        self._held_bytes = 0
        self.wants = 0
        return back
