"""Tunnels and fragments through the whole decoder: what is inside comes out as if it had been captured plain."""

from __future__ import annotations

import functools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packet_batches import MACS, Captured, batch_of, decode, kinds, segments
from scapy.contrib.erspan import ERSPAN_II
from scapy.contrib.geneve import GENEVE
from scapy.contrib.mpls import MPLS
from scapy.layers.inet import ICMP, IP, TCP, UDP, fragment
from scapy.layers.inet6 import IPv6, IPv6ExtHdrDestOpt, IPv6ExtHdrFragment, IPv6ExtHdrHopByHop, fragment6
from scapy.layers.l2 import ARP, GRE, Dot1Q, Ether
from scapy.layers.ppp import PPP, PPPoE
from scapy.layers.vxlan import VXLAN

from mqsniff.limits import Limits
from mqsniff.streams.packets import PacketDecoder

RAW = 101
SECOND = 1_000_000_000
TO = {"src": "192.0.2.1", "dst": "192.0.2.2"}
V4 = IP(src="10.0.0.1", dst="10.0.0.2", id=77) / TCP(sport=40_000, dport=9092, seq=7, flags="PA") / b"hello"
V6 = IPv6(src="fd00::1", dst="fd00::2") / TCP(sport=40_000, dport=9092, seq=7, flags="PA") / b"hello"
OUTER = Ether(**MACS) / IP(**TO)
OUTER6 = Ether(**MACS) / IPv6(src="fd01::1", dst="fd01::2")

TUNNELLED = [
    pytest.param(OUTER / GRE() / V4, "gre", id="gre"),
    pytest.param(OUTER6 / GRE() / V6, "gre", id="gre-ipv6"),
    pytest.param(
        OUTER / GRE(key_present=1, key=5, seqnum_present=1) / Ether(**MACS) / Dot1Q() / V4, "gre", id="gretap"
    ),
    pytest.param(OUTER / GRE(seqnum_present=1) / ERSPAN_II(session_id=9) / Ether(**MACS) / V6, "erspan:9", id="erspan"),
    pytest.param(OUTER / UDP(dport=4789) / VXLAN(vni=42) / Ether(**MACS) / V4, "vxlan:42", id="vxlan"),
    pytest.param(OUTER6 / UDP(dport=8472) / VXLAN(vni=42) / Ether(**MACS) / V6, "vxlan:42", id="vxlan-8472"),
    pytest.param(OUTER / UDP(dport=6081) / GENEVE(vni=7) / Ether(**MACS) / V4, "geneve:7", id="geneve"),
    pytest.param(OUTER6 / UDP(dport=6081) / GENEVE(vni=7) / V6, "geneve:7", id="geneve-ip"),
    pytest.param(OUTER / V4, "ipip", id="ipip"),
    pytest.param(OUTER / V6, "ip6ip", id="6in4"),
    pytest.param(OUTER6 / V4, "ipip", id="4in6"),
    pytest.param(OUTER6 / IPv6ExtHdrDestOpt() / V6, "ip6ip", id="6in6"),
    pytest.param(Ether(**MACS) / MPLS(s=0) / MPLS(s=1) / V4, "mpls", id="mpls"),
    pytest.param(Ether(**MACS) / MPLS() / V6, "mpls", id="mpls-ipv6"),
    pytest.param(Ether(**MACS) / Dot1Q(type=0x8848) / MPLS() / V4, "mpls", id="mpls-multicast"),
    pytest.param(IP(**TO, proto=137) / MPLS() / V4, "mpls", id="mpls-in-ip"),
    pytest.param(Ether(**MACS) / PPPoE(sessionid=17) / PPP() / V4, "pppoe:17", id="pppoe"),
    pytest.param(
        OUTER / UDP(dport=4789) / VXLAN(vni=42) / OUTER6 / GRE() / V4,
        "vxlan:42/gre",
        id="gre-in-vxlan",
    ),
    pytest.param(
        Ether(**MACS) / MPLS() / IP(**TO) / V6,
        "mpls/ip6ip",
        id="6in4-in-mpls",
    ),
    pytest.param(
        Ether(**MACS) / PPPoE() / PPP() / IP(**TO) / UDP(dport=6081) / GENEVE(vni=1) / Ether(**MACS) / MPLS() / V4,
        "pppoe:0/geneve:1/mpls",
        id="three-deep",
    ),
]


def link(packet: object) -> Captured:
    return Captured(bytes(packet), 1 if isinstance(packet, Ether) else RAW)


@pytest.mark.parametrize(("packet", "tunnel"), TUNNELLED)
def test_a_segment_in_a_tunnel_is_the_segment_and_the_name_of_the_tunnel(packet, tunnel):
    plain = V6 if packet.lastlayer().underlayer.underlayer.version == 6 else V4
    (wanted,) = segments(decode(Captured(bytes(plain), RAW)))
    batch = decode(link(packet))
    assert segments(batch) == [wanted._replace(tunnel=tunnel)]
    assert (batch.problems, batch.skipped_packets) == ([], 0)


@pytest.mark.parametrize(("packet", "tunnel"), TUNNELLED)
def test_a_tunnelled_packet_cut_anywhere_is_a_shorter_segment_or_a_problem(packet, tunnel):
    whole = link(packet)
    udp_at = len(whole.data) - len(packet[UDP]) if UDP in packet else len(whole.data)
    for size in range(len(whole.data)):
        batch = decode(whole._replace(data=whole.data[:size], wire_size=len(whole.data)))
        assert len(batch) + len(batch.problems) + batch.skipped_packets == 1
        assert kinds(batch.problems) in ([], ["truncated"])
        assert batch.skipped_packets == (0 <= size - udp_at < 4), "a datagram without its ports may be anything"
        for found in segments(batch):
            assert found.tunnel == tunnel
            assert b"hello".startswith(found.payload)
            assert found.size <= 5


def test_segments_stand_in_the_order_of_their_packets_whatever_they_were_wrapped_in():
    plain = Captured(bytes(V4), RAW)
    packets = [parameter.values[0] for parameter in TUNNELLED]
    mixed = [captured for packet in packets for captured in (link(packet), plain)]
    batch = decode(*(captured._replace(packet=number) for number, captured in enumerate(mixed, 1)))
    assert batch.packet.tolist() == list(range(1, len(mixed) + 1))
    assert batch.ordinal.tolist() == list(range(len(mixed)))
    assert [found.tunnel for found in segments(batch)][1::2] == [""] * len(packets)
    assert len(set(batch.flows)) == len(batch.flows)


@pytest.mark.parametrize(
    "packet",
    [
        OUTER / GRE() / IP() / ICMP(),
        OUTER / UDP(dport=4789) / VXLAN(vni=1) / Ether(**MACS) / ARP(),
        OUTER / UDP(dport=4789) / b"no flags of VXLAN here",
        OUTER / UDP(dport=6081) / GENEVE(proto=0x0806) / ARP(),
        Ether(**MACS) / PPPoE(sessionid=1) / PPP(proto=0xC021) / b"link control",
        Ether(**MACS) / MPLS() / IP() / UDP(),
    ],
    ids=lambda packet: packet.summary()[:40],
)
def test_a_tunnel_that_holds_no_tcp_is_skipped(packet):
    batch = decode(bytes(packet))
    assert (len(batch), batch.problems, batch.skipped_packets) == (0, [], 1)


def test_what_a_mirror_port_cut_before_it_wrapped_it_is_a_segment_with_less_bytes():
    mirrored = bytes(OUTER / UDP(dport=4789) / VXLAN(vni=1) / bytes(Ether(**MACS) / V4)[:-3])
    (found,) = segments(decode(mirrored))
    assert (found.payload, found.size) == (b"he", 5)


def test_tunnels_end_at_a_depth_that_no_packet_can_move():
    deep = V4
    for _ in range(Limits().tunnel_depth):
        deep = IP(**TO) / deep
    assert [found.tunnel for found in segments(decode(link(deep)))] == ["/".join(["ipip"] * Limits().tunnel_depth)]
    assert kinds(decode(link(IP(**TO) / deep)).problems) == ["limit"]
    bomb = bytes(IP(proto=4, len=20)) * 3000
    assert kinds(decode(Captured(bomb, RAW)).problems) in (["limit"], ["malformed"])


LONG = bytes(range(256)) * 20
LONG4 = IP(src="10.0.0.1", dst="10.0.0.2", id=77) / TCP(sport=40_000, dport=9092, seq=7, flags="PA") / LONG
LONG6 = IPv6(src="fd00::1", dst="fd00::2") / TCP(sport=40_000, dport=9092, seq=7, flags="PA") / LONG
FRAGMENTED = {
    "ipv4": (fragment(LONG4, 1000), ""),
    "ipv4-options": (fragment(IP(id=77, src="10.0.0.1", dst="10.0.0.2", options=b"\1" * 8) / LONG4.payload, 1000), ""),
    "ipv6": (fragment6(IPv6(src="fd00::1", dst="fd00::2") / IPv6ExtHdrFragment(id=5) / LONG6.payload, 1000), ""),
    "ipv6-extensions": (
        fragment6(
            IPv6(src="fd00::1", dst="fd00::2")
            / IPv6ExtHdrHopByHop()
            / IPv6ExtHdrFragment(id=5)
            / IPv6ExtHdrDestOpt()
            / LONG6.payload,
            1000,
        ),
        "",
    ),
    "vxlan": (fragment(IP(**TO, id=5) / UDP(dport=4789) / VXLAN(vni=42) / Ether(**MACS) / LONG4, 1000), "vxlan:42"),
    "gre": (fragment(IP(**TO, id=5) / GRE() / LONG6, 1000), "gre"),
    "inside-gre": ([IP(**TO) / GRE() / piece for piece in fragment(LONG4, 1000)], "gre"),
    "inside-and-outside": (
        [
            outer
            for number, piece in enumerate(fragment(LONG4, 1500))
            for outer in fragment(IP(**TO, id=100 + number) / GRE() / piece, 600)
        ],
        "gre",
    ),
}


@functools.cache
def pieces_of(name: str) -> tuple[tuple[Captured, ...], str]:
    packets, tunnel = FRAGMENTED[name]
    return tuple(Captured(bytes(packet), RAW, packet=n) for n, packet in enumerate(packets, 1)), tunnel


@pytest.mark.parametrize("name", FRAGMENTED)
@settings(max_examples=20, deadline=None)
@given(order=st.randoms(use_true_random=False), cut=st.integers(0, 20))
def test_fragments_in_any_order_and_any_windows_are_one_segment_in_place_of_the_last(name, order, cut):
    pieces, tunnel = pieces_of(name)
    assert len(pieces) > 3
    pieces = order.sample(pieces, len(pieces))
    plain = Captured(bytes(V4), RAW, packet=999)
    stream = [*pieces, plain]
    decoder = PacketDecoder(Limits())
    batches = [
        decoder.decode(batch_of(stream[:cut])),
        decoder.decode(batch_of(stream[cut:], ordinal=len(stream[:cut]))),
    ]
    found = [(*row, packet, ordinal) for batch in batches for row, packet, ordinal in rows(batch)]
    assert [row[:1] + row[6:8] + row[-2:] for row in found] == [
        (tunnel, LONG, len(LONG), pieces[-1].packet, len(pieces) - 1),
        ("", b"hello", 5, 999, len(pieces)),
    ]
    assert decoder.close() == []
    assert [batch.problems for batch in batches] == [[], []]
    assert sum(batch.skipped_packets for batch in batches) == 0


def rows(batch):
    return zip(segments(batch), batch.packet.tolist(), batch.ordinal.tolist(), strict=True)


def test_a_datagram_put_together_keeps_its_ip_identification_and_its_flow():
    pieces, _ = pieces_of("ipv4")
    batch = decode(*pieces, Captured(bytes(V4), RAW))
    assert [found.ip_id for found in segments(batch)] == [77, 77]
    assert batch.flow.tolist() == [0, 0]
    assert len(batch.flows) == 1


def test_a_batch_without_datagrams_keeps_its_buffer():
    batch = batch_of([bytes(OUTER / GRE() / V4), bytes(OUTER / V4)])
    assert PacketDecoder(Limits()).decode(batch).buffer is batch.buffer


def test_a_cut_fragment_ends_the_captured_bytes_but_not_the_segment():
    pieces, _ = pieces_of("ipv4")
    cut = pieces[1]._replace(data=pieces[1].data[:120], wire_size=len(pieces[1].data))
    (found,) = segments(decode(pieces[0], cut, *pieces[2:]))
    assert found.size == len(LONG)
    assert found.payload == LONG[: len(pieces[0].data) - 40 + 100]


def test_overlapping_fragments_show_no_segment():
    pieces, _ = pieces_of("ipv4")
    forged = pieces[1].data[:20] + bytes(len(pieces[1].data) - 20)
    batch = decode(pieces[0], pieces[1], Captured(forged, RAW), *pieces[2:])
    assert (len(batch), kinds(batch.problems)) == (0, ["overlap"])


def test_fragments_that_stay_alone_are_told_at_the_end():
    decoder = PacketDecoder(Limits())
    pieces, _ = pieces_of("ipv6")
    batch = decoder.decode(batch_of(pieces[:-1], ordinal=50))
    assert (len(batch), batch.problems) == (0, [])
    (problem,) = decoder.close()
    assert (problem.problem.kind, problem.ordinal) == ("truncated", 50 + len(pieces) - 2)
    assert decoder.close() == []


def test_fragments_that_waited_too_long_are_told_with_the_batch_that_shows_it():
    decoder = PacketDecoder(Limits())
    pieces, _ = pieces_of("ipv4")
    decoder.decode(batch_of(pieces[:1]))
    late = [piece._replace(ts_ns=40 * SECOND) for piece in pieces[1:]]
    batch = decoder.decode(batch_of(late, ordinal=1))
    assert [(problem.ordinal, problem.problem.kind) for problem in batch.problems] == [(0, "truncated")]
    assert kinds(decoder.close()) == ["truncated"]


def test_fragments_of_other_protocols_do_not_wait():
    decoder = PacketDecoder(Limits())
    batch = decoder.decode(batch_of(Captured(bytes(piece), RAW) for piece in fragment(IP() / ICMP() / LONG, 1000)))
    assert batch.skipped_packets == 6
    assert decoder.close() == []


def test_a_packet_that_ends_inside_of_a_header_says_of_which():
    cut = bytes(Ether(**MACS) / PPPoE(sessionid=1) / PPP() / V4)[:17]
    assert [odd.problem.detail for odd in decode(cut).problems] == ["the packet ends inside its PPPoE header"]


@pytest.mark.parametrize(
    ("packet", "head", "name"),
    [
        (OUTER / GRE() / V4, GRE, "GRE"),
        (OUTER / UDP(dport=4789) / VXLAN(vni=42) / Ether(**MACS) / V4, VXLAN, "VXLAN"),
        (OUTER / UDP(dport=6081) / GENEVE(vni=7) / V4, GENEVE, "GENEVE"),
        (Ether(**MACS) / MPLS() / V4, MPLS, "MPLS"),
        (Ether(**MACS) / PPPoE(sessionid=17) / PPP() / V4, PPPoE, "PPPoE"),
    ],
)
def test_a_packet_that_ends_inside_the_header_of_a_tunnel_says_whether_the_capture_cut_it(packet, head, name):
    whole = bytes(packet)
    at = len(whole) - len(packet[head])
    cut = decode(Captured(whole[: at + 2], 1, wire_size=len(whole)))
    assert [(each.problem.kind, each.problem.severity, each.problem.detail) for each in cut.problems] == [
        ("truncated", "error", f"the capture cut the packet inside its {name} header")
    ]
    short = decode(Captured(whole[: at + 2], 1, wire_size=at + 2))
    assert kinds(short.problems) in (["malformed"], ["truncated"])
