"""IPv4 and IPv6 headers: where they end, where their packet ends, and what a lying length becomes."""

from __future__ import annotations

import pytest
from packet_batches import MACS, Captured, decode, kinds, segments
from scapy.layers.inet import ICMP, IP, TCP, UDP, IPOption_RR, IPOption_Timestamp
from scapy.layers.inet6 import (
    IPv6,
    IPv6ExtHdrDestOpt,
    IPv6ExtHdrFragment,
    IPv6ExtHdrHopByHop,
    IPv6ExtHdrRouting,
    IPv6ExtHdrSegmentRouting,
    PadN,
)
from scapy.layers.ipsec import AH, ESP
from scapy.layers.l2 import Ether
from scapy.layers.sctp import SCTP

RAW = 101
SEGMENT = TCP(sport=40_000, dport=9092, seq=7) / b"hello"
V4 = IP(src="10.0.0.1", dst="10.0.0.2", id=77)
V6 = IPv6(src="fd00::1", dst="fd00::2")


def raw(packet: object) -> Captured:
    return Captured(bytes(packet), RAW)


def patched(packet: object, at: int, value: int, size: int = 2) -> bytes:
    data = bytearray(bytes(packet))
    data[at : at + size] = value.to_bytes(size, "big")
    return bytes(data)


@pytest.mark.parametrize(
    "packet",
    [
        V4 / SEGMENT,
        V4 / AH(nh=6, payloadlen=4, icv=bytes(12)) / SEGMENT,
        IP(options=[IPOption_RR(length=39, routers=["1.2.3.4"] * 9)]) / SEGMENT,
        IP(options=[IPOption_Timestamp()]) / SEGMENT,
        IP(flags="DF") / SEGMENT,
        IP(flags="evil") / SEGMENT,
        V6 / SEGMENT,
        V6 / IPv6ExtHdrHopByHop(options=[PadN(optdata=bytes(18))]) / SEGMENT,
        V6 / IPv6ExtHdrRouting(addresses=["fd00::9", "fd00::8"]) / SEGMENT,
        V6 / IPv6ExtHdrSegmentRouting(addresses=["fd00::9"]) / SEGMENT,
        V6 / IPv6ExtHdrDestOpt() / SEGMENT,
        V6 / AH(nh=6, payloadlen=4, icv=bytes(12)) / SEGMENT,
        V6 / IPv6ExtHdrFragment(offset=0, m=0, id=5) / SEGMENT,
        V6 / IPv6ExtHdrHopByHop() / IPv6ExtHdrDestOpt() / IPv6ExtHdrRouting() / IPv6ExtHdrDestOpt() / SEGMENT,
    ],
    ids=lambda packet: packet.summary().split(" / TCP")[0],
)
def test_tcp_is_found_behind_options_and_extension_headers(packet):
    assert [(found.payload, found.size, found.seq) for found in segments(decode(raw(packet)))] == [(b"hello", 5, 7)]


def test_only_ipv4_has_an_identification():
    assert [found.ip_id for found in segments(decode(raw(V4 / SEGMENT), raw(V6 / SEGMENT)))] == [77, -1]


@pytest.mark.parametrize("head", [b"", bytes(Ether(**MACS, type=0x8100)) + b"\0\7\x08\0"], ids=["raw", "vlan"])
def test_an_offloaded_packet_without_a_length_goes_up_to_its_end(head):
    offloaded = patched(V4 / TCP(), 2, 0) + bytes(70_000)
    whole = Captured(head + offloaded, 1 if head else RAW)
    cut = Captured(whole.data[:100], whole.linktype, wire_size=len(whole.data))
    assert [(len(found.payload), found.size) for found in segments(decode(whole, cut))] == [
        (70_000, 70_000),
        (100 - 40 - len(head), 70_000),
    ]


def test_a_jumbogram_goes_up_to_its_end():
    jumbo = patched(V6 / TCP(), 4, 0) + bytes(70_000)
    assert [found.size for found in segments(decode(Captured(jumbo, RAW)))] == [70_000]


@pytest.mark.parametrize("packet", [patched(V4 / TCP(), 2, 0), patched(V6 / TCP(), 4, 0)], ids=["ipv4", "ipv6"])
def test_a_packet_without_a_length_cannot_claim_gigabytes_by_its_wire_length(packet):
    assert kinds(decode(Captured(packet, RAW, wire_size=0xFFFFFFFF)).problems) == ["malformed"]


@pytest.mark.parametrize(
    ("data", "detail"),
    [
        (patched(V4 / SEGMENT, 0, 0x65, 1), "IPv4 packet of another version"),
        (patched(V4 / SEGMENT, 0, 0x44, 1), "IPv4 header length below 20 bytes"),
        (patched(V4 / SEGMENT, 0, 0x40, 1), "IPv4 header length below 20 bytes"),
        (patched(V4 / SEGMENT, 2, 19), "IPv4 total length below the header length"),
        (patched(V4 / SEGMENT, 2, 46), "IPv4 total length beyond the packet"),
        (patched(V4 / SEGMENT, 2, 65535), "IPv4 total length beyond the packet"),
        (patched(V4 / SEGMENT, 2, 39), "IP payload shorter than a TCP header"),
        (patched(V4 / SEGMENT, 0, 0x4F, 1), "IPv4 total length below the header length"),
    ],
)
def test_lying_ipv4_lengths_are_malformed(data, detail):
    batch = decode(bytes(Ether(**MACS))[:12] + b"\x08\0" + data)
    assert [(problem.problem.kind, problem.problem.detail) for problem in batch.problems] == [("malformed", detail)]
    assert (len(batch), batch.skipped_packets) == (0, 0)


@pytest.mark.parametrize(
    ("data", "detail"),
    [
        (patched(V6 / SEGMENT, 0, 0x45, 1), "IPv6 packet of another version"),
        (patched(V6 / SEGMENT, 4, 26), "IPv6 payload length beyond the packet"),
        (patched(V6 / SEGMENT, 4, 19), "IP payload shorter than a TCP header"),
        (patched(V6 / IPv6ExtHdrDestOpt() / SEGMENT, 41, 255, 1), "IP payload shorter than a TCP header"),
        (bytes(IPv6(nh=60)) + bytes([6, 0]), "the packet ends inside its IP extension header"),
    ],
)
def test_lying_ipv6_lengths_are_malformed(data, detail):
    batch = decode(bytes(Ether(**MACS))[:12] + b"\x86\xdd" + data)
    assert [(problem.problem.kind, problem.problem.detail) for problem in batch.problems] == [("malformed", detail)]
    assert (len(batch), batch.skipped_packets) == (0, 0)


def test_a_packet_that_is_shorter_on_the_wire_than_it_says_was_not_cut_by_the_capture():
    data = bytes(V4 / SEGMENT)[:42]
    assert kinds(decode(Captured(data, RAW, wire_size=42)).problems) == ["malformed"]
    assert segments(decode(Captured(data, RAW, wire_size=45)))[0][6:8] == (b"he", 5)


def test_a_wire_length_below_the_captured_length_is_not_believed():
    assert segments(decode(Captured(bytes(V4 / SEGMENT), RAW, wire_size=1)))[0][6:8] == (b"hello", 5)


def test_a_packet_of_nothing_but_extension_headers_is_given_up():
    chain = bytes(IPv6(nh=60, plen=8 * 100)) + bytes([60, 0, 1, 4, 0, 0, 0, 0]) * 100
    assert kinds(decode(Captured(chain, RAW)).problems) == ["limit"]


@pytest.mark.parametrize(
    "packet",
    [
        V4 / ICMP(),
        V4 / UDP(dport=53) / b"dns",
        V4 / ESP(spi=1, seq=1) / bytes(30),
        V4 / SCTP(),
        IP(proto=1, frag=100) / bytes(30),
        IP(proto=17, flags=0) / b"short",
        V6 / UDP(dport=53) / b"dns",
        IPv6(nh=59),
        IPv6(nh=58) / bytes(8),
        V6 / IPv6ExtHdrHopByHop(nh=58) / bytes(8),
        V6 / IPv6ExtHdrFragment(nh=58, offset=10, id=5) / bytes(8),
    ],
    ids=lambda packet: packet.summary(),
)
def test_what_is_no_tcp_is_skipped_without_a_problem(packet):
    batch = decode(raw(packet), raw(V4 / SEGMENT))
    assert (len(batch), batch.problems, batch.skipped_packets) == (1, [], 1)
