"""Primitive readers of generated binary protocols.

1. A reader is ``read_x(data, pos, end) -> (value, next position)`` and reads no byte at or after ``end``, which is at
   most the length of ``data``.
2. Bytes that cannot be read raise Malformed with a short fixed text, without bytes or numbers of the traffic.
3. A length is compared with the bytes left before it is used, so that a false length takes no memory.
4. Integers are big endian. Varints: 7 bits a byte, lowest first; bits above the type's width are dropped.
5. Null is None and never the same as empty.

Sources: Apache Kafka, ``common/protocol/types/Type.java`` and ``common/utils/ByteUtils.java``.
"""

from __future__ import annotations

from binascii import b2a_base64
from functools import lru_cache
from struct import Struct
from typing import Final, NamedTuple

CUT: Final = "bytes end inside a field"

STRING_MAX: Final = 0x7FFF
"""Most bytes of a string: the old length is an int16, and compact strings have the same limit."""

_INT8: Final = Struct(">b")
_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")
_INT64: Final = Struct(">q")
_UINT16: Final = Struct(">H")
_UINT32: Final = Struct(">I")
_FLOAT64: Final = Struct(">d")
_URL_SAFE: Final = bytes.maketrans(b"+/", b"-_")


class Malformed(ValueError):  # noqa: N818  # the name that the design gives it
    """Bytes that do not fit the protocol; the text is short and fixed, without payload."""


class Extent(NamedTuple):
    """Bytes that a reader did not copy: their (start, stop) in ``data``."""

    start: int
    stop: int


# ---- fixed width


def read_bool(data: bytes, pos: int, end: int) -> tuple[bool, int]:
    """Read one byte; any value but 0 is true."""
    if pos >= end:
        raise Malformed(CUT)
    return data[pos] != 0, pos + 1


def read_int8(data: bytes, pos: int, end: int) -> tuple[int, int]:
    """Read signed, 1 byte."""
    if end - pos < 1:
        raise Malformed(CUT)
    return _INT8.unpack_from(data, pos)[0], pos + 1


def read_int16(data: bytes, pos: int, end: int) -> tuple[int, int]:
    """Read signed, 2 bytes."""
    if end - pos < 2:
        raise Malformed(CUT)
    return _INT16.unpack_from(data, pos)[0], pos + 2


def read_int32(data: bytes, pos: int, end: int) -> tuple[int, int]:
    """Read signed, 4 bytes."""
    if end - pos < 4:
        raise Malformed(CUT)
    return _INT32.unpack_from(data, pos)[0], pos + 4


def read_int64(data: bytes, pos: int, end: int) -> tuple[int, int]:
    """Read signed, 8 bytes."""
    if end - pos < 8:
        raise Malformed(CUT)
    return _INT64.unpack_from(data, pos)[0], pos + 8


def read_uint16(data: bytes, pos: int, end: int) -> tuple[int, int]:
    """Read unsigned, 2 bytes."""
    if end - pos < 2:
        raise Malformed(CUT)
    return _UINT16.unpack_from(data, pos)[0], pos + 2


def read_uint32(data: bytes, pos: int, end: int) -> tuple[int, int]:
    """Read unsigned, 4 bytes."""
    if end - pos < 4:
        raise Malformed(CUT)
    return _UINT32.unpack_from(data, pos)[0], pos + 4


def read_float64(data: bytes, pos: int, end: int) -> tuple[float, int]:
    """Read IEEE 754, 8 bytes; also NaN and infinities."""
    if end - pos < 8:
        raise Malformed(CUT)
    return _FLOAT64.unpack_from(data, pos)[0], pos + 8


def _take(pos: int, end: int, size: int) -> int:
    """The position after ``size`` bytes; Malformed if they are not there."""
    stop = pos + size
    if stop > end:
        raise Malformed(CUT)
    return stop


@lru_cache(maxsize=4096)
def uuid_text(raw: bytes) -> str:
    """16 bytes as Kafka prints them: base64url without padding, 22 characters."""
    return b2a_base64(raw, newline=False).translate(_URL_SAFE)[:22].decode()


def read_uuid(data: bytes, pos: int, end: int) -> tuple[str, int]:
    """Read 16 bytes as text."""
    stop = _take(pos, end, 16)
    return uuid_text(data[pos:stop]), stop


# ---- variable width


def _read_varint(data: bytes, pos: int, end: int, size_max: int) -> tuple[int, int]:
    """Read up to ``size_max`` bytes of 7 bits each; Malformed if the last of them has the continuation bit."""
    value = 0
    for shift in range(0, 7 * size_max, 7):
        if pos >= end:
            raise Malformed(CUT)
        byte = data[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, pos
    raise Malformed("varint too long")


def read_uvarint(data: bytes, pos: int, end: int) -> tuple[int, int]:
    """Read unsigned, 32 bits, at most 5 bytes."""
    if pos < end and data[pos] < 0x80:
        return data[pos], pos + 1
    value, pos = _read_varint(data, pos, end, 5)
    return value & 0xFFFFFFFF, pos


def read_varint(data: bytes, pos: int, end: int) -> tuple[int, int]:
    """Read signed by zigzag, 32 bits, at most 5 bytes."""
    value, pos = _read_varint(data, pos, end, 5)
    value &= 0xFFFFFFFF
    return value >> 1 ^ -(value & 1), pos


def read_varlong(data: bytes, pos: int, end: int) -> tuple[int, int]:
    """Read signed by zigzag, 64 bits, at most 10 bytes."""
    value, pos = _read_varint(data, pos, end, 10)
    value &= 0xFFFFFFFFFFFFFFFF
    return value >> 1 ^ -(value & 1), pos


# ---- lengths and counts: -1 is null


def read_length(data: bytes, pos: int, end: int, *, compact: bool, width: int = 4) -> tuple[int, int]:
    """Read a length or a count: signed, of ``width`` bytes, or compact (an unsigned varint of n + 1).

    Negative means null; the specification has -1 only, other negative numbers are left for the caller to note.
    """
    if compact:
        value, pos = read_uvarint(data, pos, end)
        return value - 1, pos
    return (read_int16 if width == 2 else read_int32)(data, pos, end)


def read_presence(data: bytes, pos: int, end: int, *, tagged: bool) -> tuple[int, int]:
    """Read the presence of a nullable struct: 1 if it follows; null is -1 in a byte, or 0 in an unsigned varint."""
    return (read_uvarint if tagged else read_int8)(data, pos, end)


def read_slice(data: bytes, pos: int, end: int, size: int) -> tuple[bytes, int]:
    """Read ``size`` bytes."""
    stop = _take(pos, end, size)
    return data[pos:stop], stop


def text_or_bytes(raw: bytes) -> str | bytes:
    """Text if the bytes are UTF-8, else the bytes."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw


def as_name(value: object) -> str | None:
    """A name for a column of text: bytes that are no UTF-8 become escapes; None if it is neither text nor bytes.

    Bodies keep the bytes. Every value of a text column (topics, groups, clients, columns of records and partitions)
    goes through here, so that outputs and compiled code get text.
    """
    if isinstance(value, str):
        return value
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else None


def read_string(data: bytes, pos: int, end: int, *, compact: bool = False) -> tuple[str | bytes | None, int]:
    """Read text or null; bytes if it is no UTF-8; Malformed above STRING_MAX bytes."""
    size, pos = read_length(data, pos, end, compact=compact, width=2)
    if size < 0:
        return None, pos
    if size > STRING_MAX:
        raise Malformed("string too long")
    raw, pos = read_slice(data, pos, end, size)
    return text_or_bytes(raw), pos


def read_bytes(data: bytes, pos: int, end: int, *, compact: bool = False) -> tuple[bytes | None, int]:
    """Read bytes or null."""
    size, pos = read_length(data, pos, end, compact=compact)
    return (None, pos) if size < 0 else read_slice(data, pos, end, size)


def read_count(
    data: bytes, pos: int, end: int, *, compact: bool = False, claimed: int | None = None
) -> tuple[int, int]:
    """Read the number of elements of an array, negative for null; Malformed if it is more than the bytes left.

    ``claimed``: the end of the bytes before some were lost.
    """
    count, pos = read_length(data, pos, end, compact=compact)
    if count > (end if claimed is None else claimed) - pos:
        raise Malformed("more elements than bytes")
    return count, pos


# ---- tagged fields


def read_tag_count(data: bytes, pos: int, end: int, *, claimed: int | None = None) -> tuple[int, int]:
    """Read the number of tagged fields that follow; each takes at least two bytes."""
    count, pos = read_uvarint(data, pos, end)
    if 2 * count > (end if claimed is None else claimed) - pos:
        raise Malformed("more tagged fields than bytes")
    return count, pos


def read_tag(data: bytes, pos: int, end: int) -> tuple[int, int, int]:
    """Read the head of a tagged field: (tag, start and stop of its bytes)."""
    tag, pos = read_uvarint(data, pos, end)
    size, pos = read_uvarint(data, pos, end)
    return tag, pos, _take(pos, end, size)
