"""A frame whose bytes are not all there, or too many: what there is of its stream in, the frame with its holes out.

1. Its size is known: framing goes on behind it, whatever it lacks.
2. Its data end where the first byte is missing, or at as many as a frame may have; what follows passes undecoded.
"""

from __future__ import annotations

from mqsniff.framing.streambuffer import Mode, StreamBuffer
from mqsniff.model import Frame, Gap


class IncompleteFrame:
    """A frame that passes by on a side."""

    def __init__(self, stream: StreamBuffer, size: int, keep: int) -> None:
        """Take what is there, at most ``keep`` bytes of it, as the start of a frame of ``size`` bytes."""
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
        stream.mode = Mode.HOLED

    @property
    def end(self) -> int:
        """Stream offset behind the frame."""
        return self._frame.offset + self._frame.size

    def swallow(self) -> bool:
        """Let buffered bytes of the frame pass; true when its end was reached."""
        stream, frame = self._stream, self._frame
        stream.position = min(stream.end, self.end)
        last = stream.mark_of(stream.position - 1)
        frame.last_ts_ns, frame.last_packet = last.ts_ns, last.packet
        frame.release = max(frame.release, last.release)
        return stream.position == self.end

    def lose(self, gap: Gap) -> None:
        """Note lost bytes inside the frame; the stream goes on behind them (or at the frame's end)."""
        start = self._frame.offset
        stop = min(gap.offset + gap.length, self.end) if gap.known else gap.offset
        self._holes.append((gap.offset - start, stop - start))
        self._stream.jump(stop)

    def take(self, now: int) -> Frame:
        """The frame; framing goes on behind what was seen of it."""
        stream, frame = self._stream, self._frame
        frame.holes = tuple(self._holes)
        lost = sum(stop - start for start, stop in frame.holes)
        frame.unread = stream.position - frame.offset - len(frame.data) - lost
        frame.release = max(frame.release, now)
        stream.mode = Mode.STEP
        stream.wants = 0
        return frame
