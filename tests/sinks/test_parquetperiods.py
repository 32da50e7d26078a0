"""Part files that are completed while a run goes on: the rows of one that is written at its end."""

from __future__ import annotations

import collections
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from mqsniff.dissector import USUAL, Settings
from mqsniff.limits import Limits
from mqsniff.pipeline import Pipeline
from mqsniff.sinks.outputfolder import OutputFolder
from mqsniff.sinks.parquet import ParquetSink
from mqsniff.sinks.parquetperiods import PeriodicParquetSink
from mqsniff.sources.files import FileSource
from mqsniff.tables.schemas import TABLES
from mqsniff.tables.values import Redaction

SAMPLE = Path(__file__).parents[2] / "pcaps/nsq/nsq-1.3.0-go-req-touch.pcap"


def written(make, folder, *, end_after=0):
    """The sink after it was given a sample; every ``end_after`` items a period ends."""
    place = OutputFolder(str(folder))
    place.prepare(overwrite=True)
    pipeline = Pipeline(FileSource([str(SAMPLE)]), Settings(Limits(), USUAL | {"records"}))
    sink = make(place, pipeline.captures)
    for number, item in enumerate(pipeline.items(), 1):
        if item is None:
            sink.tick()
        else:
            sink.write(item)
        if end_after and number % end_after == 0:
            sink.end_period()
    return sink


def periodic(place, captures, **more):
    wanted = {"period_s": None, "run": "abcd", **more}
    return PeriodicParquetSink(place, captures, tuple(TABLES), Redaction(), **wanted)


def rows_of(folder):
    return {
        table: collections.Counter(
            repr(row) for part in (folder / table).glob("*.parquet") for row in pq.read_table(part).to_pylist()
        )
        for table in TABLES
    }


@pytest.mark.parametrize("end_after", [1, 7, 50])
def test_periods_hold_the_rows_of_one_run(tmp_path, end_after):
    written(periodic, tmp_path / "periods", end_after=end_after).close()
    written(
        lambda place, captures: ParquetSink(place, captures, tuple(TABLES), Redaction()), tmp_path / "whole"
    ).close()
    assert rows_of(tmp_path / "periods") == rows_of(tmp_path / "whole")


def test_a_period_can_be_read_when_it_has_ended_and_every_table_is_there(tmp_path):
    sink = written(periodic, tmp_path, end_after=50)
    assert {part.parent.name for part in tmp_path.rglob("live-abcd-00000000-*.parquet")} == set(TABLES)
    assert rows_of(tmp_path)["messages"]
    sink.close()


def test_a_tick_ends_the_period_when_its_time_is_over_or_a_signal_came(tmp_path):
    sink = periodic(OutputFolder(str(tmp_path)), [], period_s=3600)
    sink.tick()
    assert sink.period == 0
    sink.rotate()
    sink.tick()
    assert sink.period == 1
    sink.tick()
    assert sink.period == 1


def test_what_other_runs_wrote_stays_and_what_no_checkpoint_knows_goes(tmp_path):
    written(periodic, tmp_path, end_after=50).close()
    other = tmp_path / "messages/live-ffff-00000009-00000.parquet"
    other.write_bytes(b"")
    before = sorted(tmp_path.rglob("live-abcd-*"))
    sink = periodic(OutputFolder(str(tmp_path)), [], first=1)
    assert sink.discard_unknown() == len([part for part in before if "-00000000-" not in part.name])
    assert {part.name.split("-")[2] for part in tmp_path.rglob("live-abcd-*")} == {"00000000"}
    assert other.exists()


def test_nothing_is_written_after_a_run_was_suspended(tmp_path):
    sink = written(periodic, tmp_path, end_after=50)
    before = sorted(tmp_path.rglob("*.parquet"))
    sink.suspend()
    sink.close()
    assert sorted(tmp_path.rglob("*.parquet")) == before
    assert not list(tmp_path.rglob("*.tmp"))
