import io

import dpkt
import pytest
from capturecraft import (
    COMMENT,
    block,
    details,
    interface,
    names,
    old_packet,
    packet,
    packets_of,
    pcap,
    read,
    read_at_all_windows,
    section,
    simple_packet,
    statistics,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from mqsniff.model import packet_id

S = 10**9
US = 1000
PACKETS = [(1_700_000_000 * S + n * 1_234_000, bytes([n]) * (n * 7 + 1)) for n in range(20)]

every_order = pytest.mark.parametrize("order", ["<", ">"], ids=["little", "big"])


def body(order="<", packets=PACKETS):
    return b"".join(packet(ts // US, data, order) for ts, data in packets)


def head(order="<"):
    return section(order) + interface(order)


@every_order
def test_enhanced_packet_blocks_are_read(tmp_path, order):
    found, info = read_at_all_windows(section(order) + interface(order, linktype=113) + body(order), tmp_path)
    assert found == [(ts, data, len(data), 113, 0, packet_id(0, n + 1)) for n, (ts, data) in enumerate(PACKETS)]
    assert (info.format, info.packets, info.linktypes, info.problems) == ("pcapng", 20, {113}, [])


@every_order
def test_dpkt_reads_the_same(tmp_path, order):
    data = head(order) + body(order)
    theirs = [(round(float(ts) * 10**6), bytes(packet)) for ts, packet in dpkt.pcapng.Reader(io.BytesIO(data))]
    assert [(round(ts / US), packet) for ts, packet in packets_of(read(data, tmp_path)[0])] == theirs


@every_order
@pytest.mark.parametrize("second", ["<", ">"])
def test_sections_begin_anew_and_packets_and_interfaces_count_on(tmp_path, order, second):
    data = section(order) + interface(order, linktype=1) + interface(order, linktype=101) + body(order, PACKETS[:3])
    data += section(second) + interface(second, linktype=113) + body(second, PACKETS[3:6])
    found, info = read_at_all_windows(data, tmp_path)
    assert packets_of(found) == PACKETS[:6]
    assert [row[3:] for row in found] == [(1, 0, n) for n in (1, 2, 3)] + [(113, 2, n) for n in (4, 5, 6)]
    assert info.problems == []


def test_a_section_of_the_other_order_whose_size_reads_the_same_is_seen(tmp_path):
    fill = 0x00010100 - len(section(opts=[(COMMENT, b""), (COMMENT, b"")]))
    other = section(">", opts=[(COMMENT, b"x" * 40_000), (COMMENT, b"x" * (fill - 40_000))])
    assert len(other) == 0x00010100
    data = head("<") + body("<", PACKETS[:2]) + other + interface(">") + body(">", PACKETS[2:4])
    found, info = read(data, tmp_path)
    assert packets_of(found) == PACKETS[:4]
    assert info.problems == []


@pytest.mark.parametrize("length", [-1, 0, 5, 2**62])
def test_the_length_of_a_section_is_not_believed(tmp_path, length):
    found, _ = read(section(length=length) + interface() + body(), tmp_path)
    assert packets_of(found) == PACKETS


@every_order
def test_simple_packets_take_the_last_time_and_the_snap_length_of_interface_0(tmp_path, order):
    data = section(order) + interface(order, snaplen=4)
    data += simple_packet(b"abcd", order, wirelen=100) + packet(5, b"x", order) + simple_packet(b"ab", order)
    data += simple_packet(b"abc", order) + packet(9, b"y", order) + simple_packet(b"z", order)
    found, info = read_at_all_windows(data, tmp_path)
    assert [row[:3] for row in found] == [
        (0, b"abcd", 100),
        (5 * US, b"x", 1),
        (5 * US, b"ab", 2),
        (5 * US, b"abc", 3),
        (9 * US, b"y", 1),
        (9 * US, b"z", 1),
    ]
    assert info.problems == []


def test_a_simple_packet_without_snap_length_fills_its_block(tmp_path):
    found, _ = read(head() + simple_packet(b"abcd", wirelen=100), tmp_path)
    assert found[0][:3] == (0, b"abcd", 100)


@every_order
def test_obsolete_packets_have_their_interface_and_losses(tmp_path, order):
    data = section(order) + interface(order) + interface(order, linktype=101)
    data += old_packet(5, b"abc", order, number=1, drops=7) + old_packet(6, b"de", order) + packet(7, b"f", order)
    found, info = read_at_all_windows(data, tmp_path)
    assert [row[:5] for row in found] == [(5000, b"abc", 3, 101, 1), (6000, b"de", 2, 1, 0), (7000, b"f", 1, 1, 0)]
    assert info.dropped == 7


@pytest.mark.parametrize("size", [0, 4, 100, 2_000_000])
def test_unknown_blocks_are_passed_over(tmp_path, size):
    unknown = block(0x0BAD, bytes(size))
    found, info = read_at_all_windows(head() + unknown + body() + unknown + body(packets=PACKETS[:1]), tmp_path)
    assert packets_of(found) == PACKETS + PACKETS[:1]
    assert info.problems == []


def test_a_file_cut_anywhere_gives_the_packets_before_the_cut(tmp_path):
    whole = head() + body(packets=PACKETS[:4]) + statistics([(5, 1)]) + body(packets=PACKETS[4:5]) + block(77, bytes(8))
    ends, at = [], 0
    while at < len(whole):
        at += int.from_bytes(whole[at + 4 : at + 8], "little")
        ends.append((at, int.from_bytes(whole[at - 4 : at], "little")))
    kinds = [None, None, 6, 6, 6, 6, None, 6, None]
    stops = [end for end, _ in ends]
    for size in range(4, len(whole)):
        found, info = read(whole[:size], tmp_path)
        expected = sum(1 for end, kind in zip(stops, kinds, strict=True) if kind and end <= size)
        assert packets_of(found) == PACKETS[:expected]
        if size < 28:
            assert info.unreadable == "cut inside its section header"
        elif size in stops:
            assert info.problems == []
        else:
            assert details(info) == [f"cut at byte {size}, inside a block"]


def test_a_cut_inside_a_block_that_is_passed_over_is_told(tmp_path):
    data = head() + body() + block(0x0BAD, bytes(5_000_000))[:3_000_000]
    found, info = read_at_all_windows(data, tmp_path)
    assert packets_of(found) == PACKETS
    assert details(info) == [f"cut at byte {len(data)}, inside a block"]


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 1200), st.binary(min_size=1, max_size=40), st.sampled_from([1, 100, 1 << 20]))
def test_damage_never_raises_and_costs_no_packet_before_it(folder, at, noise, window):
    whole = head() + body(packets=PACKETS[:10]) + statistics([(5, 1)]) + names([(1, b"\1\2\3\4x\0")])
    at = min(at, len(whole))
    damaged = whole[:at] + noise + whole[at + len(noise) :]
    found, info = read(damaged, folder, window=window)
    again, info_again = read(damaged, folder)
    assert (again, info_again.problems) == (found, info.problems)
    sound, end = 0, len(head())
    for _, data in PACKETS[:10]:
        end += 32 + len(data) + -len(data) % 4
        sound += end <= at
    assert packets_of(found)[:sound] == PACKETS[:sound]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 12), st.binary(max_size=60)), max_size=8), st.sampled_from("<>"))
def test_blocks_full_of_noise_never_raise(folder, blocks, order):
    data = head(order) + b"".join(block(kind, noise, order) for kind, noise in blocks)
    found, info = read(data, folder)
    again, info_again = read(data, folder, window=1)
    assert (again, info_again.problems, info_again.comments) == (found, info.problems, info.comments)


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (block(6, bytes(16)), "its length is impossible"),
        (block(1, b""), "its length is impossible"),
        (b"\x05\x00\x00\x00" + bytes(12), "its length is impossible"),
        (b"\x06\x00\x00\x00\xff\xff\xff\xff" + bytes(24), "its length is impossible"),
        (block(5, bytes(12), trailer=20), "its two lengths differ"),
        (block(0x0BAD, bytes(12), trailer=20), "its two lengths differ"),
        (b"\x0a\x0d\x0d\x0a\x1c\x00\x00\x00????" + bytes(20), "its length is impossible"),
        (section(version=(2, 0)), "pcapng of version 2.0, only 1 is known"),
        (pcap(PACKETS), "a pcap file begins there"),
    ],
)
def test_a_block_that_cannot_be_ends_the_file_there(tmp_path, bad, why):
    data = head() + body() + bad + body()
    found, info = read_at_all_windows(data, tmp_path)
    assert packets_of(found) == PACKETS
    offset = len(head() + body())
    assert [(p.detail, p.offset) for p in info.problems] == [(f"no block at byte {offset}: {why}", offset)]


def test_a_wrong_second_length_of_a_packet_is_only_told(tmp_path):
    data = head() + packet(1, b"a") + packet(2, b"b", trailer=0) + packet(3, b"c", trailer=1)
    found, info = read_at_all_windows(data, tmp_path)
    assert [row[1] for row in found] == [b"a", b"b", b"c"]
    assert [(p.detail, p.severity) for p in info.problems] == [
        ("the two lengths of a packet's block differ", "warning")
    ]


def test_a_captured_length_beyond_its_block_is_cut(tmp_path):
    found, info = read_at_all_windows(head() + packet(1, b"abcd", caplen=2**32 - 1) + packet(2, b"e"), tmp_path)
    assert [row[1:3] for row in found] == [(b"abcd", 2**32 - 1), (b"e", 1)]
    assert details(info) == ["a packet's captured length reaches beyond its block"]


def test_problems_come_in_file_order_whatever_the_window(tmp_path):
    data = head() + packet(1, b"abcd", caplen=100) + block(5, bytes(12), trailer=20)
    _, info = read_at_all_windows(data, tmp_path)
    assert details(info) == [
        "a packet's captured length reaches beyond its block",
        f"no block at byte {len(head()) + 36}: its two lengths differ",
    ]


def test_a_packet_larger_than_the_window_is_read(tmp_path):
    packets = [(0, b"before"), (S, bytes(3_000_000)), (2 * S, b"after")]
    found, info = read(head() + body(packets=packets), tmp_path, window=4096)
    assert packets_of(found) == packets
    assert info.problems == []


def test_a_packet_above_the_limit_ends_the_file_whatever_the_window(tmp_path):
    data = head() + packet(1, b"a") + packet(2, bytes(2_000_000)) + packet(3, b"c")
    for window in (1000, 8 << 20):
        found, info = read(data, tmp_path, window=window, packet_max=1000)
        assert [row[1] for row in found] == [b"a"]
        assert details(info)[0].endswith("its length is impossible")


def test_options_that_lie_are_passed_over(tmp_path):
    crooked = block(6, bytes(12) + b"\x01\0\0\0\x01\0\0\0" + b"x\0\0\0" + b"\x01\0\xff\xff" + b"text")
    endless = packet(1, b"y", opts=[(2, b"")] * 1000 + [(COMMENT, b"too far")])
    found, info = read_at_all_windows(head() + crooked + endless, tmp_path)
    assert [row[1] for row in found] == [b"x", b"y"]
    assert (info.comments, info.problems) == ([], [])


def test_a_capture_without_packets_is_fine(tmp_path):
    for data in (section(), head()):
        found, info = read(data, tmp_path)
        assert (found, info.problems, info.unreadable, info.format) == ([], [], "", "pcapng")


def test_an_unknown_first_section_is_refused(tmp_path):
    assert read(section(version=(9, 1)), tmp_path)[1].unreadable == "pcapng of version 9.1, only 1 is known"
