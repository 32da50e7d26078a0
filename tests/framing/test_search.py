"""Sides that have lost their step, under the toy protocol; then captures that lost the ends of packets."""

from __future__ import annotations

from dataclasses import replace

import pytest
from toyframes import Toy, beads, chunk, gap, run, told, toy

from mqsniff.dissector import NEED, Settings, Verdict
from mqsniff.framing.streambuffer import StreamBuffer
from mqsniff.limits import Limits
from mqsniff.model import Chunk, Mark, ProvenSize, Side


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


class Choosy(Toy):
    """Of the frames that a search believes, it takes those that begin with a small letter, once it knows more."""

    told = 0

    def confirm(self, side, candidate):
        if candidate.frame[2:3] == b"?" and not candidate.final and self.told < 2:
            self.told += 1
            return Verdict.MORE
        return Verdict.YES if candidate.frame[2:3].islower() else Verdict.NO


def choosy() -> Choosy:
    dissector = Choosy(Settings())
    dissector.start(Side.CLIENT, in_step=False)
    return dissector


def test_what_a_dissector_does_not_confirm_is_no_frame():
    assert run(choosy(), chunk(b"F\x01AF\x01aF\x01B"), close=False) == [
        ("skipped", 0, 3),
        ("F", 3, b"a", 3),
        ("F", 6, b"B", 3),
    ]


def test_what_a_dissector_cannot_tell_yet_is_asked_again_with_more_bytes():
    dissector = choosy()
    assert run(dissector, chunk(b"F\x01?F\x01a"), close=False) == []
    assert run(dissector, chunk(b"F\x01b", 6), close=False) == []
    assert run(dissector, chunk(b"F\x01c", 9), close=False)[:2] == [("skipped", 0, 3), ("F", 3, b"a", 3)]


def test_what_a_dissector_cannot_tell_is_told_by_the_end_and_by_wait_max():
    assert run(choosy(), chunk(b"F\x01?F\x01a")) == [("skipped", 0, 3), ("F", 3, b"a", 3)]
    dissector = Choosy(Settings(replace(Limits(), wait_max=4)))
    dissector.start(Side.CLIENT, in_step=False)
    assert run(dissector, chunk(b"F\x01?F\x01aF\x01b"), close=False)[0] == ("skipped", 0, 3)


@pytest.mark.parametrize(("at", "begins"), [(0, True), (3, True), (4, False), (6, False)])
def test_a_packet_begins_where_its_first_byte_stands_however_it_was_cut(at, begins):
    stream = StreamBuffer(Side.CLIENT)
    for piece in (chunk(b"abc", 0, packet=1), chunk(b"def", 3, packet=2), chunk(b"ghi", 6, packet=2)):
        stream.add(piece)
    assert stream.begins_packet(at) is begins


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
    stream = dissector._machine.streams[Side.CLIENT]
    for n in range(1000):
        assert run(dissector, chunk(b"??", 2 * n, packet=n), close=False) == []
    assert len(stream._marks) < 10
    (skipped,) = dissector.close(Side.CLIENT)
    assert (skipped.offset, skipped.length, skipped.first_packet) == (0, 2000, 0)


def test_a_frame_that_ends_exactly_behind_a_gap_is_believed() -> None:
    events = (chunk(b"zzF\x05a"), gap(5, 4), chunk(b"F\x01z", 9))
    assert run(toy(in_step=False), *events) == [("skipped", 0, 2), ("F", 2, b"a", 7, "truncated"), ("F", 9, b"z", 3)]


@pytest.mark.parametrize("length", [3, 5])
def test_a_frame_that_ends_elsewhere_is_not(length: int) -> None:
    events = (chunk(b"zzF\x05a"), gap(5, length), chunk(b"zz", 5 + length))
    assert run(toy(in_step=False), *events) == [("skipped", 0, 5), ("skipped", 5 + length, 2)]


def test_a_gap_of_unknown_length_ends_no_frame() -> None:
    events = (chunk(b"zzF\x05a"), gap(5, 0, known=False), chunk(b"zz", 5))
    assert run(toy(in_step=False), *events) == [("skipped", 0, 5), ("skipped", 5, 2)]


def test_a_frame_with_several_gaps_tells_where_the_next_one_starts() -> None:
    events = (chunk(b"F\x09a"), gap(3, 2), chunk(b"d", 5), gap(6, 4), chunk(b"zF\x02a", 10), gap(14, 0, known=False))
    assert run(toy(in_step=False), *events) == [
        ("skipped", 0, 3),
        ("skipped", 5, 1),
        ("skipped", 10, 1),
        ("F", 11, b"a", 4, "truncated"),
    ]


def test_a_frame_that_does_not_begin_with_a_packet_tells_nothing() -> None:
    events = (chunk(b"zF\x08a"), gap(4, 2), chunk(b"d", 6), gap(7, 3), chunk(b"zF\x02a", 10), gap(14, 0, known=False))
    assert run(toy(in_step=False), *events) == [("skipped", 0, 4), ("skipped", 6, 1), ("skipped", 10, 4)]


def test_where_a_frame_was_expected_and_none_starts_the_search_goes_on() -> None:
    events = (chunk(b"F\x09a"), gap(3, 2), chunk(b"d", 5), gap(6, 5), chunk(b"zzF\x00F\x00", 11))
    assert run(toy(in_step=False), *events)[-3:] == [("skipped", 11, 2), ("F", 13, b"", 2), ("F", 15, b"", 2)]


class Proven(Toy):
    """Its "P" frames prove their size: no second one is needed behind them."""

    @classmethod
    def probe(cls, side, head):
        if head[:1] == b"P":
            return ProvenSize(2 + head[1]) if len(head) == 2 else NEED
        return super().probe(side, head)

    def frame_size(self, side, head):
        return 2 + head[1] if head[:1] == b"P" and len(head) > 1 else super().frame_size(side, head)


def test_a_proven_size_beyond_the_end_is_believed_once_no_more_bytes_come():
    dissector = Proven(Settings())
    dissector.start(Side.CLIENT, in_step=False)
    assert run(dissector, chunk(b"?P\x05ab"), close=False) == []
    assert told(dissector.gap(gap(5, 2))) == [("skipped", 0, 1)]
    assert run(dissector, chunk(b"e", 7), close=False) == [("P", 1, b"ab", 7, "truncated")]


def test_a_size_that_proves_nothing_beyond_the_end_is_not_believed():
    dissector = toy(in_step=False)
    assert run(dissector, chunk(b"?F\x05ab"), gap(5, 2), chunk(b"e", 7)) == [("skipped", 0, 5), ("skipped", 7, 1)]


def test_a_search_begins_where_the_first_bytes_stand():
    assert run(toy(in_step=False), chunk(b"F\0F\0", 10)) == [("F", 10, b"", 2), ("F", 12, b"", 2)]
    dissector = toy(in_step=False)
    assert run(dissector, chunk(b"??"), chunk(b"?F\0F\0", 10)) == [
        ("skipped", 10, 1),
        ("F", 11, b"", 2),
        ("F", 13, b"", 2),
    ]


class Undecided(Toy):
    """Finds "V" frames that it then does not take."""

    @classmethod
    def probe(cls, side, head):
        return 2 if head[:1] == b"V" else super().probe(side, head)


def test_a_place_that_was_found_in_vain_is_not_found_again():
    dissector = Undecided(Settings())
    dissector.start(Side.CLIENT, in_step=False)
    assert run(dissector, chunk(b"??V\0V\0?F\0F\0"), close=False) == [
        ("skipped", 0, 2),
        ("skipped", 2, 5),
        ("F", 7, b"", 2),
        ("F", 9, b"", 2),
    ]


class Timed(Toy):
    """Notes of each candidate when its last byte came."""

    def __init__(self, settings):
        super().__init__(settings)
        self.releases = []

    def confirm(self, side, candidate):
        self.releases.append(candidate.release)
        return Verdict.YES


def test_a_candidate_tells_the_packet_of_its_last_byte():
    dissector = Timed(Settings())
    dissector.start(Side.CLIENT, in_step=False)
    marks = [Mark(0, 1, 1, 1), Mark(3, 2, 2, 2), Mark(5, 3, 3, 3)]
    list(dissector.feed(Chunk(Side.CLIENT, 0, b"?F\x02abF\0", marks)))
    assert dissector.releases == [2]


def test_of_a_frame_whose_rest_was_lost_the_next_is_expected_wherever_the_search_began():
    dissector = toy()
    assert run(dissector, chunk(b"F\0???", packet=1), close=False) == [("F", 0, b"", 2)]
    run(dissector, chunk(b"?", 5, packet=2), chunk(b"F\x08ab", 6, packet=3), gap(10, 2, packet=4), close=False)
    assert run(dissector, chunk(b"????F\x01x", 12, packet=5), close=False)[-1] == ("F", 16, b"x", 3)
