"""Packets that are one frame each: told at once, and the same as bit by bit."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toyframes import Toy, chunk, gap, told, toy

from mqsniff.framing.pending import BYTES_KEPT
from mqsniff.limits import Limits
from mqsniff.model import Chunk, Gap, Side

FRAMES = [b"F\x00", b"F\x03abc", b"W\x01w", b"R\x00", b"U\x00", b"X\x01x", b"E\x00", b"F\x02a", b"F\x00F\x01f", b"zz"]


def bit_by_bit(whole: Chunk) -> Chunk:
    """The same bytes of the same packet, in a chunk that goes no straight path: it has two marks."""
    (mark,) = whole.marks
    return replace(whole, marks=[mark, mark._replace(offset=mark.offset + 1)])


def run(dissector: Toy, events: list[Chunk | Gap]) -> list:
    out = []
    for event in events:
        events_of = dissector.gap(event) if isinstance(event, Gap) else dissector.feed(event)
        out += [(dissector.now, told([one])) for one in events_of]
    return [*out, *(told(dissector.close(side)) for side in Side)]


@settings(max_examples=50)
@given(st.lists(st.tuples(st.sampled_from(Side), st.sampled_from([*FRAMES, 2])), max_size=12), st.booleans())
def test_packets_tell_the_same_at_the_same_time_at_once_and_bit_by_bit(said, in_step):
    at, events = [0, 0], []
    for packet, (side, what) in enumerate(said):
        size = what if isinstance(what, int) else len(what)
        event = gap(at[side], size, side, packet) if isinstance(what, int) else chunk(what, at[side], side, packet)
        events.append(event)
        at[side] += size
    slow = [event if isinstance(event, Gap) else bit_by_bit(event) for event in events]
    assert run(toy(in_step=in_step), events) == run(toy(in_step=in_step), slow)


@pytest.mark.parametrize(
    ("data", "at_once"),
    [(b"F\x03abc", True), (b"X\x01x", True), (b"F\x03ab", False), (b"F\x00F\x00", False), (b"zz", False)],
)
def test_only_a_packet_that_is_one_frame_is_told_at_once(data, at_once):
    assert isinstance(toy().feed(chunk(data)), list) is at_once


def test_a_frame_behind_the_beginning_of_another_is_not_told_at_once():
    dissector = toy()
    assert list(dissector.feed(chunk(b"F"))) == []
    assert not isinstance(dissector.feed(chunk(b"\x00", 1)), list)


def test_a_frame_whose_bytes_questions_forget_is_taken_first():
    class Long(Toy):
        def frame_size(self, side, head):
            return BYTES_KEPT + 1

        def decode(self, frame):
            pending.append(self.expect_reply("k"))
            yield from super().decode(frame)

    pending: list = []
    dissector = toy()
    dissector.__class__ = Long
    events = dissector.feed(chunk(b"F" * (BYTES_KEPT + 1)))
    assert len(next(iter(events)).frame.data) == BYTES_KEPT + 1
    assert pending[0].frame.data


def test_a_frame_over_the_limit_is_not_told_at_once():
    assert not isinstance(toy(replace(Limits(), frame_max=4)).feed(chunk(b"F\x03abc")), list)


def test_the_size_of_a_frame_is_asked_once():
    class Counting(Toy):
        pending = 0

        def frame_size(self, side, head):
            self.pending += 1
            return super().frame_size(side, head)

    dissector = toy()
    dissector.__class__ = Counting
    list(dissector.feed(chunk(b"F\x03ab")))
    assert dissector.pending == 1
    list(dissector.feed(chunk(b"c", 4)))
    list(dissector.feed(chunk(b"F\x00", 5)))
    assert dissector.pending == 3
