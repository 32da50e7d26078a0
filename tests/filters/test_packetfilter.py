"""Filters of a job: what is left out is as if the captures did not have it."""

import random

import capturecraft as craft
import pytest
from segmentrows import Run, plain
from tinycapture import ip_tcp

from mqsniff.filters.packetfilter import PacketFilter
from mqsniff.model import FlowKey

S = 10**9


@pytest.fixture
def packets():
    chance = random.Random(1)
    made = []
    for number in range(90):
        ports = chance.choice([(40_000, 9092), (9092, 40_000), (40_001, 6650), (40_002, 4150)])
        data = bytearray(ip_tcp(ports, number, 0, 0x18, bytes(chance.randrange(200))))
        data[12:20] = chance.choice([b"\x0a\0\0\1\x0a\0\0\2", b"\x0a\0\1\1\x0a\0\0\2"])
        made.append(((100 + number - (number % 7 == 0) * 5) * S, bytes(data)))
    return made


def run(tmp_path, packets, **keep):
    path = tmp_path / "x.pcap"
    path.write_bytes(craft.pcap(packets, linktype=101))
    return Run([path], 3000, packet_filter=PacketFilter(**keep))


@pytest.mark.parametrize(("low", "high"), [(120, 150), (None, 130), (160, None), (95, 190), (195, None)])
def test_a_time_span_gives_the_packets_inside_it(tmp_path, packets, low, high):
    found = run(tmp_path, packets, from_ns=None if low is None else low * S, to_ns=None if high is None else high * S)
    inside = [number for number, (ts, _) in enumerate(packets, 1) if (low or 0) * S <= ts < (high or 999) * S]
    assert [row[8] for row in found.rows()] == inside
    assert found.prefix.files[0].left_out_packets == 90 - len(inside)
    assert found.prefix.packets == 90


@pytest.mark.parametrize(
    ("keep", "wanted"),
    [
        ({"ports": (9092,)}, lambda _, ports: 9092 in ports),
        ({"ports": (6650, 4150)}, lambda _, ports: {6650, 4150} & ports),
        ({"hosts": ("10.0.1.1",)}, lambda hosts, _: "10.0.1.1" in hosts),
        ({"hosts": ("10.0.1.0/24", "::1")}, lambda hosts, _: "10.0.1.1" in hosts),
        ({"hosts": ("10.0.1.1",), "ports": (4150,)}, lambda hosts, ports: "10.0.1.1" in hosts and 4150 in ports),
        ({"hosts": ("192.0.2.0/24",)}, lambda _hosts, _ports: False),
    ],
)
def test_ports_and_hosts_of_either_end_are_taken(tmp_path, packets, keep, wanted):
    def ends(data):
        hosts = {".".join(map(str, data[at : at + 4])) for at in (12, 16)}
        return hosts, {int.from_bytes(data[at : at + 2], "big") for at in (20, 22)}

    numbers = [number for number, (_, data) in enumerate(packets, 1) if wanted(*ends(data))]
    found = run(tmp_path, packets, **keep)
    assert [row[8] for row in found.rows()] == numbers
    assert found.prefix.files[0].left_out_packets == 90 - len(numbers)


def test_an_ipv6_network_takes_its_addresses():
    keep = PacketFilter(hosts=("2001:db8::/32",))
    inside, outside = bytes.fromhex("20010db8" + "00" * 12), bytes.fromhex("20010db9" + "00" * 12)
    assert keep.is_wanted(FlowKey("", inside, 1, outside, 2))
    assert not keep.is_wanted(FlowKey("", outside, 1, outside, 2))


def test_what_cannot_be_taken_apart_is_told_whoever_sent_it(tmp_path, packets):
    short = [(ts, data[:30]) for ts, data in packets[:20]]
    found = run(tmp_path, short + packets[20:], ports=(1,), to_ns=115 * S)
    assert found.rows() == []
    expected = [each for each in plain([tmp_path / "x.pcap"])[1] if each[1] < 115 * S]
    assert found.problems() == expected
