"""Blocks of the kernel's ring, as bytes: what becomes of their packets."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from mqsniff.sources import packetring
from mqsniff.sources.packetring import BLOCK_SIZE, SNAPLEN, block_size_for, packet_heads, read_packets

FRAME = bytes(range(12)) + b"\x08\x00" + b"payload"
FIRST = 48
MAC_AT = 80
STRIDE = 256
SECONDS, NANOSECONDS = 1_795_253_930, 123_456_789
TS = SECONDS * 10**9 + NANOSECONDS


def slot(data=FRAME, *, status=1, tci=0, tpid=0, hatype=1, wirelen=None, ifindex=7):
    """A packet as the kernel puts it: struct tpacket3_hdr, struct sockaddr_ll, packet."""
    head = struct.pack("=IIIIII", STRIDE, SECONDS, NANOSECONDS, len(data), wirelen or len(data), status)
    head += struct.pack("=HHIIHH8x", MAC_AT, MAC_AT + 14, 0, tci, tpid, 0)
    head += struct.pack("=HHiHBB8x", 17, 8, ifindex, hatype, 0, 6)
    return (head.ljust(MAC_AT, b"\0") + data).ljust(STRIDE, b"\0")


def packets_of(*slots):
    """The packets of a block, as columns and as bytes."""
    block = bytearray(FIRST) + b"".join(slots)
    heads = packet_heads(memoryview(block), FIRST, len(slots))
    packets = read_packets(block, heads)
    ends = zip(packets.start.tolist(), packets.caplen.tolist(), strict=True)
    return packets, [bytes(packets.buffer[start : start + size]) for start, size in ends]


def test_packets_follow_each_other_by_their_heads():
    packets, data = packets_of(slot(), slot(b"x" * 60, hatype=65534, ifindex=9))
    assert data == [FRAME, b"x" * 60]
    assert packets.ts_ns.tolist() == [TS, TS]
    assert (packets.ifindex.tolist(), packets.hatype.tolist()) == ([7, 9], [1, 65534])


def test_a_packet_that_was_cut_keeps_its_size_on_the_wire():
    packets, _ = packets_of(slot(wirelen=9000))
    assert (packets.caplen.tolist(), packets.wirelen.tolist()) == ([len(FRAME)], [9000])


@pytest.mark.parametrize(
    ("status", "tci", "tpid", "tag"),
    [
        (0x11, 0x2007, 0, b"\x81\x00\x20\x07"),
        (0x51, 0x0007, 0x88A8, b"\x88\xa8\x00\x07"),
        (0x11, 0, 0, b"\x81\x00\x00\x00"),
        (0x01, 0x2007, 0, b""),
    ],
    ids=["802.1Q", "QinQ", "priority tag of zeros", "no tag"],
)
def test_a_vlan_tag_that_the_kernel_took_off_is_put_back(status, tci, tpid, tag):
    packets, data = packets_of(slot(), slot(status=status, tci=tci, tpid=tpid), slot())
    assert data == [FRAME, FRAME[:12] + tag + FRAME[12:], FRAME]
    assert packets.wirelen.tolist() == [len(each) for each in data]


@pytest.mark.parametrize("snaplen", [64, SNAPLEN, BLOCK_SIZE, 1 << 24])
def test_a_block_holds_a_packet_of_the_snap_length_and_is_a_power_of_two(snaplen):
    size = block_size_for(snaplen)
    assert size > snaplen
    assert size & (size - 1) == 0
    assert np.log2(size) >= 18


def test_a_filter_cuts_packets_at_the_snap_length_and_not_where_it_was_compiled_for():
    take, leave, load = (packetring.BpfStep(*step) for step in ((6, 0, 0, 96), (6, 0, 0, 0), (0x20, 0, 0, 12)))
    assert [packetring._cut(step, 4096) for step in (take, leave, load)] == [take._replace(k=4096), leave, load]
