"""Chunks of the Snappy framing format, one at a time: the bytes of a chunk in; its size, plain size or plain bytes out.

Source: google/snappy ``framing_format.txt`` (chunks) and ``format_description.txt`` (the block inside a chunk).

1. A chunk is a header of four bytes (type, length) and, for data, a masked CRC-32C and at most 65,536 plain bytes,
   compressed (0x00) or not (0x01).
2. Lengths beyond those of the format are refused, so no chunk of data is larger than ``CHUNK_MAX``.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import cramjam
from crc32c import crc32c

from mqsniff.limits import KIB
from mqsniff.model import ProblemKind

IDENTIFIER: Final = b"\xff\x06\x00\x00sNaPpY"
HEAD: Final = 4
CHECKSUM: Final = 4
PLAIN_MAX: Final = 64 * KIB
"""Plain bytes of one chunk (framing format, section 4.2)."""
BLOCK_MAX: Final = 32 + PLAIN_MAX + PLAIN_MAX // 6
"""Their maximum size when compressed."""
CHUNK_MAX: Final = HEAD + CHECKSUM + BLOCK_MAX

COMPRESSED: Final = 0x00
UNCOMPRESSED: Final = 0x01
IDENTIFIES: Final = 0xFF
SKIPPABLE: Final = range(0x80, 0xFF)
"""Padding (0xfe) and the types that a reader may skip; 0x02 to 0x7f it may not."""
LENGTHS: Final = {
    COMPRESSED: range(CHECKSUM + 1, CHECKSUM + BLOCK_MAX + 1),
    UNCOMPRESSED: range(CHECKSUM, CHECKSUM + PLAIN_MAX + 1),
    IDENTIFIES: range(6, 7),
    **dict.fromkeys(SKIPPABLE, range(1 << 24)),
}
"""The valid lengths for each type."""


class Unreadable(NamedTuple):
    """Why something cannot be read."""

    kind: ProblemKind
    why: str


def chunk_size(data: bytes | bytearray) -> int | None:
    """Size of the chunk that begins here, with its header; None: more bytes are needed, 0: no valid header."""
    if len(data) < HEAD:
        return None
    length = int.from_bytes(data[1:HEAD], "little")
    return HEAD + length if length in LENGTHS.get(data[0], ()) else 0


def plain_size(chunk: bytes | bytearray) -> int | None:
    """Number of plain bytes of a chunk, by its beginning; None if it does not tell, or an impossible number."""
    size = chunk_size(chunk)
    if not size:
        return None
    if chunk[0] == UNCOMPRESSED:
        return size - HEAD - CHECKSUM
    return _block_head(chunk)[0] if chunk[0] == COMPRESSED else 0


def _block_head(chunk: bytes | bytearray) -> tuple[int | None, int]:
    """(the plain size at the start of a compressed block, a varint; the index after it)."""
    value = 0
    for index in range(HEAD + CHECKSUM, min(HEAD + CHECKSUM + 3, len(chunk))):
        value |= (chunk[index] & 0x7F) << 7 * (index - HEAD - CHECKSUM)
        if chunk[index] < 0x80:
            return (value if value <= PLAIN_MAX else None), index + 1
    return None, 0


def may_be_chunk(data: bytes | bytearray, size: int) -> bool:
    """Whether a candidate of ``size`` bytes is plausible enough to compute its checksum.

    ``data`` is its beginning. A compressed block begins with a valid plain size, then with a literal.
    """
    if data[0] != COMPRESSED:
        return True
    plain, first = _block_head(data)
    if not plain or first >= len(data):
        return False
    return size - HEAD - CHECKSUM <= 32 + plain + plain // 6 and data[first] & 3 == 0


def read_chunk(chunk: bytes) -> bytes | Unreadable:
    """The plain bytes of a complete chunk, whose type is not skippable."""
    if chunk[0] == IDENTIFIES:
        return b"" if chunk == IDENTIFIER else Unreadable("codec", "a damaged Snappy identifier")
    plain = chunk[HEAD + CHECKSUM :]
    if chunk[0] == COMPRESSED:
        if _block_head(chunk)[0] is None:
            return Unreadable("codec", "a Snappy chunk of more than 65,536 plain bytes")
        try:
            plain = bytes(cramjam.snappy.decompress_raw(plain))
        except cramjam.DecompressionError:
            return Unreadable("codec", "a Snappy block that does not decompress")
    crc = crc32c(plain)
    masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
    if masked != int.from_bytes(chunk[HEAD : HEAD + CHECKSUM], "little"):
        return Unreadable("checksum", "a Snappy chunk whose checksum is wrong")
    return plain
