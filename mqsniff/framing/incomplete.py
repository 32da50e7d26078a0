"""A frame that lost bytes or is too large: takes the bytes of its stream, gives the frame with its holes.

1. Its size is known, so framing continues after it.
2. Its data end at the first missing byte, or at ``frame_max`` bytes; the rest of the frame is not decoded.
"""

from __future__ import annotations

from mqsniff.framing.streambuffer import INCOMPLETE, STEP, StreamBuffer
from mqsniff.model import Frame, Gap


class IncompleteFrame:
    """One such frame on one side."""

    def __init__(self, stream: StreamBuffer, size: int, keep: int) -> None:
        """Begin a frame of ``size`` bytes with the buffered ones, of which at most ``keep`` are kept."""
        start, there = stream.position, min(stream.available, size)
        data = stream.data()
        at = start - stream.base
        first, last = stream.forget_marks(start), stream.mark_of(start + there - 1)
        self._stream = stream
        self._holes: list[tuple[int, int]] = []
        self._frame = Frame(
            stream.side,
            start,
            size,
            data[at : at + min(there, keep)],
            first.ts_ns,
            last.ts_ns,
            first.packet,
            last.packet,
            last.release,
        )
        stream.walked = None
        stream.position = start + there
        stream.mode = INCOMPLETE

    @property
    def end(self) -> int:
        """Stream offset after the frame."""
        return self._frame.offset + self._frame.size

    def swallow(self) -> bool:
        """Consume buffered bytes of the frame; true when its end was reached."""
        stream, frame = self._stream, self._frame
        stream.position = min(stream.end, self.end)
        last = stream.forget_marks(stream.position - 1)
        frame.last_ts_ns, frame.last_packet = last.ts_ns, last.packet
        frame.release = max(frame.release, last.release)
        return stream.position == self.end

    def lose(self, gap: Gap) -> None:
        """Add a hole for lost bytes; the stream continues after them, or at the end of the frame."""
        start = self._frame.offset
        stop = min(gap.offset + gap.length, self.end) if gap.known else gap.offset
        self._holes.append((gap.offset - start, stop - start))
        self._stream.jump(stop)

    def take(self, now: int) -> Frame:
        """The frame; framing continues after its last byte that was seen."""
        stream, frame = self._stream, self._frame
        frame.holes = tuple(self._holes)
        lost = sum(stop - start for start, stop in frame.holes)
        frame.unread = stream.position - frame.offset - len(frame.data) - lost
        frame.release = max(frame.release, now)
        stream.mode = STEP
        stream.wants = 0
        return frame
