"""Arithmetic of sequence numbers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqsniff.streams.segment import ACK, FIN, SYN, Segment, distance

NUMBERS = st.integers(0, (1 << 32) - 1)


@pytest.mark.parametrize(
    ("later", "earlier", "expected"),
    [(5, 3, 2), (3, 5, -2), (0, 0xFFFF_FFFF, 1), (0xFFFF_FFFF, 0, -1), (0x8000_0000, 0, -(1 << 31))],
)
def test_a_distance_goes_round_the_end_of_the_numbers(later: int, earlier: int, expected: int):
    assert distance(later, earlier) == expected


@given(NUMBERS, st.integers(-(1 << 31), (1 << 31) - 1))
def test_a_distance_is_what_was_added(number: int, step: int):
    assert distance(number + step & 0xFFFF_FFFF, number) == step


@pytest.mark.parametrize(
    ("flags", "first", "stop"),
    [(ACK, 0xFFFF_FFFE, 2), (SYN, 0xFFFF_FFFF, 3), (FIN | ACK, 0xFFFF_FFFE, 3), (SYN | FIN, 0xFFFF_FFFF, 4)],
)
def test_syn_and_fin_take_a_number_each(flags: int, first: int, stop: int):
    segment = Segment(0xFFFF_FFFE, 4, flags, 0, 0, 0, 0, 0, 0, 0, 0, 0)
    assert (segment.first_seq, segment.stop_seq) == (first, stop)
