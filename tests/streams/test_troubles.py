"""What the network did to a connection: rows with their packet and time, figures, and bounds."""

from __future__ import annotations

import pytest
from tcpscript import FIN, RST, SYN, A, B, a, b, goodbye, handshake, play_one

from mqsniff.limits import MILLISECOND_NS, Limits
from mqsniff.streams.segment import ZERO_WINDOW

DATA = b"x" * 100


def at(ms: float, packet):
    """A packet at a time of its own."""
    return packet.but(ms=ms)


def told(tale) -> list[tuple[int, str]]:
    """(packet, text) of what the network did."""
    return [
        (mark.packet, text.partition("detail=")[2].split("'")[1])
        for _, _, text, mark in (each for each in tale.told if each[0] == "problem")
        if "severity='info'" in text
    ]


def test_bytes_that_are_sent_again_are_told_with_the_time_since_they_were_first_seen():
    packets = [*handshake(), at(10, a(0, DATA)), at(213.5, a(0, DATA, ip_id=9)), at(214, b(0, ack=100))]
    tale = play_one(packets)
    assert told(tale) == [(5, "100 bytes sent again after 203.500 ms")]
    assert tale.notes == [("retransmission", 0, 100)]
    assert tale.facts.longest_stall_ns == (203_500_000, None)
    assert tale.facts.retransmitted_segments == 1


def test_what_is_sent_a_third_time_is_counted_from_the_first():
    packets = [*handshake(), *(at(ms, a(0, DATA, ip_id=ms)) for ms in (10, 210, 610)), at(620, b(0, ack=100))]
    tale = play_one(packets)
    assert [text for _, text in told(tale)] == [
        "100 bytes sent again after 200.000 ms",
        "100 bytes sent again after 600.000 ms",
    ]
    assert tale.facts.longest_stall_ns == (600 * MILLISECOND_NS, None)


def test_what_is_forgotten_was_first_seen_longer_ago_than_the_oldest_that_is_known():
    packets = [*handshake(), *(a(100 * n, DATA) for n in range(12)), at(300, a(0, DATA, ip_id=9)), b(0, ack=1200)]
    (_, text), *_ = told(play_one(packets, Limits(recent_segments=4)))
    assert text == "100 bytes sent again after more than 289.000 ms"


def test_a_syn_and_a_fin_that_are_sent_again_say_so():
    syns = [at(ms, a(0, ack=None, flags=SYN)) for ms in (0, 1000)]
    rest = [at(1001, b(0, flags=SYN)), at(1002, a(0)), at(1003, a(0, flags=FIN)), at(1300, a(0, flags=FIN))]
    assert [text for _, text in told(play_one([*syns, *rest]))] == [
        "SYN sent again after 1000.000 ms",
        "FIN sent again after 297.000 ms",
    ]


def test_a_copy_by_the_tap_and_a_keep_alive_probe_are_no_trouble():
    data = at(10, a(0, DATA, ip_id=5))
    tale = play_one([*handshake(), data, at(10.01, data), at(5000, a(99, b"\0", ip_id=6)), at(5001, b(0, ack=100))])
    assert told(tale) == []
    assert tale.facts.longest_stall_ns == (None, None)


def test_bytes_that_fill_a_hole_late_are_a_stall_and_reordering_is_not():
    packets = [*handshake(), at(10, a(0, DATA)), at(12, a(200, DATA)), at(52, a(100, DATA)), at(53, b(0, ack=300))]
    tale = play_one(packets)
    assert told(tale) == [(6, "bytes came 40.000 ms after the bytes that follow them")]
    assert tale.notes == [("stall", 100, None)]
    assert tale.facts.longest_stall_ns == (40 * MILLISECOND_NS, None)
    packets[5] = at(13, packets[5])
    tale = play_one(packets)
    assert told(tale) == []
    assert tale.facts.longest_stall_ns == (MILLISECOND_NS, None)


def test_a_window_of_zero_holds_up_the_peer_until_it_opens():
    packets = [
        *handshake(),
        at(10, a(0, DATA)),
        at(11, b(0, ack=100, flags=ZERO_WINDOW)),
        at(500, b(0, ack=100, flags=ZERO_WINDOW)),
        at(1211, b(0, ack=100)),
        at(1212, a(100, DATA)),
    ]
    tale = play_one(packets)
    assert told(tale) == [
        (5, "takes no more bytes: a window of zero"),
        (7, "held up for 1200.000 ms until the peer opened its window again"),
    ]
    assert tale.notes == [("zero_window", 0, None), ("stall", 100, None)]
    assert tale.facts.zero_windows == (0, 1)
    assert tale.facts.longest_stall_ns == (1200 * MILLISECOND_NS, None)


def test_a_window_that_never_opens_again_holds_up_to_the_end():
    packets = [*handshake(), at(10, a(0, DATA)), at(11, b(0, ack=100, flags=ZERO_WINDOW)), at(311, a(100, DATA))]
    tale = play_one(packets)
    assert told(tale)[-1][1] == "held up for 300.000 ms by a window of zero of the peer, to the end"


@pytest.mark.parametrize("shut", [4, 10, 20])
def test_windows_of_zero_are_seen_in_the_middle_of_a_long_run(shut):
    packets = [*handshake(), *(a(100 * n, DATA) for n in range(shut)), b(0, ack=100 * shut, flags=ZERO_WINDOW)]
    packets += [b(0, ack=100 * shut), *(a(100 * n, DATA) for n in range(shut, shut + 40))]
    tale = play_one(packets)
    assert tale.facts.zero_windows == (0, 1)
    assert tale.data(A) == DATA * (shut + 40)


def test_rows_are_bounded_and_the_others_are_counted():
    again = [at(100 + n, a(0, DATA, ip_id=10 + n)) for n in range(9)]
    tale = play_one([*handshake(), at(10, a(0, DATA)), *again, at(200, b(0, ack=100))], Limits(troubles_max=3))
    assert [kind for kind, _, _ in tale.notes] == ["retransmission"] * 4
    assert told(tale)[-1][1] == "6 more: 3 are told one by one"
    assert tale.facts.retransmitted_segments == 9


@pytest.mark.parametrize(
    ("packets", "by"),
    [
        ([*handshake(), *goodbye()], A),
        ([*handshake(), b(0, flags=FIN), a(0, ack=1, flags=FIN), b(1, ack=1)], B),
        ([*handshake(), b(0, flags=RST)], B),
        ([*handshake(), a(0, flags=FIN), b(0, ack=1, flags=RST)], A),
        ([a(0, ack=None, flags=SYN), b(0, raw_ack=1001, flags=RST)], B),
        (handshake(), None),
        ([*handshake(), a(0, DATA), a(500_000_000, flags=RST), b(0, ack=100)], None),
    ],
)
def test_who_closes_is_who_sent_the_first_fin_or_rst_that_is_believed(packets, by):
    assert play_one(packets).facts.closed_by == by
