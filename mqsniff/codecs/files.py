"""A capture file, pipe or standard input in, compressed or not; its plain bytes out, as they arrive.

1. Bytes are passed on as they arrive: more input is read only if there is no plain byte to return.
2. Plain bytes are made in pieces of at most ``PIECE``, so that a bomb takes one piece of memory, and damage loses one
   piece of good bytes at most.
3. Several members, frames or streams in one file are one stream; zero bytes between and after them are padding.
4. Opening raises OSError as ``open`` does. After that nothing raises: a cut, damage or read error ends the bytes, and
   ``failure`` says why.
"""

from __future__ import annotations

import io
import os
import select
import stat
import zlib
from collections.abc import Callable
from importlib import import_module
from typing import Final, NamedTuple, Protocol

from mqsniff.limits import KIB, Limits

STDIN: Final = "-"
PIECE: Final = 64 * KIB
ZSTD_SLICE: Final = 256
"""zstandard cannot limit its output: this much input becomes 8 MiB at most (a block of 128 KiB takes four bytes)."""
MAGIC_SIZE: Final = 6


class ByteSource(Protocol):
    """Plain bytes, in order."""

    compression: str
    """Name of the codec, '' for none."""
    failure: str
    """Why the bytes ended too early; '' while they continue, and after a clean end."""

    def readinto(self, view: memoryview, timeout_s: float | None = None) -> int | None:
        """Write the next bytes to the start of ``view`` (which is not empty); returns their number, 0 at the end.

        Without ``timeout_s`` it waits for a byte; with it, None means that none came in that time.
        """
        ...


class RawBytes(ByteSource, Protocol):
    """The bytes of a file, or of a part of it, still compressed."""

    size: int | None
    """Total number of bytes; None if unknown."""
    taken: int
    """Number of bytes read so far."""

    def head(self, size: int) -> bytes:
        """The first bytes, fewer than ``size`` only if there are fewer; they are read again later."""
        ...

    def read(self, size: int, timeout_s: float | None = None) -> bytes | None:
        """The next bytes, at most ``size``; else as ``readinto``."""
        ...

    def close(self) -> None:
        """Close the file."""
        ...


class RawFile:
    """The bytes of a file: ``taken`` so far, of ``size`` in total (None for pipes and devices)."""

    compression = ""

    def __init__(self, name: str) -> None:
        self._file = io.FileIO(0 if name == STDIN else name, closefd=name != STDIN)
        status = os.fstat(self._file.fileno())
        self.size = status.st_size if stat.S_ISREG(status.st_mode) else None
        self.taken = 0
        self.failure = ""
        self._head = b""

    def head(self, size: int) -> bytes:
        """The first bytes, fewer than ``size`` only if the file has fewer; they are read again later."""
        head = self.read(size) or b""
        while 0 < len(head) < size and (more := self.read(size - len(head))):
            head += more
        self._head = head
        return head

    def read(self, size: int, timeout_s: float | None = None) -> bytes | None:
        """The next bytes, at most ``size``; else as ``readinto``."""
        buffer = bytearray(size)
        taken = self.readinto(memoryview(buffer), timeout_s)
        return None if taken is None else bytes(memoryview(buffer)[:taken])

    def readinto(self, view: memoryview, timeout_s: float | None = None) -> int | None:
        """See ByteSource."""
        if self._head:
            taken = min(len(view), len(self._head))
            view[:taken] = self._head[:taken]
            self._head = self._head[taken:]
            return taken
        if not self._has_more(timeout_s):
            return None
        return self._read_file(view)

    def close(self) -> None:
        """Close the file; standard input stays open."""
        self._file.close()

    def _read_file(self, view: memoryview) -> int:
        try:
            while (taken := self._file.readinto(view)) is None:
                self._has_more(1.0)  # a pipe in non-blocking mode
        except OSError as error:
            self.failure = f"reading failed: {error.strerror}"
            return 0
        self.taken += taken
        return taken

    def _has_more(self, timeout_s: float | None) -> bool:
        """Whether a read would return at once, also at the end."""
        if timeout_s is None or self.size is not None:
            return True
        if not hasattr(select, "poll"):
            return False
        poll = select.poll()
        poll.register(self._file.fileno(), select.POLLIN)
        return bool(poll.poll(timeout_s * 1000))


class _Decoder(Protocol):
    """The decoder interface of bz2, lzma and lz4, for one stream."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes | None: ...
    def decompress(self, data: bytes, max_length: int) -> bytes: ...


class _GzipDecoder:
    """One gzip member by zlib, as a _Decoder."""

    def __init__(self) -> None:
        self._inflate = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
        self.needs_input = True

    @property
    def eof(self) -> bool:
        return self._inflate.eof

    @property
    def unused_data(self) -> bytes:
        return self._inflate.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        plain = self._inflate.decompress(self._inflate.unconsumed_tail + data, max_length)
        self.needs_input = len(plain) < max_length
        return plain


class _ZstdDecoder:
    """One zstd frame as a _Decoder; input is fed in slices, because the library cannot limit its output."""

    def __init__(self, limits: Limits) -> None:
        library = import_module("zstandard")
        self._frame = library.ZstdDecompressor(max_window_size=max(limits.codec_memory, KIB)).decompressobj()
        self._input = memoryview(b"")
        self._plain = memoryview(b"")

    @property
    def needs_input(self) -> bool:
        return not self._plain and not self._input

    @property
    def eof(self) -> bool:
        return bool(self._frame.eof) and not self._plain

    @property
    def unused_data(self) -> bytes:
        return bytes(self._frame.unused_data) + bytes(self._input)

    def decompress(self, data: bytes, max_length: int) -> bytes:
        if data:
            self._input = memoryview(bytes(self._input) + data)
        while not self._plain and self._input and not self._frame.eof:
            part, self._input = self._input[:ZSTD_SLICE], self._input[ZSTD_SLICE:]
            self._plain = memoryview(self._frame.decompress(part))
        plain, self._plain = self._plain[:max_length], self._plain[max_length:]
        return bytes(plain)


def _lz4(_limits: Limits) -> _Decoder:
    decoder: _Decoder = import_module("lz4.frame").LZ4FrameDecompressor()
    return decoder


def _xz(limits: Limits) -> _Decoder:
    lzma = import_module("lzma")
    decoder: _Decoder = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=limits.codec_memory)
    return decoder


def _bzip2(_limits: Limits) -> _Decoder:
    decoder: _Decoder = import_module("bz2").BZ2Decompressor()
    return decoder


class Codec(NamedTuple):
    """A file compression: its name, how its files begin, and the decoder of one stream."""

    name: str
    magic: bytes
    start: Callable[[Limits], _Decoder]


CODECS: Final = (
    Codec("gzip", b"\x1f\x8b\x08", lambda _: _GzipDecoder()),
    Codec("zstd", b"\x28\xb5\x2f\xfd", _ZstdDecoder),
    Codec("lz4", b"\x04\x22\x4d\x18", _lz4),
    Codec("xz", b"\xfd7zXZ\x00", _xz),
    Codec("bzip2", b"BZh", _bzip2),
)
SKIPPABLE_FRAME: Final = b"\x2a\x4d\x18"
"""After a byte of 0x50 to 0x5f: a frame that zstd and lz4 skip; zstd's parallel writers put one first."""


def codec_of(head: bytes) -> Codec | None:
    """The codec of a file with these first bytes (``MAGIC_SIZE`` of them)."""
    if head[1:4] == SKIPPABLE_FRAME and head[0] >> 4 == 5:
        return next(codec for codec in CODECS if codec.name == "zstd")
    return next((codec for codec in CODECS if head.startswith(codec.magic)), None)


class DecodedFile:
    """The plain bytes of a compressed file."""

    def __init__(self, raw: RawBytes, codec: Codec, limits: Limits) -> None:
        self.compression = codec.name
        self.failure = ""
        self._raw = raw
        self._codec = codec
        self._limits = limits
        self._decoder = codec.start(limits)
        self._input = b""  # read, but not decoded yet
        self._begun = False  # whether the decoder got any input
        self._streams = 0  # complete streams before this one
        self._ended = False

    def readinto(self, view: memoryview, timeout_s: float | None = None) -> int | None:
        """See ByteSource."""
        while not self._ended:
            if not self._input and self._decoder.needs_input and not self._decoder.eof and not self._read(timeout_s):
                return None
            plain = self._decode(min(len(view), PIECE))
            if plain:
                view[: len(plain)] = plain
                return len(plain)
        return 0

    def _read(self, timeout_s: float | None) -> bool:
        """Read input; False if none came in time."""
        data = self._raw.read(PIECE, timeout_s)
        if data is None:
            return False
        self._input = data
        if not data:
            self._end(f"the {self.compression} data is cut" if self._begun else "")
        return True

    def _decode(self, size: int) -> bytes:
        if self._decoder.eof:
            self._next_stream()
        if self._streams and not self._begun:
            self._input = self._input.lstrip(b"\0")
        if self._ended or not (self._input or self._begun):
            return b""
        data, self._input = self._input, b""
        self._begun = True
        try:
            return self._decoder.decompress(data, size)
        except Exception as error:  # noqa: BLE001 - the border of an input: each codec has its own exceptions
            self._end(self._damage(str(error)))
            return b""

    def _next_stream(self) -> None:
        self._input = (self._decoder.unused_data or b"") + self._input
        self._decoder = self._codec.start(self._limits)
        self._begun = False
        self._streams += 1

    def _damage(self, error: str) -> str:
        if "emory" in error:
            return f"the {self.compression} data needs more memory than codec_memory allows"
        if self._streams:
            return f"bytes after the end of the {self.compression} data, or damage, near byte {self._raw.taken}"
        return f"the {self.compression} data is damaged near byte {self._raw.taken}"

    def _end(self, why: str) -> None:
        self._ended = True
        self.failure = self._raw.failure or why


def open_bytes(raw: RawBytes, limits: Limits) -> ByteSource:
    """The plain bytes of a file, compressed or not; waits for its first bytes."""
    codec = codec_of(raw.head(MAGIC_SIZE))
    return DecodedFile(raw, codec, limits) if codec else raw
