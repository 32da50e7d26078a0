"""Many connections at once: order, sweeps, caps and the end."""

from __future__ import annotations

import pytest
from tcpscript import FIN, RST, SYN, A, Packet, a, goodbye, handshake, play, to_batch

from mqsniff.limits import Limits
from mqsniff.streams.connection import SYN_STATE
from mqsniff.streams.events import ConnectionClosed, ConnectionOpened, StreamProblem
from mqsniff.streams.flows import FlowTable


def talk(flow: int, text: bytes = b"hi", **more: object) -> list[Packet]:
    return [packet.but(flow=flow, **more) for packet in [*handshake(), a(0, text)]]


def closings(told: list) -> dict[int, int]:
    """Low port of each connection that closed -> ordinal at which it did."""
    return {
        connection.key.low_port: release
        for events in told
        for release, connection, event in events
        if isinstance(event, ConnectionClosed)
    }


def test_an_empty_batch_tells_nothing():
    flows = FlowTable(Limits())
    assert flows.feed(to_batch([])) == []
    assert list(flows.end()) == []


def test_flows_are_told_in_the_order_of_their_first_packet():
    packets = [a(0, b"x", flow=9), a(0, b"y", flow=2), a(0, b"z", flow=5), a(1, b"x", flow=9)]
    told = FlowTable(Limits()).feed(to_batch(packets))
    assert [events[0][1].key.low_port for events in told] == [9, 2, 5]
    assert [connection.first_ordinal for (_, connection, _), *_ in told] == [0, 1, 2]


def test_flows_with_the_same_ports_in_different_tunnels_are_different():
    batch = to_batch([a(0, b"one", flow=1), a(0, b"two", flow=2)])
    batch.flows[1] = batch.flows[0]._replace(tunnel="vxlan 1")
    flows = FlowTable(Limits())
    assert len(flows.feed(batch)) == 2
    assert len(flows) == 2


def test_what_is_told_of_a_batch_needs_its_buffer_no_more():
    flows = FlowTable(Limits())
    packets = [*talk(1, b"first"), a(5, b"second", flow=1), a(15, b"waits", flow=1)]
    batch = to_batch(packets)
    told = flows.feed(batch)
    batch.buffer[:] = bytes(len(batch.buffer))
    told += flows.feed(to_batch([a(11, b"hole", flow=1), *[a(20 + n, b"%d" % n, flow=1) for n in range(9)]], 6))
    data = b"".join(event.data for events in told for _, _, event in events if hasattr(event, "data"))
    assert data == b"firstsecondholewaits012345678"


def test_connections_that_are_over_are_closed_by_a_sweep_wherever_batches_end():
    closed = [*talk(1, ms=0), *(packet.but(flow=1, ms=100) for packet in goodbye(2))]
    idle = talk(2, ms=0)
    clock = [Packet(A, 0, b"", 0, flow=3, ms=1000 * n) for n in range(4000)]
    packets = [*closed, *idle, *clock]
    whole = play(packets)
    releases = {tale.connection.key.low_port: tale.told[-1][-1].release for tale in whole}
    # Linger 60 s or an hour of silence, ten seconds of slack, and the next sweep once sixteen packets agree.
    assert releases[1] == len(closed) + len(idle) + 80 + 15
    assert releases[2] == len(closed) + len(idle) + 3620 + 15
    for size in (1, 7, 1000):
        cuts = tuple(range(0, len(packets), size))
        assert [tale.told for tale in play(packets, cuts=cuts)] == [tale.told for tale in whole]


def test_a_connection_that_was_closed_is_not_forgotten_when_a_sweep_ends_it():
    closed = [*talk(1, ms=0), *(packet.but(flow=1, ms=100) for packet in goodbye(2))]
    reset = [*talk(2, ms=0), a(2, flags=RST, flow=2, ms=100)]
    clock = [Packet(A, 0, b"", 0, flow=4, ms=1000 * n) for n in range(4000)]
    facts = {tale.connection.key.low_port: tale.facts for tale in play([*closed, *reset, *talk(3, ms=0), *clock])}
    assert [(facts[n].close_reason, facts[n].forgotten) for n in (1, 2, 3)] == [
        ("fin", False),
        ("rst", False),
        (None, True),
    ]


def test_a_packet_with_a_damaged_time_ends_no_other_connection():
    clock = [Packet(A, 0, b"", 0, flow=3, ms=n) for n in range(40)]
    packets = [*talk(1, ms=0), *clock, Packet(A, 0, b"", 0, flow=4, ms=1e10), *clock, a(2, b"!", flow=1, ms=50)]
    assert [tale.data(A) for tale in play(packets)] == [b"hi!", b"", b""]


def test_a_clock_that_was_wrong_for_others_ends_no_connection_while_it_is_doubted():
    wrong = [Packet(A, 0, b"", 0, flow=3, ms=4e6 + n) for n in range(200)]
    packets = [*talk(1, ms=0), *wrong, a(2, b"!", flow=1, ms=50), *wrong]
    assert [(tale.data(A), tale.problems) for tale in play(packets)] == [(b"hi!", []), (b"", [])]


@pytest.mark.parametrize("size", [1, 100, 5000])
def test_a_connection_that_a_wrong_clock_ended_says_so(size):
    wrong = [Packet(A, 0, b"", 0, flow=3, ms=4e6 + n) for n in range(2000)]
    packets = [*talk(1, ms=0), *wrong, a(2, b"!", flow=1, ms=50), a(3, b"!", flow=1, ms=60)]
    first, _, second = play(packets, cuts=tuple(range(0, len(packets), size)))
    assert first.facts.forgotten
    assert [tale.data(A) for tale in (first, second)] == [b"hi", b"!!"]
    assert second.problems == [("clock", None, None)]


def test_a_connection_that_was_over_by_its_own_time_is_followed_without_a_word():
    later = [Packet(A, 0, b"", 0, flow=3, ms=4e6 + 100 * n) for n in range(2000)]
    tales = play([*talk(1, ms=0), *later, a(2, b"!", flow=1, ms=3.9e6)])
    assert [tale.problems for tale in tales if tale.connection.key.low_port == 1] == [[], []]


def test_above_the_cap_the_connections_that_were_silent_longest_are_closed():
    flows = FlowTable(Limits(connections_max=2))
    flows.feed(to_batch(talk(1)))
    flows.feed(to_batch(talk(2), 4))
    flows.feed(to_batch([a(2, b"still here", flow=1)], 8))
    told = flows.feed(to_batch(talk(3), 9))
    assert closings(told) == {2: 9}
    assert [event.problem.kind for _, _, event in told[0] if isinstance(event, StreamProblem)] == ["limit"]
    assert len(flows) == 2


def test_a_flood_of_syns_leaves_no_more_connections_than_the_cap():
    flows = FlowTable(Limits(connections_max=50))
    for place in range(0, 1000, 10):
        flows.feed(to_batch([a(0, ack=None, flags=SYN, flow=place + n) for n in range(10)], place))
        assert len(flows) <= 50


def test_the_end_closes_the_oldest_connection_first():
    flows = FlowTable(Limits())
    flows.feed(to_batch([*talk(7), *talk(3)]))
    flows.feed(to_batch([*talk(5), a(2, b"!", flow=7)], 8))
    assert closings(list(flows.end())) == {7: 13, 3: 13, 5: 13}
    assert len(flows) == 0
    assert list(flows.end()) == []


def test_several_connections_of_one_flow_in_one_batch_follow_each_other():
    packets = []
    for n in range(4):
        syn = a(0, ack=None, flags=SYN, isn=1000 * (n + 1))
        packets += [syn, a(0, b"%d" % n, isn=1000 * (n + 1), ack=None), a(1, flags=FIN, isn=1000 * (n + 1), ack=None)]
    (told,) = FlowTable(Limits()).feed(to_batch(packets))
    ports = {connection.first_ordinal: connection.key.low_port for _, connection, _ in told}
    assert ports == {0: 0, 3: 0, 6: 0, 9: 0}
    assert [release for release, _, _ in told] == sorted(release for release, _, _ in told)
    assert closings([told]) == {0: 9}


def test_a_lone_syn_is_no_connection_until_its_next_packet():
    flows = FlowTable(Limits(), lone_syns=True)
    assert flows.feed(to_batch([a(0, ack=None, flags=SYN, flow=n) for n in range(100)])) == [[]] * 100
    assert (len(flows), flows.lone_size) == (100, 100 * SYN_STATE)
    told = flows.feed(to_batch([a(0, b"x", flow=7)], 100))
    assert isinstance(told[0][0][2], ConnectionOpened)
    assert flows.lone_size == 99 * SYN_STATE
    ended = list(flows.end())
    assert len(ended) == 100
    assert [events[-1][1].first_ordinal for events in ended] == list(range(100))
    assert len(flows) == 0


def test_above_the_cap_lone_syns_go_before_connections():
    flows = FlowTable(Limits(connections_max=2), lone_syns=True)
    flows.feed(to_batch(talk(1)))
    flows.feed(to_batch([a(0, ack=None, flags=SYN, flow=2)], 4))
    told = flows.feed(to_batch([a(0, ack=None, flags=SYN, flow=3)], 5))
    assert closings(told) == {2: 5}
