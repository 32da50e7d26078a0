"""Bit sets of batch indexes: words of 64 bits in, lowest first; the indexes whose bits are set, or one integer, out.

Bodies show the indexes. In an ACK they are the messages that are still to be acknowledged, in a MESSAGE those that
are to be delivered. Source: ``BitSetRecyclable`` of Apache Pulsar, which is Java's ``BitSet.toLongArray``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

WORDS_MAX: Final = 1_024
"""Words that are opened: one of ten bytes becomes 64 numbers. Sets for batches of more messages stay words."""


_WORD: Final = 0xFFFFFFFFFFFFFFFF


def count(words: Sequence[int]) -> int:
    """How many indexes there are."""
    return sum((word & _WORD).bit_count() for word in words)


def indexes(words: Sequence[int]) -> list[int]:
    """The indexes of a bit set, ascending."""
    found = []
    for base, signed in enumerate(words):
        word = signed & _WORD
        while word:
            low = word & -word
            found.append(64 * base + low.bit_length() - 1)
            word ^= low
    return found


def mask(found: Sequence[int]) -> int:
    """Indexes as one integer: bit i for index i."""
    if not found:
        return 0
    bits = bytearray(max(found) // 8 + 1)
    for index in found:
        bits[index >> 3] |= 1 << (index & 7)
    return int.from_bytes(bits, "little")
