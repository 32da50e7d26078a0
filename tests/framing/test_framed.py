"""The framing machine under a toy protocol: b"F", a byte of length, so many bytes; b"W" frames wait for the peer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqsniff.dissector import NEED, NO_FRAME, WAIT_PEER, Broken, Sample, Settings, Switch, Verdict, Walk
from mqsniff.framing import FramedDissector
from mqsniff.limits import Limits
from mqsniff.model import Chunk, Event, Frame, Gap, Mark, Message, Problem, Side, Skipped, Upgrade
from mqsniff.spec.wire import Malformed


class Toy(FramedDissector):
    names = ("toy",)
    ports = frozenset({7})
    head_max = 2

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.may_go = 0

    @classmethod
    def probe(cls, side, head):
        if head[:1] not in (b"F", b"W", b"R", b"U"):
            return NO_FRAME
        return 2 + head[1] if len(head) == 2 else NEED

    def frame_size(self, side, head):
        if head[:1] == b"W" and not self.may_go and self.may_wait(side):
            return WAIT_PEER
        if len(head) < 2:
            return NEED
        if head[:1] in b"FWRUXE":
            return 2 + head[1]
        return NO_FRAME

    def decode(self, frame: Frame) -> Iterator[Event]:
        kind = frame.data[:1]
        if kind == b"X":
            raise Malformed("no such thing")
        if kind == b"E":
            raise ZeroDivisionError
        if kind == b"R":
            self.may_go += 1
        yield Message(frame, "toy", kind.decode(), "request", {"data": frame.data[2:]})
        if kind == b"U":
            yield Upgrade({frame.side: frame.offset + frame.size}, "toy")


def chunk(data: bytes, at: int = 0, side: Side = Side.CLIENT, packet: int = 0) -> Chunk:
    return Chunk(side, at, data, [Mark(at, 1000 + packet, packet, packet)])


def gap(at: int, length: int, side: Side = Side.CLIENT, packet: int = 0, *, known: bool = True) -> Gap:
    return Gap(side, at, length, Mark(at, 1000 + packet, packet, packet), known=known)


def toy(limits: Limits | None = None, *, in_step: bool = True) -> Toy:
    dissector = Toy(Settings(limits or Limits()))
    for side in Side:
        dissector.start(side, in_step=in_step)
    return dissector


def told(events) -> list:
    """Events as short tuples."""
    out = []
    for event in events:
        match event:
            case Message():
                problems = tuple(problem.kind for problem in event.problems)
                out.append((event.name, event.frame.offset, event.body["data"], event.frame.size, *problems))
            case Skipped():
                out.append(("skipped", event.offset, event.length))
            case Problem():
                out.append(("problem", event.kind, event.offset, event.size))
            case Upgrade():
                out.append(("upgrade",))
    return out


def run(dissector: Toy, *events: Chunk | Gap, close: bool = True) -> list:
    out = []
    for event in events:
        out += told(dissector.gap(event) if isinstance(event, Gap) else dissector.feed(event))
    for side in Side if close else ():
        out += told(dissector.close(side))
    return out


def test_frames_follow_each_other():
    assert run(toy(), chunk(b"F\x01aF\x00F\x02bc")) == [("F", 0, b"a", 3), ("F", 3, b"", 2), ("F", 5, b"bc", 4)]


def test_a_frame_cut_by_the_end_goes_out_as_truncated():
    assert run(toy(), chunk(b"F\x04ab")) == [("F", 0, b"ab", 6, "truncated")]


def test_a_frame_that_cannot_be_decoded_skips_only_bytes_that_were_there():
    assert run(toy(), chunk(b"X\xffab")) == [("problem", "malformed", 0, 257), ("skipped", 0, 4)]


def test_a_head_cut_by_the_end_is_skipped():
    assert run(toy(), chunk(b"F\x00F")) == [("F", 0, b"", 2), ("skipped", 2, 1)]


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


def test_a_middle_start_searches_and_needs_a_second_frame():
    assert run(toy(in_step=False), chunk(b"zzF\x01aF\x01b"), close=False) == [
        ("skipped", 0, 2),
        ("F", 2, b"a", 3),
        ("F", 5, b"b", 3),
    ]


def test_a_search_believes_a_lone_frame_only_at_the_end_of_the_run():
    dissector = toy(in_step=False)
    assert run(dissector, chunk(b"zzF\x01a"), close=False) == []
    assert told(dissector.close(Side.CLIENT)) == [("skipped", 0, 2), ("F", 2, b"a", 3)]


def test_a_search_without_a_frame_skips_all():
    assert run(toy(in_step=False), chunk(b"zzzzz")) == [("skipped", 0, 5)]


def test_a_large_candidate_needs_two_frames_behind_it():
    limits = replace(Limits(), search_sure=3)
    data = b"F\x02xxF\x00"
    assert run(toy(limits, in_step=False), chunk(data + b"F\x00"), close=False)[0] == ("F", 0, b"xx", 4)
    assert run(toy(limits, in_step=False), chunk(data), close=False) == []


def test_losing_step_leads_to_a_search():
    assert run(toy(), chunk(b"F\x00??F\x00F\x00")) == [
        ("F", 0, b"", 2),
        ("skipped", 2, 2),
        ("F", 4, b"", 2),
        ("F", 6, b"", 2),
    ]


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


def test_a_frame_over_the_cap_keeps_its_start_only():
    dissector = toy(replace(Limits(), frame_max=5))
    assert run(dissector, chunk(b"F\x08abc"), chunk(b"defghF\x00", 5)) == [
        ("F", 0, b"abc", 10, "truncated"),
        ("F", 10, b"", 2),
    ]


def test_what_decode_raises_costs_one_frame():
    assert run(toy(), chunk(b"X\x01aF\x00E\x00F\x00")) == [
        ("problem", "malformed", 0, 3),
        ("skipped", 0, 3),
        ("F", 3, b"", 2),
        ("problem", "internal", 5, 2),
        ("skipped", 5, 2),
        ("F", 7, b"", 2),
    ]


def test_surrendered_bytes_are_not_decoded():
    dissector = toy()
    events = dissector.feed(chunk(b"U\x00F\x00"))
    assert told([next(events), next(events)]) == [("U", 0, b"", 2), ("upgrade",)]
    back = dissector.surrender(Side.CLIENT, 2)
    assert [(c.offset, c.data) for c in back if isinstance(c, Chunk)] == [(2, b"F\x00")]
    assert told(events) == []


def test_marks_give_each_frame_its_packets():
    marks = [Mark(0, 10, 1, 1), Mark(3, 20, 2, 2), Mark(5, 30, 3, 3)]
    frames = [e.frame for e in toy().feed(Chunk(Side.CLIENT, 0, b"F\x02abF\x00", marks))]
    assert [(f.first_packet, f.last_packet, f.first_ts_ns, f.last_ts_ns, f.release) for f in frames] == [
        (1, 2, 10, 20, 2),
        (2, 3, 20, 30, 3),
    ]


def test_questions_find_their_answers_in_order():
    dissector = toy()
    list(dissector.feed(chunk(b"F\x00")))
    first, second = dissector.ask("k", 1), dissector.ask("k", 2)
    optional = dissector.ask("k", 3, expects=0)
    assert dissector.answer("k") is first
    assert dissector.answer("k") is second
    assert dissector.answer("k") is None
    assert optional.status == "oneway"


def test_more_questions_than_the_cap_end_the_oldest():
    dissector = toy(replace(Limits(), questions_max=2))
    list(dissector.feed(chunk(b"F\x00")))
    asked = [dissector.ask(n) for n in range(3)]
    assert [a.status for a in asked] == ["unanswered", None, None]


@pytest.mark.parametrize(
    ("client", "server", "verdict"),
    [
        (b"", b"", Verdict.MORE),
        (b"F", b"", Verdict.MORE),
        (b"F\x00", b"", Verdict.MAYBE),
        (b"F\x00F", b"", Verdict.MAYBE),
        (b"F\x00F\x00", b"", Verdict.YES),
        (b"F\x00z", b"", Verdict.NO),
        (b"F\x00F\x00", b"z", Verdict.NO),
        (b"", b"F\x00F\x00", Verdict.YES),
    ],
)
def test_detection_considers_both_sides(client, server, verdict):
    assert Toy.detect(Sample(client), Sample(server)) is verdict


def test_detection_in_the_middle_tries_segment_starts():
    assert Toy.detect(Sample(b"??F\x00F\x00", (0, 2), from_start=False), Sample()) is Verdict.YES


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

    def claim(events: Iterator[Event]) -> None:
        for event in events:
            if isinstance(event, Message):
                frame = event.frame
                span = set(range(frame.offset, min(frame.offset + frame.size, len(data))))
                for start, stop in frame.holes:
                    span -= set(range(frame.offset + start, frame.offset + stop))
            elif isinstance(event, Skipped):
                span = set(range(event.offset, min(event.offset + event.length, len(data)))) - holes
            else:
                continue
            for offset in span:
                claimed[offset] += 1

    for stop in sorted({len(data), *holes, *(h + 1 for h in holes)}):
        if not at < stop <= len(data):
            continue
        if at in holes:
            claimed[at] += 1
            claim(dissector.gap(gap(at, 1)))
        else:
            claim(dissector.feed(chunk(data[at:stop], at)))
        at = stop
    for side in Side:
        claim(dissector.close(side))
    assert claimed == [1] * len(data)


# ---- frames that are walked, layers that begin by themselves, and losses


class Beads(Toy):
    """Toy with strings of beads: b"S", the size promised, the count of beads; a bead is a size and as many bytes.

    A bead of size 0 breaks the string. b"L" means that the side goes on in another layer.
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.lost: list[int | None] = []

    head_max = 3

    @classmethod
    def probe(cls, side, head):
        return super().probe(side, head[:2])

    def frame_size(self, side, head):
        if head[:1] == b"L":
            return Switch("toy", 1)
        if head[:1] == b"S":
            return Walk(3, 3 + head[1], head[2]) if len(head) >= 3 else NEED
        return super().frame_size(side, head)

    def walk(self, side, walk, data):
        if not walk.state:
            return walk.size
        if data[0] == 0:
            return Broken(1)
        return Walk(walk.size + 1 + data[0], walk.promised, walk.state - 1)

    def missed(self, side, length):
        self.lost.append(length)


def beads(limits: Limits | None = None) -> Beads:
    return Beads(Settings(limits or Limits()))


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


def test_a_side_that_goes_on_in_another_layer_is_handed_over():
    dissector = beads()
    events = dissector.feed(chunk(b"F\x00Labc"))
    assert told([next(events)]) == [("F", 0, b"", 2)]
    upgrade = next(events)
    assert isinstance(upgrade, Upgrade)
    assert (upgrade.at, upgrade.to) == ({Side.CLIENT: 2}, "toy")
    back = dissector.surrender(Side.CLIENT, 2)
    assert [(c.offset, c.data) for c in back if isinstance(c, Chunk)] == [(2, b"Labc")]
    assert told(events) == []
    assert run(dissector, chunk(b"F\x01x", 2)) == [("F", 2, b"x", 3)]


def test_a_layer_that_nobody_takes_is_passed_over():
    assert run(beads(), chunk(b"LF\x00F\x00")) == [("upgrade",), ("skipped", 0, 1), ("F", 1, b"", 2), ("F", 3, b"", 2)]


@pytest.mark.parametrize(
    ("events", "lost"),
    [
        ((gap(0, 4), chunk(b"F\x00F\x00", 4)), [4]),
        ((chunk(b"F"), gap(1, 3), chunk(b"F\x00F\x00", 4)), [4]),
        ((chunk(b"F\x02a"), gap(3, 5), chunk(b"F\x00F\x00", 8)), [4]),
        ((gap(0, 2), chunk(b"??F\x00F\x00", 2)), [4]),
        ((gap(0, 2), chunk(b"?", 2), gap(3, 2), chunk(b"F\x00F\x00", 5)), [5]),
        ((gap(0, 0, known=False), chunk(b"F\x00F\x00")), [None]),
        ((chunk(b"F\x05a"), gap(3, 2), chunk(b"deF\x00", 5)), []),
    ],
)
def test_a_side_in_step_again_is_told_how_much_was_missed(events, lost):
    dissector = beads()
    run(dissector, *events)
    assert dissector.lost == lost


def test_a_capture_that_begins_in_the_middle_missed_nobody_knows_how_much():
    dissector = beads()
    dissector.start(Side.CLIENT, in_step=False)
    run(dissector, chunk(b"F\x00F\x00"))
    assert dissector.lost == [None]


def test_a_lone_frame_is_believed_when_the_peer_speaks():
    dissector = toy(in_step=False)
    assert run(dissector, chunk(b"??F\x01a"), close=False) == []
    assert run(dissector, chunk(b"?", side=Side.SERVER), close=False) == [("skipped", 0, 2), ("F", 2, b"a", 3)]


def test_a_frame_that_goes_on_is_not_believed_when_the_peer_speaks():
    dissector = toy(in_step=False)
    assert run(dissector, chunk(b"F\x09ab"), chunk(b"?", side=Side.SERVER), close=False) == []


def test_a_long_search_forgets_the_packets_behind_it():
    dissector = toy(in_step=False)
    stream = dissector._streams[Side.CLIENT]
    for n in range(1000):
        assert run(dissector, chunk(b"??", 2 * n, packet=n), close=False) == []
    assert len(stream._marks) < 10
    (skipped,) = dissector.close(Side.CLIENT)
    assert (skipped.offset, skipped.length, skipped.first_packet) == (0, 2000, 0)


def test_detection_in_the_middle_never_refutes():
    assert Toy.detect(Sample(b"??", (0, 1), from_start=False), Sample()) is Verdict.MORE
