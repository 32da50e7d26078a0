"""One direction: its offsets, what the peer has of it, and what it remembers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqsniff.limits import MIB, Limits
from mqsniff.streams.reassembly import Direction, Stray
from mqsniff.streams.segment import Segment
from mqsniff.streams.waiting import StreamPiece

GIB = 1024 * MIB


def direction(next_offset: int = 0, origin: int = 1000, **limits: int) -> Direction:
    me = Direction(0, Limits(**limits))
    me.start(origin)
    me.advance(next_offset)
    return me


def sender(seq: int, size: int = 0, ts_ns: int = 0) -> Segment:
    return Segment(seq, size, 16, -1, 0, ts_ns, 0, 1, 0, 0, 0, 0)


@given(st.integers(0, 1 << 40), st.integers(0, (1 << 32) - 1), st.integers(-(1 << 31), (1 << 31) - 1))
def test_a_sequence_number_is_the_offset_nearest_to_the_next_byte(position: int, origin: int, step: int):
    me = direction(position, origin)
    assert me.offset_of((origin + position + step) % (1 << 32)) == position + step
    assert me.offset_of(me.next_seq) == position


def test_a_segment_is_believed_near_the_next_byte_near_what_waits_and_near_what_was_acknowledged():
    me = direction(5 * GIB)
    assert me.is_plausible(5 * GIB + 16 * MIB, 5 * GIB + 17 * MIB)
    assert me.is_plausible(5 * GIB - 17 * MIB, 5 * GIB - 16 * MIB)
    assert not me.is_plausible(5 * GIB + 16 * MIB + 1, 5 * GIB + 17 * MIB)
    assert not me.is_plausible(5 * GIB - 17 * MIB, 5 * GIB - 16 * MIB - 1)
    me.wait(StreamPiece(5 * GIB + 16 * MIB, 5 * GIB + 17 * MIB, b"", 0, 0, 0, 0))
    assert me.is_plausible(5 * GIB + 33 * MIB, 5 * GIB + 34 * MIB)
    me.acknowledge(5 * GIB + 500 * MIB, sender(1), 1)
    assert me.is_plausible(5 * GIB + 516 * MIB, 5 * GIB + 517 * MIB)


def test_before_its_first_byte_a_stream_reaches_as_far_as_later():
    me = direction()
    assert me.is_plausible(16 * MIB, 17 * MIB)
    assert not me.is_plausible(16 * MIB + 1, 17 * MIB)


def passed(me: Direction) -> list[tuple[int, int]]:
    return [(each.offset, each.packets) for each in me.acked_beyond]


def test_acknowledgements_are_noted_where_they_name_more_than_before():
    me = direction(100)
    for packets, offset in enumerate((90, 100, 120, 110, 120, 150), 1):
        me.acknowledge(offset, sender(7), packets)
    assert passed(me)[-1] == (150, 6)
    me.advance(149)
    assert passed(me) == [(150, 6)]
    me.advance(150)
    assert passed(me) == []


def test_a_later_segment_that_acknowledges_less_takes_back_more():
    me = direction(100)
    me.acknowledge(120, sender(50, 10), 1)
    me.acknowledge(900, sender(60, 10), 2)
    me.acknowledge(130, sender(40, 10), 3)
    assert passed(me) == [(120, 1), (900, 2)], "an earlier segment that was captured late"
    me.acknowledge(130, sender(70), 4)
    assert passed(me) == [(120, 1), (130, 4)]


def test_payload_that_repeats_an_acknowledgement_confirms_it():
    me = direction(100)
    me.acknowledge(120, sender(50), 1)
    me.acknowledge(120, sender(50, 10), 2)
    me.acknowledge(110, sender(50), 3)
    assert passed(me) == [(120, 1)], "an empty segment sent before the payload, captured after it"
    me.acknowledge(110, sender(60), 4)
    assert passed(me) == [(110, 4)]


def test_what_is_noted_of_acknowledgements_is_bounded():
    me = direction(0, reorder_segments=4)
    for n in range(1, 50):
        me.acknowledge(n, sender(7), n)
    assert passed(me) == [(1, 1), (2, 2), (3, 3), (49, 4)]


def test_nothing_is_expected_behind_an_end():
    me = direction(100)
    for packets, offset in enumerate((120, 130, 140), 1):
        me.acknowledge(offset, sender(7), packets)
    me.limit_to(125)
    assert passed(me) == [(120, 1), (125, 2)]
    me.limit_to(100)
    assert passed(me) == []


@pytest.mark.parametrize(
    ("offset", "data", "clash"),
    [
        (96, b"6789", None),
        (96, b"6x89", 97),
        (90, b"xxxxxx6789", None),  # of the first six nothing is kept
        (98, b"89and more", None),
        (98, b"8x and more", 99),
        (50, b"long ago", None),
        (100, b"new", None),
    ],
)
def test_repeated_bytes_are_compared_with_the_last_delivered_ones(offset: int, data: bytes, clash: int | None):
    me = direction(96, overlap_history=4)
    me.remember(b"2345")
    me.remember(b"6789")
    me.advance(100)
    assert me.clash(offset, data) == clash


def test_forgotten_bytes_clash_with_nothing():
    me = direction(0)
    me.remember(b"0123")
    me.advance(4)
    me.forget()
    assert me.clash(0, b"xxxx") is None


def stray(seq: int, size: int = 10) -> Stray:
    return Stray(Segment(seq, size, 16, -1, 0, 0, 0, 0, 0, 0, 0, 0), bytes(size), 0)


def test_strays_are_kept_while_they_are_near_each_other():
    me = direction(0, strays_max=3)
    for seq in (100 * MIB, 100 * MIB, 100 * MIB + 20, 100 * MIB + 10):
        me.add_stray(stray(seq))
    assert [each.segment.seq - 100 * MIB for each in me.strays] == [0, 20, 10]
    me.add_stray(stray(100 * MIB + 30))
    assert [each.segment.seq - 100 * MIB for each in me.take_strays()] == [10, 20, 30]
    me.add_stray(stray(100 * MIB))
    me.add_stray(stray(300 * MIB))
    assert [each.segment.seq for each in me.take_strays()] == [300 * MIB]
    reach = Limits().reach_max
    for seq in (100 * MIB, 100 * MIB + reach, 100 * MIB + 2 * reach + 1):
        me.add_stray(stray(seq))
    assert [each.segment.seq - 100 * MIB for each in me.take_strays()] == [2 * reach + 1]
    for seq in (100 * MIB, 100 * MIB + reach):
        me.add_stray(stray(seq))
    assert [each.segment.seq - 100 * MIB for each in me.take_strays()] == [0, reach]
    assert me.flows


def test_strays_are_confirmed_by_an_acknowledgement_of_their_bytes_or_a_little_more():
    me = direction(0)
    me.add_stray(stray(100 * MIB))
    assert not me.strays_confirmed(100 * MIB)
    assert me.strays_confirmed(100 * MIB + 1)
    assert me.strays_confirmed(116 * MIB + 10)
    assert not me.strays_confirmed(116 * MIB + 11)


def test_an_undisturbed_direction_shares_its_empty_lists_and_another_one_has_its_own():
    calm, disturbed = direction(), direction()
    assert calm.acked_beyond is disturbed.acked_beyond
    disturbed.acknowledge(10, sender(7), 1)
    disturbed.add_stray(stray(100 * MIB))
    assert (calm.acked_beyond, calm.strays, calm.flows, disturbed.flows) == ([], [], True, False)
