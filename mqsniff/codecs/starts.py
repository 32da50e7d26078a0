"""Incomplete Snappy and LZ4 blocks in, the plain bytes up to the cut out; the libraries decode complete blocks only.

1. Simple and slow, for the last block before a cut: at most ``START_MAX`` compressed bytes are read.
2. Never raises: damage ends the plain bytes. The result is never larger than the cap.

Sources: Snappy, ``format_description.txt``; LZ4, ``lz4_Block_format.md`` and ``lz4_Frame_format.md``.
"""

from __future__ import annotations

from typing import Final

from mqsniff.limits import MIB

START_MAX: Final = MIB
"""Compressed bytes of a cut block that are read: two may cost a microsecond."""

_LZ4_HEAD: Final = 7
"""Magic, flags, block descriptor and header checksum."""
_LZ4_LITERAL_BLOCK: Final = 1 << 31
_LZ4_REACH: Final = 1 << 16
"""How far back a copy may refer."""


def snappy_start(data: bytes, cap: int) -> tuple[bytes, bool]:
    """(plain bytes of a raw block, whether it was cut, not damaged)."""
    data = data[:START_MAX]
    pos = next((index for index, byte in enumerate(data[:5]) if byte < 0x80), len(data)) + 1
    out = bytearray()
    end = len(data)
    while pos < end and len(out) < cap:
        tag = data[pos]
        pos += 1
        if tag & 3 == 0:
            size, pos = _snappy_literal(data, pos, tag >> 2)
            out += data[pos : pos + size]
            pos += size
            continue
        width = (1, 2, 4)[(tag & 3) - 1]
        if pos + width > end:
            break
        far = int.from_bytes(data[pos : pos + width], "little")
        size = (tag >> 2) + 1
        if width == 1:
            far |= tag >> 5 << 8
            size = (tag >> 2 & 7) + 4
        pos += width
        if not _copy(out, far, min(size, cap - len(out))):
            return bytes(out), False
    return bytes(out[:cap]), True


def _snappy_literal(data: bytes, pos: int, size: int) -> tuple[int, int]:
    """(size of a literal, where it starts)."""
    if size < 60:
        return size + 1, pos
    width = size - 59
    return int.from_bytes(data[pos : pos + width], "little") + 1, pos + width


def lz4_start(frame: bytes, plain: bytes, cap: int) -> bytes:
    """The plain bytes of the last block of a cut frame; ``plain`` are those of its complete blocks."""
    pos, checksum = _lz4_blocks(frame)
    while pos + 4 <= len(frame):
        size = int.from_bytes(frame[pos : pos + 4], "little")
        if size == 0:
            break  # the end of the frame; of later frames only complete blocks are used
        start = pos + 4
        pos = start + (size & _LZ4_LITERAL_BLOCK - 1) + checksum
        if pos > len(frame):
            if size & _LZ4_LITERAL_BLOCK:
                return b""  # the library has returned these bytes already
            return _lz4_block_start(frame[start : start + START_MAX], plain[-_LZ4_REACH:], cap)
    return b""


def _lz4_blocks(frame: bytes) -> tuple[int, int]:
    """(where the first block starts, size of the checksum after each block)."""
    flags = frame[4] if len(frame) > _LZ4_HEAD else 0
    return _LZ4_HEAD + (8 if flags & 0x08 else 0) + (4 if flags & 0x01 else 0), 4 if flags & 0x10 else 0


def _lz4_block_start(data: bytes, history: bytes, cap: int) -> bytes:
    out = bytearray(history)
    full = len(history) + cap
    pos, end = 0, len(data)
    while pos < end and len(out) < full:
        token = data[pos]
        size, pos = _lz4_length(data, pos + 1, token >> 4)
        out += data[pos : pos + min(size, full - len(out))]
        pos += size
        if pos + 2 > end:
            break
        far = int.from_bytes(data[pos : pos + 2], "little")
        size, pos = _lz4_length(data, pos + 2, token & 0x0F)
        if not _copy(out, far, min(size + 4, full - len(out))):
            break
    return bytes(out[len(history) : full])


def _lz4_length(data: bytes, pos: int, size: int) -> tuple[int, int]:
    """(a length, the index after it); if its four bits are all set, more bytes follow."""
    if size == 0x0F:
        while pos < len(data):
            size += data[pos]
            pos += 1
            if data[pos - 1] != 0xFF:
                break
    return size, pos


def _copy(out: bytearray, far: int, size: int) -> bool:
    """Append ``size`` bytes from ``far`` bytes before the end, which may overlap; False if that is impossible."""
    if not 0 < far <= len(out):
        return False
    start = len(out) - far
    if far >= size:
        out += out[start : start + size]
    else:
        out += (out[start:] * (size // far + 1))[:size]
    return True
