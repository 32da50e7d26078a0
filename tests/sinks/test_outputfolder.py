"""Folders of tables: which are refused, what goes out of them, and names of any bytes."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mqsniff.sinks.outputfolder import OutputFolder, OutputFolderError, local_folder


def prepared(path: Path, *, overwrite: bool = False) -> OutputFolder:
    folder = OutputFolder(str(path))
    folder.prepare(overwrite=overwrite)
    return folder


def test_a_folder_that_holds_something_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("x")
    with pytest.raises(OutputFolderError, match=r"^.* is not empty: .*--overwrite$"):
        prepared(tmp_path)
    for overwrite in (False, True):
        with pytest.raises(OutputFolderError, match="is a file, not a folder"):
            prepared(tmp_path / "mine.txt", overwrite=overwrite)
    with pytest.raises(OutputFolderError, match="cannot be written to: Not a directory"):
        prepared(tmp_path / "mine.txt" / "below")


def test_clearing_takes_away_tables_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("x")
    (tmp_path / "records").mkdir()
    for name in ("part-00000.parquet", "part-00001.parquet.tmp", "mine.csv"):
        (tmp_path / "records" / name).write_text("x")
    folder = prepared(tmp_path, overwrite=True)
    assert (tmp_path / "records" / "part-00000.parquet").exists()
    folder.clear()
    assert {path.name for path in tmp_path.rglob("*") if path.is_file()} == {"mine.txt", "mine.csv"}


def test_nothing_is_deleted_through_a_link(tmp_path: Path) -> None:
    away, out = tmp_path / "away", tmp_path / "out"
    for folder in (away, out):
        folder.mkdir()
    (away / "part-00000.parquet").write_text("mine")
    (out / "messages").symlink_to(away)
    with pytest.raises(OutputFolderError, match=r"out/messages is a link, and nothing is .* deleted through links"):
        prepared(out, overwrite=True)
    OutputFolder(str(out)).clear()
    assert (away / "part-00000.parquet").read_text() == "mine"


def test_of_a_part_that_is_a_link_the_link_goes(tmp_path: Path) -> None:
    for name in ("mine", "out/messages/part-00000.parquet", "out/messages/part-00001.parquet.tmp"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "out" / "messages" / "part-00000.parquet").symlink_to(tmp_path / "mine")
    (tmp_path / "out" / "messages" / "part-00001.parquet.tmp").symlink_to(tmp_path / "nowhere")
    prepared(tmp_path / "out", overwrite=True).clear()
    assert not list((tmp_path / "out" / "messages").iterdir())
    assert (tmp_path / "mine").read_text() == "mine"


def test_the_folder_itself_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "disk" / "messages").mkdir(parents=True)
    (tmp_path / "disk" / "messages" / "part-00000.parquet").write_text("x")
    (tmp_path / "out").symlink_to(tmp_path / "disk")
    prepared(tmp_path / "out", overwrite=True).clear()
    assert not list((tmp_path / "disk" / "messages").iterdir())


def test_a_folder_that_is_not_there_is_made_and_taken_away_as_far_as_it_is_empty(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    folder = prepared(tmp_path / "a" / "b" / "c")
    assert (tmp_path / "a" / "b" / "c").is_dir()
    (tmp_path / "a" / "b" / "mine.txt").write_text("x")
    folder.abandon()
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a", "b", "mine.txt"]


def test_a_name_may_be_any_bytes(tmp_path: Path) -> None:
    for name in ("caf\u00e9", os.fsdecode(b"caf\xe9")):
        filesystem, root = local_folder(tmp_path / name)
        filesystem.create_dir(f"{root}/messages", recursive=True)
        with filesystem.open_output_stream(f"{root}/messages/x.parquet") as stream:
            pq.write_table(pa.table({"a": [1]}), stream)
        assert (tmp_path / name / "messages" / "x.parquet").exists()
