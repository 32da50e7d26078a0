"""Sizes of frames that begin with a number of the bytes behind it, as most binary protocols have them."""

from __future__ import annotations

from typing import NamedTuple

from mqsniff.dissector import NEED, NO_FRAME, Probed


class LengthPrefix(NamedTuple):
    """A big-endian length at a fixed place of each frame; ``size`` is what ``probe`` or ``frame_size`` can return.

    A length below ``least`` or above ``most`` opens no frame. Choose ``most`` as low as the protocol allows: each bit
    that it rules out makes detection surer, and a lie about the length is noticed before anything is buffered.
    """

    width: int
    """Bytes of the length: 1 to 8."""
    least: int
    most: int
    at: int = 0
    """Offset of the length in the frame."""
    uncounted: int = -1
    """Bytes of the frame that the length does not count; -1: those before it and its own, ``at + width``."""

    def size(self, head: bytes) -> Probed:
        """Size of the frame that starts with ``head``, all of its bytes counted.

        NEED as long as the bytes of ``head`` can still be a frame, NO_FRAME once they cannot.
        """
        at, stop = self.at, self.at + self.width
        missing = stop - len(head)
        length = int.from_bytes(head[at:stop], "big")
        if missing > 0:
            smallest = length << 8 * min(missing, self.width)
            return NO_FRAME if smallest > self.most else NEED
        if not self.least <= length <= self.most:
            return NO_FRAME
        return length + (stop if self.uncounted < 0 else self.uncounted)
