"""Bytes of a payload are overwritten, and the checksum stays as right as it was."""

from __future__ import annotations

import struct

import dpkt
import pytest

from mqsniff.answers.tcppatch import PayloadPatch, patched

PORTS = frozenset((40_000, 9092))


def packet(payload: bytes, *, ipv6: bool = False, options: bytes = b"") -> bytes:
    tcp = dpkt.tcp.TCP(sport=40_000, dport=9092, seq=77, data=payload, opts=options, off=5 + len(options) // 4)
    if ipv6:
        ip: dpkt.Packet = dpkt.ip6.IP6(src=b"\1" * 16, dst=b"\2" * 16, nxt=6, data=tcp, plen=len(tcp))
        kind = dpkt.ethernet.ETH_TYPE_IP6
    else:
        ip, kind = dpkt.ip.IP(src=b"\1" * 4, dst=b"\2" * 4, p=6, data=tcp, len=20 + len(tcp)), 0x0800
    return bytes(dpkt.ethernet.Ethernet(data=ip, type=kind))


def checksum_of(raw: bytes) -> tuple[int, int]:
    """(the checksum that stands there, the right one)."""
    ip = dpkt.ethernet.Ethernet(raw).data
    there, ip.data.sum = ip.data.sum, 0
    segment = bytes(ip.data)
    head = ip.src + ip.dst + struct.pack(">HH", 6, len(segment))
    right = dpkt.in_cksum(head + segment)
    return there, right


@pytest.mark.parametrize("ipv6", [False, True])
@pytest.mark.parametrize("options", [b"", b"\1" * 12])
@pytest.mark.parametrize("payload", [b"password=hush", b"password=hush!", b"\xff" * 64, b"*"])
def test_a_right_checksum_stays_right(payload, options, *, ipv6):
    raw = bytearray(packet(payload, ipv6=ipv6, options=options))
    assert len(set(checksum_of(bytes(raw)))) == 1
    start = len(raw) - len(payload)
    assert patched(raw, (start, len(raw)), PORTS, 77, [PayloadPatch(1, 9, 0x2A), PayloadPatch(len(payload) - 2, 99, 0)])
    assert len(set(checksum_of(bytes(raw)))) == 1
    assert len(raw) == start + len(payload)


def test_what_is_no_tcp_header_is_told():
    raw = bytearray(packet(b"abcd"))
    assert not patched(raw, (len(raw) - 4, len(raw)), PORTS, 78, [PayloadPatch(0, 4, 0)])
    assert raw.endswith(bytes(4))
