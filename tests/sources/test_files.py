import contextlib
import gzip
import itertools
import os
import resource
import subprocess
import sys
import threading
import time
from pathlib import Path

import lz4.frame
import pytest
import zstandard
from capturecraft import interface, packet, packets_of, pcap, pcap_head, pcap_record, rows, section
from hypothesis import given, settings
from hypothesis import strategies as st

from mqsniff.limits import KIB, Limits
from mqsniff.model import packet_capture, packet_number
from mqsniff.sources.files import FileSource

US = 1000


def capture(times, mark, kind="micro"):
    """A pcap of packets at these microseconds; their data tell file and place."""
    return pcap([(ts * US, f"{mark}{n}".encode()) for n, ts in enumerate(times)], kind=kind)


def write(folder, **files):
    """Write files; their paths as text, by name."""
    paths = {}
    for name, data in files.items():
        path = Path(folder, name)
        path.write_bytes(data)
        paths[name] = str(path)
    return paths


def read_all(paths, **limits):
    source = FileSource(paths, Limits(**limits))
    return rows(source), source


def in_order(files):
    """The order of packets by the rule itself: t* (largest time so far in the file), name, place."""
    keyed = []
    for name, times in files.items():
        keyed += [(high, name, n) for n, high in enumerate(itertools.accumulate(times, max))]
    return [f"{name}{n}".encode() for _, name, n in sorted(keyed)]


FILES = st.dictionaries(st.sampled_from("abcd"), st.lists(st.integers(0, 30), max_size=12), min_size=1, max_size=4)


@settings(max_examples=50, deadline=None)
@given(FILES, st.sampled_from([1, 40, 200, 1 << 20]), st.randoms(use_true_random=False))
def test_packets_are_merged_by_the_largest_time_so_far_then_name_then_place(folder, files, window, random):
    paths = write(folder, **{name: capture(times, name) for name, times in files.items()})
    shuffled = list(paths.values())
    random.shuffle(shuffled)
    found, source = read_all(shuffled, window=window, windows_total=1)
    assert [row[1] for row in found] == in_order(files)
    for _ts, data, *_, number in found:
        info = source.captures[packet_capture(number)]
        assert info.name.endswith(chr(data[0]))
        assert packet_number(number) == int(data[1:]) + 1


def test_the_order_of_names_never_matters(tmp_path):
    times = {"c": [5, 1, 9], "a": [2, 7], "b": [2, 3, 8], "empty": [], "e": [2]}
    paths = write(tmp_path, text=b"no capture", **{name: capture(ts, name) for name, ts in times.items()})
    results = set()
    for order in itertools.islice(itertools.permutations(paths.values()), 0, None, 7):
        found, source = read_all(order)
        results.add((tuple(found), tuple(info.name[len(str(tmp_path)) + 1 :] for info in source.captures)))
    assert len(results) == 1
    ((_, names),) = results
    assert names == ("a", "b", "e", "c", "empty", "text")


def test_captures_are_numbered_by_their_first_packet_also_where_later_ones_are_earlier(tmp_path):
    paths = write(tmp_path, a=capture([50, 1], "a"), b=capture([40, 60], "b"))
    found, source = read_all(paths.values())
    assert [Path(info.name).name for info in source.captures] == ["b", "a"]
    assert [info.index for info in source.captures] == [0, 1]
    assert [row[1] for row in found] == [b"b0", b"a0", b"a1", b"b1"]


def test_a_name_given_twice_is_one_capture(tmp_path):
    path = write(tmp_path, a=capture([1, 2], "a"))["a"]
    found, source = read_all([path, path])
    assert len(found) == 2
    assert len(source.captures) == 1


def test_formats_and_compressions_mix(tmp_path):
    ng = section(">") + interface(">", resolution=9) + packet(2000, b"ng0", ">") + packet(4000, b"ng1", ">")
    paths = write(
        tmp_path,
        plain=capture([1], "plain"),
        gz=gzip.compress(capture([3], "gz", "nano")),
        ng=zstandard.ZstdCompressor().compress(ng),
        lz=lz4.frame.compress(capture([5], "lz")),
    )
    found, source = read_all(paths.values())
    assert [row[1] for row in found] == [b"plain0", b"ng0", b"gz0", b"ng1", b"lz0"]
    described = {Path(i.name).name: (i.format, i.compression, i.packets) for i in source.captures}
    assert described == {
        "plain": ("pcap", "", 1),
        "gz": ("pcap", "gzip", 1),
        "ng": ("pcapng", "zstd", 2),
        "lz": ("pcap", "lz4", 1),
    }


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "not a capture (empty); expected pcap or pcapng"),
        (b"hello, this is a note\n", "not a capture (text); expected pcap or pcapng"),
        ("Grüße".encode()[:4], "not a capture (text); expected pcap or pcapng"),
        (b"<!DOCTYPE html><html>", "not a capture (HTML); expected pcap or pcapng"),
        (b'{"a": 1}', "not a capture (JSON); expected pcap or pcapng"),
        (b"PK\x03\x04rest", "not a capture (a zip archive); expected pcap or pcapng"),
        (b"x" * 257 + b"ustar", "not a capture (a tar archive); expected pcap or pcapng"),
        (bytes(1000), "not a capture (zeros); expected pcap or pcapng"),
        (b"\x01\x02\x03\x04\xff", "not a capture (it begins with the bytes 01 02 03 04); expected pcap or pcapng"),
        (gzip.compress(b"a note"), "not a capture (text inside gzip); expected pcap or pcapng"),
        (gzip.compress(b""), "not a capture (empty inside gzip); expected pcap or pcapng"),
        (
            gzip.compress(gzip.compress(b"")),
            "not a capture (compressed a second time inside gzip); expected pcap or pcapng",
        ),
        (gzip.compress(bytes(50))[:12], "the gzip data is cut"),
        (b"\x1f\x8b\x08" + b"\xff" * 50, "the gzip data is damaged near byte 6"),
        (pcap_head()[:20], "cut inside its file head"),
    ],
)
def test_what_is_no_capture_is_named_and_the_others_go_on(tmp_path, data, why):
    paths = write(tmp_path, good=capture([1, 2], "g"), bad=data)
    found, source = read_all(paths.values())
    assert [row[1] for row in found] == [b"g0", b"g1"]
    good, bad = source.captures
    assert (good.unreadable, bad.unreadable) == ("", why)


def test_what_cannot_be_opened_is_named_and_the_others_go_on(tmp_path):
    paths = write(tmp_path, good=capture([1], "g"))
    found, source = read_all([*paths.values(), str(tmp_path / "missing"), str(tmp_path)])
    assert len(found) == 1
    assert {info.name: info.unreadable for info in source.captures} == {
        paths["good"]: "",
        str(tmp_path / "missing"): "no such file or directory",
        str(tmp_path): "is a directory",
    }


def test_no_input_at_all_has_no_packets(tmp_path):
    assert read_all([])[0] == []
    assert read_all([str(tmp_path / "missing")])[0] == []


@pytest.mark.parametrize("codec", [gzip.compress, lz4.frame.compress])
def test_a_compressed_capture_that_is_cut_gives_what_it_has(tmp_path, codec):
    whole = capture(range(20_000), "a")
    paths = write(tmp_path, cut=codec(whole)[:-9])
    found, source = read_all(paths.values())
    count = len(found)
    assert 15_000 < count <= 20_000
    assert [row[1] for row in found] == [f"a{n}".encode() for n in range(count)]
    assert any("data is cut" in problem.detail for problem in source.captures[0].problems)


def open_under(folder):
    """Files below a folder that this process has open."""
    paths = []
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            paths.append(link.readlink())
    return [path for path in paths if folder in path.parents]


def test_rotated_files_are_open_one_at_a_time_and_their_batches_pass_uncopied(tmp_path, monkeypatch):
    files = {f"f{n:03}": capture(range(n * 100, n * 100 + 50), f"f{n:03}-") for n in range(40)}
    paths = write(tmp_path, **files)
    source = FileSource(reversed(paths.values()))
    monkeypatch.setattr("mqsniff.sources.files.merge_batches", None)
    count = 0
    for batch in source.batches():
        count += len(batch)
        assert source._open <= 1
        assert len(open_under(tmp_path)) <= 1
    assert count == 2000


def test_small_captures_that_overlap_are_not_kept_open(tmp_path):
    files = {f"f{n:03}": capture((n, 1000 + n), f"f{n:03}-") for n in range(50)}
    source = FileSource(write(tmp_path, **files).values())
    count = 0
    for batch in source.batches():
        count += len(batch)
        assert not open_under(tmp_path)
    assert count == 100


def test_captures_that_overlap_take_the_descriptors_that_the_system_allows(tmp_path):
    count = 5000  # more than one window
    files = {f"f{n:02}": capture(range(n, n + count), f"f{n:02}-") for n in range(60)}
    paths = write(tmp_path, **files)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 20, hard))  # noqa: PTH208
    try:
        source = FileSource(paths.values(), Limits(windows_total=64 * KIB, window=64 * KIB))
        assert sum(map(len, source.batches())) == 60 * count
        assert not any(info.unreadable for info in source.captures)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_overlapping_captures_share_the_room_for_windows(tmp_path):
    times = range(0, 60_000, 2)
    paths = write(tmp_path, **{f"f{n}": capture(times, f"f{n}-") for n in range(8)})
    source = FileSource(paths.values(), Limits(windows_total=2 << 20))
    order = [f"f{n}-{place}".encode() for place in range(30_000) for n in range(8)]
    assert [row[1] for row in rows(source)] == order


def test_every_file_is_closed_when_the_reader_stops_early(tmp_path):
    paths = write(tmp_path, a=capture(range(100), "a"), b=capture(range(100), "b"))
    batches = FileSource(paths.values(), Limits(window=100)).batches()
    next(batches)
    batches.close()
    assert open_under(tmp_path) == []


def test_progress_ends_at_the_size_of_the_files(tmp_path):
    paths = write(tmp_path, a=capture(range(5000), "a"), b=gzip.compress(capture(range(5000, 9000), "b")))
    seen = []
    source = FileSource(paths.values(), Limits(window=4096), lambda done, total: seen.append((done, total)))
    assert len(rows(source)) == 9000
    total = sum(Path(path).stat().st_size for path in paths.values())
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert seen[-1] == (total, total)
    assert {every for _, every in seen} == {total}


@pytest.fixture
def fifo(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    return path


def feed(path, *parts):
    """Write parts into a pipe from a thread: bytes, or an event to wait for."""

    def run():
        with path.open("wb", buffering=0) as pipe:
            for part in parts:
                part.wait(10) if isinstance(part, threading.Event) else pipe.write(part)

    thread = threading.Thread(target=run)
    thread.start()
    return thread


@pytest.mark.parametrize("flush", [lambda data: data, gzip.compress], ids=["plain", "gzip"])
def test_packets_of_a_pipe_come_when_they_arrive(fifo, flush):
    more = threading.Event()
    thread = feed(
        fifo, flush(capture([1, 2], "a")), more, flush(pcap_record(3000, b"late") + pcap_record(4000, b"x")[:9])
    )
    begin = time.monotonic()
    batches = FileSource([str(fifo)]).batches()
    first = next(batches)
    assert len(first) == 2
    assert time.monotonic() - begin < 1
    more.set()
    second = next(batches)
    assert (len(second), second.ordinal, second.packet.tolist()) == (1, 2, [3])
    assert list(batches) == []
    thread.join()


def test_a_fast_pipe_makes_full_batches(fifo):
    data = capture(range(40_000), "a")
    thread = feed(fifo, data)
    sizes = [len(batch) for batch in FileSource([str(fifo)]).batches()]
    thread.join()
    assert sum(sizes) == 40_000
    assert len(sizes) <= 4, "a pipe holds 64 KiB, a batch should hold many of those"


def test_a_pipe_and_files_are_one_capture(fifo, tmp_path):
    paths = write(tmp_path, file=capture([2, 4, 6], "f"))
    thread = feed(fifo, capture([1, 3, 5, 7], "p"))
    found, source = read_all([*paths.values(), str(fifo)])
    thread.join()
    assert [row[1] for row in found] == [b"p0", b"f0", b"p1", b"f1", b"p2", b"f2", b"p3"]
    assert [packet_capture(row[5]) for row in found] == [0, 1, 0, 1, 0, 1, 0]
    assert source.captures[0].packets == 4
    thread = feed(fifo, capture([11], "p"))
    found, _ = read_all([*paths.values(), str(fifo)])
    thread.join()
    assert [packet_capture(row[5]) for row in found] == [0, 0, 0, 1]


SCRIPT = """
import sys
from mqsniff.sources.files import FileSource
seen = []
source = FileSource(["-"], on_progress=lambda done, total: seen.append(total))
count = sum(len(batch) for batch in source.batches())
info = source.captures[0]
print(count, info.name, info.format, info.unreadable, seen[-1:], len(info.problems))
"""


def test_standard_input_may_be_a_pipe_or_a_file(tmp_path):
    data = capture(range(20_000), "a")
    done = subprocess.run([sys.executable, "-c", SCRIPT], input=data, capture_output=True, check=True)
    assert done.stdout.decode().strip() == "20000 - pcap  [None] 0"
    path = write(tmp_path, a=data)["a"]
    with Path(path).open("rb") as file:
        done = subprocess.run([sys.executable, "-c", SCRIPT], stdin=file, capture_output=True, check=True)
    assert done.stdout.decode().strip() == f"20000 - pcap  [{len(data)}] 0"


def test_empty_standard_input_is_named():
    done = subprocess.run([sys.executable, "-c", SCRIPT], stdin=subprocess.DEVNULL, capture_output=True, check=True)
    assert b"not a capture (empty)" in done.stdout


def test_a_capture_that_disappears_before_its_turn_is_named(tmp_path):
    paths = write(tmp_path, a=capture([1], "a"), b=capture([100], "b"))
    source = FileSource(paths.values())
    batches = source.batches()
    next(batches)
    Path(paths["b"]).unlink()
    assert list(batches) == []
    assert source.captures[1].unreadable == "no such file or directory"


def test_the_packets_of_all_captures_are_those_of_each(tmp_path):
    paths = write(tmp_path, a=capture(range(0, 900, 3), "a"), b=capture(range(1, 900, 3), "b"))
    together, _ = read_all(paths.values())
    apart = [row[:5] for path in paths.values() for row in read_all([path])[0]]
    assert sorted(packets_of(together)) == sorted(row[:2] for row in apart)
    assert together == sorted(together)
