"""Packets that pass, written: every byte of them, statistics, and the files of a ring."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from mqsniff.model import CaptureInfo
from mqsniff.sinks.recording import CaptureRecorder, RecordedSource, RingWishes
from mqsniff.sources.batches import empty_batch, new_batch
from mqsniff.sources.files import FileSource
from mqsniff.sources.live import InterfaceCounts

TS = 1_795_253_930 * 10**9


class Tap:
    """A source of batches with two interfaces."""

    interfaces = ("lo", "eth0")
    wishes = SimpleNamespace(snaplen=1000, bpf="tcp")

    def __init__(self, batches=()):
        self.captures = [CaptureInfo(0, "lo, eth0")]
        self.counts = [InterfaceCounts("lo"), InterfaceCounts("eth0")]
        self.stopped = False
        self._batches = batches

    def linktype(self, number):
        return (1, 101)[number]

    def count(self):
        self.counts[1].received += 5
        self.counts[1].dropped += 2

    def stop(self):
        self.stopped = True

    def batches(self):
        yield from self._batches


def batch_of(*packets, linktype=1, interface=0, cut=0):
    sizes = np.array([len(each) for each in packets], np.int64)
    count = len(packets)
    return new_batch(
        CaptureInfo(0, "x"),
        b"".join(packets),
        ts_ns=np.arange(TS, TS + count),
        start=np.cumsum(sizes) - sizes,
        caplen=sizes,
        wirelen=sizes + cut,
        linktype=np.full(count, linktype, np.int32),
        interface=np.full(count, interface, np.int32),
    )


PACKETS = [b"x" * size for size in range(1, 30)]


def test_what_was_written_reads_as_it_was(tmp_path):
    path = tmp_path / "w.pcapng"
    recorder = CaptureRecorder(path, Tap(), RingWishes(), ["a comment"])
    recorder.write(batch_of(*PACKETS, cut=7))
    recorder.write(empty_batch())
    recorder.write(batch_of(b"raw", linktype=101, interface=1))
    source = FileSource([str(path)])
    found = [packet for batch in source.batches() for packet in zip(batch.ts_ns.tolist(), batch.wirelen.tolist(), batch.linktype.tolist(), batch.interface.tolist(), strict=True)]  # fmt: skip  # noqa: E501
    assert found == [*((TS + row, len(data) + 7, 1, 0) for row, data in enumerate(PACKETS)), (TS, 3, 101, 1)]
    recorder.close()
    (info,) = source.captures
    assert info.comments == ["a comment"]
    assert info.problems == []


def test_the_kernels_drops_are_in_the_file_each_file_its_own(tmp_path):
    path = tmp_path / "w.pcapng"
    recorder = CaptureRecorder(path, Tap(), RingWishes(size=1), [])
    for _ in range(2):
        recorder.write(batch_of(b"one"))
    recorder.close()
    files = sorted(tmp_path.iterdir())
    assert len(files) == 3
    for file in files:
        source = FileSource([str(file)])
        list(source.batches())
        assert (source.captures[0].dropped, source.captures[0].drops_told) == (2, True)


def test_a_ring_keeps_its_last_files_also_those_of_a_run_before(tmp_path):
    for run in range(2):
        recorder = CaptureRecorder(tmp_path / "w.pcapng", Tap(), RingWishes(size=1, files=3), [])
        for _ in range(4):
            recorder.write(batch_of(b"run %d" % run))
        recorder.close()
    names = sorted(each.name for each in tmp_path.iterdir())
    assert [name.split("-")[1] for name in names] == ["00008", "00009", "00010"]
    assert packets_of_files(tmp_path) == [b"run 1"] * 3


def packets_of_files(folder):
    found = []
    for batch in FileSource([str(each) for each in folder.iterdir()]).batches():
        data = bytes(batch.buffer)
        found += [data[a : a + n] for a, n in zip(batch.start.tolist(), batch.caplen.tolist(), strict=True)]
    return found


def test_a_signal_begins_the_next_file(tmp_path):
    recorder = CaptureRecorder(tmp_path / "w.pcapng", Tap(), RingWishes(seconds=3600), [])
    recorder.rotate()
    recorder.write(empty_batch())
    recorder.close()
    assert len(list(tmp_path.iterdir())) == 2


def test_a_full_disk_ends_the_capture_and_is_told():
    class Full:
        def write(self, _batch):
            raise OSError(28, "No space left on device")

    tap, failures = Tap([batch_of(b"one"), batch_of(b"two")]), []
    assert sum(map(len, RecordedSource(tap, Full(), failures.append).batches())) == 2
    assert ([error.errno for error in failures], tap.stopped) == ([28], True)


def test_a_folder_that_is_not_there_is_an_error_at_once(tmp_path):
    with pytest.raises(OSError, match="No such file"):
        CaptureRecorder(tmp_path / "none" / "w.pcapng", Tap(), RingWishes(), [])
