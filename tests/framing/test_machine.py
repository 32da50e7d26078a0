"""What both sides of a connection do, under the toy protocol."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from toyframes import Beads, beads, chunk, gap, run, told, toy

from mqsniff.dissector import NEED, LayerChange, Settings
from mqsniff.limits import Limits
from mqsniff.model import Chunk, Event, Gap, Mark, Message, Side, Skipped, Upgrade


def test_frames_follow_each_other():
    assert run(toy(), chunk(b"F\x01aF\x00F\x02bc")) == [("F", 0, b"a", 3), ("F", 3, b"", 2), ("F", 5, b"bc", 4)]


def test_a_head_cut_by_the_end_is_skipped():
    assert run(toy(), chunk(b"F\x00F")) == [("F", 0, b"", 2), ("skipped", 2, 1)]


@pytest.mark.parametrize(("size", "problems"), [(256, []), (257, ["truncated"])])
def test_a_frame_may_be_as_large_as_the_limit(size, problems):
    dissector = toy(Limits(frame_max=256))
    data = b"F" + bytes((size - 2, *bytes(size - 2)))
    [found] = run(dissector, chunk(data[:100]), chunk(data[100:], 100))
    assert (len(found[2]), found[3], list(found[4:])) == (254, size, problems)


def test_a_side_waits_for_the_peer():
    dissector = toy()
    assert run(dissector, chunk(b"W\x00F\x00"), close=False) == []
    assert run(dissector, chunk(b"R\x00", side=Side.SERVER), close=False) == [
        ("R", 0, b"", 2),
        ("W", 0, b"", 2),
        ("F", 2, b"", 2),
    ]


def test_what_comes_behind_a_gap_waits_too():
    dissector = toy()
    assert run(dissector, chunk(b"W\x00F\x03a"), gap(5, 1), chunk(b"cF\x00", 6), close=False) == []
    assert run(dissector, chunk(b"R\x00", side=Side.SERVER), close=False) == [
        ("R", 0, b"", 2),
        ("W", 0, b"", 2),
        ("F", 2, b"a", 5, "truncated"),
        ("F", 7, b"", 2),
    ]


CUT, NEXT = ("F", 0, b"ab", 7, "truncated"), b"F\0F\0"


@pytest.mark.parametrize(
    ("lost", "then", "found"),
    [
        (gap(4, 1), chunk(b"deF\0", 5), [[], [CUT, ("F", 7, b"", 2)]]),
        (gap(4, 3), chunk(b"F\0", 7), [[CUT], [("F", 7, b"", 2)]]),
        (gap(4, 4), chunk(b"\0" + NEXT, 8), [[CUT], [("skipped", 8, 1), ("F", 9, b"", 2), ("F", 11, b"", 2)]]),
        (gap(4, 5), chunk(NEXT, 9), [[CUT], [("F", 9, b"", 2), ("F", 11, b"", 2)]]),
        (gap(4, 1, known=False), chunk(NEXT, 5), [[CUT], [("F", 5, b"", 2), ("F", 7, b"", 2)]]),
        (gap(4, 1), gap(5, 3), [[], [CUT]]),
    ],
    ids=["inside", "its end", "one byte more", "a frame more", "of unknown size", "then another beyond its end"],
)
def test_bytes_lost_in_a_frame_end_it_unless_more_of_it_can_come(lost, then, found):
    dissector = toy()
    assert run(dissector, chunk(b"F\5ab"), close=False) == []
    assert [run(dissector, each, close=False) for each in (lost, then)] == found
    assert run(dissector) == []


@pytest.mark.parametrize("lost", [(), (gap(4, 1),)])
def test_the_end_of_a_side_ends_the_frame_that_is_not_whole(lost):
    dissector = toy()
    assert run(dissector, chunk(b"F\5ab"), *lost, close=False) == []
    assert run(dissector) == [CUT]


def test_a_side_joined_late_is_searched_from_its_first_byte_wherever_it_lies():
    found = run(toy(in_step=False), chunk(b"?F\0F\0", 500))
    assert found == [("skipped", 500, 1), ("F", 501, b"", 2), ("F", 503, b"", 2)]


@pytest.mark.parametrize("order", [(Side.CLIENT, Side.SERVER), (Side.SERVER, Side.CLIENT)])
def test_a_peer_that_closes_ends_the_wait(order):
    dissector = toy()
    assert run(dissector, chunk(b"W\x00F\x00F\x00"), close=False) == []
    out = [event for side in order for event in told(dissector.close(side))]
    assert [event[:2] for event in out] == [("W", 0), ("F", 2), ("F", 4)]


def test_waiting_is_given_up_at_its_cap():
    dissector = toy(replace(Limits(), wait_max=4))
    assert run(dissector, chunk(b"W\x00F\x00"), close=False) == []
    assert [event[0] for event in run(dissector, chunk(b"F\x00", 4), close=False)] == ["W", "F", "F"]


def test_a_cap_does_not_depend_on_how_the_frame_was_cut():
    whole = run(toy(replace(Limits(), frame_max=5)), chunk(b"F\x08abcdefghF\x00"))
    assert whole == [("F", 0, b"abc", 10, "truncated"), ("F", 10, b"", 2)]


def test_surrendered_bytes_are_not_decoded():
    dissector = toy()
    events = dissector.feed(chunk(b"U\x00F\x00"))
    assert told([next(events), next(events)]) == [("U", 0, b"", 2), ("upgrade",)]
    back = dissector.hand_back(Side.CLIENT, 2)
    assert [(c.offset, c.data) for c in back if isinstance(c, Chunk)] == [(2, b"F\x00")]
    assert told(events) == []


@pytest.mark.parametrize("start", [2, 3])
def test_what_is_handed_back_keeps_each_mark_once(start):
    dissector, marks = toy(), [Mark(0, 10, 1, 1), Mark(2, 20, 2, 2), Mark(3, 30, 3, 3)]
    events = iter(dissector.feed(Chunk(Side.CLIENT, 0, b"U\0F\x05", marks)))
    assert told([next(events), next(events)]) == [("U", 0, b"", 2), ("upgrade",)]
    (back,) = dissector.hand_back(Side.CLIENT, start)
    assert (back.offset, back.data, back.marks) == (start, b"F\x05"[start - 2 :], marks[start - 1 :])


def test_marks_give_each_frame_its_packets():
    marks = [Mark(0, 10, 1, 1), Mark(3, 20, 2, 2), Mark(5, 30, 3, 3)]
    frames = [e.frame for e in toy().feed(Chunk(Side.CLIENT, 0, b"F\x02abF\x00", marks))]
    assert [(f.first_packet, f.last_packet, f.first_ts_ns, f.last_ts_ns, f.release) for f in frames] == [
        (1, 2, 10, 20, 2),
        (2, 3, 20, 30, 3),
    ]


def test_a_side_that_waits_hands_back_what_it_holds_and_keeps_nothing():
    dissector = toy()
    events = [chunk(b"W\0F\x03a"), gap(5, 1), chunk(b"cF\0", 6)]
    assert run(dissector, *events, close=False) == []
    assert [type(each) for each in dissector.hand_back(Side.CLIENT, 0)] == [Chunk, Gap, Chunk]
    assert run(dissector, chunk(b"R\0", side=Side.SERVER), close=False) == [("R", 0, b"", 2)]
    assert run(dissector, chunk(b"W\0"), close=False) == [("W", 0, b"", 2)]


STREAM = st.lists(
    st.one_of(
        st.binary(max_size=6).map(lambda body: b"F" + bytes([len(body)]) + body),
        st.binary(max_size=3).map(lambda body: b"X" + bytes([len(body)]) + body),
        st.binary(min_size=1, max_size=4),
    ),
    max_size=12,
).map(b"".join)


@given(
    data=STREAM, cuts=st.sets(st.integers(1, 80)), holes=st.sets(st.integers(0, 80), max_size=3), in_step=st.booleans()
)
def test_any_cut_gives_the_same_events_at_the_same_time(data, cuts, holes, in_step):
    """Packets are one byte each; the machine gets them one by one, or several in one chunk."""

    def deliver(cuts: set[int]) -> list:
        dissector, out, at = toy(in_step=in_step), [], 0
        for stop in sorted({*cuts, len(data), *holes, *(h + 1 for h in holes)}):
            if not at < stop <= len(data):
                continue
            marks = [Mark(n, n, n, n) for n in range(at, stop)]
            events = (
                dissector.gap(Gap(Side.CLIENT, at, stop - at, marks[0]))
                if at in holes
                else dissector.feed(Chunk(Side.CLIENT, at, data[at:stop], marks))
            )
            out += [(dissector.now, told([event])) for event in events]
            at = stop
        return out + [(dissector.now, told([event])) for event in dissector.close(Side.CLIENT)]

    assert deliver(cuts) == deliver(set(range(len(data))))


@given(data=STREAM, holes=st.sets(st.integers(0, 80), max_size=3), in_step=st.booleans())
def test_every_byte_is_claimed_once(data, holes, in_step):
    dissector, claimed, at = toy(in_step=in_step), [0] * len(data), 0
    captured = 0

    def claim(events: Iterator[Event]) -> None:
        nonlocal captured
        for event in events:
            if isinstance(event, Message):
                frame = event.frame
                captured += frame.captured
                span = set(range(frame.offset, min(frame.offset + frame.size, len(data))))
                for start, stop in frame.holes:
                    span -= set(range(frame.offset + start, frame.offset + stop))
            elif isinstance(event, Skipped):
                captured += event.length - event.lost
                span = set(range(event.offset, min(event.offset + event.length, len(data)))) - holes
            else:
                continue
            for offset in span:
                claimed[offset] += 1

    lost = 0
    for stop in sorted({len(data), *holes, *(h + 1 for h in holes)}):
        if not at < stop <= len(data):
            continue
        if at in holes:
            claimed[at] += 1
            lost += 1
            claim(dissector.gap(gap(at, 1)))
        else:
            claim(dissector.feed(chunk(data[at:stop], at)))
        at = stop
    for side in Side:
        claim(dissector.close(side))
    assert claimed == [1] * len(data)
    assert captured == len(data) - lost


def test_a_side_that_goes_on_in_another_layer_is_handed_over():
    dissector = beads()
    events = dissector.feed(chunk(b"F\x00Labc"))
    assert told([next(events)]) == [("F", 0, b"", 2)]
    upgrade = next(events)
    assert isinstance(upgrade, Upgrade)
    assert (upgrade.at, upgrade.to) == ({Side.CLIENT: 2}, "toy")
    back = dissector.hand_back(Side.CLIENT, 2)
    assert [(c.offset, c.data) for c in back if isinstance(c, Chunk)] == [(2, b"Labc")]
    assert told(events) == []
    assert run(dissector, chunk(b"F\x01x", 2)) == [("F", 2, b"x", 3)]


def test_a_layer_that_nobody_takes_is_passed_over():
    assert run(beads(), chunk(b"LF\x00F\x00")) == [("upgrade",), ("skipped", 0, 1), ("F", 1, b"", 2), ("F", 3, b"", 2)]


def test_a_layer_begins_with_the_packet_that_has_its_sign():
    class Signed(Beads):
        """ "L" is the sign of a layer with the two bytes after it."""

        def frame_size(self, side, head):
            if head[:1] == b"L":
                return LayerChange("toy", 3) if len(head) == 3 else NEED
            return super().frame_size(side, head)

    dissector = Signed(Settings(Limits()))
    marks = [Mark(0, 10, 1, 1), Mark(2, 20, 2, 2), Mark(4, 30, 3, 3), Mark(5, 40, 4, 4)]
    found = [(dissector.now, *told([event])) for event in dissector.feed(Chunk(Side.CLIENT, 0, b"F\0LabF", marks))]
    assert [row[:2] for row in found[:2]] == [(1, ("F", 0, b"", 2)), (3, ("upgrade",))]


def test_a_step_that_waits_may_be_found_when_the_peer_speaks():
    dissector = toy()
    dissector.start(Side.CLIENT, in_step=False)
    assert run(dissector, chunk(b"?W\0"), close=False) == []
    said = run(dissector, chunk(b"F\0", side=Side.SERVER), chunk(b"R\0", 2, Side.SERVER), close=False)
    assert said == [("skipped", 0, 1), ("F", 0, b"", 2), ("R", 2, b"", 2), ("W", 1, b"", 2)]
