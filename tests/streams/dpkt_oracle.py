"""What dpkt says of one packet: the slow twin of the packet columns, one object a header.

dpkt takes a packet apart by itself, and what is told here is read off its objects, so nothing is shared with the code
under test. It puts no fragments together and knows neither VXLAN nor GENEVE; a header that was cut is no object of it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dpkt
from packet_batches import Captured, Segment

LINKS = {
    0: dpkt.loopback.Loopback,
    1: dpkt.ethernet.Ethernet,
    113: dpkt.sll.SLL,
    276: dpkt.sll2.SLL2,
}
FRAGMENT = "fragment"
DPKT_FAULTS = (IndexError, AttributeError)
"""A label stack that ends with the packet; other IPv6 extension headers after a fragment header."""


def segment_of(captured: Captured) -> Segment | str | None:
    """The TCP segment of a packet, FRAGMENT where that needs other packets too, None where there is none.

    DPKT_FAULTS are raised for some damaged packets, of which it says nothing then.
    """
    try:
        layer = _first_layer(captured)
    except dpkt.UnpackError:
        return None
    tunnels: list[str] = []
    ip: Any = None
    while isinstance(layer, dpkt.Packet) and not isinstance(layer, dpkt.tcp.TCP):
        tunnels += _tunnel(layer, ip)
        if isinstance(layer, dpkt.ip.IP | dpkt.ip6.IP6):
            ip = layer
            if _is_fragment(ip):
                return FRAGMENT
        elif isinstance(layer, dpkt.gre.GRE | dpkt.udp.UDP):
            ip = None
        layer = layer.data
    if ip is None or ip.p != dpkt.ip.IP_PROTO_TCP or len(layer) < 14:
        return None
    return _segment("/".join(tunnels), ip, layer, captured)


def captured_packets(path: Path) -> Iterator[Captured]:
    """The packets of a capture file with their lengths on the wire, which dpkt's readers keep to themselves."""
    from scapy.utils import RawPcapReader

    with RawPcapReader(str(path)) as reader:
        for number, (data, about) in enumerate(reader, 1):
            linktype = getattr(about, "linktype", None)
            yield Captured(data, reader.linktype if linktype is None else linktype, about.wirelen, packet=number)


def _first_layer(captured: Captured) -> dpkt.Packet:
    """All of the packet: dpkt takes it apart when it is asked for its first layer."""
    if captured.linktype in LINKS:
        return LINKS[captured.linktype](captured.data)
    is_ipv6 = captured.data[:1] >= b"\x60"
    return dpkt.ip6.IP6(captured.data) if is_ipv6 else dpkt.ip.IP(captured.data)


def _tunnel(layer: Any, outer_ip: Any) -> list[str]:
    match layer:
        case dpkt.gre.GRE():
            return ["gre"]
        case dpkt.pppoe.PPPoE():
            return [f"pppoe:{layer.session}"]
        case dpkt.ethernet.Ethernet() if hasattr(layer, "mpls_labels"):
            return ["mpls"]
        case dpkt.ip.IP() if outer_ip is not None:
            return ["ipip"]
        case dpkt.ip6.IP6() if outer_ip is not None:
            return ["ip6ip"]
        case _:
            return []


def _is_fragment(ip: Any) -> bool:
    if isinstance(ip, dpkt.ip.IP):
        return bool(ip.mf or ip.offset)
    heads = [head for head in ip.all_extension_headers if isinstance(head, dpkt.ip6.IP6FragmentHeader)]
    return any(head.m_flag or head.frag_off for head in heads)


def _segment(tunnel: str, ip: Any, layer: Any, captured: Captured) -> Segment:
    """``layer`` is a TCP object, or its first 14 to 19 bytes."""
    if isinstance(layer, dpkt.tcp.TCP):
        header_size, flags, payload = layer.off * 4, layer.flags & 63, layer.data
        window: int | None = layer.win
        ports, numbers = (layer.sport, layer.dport), (layer.seq, layer.ack)
    else:
        *fields, offset, flags = struct.unpack("!HHIIBB", layer[:14])
        header_size, payload, flags = (offset >> 4) * 4, b"", flags & 63
        window = int.from_bytes(layer[14:16], "big") if len(layer) >= 16 else None
        ports, numbers = fields[:2], fields[2:]
    if window == 0 and flags & 0b10110 == 0b10000:  # of SYN, RST and ACK the last alone
        flags |= 64
    size = _ip_payload(ip, captured) - header_size
    ip_id = ip.id if isinstance(ip, dpkt.ip.IP) else -1
    return Segment(tunnel, (ip.src, ports[0]), (ip.dst, ports[1]), numbers[0], numbers[1], flags, payload, size, ip_id)


def _ip_payload(ip: Any, captured: Captured) -> int:
    """Bytes after the IP headers, by the length that these tell, else by that of the packet on the wire."""
    if isinstance(ip, dpkt.ip.IP):
        heads, told = ip.hl * 4, ip.len
    else:
        heads = ip.__hdr_len__ + sum(head.length for head in ip.all_extension_headers)
        told = ip.plen and ip.__hdr_len__ + ip.plen
    wire = max(len(captured.data), captured.wire_size or 0)
    return (told or wire - captured.data.rindex(ip.pack_hdr())) - heads
