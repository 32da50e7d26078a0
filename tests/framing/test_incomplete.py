"""Frames with bytes missing, under the toy protocol."""

from __future__ import annotations

from dataclasses import replace

import pytest
from toyframes import chunk, gap, run, toy

from mqsniff.limits import Limits
from mqsniff.model import Frame, Gap, Side


def test_a_frame_cut_by_the_end_goes_out_as_truncated():
    assert run(toy(), chunk(b"F\x04ab")) == [("F", 0, b"ab", 6, "truncated")]


def test_a_frame_whose_end_was_lost_is_told_at_the_gap():
    assert run(toy(), chunk(b"F\x05a"), gap(3, 4), close=False) == [("F", 0, b"a", 7, "truncated")]


def test_a_hole_inside_a_frame_keeps_the_side_in_step():
    events = (chunk(b"F\x05a"), gap(3, 2), chunk(b"deF\x01z", 5))
    assert run(toy(), *events) == [("F", 0, b"a", 7, "truncated"), ("F", 7, b"z", 3)]


def test_a_hole_up_to_the_frames_end_keeps_the_side_in_step():
    assert run(toy(), chunk(b"F\x02a"), gap(3, 1), chunk(b"F\x00", 4)) == [
        ("F", 0, b"a", 4, "truncated"),
        ("F", 4, b"", 2),
    ]


def test_a_gap_over_a_frames_end_is_followed_by_a_search():
    events = (chunk(b"F\x02a"), gap(3, 4), chunk(b"??F\x01xF\x01y", 7))
    assert run(toy(), *events) == [
        ("F", 0, b"a", 4, "truncated"),
        ("skipped", 7, 2),
        ("F", 9, b"x", 3),
        ("F", 12, b"y", 3),
    ]


def test_a_gap_of_unknown_length_ends_the_frame_it_lies_in():
    events = (chunk(b"F\x05a"), gap(3, 0, known=False), chunk(b"F\x01xF\x01y", 3))
    assert run(toy(), *events) == [("F", 0, b"a", 7, "truncated"), ("F", 3, b"x", 3), ("F", 6, b"y", 3)]


def test_a_gap_inside_a_head_skips_the_head():
    assert run(toy(), chunk(b"F"), gap(1, 1), chunk(b"F\x00", 2)) == [("skipped", 0, 1), ("F", 2, b"", 2)]


@pytest.mark.parametrize(
    ("limit", "events", "unread", "detail"),
    [
        (99, [chunk(b"F\x05a"), gap(3, 2), chunk(b"de", 5)], 2, "2 of 7 bytes were lost by the capture; 2 after them"),
        (99, [chunk(b"F\x05a"), gap(3, 2), chunk(b"d", 5)], 1, "2 of 7 bytes were lost by the capture; 1 after them"),
        (99, [chunk(b"F\x05a"), gap(3, 9)], 0, "4 of 7 bytes were lost by the capture"),
        (99, [chunk(b"F\x05a")], 0, "4 of 7 bytes are not there"),
        (5, [chunk(b"F\x08abcdefgh")], 5, "5 of 10 bytes are not decoded"),
    ],
)
def test_a_frame_counts_what_was_captured_of_it_and_cannot_be_decoded(limit, events, unread, detail):
    dissector = toy(replace(Limits(), frame_max=limit))
    out = [e for event in events for e in (dissector.gap if isinstance(event, Gap) else dissector.feed)(event)]
    (message,) = [*out, *dissector.close(Side.CLIENT)]
    (problem,) = message.problems
    assert message.frame.unread == unread
    assert problem.detail.startswith(detail)
    assert problem.size == message.frame.size - len(message.frame.data)


def test_two_gaps_inside_one_frame():
    events = (chunk(b"F\x09a"), gap(3, 2), chunk(b"d", 5), gap(6, 2), chunk(b"ghiF\x00", 8))
    dissector = toy()
    frames = [
        e.frame for event in events for e in (dissector.gap(event) if isinstance(event, Gap) else dissector.feed(event))
    ]
    assert [(f.offset, f.size, f.data, f.holes) for f in frames] == [
        (0, 11, b"F\x09a", ((3, 5), (6, 8))),
        (11, 2, b"F\x00", ()),
    ]


def test_a_frame_over_the_cap_keeps_its_start_only():
    dissector = toy(replace(Limits(), frame_max=5))
    assert run(dissector, chunk(b"F\x08abc"), chunk(b"defghF\x00", 5)) == [
        ("F", 0, b"abc", 10, "truncated"),
        ("F", 10, b"", 2),
    ]


def test_a_frame_with_holes_has_its_place_and_packets_anywhere_in_the_stream():
    dissector = toy()
    first = [*dissector.feed(chunk(b"F\x09" + b"x" * 9, packet=1))]
    assert len(first) == 1
    events = (chunk(b"F\x09a", 11, packet=2), gap(14, 2, packet=3), chunk(b"d", 16, packet=4), gap(17, 2, packet=5))
    for event in events:
        assert [*(dissector.gap(event) if isinstance(event, Gap) else dissector.feed(event))] == []
    (message,) = dissector.feed(chunk(b"ghi", 19, packet=6))
    assert message.frame == Frame(Side.CLIENT, 11, 11, b"F\x09a", 1002, 1006, 2, 6, 6, ((3, 5), (6, 8)), unread=4)


def test_a_frame_that_is_too_large_has_its_place_and_what_is_not_kept_of_it():
    dissector = toy(replace(Limits(), frame_max=5))
    events = [*dissector.feed(chunk(b"F\0", packet=1)), *dissector.feed(chunk(b"F\x08abc", 2, packet=2))]
    events += dissector.feed(chunk(b"defgh", 7, packet=3))
    assert events[-1].frame == Frame(Side.CLIENT, 2, 10, b"F\x08abc", 1002, 1003, 2, 3, 3, (), unread=5)
