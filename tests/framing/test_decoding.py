"""Frames that cannot be decoded, under the toy protocol."""

from __future__ import annotations

from toyframes import chunk, gap, run, toy

from mqsniff.model import Skipped


def test_a_frame_that_cannot_be_decoded_skips_only_bytes_that_were_there():
    assert run(toy(), chunk(b"X\xffab")) == [("problem", "malformed", 0, 257), ("skipped", 0, 4)]


def test_of_an_undecodable_frame_only_what_lies_behind_its_start_is_skipped():
    assert run(toy(), chunk(b"F\0X\xffab")) == [
        ("F", 0, b"", 2),
        ("problem", "malformed", 2, 257),
        ("skipped", 2, 4),
    ]


def test_what_is_skipped_of_a_frame_with_a_hole_is_what_was_captured():
    dissector = toy()
    events = [*dissector.feed(chunk(b"X\x05a")), *dissector.gap(gap(3, 2)), *dissector.feed(chunk(b"de", 5))]
    (skipped,) = [event for event in events if isinstance(event, Skipped)]
    assert (skipped.offset, skipped.length, skipped.lost) == (0, 7, 2)


def test_what_decode_raises_costs_one_frame():
    assert run(toy(), chunk(b"X\x01aF\x00E\x00F\x00")) == [
        ("problem", "malformed", 0, 3),
        ("skipped", 0, 3),
        ("F", 3, b"", 2),
        ("problem", "internal", 5, 2),
        ("skipped", 5, 2),
        ("F", 7, b"", 2),
    ]
