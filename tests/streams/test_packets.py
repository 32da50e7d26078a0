"""The decoder as a whole: its laws on valid, mutated and random packets, with dpkt as the judge of what they say."""

from __future__ import annotations

import itertools
import subprocess
import sys

import numpy as np
import pytest
from dpkt_oracle import DPKT_FAULTS, FRAGMENT, segment_of
from hypothesis import given, settings
from hypothesis import strategies as st
from packet_batches import MACS, Captured, Segment, batch_of, decode, kinds, segments
from scapy.contrib.mpls import MPLS
from scapy.layers.inet import IP, TCP, UDP, fragment
from scapy.layers.inet6 import IPv6, IPv6ExtHdrDestOpt, IPv6ExtHdrFragment, IPv6ExtHdrHopByHop, fragment6
from scapy.layers.l2 import ARP, GRE, CookedLinuxV2, Dot1Q, Ether
from scapy.layers.ppp import PPP, PPPoE
from scapy.layers.vxlan import VXLAN

from mqsniff.limits import Limits
from mqsniff.streams.packets import PacketDecoder

RAW, SLL2 = 101, 276
LINK = Ether(**MACS)
SEGMENT = TCP(sport=40_000, dport=9092, seq=7, ack=8, flags="PA", options=[("Timestamp", (1, 2))]) / b"payload"
V4 = IP(src="10.0.0.1", dst="10.0.0.2", id=77) / SEGMENT
BACK = IP(src="10.0.0.2", dst="10.0.0.1") / TCP(sport=9092, dport=40_000, seq=8, ack=14, flags="A")
V6 = IPv6(src="fd00::1", dst="fd00::2") / IPv6ExtHdrHopByHop() / IPv6ExtHdrDestOpt() / SEGMENT
LONG = TCP(sport=1, dport=2) / bytes(1000)
PACKETS = [
    *(Captured(bytes(LINK / packet)) for packet in (V4, BACK, V6, Dot1Q(vlan=2) / V4, ARP(), IP() / UDP(dport=53))),
    *(Captured(bytes(CookedLinuxV2() / packet), SLL2) for packet in (V4, V6)),
    *(Captured(bytes(packet), RAW) for packet in (V4, V6, BACK)),
    *(Captured(bytes(LINK / IP() / packet)) for packet in (GRE() / V4, V6, UDP(dport=4789) / VXLAN() / LINK / V4)),
    *(Captured(bytes(LINK / packet)) for packet in (MPLS() / V4, PPPoE(sessionid=1) / PPP() / V4)),
    *(Captured(bytes(packet), RAW) for packet in fragment(IP(id=1) / LONG, 400)),
    *(Captured(bytes(packet), RAW) for packet in fragment6(IPv6() / IPv6ExtHdrFragment(id=1) / LONG, 400)),
]
KNOWN_LINKS = [0, 1, 12, 14, 101, 108, 113, 228, 229, 276]
COLUMNS = {
    "int32": ("flow", "direction", "flags", "interface"),
    "int64": ("seq", "ack", "start", "stop", "size", "ip_id", "ts_ns", "packet", "ordinal"),
}


@st.composite
def mutated(draw: st.DrawFn) -> Captured:
    packet = draw(st.sampled_from(PACKETS))
    data = bytearray(packet.data)
    for _ in range(draw(st.integers(0, 3))):
        data[draw(st.integers(0, min(len(data), 90) - 1))] = draw(
            st.sampled_from([0, 1, 4, 5, 6, 44, 0x45, 0x80, 0xFF])
        )
    cut = bytes(data[: draw(st.integers(0, len(data)))]) if draw(st.booleans()) else bytes(data)
    return packet._replace(data=cut, wire_size=draw(st.sampled_from([0, len(cut), len(data), 65_535])))


noise = st.tuples(st.binary(max_size=120), st.sampled_from(KNOWN_LINKS), st.integers(0, 200)).map(
    lambda drawn: Captured(*drawn)
)


@settings(max_examples=50, deadline=None)
@given(st.lists(mutated() | noise, max_size=12))
def test_whatever_packets_claim_each_ends_in_one_place_and_no_column_leaves_the_buffer(packets):
    given_batch = batch_of(packets)
    decoder = PacketDecoder(Limits())
    batch = decoder.decode(given_batch)
    places = [*batch.ordinal.tolist(), *(problem.ordinal for problem in batch.problems)]
    assert len(places) == len(set(places))
    assert set(places) <= set(range(len(packets)))
    elsewhere = len(packets) - len(places) - batch.skipped_packets
    assert elsewhere >= 0
    datagrams = batch.buffer is not given_batch.buffer
    fragments = any("fragment" in problem.problem.detail for problem in [*batch.problems, *decoder.close()])
    assert elsewhere == 0 or datagrams or fragments, "a packet was lost"
    assert (batch.start >= 0).all()
    assert (batch.start <= batch.stop).all()
    assert (batch.stop <= len(batch.buffer)).all()
    assert (batch.size >= batch.stop - batch.start).all()
    assert all(0 <= number < len(batch.flows) for number in batch.flow)
    assert (np.diff(batch.ordinal) > 0).all()


@settings(max_examples=50, deadline=None)
@given(st.lists(mutated(), min_size=1, max_size=12))
def test_what_the_columns_make_of_a_packet_is_what_dpkt_makes_of_it(packets):
    for packet in packets:
        batch = decode(packet)
        try:
            told = segment_of(packet)
        except DPKT_FAULTS:
            continue
        if isinstance(told, Segment):
            assert segments(batch) == [told] or kinds(batch.problems) == ["malformed"]
        else:
            assert all(found.payload == b"" or found.tunnel.startswith("vxlan") for found in segments(batch))


def test_packets_that_nobody_touched_are_to_the_columns_what_they_are_to_dpkt():
    told = [segment_of(packet) for packet in PACKETS]
    wanted = [segment for segment in told if isinstance(segment, Segment)]
    batch = decode(*PACKETS)
    found = dict(zip(batch.ordinal.tolist(), segments(batch), strict=True))
    assert [segment for row, segment in found.items() if isinstance(told[row], Segment)] == wanted
    assert [len(found[row].payload) for row in found if told[row] == FRAGMENT] == [1000, 1000]
    assert [found[row].tunnel for row in found if told[row] is None] == ["vxlan:0"]
    assert (batch.problems, batch.skipped_packets) == ([], 2)


@settings(max_examples=50, deadline=None)
@given(st.lists(mutated(), max_size=12), st.lists(st.integers(0, 12)))
def test_windows_do_not_change_what_is_found(packets, cuts):
    bounds = [0, *sorted(min(cut, len(packets)) for cut in cuts), len(packets)]
    decoder = PacketDecoder(Limits())
    windows = [batch_of(packets[start:stop], ordinal=start) for start, stop in itertools.pairwise(bounds)]
    parts = [decoder.decode(window) for window in windows]
    whole = decode(*packets)
    assert [found for part in parts for found in segments(part)] == segments(whole)
    assert [number for part in parts for number in part.ordinal.tolist()] == whole.ordinal.tolist()
    assert [problem for part in parts for problem in part.problems] == whole.problems
    assert sum(part.skipped_packets for part in parts) == whole.skipped_packets


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_kind_of_buffer_gives_the_same(kind):
    assert segments(PacketDecoder(Limits()).decode(batch_of(PACKETS, kind=kind))) == segments(decode(*PACKETS))


def test_no_column_holds_the_buffer_so_that_its_owner_may_read_the_next_window_into_it():
    given_batch = batch_of(PACKETS[:3], kind=bytearray)
    batch = PacketDecoder(Limits()).decode(given_batch)
    assert batch.buffer is given_batch.buffer
    before = batch.seq.tolist()
    given_batch.buffer[:] = bytes(len(given_batch.buffer))
    given_batch.buffer.extend(b"could not grow while an array looks into it")
    assert batch.seq.tolist() == before


@pytest.mark.parametrize("packets", [[], PACKETS[4:6], PACKETS[:3], PACKETS], ids=["none", "no tcp", "plain", "odd"])
def test_columns_have_the_types_and_the_length_that_the_model_promises(packets):
    batch = decode(*packets)
    for dtype, names in COLUMNS.items():
        assert {name: getattr(batch, name).dtype.name for name in names} == dict.fromkeys(names, dtype)
        assert {len(getattr(batch, name)) for name in names} == {len(batch)}


def test_time_number_and_interface_are_those_of_the_packet():
    packets = [packet._replace(ts_ns=100 + n, packet=50 + n, interface=n % 2) for n, packet in enumerate(PACKETS[:7])]
    batch = PacketDecoder(Limits()).decode(batch_of(packets, ordinal=1000))
    kept = [0, 1, 2, 3, 6]
    assert batch.ts_ns.tolist() == [100 + n for n in kept]
    assert batch.packet.tolist() == [50 + n for n in kept]
    assert batch.interface.tolist() == [n % 2 for n in kept]
    assert batch.ordinal.tolist() == [1000 + n for n in kept]


def test_both_directions_are_one_flow_and_a_connection_with_itself_has_one_direction():
    to_itself = IP(src="10.0.0.1", dst="10.0.0.1") / TCP(sport=5, dport=5)
    batch = decode(*(Captured(bytes(packet), RAW) for packet in (V4, BACK, to_itself)))
    assert batch.flow.tolist() == [0, 0, 1]
    assert batch.direction.tolist() == [0, 1, 0]
    assert batch.flows[0] == ("", b"\x0a\0\0\1", 40_000, b"\x0a\0\0\2", 9092)


def test_plain_packets_do_not_load_dpkt():
    program = """
import sys
import numpy as np
from mqsniff.limits import Limits
from mqsniff.model import PacketBatch
from mqsniff.streams.packets import PacketDecoder
one = np.array([60])
batch = PacketBatch(bytes(60), one, one * 0, one, one, np.array([1], np.int32), one, np.array([0], np.int32), 0)
assert PacketDecoder(Limits()).decode(batch).skipped_packets == 1
assert not {"dpkt", "scapy"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True)
