"""Functions that compiled decoders call in rare cases: long varints, long arrays, unknown tagged fields.

1. Arguments are what the compiled code has read already: the first byte of a varint, and the position after it.
2. They raise Malformed if ``interpret`` has to decode the bytes.
"""

from __future__ import annotations

import struct
from typing import Any, Final

from mqsniff.model import Secret
from mqsniff.spec import wire
from mqsniff.spec.wire import STRING_MAX, Extent, Malformed, uuid_text


def long_length(data: bytes, pos: int, length: int, end: int) -> tuple[int, int]:
    """Read the rest of a compact length: (n + 1, position after it); Malformed for null and for a false length."""
    if length == 0:
        raise Malformed("null")
    length, pos = wire.read_uvarint(data, pos - 1, end)
    if length == 0 or length - 1 > end - pos:
        raise Malformed("length past the end")
    return length, pos


def long_text_length(data: bytes, pos: int, length: int, end: int) -> tuple[int, int]:
    """Read the rest of a compact length of a string."""
    length, pos = long_length(data, pos, length, end)
    if length - 1 > STRING_MAX:
        raise Malformed("string too long")
    return length, pos


def integers(letter: str, data: bytes, pos: int, count: int, end: int) -> tuple[list[int], int]:
    """Read an array of integers of any count: (values, position after them)."""
    stop = pos + count * struct.calcsize(letter)
    if stop > end or count < 0:
        raise Malformed("more elements than bytes")
    return list(struct.unpack_from(f">{count}{letter}", data, pos)), stop


def long_integers(letter: str, data: bytes, pos: int, length: int, end: int) -> tuple[list[int], int]:
    """Read an array of integers with a compact count (n + 1)."""
    length, pos = long_length(data, pos, length, end)
    return integers(letter, data, pos, length - 1, end)


def refuse_null(data: bytes, pos: int) -> tuple[Any, ...]:  # noqa: ARG001  # stands where an unpack_from does
    """Raise Malformed; the entry for count 0 (null) in a table of compact arrays."""
    raise Malformed("null")


def taken(room: int, count: int) -> int:
    """The budget of elements that is left."""
    if count > room:
        raise Malformed("too many elements")
    return room - count


def unknown_tags(data: bytes, pos: int, count: int, end: int, room: int) -> tuple[dict[str, bytes], int, int]:
    """Read a tagged block of unknown tags: (tags, position after it, budget left)."""
    count, pos = wire.read_tag_count(data, pos - 1, end)
    room = taken(room, count)
    tags: dict[str, bytes] = {}
    last = -1
    for _ in range(count):
        tag, pos, stop = wire.read_tag(data, pos, end)
        if tag <= last:
            raise Malformed("tags must ascend")
        tags[str(tag)] = data[pos:stop]
        last, pos = tag, stop
    return tags, pos, room


CALLS: Final[dict[str, Any]] = {
    "Extent": Extent,
    "Malformed": Malformed,
    "Secret": Secret,
    "integers": integers,
    "long_integers": long_integers,
    "long_length": long_length,
    "long_text_length": long_text_length,
    "read_tag": wire.read_tag,
    "read_tag_count": wire.read_tag_count,
    "taken": taken,
    "unknown_tags": unknown_tags,
    "uuid_text": uuid_text,
}
"""Names in generated code."""
