"""What a run would do: its files, its scan tasks, and the size of its shuffle, before Spark is there."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from batchrows import PCAPS

from mqsniff.batch.job import JobOptions, counted
from mqsniff.batch.plan import EXPANSION
from mqsniff.batch.preview import preview

SAMPLE = PCAPS / "nsq" / "nsq-1.3.0-auth.pcap"


@pytest.fixture
def three(tmp_path: Path) -> Path:
    """Two captures and one that is compressed."""
    for name in ("a.pcap", "b.pcap"):
        (tmp_path / name).write_bytes(SAMPLE.read_bytes())
    (tmp_path / "c.pcap.gz").write_bytes(gzip.compress(SAMPLE.read_bytes()))
    return tmp_path


def test_a_preview_counts_what_is_read_and_what_is_shuffled(three: Path) -> None:
    shown = preview([str(three)], JobOptions(partitions=3))
    sizes = [path.stat().st_size for path in sorted(three.iterdir())]
    shuffled = sum(sizes[:2]) + EXPANSION * sizes[2]
    assert shown.shuffle_bytes == shuffled
    assert shown.total() == (
        f"3 files, {sum(sizes) / 1e6:.1f} MB, {counted(len(shown.work.splits), 'scan task')}, 3 reduce tasks, "
        f"about {shuffled / 1e6:.1f} MB to shuffle"
    )
    assert [(name, size, how) for name, size, how, *_ in shown.file_cells()] == [
        ("a.pcap", str(sizes[0]), "pcap"),
        ("b.pcap", str(sizes[1]), "pcap"),
        ("c.pcap.gz", str(sizes[2]), "pcap gzip"),
    ]
    assert {status for *_, status in shown.file_cells()} == {"ok"}


def test_splits_say_which_bytes_they_hold(three: Path) -> None:
    half = (SAMPLE.stat().st_size + 1) // 2
    shown = preview([str(three / "a.pcap")], JobOptions(split_size=half))
    held = [content for _, _, content in shown.split_cells()]
    assert held == [f"a.pcap from byte 0 to {half}", f"a.pcap from byte {half} on"]
    shown = preview([str(three)], JobOptions())
    assert "3 files, a.pcap to c.pcap.gz" in [content for _, _, content in shown.split_cells()]
