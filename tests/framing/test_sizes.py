"""Frames whose end is found element by element, under the toy protocol."""

from __future__ import annotations

from dataclasses import replace

import pytest
from toyframes import beads, chunk, gap, run

from mqsniff.limits import Limits
from mqsniff.model import Chunk, Mark, Message, Side

STRING = b"S\x06\x03\x01a\x01b\x01cF\x00"


@pytest.mark.parametrize("cut", range(1, len(STRING)))
def test_a_frame_is_walked_to_its_end_however_it_is_cut(cut):
    whole = [("S", 0, STRING[2:9], 9), ("F", 9, b"", 2)]
    assert run(beads(), chunk(STRING[:cut]), chunk(STRING[cut:], cut)) == whole


def test_the_walk_rules_where_another_size_was_promised():
    for promised in (b"\x00", b"\x50"):
        data = STRING[:1] + promised + STRING[2:]
        assert [event[:2] + event[3:] for event in run(beads(), chunk(data))] == [("S", 0, 9), ("F", 9, 2)]


def test_a_walk_that_breaks_off_has_the_size_that_was_promised():
    assert run(beads(), chunk(b"S\x04\x02\x01a\x00zF\x00")) == [("S", 0, b"\x02\x01a\x00z", 7), ("F", 7, b"", 2)]


def test_a_walk_that_breaks_off_behind_its_frame_is_told_by_the_byte_that_broke_it():
    data = b"S\x00\x02\x01a\x00F\x00"
    marks = [Mark(n, n, n, n) for n in range(len(data))]
    for pieces in ([(0, len(data))], [(n, n + 1) for n in range(len(data))]):
        dissector, seen = beads(), []
        for start, stop in pieces:
            events = dissector.feed(Chunk(Side.CLIENT, start, data[start:stop], marks[start:stop]))
            seen += [(dissector.now, event.frame.release) for event in events if isinstance(event, Message)]
        assert seen[0] == (5, 5)


def test_a_walk_into_a_hole_has_the_size_that_was_promised():
    events = (chunk(STRING[:5]), gap(5, 2), chunk(STRING[7:], 7))
    assert run(beads(), *events) == [("S", 0, STRING[2:5], 9, "truncated"), ("F", 9, b"", 2)]


def test_a_walk_that_the_end_cuts_keeps_what_is_there():
    assert run(beads(), chunk(STRING[:6])) == [("S", 0, STRING[2:6], 9, "truncated")]
    assert run(beads(), chunk(b"S\x01" + STRING[2:8])) == [("S", 0, STRING[2:8], 9, "truncated")]


def test_a_walk_beyond_the_cap_has_the_size_that_was_promised():
    limits = replace(Limits(), frame_max=10)
    data = b"S\x08\xff" + b"\x01a" * 200
    told_first = run(beads(limits), chunk(data))[0]
    assert told_first[:2] + told_first[3:] == ("S", 0, 11, "truncated")
