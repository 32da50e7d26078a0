"""Plain bytes of one capture in; a window that slides over them, in one buffer that is used again, out.

1. A file fills the window. A pipe gives what has arrived: it is waited for only while there is nothing at all, and then
   for ``LINGER_S`` more, so that a fast writer makes full windows and a slow one is seen at once.
2. What was not used is carried to the front. The buffer begins small and grows while it is filled to the brim, so that
   a small capture costs little; for one packet larger than itself it grows too, and shrinks again.
"""

from __future__ import annotations

from time import monotonic
from typing import Final

from mqsniff.codecs.files import ByteSource
from mqsniff.limits import KIB

LINGER_S: Final = 0.05
FIRST_SIZE: Final = 256 * KIB
GROWTH: Final = 4


class ReadWindow:
    """``buffer[start:stop]`` are the bytes from ``offset`` of the capture on.

    ``start`` may be set beyond ``stop``: the bytes between are passed over by the next ``fill``.
    """

    def __init__(self, source: ByteSource, size_max: int, offset: int = 0) -> None:
        self._size = min(size_max, FIRST_SIZE)
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
        """Bytes in the window; negative while some are to be passed over."""
        return self.stop - self.start

    def head(self, size: int) -> bytes:
        """The next bytes, at most ``size``."""
        return bytes(self.buffer[self.start : min(self.start + size, self.stop)])

    def fill(self, need: int) -> None:
        """Read more, into a buffer that can hold ``need`` bytes from ``start`` on; sets ``ended`` at the end."""
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
        """Carry what is left to the front of a buffer of the right size."""
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
        """The first ``size`` bytes of the buffer are not needed any more."""
        self._base += size
        self.start -= size
        self.stop -= size
