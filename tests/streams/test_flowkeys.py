"""Grouping of segments by flow: exact, in order, and without trust in the hash."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqsniff.model import FlowKey
from mqsniff.streams.columns import Packets
from mqsniff.streams.flowkeys import Tunnels, group_rows, ipv4_flows, ipv6_flows
from mqsniff.streams.internet import IPV4, IPV6
from mqsniff.streams.transport import TCP

WORD = (1 << 64) - 1
MULTIPLIER = 0x9E37_79B9_7F4A_7C15

ips4 = st.sampled_from([b"\0\0\0\0", b"\x0a\0\0\1", b"\x0a\0\0\2", b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\xff" * 4])
ips6 = st.sampled_from([bytes(16), bytes(15) + b"\1", bytes(7) + b"\1" + bytes(8), b"\x80" + bytes(15), b"\xff" * 16])
ports = st.sampled_from([0, 1, 255, 256, 9092, 32768, 65535])


def four(source: bytes, destination: bytes) -> np.ndarray:
    return np.frombuffer(b"\x45" + bytes(11) + source + destination, IPV4)


def six(source: bytes, destination: bytes) -> np.ndarray:
    return np.frombuffer(b"\x60" + bytes(7) + source + destination, IPV6)


def segments(network: list[np.ndarray], port_pairs: list[tuple[int, int]]) -> Packets:
    transport = np.zeros(len(port_pairs), TCP)
    transport["source_port"] = [pair[0] for pair in port_pairs]
    transport["destination_port"] = [pair[1] for pair in port_pairs]
    column = np.zeros(len(port_pairs), np.int64)
    return Packets(np.arange(len(port_pairs)), column, column, column, column, np.concatenate(network), transport)


def key_of(source: tuple[bytes, int], destination: tuple[bytes, int], tunnel: str = "") -> FlowKey:
    return FlowKey(tunnel, *min(source, destination), *max(source, destination))


@pytest.mark.parametrize(("ips", "header", "find"), [(ips4, four, ipv4_flows), (ips6, six, ipv6_flows)])
def test_a_flow_is_the_two_endpoints_in_byte_order_and_a_direction_says_who_sent(ips, header, find):
    @settings(max_examples=50, deadline=None)
    @given(st.lists(st.tuples(st.tuples(ips, ports), st.tuples(ips, ports)), min_size=1, max_size=30))
    def check(sent):
        packets = segments([header(source[0], to[0]) for source, to in sent], [(a[1], b[1]) for a, b in sent])
        flows = find(packets, None)
        assert [flows.keys[number] for number in flows.flow] == [key_of(*pair) for pair in sent]
        assert flows.direction.tolist() == [int(source > to) for source, to in sent]
        assert flows.keys == list(dict.fromkeys(key_of(*pair) for pair in sent))

    check()


def test_the_same_endpoints_in_two_tunnels_are_two_flows():
    tunnels = Tunnels(3)
    tunnels.enter(0, "vxlan:42")
    tunnels.enter(2, "vxlan:42")
    tunnels.enter(2, "gre")
    packets = segments([four(b"aaaa", b"bbbb")] * 3, [(1, 2)] * 3)
    flows = ipv4_flows(packets, tunnels)
    assert [flows.keys[number].tunnel for number in flows.flow] == ["vxlan:42", "", "vxlan:42/gre"]


def test_tunnels_follow_the_rows_of_packets_not_their_position():
    tunnels = Tunnels(9)
    tunnels.enter(7, "gre")
    packets = segments([four(b"aaaa", b"bbbb")] * 2, [(1, 2)] * 2)
    packets.row = np.array([3, 7])
    assert [key.tunnel for key in ipv4_flows(packets, tunnels).keys] == ["", "gre"]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from([0, 1, WORD])), min_size=1, max_size=60))
def test_groups_are_those_of_a_dictionary_in_order_of_appearance(rows):
    words = tuple(np.array(column, np.uint64) for column in zip(*rows, strict=True))
    first, group = group_rows(words)
    numbers = {row: number for number, row in enumerate(dict.fromkeys(rows))}
    assert group.tolist() == [numbers[row] for row in rows]
    assert [rows[index] for index in first] == list(numbers)
    assert first.tolist() == [rows.index(row) for row in numbers]


def folded(mixed: int) -> int:
    return (mixed ^ mixed >> 32) * MULTIPLIER & WORD


def test_keys_crafted_to_share_a_hash_are_told_apart_in_little_time():
    crafted = [(first, folded(first * MULTIPLIER & WORD)) for first in range(1, 20_001)]
    hashes = {folded(first * MULTIPLIER & WORD) ^ second for first, second in crafted}
    assert hashes == {0}, "every pair of words reaches the last multiplication as the same number"
    rows = crafted + crafted[::-1]
    words = tuple(np.array(column, np.uint64) for column in zip(*rows, strict=True))
    started = time.process_time()
    first, group = group_rows(words)
    assert time.process_time() - started < 1, "20,000 flows in one slot cost a sort"
    assert first.tolist() == list(range(20_000))
    assert group.tolist() == [*range(20_000), *range(19_999, -1, -1)]
