"""Segments in, bytes out: what is new, what is repeated, what is odd, and what is not believed."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tcpfaults import conversations, doubled, garbage, shuffled, timed
from tcpscript import FIN, PSH, RST, SYN, A, B, Packet, Tale, a, b, handshake, play, play_one

from mqsniff.limits import MIB, Limits

URG = 32

PLAIN_CASES = {
    "in order": ([a(0, b"hello"), a(5, b"world")], b"helloworld"),
    "out of order": ([a(0, b"one"), a(6, b"three"), a(3, b"two")], b"onetwothree"),
    "far out of order": ([a(n, b"%d" % n) for n in (0, 5, 4, 3, 2, 1)], b"012345"),
    "sent again": ([a(0, b"hello"), a(0, b"hello"), a(5, b"!")], b"hello!"),
    "sent again with more": ([a(0, b"hello"), a(0, b"hello world")], b"hello world"),
    "sent again with the end of it": ([a(0, b"hello"), a(3, b"lo world")], b"hello world"),
    "sent again while it waits": ([a(3, b"two"), a(3, b"two"), a(0, b"one")], b"onetwo"),
    "between two that wait": ([a(2, b"2"), a(6, b"6"), a(1, b"12345"), a(0, b"0")], b"0123456"),
    "over all that waits": ([a(2, b"2"), a(4, b"4"), a(0, b"012345")], b"012345"),
    "urgent data": ([a(0, b"he", flags=URG), a(2, b"y", flags=URG | PSH)], b"hey"),
    "a segment without the ACK flag": ([a(0, b"he", ack=None), a(2, b"y", ack=None)], b"hey"),
    "empty keep-alive probe": ([a(0, b"hello"), a(4), b(0, ack=5), a(5, b"!")], b"hello!"),
    "keep-alive probe with a byte": ([a(0, b"hello"), a(4, b"\0"), b(0, ack=5), a(5, b"!")], b"hello!"),
    "keep-alive probe before any data": ([a(-1), a(-1, b"\0"), b(0), a(0, b"hello")], b"hello"),
    "zero window probe": ([a(0, b"hello"), a(5, b"w"), b(0, ack=5), a(5, b"world")], b"helloworld"),
    "payload in a FIN": ([a(0, b"hello"), a(5, b"bye", flags=FIN)], b"hellobye"),
    "a FIN that comes too early": ([a(5, b"bye", flags=FIN), a(0, b"hello")], b"hellobye"),
}


@pytest.mark.parametrize(("packets", "sent"), PLAIN_CASES.values(), ids=PLAIN_CASES)
@pytest.mark.parametrize("isn", [1_000, 0xFFFF_FFFF, 0xFFFF_FFFC, 0xFFFF_FFFE - 10, 0x7FFF_FFFE])
def test_the_bytes_of_a_direction_are_whole_whatever_way_they_come(packets: list[Packet], sent: bytes, isn: int):
    shifted = [packet.but(isn=isn) if packet.direction == A else _acknowledging(packet, isn) for packet in packets]
    opening = [a(0, ack=None, flags=SYN, isn=isn), b(0, flags=SYN, raw_ack=isn + 1), a(0, isn=isn)]
    tale = play_one(opening + shifted)
    assert tale.data(A) == sent
    assert (tale.gaps, tale.problems) == ([], [])
    assert tale.facts.sizes == (len(sent), 0)


def _acknowledging(packet: Packet, isn: int) -> Packet:
    return packet.but(raw_ack=isn + 1 + packet.ack)


COUNTED = {
    # name: (packets, retransmitted, out of order, duplicates)
    "in order": ([a(0, b"hello"), a(5, b"world")], 0, 0, 0),
    "a late segment is out of order": ([a(3, b"two"), a(0, b"one")], 0, 1, 0),
    "those that came too early are not": ([a(3, b"two"), a(6, b"six"), a(0, b"one")], 0, 1, 0),
    "each late one counts": ([a(4, b"4"), a(2, b"2"), a(0, b"0"), a(3, b"3"), a(1, b"1")], 0, 4, 0),
    "the same bytes in another packet": ([a(0, b"hello", ip_id=1), a(0, b"hello", ip_id=2)], 1, 0, 0),
    "some of the bytes in another packet": ([a(0, b"hello", ip_id=1), a(3, b"lo you", ip_id=2)], 1, 0, 0),
    "the same packet": ([a(0, b"hello", ip_id=1), a(0, b"hello", ip_id=1)], 0, 0, 1),
    "the same packet twice more": ([a(0, b"hello", ip_id=1)] * 3, 0, 0, 2),
    "the same packet while it waits": ([a(5, b"you", ip_id=1), a(5, b"you", ip_id=1), a(0, b"hello")], 0, 1, 1),
    "the same packet much later": ([a(0, b"hello", ip_id=1, ms=3), a(0, b"hello", ip_id=1, ms=14)], 1, 0, 0),
    "the same packet on another interface": (
        [a(0, b"hello", ip_id=1, ms=3), a(0, b"hello", ip_id=1, ms=500, interface=1)],
        0,
        0,
        1,
    ),
    "the same identification, other bytes": ([a(0, b"hello", ip_id=1), a(0, b"hullo", ip_id=1)], 1, 0, 0),
    "without identification, the same acknowledgement": ([a(0, b"hello")] * 2, 0, 0, 1),
    "without identification, another acknowledgement": (
        [a(0, b"hello"), b(0, b"x"), a(0, b"hello", ack=1)],
        1,
        0,
        0,
    ),
    "identification 0 is none": ([a(0, b"hello", ip_id=0), b(0, b"x"), a(0, b"hello", ip_id=0, ack=1)], 1, 0, 0),
    "a SYN sent again": ([a(0, ack=None, flags=SYN, ip_id=99)], 1, 0, 0),
    "a SYN copied": ([a(0, ack=None, flags=SYN, ip_id=5)], 0, 0, 1),
    "a FIN sent again": ([a(0, flags=FIN, ip_id=1), a(0, flags=FIN, ip_id=2)], 1, 0, 0),
    "a FIN copied": ([a(0, flags=FIN, ip_id=1), a(0, flags=FIN, ip_id=1)], 0, 0, 1),
    "payload and FIN sent again": ([a(0, b"x", flags=FIN, ip_id=1), a(0, b"x", flags=FIN, ip_id=2)], 1, 0, 0),
    "keep-alive probes are nothing": ([a(0, b"hello"), a(4), a(4, b"\0"), a(4, b"\0")], 0, 0, 0),
    "one byte sent again is no keep-alive probe": ([a(0, b"h", ip_id=1), a(0, b"h", ip_id=2)], 1, 0, 0),
    "pure acknowledgements are nothing": ([a(0), a(0), b(0), b(0)], 0, 0, 0),
}


@pytest.mark.parametrize(("packets", "again", "late", "copies"), COUNTED.values(), ids=COUNTED)
def test_repeated_and_late_segments_are_counted_by_their_cause(
    packets: list[Packet], again: int, late: int, copies: int
):
    opening = handshake(ip_id=5)
    tale = play_one(opening + packets)
    facts = tale.facts
    assert (facts.retransmitted_segments, facts.out_of_order_segments, facts.duplicate_packets) == (again, late, copies)
    assert sum(facts.packets) == len(opening) + len(packets)


def test_a_copy_is_known_among_the_last_segments_only_and_whatever_the_batches():
    limits = Limits(recent_segments=3)
    first = [a(n, b"x", ip_id=50 + n) for n in range(4)]
    assert play_one([*handshake(), *first, first[1]], limits, step_ms=0.1).facts.duplicate_packets == 1
    assert play_one([*handshake(), *first, first[0]], limits, step_ms=0.1).facts.retransmitted_segments == 1
    assert play_one([*handshake(), *first, first[1]], limits, step_ms=0.1, cuts=(4, 5, 7)).facts.duplicate_packets == 1


# ---- bytes that differ

CLASHES = {
    "in delivered bytes": ([a(0, b"hello"), a(0, b"heLLo")], b"hello", 2, 3),
    "in delivered bytes, with new ones after": ([a(0, b"hello"), a(3, b"LO you")], b"hello you", 3, 6),
    "in waiting bytes": ([a(5, b"you"), a(5, b"yOu"), a(0, b"hello")], b"helloyou", 6, 2),
    "in waiting bytes, with new ones before": ([a(5, b"you"), a(0, b"helloYou")], b"helloyou", 5, 3),
}


@pytest.mark.parametrize(("packets", "kept", "offset", "size"), CLASHES.values(), ids=CLASHES)
def test_the_first_bytes_win_and_others_are_a_problem(packets: list[Packet], kept: bytes, offset: int, size: int):
    tale = play_one([*handshake(), *packets])
    assert tale.data(A) == kept
    assert tale.problems == [("overlap", offset, size)]
    assert tale.facts.retransmitted_segments == 1


def test_repeated_bytes_are_compared_as_far_as_delivered_ones_are_kept():
    limits = Limits(overlap_history=4)
    start = [*handshake(), a(0, b"0123"), a(4, b"4567")]
    assert play_one([*start, a(4, b"4x67")], limits).problems == [("overlap", 5, 3)]
    assert play_one([*start, a(0, b"xxxx")], limits).problems == []
    assert play_one([*start, a(0, b"xxxx4567")], limits).problems == []
    assert play_one([*start, a(2, b"xx4x")], limits).problems == [("overlap", 5, 1)]


# ---- where a stream starts


def test_payload_in_a_syn_is_the_start_of_the_stream():
    first = a(0, b"GET ", ack=None, flags=SYN)
    tale = play_one([first, b(0, flags=SYN, ack=4), a(4, b"/"), b(0, b"OK", ack=5)])
    assert (tale.data(A), tale.data(B)) == (b"GET /", b"OK")
    refused = play_one([first, b(0, flags=SYN, ack=0), a(0, b"GET /"), b(0, b"OK", ack=5)])
    assert refused.data(A) == b"GET /"
    assert refused.facts.retransmitted_segments == 1


def test_a_stream_joined_in_the_middle_starts_with_the_first_payload_seen():
    tale = play_one([a(700, b"hello", ack=None), a(690, b"0123456789", ack=None), a(705, b"world", ack=None)])
    assert tale.data(A) == b"hello" + b"world"
    assert tale.facts.retransmitted_segments == 1
    assert tale.facts.outcome == "mid-stream"


def test_a_stream_joined_in_the_middle_starts_where_the_peer_has_it_if_that_is_known_first():
    tale = play_one([b(300, ack=700), a(705, b"world", ack=300), *[b(300, ack=710)] * 70], step_ms=10)
    assert tale.gaps == [(A, 0, 5)]
    assert tale.streams[A] == {5: b"world"}
    assert tale.facts.sizes == (10, 0)


def test_the_handshake_may_come_after_the_first_payload():
    syn, answer, ack = handshake()
    tale = play_one([answer, a(0, b"hello"), syn, ack, b(0, b"world", ack=5)])
    assert (tale.data(A), tale.data(B), tale.client) == (b"hello", b"world", A)
    assert tale.facts.handshake_seen


# ---- the end of a stream


def test_bytes_after_a_fin_are_named_and_ignored():
    tale = play_one([*handshake(), a(0, b"bye", flags=FIN), a(3, b"more"), a(1, b"ye and more")])
    assert tale.data(A) == b"bye"
    assert tale.problems == [("trailing_bytes", 3, 4), ("trailing_bytes", 3, 9)]
    assert tale.facts.ignored_segments == 2


def test_bytes_that_waited_behind_the_place_of_a_fin_are_named_and_ignored():
    tale = play_one([*handshake(), a(5, b"more"), a(0, b"bye", flags=FIN)])
    assert tale.data(A) == b"bye"
    assert tale.problems == [("trailing_bytes", 3, 4)]


def test_a_keep_alive_probe_after_a_fin_is_no_byte_after_the_end():
    tale = play_one([*handshake(), a(0, b"bye", flags=FIN), a(3, b"\0")])
    assert (tale.data(A), tale.problems) == (b"bye", [])


def test_a_fin_where_bytes_have_been_delivered_is_not_believed():
    tale = play_one([*handshake(), a(0, b"hello"), a(2, flags=FIN), a(5, b"world")])
    assert tale.data(A) == b"helloworld"
    assert tale.problems == [("out_of_range", 5, None)]
    assert tale.closed == []


def test_text_that_a_rst_brings_is_no_part_of_the_stream():
    tale = play_one([*handshake(), a(0, b"hello"), a(5, b"go away", flags=RST)])
    assert tale.data(A) == b"hello"
    assert tale.problems == [("trailing_bytes", 5, 7)]
    assert tale.closed == [(A, "rst")]


def test_a_rst_behind_the_stream_ends_it_where_it_is():
    tale = play_one([*handshake(), a(0, b"hello", ip_id=8), a(2, flags=RST, ack=None), a(0, b"hello", ip_id=9)])
    assert (tale.data(A), tale.problems, tale.facts.retransmitted_segments) == (b"hello", [], 1)
    assert [told[3].offset for told in tale.told if told[0] == "side closed"] == [5]


def test_a_fin_that_is_captured_behind_a_rst_is_nothing_odd():
    tale = play_one([*handshake(), a(0, b"hello"), a(5, flags=RST, ack=None), a(3, flags=FIN)])
    assert (tale.problems, tale.closed) == ([], [(A, "rst")])


def test_a_rst_far_from_the_stream_is_not_believed():
    tale = play_one([*handshake(), a(0, b"hello"), a(17 * MIB, flags=RST, ack=None), a(5, b"world")])
    assert tale.data(A) == b"helloworld"
    assert tale.problems == [("out_of_range", 5, None)]
    assert tale.facts.close_reason is None


# ---- packets cut by the snap length


def test_what_the_snap_length_cut_is_a_gap_of_known_size_at_its_own_packet():
    tale = play_one([*handshake(), a(0, b"hell", size=9), a(9, b"!"), a(10, b"", size=5), a(15, b"?")])
    assert tale.streams[A] == {0: b"hell", 9: b"!", 15: b"?"}
    assert tale.gaps == [(A, 4, 5), (A, 10, 5)]
    assert [told[-1].packet for told in tale.told if told[0] == "gap"] == [4, 6]
    assert tale.facts.sizes == (16, 0)
    assert tale.facts.gap_bytes == (10, 0)


def test_a_whole_packet_fills_what_was_cut_while_it_waits():
    cut = a(3, b"lo", size=5, ip_id=1)
    for packets in ([cut, a(3, b"lo wo", ip_id=2)], [a(3, b"lo wo", ip_id=2), cut]):
        tale = play_one([*handshake(), *packets, a(0, b"hel"), a(8, b"rld")])
        assert (tale.data(A), tale.gaps) == (b"hello world", [])


# ---- numbers that are not believed


def test_a_segment_far_from_the_stream_is_ignored_and_named():
    tale = play_one([*handshake(), a(0, b"hello"), a(17 * MIB, b"forged"), a(5, b"world"), b(0, ack=10)])
    assert (tale.data(A), tale.gaps) == (b"helloworld", [])
    assert tale.problems == [("out_of_range", 5, 6)]
    assert tale.facts.ignored_segments == 1


def test_the_counts_of_a_connection_are_those_of_both_sides():
    of_a = [a(0, b"hi", ip_id=1), a(0, b"hi", ip_id=1), a(4, b"!", ip_id=2), a(2, b"ho", ip_id=3), a(17 * MIB, b"x")]
    of_b = [b(0, b"hi", ip_id=1), b(0, b"hi", ip_id=1), b(4, b"!", ip_id=2), b(2, b"ho", ip_id=3), b(17 * MIB, b"x")]
    of_b += [b(0, b"hi", ip_id=1), b(7, b"!", ip_id=4), b(5, b"ha", ip_id=5), b(19 * MIB, b"x")]
    again = [a(0, b"hi", ip_id=7), b(0, b"hi", ip_id=7), b(0, b"hi", ip_id=8)]
    lost = [a(6, b"A"), b(10, b"B")]
    facts = play_one([*handshake(), *of_a, *of_b, *again, *lost]).facts
    assert facts.duplicate_packets == 1 + 2
    assert facts.out_of_order_segments == 1 + 2
    assert facts.ignored_segments == 1 + 2
    assert facts.retransmitted_segments == 1 + 2
    assert facts.gap_bytes == (1, 2)
    assert facts.sizes == (7, 11)
    assert facts.packets == (2 + 5 + 1 + 1, 1 + 9 + 2 + 1)


def test_noise_is_told_up_to_a_cap_and_counted_beyond_it():
    noise = [a(17 * MIB * n, b"forged") for n in range(1, 21)]
    tale = play_one([*handshake(), a(0, b"hello"), *noise, a(5, b"world")], Limits(oddities_max=3))
    assert tale.data(A) == b"helloworld"
    assert len(tale.problems) == 3
    assert tale.facts.ignored_segments == 20


def test_a_stream_goes_on_behind_a_gap_where_the_peer_acknowledges_what_nobody_believed():
    jump = 40 * MIB
    packets = [a(0, b"hello"), a(jump, b"far "), a(jump + 4, b"away"), b(0, ack=jump + 8), a(jump + 8, b"!")]
    tale = play_one([*handshake(), *packets])
    assert tale.streams[A] == {0: b"hello", jump: b"far away!"}
    assert tale.gaps == [(A, 5, jump - 5)]
    assert tale.facts.ignored_segments == 0


def test_a_jump_that_may_have_gone_round_all_numbers_is_a_gap_of_unknown_size():
    jump = 3 << 30
    tale = play_one([*handshake(), a(0, b"hello"), a(jump, b"far"), b(0, ack=jump + 3)])
    (gap,) = [told for told in tale.told if told[0] == "gap"]
    assert gap[1:5] == (A, 5, jump - 5, False)
    assert tale.streams[A][jump] == b"far"


def test_without_a_peer_segments_that_follow_each_other_are_believed_together():
    start = [a(0, b"hello", ack=None)]
    far = [a(40 * MIB + n, b"x", ack=None) for n in range(4)]
    assert play_one([*start, *far[:3]]).data(A) == b"hello"
    assert play_one([*start, far[0], far[0], far[0], far[0]]).data(A) == b"hello"
    assert play_one([*start, *far[:3], a(5, b"!", ack=None), far[3]]).data(A) == b"hello!"
    assert play_one([*start, *far]).data(A) == b"helloxxxx"


def test_a_start_that_a_forged_acknowledgement_gave_is_taken_back():
    forged = [b(0, ack=100 * MIB), b(0, ack=100 * MIB + 50)]
    packets = [*forged, a(0, b"hello", ack=0), a(5, b"world"), b(0, ack=10), *[a(10 + n, b"!") for n in range(70)]]
    tale = play_one(packets, step_ms=10)
    assert tale.data(A) == b"helloworld" + b"!" * 70
    assert tale.gaps == []


def test_a_forged_acknowledgement_neither_loses_nor_holds_anything():
    packets = [a(0, b"hello"), b(0, ack=900 * MIB), b(0, ack=5), *[a(5 + n, b"x", ack=0) for n in range(80)]]
    tale = play_one([*handshake(), *packets], step_ms=10)
    assert (tale.data(A), tale.gaps) == (b"hello" + b"x" * 80, [])


@pytest.mark.parametrize("ack", [2000 * MIB, -1500 * MIB])
def test_an_acknowledgement_that_cannot_be_is_named_and_what_came_with_it_is_taken(ack: int):
    unbelievable = play_one([*handshake(), a(0, b"hello"), b(0, b"x", ack=ack), a(5, b"y", ack=1)])
    assert (unbelievable.data(A), unbelievable.data(B)) == (b"helloy", b"x")
    assert unbelievable.problems == [("out_of_range", 0, None)]


def test_a_stream_may_be_longer_than_its_numbers_reach():
    step = 1000 * MIB
    limits = Limits(gap_grace_packets=1, gap_grace_ns=1)
    packets = list(handshake())
    for n in range(1, 10):
        packets += [b(0, ack=n * step), b(0, ack=n * step), a(n * step, b"%d" % n)]
    tale = play_one(packets, limits)
    assert tale.streams[A] == {n * step: b"%d" % n for n in range(1, 10)}
    assert tale.facts.sizes[A] == 9 * step + 1 > 1 << 32


# ---- properties


@given(st.data(), conversations())
@settings(max_examples=50, deadline=None)
def test_doubling_and_shuffling_within_the_grace_changes_no_byte(data: st.DataObject, conversation):
    opening = conversation.opening
    if not opening:
        conversation.packets[:0] = handshake(ip_id=7)
        opening = 3
    packets, copies, again = data.draw(doubled(conversation.packets, opening))
    packets = data.draw(shuffled(packets, opening))
    tale = play_one(packets, step_ms=0.1)
    assert (tale.data(A), tale.data(B)) == (conversation.sent[A], conversation.sent[B])
    assert (tale.gaps, tale.problems) == ([], [])
    assert (tale.facts.duplicate_packets, tale.facts.retransmitted_segments) == (copies, again)


@given(st.data(), conversations())
@settings(max_examples=50, deadline=None)
def test_loss_leaves_every_other_byte_at_its_place(data: st.DataObject, conversation):
    packets = conversation.packets[conversation.opening :]
    kept = data.draw(st.lists(st.booleans(), min_size=len(packets), max_size=len(packets)))
    seen = [packet for packet, keep in zip(packets, kept, strict=True) if keep]
    tale = play_one([*handshake(), *data.draw(shuffled(seen, 0, 2))])
    check_extent(tale)
    for direction in (A, B):
        sent = conversation.sent[direction]
        told = tale.streams[direction]
        assert all(sent[offset : offset + len(part)] == part for offset, part in told.items())
        mine = [packet for packet in seen if packet.direction == direction]
        captured = {at for packet in mine for at in range(packet.seq, packet.seq + len(packet.data))}
        assert {at for offset, part in told.items() for at in range(offset, offset + len(part))} == captured


@given(st.lists(garbage(), max_size=80).flatmap(timed))
@settings(max_examples=50, deadline=None)
def test_garbage_neither_raises_nor_makes_bytes_up(packets: list[Packet]):
    tales = play(packets, Limits(reorder_max=50, reorder_segments=5))
    payload = sum(len(packet.data) for packet in packets)
    assert sum(len(tale.data(A)) + len(tale.data(B)) for tale in tales) <= payload
    for tale in tales:
        check_extent(tale)


def check_extent(tale: Tale) -> None:
    """Bytes and gaps of a direction adjoin each other from 0 to its size."""
    for direction in (A, B):
        at = 0
        for told in tale.told:
            if told[:2] == ("bytes", direction):
                assert told[2] == at
                at += len(told[3])
            elif told[:2] == ("gap", direction):
                assert told[2] == at
                at += told[3]
        assert at == tale.facts.sizes[direction]
        assert sum(length for side, _, length in tale.gaps if side == direction) == tale.facts.gap_bytes[direction]
