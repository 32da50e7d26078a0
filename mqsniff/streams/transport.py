"""TCP and tunnels in UDP and IP: packets after their IP headers in, segments as columns out.

1. The size of a segment is that by the IP lengths; its bytes are those that were captured.
2. A header that the capture cut after the sequence number is a segment without bytes. If the data offset is cut off
   too, the longest possible header is assumed, so that no byte is counted that may not exist; flags and ack are 0 then.
3. UDP is read only for the ports of tunnels.
4. A zero window (RFC 9293, section 3.8.6) is one more flag, whatever the window scale; the window of a SYN or RST does
   not count.
5. Sources: RFC 9293, RFC 768; tunnel ports RFC 7348 (and Linux's older one), RFC 8926.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from mqsniff.streams import internet
from mqsniff.streams.columns import Odd, Packets, SetAside, gather
from mqsniff.streams.segment import ACK, RST, SYN, ZERO_WINDOW

if TYPE_CHECKING:
    from mqsniff.model import Bytes8

TCP = np.dtype(
    [
        ("source_port", ">u2"),
        ("destination_port", ">u2"),
        ("sequence", ">u4"),
        ("acknowledgment", ">u4"),
        ("data_offset", "u1"),
        ("flags", "u1"),
        ("window", ">u2"),
        ("checksum", ">u2"),
        ("urgent", ">u2"),
    ]
)
_UDP = np.dtype([("source_port", ">u2"), ("destination_port", ">u2"), ("length", ">u2"), ("checksum", ">u2")])

FLAGS: Final = 0x3F
"""FIN, SYN, RST, PSH, ACK, URG."""
_PORTS_SIZE: Final = 4
_BEHIND_SEQUENCE: Final = 8
_BEHIND_ACKNOWLEDGMENT: Final = 12
_BEHIND_FLAGS: Final = 14
_BEHIND_WINDOW: Final = 16
_LONGEST_HEADER: Final = 0xF0
"""A data offset of 15 words."""

_TUNNEL_OF_PROTOCOL: Final = {
    internet.PROTOCOL_IPV4: Odd.IPV4_IN_IP,
    internet.PROTOCOL_IPV6: Odd.IPV6_IN_IP,
    internet.PROTOCOL_GRE: Odd.GRE,
    internet.PROTOCOL_MPLS: Odd.MPLS,
}
_TUNNEL_OF_PORT: Final = {4789: Odd.VXLAN, 8472: Odd.VXLAN, 6081: Odd.GENEVE}


def read_transport(raw: Bytes8, packets: Packets, outcome: SetAside) -> Packets:
    """Read TCP headers and options; sets ``transport``. Tunnels are left to ``oddpackets``, the rest is skipped."""
    is_tcp = packets.protocol == internet.PROTOCOL_TCP
    if not is_tcp.all():
        _leave_tunnels(raw, packets.where(~is_tcp), outcome)
    return _read_tcp(raw, packets.where(is_tcp), outcome)


def _read_tcp(raw: Bytes8, packets: Packets, outcome: SetAside) -> Packets:
    enough = packets.end - packets.at >= TCP.itemsize
    packets = outcome.require(packets, "malformed", (enough, "IP payload shorter than a TCP header"))
    seen = packets.stop - packets.at >= _BEHIND_SEQUENCE
    packets = outcome.require(packets, "truncated", (seen, "the capture cut the packet inside its TCP header"))
    captured = packets.stop - packets.at
    header = gather(raw, packets.at, TCP)
    cut = captured < _BEHIND_FLAGS
    if cut.any():
        header["acknowledgment"][captured < _BEHIND_ACKNOWLEDGMENT] = 0
        header["data_offset"][cut] = _LONGEST_HEADER
        header["flags"][cut] = 0
    header["flags"] &= FLAGS
    shut = header["window"] == 0
    if shut.any():
        shut &= (captured >= _BEHIND_WINDOW) & (header["flags"] & (SYN | RST | ACK) == ACK)
        header["flags"][shut] |= ZERO_WINDOW
    size = (header["data_offset"] >> 4).astype(np.int64) * 4
    payload = packets.at + size
    return outcome.require(
        replace(packets, at=payload, transport=header),
        "malformed",
        (size >= TCP.itemsize, "TCP data offset below 20 bytes"),
        ((payload <= packets.end) | cut, "TCP data offset beyond the packet"),
    )


def _leave_tunnels(raw: Bytes8, packets: Packets, outcome: SetAside) -> None:
    for protocol, odd in _TUNNEL_OF_PROTOCOL.items():
        outcome.leave(odd, packets.where(packets.protocol == protocol))
    datagrams = packets.where(packets.protocol == internet.PROTOCOL_UDP)
    header = gather(raw, datagrams.at, _UDP)
    payloads = replace(datagrams, at=datagrams.at + _UDP.itemsize)
    has_ports = datagrams.stop - datagrams.at >= _PORTS_SIZE
    outcome.skipped += len(datagrams)
    for port, odd in _TUNNEL_OF_PORT.items():
        found = payloads.where(has_ports & (header["destination_port"] == port))
        outcome.skipped -= len(found)
        outcome.leave(odd, found)
