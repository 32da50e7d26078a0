"""TCP headers: options, cuts at every byte, and lying data offsets."""

from __future__ import annotations

import pytest
from dpkt_oracle import segment_of
from packet_batches import MACS, Captured, decode, kinds, segments
from scapy.layers.inet import IP, TCP
from scapy.layers.inet6 import IPv6, IPv6ExtHdrDestOpt
from scapy.layers.l2 import Ether

from mqsniff.streams.segment import ZERO_WINDOW
from mqsniff.streams.transport import FLAGS

OPTIONS = [("MSS", 1460), ("SAckOK", b""), ("Timestamp", (1, 0)), ("NOP", None), ("WScale", 7)]
HEADS = [Ether(**MACS) / IP(id=3), Ether(**MACS) / IPv6() / IPv6ExtHdrDestOpt()]


@pytest.mark.parametrize("head", HEADS, ids=["ipv4", "ipv6"])
@pytest.mark.parametrize("options", [[], OPTIONS], ids=["plain", "options"])
def test_a_packet_cut_at_any_byte_tells_what_was_captured_of_it(head, options):
    tcp = TCP(sport=1, dport=2, seq=0xFFFFFFF0, ack=0x80000001, flags="PA", options=options)
    data = bytes(head / tcp / b"0123456789")
    header_at = len(data) - 10 - len(tcp)
    for size in range(14, len(data) + 1):
        batch = decode(Captured(data[:size], wire_size=len(data)))
        if size < header_at + 8:
            assert kinds(batch.problems) == ["truncated"]
        elif size < header_at + 14:
            (found,) = segments(batch)
            assert (found.seq, found.flags, found.payload) == (0xFFFFFFF0, 0, b"")
            assert found.ack == (0x80000001 if size >= header_at + 12 else 0)
            assert found.size <= 10
        else:
            assert segments(batch) == [segment_of(Captured(data[:size], wire_size=len(data)))]
            assert segments(batch)[0].size == 10


def test_a_segment_whose_data_offset_was_cut_off_counts_only_bytes_that_are_surely_payload():
    data = bytes(IP() / TCP(options=OPTIONS) / bytes(1000))
    (found,) = segments(decode(Captured(data[:30], 101, wire_size=len(data))))
    assert found.size == 1000 + 20 + 20 - 60


@pytest.mark.parametrize(
    ("offset", "detail"),
    [
        (0, "TCP data offset below 20 bytes"),
        (4, "TCP data offset below 20 bytes"),
        (7, "TCP data offset beyond the packet"),
        (15, "TCP data offset beyond the packet"),
    ],
)
def test_a_lying_data_offset_is_malformed(offset, detail):
    batch = decode(bytes(Ether(**MACS) / IP() / TCP(dataofs=offset) / b"hello"))
    assert [(problem.problem.kind, problem.problem.detail) for problem in batch.problems] == [("malformed", detail)]
    assert len(batch) == 0


def test_a_header_may_take_all_of_the_packet():
    assert segments(decode(bytes(Ether(**MACS) / IP() / TCP(dataofs=6) / b"opts")))[0][6:8] == (b"", 0)


def test_a_window_of_zero_is_a_flag_of_segments_in_the_stream():
    packets = [
        bytes(Ether(**MACS) / IP() / TCP(flags=flags, window=window)) for flags in ("A", "S", "RA") for window in (0, 1)
    ]
    assert [flags & ZERO_WINDOW for flags in decode(*packets).flags.tolist()] == [ZERO_WINDOW, 0, 0, 0, 0, 0]


def test_only_the_six_flags_that_the_model_names_are_given():
    batch = decode(*(bytes(Ether(**MACS) / IP() / TCP(flags=flags)) for flags in (0, 2, 0x1FF, 0xC2)))
    assert batch.flags.tolist() == [0, 2, FLAGS, 2]


def test_checksums_are_not_looked_at():
    assert len(decode(bytes(Ether(**MACS) / IP(chksum=1) / TCP(chksum=1)))) == 1


@pytest.mark.parametrize(("kept", "shut"), [(14, False), (15, False), (16, True), (17, True), (20, True)])
def test_a_window_of_zero_is_one_only_where_it_was_captured(kept, shut):
    data = bytes(IP() / TCP(flags="A", window=0))
    (found,) = segments(decode(Captured(data[: 20 + kept], 101, wire_size=len(data))))
    assert bool(found.flags & ZERO_WINDOW) is shut
