"""Sizes of frames that begin with a number of the bytes after it, as most binary protocols have them."""

from __future__ import annotations

from struct import Struct
from typing import Final

from mqsniff.dissector import NEED, NO_FRAME, Probed

_FORMS: Final = {1: Struct(">B"), 2: Struct(">H"), 4: Struct(">I"), 8: Struct(">Q")}
"""By the bytes of the length; others are read without a Struct, at twice the cost."""


class LengthPrefix:
    """A big-endian length at a fixed place of each frame; ``size`` is what ``probe`` or ``frame_size`` can return.

    A length below ``least`` or above ``most`` opens no frame. Choose ``most`` as low as the protocol allows: each bit
    that it rules out makes detection surer, and a lie about the length is noticed before anything is buffered.
    """

    __slots__ = ("_form", "at", "least", "most", "stop", "uncounted", "width")

    def __init__(self, width: int, least: int, most: int, at: int = 0, uncounted: int = -1) -> None:
        self.width = width
        """Bytes of the length: 1 to 8."""
        self.least = least
        self.most = most
        self.at = at
        """Offset of the length in the frame."""
        self.stop = at + width
        """Offset of the first byte after the length."""
        self.uncounted = self.stop if uncounted < 0 else uncounted
        """Bytes of the frame that the length does not count: those before ``stop``, unless said otherwise."""
        self._form = _FORMS.get(width)

    def size(self, head: bytes) -> Probed:
        """Size of the frame that starts with ``head``, all of its bytes counted. Hot: once a frame.

        NEED as long as the bytes of ``head`` can still be a frame, NO_FRAME once they cannot.
        """
        if len(head) < self.stop:
            return self._size_of_part(head)
        form = self._form
        length: int
        if form is not None:
            (length,) = form.unpack_from(head, self.at)
        else:
            length = int.from_bytes(head[self.at : self.stop], "big")
        return length + self.uncounted if self.least <= length <= self.most else NO_FRAME

    def _size_of_part(self, head: bytes) -> Probed:
        """The answer where bytes of the length are missing: they may all be zero."""
        smallest = int.from_bytes(head[self.at :], "big") << 8 * min(self.stop - len(head), self.width)
        return NO_FRAME if smallest > self.most else NEED
