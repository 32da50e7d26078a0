"""One input in, whatever its compression and format; its PacketBatches out, window by window.

1. An input that is no capture has no packets, and ``info.unreadable`` says why; a capture that is cut or damaged gives
   the packets before that offset, and a problem.
2. Batches are not empty, and each is valid until the next is read.
3. A ``Stretch`` (a part of a capture) gives the same packets as these bytes in the whole capture.
4. A file fills the window, a buffer that is reused. A pipe gives the bytes that have arrived: the reader waits while
   there are none, and then ``LINGER_S`` more, so that a fast writer fills windows and the packets of a slow one are
   shown at once.
5. Unused bytes move to the front of the buffer. It begins small and grows when it is filled, so that a small capture
   costs little. It also grows for a packet larger than itself, and shrinks again.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Final, NamedTuple

from mqsniff.codecs.files import ByteSource, RawBytes, open_bytes
from mqsniff.limits import KIB, MIB, Limits
from mqsniff.model import CaptureInfo, PacketBatch
from mqsniff.sources.batches import report
from mqsniff.sources.heads import HEAD_MIN, HEAD_SIZE, parser_for
from mqsniff.sources.parsers import Parser

# ---- the window over the bytes

LINGER_S: Final = 0.05
FIRST_SIZE: Final = 256 * KIB
GROWTH: Final = 4


class ReadWindow:
    """``buffer[start:stop]`` are the bytes from ``offset`` of the capture on.

    ``start`` may be set beyond ``stop``: the next ``fill`` skips the bytes between.
    """

    def __init__(self, source: ByteSource, size_max: int, offset: int = 0, first: int = FIRST_SIZE) -> None:
        self._size = min(size_max, first)
        self._size_max = size_max
        self.buffer = bytearray(self._size)
        self.start = 0
        self.stop = 0
        self.ended = False
        self._source = source
        self._base = offset  # of buffer[0]

    @property
    def offset(self) -> int:
        """Offset in the capture of the byte at ``start``."""
        return self._base + self.start

    @property
    def left(self) -> int:
        """Bytes in the window; negative if bytes have to be skipped."""
        return self.stop - self.start

    def head(self, size: int) -> bytes:
        """The next bytes, at most ``size``."""
        return bytes(self.buffer[self.start : min(self.start + size, self.stop)])

    def fill(self, need: int) -> None:
        """Read more, into a buffer with room for ``need`` bytes from ``start`` on; sets ``ended`` at the end."""
        self._make_room(need)
        timeout_s: float | None = None
        deadline = 0.0
        with memoryview(self.buffer) as view:
            while True:
                if self.stop == len(view):
                    if self.left > 0:
                        return
                    self._forget(self.stop)
                taken = self._source.readinto(view[self.stop :], timeout_s)
                if not taken:
                    self.ended = taken == 0
                    return
                self.stop += taken
                if self.left > 0:
                    deadline = deadline or monotonic() + LINGER_S
                    timeout_s = max(deadline - monotonic(), 0.0)

    def _make_room(self, need: int) -> None:
        """Move unused bytes to the front of a buffer of the right size."""
        if self.stop >= self._size:
            self._size = min(self._size * GROWTH, self._size_max)
        kept = self.buffer[self.start : self.stop]
        size = max(self._size, need, len(kept))
        if size != len(self.buffer):
            self.buffer = bytearray(size)
        if self.start:
            self._forget(min(self.start, self.stop))
        self.buffer[: len(kept)] = kept

    def _forget(self, size: int) -> None:
        """Drop the first ``size`` bytes of the buffer."""
        self._base += size
        self.start -= size
        self.stop -= size


# ---- capture


class Stretch(NamedTuple):
    """A part of a capture that is not compressed."""

    offset: int = 0
    parser: Parser | None = None
    """A parser that ``resume`` has set to ``offset``; None at the start of the capture."""
    is_last: bool = True
    """Whether the end of the bytes is the end of the capture."""


COMPRESSED_WINDOW: Final = 2 * MIB
"""Largest window of a compressed capture: ``capture_rows_free`` is looked at after each."""


class CaptureReader:
    """Reads one open capture; the constructor waits for the first bytes.

    ``raw`` gives the bytes of the ``stretch``; ``on_read`` is called with the number of bytes of each read.
    """

    def __init__(
        self,
        raw: RawBytes,
        info: CaptureInfo,
        limits: Limits,
        window: int,
        on_read: Callable[[int], None] = lambda _size: None,
        *,
        stretch: Stretch | None = None,
    ) -> None:
        self._raw = raw
        self._info = info
        self._on_read = on_read
        self._told = 0
        stretch = stretch or Stretch()
        self._is_last = stretch.is_last
        self._source = raw if stretch.parser else open_bytes(raw, limits)
        if self._source.compression:
            self._window = ReadWindow(self._source, min(window, COMPRESSED_WINDOW), stretch.offset)
        else:
            first = FIRST_SIZE if raw.size is None else min(FIRST_SIZE, raw.size + 1)  # one more, to see the end
            self._window = ReadWindow(self._source, window, stretch.offset, first)
        self._need = HEAD_MIN
        self._ended = False
        self.over = False
        info.compression = self._source.compression
        while self._window.left < HEAD_MIN and not self._window.ended:
            self._fill()
        self.parser = stretch.parser or parser_for(self._window.head(HEAD_SIZE), info, limits)
        if not self.parser:
            self.over = True
            self._explain()

    @property
    def offset(self) -> int:
        """Offset in the capture of the first unused byte."""
        return self._window.offset

    @property
    def has_all(self) -> bool:
        """Whether all bytes were read: what is left of them is in the window."""
        return self._window.ended

    def next_batch(self) -> PacketBatch | None:
        """The next packets; None at the end.

        At the end ``over`` tells whether nothing can be read from ``offset`` on.
        """
        window = self._window
        while self.parser and not self.over and not self._ended:
            if window.left >= self._need:
                parsed = self.parser.parse(window.buffer, window.start, window.stop, window.offset)
                window.start = parsed.position
                self._need = parsed.need
                self.over = parsed.over
                if parsed.batch:
                    return parsed.batch
            elif not window.ended:
                self._fill()
            else:
                self._end(self.parser)
        return None

    def _end(self, parser: Parser) -> None:
        self._ended = True
        if self._is_last:
            parser.finish(self._window.left, self._window.offset)
            self._explain()

    def close(self) -> None:
        """Close the file."""
        self._raw.close()

    def _fill(self) -> None:
        self._window.fill(self._need)
        self._info.taken = self._raw.taken
        self._on_read(self._raw.taken - self._told)
        self._told = self._raw.taken

    def _explain(self) -> None:
        """Report why the bytes ended too early, if they did."""
        if not self._source.failure:
            return
        if self._info.unreadable:
            self._info.unreadable = self._source.failure
        else:
            end = self._window.offset + self._window.left
            report(self._info, self._source.failure, end, kind="limit" if self._source.limited else "input")
