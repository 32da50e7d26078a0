"""Sizes told by a length before each frame."""

from __future__ import annotations

import pytest

from mqsniff.dissector import NEED, NO_FRAME
from mqsniff.framing.lengthprefix import LengthPrefix


@pytest.mark.parametrize(
    ("prefix", "head", "size"),
    [
        (LengthPrefix(4, 0, 100), b"", NEED),
        (LengthPrefix(4, 0, 100), b"\0\0\0", NEED),
        (LengthPrefix(4, 0, 100), b"\0\0\0\x05abcde", 9),
        (LengthPrefix(4, 0, 100), b"\0\0\0\x64", 104),
        (LengthPrefix(4, 0, 100), b"\0\0\0\x65", NO_FRAME),
        (LengthPrefix(4, 6, 100), b"\0\0\0\x05", NO_FRAME),
        (LengthPrefix(2, 2, 0xFFFF, uncounted=0), b"\0\x07", 7),
        (LengthPrefix(2, 0, 0xFFFF, at=1), b"\x09", NEED),
        (LengthPrefix(2, 0, 0xFFFF, at=1), b"\x09\x00\x03", 6),
        (LengthPrefix(4, 0, 1 << 20, at=8, uncounted=12), bytes(8) + b"\0\0\0\x01", 13),
    ],
)
def test_the_size_is_the_length_and_what_it_does_not_count(prefix, head, size):
    assert prefix.size(head) == size


def test_a_length_that_is_too_large_is_known_by_its_first_bytes():
    assert LengthPrefix(4, 0, 0x00FF_FFFF).size(b"\x01") is NO_FRAME
    assert LengthPrefix(4, 0, 0x00FF_FFFF).size(b"\x00\xff\xff") is NEED
    assert LengthPrefix(4, 0, 0x00FE_FFFF).size(b"\x00\xff") is NO_FRAME


def test_more_bytes_never_change_an_answer():
    prefix = LengthPrefix(3, 5, 70_000, at=2)
    for length in (0, 5, 70_000, 70_001, 0xFFFFFF):
        head = b"ab" + length.to_bytes(3, "big") + b"tail"
        answers = [prefix.size(head[:stop]) for stop in range(len(head) + 1)]
        final = answers[-1]
        assert all(answer in (NEED, final) for answer in answers)
        assert answers[5] == final
