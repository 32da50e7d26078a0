"""One compressed block in, its plain bytes out: bodies and record batches, which are in memory already.

1. A block becomes at most ``cap`` bytes, whatever its header claims: output is made in pieces and counted.
2. Errors are BlockError with a short fixed text, without payload.
3. Concatenated members or frames are one block, as for the command-line tools; a block that is cut is an error, and so
   are bytes after its end.
4. ``decompress_partly`` returns the plain bytes before a cut or damage instead: as many as the library returns; for
   Snappy and LZ4, all before a cut.
5. The libraries are imported when their codec is first used.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from mqsniff.codecs.starts import lz4_start, snappy_start
from mqsniff.limits import KIB, MIB

PIECE: Final = 256 * KIB
"""Plain bytes of one piece."""
ZSTD_SLICE: Final = 512
"""Bytes of zstd input at once: its decoder has no limit of output, and four bytes may become 128 KiB."""
ZSTD_WINDOW_MAX: Final = 128 * MIB
"""Window that a zstd frame may ask for: the default limit of the reference decoder."""
LZ4_RATIO_MAX: Final = 255
SNAPPY_RATIO_MAX: Final = 22
"""No block grows by more (one byte of length adds 255, a copy of 64 takes three), so larger sizes are refused."""


class BlockError(ValueError):
    """The block cannot be decompressed; the text is short and fixed."""


TOO_LARGE: Final = "the plain bytes are more than decompress_max"
CORRUPT: Final = "the compressed bytes are damaged"
CUT: Final = "the compressed bytes end too early"
BEHIND: Final = "bytes after the end of the compressed ones"


def decompress(codec: str, data: bytes, cap: int) -> bytes:
    """The plain bytes of a block; BlockError if they are damaged or more than ``cap``.

    ``codec`` is one of ``CODECS``; KeyError for another. "lz4" is the frame format; "lz4-block" has no plain size in
    it: there ``cap`` is that size.
    """
    return CODECS[codec](data, cap)


class Partial(NamedTuple):
    """The plain bytes of a block up to an error; ``why`` is the error, None if the block is complete."""

    plain: bytes
    why: str | None


def decompress_partly(codec: str, data: bytes, cap: int) -> Partial:
    """The plain bytes of a block up to its damage, its cut or ``cap``; ``codec`` is one of ``CODECS``."""
    plain: list[bytes] = []
    try:
        for piece in PIECES[codec](data, cap):
            plain.append(piece[:cap])
            cap -= len(piece)
            if cap < 0:
                return Partial(b"".join(plain), TOO_LARGE)
    except BlockError as error:
        return _partial(codec, data, b"".join(plain), str(error), cap)
    return Partial(b"".join(plain), None)


def _partial(codec: str, data: bytes, plain: bytes, why: str, cap: int) -> Partial:
    """The plain bytes from a library, and those of the start of a cut block; ``cap`` is the rest of the cap."""
    if codec == "snappy" and why != TOO_LARGE:
        start, cut = snappy_start(data, cap)
        return Partial(start, CUT if cut else CORRUPT)
    if codec == "lz4" and why == CUT:
        return Partial(plain + lz4_start(data, plain, cap), why)
    return Partial(plain, why)


def _joined(pieces: Iterator[bytes], cap: int) -> bytes:
    """Join the pieces of a block; BlockError beyond ``cap`` bytes (rule 1)."""
    plain: list[bytes] = []
    for piece in pieces:
        cap -= len(piece)
        if cap < 0:
            raise BlockError(TOO_LARGE)
        plain.append(piece)
    return b"".join(plain)


def _inflated(data: bytes, wbits: int) -> Iterator[bytes]:
    """One stream of zlib or one member of gzip after the other."""
    while True:
        member = zlib.decompressobj(wbits=wbits)
        while not member.eof:
            try:
                piece = member.decompress(data, PIECE)
            except zlib.error as error:
                raise BlockError(CORRUPT) from error
            data = member.unconsumed_tail
            if not piece and not data and not member.eof:
                raise BlockError(CUT)
            yield piece
        data = member.unused_data
        if not data:
            return
        if wbits == zlib.MAX_WBITS:
            raise BlockError(BEHIND)


def _lz4_frames(data: bytes) -> Iterator[bytes]:
    from lz4.frame import LZ4FrameDecompressor  # noqa: PLC0415  # only where lz4 is met

    while True:
        frame = LZ4FrameDecompressor()
        while not frame.eof:
            try:
                yield frame.decompress(data, max_length=PIECE)
            except RuntimeError as error:
                raise BlockError(CORRUPT) from error
            if frame.needs_input and not frame.eof:
                raise BlockError(CUT)
            data = b""
        data = frame.unused_data or b""
        if not data:
            return


def _zstd_frames(data: bytes) -> Iterator[bytes]:
    import zstandard  # noqa: PLC0415  # only where zstd is met

    decompressor = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW_MAX)
    at = 0
    while True:
        frame = decompressor.decompressobj()
        while not frame.eof:
            if at >= len(data):
                raise BlockError(CUT)
            try:
                yield frame.decompress(data[at : at + ZSTD_SLICE])
            except zstandard.ZstdError as error:
                raise BlockError(CORRUPT) from error
            at = min(at + ZSTD_SLICE, len(data)) - len(frame.unused_data)
        if at == len(data):
            return


def _lz4_block(data: bytes, size: int) -> bytes:
    import lz4.block  # noqa: PLC0415  # only where lz4 is met

    if size > LZ4_RATIO_MAX * len(data):
        raise BlockError(CUT)
    try:
        plain: bytes = lz4.block.decompress(data, uncompressed_size=size)
    except lz4.block.LZ4BlockError as error:
        raise BlockError(CORRUPT) from error
    if len(plain) != size:
        raise BlockError(CUT)
    return plain


def _snappy_block(data: bytes, cap: int) -> bytes:
    """A raw block, which begins with its plain size."""
    import cramjam  # noqa: PLC0415  # only where snappy is met

    size = _snappy_size(data)
    if size > cap:
        raise BlockError(TOO_LARGE)
    if size > SNAPPY_RATIO_MAX * len(data):
        raise BlockError(CUT)
    try:
        return bytes(cramjam.snappy.decompress_raw(data))
    except cramjam.DecompressionError as error:
        raise BlockError(CORRUPT) from error


def _snappy_frames(data: bytes) -> Iterator[bytes]:
    """The chunks of the framing format, whole in memory."""
    from mqsniff.codecs import snappy_chunks as chunks  # noqa: PLC0415  # only where snappy is met

    at = 0
    while at < len(data) or not data:
        size = chunks.chunk_size(data[at : at + chunks.HEAD])
        if size is None or at + size > len(data):
            raise BlockError(CUT)
        plain = b"" if data[at] in chunks.SKIPPABLE else chunks.read_chunk(data[at : at + size]) if size else None
        if not isinstance(plain, bytes):
            raise BlockError(CORRUPT)
        yield plain
        at += size


def _snappy_size(data: bytes) -> int:
    """An unsigned varint of at most 32 bits."""
    size = 0
    for shift, byte in zip(range(0, 35, 7), data, strict=False):
        size |= (byte & 0x7F) << shift
        if byte < 0x80:
            return size
    raise BlockError(CUT)


PIECES: Final[Mapping[str, Callable[[bytes, int], Iterator[bytes]]]] = MappingProxyType(
    {
        "zlib": lambda data, _: _inflated(data, zlib.MAX_WBITS),
        "gzip": lambda data, _: _inflated(data, 16 + zlib.MAX_WBITS),
        "lz4": lambda data, _: _lz4_frames(data),
        "lz4-block": lambda data, size: iter((_lz4_block(data, size),)),
        "zstd": lambda data, _: _zstd_frames(data),
        "snappy": lambda data, cap: iter((_snappy_block(data, cap),)),
        "snappy-frames": lambda data, _: _snappy_frames(data),
    }
)
"""Name -> a function that decompresses a block in pieces; the caller counts them."""

CODECS: Final[Mapping[str, Callable[[bytes, int], bytes]]] = MappingProxyType(
    {
        "zlib": lambda data, cap: _joined(_inflated(data, zlib.MAX_WBITS), cap),
        "gzip": lambda data, cap: _joined(_inflated(data, 16 + zlib.MAX_WBITS), cap),
        "lz4": lambda data, cap: _joined(_lz4_frames(data), cap),
        "lz4-block": _lz4_block,
        "zstd": lambda data, cap: _joined(_zstd_frames(data), cap),
        "snappy": _snappy_block,
        "snappy-frames": lambda data, cap: _joined(_snappy_frames(data), cap),
    }
)
"""Name -> a function that decompresses a block within a cap."""
