"""Heads of tunnels, as scapy writes them, cut at every byte, and at random."""

from __future__ import annotations

import struct

import dpkt
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from packet_batches import MACS
from scapy.contrib.erspan import ERSPAN_II, ERSPAN_III, ERSPAN_PlatformSpecific
from scapy.contrib.geneve import GENEVE, GeneveOptions
from scapy.contrib.mpls import MPLS, EoMCW
from scapy.layers.inet import IP, TCP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import ARP, GRE, Dot1Q, Ether
from scapy.layers.ppp import PPP, PPPoE
from scapy.layers.vxlan import VXLAN

from mqsniff.streams.columns import Odd
from mqsniff.streams.tunnels import HEAD_MAX, HEAD_READERS, Inside

V4, V6, BRIDGED, MPLS_UNICAST = 0x0800, 0x86DD, 0x6558, 0x8847
FRAME = Ether(**MACS) / IP() / TCP()

TUNNELS = [
    pytest.param(Odd.GRE, GRE() / IP(), Inside("gre", V4, 4), id="gre"),
    pytest.param(Odd.GRE, GRE() / IPv6(), Inside("gre", V6, 4), id="gre-ipv6"),
    pytest.param(Odd.GRE, GRE(proto=BRIDGED) / FRAME, Inside("gre", BRIDGED, 4), id="gre-ethernet"),
    pytest.param(Odd.GRE, GRE(chksum_present=1, chksum=1) / IP(), Inside("gre", V4, 8), id="gre-checksum"),
    pytest.param(Odd.GRE, GRE(key_present=1, key=42) / IP(), Inside("gre", V4, 8), id="gre-key"),
    pytest.param(Odd.GRE, GRE(seqnum_present=1) / IP(), Inside("gre", V4, 8), id="gre-sequence"),
    pytest.param(
        Odd.GRE,
        GRE(chksum_present=1, chksum=1, key_present=1, seqnum_present=1) / IP(),
        Inside("gre", V4, 16),
        id="gre-all",
    ),
    pytest.param(Odd.GRE, GRE() / MPLS() / IP(), Inside("gre", MPLS_UNICAST, 4), id="gre-mpls"),
    pytest.param(
        Odd.GRE,
        struct.pack("!HHI HBB4s HBB", 0x4000, V4, 0, 0x0800, 0, 4, b"\1\2\3\4", 0, 0, 0) + bytes(IP()),
        Inside("gre", V4, 20),
        id="gre-routes",
    ),
    pytest.param(Odd.GRE, GRE(proto=0x88BE) / FRAME, Inside("erspan", BRIDGED, 4), id="erspan-1"),
    pytest.param(
        Odd.GRE,
        GRE(seqnum_present=1) / ERSPAN_II(session_id=7) / FRAME,
        Inside("erspan:7", BRIDGED, 16),
        id="erspan-2",
    ),
    pytest.param(
        Odd.GRE,
        GRE(seqnum_present=1) / ERSPAN_III(session_id=1023) / FRAME,
        Inside("erspan:1023", BRIDGED, 20),
        id="erspan-3",
    ),
    pytest.param(
        Odd.GRE,
        GRE(seqnum_present=1) / ERSPAN_III(session_id=7) / ERSPAN_PlatformSpecific() / FRAME,
        Inside("erspan:7", BRIDGED, 28),
        id="erspan-3-platform",
    ),
    pytest.param(
        Odd.GRE,
        GRE(seqnum_present=1) / ERSPAN_III(session_id=7, ft=2) / IP(),
        Inside("erspan:7", V4, 20),
        id="erspan-ip",
    ),
    pytest.param(Odd.MPLS, MPLS(label=16) / IP(), Inside("mpls", V4, 4), id="mpls"),
    pytest.param(Odd.MPLS, MPLS(s=0) / MPLS(s=0) / MPLS(s=1) / IPv6(), Inside("mpls", V6, 12), id="mpls-stack"),
    pytest.param(Odd.MPLS, bytes(MPLS()) + bytes(EoMCW()) + bytes(FRAME), Inside("mpls", BRIDGED, 8), id="mpls-word"),
    pytest.param(Odd.MPLS, bytes(MPLS()) + bytes(FRAME), Inside("mpls", BRIDGED, 4), id="mpls-ethernet"),
    pytest.param(
        Odd.MPLS,
        bytes(MPLS()) + bytes(Ether(**MACS) / Dot1Q() / IP()),
        Inside("mpls", BRIDGED, 4),
        id="mpls-vlan",
    ),
    pytest.param(
        Odd.MPLS,
        bytes(MPLS()) + bytes(Ether(src=MACS["src"], dst="00:00:5e:00:00:01") / ARP()),
        Inside("mpls", BRIDGED, 4),
        id="mpls-arp",
    ),
    pytest.param(Odd.PPPOE, PPPoE(sessionid=17) / PPP() / IP(), Inside("pppoe:17", V4, 8), id="pppoe"),
    pytest.param(Odd.PPPOE, PPPoE(sessionid=17) / PPP(proto=0x57) / IPv6(), Inside("pppoe:17", V6, 8), id="pppoe-ipv6"),
    pytest.param(
        Odd.PPPOE, bytes(PPPoE(sessionid=1)) + b"\x21" + bytes(IP()), Inside("pppoe:1", V4, 7), id="pppoe-short"
    ),
    pytest.param(Odd.VXLAN, VXLAN(vni=0xABCDEF) / FRAME, Inside("vxlan:11259375", BRIDGED, 8), id="vxlan"),
    pytest.param(
        Odd.VXLAN, VXLAN(vni=42, gpid=9, flags=0x88) / FRAME, Inside("vxlan:42", BRIDGED, 8), id="vxlan-policy"
    ),
    pytest.param(Odd.GENEVE, GENEVE(vni=7) / FRAME, Inside("geneve:7", BRIDGED, 8), id="geneve"),
    pytest.param(Odd.GENEVE, GENEVE(vni=7) / IP(), Inside("geneve:7", V4, 8), id="geneve-ip"),
    pytest.param(
        Odd.GENEVE,
        GENEVE(vni=7, options=[GeneveOptions(data=bytes(8)), GeneveOptions(data=bytes(4))]) / IPv6(),
        Inside("geneve:7", V6, 28),
        id="geneve-options",
    ),
    pytest.param(Odd.IPV4_IN_IP, IP(), Inside("ipip", V4, 0), id="ipip"),
    pytest.param(Odd.IPV6_IN_IP, IPv6(), Inside("ip6ip", V6, 0), id="ip6ip"),
]


@pytest.mark.parametrize(("odd", "packet", "inside"), TUNNELS)
def test_a_head_tells_its_tunnel_what_it_carries_and_where(odd, packet, inside):
    assert HEAD_READERS[odd](bytes(packet)[:HEAD_MAX]) == inside


@pytest.mark.parametrize(("odd", "packet", "inside"), TUNNELS)
def test_a_head_that_is_cut_is_an_error_of_the_reader_or_no_tunnel_never_another_one(odd, packet, inside):
    for size in range(inside.size):
        try:
            assert HEAD_READERS[odd](bytes(packet)[:size]) in (None, inside)
        except (struct.error, dpkt.UnpackError):
            continue


@pytest.mark.parametrize(
    ("odd", "packet"),
    [
        pytest.param(Odd.GRE, GRE(version=1, proto=0x880B, key_present=1) / b"compressed", id="pptp"),
        pytest.param(Odd.GRE, GRE(proto=0x9000) / b"keep-alive", id="gre of something else"),
        pytest.param(Odd.GRE, GRE(seqnum_present=1) / ERSPAN_II(ver=9) / FRAME, id="erspan of the future"),
        pytest.param(Odd.GRE, GRE(seqnum_present=1) / ERSPAN_III(ft=1) / FRAME, id="erspan of no ethernet"),
        pytest.param(Odd.MPLS, bytes(MPLS()) + bytes(Ether(**MACS, type=0x88CC)) + b"LLDP", id="mpls lldp"),
        pytest.param(Odd.MPLS, bytes(MPLS(label=13)) + b"\x10\0\0\7an associated channel", id="mpls channel"),
        pytest.param(Odd.PPPOE, PPPoE(code=0x65) / b"discovery", id="pppoe discovery"),
        pytest.param(Odd.PPPOE, PPPoE() / PPP(proto=0xC021) / b"link control", id="ppp link control"),
        pytest.param(Odd.VXLAN, b"\x12\x34\x81\x80\0\1\0\1 a name server's answer", id="dns to port 4789"),
        pytest.param(Odd.GENEVE, b"\xc0\x34\x65\x58\0\1\0\0 QUIC to port 6081", id="another version of geneve"),
        pytest.param(Odd.GENEVE, GENEVE(proto=0x0806, vni=1) / ARP(), id="geneve arp"),
    ],
)
def test_what_cannot_hold_tcp_is_no_tunnel(odd, packet):
    assert HEAD_READERS[odd](bytes(packet)) is None


@pytest.mark.parametrize("odd", HEAD_READERS)
def test_no_bytes_make_a_reader_raise_more_than_it_may(odd):
    @settings(max_examples=50, deadline=None)
    @given(st.binary(max_size=80))
    @example(bytes(HEAD_MAX))
    @example(b"\xff" * HEAD_MAX)
    @example(b"\x40\x00" + b"\x00\x01" * 255)
    def check(head):
        try:
            inside = HEAD_READERS[odd](head)
        except (struct.error, dpkt.UnpackError):
            return
        assert inside is None or inside.size >= 0

    check()


def test_every_odd_packet_but_fragments_has_a_reader():
    assert set(Odd) - set(HEAD_READERS) == {Odd.IPV4_FRAGMENT, Odd.IPV6_FRAGMENT}
