"""One endless raw DEFLATE stream (RFC 1951, no zlib or gzip header) in; its plain bytes out, see transforms.py.

1. Each plain byte may depend on all before it: after a gap or damage, the rest of the direction cannot be decoded.
2. All plain bytes before the damage are delivered, however the input was cut.
3. Damage between a flush and the next plain byte is reported at the flush: the bytes there were never compressed (an
   answer in clear text, a peer that left the layer).
4. A line in clear text right after a flush may look like DEFLATE for a few bytes, which would give garbage. If the
   application is known to end so, ``clear_tail`` is that line: it is held back until more bytes come or the end.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from mqsniff.codecs.transforms import Dark, TransformOutput, pieces
from mqsniff.limits import KIB, Limits

FLUSH: Final = b"\x00\x00\xff\xff"
"""End of a sync flush: length and complement of an empty stored block (RFC 1951 section 3.2.4)."""
BEHIND_END: Final = "bytes after the end of the compressed stream"
SLICE: Final = 16 * KIB
"""Bytes of input between two copies of the decoder's state; at damage, so many are decoded again."""


class Deflate:
    """A transform. ``clear_tail`` is clear text that may follow the last flush at the very end of the stream."""

    def __init__(self, limits: Limits, clear_tail: bytes = b"") -> None:
        self._piece = limits.layer_piece
        self._clear_tail = clear_tail
        self._inflate = zlib.decompressobj(wbits=-zlib.MAX_WBITS)
        self._offset = 0  # of the next byte for the decoder
        self._plain = 0  # bytes that came out of it
        self._recent = b""  # the last bytes that went into it
        self._flush = (0, 0)  # offset and plain bytes after the last flush, or at the start
        self._held = b""
        self._dark = False

    def feed(self, data: bytes) -> Iterator[TransformOutput]:
        """The next captured bytes."""
        if self._dark:
            return
        data = self._held + data
        held = self._clear_tail_of(data)
        self._held = data[len(data) - held :]
        yield from self._run(data[: len(data) - held])

    def gap(self, length: int) -> Iterator[TransformOutput]:
        """After a gap the decoder's history is unknown: the direction ends."""
        yield from self._release()
        if length and not self._dark:
            yield self._end(Dark(self._offset, "undecoded", "bytes of a compressed stream without restarts were lost"))

    def close(self) -> Iterator[TransformOutput]:
        """Report a clear tail at the end of the stream."""
        if self._held == self._clear_tail and self._held:
            yield self._end(Dark(self._offset, "trailing_bytes", "uncompressed bytes after the compressed stream"))
            return
        yield from self._release()

    def _release(self) -> Iterator[TransformOutput]:
        held, self._held = self._held, b""
        yield from self._run(held)

    def _clear_tail_of(self, data: bytes) -> int:
        """Number of last bytes of ``data`` that follow a flush and equal the beginning of the clear tail."""
        for size in range(1, min(len(self._clear_tail), len(data)) + 1):
            if (self._recent + data[-size - len(FLUSH) :]).endswith(FLUSH + self._clear_tail[:size]):
                return size
        return 0

    def _run(self, data: bytes) -> Iterator[TransformOutput]:
        for part in self._slices(data):
            if self._dark:
                return
            if self._inflate.eof:
                yield self._end(Dark(self._offset, "trailing_bytes", BEHIND_END))
                return
            yield from self._inflate_slice(part)

    def _slices(self, data: bytes) -> Iterator[bytes]:
        """``data`` in small parts, each up to its last flush if it has one; each is decoded before the next is read."""
        start = 0
        while start < len(data):
            stop = min(start + SLICE, len(data))
            before = self._recent[1 - len(FLUSH) :]
            flush = (before + data[start:stop]).rfind(FLUSH)
            if flush >= 0:
                stop = start + flush + len(FLUSH) - len(before)
            yield data[start:stop]
            start = stop

    def _inflate_slice(self, part: bytes) -> Iterator[TransformOutput]:
        before = self._inflate.copy()
        given = 0
        try:
            for piece in _inflated(self._inflate, part, self._piece):
                given += len(piece)
                yield piece
        except zlib.error:
            yield from self._creep(before, part, given)
            return
        self._note(part, given)
        if behind := self._inflate.unused_data:
            self._offset -= len(behind)
            yield self._end(Dark(self._offset, "trailing_bytes", BEHIND_END))

    def _creep(self, inflate: zlib._Decompress, part: bytes, given: int) -> Iterator[TransformOutput]:
        """Decode a damaged part again byte by byte, since zlib drops its output at damage.

        ``inflate`` is the state before the part, ``given`` the number of its plain bytes that were delivered already.
        """
        for index in range(len(part)):
            byte = part[index : index + 1]
            before = inflate.copy()
            try:
                plain = b"".join(_inflated(inflate, byte, self._piece))
            except zlib.error:
                plain = _before_damage(before, byte)
                self._plain += len(plain)
                yield from pieces(plain[given:], self._piece)
                offset, made = self._flush
                yield self._end(Dark(offset if made == self._plain else self._offset, "codec", "not DEFLATE data"))
                return
            self._note(byte, len(plain))
            yield from pieces(plain[given:], self._piece)
            given = max(given - len(plain), 0)

    def _note(self, taken: bytes, made: int) -> None:
        self._offset += len(taken)
        self._plain += made
        self._recent = (self._recent + taken[-len(FLUSH) :])[-len(FLUSH) :]
        if self._recent == FLUSH:
            self._flush = self._offset, self._plain

    def _end(self, dark: Dark) -> Dark:
        self._dark = True
        self._held = b""
        return dark


def _inflated(inflate: zlib._Decompress, data: bytes, most: int) -> Iterator[bytes]:
    """Plain pieces of at most ``most`` bytes; zlib.error if the data is damaged."""
    while True:
        piece = inflate.decompress(data, most)
        if piece:
            yield piece
        data = inflate.unconsumed_tail
        if len(piece) < most:
            return


def _before_damage(inflate: zlib._Decompress, byte: bytes) -> bytes:
    """The plain bytes from one byte of input, up to the damaged bit."""
    plain = bytearray()
    with suppress(zlib.error):
        for piece in _inflated(inflate, byte, 1):
            plain += piece
    return bytes(plain)
