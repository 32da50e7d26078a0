"""Every link layer leads to the same segment; the frames are scapy's, or written as the link type's page says."""

from __future__ import annotations

import struct

import pytest
from packet_batches import MACS, Captured, batch_of, decode, kinds, segments
from scapy.layers.inet import IP, TCP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import ARP, LLC, SNAP, STP, CookedLinux, CookedLinuxV2, Dot1AD, Dot1Q, Dot3, Ether

from mqsniff.limits import Limits
from mqsniff.model import packet_id
from mqsniff.streams.packets import PacketDecoder

SEGMENT = TCP(sport=40_000, dport=9092, seq=7, ack=9, flags="PA") / b"hello"
V4 = IP(src="10.0.0.1", dst="10.0.0.2") / SEGMENT
V6 = IPv6(src="fd00::1", dst="fd00::2") / SEGMENT
NULL, ETHERNET, RAW, LOOP, SLL, IPV4, IPV6, SLL2 = 0, 1, 101, 108, 113, 228, 229, 276


def family(number: int, order: str, packet: bytes) -> bytes:
    return struct.pack(order + "I", number) + packet


@pytest.mark.parametrize(
    ("linktype", "frame"),
    [
        pytest.param(ETHERNET, Ether(**MACS) / V4, id="ethernet"),
        pytest.param(ETHERNET, Ether(**MACS) / V6, id="ethernet-ipv6"),
        pytest.param(ETHERNET, Ether(**MACS) / Dot1Q(vlan=7) / V4, id="802.1q"),
        pytest.param(ETHERNET, Ether(**MACS) / Dot1AD(vlan=7) / Dot1Q(vlan=8) / V6, id="qinq-88a8"),
        pytest.param(ETHERNET, Ether(**MACS, type=0x9100) / Dot1Q(vlan=7) / Dot1Q(vlan=8) / V4, id="qinq-9100"),
        pytest.param(ETHERNET, Ether(**MACS, type=0x9200) / Dot1Q(vlan=7) / V4, id="qinq-9200"),
        pytest.param(ETHERNET, Ether(**MACS) / Dot1Q() / Dot1Q() / Dot1Q() / Dot1Q() / V4, id="four-tags"),
        pytest.param(ETHERNET, Dot3(**MACS) / LLC() / SNAP() / V4, id="snap"),
        pytest.param(ETHERNET, Dot3(**MACS) / LLC() / SNAP(OUI=0xF8) / V6, id="bridge-snap"),
        pytest.param(ETHERNET, bytes(12) + b"\x81\x00\x00\x07\x00\x40" + bytes(LLC() / SNAP() / V4), id="snap-in-vlan"),
        pytest.param(SLL, CookedLinux() / V4, id="sll"),
        pytest.param(SLL, CookedLinux() / V6, id="sll-ipv6"),
        pytest.param(SLL, CookedLinux(proto=0x8100) / Dot1Q(vlan=7) / V4, id="sll-vlan"),
        pytest.param(SLL2, CookedLinuxV2() / V4, id="sll2"),
        pytest.param(SLL2, CookedLinuxV2() / V6, id="sll2-ipv6"),
        *(
            pytest.param(linktype, family(number, order, bytes(packet)), id=f"{linktype}-family-{number}-{order}")
            for linktype in (NULL, LOOP)
            for order in "<>"
            for number, packet in ((2, V4), (10, V6), (24, V6), (28, V6), (30, V6))
        ),
        *(pytest.param(linktype, V4, id=f"raw-{linktype}") for linktype in (12, 14, RAW, IPV4)),
        *(pytest.param(linktype, V6, id=f"raw-{linktype}-ipv6") for linktype in (12, 14, RAW, IPV6)),
    ],
)
def test_the_segment_is_found_behind_every_link_header(linktype, frame):
    batch = decode(Captured(bytes(frame), linktype))
    assert [(found.payload, found.size, found.seq, found.source[1]) for found in segments(batch)] == [
        (b"hello", 5, 7, 40_000)
    ]
    assert (batch.problems, batch.skipped_packets) == ([], 0)


def test_padding_behind_the_ip_packet_is_no_payload():
    padded = bytes(Ether(**MACS) / IP() / TCP()) + b"padding"
    assert [(found.payload, found.size) for found in segments(decode(padded))] == [(b"", 0)]


@pytest.mark.parametrize(
    "frame",
    [
        Ether(**MACS) / ARP(),
        Dot3(**MACS) / LLC() / STP(),
        Dot3(**MACS) / LLC() / SNAP(OUI=0x00000C, code=0x2000) / b"a protocol of Cisco's",
        Ether(**MACS, type=0x88CC) / b"LLDP",
        Ether(**MACS) / Dot1Q(type=0x88CC) / b"LLDP",
    ],
    ids=lambda frame: frame.summary(),
)
def test_a_frame_that_holds_no_ip_is_skipped(frame):
    batch = decode(bytes(frame))
    assert (len(batch), batch.problems, batch.skipped_packets) == (0, [], 1)


@pytest.mark.parametrize(
    ("linktype", "number", "order"), [(NULL, 7, "<"), (LOOP, 18, ">"), (NULL, 0x02000002, "<"), (NULL, 0x0200, "<")]
)
def test_another_address_family_is_skipped(linktype, number, order):
    batch = decode(Captured(family(number, order, bytes(V4)), linktype))
    assert (len(batch), batch.problems, batch.skipped_packets) == (0, [], 1)


@pytest.mark.parametrize(
    ("linktype", "frame", "header"),
    [
        (ETHERNET, Ether(**MACS) / V4, 14),
        (ETHERNET, Ether(**MACS) / Dot1Q() / V4, 18),
        (SLL, CookedLinux() / V4, 16),
        (SLL2, CookedLinuxV2() / V4, 20),
        (NULL, family(2, "<", bytes(V4)), 4),
        (RAW, V4, 1),
    ],
)
def test_a_link_header_that_is_not_all_there_is_a_problem(linktype, frame, header):
    data = bytes(frame)
    for size in range(header):
        cut = Captured(data[:size], linktype, wire_size=len(data))
        assert kinds(decode(cut).problems) == ["truncated"]
        assert kinds(decode(Captured(data[:size], linktype)).problems) == ["malformed"]


def test_a_packet_of_nothing_but_vlan_tags_is_given_up():
    assert kinds(decode(bytes(12) + b"\x81\x00\x00\x07" * 300).problems) == ["limit"]


def test_a_raw_packet_of_neither_ip_version_is_malformed():
    assert kinds(decode(Captured(b"\x50" + bytes(60), RAW)).problems) == ["malformed"]


def test_packets_of_several_link_types_keep_their_order():
    batch = decode(
        Captured(bytes(V6), RAW, packet=1),
        Captured(bytes(Ether(**MACS) / Dot1Q() / V4), ETHERNET, packet=2),
        Captured(bytes(CookedLinux() / V6), SLL, packet=3),
        Captured(bytes(Ether(**MACS) / V4), ETHERNET, packet=4),
        Captured(bytes(Ether(**MACS) / V6), ETHERNET, packet=5),
    )
    assert batch.packet.tolist() == [1, 2, 3, 4, 5]
    assert batch.ordinal.tolist() == [0, 1, 2, 3, 4]
    assert [len(found.source[0]) for found in segments(batch)] == [16, 4, 16, 4, 16]
    assert len(batch.flows) == 2


def test_an_unknown_link_type_is_one_problem_a_capture_however_many_packets_have_it():
    decoder = PacketDecoder(Limits())
    packets = [
        Captured(b"radiotap", 127, packet=packet_id(0, 1)),
        Captured(b"radiotap", 127, packet=packet_id(0, 2)),
        Captured(bytes(V4), RAW, packet=packet_id(0, 3)),
        Captured(b"radiotap", 127, packet=packet_id(1, 1)),
        Captured(b"usb", 189, packet=packet_id(1, 2)),
    ]
    batch = decoder.decode(batch_of(packets))
    assert [(problem.packet, problem.problem.detail) for problem in batch.problems] == [
        (packet_id(0, 1), "packets of link type 127 are not decoded"),
        (packet_id(1, 1), "packets of link type 127 are not decoded"),
        (packet_id(1, 2), "packets of link type 189 are not decoded"),
    ]
    assert kinds(batch.problems) == ["input"] * 3
    assert (len(batch), batch.skipped_packets) == (1, 4)
    again = decoder.decode(batch_of(packets, ordinal=5))
    assert (again.problems, again.skipped_packets) == ([], 4)
