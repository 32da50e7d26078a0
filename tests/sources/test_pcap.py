import io

import dpkt
import pytest
from capturecraft import packets_of, pcap, pcap_head, pcap_record, read, section
from hypothesis import given, settings
from hypothesis import strategies as st

from mqsniff.model import packet_id

S = 10**9
PACKETS = [(1_700_000_000 * S + n * 1_234_567_000, bytes([n]) * (n * 7 + 1)) for n in range(40)]

every_order = pytest.mark.parametrize("order", ["<", ">"], ids=["little", "big"])


@every_order
@pytest.mark.parametrize("kind", ["micro", "nano", "modified"])
def test_every_byte_order_and_variant_is_read(tmp_path, order, kind):
    found, info = read(pcap(PACKETS, order, kind, linktype=113), tmp_path)
    expected = [(ts, data, len(data), 113, 0, packet_id(0, n + 1)) for n, (ts, data) in enumerate(PACKETS)]
    assert found == expected
    assert (info.format, info.packets, info.linktypes, info.problems) == ("pcap", 40, {113}, [])
    assert (info.first_ts_ns, info.last_ts_ns) == (PACKETS[0][0], PACKETS[-1][0])


@every_order
@pytest.mark.parametrize("kind", ["micro", "nano"])
def test_dpkt_reads_the_same(tmp_path, order, kind):
    data = pcap(PACKETS, order, kind)
    theirs = [(round(float(ts) * 10**6), packet) for ts, packet in dpkt.pcap.Reader(io.BytesIO(data))]
    assert [(round(ts / 1000), packet) for ts, packet in packets_of(read(data, tmp_path)[0])] == theirs


def test_nanoseconds_are_exact_up_to_the_last_second_of_the_format(tmp_path):
    times = [1, 999_999_999, (2**32 - 1) * S + 999_999_999]
    found, _ = read(pcap([(ts, b"x") for ts in times], kind="nano"), tmp_path)
    assert [row[0] for row in found] == times


def test_the_modified_variant_names_the_interface(tmp_path):
    records = [pcap_record(n, b"data", kind="modified", interface=n) for n in (3, 4)]
    found, _ = read(pcap_head(kind="modified") + b"".join(records), tmp_path)
    assert [row[4] for row in found] == [3, 4]


def test_a_cut_packet_keeps_its_length_on_the_wire(tmp_path):
    records = [pcap_record(0, b"head", wirelen=1500), pcap_record(0, b"all of it", wirelen=3)]
    found, _ = read(pcap_head() + b"".join(records), tmp_path)
    assert [(row[1], row[2]) for row in found] == [(b"head", 1500), (b"all of it", 9)]


def test_frame_check_bits_are_no_link_type(tmp_path):
    found, info = read(pcap(PACKETS[:1], linktype=0x54000001), tmp_path)
    assert found[0][3] == 1
    assert info.linktypes == {1}


@settings(max_examples=50, deadline=None)
@given(window=st.integers(1, 2000), order=st.sampled_from("<>"), kind=st.sampled_from(["micro", "modified"]))
def test_windows_of_any_size_give_the_same_packets(folder, window, order, kind):
    found, info = read(pcap(PACKETS, order, kind), folder, window=window)
    assert packets_of(found) == PACKETS
    assert [row[5] for row in found] == list(range(1, 41))
    assert info.problems == []


def test_a_file_cut_anywhere_gives_the_packets_before_the_cut(tmp_path):
    whole = pcap(PACKETS[:6])
    ends = [24]
    for _, data in PACKETS[:6]:
        ends.append(ends[-1] + 16 + len(data))
    for size in range(1, len(whole)):
        found, info = read(whole[:size], tmp_path)
        count = sum(1 for end in ends[1:] if end <= size)
        assert packets_of(found) == PACKETS[:count]
        if size < 4:
            assert info.unreadable.startswith("not a capture")
        elif size < 24:
            assert info.unreadable == "cut inside its file head"
        elif size in ends:
            assert (info.problems, info.unreadable) == ([], "")
        else:
            (problem,) = info.problems
            assert (problem.kind, problem.severity, problem.offset) == ("input", "error", size)
            assert problem.detail == f"cut at byte {size}, inside packet {count + 1}"


@settings(max_examples=50, deadline=None)
@given(at=st.integers(24, 1000), noise=st.binary(min_size=1, max_size=40), window=st.sampled_from([1, 100, 100_000]))
def test_damage_never_raises_and_costs_no_packet_before_it(folder, at, noise, window):
    whole = pcap(PACKETS[:10])
    at = min(at, len(whole))
    damaged = whole[:at] + noise + whole[at + len(noise) :]
    found, info = read(damaged, folder, window=window)
    sound = 0
    end = 24
    for _, data in PACKETS[:10]:
        end += 16 + len(data)
        sound += end <= at
    assert packets_of(found)[:sound] == PACKETS[:sound]
    again, info_again = read(damaged, folder)
    assert (again, info_again.problems) == (found, info.problems)


@pytest.mark.parametrize("size", [262_145, 2**31, 2**32 - 1])
def test_a_length_that_cannot_be_ends_the_file_there(tmp_path, size):
    bad = pcap_record(0, b"?" * 300_000, caplen=size)
    data = pcap(PACKETS) + bad + pcap_record(0, b"never")
    for window in (1, 500, 1 << 23):
        found, info = read(data, tmp_path, window=window)
        assert packets_of(found) == PACKETS
        offset = len(pcap(PACKETS))
        assert [(p.detail, p.offset) for p in info.problems] == [
            (f"no packet 41 at byte {offset}: its length is impossible", offset)
        ]


def test_a_packet_above_a_snap_length_that_lies_is_read(tmp_path):
    found, info = read(pcap([(0, bytes(200_000))], snaplen=96), tmp_path)
    assert [len(row[1]) for row in found] == [200_000]
    assert info.problems == []


def test_a_packet_larger_than_the_window_is_read(tmp_path):
    packets = [(0, b"before"), (S, bytes(5_000_000)), (2 * S, b"after")]
    found, info = read(pcap(packets, snaplen=8_000_000), tmp_path, window=4096)
    assert packets_of(found) == packets
    assert info.problems == []


def test_a_lying_length_buys_no_memory(tmp_path):
    data = pcap(PACKETS[:1], snaplen=2**31) + pcap_record(0, b"short", caplen=60 << 20)
    found, info = read(data, tmp_path, packet_max=50 << 20)
    assert len(found) == 1
    assert info.problems[0].detail.endswith("its length is impossible")


@every_order
@pytest.mark.parametrize("second", ["<", ">"])
def test_a_pcap_file_behind_another_is_read_on(tmp_path, order, second):
    data = pcap(PACKETS[:3], order) + pcap(PACKETS[3:5], second, "nano", linktype=101)
    for window in (1, 50, 1 << 20):
        found, info = read(data, tmp_path, window=window)
        assert packets_of(found) == PACKETS[:5]
        assert [row[3] for row in found] == [1, 1, 1, 101, 101]
        assert [(p.severity, p.offset) for p in info.problems] == [("warning", len(pcap(PACKETS[:3])))]


@pytest.mark.parametrize(
    ("head", "why"),
    [
        (pcap_head()[:20], "cut inside its file head"),
        (pcap_head(version=(9, 0)), "pcap of version 9.0, only 2 is known"),
    ],
)
def test_a_second_file_head_that_cannot_be_read_costs_no_packet_before_it(tmp_path, head, why):
    found, info = read(pcap(PACKETS[:3]) + head, tmp_path)
    assert packets_of(found) == PACKETS[:3]
    assert info.unreadable == ""
    assert [p.detail for p in info.problems][1:] == [f"the next pcap file in it cannot be read: {why}"]


@pytest.mark.parametrize(
    ("behind", "what"),
    [
        (section(), "a pcapng file begins there"),
        (b"\x1f\x8b\x08\x00" + bytes(4) + b"\xff\xff\xff\xff" * 4, "a gzip file begins there"),
        (bytes(4000), "zeros"),
        (b"junk" * 20, "its length is impossible"),
    ],
)
def test_what_stands_behind_the_last_packet_is_named(tmp_path, behind, what):
    found, info = read(pcap(PACKETS[:2]) + behind, tmp_path)
    assert packets_of(found) == PACKETS[:2]
    offset = len(pcap(PACKETS[:2]))
    assert [p.detail for p in info.problems] == [f"no packet 3 at byte {offset}: {what}"]


def test_empty_packets_are_packets(tmp_path):
    packets = [(1000, b""), (S, b""), (2 * S, b"x"), (3 * S, b"")]
    found, info = read(pcap(packets), tmp_path)
    assert packets_of(found) == packets
    assert info.problems == []


def test_another_version_is_not_guessed_at(tmp_path):
    found, info = read(pcap_head(version=(3, 1)) + bytes(100), tmp_path)
    assert found == []
    assert info.unreadable == "pcap of version 3.1, only 2 is known"


def test_a_capture_without_packets_is_fine(tmp_path):
    found, info = read(pcap([]), tmp_path)
    assert (found, info.problems, info.unreadable, info.format) == ([], [], "", "pcap")
