"""A connection's identity, its beginning and end, and what belongs to it."""

from __future__ import annotations

import pytest
from tcpscript import FIN, RST, START_NS, SYN, A, B, Packet, a, b, flow_key, goodbye, handshake, play, play_one

from mqsniff.limits import MIB, MILLISECOND_NS
from mqsniff.streams.connection import connection_id
from mqsniff.streams.segment import Segment

OUTCOMES = {
    # name: (packets, outcome, close reason, open at the end)
    "a whole connection": ([*handshake(), a(0, b"hi"), *goodbye(2)], "established", "fin", False),
    "one that goes on": ([*handshake(), a(0, b"hi")], "established", None, True),
    "a bare handshake": (handshake(), "established", None, True),
    "a handshake without its SYN": ([b(0, flags=SYN), a(0)], "established", None, True),
    "a handshake without its SYN/ACK": ([a(0, ack=None, flags=SYN), a(0)], "established", None, True),
    "half of it closed": ([*handshake(), a(0, flags=FIN), b(0, b"x", 1)], "established", None, True),
    "reset": ([*handshake(), a(0, b"hi"), b(0, ack=2, flags=RST)], "established", "rst", False),
    "closed, then reset": ([*handshake(), *goodbye(), b(1, flags=RST)], "established", "fin", False),
    "half closed, then reset": ([*handshake(), a(0, flags=FIN), b(0, ack=1, flags=RST)], "established", "rst", False),
    "refused": ([a(0, ack=None, flags=SYN), b(0, flags=RST, isn=0xFFFF_FFFF)], "refused", "rst", False),
    "no answer": ([a(0, ack=None, flags=SYN)] * 3, "no answer", None, False),
    "an answer that nobody took": ([a(0, ack=None, flags=SYN), b(0, flags=SYN)], "no answer", None, False),
    "a scan that hangs up": (
        [a(0, ack=None, flags=SYN), b(0, flags=SYN), a(0, ack=None, flags=RST)],
        "no answer",
        "rst",
        False,
    ),
    "joined in the middle": ([a(70, b"hi"), b(30, ack=72)], "mid-stream", None, True),
    "joined at the end": ([a(70, flags=FIN), b(30, ack=71, flags=FIN), a(71, ack=31)], "mid-stream", "fin", False),
    "a lonely reset": ([a(70, flags=RST)], "mid-stream", "rst", False),
    "one side only, closed": ([a(0, ack=None, flags=SYN), a(0, b"hi"), a(2, flags=FIN)], "established", "fin", False),
}


@pytest.mark.parametrize(("packets", "outcome", "reason", "is_open"), OUTCOMES.values(), ids=OUTCOMES)
def test_the_outcome_of_a_connection(packets: list[Packet], outcome: str, reason: str | None, is_open: bool):
    facts = play_one(packets).facts
    assert (facts.outcome, facts.close_reason, facts.open_at_end) == (outcome, reason, is_open)
    assert sum(facts.packets) == len(packets)
    assert facts.seen == tuple(any(packet.direction == side for packet in packets) for side in (A, B))


CLIENTS = {
    "of the SYN's sender": ([a(0, ack=None, flags=SYN)], A, True),
    "of the SYN/ACK's receiver": ([b(0, flags=SYN), b(0, b"hi")], A, True),
    "of the high endpoint": ([b(0, ack=None, flags=SYN), a(0, flags=SYN)], B, True),
    "of two SYNs the first one's": ([b(0, ack=None, flags=SYN), a(0, ack=None, flags=SYN)], B, True),
    "unknown in the middle": ([a(5, b"hi")], None, False),
}


@pytest.mark.parametrize(("packets", "client", "from_start"), CLIENTS.values(), ids=CLIENTS)
def test_the_client_is_told_by_the_handshake(packets: list[Packet], client: int | None, from_start: bool):
    tale = play_one(packets)
    assert tale.client == client
    assert tale.connection.seen_from_start == from_start


def test_a_handshake_that_comes_after_the_first_bytes_tells_nothing_any_more():
    syn, answer, ack = handshake()
    late = play_one([a(0, b"hi"), syn, answer, ack, b(0, b"hi", 2)])
    assert late.identity == (None, False)
    assert (late.facts.outcome, late.facts.handshake_seen) == ("established", True)
    in_time = play_one([ack, answer, syn, a(0, b"hi")])
    assert in_time.identity == (A, True)
    assert in_time.told[0][:2] == ("opened", None)


SYN_AT = a(0, ack=None, flags=SYN, ip_id=1)
ANSWER = b(0, flags=SYN, ip_id=1)
TIMES = {
    # name: (packets, client's round trip, server's round trip) in milliseconds
    "plain": ([SYN_AT.but(ms=10), ANSWER.but(ms=30), a(0, ms=35)], 5, 20),
    "payload instead of the last acknowledgement": ([SYN_AT.but(ms=10), ANSWER.but(ms=30), a(0, b"x", ms=35)], 5, 20),
    "SYN sent again": ([SYN_AT.but(ms=10), SYN_AT.but(ms=1010, ip_id=2), ANSWER.but(ms=1030), a(0, ms=1035)], 5, 20),
    "SYN copied": ([SYN_AT.but(ms=10), SYN_AT.but(ms=12), ANSWER.but(ms=30), a(0, ms=35)], 5, 20),
    "SYN/ACK sent again": ([SYN_AT.but(ms=10), ANSWER.but(ms=30), ANSWER.but(ms=90, ip_id=2), a(0, ms=95)], 5, 20),
    "SYN captured late": ([ANSWER.but(ms=30), SYN_AT.but(ms=10), a(0, ms=35)], 5, 20),
    "times that go back": ([SYN_AT.but(ms=10), ANSWER.but(ms=9), a(0, ms=8)], None, None),
    "no SYN/ACK": ([SYN_AT.but(ms=10), a(0, ms=35)], None, None),
    "no acknowledgement": ([SYN_AT.but(ms=10), ANSWER.but(ms=30), b(0, b"x", ms=70)], None, 20),
    "joined in the middle": ([a(0, b"x", ms=10), b(0, ack=1, ms=20)], None, None),
}


@pytest.mark.parametrize(("packets", "client_ms", "server_ms"), TIMES.values(), ids=TIMES)
def test_round_trips_of_the_handshake(packets: list[Packet], client_ms: int | None, server_ms: int | None):
    facts = play_one(packets).facts
    told = [None if ns is None else ns / MILLISECOND_NS for ns in (facts.client_rtt_ns, facts.server_rtt_ns)]
    assert told == [client_ms, server_ms]


# ---- which packets belong to it

LATE = {
    "a late acknowledgement": b(1, ack=3),
    "a FIN sent again": a(2, ack=1, flags=FIN, ip_id=9),
    "a late reset": b(1, ack=3, flags=RST),
    "payload sent again": a(0, b"hi", ip_id=9),
}


@pytest.mark.parametrize("late", LATE.values(), ids=LATE)
def test_late_packets_belong_to_the_connection_that_has_closed(late: Packet):
    packets = [*handshake(), a(0, b"hi"), *goodbye(2), late.but(ms=5_000), late.but(ms=59_000)]
    assert sum(play_one(packets).facts.packets) == len(packets)


def test_packets_long_after_a_close_are_a_connection_of_their_own():
    closed, rest = play([*handshake(), a(0, b"hi"), *goodbye(2), b(50, b"new", 9, ms=61_000)])
    assert (sum(closed.facts.packets), closed.facts.close_reason) == (7, "fin")
    assert (rest.data(B), rest.facts.outcome) == (b"new", "mid-stream")


@pytest.mark.parametrize(
    "ending", [[], goodbye(2), [a(2, flags=RST)], [b(0, ack=2, flags=RST)]], ids=["open", "fin", "rst", "peer's rst"]
)
def test_another_syn_on_the_same_ports_is_another_connection(ending: list[Packet]):
    again = [packet.but(isn={A: 90_000, B: 80_000}[packet.direction]) for packet in handshake()]
    again[1] = again[1].but(raw_ack=90_001)
    again[2] = again[2].but(raw_ack=80_001)
    first = [*handshake(), a(0, b"hi"), *ending]
    old, new = play([*first, *again, a(0, b"again", isn=90_000, raw_ack=80_001)])
    assert (old.data(A), new.data(A)) == (b"hi", b"again")
    assert old.facts.open_at_end is False
    assert (new.facts.outcome, new.facts.handshake_seen) == ("established", True)
    assert [tale.told[-1][-1].release for tale in (old, new)] == [len(first), len(first) + len(again) + 1]


def test_a_syn_ack_with_another_number_is_another_connection():
    old, new = play([*handshake(), a(0, b"hi"), b(0, flags=SYN, isn=80_000, raw_ack=70_001), a(0, b"x", isn=70_000)])
    assert (old.data(A), new.data(A)) == (b"hi", b"x")
    assert new.facts.outcome == "established"


def test_a_syn_ack_that_answers_another_syn_is_another_connection():
    syn = a(0, ack=None, flags=SYN)
    assert len(play([syn, b(0, flags=SYN, raw_ack=70_001)])) == 2
    assert len(play([syn, b(0, flags=SYN)])) == 1


def test_a_syn_with_the_same_number_is_the_same_connection_until_it_is_refused():
    syn, refusal = a(0, ack=None, flags=SYN), b(0, flags=RST, isn=0xFFFF_FFFF)
    assert play_one([syn, syn.but(ms=1000), syn.but(ms=3000)]).facts.packets == (3, 0)
    refused = [syn.but(ms=0), refusal.but(ms=1), syn.but(ms=500), refusal.but(ms=501)]
    assert [tale.facts.outcome for tale in play(refused)] == ["refused", "refused"]
    copied = [syn.but(ms=0, ip_id=3), refusal.but(ms=1), syn.but(ms=2, ip_id=3)]
    assert [tale.facts.duplicate_packets for tale in play(copied)] == [1]


def test_a_connection_that_is_silent_for_too_long_is_forgotten():
    hour = 3_600_000
    same = play([*handshake(ms=0), a(0, b"one", ms=1000), a(3, b"two", ms=1000 + hour)])
    assert [tale.data(A) for tale in same] == [b"onetwo"]
    old, new = play([*handshake(ms=0), a(0, b"one", ms=1000), a(3, b"two", ms=1001 + hour)])
    assert (old.data(A), new.data(A)) == (b"one", b"two")
    assert (old.facts.outcome, new.facts.outcome) == ("established", "mid-stream")
    assert old.facts.open_at_end


def test_bytes_after_a_forged_reset_begin_a_connection_once_the_peer_acknowledges_them():
    packets = [*handshake(), a(0, b"one"), a(3, flags=RST), a(3, b"two"), b(0, ack=6), a(6, b"three"), b(0, ack=11)]
    old, new = play(packets)
    assert (old.data(A), old.facts.close_reason, old.problems) == (b"one", "rst", [("trailing_bytes", 3, 3)])
    assert new.data(A) == b"three"


def test_bytes_after_a_forged_reset_may_be_acknowledged_in_part():
    packets = [*handshake(), a(0, b"one"), a(3, flags=RST), a(3, b"two"), a(6, b"three"), b(0, ack=6), a(11, b"four")]
    old, new = play(packets)
    assert (old.data(A), new.data(A)) == (b"one", b"four")


def test_the_acknowledgement_of_a_fin_is_none_of_bytes_after_it():
    tale = play_one([*handshake(), a(0, b"bye", flags=FIN), a(3, b"more"), b(0, ack=4), b(0, b"x", 4)])
    assert (tale.data(A), tale.data(B)) == (b"bye", b"x")


def test_the_acknowledgement_of_bytes_before_the_end_is_none_of_bytes_after_it():
    packets = [*handshake(), a(0, b"good"), a(4, b"bye", flags=FIN), a(2, b"odbye again"), b(0, ack=6), b(0, ack=7)]
    tale = play_one([*packets, b(0, b"x", 8)])
    assert (tale.data(A), tale.data(B), tale.problems) == (b"goodbye", b"x", [("trailing_bytes", 7, 6)])


def test_a_new_handshake_with_the_same_numbers_after_the_close_is_another_connection():
    packets = [*handshake(ip_id=1), a(0, b"one"), *goodbye(3, 0), *handshake(ip_id=9, ms=500), a(0, b"two", ms=501)]
    old, new = play(packets)
    assert (old.data(A), new.data(A), new.facts.outcome) == (b"one", b"two", "established")


def test_a_copy_of_the_handshake_on_another_interface_after_the_close_is_none():
    packets = [*handshake(ip_id=1), a(0, b"one"), *goodbye(3, 0), *handshake(ip_id=1, ms=500, interface=1)]
    assert play_one(packets).data(A) == b"one"


def test_a_side_that_closed_and_begins_elsewhere_is_another_connection_once_the_peer_acknowledges():
    elsewhere = 1_000 - 100 * MIB & 0xFFFF_FFFF
    packets = [*handshake(), a(0, b"bye", flags=FIN), a(0, b"lost", isn=elsewhere), b(0, raw_ack=elsewhere + 5)]
    old, new = play([*packets, a(4, b"told", isn=elsewhere)])
    assert (old.data(A), new.data(A)) == (b"bye", b"told")


def test_the_peer_of_a_reset_side_is_heard_for_as_long_as_late_packets_are():
    packets = [*handshake(ms=0), a(0, flags=RST, ms=0), b(0, b"one", ms=59_000), b(3, b"two", ms=61_000)]
    old, new = play(packets)
    assert (old.data(B), new.data(B)) == (b"one", b"two")


def test_a_side_that_shows_up_after_its_peer_has_closed_keeps_the_connection_open():
    tale = play_one([a(0, b"bye", flags=FIN, ms=0), b(0, b"one", 4, ms=30_000), b(3, b"two", 4, ms=100_000)])
    assert (tale.data(B), tale.facts.close_reason) == (b"onetwo", None)


def test_ports_taken_again_without_a_syn_begin_a_connection_once_the_peer_acknowledges():
    far = {"isn": 3_000_000_000}
    packets = [*handshake(), a(0, b"one"), *goodbye(3), a(0, b"lost", **far), b(9, raw_ack=3_000_000_005)]
    old, new = play([*packets, a(4, b"told", **far)])
    assert (old.data(A), new.data(A)) == (b"one", b"told")


def test_the_peer_of_a_reset_side_is_still_heard():
    tale = play_one([*handshake(), a(0, flags=RST), b(0, b"on its way")])
    assert (tale.data(B), tale.closed) == (b"on its way", [(A, "rst")])


# ---- its name


def test_the_name_of_a_connection_is_made_of_its_first_packet_and_its_endpoints():
    def name(domain: str = "", flow: int = 1, ts_ns: int = 5, seq: int = 7, direction: int = 0) -> str:
        return connection_id(domain, flow_key(flow), Segment(seq, 0, 0, 0, 0, ts_ns, 0, direction, 0, 0, 9, 9))

    assert len(bytes.fromhex(name())) == 16
    assert name() == name(direction=1)
    assert len({name(), name("prod"), name(flow=2), name(ts_ns=6), name(seq=8)}) == 5
    tunnel = flow_key(1)._replace(tunnel="vxlan 7")
    assert connection_id("", tunnel, Segment(7, 0, 0, 0, 0, 5, 0, 0, 0, 0, 9, 9)) != name()


def test_the_name_does_not_depend_on_file_or_packet_number():
    packets = [*handshake(), a(0, b"hi")]
    first = play_one([packet.but(ms=place) for place, packet in enumerate(packets)])
    other = [packet.but(ms=place, flow=0) for place, packet in enumerate(packets)]
    later = play([Packet(A, 0, b"x", flow=9, ms=0)] * 5 + other)
    assert first.id in {tale.id for tale in later}


def test_times_of_a_connection_are_its_first_packet_and_its_largest_time():
    facts = play_one([a(0, b"x", ms=20), a(1, b"y", ms=70), a(2, b"z", ms=60)]).facts
    assert (facts.first_ts_ns, facts.last_ts_ns) == (START_NS + 20_000_000, START_NS + 70_000_000)


def test_a_closed_connection_keeps_no_delivered_bytes():
    tale = play_one([*handshake(), a(0, b"hi"), *goodbye(2)], end=False)
    assert [len(each._history) for each in tale.connection._ordering.directions] == [0, 0]
