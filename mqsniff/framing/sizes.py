"""Finds the size of the frame at the start of the buffered bytes, on a side that is in step.

1. ``frame_size`` gets ``head_usual`` bytes first, and ``head_max`` bytes if these were too few.
2. A frame without a size in its head is walked, ``WALK_WINDOW`` bytes at a time, and never beyond ``frame_max``.
3. Where more bytes are needed, the next attempt comes with the next chunk.
"""

from __future__ import annotations

from typing import Final, Protocol

from mqsniff.dissector import NEED, NO_FRAME, IncrementalSize, Sized, WalkAborted, Walked
from mqsniff.framing.streambuffer import StreamBuffer
from mqsniff.model import Side

WALK_WINDOW: Final = 64 * 1024
"""Bytes that ``walk`` gets at once."""


class Sizer(Protocol):
    """The methods of a framed dissector that are used here."""

    @property
    def head_max(self) -> int:
        """``frame_size`` never needs more bytes."""
        ...

    @property
    def head_usual(self) -> int:
        """Bytes that ``frame_size`` gets first."""
        ...

    def frame_size(self, side: Side, head: bytes, /) -> Sized:
        """Size of the frame that starts here in step."""
        ...

    def walk(self, side: Side, walk: IncrementalSize, data: bytes, /) -> Walked:
        """Go on where ``frame_size`` gave an IncrementalSize."""
        ...


def size_of(sizer: Sizer, stream: StreamBuffer, frame_max: int) -> Sized:
    """Size of the frame at ``position``, or why it is not known. Hot: once a frame."""
    answer: Sized = stream.walked or _head_size(sizer, stream)
    while isinstance(answer, IncrementalSize):
        stream.walked = walk = answer
        if walk.size > frame_max:
            return walk.promised
        ahead = stream.head(WALK_WINDOW, walk.size)
        walked = sizer.walk(stream.side, walk, ahead) if ahead else NEED
        if isinstance(walked, WalkAborted):
            stream.size_seen_at = stream.position + walk.size + walked.needed - 1
            return walk.promised
        answer = walked
    return answer


def first_head_size(sizer: Sizer) -> int:
    """Number of bytes that ``frame_size`` gets first."""
    return min(sizer.head_usual, sizer.head_max)


def cut_size(sizer: Sizer, stream: StreamBuffer, frame_max: int) -> int | None:
    """Size of a frame of which no more bytes come; None if unknown."""
    size = size_of(sizer, stream, frame_max)
    if size is NEED and stream.walked is not None:
        return max(stream.walked.promised, stream.walked.size, stream.available)
    return size if isinstance(size, int) and size > 0 else None


def _head_size(sizer: Sizer, stream: StreamBuffer) -> Sized:
    stream.size_seen_at = -1
    head = stream.head(first_head_size(sizer))
    size, stream.answer = stream.answer, None
    if size is None:
        size = sizer.frame_size(stream.side, head)
    if size is NEED and sizer.head_usual <= len(head) < sizer.head_max:
        head = stream.head(sizer.head_max)
        size = sizer.frame_size(stream.side, head)
    return NO_FRAME if size is NEED and len(head) >= sizer.head_max else size
