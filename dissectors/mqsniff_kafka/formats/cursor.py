"""A cursor with readers, for formats that no generator made.

1. Reading past the end raises Malformed, and so does a count for which too few bytes are left: it buys no memory.
2. Numbers are big endian; strings have an int16 length, bytes and arrays an int32 length; negative means null.

Sources: Apache Kafka, ``protocol/types/Type.java``; Java, ``DataInput`` for modified UTF-8.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from mqsniff.spec import wire
from mqsniff.spec.wire import Malformed, text_or_bytes

_T = TypeVar("_T")


class Cursor:
    """A position in bytes, and readers that advance it."""

    __slots__ = ("data", "end", "pos")

    def __init__(self, data: bytes, pos: int = 0) -> None:
        self.data = data
        self.pos = pos
        self.end = len(data)

    @property
    def left(self) -> int:
        """Number of unread bytes."""
        return self.end - self.pos

    def int8(self) -> int:
        """Signed, 1 byte."""
        value, self.pos = wire.read_int8(self.data, self.pos, self.end)
        return value

    def int16(self) -> int:
        """Signed, 2 bytes."""
        value, self.pos = wire.read_int16(self.data, self.pos, self.end)
        return value

    def int32(self) -> int:
        """Signed, 4 bytes."""
        value, self.pos = wire.read_int32(self.data, self.pos, self.end)
        return value

    def int64(self) -> int:
        """Signed, 8 bytes."""
        value, self.pos = wire.read_int64(self.data, self.pos, self.end)
        return value

    def uvarint(self) -> int:
        """Unsigned, 1 to 5 bytes."""
        value, self.pos = wire.read_uvarint(self.data, self.pos, self.end)
        return value

    def take(self, size: int) -> bytes:
        """The next ``size`` bytes."""
        if size < 0:
            raise Malformed("negative length")
        value, self.pos = wire.read_slice(self.data, self.pos, self.end, size)
        return value

    def string(self) -> str | bytes | None:
        """Text with an int16 length; bytes if it is no UTF-8."""
        value, self.pos = wire.read_string(self.data, self.pos, self.end)
        return value

    def bytes_or_null(self) -> bytes | None:
        """Bytes with an int32 length, or None."""
        value, self.pos = wire.read_bytes(self.data, self.pos, self.end)
        return value

    def utf(self) -> str | bytes:
        """Text as ``DataOutput.writeUTF`` writes it."""
        size, self.pos = wire.read_uint16(self.data, self.pos, self.end)
        return modified_utf8(self.take(size))

    def array(self, one: Callable[[], _T], size_min: int) -> list[_T] | None:
        """An array with an int32 count; ``one`` reads an element of at least ``size_min`` bytes. None for null."""
        count = self.int32()
        return None if count < 0 else self.many(count, one, size_min)

    def items(self, one: Callable[[], _T], size_min: int) -> list[_T]:
        """As ``array``, but null is Malformed."""
        return self.many(self.int32(), one, size_min)

    def many(self, count: int, one: Callable[[], _T], size_min: int) -> list[_T]:
        """``count`` elements that ``one`` reads."""
        if not 0 <= count <= self.left // size_min:
            raise Malformed("more elements than bytes")
        return [one() for _ in range(count)]

    def finish(self) -> None:
        """Malformed if bytes are left."""
        if self.left:
            raise Malformed("bytes after the last field")


def modified_utf8(raw: bytes) -> str | bytes:
    """Java's modified UTF-8 (NUL in two bytes, characters above U+FFFF as surrogates) as text; bytes if it is none."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        pass  # it may have one of the two differences from UTF-8
    try:
        text = raw.replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass")
        return text.encode("utf-16-be", "surrogatepass").decode("utf-16-be")
    except UnicodeDecodeError:
        return text_or_bytes(raw)
