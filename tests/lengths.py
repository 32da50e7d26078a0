"""Bytes in parts, of which some are lengths and counts; each of these can be written as a lie."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

MASK64 = (1 << 64) - 1


def uvarint(number: int) -> bytes:
    """An unsigned varint."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def zigzag(number: int, bits: int) -> bytes:
    """A signed varint."""
    return uvarint((number << 1 ^ number >> bits - 1) & (1 << bits) - 1)


class Length(NamedTuple):
    """A length or count; ``form`` is one of ``FORMS``, or a letter of ``struct`` with its order (">i")."""

    form: str
    value: int

    def written(self, value: int | None = None) -> bytes:
        """Its bytes, with its own value or another one, which is cut to the form's width."""
        number = self.value if value is None else value
        if self.form in FORMS:
            return FORMS[self.form](number)
        width = struct.calcsize(self.form)
        return (number % (1 << 8 * width)).to_bytes(width, "big" if self.form[0] == ">" else "little")

    @property
    def most(self) -> int:
        """The largest value of the form."""
        if self.form in FORMS:
            return 0x7FFFFFFF
        bits = 8 * struct.calcsize(self.form)
        return (1 << (bits - 1 if self.form[1].islower() else bits)) - 1


FORMS: dict[str, Callable[[int], bytes]] = {
    "uvarint": lambda value: uvarint(value & MASK64),
    "compact": lambda value: uvarint((value + 1) & MASK64),
    "zigzag": lambda value: zigzag(value, 32),
    "u24": lambda value: (value % (1 << 24)).to_bytes(3, "big"),
    "u24le": lambda value: (value % (1 << 24)).to_bytes(3, "little"),
    "text": lambda value: str(value).encode(),
}
LIES: dict[str, Callable[[Length], int]] = {
    "zero": lambda _: 0,
    "less": lambda length: length.value - 1,
    "more": lambda length: length.value + 1,
    "max": lambda length: length.most,
    "huge": lambda length: length.value + (1 << 20),
    "negative": lambda _: -1,
    "least": lambda length: -length.most - 1,
}
"""Name -> what a length says instead."""

Part = bytes | Length


class Lie(NamedTuple):
    """One length of some bytes says something else."""

    index: int
    """Which of the lengths."""
    name: str
    data: bytes


def honest(parts: Iterable[Part]) -> bytes:
    """The bytes as they should be."""
    return b"".join(part if isinstance(part, bytes) else part.written() for part in parts)


def sized(form: str, parts: Sequence[Part]) -> list[Part]:
    """The parts behind their length."""
    return [Length(form, len(honest(parts))), *parts]


def lies(parts: Sequence[Part], *, each: bool = True, shift: int = 0) -> Iterator[Lie]:
    """The bytes with one lie each: every lie of every length, or one for each, other ones with another ``shift``."""
    pieces = [part if isinstance(part, bytes) else part.written() for part in parts]
    places = [place for place, part in enumerate(parts) if isinstance(part, Length)]
    names = list(LIES)
    for index, place in enumerate(places):
        length = parts[place]
        assert isinstance(length, Length)
        for name in names if each else [names[(index + shift) % len(names)]]:
            said = length.written(LIES[name](length))
            if said != pieces[place]:
                yield Lie(index, name, b"".join((*pieces[:place], said, *pieces[place + 1 :])))
