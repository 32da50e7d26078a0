"""Java class files in; their names, parents and fields with constant values out.

Source: The Java Virtual Machine Specification, chapter 4 (the class file format).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

_MAGIC: Final = 0xCAFEBABE
_UTF8, _INTEGER, _LONG, _DOUBLE, _CLASS = 1, 3, 5, 6, 7
_SIZES: Final = {
    3: 4,
    4: 4,
    5: 8,
    6: 8,
    7: 2,
    8: 2,
    9: 4,
    10: 4,
    11: 4,
    12: 4,
    15: 3,
    16: 2,
    17: 4,
    18: 4,
    19: 2,
    20: 2,
}
"""Tag of a constant -> bytes after it (table 4.4-B)."""
_STATIC: Final = 0x0008


@dataclass
class ClassFile:
    """What a class file says of its fields."""

    name: str
    """Full name, with slashes."""
    parent: str
    fields: dict[str, str] = field(default_factory=dict)
    """Fields of its objects -> their types as descriptors (``I``, ``Ljava/lang/String;``)."""
    constants: dict[str, int] = field(default_factory=dict)
    """Static fields with a whole number."""


def read_class(data: bytes) -> ClassFile:
    """Read a class file; ValueError if it is none."""
    magic, _, _, count = struct.unpack_from(">IHHH", data)
    if magic != _MAGIC:
        raise ValueError("not a Java class file")
    pool, at = _pool(data, count)
    _, this, parent, interfaces = struct.unpack_from(">HHHH", data, at)
    found = ClassFile(_name(pool, this), _name(pool, parent) if parent else "")
    at += 8 + 2 * interfaces
    (fields,) = struct.unpack_from(">H", data, at)
    at += 2
    for _ in range(fields):
        at = _read_field(data, at, pool, found)
    return found


def _pool(data: bytes, count: int) -> tuple[dict[int, str | int], int]:
    """The constants that matter here by their index, and the offset after them."""
    pool: dict[int, str | int] = {}
    at, index = 10, 1
    while index < count:
        tag = data[at]
        at += 1
        if tag == _UTF8:
            (size,) = struct.unpack_from(">H", data, at)
            pool[index] = data[at + 2 : at + 2 + size].decode("utf-8", "surrogateescape")
            at += 2 + size
        elif tag in _SIZES:
            if tag == _INTEGER:
                (pool[index],) = struct.unpack_from(">i", data, at)
            elif tag == _CLASS:
                (pool[index],) = struct.unpack_from(">H", data, at)
            at += _SIZES[tag]
        else:
            raise ValueError(f"unknown constant of tag {tag}")
        index += 2 if tag in (_LONG, _DOUBLE) else 1  # these take two places (4.4.5)
    return pool, at


def _name(pool: dict[int, str | int], index: int) -> str:
    """The name of a class by the index of its constant."""
    place = pool[index]
    assert isinstance(place, int)
    return str(pool[place])


def _read_field(data: bytes, at: int, pool: dict[int, str | int], found: ClassFile) -> int:
    access, name, kind, attributes = struct.unpack_from(">HHHH", data, at)
    at += 8
    for label, start, size in _attributes(data, at, attributes, pool):
        if label == "ConstantValue":
            value = pool.get(struct.unpack_from(">H", data, start)[0])
            if isinstance(value, int):
                found.constants[str(pool[name])] = value
        at = start + size
    if not access & _STATIC:
        found.fields[str(pool[name])] = str(pool[kind])
    return at


def _attributes(data: bytes, at: int, count: int, pool: dict[int, str | int]) -> Iterator[tuple[str, int, int]]:
    """Name, start and size of each attribute."""
    for _ in range(count):
        label, size = struct.unpack_from(">HI", data, at)
        yield str(pool[label]), at + 6, size
        at += 6 + size
