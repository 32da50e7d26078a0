"""Filters: what they become, and what the kernel lets through, tried on packets by a small interpreter."""

from __future__ import annotations

import ctypes.util
import struct

import pytest

from mqsniff.sources import capturefilter
from mqsniff.sources.capturefilter import FilterError, capture_program, default_filter, everything, ssh_connection

ETHERNET, LOOPBACK, TUN = 1, 772, 65534
HOST, OUTGOING = 0, 4
SSH = {"SSH_CONNECTION": "10.0.0.5 50122 10.0.0.1 22"}

needs_libpcap = pytest.mark.skipif(ctypes.util.find_library("pcap") is None, reason="needs libpcap")


def passes(program, packet, hatype=ETHERNET, kind=HOST):  # noqa: C901  # an interpreter
    """Whether a program lets a packet through."""
    a = x = at = 0
    memory = [0] * 16
    while True:
        code, jt, jf, k = program[at]
        at += 1
        size = {0x00: 4, 0x08: 2, 0x10: 1}.get(code & 0x18, 4)
        match code & 0x07:
            case 0 | 1 if code & 0xE0 == 0x20 and k >= 0xFFFFF000:
                a = {4: kind, 28: hatype}[k - 0xFFFFF000]
            case 0 if code & 0xE0 in (0x20, 0x40):
                place = k + (x if code & 0xE0 == 0x40 else 0)
                if place + size > len(packet):
                    return False
                a = int.from_bytes(packet[place : place + size], "big")
            case 0:
                a = {0x00: k, 0x60: memory[k % 16], 0x80: len(packet)}[code & 0xE0]
            case 1:
                x = 4 * (packet[k] & 15) if code & 0xE0 == 0xA0 else memory[k % 16] if code & 0xE0 == 0x60 else k
            case 2 | 3:
                memory[k] = a if code & 7 == 2 else x
            case 4:
                other = x if code & 8 else k
                a = {0x00: a + other, 0x10: a - other, 0x40: a | other, 0x50: a & other, 0x60: a << other,
                     0x70: a >> other}[code & 0xF0] & 0xFFFFFFFF  # fmt: skip
            case 5 if code & 0xF0 == 0:
                at += k
            case 5:
                other = x if code & 8 else k
                true = {0x10: a == other, 0x20: a > other, 0x30: a >= other, 0x40: bool(a & other)}[code & 0xF0]
                at += jt if true else jf
            case 6:
                return bool(k)
            case 7:
                a, x = (x, a) if code & 0x80 == 0 else (x, x)


def ip4(proto, source="10.0.0.5", target="10.0.0.1", body=b"", fragment=0):
    ends = [bytes(map(int, each.split("."))) for each in (source, target)]
    return struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(body), 0, fragment, 64, proto, 0) + b"".join(ends) + body


def tcp(source, target):
    return struct.pack("!HHIIBBHHH", source, target, 0, 0, 0x50, 0x10, 0, 0, 0)


def frame(body, kind=0x0800):
    return bytes(12) + struct.pack("!H", kind) + body


UDP = struct.pack("!HHHH", 5353, 5353, 8, 0)
VXLAN = struct.pack("!HHHH", 40000, 4789, 8, 0)


def test_the_ssh_connection_of_the_terminal_is_told_by_its_ends():
    assert ssh_connection(SSH) == "tcp port 50122 and tcp port 22 and host 10.0.0.5 and host 10.0.0.1"
    assert ssh_connection({"SSH_CONNECTION": "fe80::1%eth0 5 fe80::2%eth0 22"}).endswith("fe80::1 and host fe80::2")


@pytest.mark.parametrize("value", ["", "10.0.0.5", "here 1 there 2", "10.0.0.5 a 10.0.0.1 b", "1 2 3 4 or tcp"])
def test_what_is_no_ssh_connection_is_left_alone(value):
    assert ssh_connection({"SSH_CONNECTION": value}) is None


@needs_libpcap
@pytest.mark.parametrize(
    ("packet", "passed"),
    [
        (frame(ip4(6, body=tcp(50122, 4150))), True),
        (frame(ip4(6, body=tcp(50122, 22))), False),
        (frame(ip4(6, "10.0.0.1", "10.0.0.5", tcp(22, 50122))), False),
        (frame(ip4(6, "10.0.0.9", "10.0.0.1", tcp(50122, 22))), True),
        (frame(ip4(17, body=UDP)), False),
        (frame(ip4(17, body=VXLAN)), True),
        (frame(ip4(6, fragment=100, body=b"rest")), True),
        (frame(ip4(47, body=b"gre")), True),
        (frame(b"\0\x01\x08\x00" + ip4(6), 0x8100), True),
        (frame(bytes(40), 0x8847), True),
        (frame(bytes(28), 0x0806), False),
    ],
    ids=["tcp", "own ssh", "own ssh back", "other ssh", "udp", "vxlan", "fragment", "gre", "vlan", "mpls", "arp"],
)
def test_by_default_what_can_carry_tcp_is_taken_but_the_terminals_own_ssh(packet, passed):
    program = capture_program(default_filter(SSH), is_default=True)
    assert passes(program, packet) is passed
    if packet[12:14] == b"\x08\x00":
        assert passes(program, packet[14:], TUN) is passed


@needs_libpcap
def test_ports_only_takes_nothing_but_ports():
    program = capture_program(default_filter({}, (4150, 9092)), is_default=True)
    assert passes(program, frame(ip4(6, body=tcp(1, 9092))))
    assert not passes(program, frame(ip4(6, body=tcp(1, 9093))))
    assert not passes(program, frame(ip4(17, body=VXLAN)))


@pytest.mark.parametrize(
    ("hatype", "kind", "passed"),
    [(LOOPBACK, OUTGOING, False), (LOOPBACK, HOST, True), (ETHERNET, OUTGOING, True), (TUN, OUTGOING, True)],
)
def test_only_a_loopback_loses_its_outgoing_copies(hatype, kind, passed):
    assert passes(everything(), frame(ip4(6)), hatype, kind) is passed


@needs_libpcap
def test_a_filter_that_only_ethernet_has_takes_nothing_of_raw_ip():
    program = capture_program("ether host 00:00:00:00:00:00", is_default=False)
    assert passes(program, frame(ip4(6)))
    assert not passes(program, ip4(6), TUN)


@needs_libpcap
@pytest.mark.parametrize("text", ["no filter", "tcp port", "tcp\0", "port 99999999"])
def test_a_filter_that_is_none_says_why(text):
    with pytest.raises(FilterError, match=r"\w"):
        capture_program(text, is_default=False)


def test_without_libpcap_a_filter_says_what_to_install(monkeypatch):
    monkeypatch.setattr(capturefilter.ctypes.util, "find_library", lambda _: "libnothing.so")
    with pytest.raises(FilterError, match="apt install libpcap"):
        capture_program("tcp", is_default=False)
