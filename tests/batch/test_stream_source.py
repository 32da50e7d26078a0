"""A stream of captures: what arrives is read once, whoever dies when."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from batchrows import PCAPS, rotated

from mqsniff.batch.datasource import CaptureDataSource
from mqsniff.batch.streamsource import LandingReader

OLD_S = 1_700_000_000


@pytest.fixture
def pieces(tmp_path: Path) -> list[Path]:
    (tmp_path / "pieces").mkdir()
    rotated(PCAPS / "nsq" / "nsq-1.3.0-go-req-touch.pcap", tmp_path / "pieces", 4)
    for path in (tmp_path / "pieces").iterdir():
        os.utime(path, (OLD_S, OLD_S))
    return sorted((tmp_path / "pieces").iterdir())


@pytest.fixture
def landing(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "landing").mkdir()
    return tmp_path / "landing"


def reader(landing: Path, **options: str) -> LandingReader:
    given = {"path": str(landing), "table": "messages", "scope": "file", "log": str(landing.parent / "log")} | options
    source = CaptureDataSource(given)
    made = source.streamReader(source.schema())
    assert isinstance(made, LandingReader)
    return made


def captures(stream: LandingReader, start: int, stop: int) -> list[str]:
    """The captures of the rows between two numbers."""
    parts = stream.partitions({"number": start}, {"number": stop})
    rows = (batch for part in parts for batch in stream.read(part))
    return sorted({name for batch in rows for name in batch.column("capture").to_pylist()})


def test_what_arrives_is_read_once_and_again_only_for_the_same_number(landing: Path, pieces: list[Path]) -> None:
    stream = reader(landing)
    assert stream.latestOffset() == stream.initialOffset() == {"number": 0}
    shutil.copy2(pieces[0], landing)
    shutil.copy2(pieces[1], landing)
    assert stream.latestOffset() == stream.latestOffset() == {"number": 1}
    shutil.copy2(pieces[2], landing)
    restarted = reader(landing)
    assert restarted.latestOffset() == {"number": 2}
    assert captures(restarted, 0, 1) == captures(stream, 0, 1) == [pieces[0].name, pieces[1].name]
    assert captures(restarted, 1, 2) == [pieces[2].name]
    assert captures(restarted, 0, 2) == [path.name for path in pieces[:3]]


def test_a_number_holds_at_most_so_many_files(landing: Path, pieces: list[Path]) -> None:
    for piece in pieces:
        shutil.copy2(piece, landing)
    stream = reader(landing, maxFilesPerTrigger="3")
    assert [stream.latestOffset()["number"] for _ in range(3)] == [1, 2, 2]
    assert len(stream.partitions({"number": 0}, {"number": 1})) == 3


def test_a_file_that_is_being_written_waits(landing: Path, pieces: list[Path]) -> None:
    stream = reader(landing, settle="1h")
    (landing / "new.pcap").write_bytes(pieces[0].read_bytes())
    assert stream.latestOffset() == {"number": 0}
    os.utime(landing / "new.pcap", (OLD_S, OLD_S))
    assert stream.latestOffset() == {"number": 1}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"log": ""}, "readStream needs option"),
        ({"scope": "connection"}, "mqsniff batch --follow decodes whole connections"),
        ({"pushFilters": "true"}, "tells streams of no filters"),
        ({"maxFilesPerTrigger": "0"}, "at least one file"),
        ({"settle": "soon"}, "option settle: 'soon' is not a duration"),
    ],
)
def test_what_a_stream_cannot_do_is_refused(
    landing: Path, pieces: list[Path], options: dict[str, str], said: str
) -> None:
    shutil.copy2(pieces[0], landing)
    with pytest.raises(ValueError, match=said):
        reader(landing, **options)


def test_a_log_that_lost_a_number_is_named(landing: Path, pieces: list[Path]) -> None:
    shutil.copy2(pieces[0], landing)
    stream = reader(landing)
    stream.latestOffset()
    (landing.parent / "log" / "1.json").unlink()
    with pytest.raises(ValueError, match=r"has no 1\.json"):
        stream.partitions({"number": 0}, {"number": 1})
