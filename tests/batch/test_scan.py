"""Scan and prefix: whatever the cuts, the segments are those that one reader sees."""

import gzip
import random
import struct
from pathlib import Path

import capturecraft as craft
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from segmentrows import Run, plain
from tinycapture import ip_tcp

from mqsniff.answers.captures import captures_under
from mqsniff.batch import scan as scanning
from mqsniff.batch.bundles import PAYLOAD_MAX, ROWS_MAX, SEGMENT
from mqsniff.limits import Limits

PCAPS = Path(__file__).parents[2] / "pcaps"
SAMPLES = {str(path.relative_to(PCAPS)): path for path in captures_under([PCAPS])}
RAW = 101
S = 10**9
T0 = 1_700_000_000 * S


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("captures")


def segments(count, seed=0, ports=(40_000, 4150), most=900):
    """Packets of one flow with payloads of any size."""
    chance = random.Random(seed)
    return [
        ip_tcp(ports, chance.getrandbits(32), number, 0x18, chance.randbytes(chance.randrange(most)))
        for number in range(count)
    ]


def timed(packets, start=T0, step=S):
    return [(start + number * step, data) for number, data in enumerate(packets)]


def assert_same(paths, size, **options):
    """The batch path gives what decode's gives; returns the run."""
    rows, problems, infos, others = plain(paths, options.get("limits"))
    run = Run(paths, size, **options)
    assert run.rows() == rows
    once = [
        (each.packet, each.ts_ns, each.problem.detail) for each in run.prefix.problems if each.packet & (1 << 40) - 1
    ]
    of_packets = [(packet, ts_ns, detail) for packet, ts_ns, _, _, detail in run.problems()]
    assert sorted(once + of_packets) == [(packet, ts_ns, detail) for packet, ts_ns, _, _, detail in problems]
    for info, file in zip(infos, run.prefix.files, strict=True):
        assert (file.packets, file.first_ns, file.last_ns) == (info.packets, info.first_ts_ns, info.last_ts_ns)
        assert (file.dropped, set(file.linktypes)) == (info.dropped, info.linktypes)
        if not info.unreadable:
            own = [each.problem for each in run.prefix.problems if each.packet == info.index << 40]
            assert [(each.kind, each.severity, each.detail) for each in own] == [
                (each.kind, each.severity, each.detail) for each in info.problems
            ]
    assert run.prefix.other_packets == others
    return run


@pytest.mark.parametrize("name", SAMPLES)
def test_every_sample_gives_the_segments_of_one_reader(name):
    path = SAMPLES[name]
    for size in (1500, 5000, 1 << 27):
        if path.stat().st_size < 100 * size:
            assert_same([path], size)


@pytest.mark.parametrize("folder", ["kafka", "pulsar", "rocketmq", "nsq", "broken"])
def test_samples_given_together_come_in_merged_order_and_flow_by_flow(folder):
    paths = captures_under([PCAPS / folder])
    run = assert_same(paths, 20_000)
    flows = {}
    for row in run.rows():
        flows.setdefault(("", row[0]), []).append(row)
    assert run.rows_by_flow() == flows


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("kind", ["micro", "nano", "modified"])
def test_every_kind_of_pcap_is_cut(tmp_path, order, kind):
    path = tmp_path / "x.pcap"
    path.write_bytes(craft.pcap(timed(segments(80)), order, kind, linktype=RAW))
    run = assert_same([path], 4000)
    assert sum(report.packets > 0 for report in run.reports) > 5
    assert run.rounds == 1


@pytest.mark.parametrize("order", "<>")
def test_every_kind_of_packet_block_is_cut(tmp_path, order):
    blocks = [craft.section(order), craft.interface(order, linktype=RAW, resolution=9)]
    for number, data in enumerate(segments(90)):
        make = (craft.packet, craft.old_packet)[number % 2]
        blocks.append(make(T0 + number, data, order))
        if number % 7 == 0:
            blocks.append(craft.block(0x0BAD, bytes(4 * number), order))
    path = tmp_path / "x.pcapng"
    path.write_bytes(b"".join(blocks))
    run = assert_same([path], 4000)
    assert sum(report.packets > 0 for report in run.reports) > 5
    assert run.rounds == 1


def test_packets_without_a_time_take_it_from_the_piece_before(tmp_path):
    blocks = [craft.section(), craft.interface(linktype=RAW)]
    for number, data in enumerate(segments(60)):
        blocks.append(craft.simple_packet(data) if number % 10 else craft.packet(number * 10**6, data))
    path = tmp_path / "x.pcapng"
    path.write_bytes(b"".join(blocks))
    assert assert_same([path], 2500).rounds == 2


def test_interfaces_and_sections_in_the_middle_are_known_behind_it(tmp_path):
    blocks = []
    for order in "<>>":
        blocks += [craft.section(order), craft.interface(order, linktype=RAW, resolution=9)]
        for number, data in enumerate(segments(60, seed=len(blocks))):
            blocks.append(craft.packet(T0 + number, data, order, number=number > 30))
            if number == 30:
                blocks.append(craft.interface(order, linktype=RAW, resolution=6))
        blocks.append(craft.statistics([(5, len(blocks))], order))
    path = tmp_path / "x.pcapng"
    path.write_bytes(b"".join(blocks))
    run = assert_same([path], 5000)
    assert run.rounds > 1
    assert sum(report.packets > 0 for report in run.reports) > 10


def test_pcap_files_behind_each_other_are_read_by_their_own_heads(tmp_path):
    files = [
        craft.pcap(timed(segments(50, seed=order == "<")), order, kind, linktype=linktype)
        for order, kind, linktype in (
            ("<", "micro", RAW),
            (">", "nano", RAW),
            ("<", "modified", 147),
            ("<", "nano", RAW),
        )
    ]
    path = tmp_path / "x.pcap"
    path.write_bytes(b"".join(files))
    assert assert_same([path], 6000).rounds > 1


@pytest.mark.parametrize(
    "tail", [b"\0" * 9000, b"\xff" * 9000, craft.section(), craft.pcap_record(T0, b"cut" * 99)[:-9], b"\1\2\3"]
)
def test_what_ends_a_file_ends_it_wherever_it_is_cut(tmp_path, tail):
    path = tmp_path / "x.pcap"
    path.write_bytes(craft.pcap(timed(segments(60)), linktype=RAW) + tail)
    for size in (1000, 3000, 10_000):
        run = assert_same([path], size)
        assert run.prefix.files[0].status == "damaged"


def test_records_behind_the_end_of_what_can_be_read_do_not_count(tmp_path):
    good = timed(segments(60))
    path = tmp_path / "x.pcap"
    records = b"".join(craft.pcap_record(ts, data) for ts, data in good)
    path.write_bytes(craft.pcap(good, linktype=RAW) + b"\xff" * 600 + records)
    run = assert_same([path], 3000)
    assert run.prefix.packets == 60


def test_clocks_that_step_back_and_taps_that_overlap_are_merged_as_one_reader_does(tmp_path):
    chance = random.Random(5)
    paths = []
    for tap in range(4):
        times = [T0 + tap * 20 * S + number * S - chance.choice([0, 0, 0, 40 * S]) for number in range(60)]
        path = tmp_path / f"{(tap * 7) % 4}.pcap"
        path.write_bytes(craft.pcap(list(zip(times, segments(60, seed=tap), strict=True)), kind="nano", linktype=RAW))
        paths.append(path)
    for size in (2000, 7000, 1 << 20):
        run = assert_same(paths, size)
        ((_, rows),) = run.rows_by_flow().items()
        assert rows == run.rows()


def test_the_order_of_the_inputs_never_matters(tmp_path):
    for number in range(6):
        (tmp_path / f"{number}.pcap").write_bytes(
            craft.pcap(timed(segments(9, seed=number), T0 + (number % 3) * S), linktype=RAW)
        )
    paths = sorted(tmp_path.iterdir())
    assert Run(paths[::-1], 3000).rows() == Run([*paths[3:], *paths[:3]], 999).rows() == plain(paths)[0]


def test_a_compressed_file_is_one_piece(tmp_path):
    path = tmp_path / "x.pcap.gz"
    path.write_bytes(gzip.compress(craft.pcap(timed(segments(60)), linktype=RAW)))
    run = assert_same([path], 1000)
    assert len(run.reports) == 1
    assert run.prefix.files[0].compression == "gzip"


def test_a_window_smaller_than_a_piece_makes_more_bundles_and_the_same_rows(tmp_path):
    path = tmp_path / "x.pcap"
    path.write_bytes(craft.pcap(timed(segments(200)), linktype=RAW))
    small = assert_same([path], 50_000, limits=Limits(window=1000))
    assert len(small.bundles) > 2 * len(Run([path], 50_000).bundles)


def test_a_window_is_taken_in_slices_where_it_holds_many_packets(tmp_path, monkeypatch):
    monkeypatch.setattr(scanning, "SLICE_PACKETS", 7)
    packets = segments(90)
    packets[20:40] = [packet[:30] for packet in packets[20:40]]
    path = tmp_path / "x.pcap"
    path.write_bytes(craft.pcap(timed(packets), linktype=RAW))
    run = assert_same([path], 20_000)
    assert len(run.problems()) == 20
    assert sum(bundle.segments > 7 for bundle in run.bundles) == 0


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_any_bytes_in_the_middle_give_what_one_reader_gives(folder, data):
    good = timed(segments(30, seed=1, most=300))
    pieces = [craft.pcap_head(linktype=RAW), *(craft.pcap_record(ts, packet) for ts, packet in good)]
    place = data.draw(st.integers(1, len(pieces)))
    pieces.insert(place, data.draw(st.binary(max_size=60)))
    path = folder / "x.pcap"
    path.write_bytes(b"".join(pieces))
    assert_same([path], data.draw(st.integers(200, 4000)))


def fragmented(size, mtu, number):
    """An IPv4 datagram that holds one TCP segment, in fragments."""
    whole = ip_tcp((40_000, 4150), number, 0, 0x18, bytes(size))
    header, data = whole[:20], whole[20:]
    for at in range(0, len(data), mtu):
        part = data[at : at + mtu]
        more = 0x2000 if at + mtu < len(data) else 0
        yield header[:2] + struct.pack(">HHH", 20 + len(part), number, more | at // 8) + header[8:] + part


def test_fragments_of_a_piece_are_put_together_and_those_over_a_cut_are_a_problem(tmp_path):
    packets = [packet for number in range(40) for packet in fragmented(700, 200, number)]
    path = tmp_path / "x.pcap"
    path.write_bytes(craft.pcap(timed(packets, step=1000_000), linktype=RAW))
    assert assert_same([path], 1 << 20).prefix.segments == 40
    run = Run([path], 5000)
    rows = plain([path])[0]
    assert set(run.rows()) < set(rows)
    lost = len(rows) - len(run.rows())
    limits = [each for each in run.problems() if each[3] == "limit"]
    assert 0 < lost < len(run.reports)
    assert lost <= len(limits) <= len(run.problems()) <= 2 * lost


def test_bundles_stay_small_whatever_a_window_holds(tmp_path):
    large = [ip_tcp((40_000, 4150), n, 0, 0x18, bytes([n]) * 65_000) for n in range(60)]
    small = [ip_tcp((40_000, 4150), n, 0, 0x10, b"") for n in range(40_000)]
    path = tmp_path / "x.pcap"
    path.write_bytes(craft.pcap(timed([*large, *small], step=1000), linktype=RAW))
    run = assert_same([path], 1 << 27)
    assert all(len(bundle.payload) <= PAYLOAD_MAX for bundle in run.bundles)
    assert all(bundle.segments <= ROWS_MAX for bundle in run.bundles)
    assert all(len(bundle.columns) == bundle.segments * SEGMENT.itemsize for bundle in run.bundles)
    assert len(run.bundles) < 12
