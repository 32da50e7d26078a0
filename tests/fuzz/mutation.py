"""Changes of inputs that lead somewhere in these formats: lengths that lie, fields that repeat, parts of others.

The same change for the same random numbers, so that a run of ``blind`` with a seed can be repeated.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence
from typing import Final

NUMBERS: Final = (0, 1, 2, 3, 4, 7, 8, 10, 0x7F, 0x80, 0xFF, 0x100, 0x7FFF, 0x8000, 0xFFFF, 0x10000, 0x7FFFFFFF)
FORMS: Final = (">B", ">H", ">I", ">Q", "<H", "<I")
VARINTS: Final = (
    b"\x00",
    b"\x01",
    b"\x7f",
    b"\xff\x01",
    b"\xff\xff\x03",
    b"\xff\xff\xff\xff\x0f",
    b"\xff" * 9 + b"\x01",
)
TEXTS: Final = (
    b"-1",
    b"0",
    b"9223372036854775807",
    b"99999999999999999999",
    b"1e999",
    b"null",
    b"{}",
    b"\xff\xfe",
    b"\\u0000",
)

Change = Callable[[bytearray, random.Random], None]


def mutated(data: bytes, size_max: int, chance: random.Random, others: Sequence[bytes] = ()) -> bytes:
    """An input like this one, with a few changes."""
    out = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 2, 3, 5))):
        if others and chance.random() < 0.1:
            _splice(out, chance, chance.choice(others))
        else:
            chance.choice(CHANGES)(out, chance)
    return bytes(out[:size_max])


def _place(out: bytearray, chance: random.Random, width: int = 1) -> int:
    return chance.randrange(max(1, len(out) - width + 1))


def _flip(out: bytearray, chance: random.Random) -> None:
    if out:
        out[_place(out, chance)] ^= 1 << chance.randrange(8)


def _number(out: bytearray, chance: random.Random) -> None:
    """An integer of any width becomes another special one."""
    form = chance.choice(FORMS)
    width = struct.calcsize(form)
    number = chance.choice(NUMBERS) * chance.choice((1, 1, -1))
    at = _place(out, chance, width)
    out[at : at + width] = (number % (1 << 8 * width)).to_bytes(width, "big" if form[0] == ">" else "little")


def _nudge(out: bytearray, chance: random.Random) -> None:
    """An integer of any width becomes a little more or less."""
    form = chance.choice(FORMS)
    width = struct.calcsize(form)
    at = _place(out, chance, width)
    if at + width <= len(out):
        (number,) = struct.unpack_from(form, out, at)
        struct.pack_into(form, out, at, (number + chance.choice((-8, -4, -2, -1, 1, 2, 4, 8))) % (1 << 8 * width))


def _varint(out: bytearray, chance: random.Random) -> None:
    at = _place(out, chance)
    out[at : at + 1] = chance.choice(VARINTS)


def _text(out: bytearray, chance: random.Random) -> None:
    at = _place(out, chance)
    out[at : at + chance.randrange(4)] = chance.choice(TEXTS)


def _remove(out: bytearray, chance: random.Random) -> None:
    at = _place(out, chance)
    del out[at : at + chance.choice((1, 1, 2, 4, 8, 64))]


def _insert(out: bytearray, chance: random.Random) -> None:
    at = _place(out, chance)
    out[at:at] = chance.randbytes(chance.choice((1, 2, 4, 8)))


def _repeat(out: bytearray, chance: random.Random) -> None:
    """A part stands again, somewhere."""
    start = _place(out, chance)
    part = out[start : start + chance.choice((1, 4, 16, 64, 512))]
    at = _place(out, chance)
    out[at:at] = part * chance.choice((1, 1, 2, 16))


def _cut(out: bytearray, chance: random.Random) -> None:
    del out[_place(out, chance) :]


def _splice(out: bytearray, chance: random.Random, other: bytes) -> None:
    """A part of another input takes the place of a part."""
    start = chance.randrange(max(1, len(other)))
    part = other[start : start + chance.choice((4, 16, 64, 512))]
    at = _place(out, chance)
    out[at : at + chance.choice((0, len(part)))] = part


CHANGES: Final[tuple[Change, ...]] = (
    _flip,
    _number,
    _number,
    _nudge,
    _nudge,
    _varint,
    _text,
    _remove,
    _insert,
    _repeat,
    _cut,
)
