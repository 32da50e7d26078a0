"""PROXY protocol heads: the examples of the specification, cuts and lies."""

from __future__ import annotations

import ipaddress
import struct
from dataclasses import replace

import pytest

from mqsniff.decode.proxyhead import ProxyHead, read_head, without_head
from mqsniff.model import Mark
from mqsniff.streams.events import StreamChunk, StreamClosed, StreamGap

V1 = b"PROXY TCP4 192.168.0.1 192.168.0.11 56324 443\r\n"
SIGNATURE = bytes.fromhex("0d0a0d0a000d0a515549540a")


def v2(addresses: bytes, family: int = 0x11, command: int = 0x21, tlvs: bytes = b"") -> bytes:
    return SIGNATURE + struct.pack(">BBH", command, family, len(addresses) + len(tlvs)) + addresses + tlvs


FOUR = (
    ipaddress.ip_address("10.1.2.3").packed + ipaddress.ip_address("10.9.8.7").packed + struct.pack(">HH", 1000, 9092)
)
SIX = ipaddress.ip_address("fd00::1").packed + ipaddress.ip_address("fd00::2").packed + struct.pack(">HH", 1000, 9092)


@pytest.mark.parametrize(
    ("data", "head"),
    [
        (V1, ProxyHead(len(V1), "192.168.0.1:56324", "192.168.0.11:443")),
        (V1 + b"rest", ProxyHead(len(V1), "192.168.0.1:56324", "192.168.0.11:443")),
        (b"PROXY TCP6 fd00::1 fd00::2 1 2\r\n", ProxyHead(32, "[fd00::1]:1", "[fd00::2]:2")),
        (b"PROXY UNKNOWN\r\n", ProxyHead(15)),
        (b"PROXY UNKNOWN ff:: ff:: 1 2\r\n", ProxyHead(29)),
        (b"PROXY TCP4 300.1.1.1 1.1.1.1 1 2\r\n", ProxyHead(34)),
        (v2(FOUR), ProxyHead(28, "10.1.2.3:1000", "10.9.8.7:9092")),
        (v2(FOUR, tlvs=b"\x01\x00\x02h2"), ProxyHead(33, "10.1.2.3:1000", "10.9.8.7:9092")),
        (v2(SIX, 0x21), ProxyHead(52, "[fd00::1]:1000", "[fd00::2]:9092")),
        (v2(FOUR, command=0x20), ProxyHead(28)),
        (v2(b"", 0x00), ProxyHead(16)),
        (v2(FOUR[:8]), ProxyHead(24)),
    ],
)
def test_a_head_is_read(data, head):
    assert read_head(data) == head


@pytest.mark.parametrize("whole", [V1, v2(FOUR)])
def test_every_prefix_asks_for_more(whole):
    assert [read_head(whole[:cut]) for cut in range(len(whole))] == [True] * len(whole)


@pytest.mark.parametrize(
    "data",
    [
        b"  V2",
        b"PROXYING",
        b"PROXY TCP4 1 2\r\n",
        b"PROXY \n",
        b"PROXY " + b"x" * 107,
        v2(FOUR, command=0x31),
        b"\r\n\r\nGET",
    ],
)
def test_other_bytes_are_no_head(data):
    assert read_head(data) is False


@pytest.mark.parametrize(
    ("cuts", "expected"),
    [
        ([(0, b"headdata")], [(4, b"data", [4, 6])]),
        ([(0, b"head"), (4, b"data")], [(4, b"data", [4, 6])]),
        ([(0, b"hea"), (3, b"ddata")], [(4, b"data", [3, 6])]),
        ([(0, b"he"), (2, b"addata")], [(4, b"data", [3, 6])]),
        ([(4, b"da"), (6, b"ta")], [(4, b"da", [4]), (6, b"ta", [6])]),
    ],
)
def test_bytes_of_a_head_are_left_out_and_the_others_keep_their_packets(cuts, expected):
    places = [0, 3, 4, 6] if any(at == 4 for at, _ in cuts) else [0, 3, 6]
    if cuts == [(0, b"headdata")]:
        places = [0, 4, 6]
    events = [
        StreamChunk(1, at, data, [Mark(place, place, place, place) for place in places if at <= place < at + len(data)])
        for at, data in cuts
    ]
    events = [replace(event, marks=event.marks or [Mark(event.offset, 0, 0, 0)]) for event in events]
    kept = list(without_head(events, 1, 4))
    assert [(event.offset, event.data, [mark.offset for mark in event.marks]) for event in kept] == expected
    assert list(without_head(events, 0, 4)) == events


def test_a_head_in_text_has_107_bytes_at_most():
    longest = b"PROXY UNKNOWN ".ljust(105, b"x")
    assert read_head(longest + b"\r\n") == ProxyHead(107)
    assert [read_head(longest[:cut]) for cut in (105, 104)] == [True, True]
    assert read_head(longest + b"\r") is True
    assert read_head(longest + b"x\r\n") is False
    assert read_head(longest + b"xx") is False


@pytest.mark.parametrize(
    "line",
    [b"PROXY TCP4 1.1.1.1 2.2.2.2 1", b"PROXY TCP4 1.1.1.1 2.2.2.2 1 2 3", b"PROXY TCP5 1.1.1.1 2.2.2.2 1 2"],
)
def test_a_head_in_text_has_two_addresses_and_two_ports_of_a_known_family(line):
    assert read_head(line + b"\r\n") is False


@pytest.mark.parametrize("line", [b"PROXY TCP4 1.1.1.1 2.2.2.2 x 2", b"PROXY TCP4 1.1.1.1 2.2.2.2 1 x"])
def test_a_head_with_an_address_that_is_none_is_cut_off_all_the_same(line):
    assert read_head(line + b"\r\n") == ProxyHead(len(line) + 2)


@pytest.mark.parametrize(
    ("data", "head"),
    [
        (v2(FOUR + b"x"), ProxyHead(29, "10.1.2.3:1000", "10.9.8.7:9092")),
        (v2(FOUR[:11]), ProxyHead(27)),
        (v2(SIX, 0x22), ProxyHead(52, "[fd00::1]:1000", "[fd00::2]:9092")),
        (v2(SIX[:35], 0x21), ProxyHead(51)),
        (v2(SIX, 0x31), ProxyHead(52)),
        (v2(FOUR, command=0x2F), ProxyHead(28, "10.1.2.3:1000", "10.9.8.7:9092")),
        (v2(FOUR, command=0x11), False),
    ],
)
def test_a_binary_head_has_addresses_if_they_fit_in_it(data, head):
    assert read_head(data) == head
    if head:
        assert read_head(data[:-1]) is True


def test_losses_and_ends_pass_where_a_head_is_left_out():
    mark = Mark(0, 0, 0, 0)
    events = [StreamGap(1, 0, 2, mark), StreamClosed(1, "fin", mark)]
    assert list(without_head(events, 1, 4)) == events
