"""Order of cause, and when a hole is given up."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tcpfaults import conversations, shuffled
from tcpscript import FIN, RST, A, B, Packet, Tale, a, b, goodbye, handshake, play_one

from mqsniff.limits import Limits


def order(tale: Tale) -> list[tuple]:
    """(direction, bytes or length of a gap, release) as told; bytes that were released together are one."""
    told: list[tuple] = []
    for kind, *rest in tale.told:
        if kind == "gap":
            told.append((rest[0], rest[2], rest[4].release))
        elif kind == "bytes":
            side, _, data, (*_, release) = rest
            last = told[-1] if told else (None, 0, 0)
            if last[0] == side and last[2] == release and isinstance(last[1], bytes):
                data = told.pop()[1] + data
            told.append((side, data, release))
    return told


# ---- both directions


def test_both_sides_are_told_in_the_order_of_their_packets():
    packets = [a(0, b"q1"), b(0, b"r1", 2), a(2, b"q2", 2), b(2, b"r2", 4)]
    assert order(play_one(packets)) == [(A, b"q1", 0), (B, b"r1", 1), (A, b"q2", 2), (B, b"r2", 3)]


def test_a_chunk_ends_where_the_other_side_begins():
    packets = [a(0, b"q1"), a(2, b"q2"), b(0, b"r1", 4), b(2, b"r2", 4), a(4, b"q3", 4)]
    assert [(chunk.direction, chunk.data) for chunk in play_one(packets).chunks] == [
        (A, b"q1q2"),
        (B, b"r1r2"),
        (A, b"q3"),
    ]


def test_an_answer_that_was_captured_before_its_question_is_told_behind_it():
    packets = [*handshake(), b(0, b"answer", 8), a(0, b"question"), b(6, b"more", 8)]
    assert order(play_one(packets)) == [(A, b"question", 4), (B, b"answer", 4), (B, b"more", 5)]


def test_what_follows_a_held_answer_waits_with_it():
    packets = [*handshake(), b(0, b"r1", 2), b(2, b"r2", 2), a(2, b"q2", 4), a(0, b"q1")]
    assert order(play_one(packets)) == [(A, b"q1", 6), (B, b"r1r2", 6), (A, b"q2", 6)]


def test_a_question_that_never_comes_holds_its_answer_for_the_grace_only():
    limits = Limits(gap_grace_packets=3, gap_grace_ns=1)
    packets = [*handshake(), b(0, b"answer", 8), b(6, ack=8), b(6, ack=8), b(6, ack=8), b(6, b"!", 8)]
    assert order(play_one(packets, limits)) == [(A, 8, 6), (B, b"answer", 6), (B, b"!", 7)]


def test_two_segments_that_acknowledge_each_other_go_out_as_they_came():
    packets = [*handshake(), a(0, b"one", 3), b(0, b"two", 3)]
    assert order(play_one(packets)) == [(A, b"one", 4), (B, b"two", 4)]


def test_of_what_one_packet_sets_free_the_first_captured_goes_first():
    packets = [*handshake(), b(0, b"r1", 2), a(2, b"q2", 0), a(0, b"q1"), b(2, b"r2", 4)]
    assert order(play_one(packets)) == [(A, b"q1", 5), (B, b"r1", 5), (A, b"q2", 5), (B, b"r2", 6)]


def test_a_segment_with_a_forged_acknowledgement_is_held_until_the_next_one_takes_it_back():
    packets = [*handshake(), a(0, b"one", 500), a(3, b"two", 0), a(6, b"six", 0)]
    assert order(play_one(packets)) == [(A, b"onetwo", 4), (A, b"six", 5)]


def test_released_bytes_keep_their_own_packet_and_name_the_one_that_released_them():
    tale = play_one([*handshake(), a(2, b"cd"), a(4, b"ef"), a(0, b"ab")])
    (told,) = [chunk.marks for chunk in tale.chunks]
    assert [(mark.offset, mark.packet, mark.release) for mark in told] == [(0, 6, 5), (2, 4, 5), (4, 5, 5)]


# ---- holes

HOLE = [*handshake(), a(0, b"one"), a(6, b"three")]
GRACE = Limits(gap_grace_packets=4, gap_grace_ns=4_000_000)


def test_a_hole_is_given_up_by_the_first_packet_after_its_grace():
    told = order(play_one([*HOLE, *[b(0, ack=11)] * 6], GRACE))
    # Packet 5 acknowledges past the hole; four packets and four milliseconds later is packet 9.
    assert told == [(A, b"one", 3), (A, 3, 9), (A, b"three", 9)]


@pytest.mark.parametrize(("step_ms", "release"), [(0.5, 13), (1.0, 9), (50.0, 9)])
def test_the_grace_is_packets_or_time_whichever_is_later(step_ms: float, release: int):
    told = order(play_one([*HOLE, *[b(0, ack=11)] * 20], GRACE, step_ms=step_ms))
    assert told[1] == (A, 3, release)


def test_the_packet_that_ends_the_grace_may_still_fill_the_hole():
    told = order(play_one([*HOLE, *[b(0, ack=11)] * 4, a(3, b"two")], GRACE))
    assert told == [(A, b"one", 3), (A, b"twothree", 9)]


def test_a_hole_that_the_peer_has_not_acknowledged_stays_open():
    told = order(play_one([*HOLE, *[b(0, ack=3)] * 200, a(3, b"two")], GRACE, step_ms=10))
    assert told == [(A, b"one", 3), (A, b"twothree", 205)]


def test_only_what_was_acknowledged_is_given_up():
    packets = [*HOLE, *[b(0, ack=5)] * 5, a(5, b"o"), b(0, ack=11)]
    told = order(play_one(packets, GRACE))
    assert told == [(A, b"one", 3), (A, 2, 9), (A, b"othree", 10)]


def test_bytes_that_come_after_their_hole_was_given_up_are_late():
    tale = play_one([*HOLE, *[b(0, ack=11)] * 6, a(3, b"two")], GRACE)
    assert (tale.data(A), tale.problems) == (b"onethree", [])
    assert tale.facts.retransmitted_segments == 1
    assert tale.facts.gap_bytes == (3, 0)


def test_acknowledged_bytes_that_nothing_follows_are_given_up_too():
    told = order(play_one([*handshake(), a(0, b"one"), *[b(0, ack=9)] * 6], GRACE))
    assert told == [(A, b"one", 3), (A, 6, 8)]


def test_of_two_holes_the_one_that_was_acknowledged_first_is_given_up_first():
    for first, second in ((A, B), (B, A)):
        packets = [
            *handshake(),
            Packet(second, 0, b"", 3, ms=3),
            Packet(first, 0, b"", 4, ms=4),
            *[Packet(first, 0, b"", 4, ms=5)] * 3,
            Packet(first, 0, b"", 4, ms=90),
        ]
        told = order(play_one(packets, GRACE))
        assert told == [(first, 3, 8), (second, 4, 8)]


def test_the_number_of_a_fin_is_no_byte_whatever_is_captured_first():
    rest = [b(n, b"x", 4) for n in range(20)]
    before = [*handshake(), a(0, b"bye", flags=FIN), *rest]
    after = [*handshake(), a(0, b"bye"), b(0, ack=4), a(3, flags=FIN), *rest]
    for packets in (before, after):
        tale = play_one(packets, GRACE)
        assert (tale.gaps, tale.data(A), tale.data(B)) == ([], b"bye", b"x" * 20)


def test_a_fin_does_not_put_off_giving_up_the_hole_before_it():
    packets = [*handshake(), a(0, b"one"), b(0, ack=7), a(6, flags=FIN), *[b(0, ack=7)] * 6]
    assert order(play_one(packets, GRACE)) == [(A, b"one", 3), (A, 3, 8)]


def test_each_hole_has_its_own_clock():
    packets = [*handshake(), a(2, b"c"), b(0, ack=3), b(0, ack=3), a(5, b"f"), b(0, ack=6), *[b(0, ack=6)] * 6]
    told = order(play_one(packets, GRACE))
    assert told == [(A, 2, 8), (A, b"c", 8), (A, 2, 11), (A, b"f", 11)]


def test_loss_that_goes_on_does_not_put_off_giving_up():
    packets = list(handshake())
    for n in range(60):
        packets += [a(n * 3 + 2, b"x"), b(0, ack=n * 3 + 3)]
    releases = [release for _, what, release in order(play_one(packets, GRACE)) if what == 2]
    assert len(releases) == 60
    # Segment n is packet 3 + 2n and its acknowledgement the next; the grace ends four packets later.
    assert releases[:50] == [8 + 2 * n for n in range(50)]


def test_without_the_peer_the_first_segment_behind_the_hole_starts_the_clock():
    packets = [a(0, b"one", ack=None), a(6, b"three", ack=None), *[a(11 + n, b"x", ack=None) for n in range(6)]]
    told = order(play_one(packets, GRACE))
    assert told == [(A, b"one", 0), (A, 3, 5), (A, b"threexxxx", 5), (A, b"x", 6), (A, b"x", 7)]


def test_a_lower_acknowledgement_takes_back_a_forged_one():
    packets = [*HOLE, b(0, ack=11), *[b(0, ack=3)] * 8, a(3, b"two")]
    assert order(play_one(packets, GRACE)) == [(A, b"one", 3), (A, b"twothree", 14)]


# ---- caps

CAPS = {
    "bytes": (Limits(reorder_max=6), [a(4, b"abc"), a(7, b"def"), a(10, b"g")]),
    "segments": (Limits(reorder_segments=2), [a(4, b"abc"), a(7, b"def"), a(10, b"g")]),
    "bytes cut by the snap length": (Limits(reorder_max=6), [a(4, b"a", size=3), a(7, b"d", size=3), a(10, b"g")]),
}


@pytest.mark.parametrize(("limits", "packets"), CAPS.values(), ids=CAPS)
def test_a_hole_is_given_up_when_too_much_waits_behind_it(limits: Limits, packets: list[Packet]):
    told = order(play_one([*handshake(), *packets, a(11, b"h")], limits))
    assert (told[0], told[-1]) == ((A, 4, 5), (A, b"h", 6))
    assert {release for _, _, release in told[:-1]} == {5}


def test_a_hole_of_the_peer_is_given_up_when_too_much_waits_for_it():
    limits = Limits(reorder_segments=2)
    packets = [*handshake(), b(4, b"peer", 0), *[a(n, b"%d" % n, 8) for n in range(3)], a(3, b"3", 8)]
    assert order(play_one(packets, limits)) == [(B, 4, 6), (B, b"peer", 6), (A, b"012", 6), (A, b"3", 7)]


@pytest.mark.parametrize("direction", [A, B])
def test_the_caps_hold_for_each_direction(direction: int):
    packets = [Packet(direction, 5 + 2 * n, b"x", 0) for n in range(9)]
    tale = play_one([*handshake(), *packets], Limits(reorder_segments=4), end=False)
    assert len(tale.gaps) == 5


@given(st.lists(st.tuples(st.integers(0, 3000), st.integers(1, 60), st.integers(0, 3000)), max_size=60))
@settings(max_examples=50, deadline=None)
def test_what_waits_stays_under_its_caps(segments: list[tuple[int, int, int]]):
    limits = Limits(reorder_max=200, reorder_segments=5)
    packets = [Packet(place % 2, seq, bytes(size), ack) for place, (seq, size, ack) in enumerate(segments)]
    tale = play_one([*handshake(), *packets], limits, end=False, cuts=tuple(range(len(packets))))
    for direction in tale.connection._ordering.directions:
        assert direction.waiting.size <= limits.reorder_max
        assert len(direction.waiting) <= limits.reorder_segments
        assert len(direction.acked_beyond) <= limits.reorder_segments
        assert len(direction._history) <= limits.overlap_history


# ---- directions that the capture does not show


def test_a_side_that_is_not_captured_holds_nothing_after_its_grace_and_is_one_gap_at_the_end():
    packets = [a(10 * n, b"0123456789", ack=7 * n) for n in range(20)]
    tale = play_one(packets, GRACE)
    # What packet 1 acknowledges is waited for until the grace of four packets is over.
    releases = [told[4][-1] for told in tale.told if told[0] == "bytes"]
    assert releases == [0, *[5] * 5, *range(6, 20)]
    assert tale.gaps == [(B, 0, 7 * 19)]
    assert tale.told[-2][0] == "gap"
    assert tale.facts.seen == (True, False)


def test_a_side_that_shows_up_late_begins_with_one_gap():
    packets = [*[a(10 * n, b"0123456789", ack=7 * n) for n in range(10)], b(63, b"here", 100), a(100, b"!", 67)]
    tale = play_one(packets, GRACE)
    assert tale.gaps == [(B, 0, 63)]
    assert order(tale)[-3:] == [(B, 63, 10), (B, b"here", 10), (A, b"!", 11)]


def test_a_dark_side_does_not_go_back():
    acks = [0, 7, 14, 21, 28, 35, 42, 7, 14]
    tale = play_one([a(10 * n, b"0123456789", ack=ack) for n, ack in enumerate(acks)], GRACE)
    assert tale.gaps == [(B, 0, 42)]


def test_a_side_of_which_only_acknowledgements_are_known_is_not_invented():
    tale = play_one([a(0, b"one", 5), a(3, b"two", 5)])
    assert (tale.gaps, tale.facts.sizes) == ([], (6, 0))


# ---- the end


def test_the_end_tells_what_waits_and_what_is_missing():
    tale = play_one([*HOLE, b(0, b"later", 11), b(8, b"end", 11)])
    last = 7
    assert order(tale) == [
        (A, b"one", 3),
        (A, 3, last),
        (A, b"three", last),
        (B, b"later", last),
        (B, 3, last),
        (B, b"end", last),
    ]


def test_at_the_end_too_the_first_captured_goes_first():
    packets = [*handshake(), b(0, b"r1", 2), a(4, b"q3", 2), b(2, b"r2", 6)]
    end = 6
    told = [(A, 2, end), (B, b"r1", end), (A, 2, end), (A, b"q3", end), (B, b"r2", end)]
    assert order(play_one(packets)) == told


def test_the_end_tells_acknowledged_bytes_that_never_came():
    tale = play_one([*handshake(), a(0, b"one"), b(0, ack=10)])
    assert tale.gaps == [(A, 3, 7)]
    assert tale.facts.sizes == (10, 0)


def test_a_fin_that_the_capture_lost_is_no_lost_byte():
    packets = [*handshake(), a(0, b"one"), b(0, ack=3, flags=FIN), a(4, ack=1), b(1, ack=4)]
    tale = play_one(packets)
    assert tale.gaps == []
    assert tale.closed == [(B, "fin"), (A, "fin")]
    assert tale.facts.close_reason == "fin"


def test_a_fin_before_a_rst_that_the_capture_lost_is_no_lost_byte():
    tale = play_one([*handshake(), a(0, b"one"), a(4, flags=RST)])
    assert (tale.gaps, tale.closed) == ([], [(A, "rst")])


def test_one_acknowledged_byte_of_an_open_connection_is_a_lost_byte():
    assert play_one([*handshake(), a(0, b"one"), b(0, ack=4)]).gaps == [(A, 3, 1)]


def test_a_side_closes_when_its_last_byte_is_told():
    packets = [*handshake(), a(3, b"two", flags=FIN), a(0, b"one"), *goodbye(6, 0)[1:]]
    tale = play_one(packets)
    kinds = [told[0] for told in tale.told if told[0] != "identity"]
    assert kinds == ["opened", "bytes", "bytes", "side closed", "side closed", "closed"]
    assert [(told[1], told[3].release) for told in tale.told if told[0] == "side closed"] == [(A, 4), (B, 5)]


@given(st.data(), conversations())
@settings(max_examples=50, deadline=None)
def test_bytes_follow_those_that_they_acknowledge(data: st.DataObject, conversation):
    opening = conversation.opening
    packets = data.draw(shuffled(conversation.packets, opening))
    if not opening:
        packets = [*handshake(), *packets]
    tale = play_one(packets)
    delivered = {A: 0, B: 0}
    for kind, *told in tale.told:
        if kind != "bytes":
            continue
        side, offset, part, place = told
        packet = packets[place[1] - 1]
        assert delivered[1 - side] >= packet.ack - bool(packet.ack > len(conversation.sent[1 - side]))
        delivered[side] = offset + len(part)
