"""Folders of tables, as decode, batch and other writers leave them."""

from __future__ import annotations

import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mqsniff.answers.folders import FolderError, is_table_folder, table_dataset, table_files
from mqsniff.batch.manifest import Manifest, Published
from mqsniff.tables.schemas import arrow_schema

SCHEMA = arrow_schema("topics")


def part(path, *names, schema=SCHEMA, **extra):
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [{"protocol": "kafka", "topic_id": name, "name": name, "first_ts": 0} | extra for name in names]
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), path)


def names(*folders):
    return sorted(rows(*folders).column("name").to_pylist())


def rows(*folders):
    return table_dataset("topics", [(folder, table_files(folder)["topics"]) for folder in folders]).to_table()


def manifest(folder, run, *paths, replaces=(), options=None):
    file = folder / "_mqsniff" / "runs" / f"{run}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    parts = tuple(Published(path.partition("/")[0], path, 1, 1) for path in paths)
    made = Manifest(run, "d", "0", "1.0", (), parts, tuple(replaces), options or {"tables": ["topics"]})
    file.write_bytes(made.encoded())


def test_a_folder_of_tables_is_known_by_its_folders(tmp_path):
    assert not is_table_folder(tmp_path)
    (tmp_path / "other").mkdir()
    assert not is_table_folder(tmp_path)
    (tmp_path / "messages").mkdir()
    assert is_table_folder(tmp_path)
    assert not is_table_folder(tmp_path / "missing")


def test_every_part_counts_but_hidden_and_unfinished_ones(tmp_path):
    part(tmp_path / "topics" / "part-0.parquet", "a")
    part(tmp_path / "topics" / "part-1.parquet", "b")
    part(tmp_path / "topics" / "part-2.parquet.tmp", "x")
    part(tmp_path / "topics" / "_temporary" / "0.parquet", "x")
    part(tmp_path / "topics" / ".part-3.parquet", "x")
    assert names(tmp_path) == ["a", "b"]


def test_committed_parts_count_where_there_are_manifests(tmp_path):
    for name in "abcd":
        part(tmp_path / "topics" / f"{name}.parquet", name)
    manifest(tmp_path, "1", "topics/a.parquet")
    manifest(tmp_path, "2", "topics/b.parquet")
    manifest(tmp_path, "3", "topics/c.parquet", replaces=["1"])
    assert names(tmp_path) == ["b", "c"]


def test_files_of_the_first_run_do_not_count_before_it_is_committed(tmp_path):
    """Staged, and half published: ``runs`` is not there yet."""
    part(tmp_path / "_mqsniff" / "staging" / "1" / "topics" / "b.parquet", "b")
    part(tmp_path / "topics" / "a.parquet", "a")
    assert is_table_folder(tmp_path)
    with pytest.raises(FolderError, match=f"^{tmp_path}: no run is committed there$"):
        table_files(tmp_path)


def test_a_table_that_a_run_wrote_no_row_of_is_empty(tmp_path):
    manifest(tmp_path, "1", options={"tables": ["topics", "problems"]})
    assert table_files(tmp_path) == {"topics": [], "problems": []}
    assert names(tmp_path) == []


def test_other_folders_with_parts_are_tables_too(tmp_path):
    part(tmp_path / "topics" / "0.parquet", "a")
    part(tmp_path / "files" / "0.parquet", "b", schema=pa.schema([("uri", pa.string())]), uri="x.pcap")
    (tmp_path / "notes").mkdir()
    files = table_files(tmp_path)
    assert list(files) == ["files", "topics"]
    assert table_dataset("files", [(tmp_path, files["files"])]).to_table().to_pylist() == [{"uri": "x.pcap"}]


def test_values_of_partition_folders_become_columns(tmp_path):
    part(tmp_path / "topics" / "day=2026-11-21" / "tap=east" / "0.parquet", "a")
    part(tmp_path / "topics" / "day=2026-11-22" / "tap=west" / "0.parquet", "b")
    table = rows(tmp_path)
    assert sorted(zip(table["name"].to_pylist(), table["tap"].to_pylist(), strict=True)) == [
        ("a", "east"),
        ("b", "west"),
    ]


def test_folders_together_are_one_table_and_missing_columns_are_null(tmp_path):
    part(tmp_path / "old" / "topics" / "0.parquet", "a", schema=SCHEMA.remove(3))
    part(
        tmp_path / "new" / "topics" / "0.parquet",
        "b",
        schema=SCHEMA.append(pa.field("run_id", pa.string())),
        run_id="r",
    )
    table = rows(tmp_path / "old", tmp_path / "new")
    assert sorted(zip(table["name"].to_pylist(), table["run_id"].to_pylist(), strict=True)) == [("a", None), ("b", "r")]
    assert table.schema.names[:4] == SCHEMA.names


def test_columns_that_a_later_part_adds_are_kept(tmp_path):
    part(tmp_path / "topics" / "0.parquet", "a")
    part(tmp_path / "topics" / "1.parquet", "b", schema=SCHEMA.append(pa.field("run_id", pa.string())), run_id="r")
    table = rows(tmp_path)
    assert sorted(zip(table["name"].to_pylist(), table["run_id"].to_pylist(), strict=True)) == [("a", None), ("b", "r")]


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        ("name", pa.large_string()),
        ("name", pa.dictionary(pa.int32(), pa.string())),
        ("first_ts", pa.timestamp("ns", tz="UTC")),
        ("first_ts", pa.timestamp("ms", tz="UTC")),
        ("extra", pa.int16()),
    ],
)
def test_other_widths_of_other_writers_are_read_as_ours(tmp_path, column, kind):
    ours = SCHEMA.append(pa.field("extra", pa.int64()))
    part(tmp_path / "topics" / "0.parquet", "a", schema=ours, extra=1)
    theirs = ours.set(ours.get_field_index(column), pa.field(column, kind))
    part(tmp_path / "topics" / "1.parquet", "a", schema=theirs, extra=1)
    table = rows(tmp_path)
    assert table.schema.field(column).type == ours.field(column).type
    first, second = table.to_pylist()
    assert first == second


def test_a_folder_is_no_part_whatever_its_name(tmp_path):
    part(tmp_path / "topics" / "x.parquet" / "0.parquet", "a")
    assert names(tmp_path) == ["a"]


def test_a_table_without_parts_is_empty(tmp_path):
    (tmp_path / "topics").mkdir()
    assert rows(tmp_path).num_rows == 0
    assert rows(tmp_path).schema.names == SCHEMA.names


def broken_file(folder):
    (folder / "topics").mkdir()
    (folder / "topics" / "x.parquet").write_bytes(b"no parquet")


def other_columns(folder):
    part(folder / "topics" / "x.parquet", 1, schema=SCHEMA.set(2, pa.field("name", pa.int64())), topic_id="t")


def later_schema(folder):
    part(folder / "topics" / "x.parquet", "a", schema=SCHEMA.with_metadata({"mqsniff.schema_version": "2.0"}))


def later_schema_in_a_later_part(folder):
    part(folder / "topics" / "0.parquet", "a")
    later_schema(folder)


def unreadable_version(folder):
    part(folder / "topics" / "x.parquet", "a", schema=SCHEMA.with_metadata({"mqsniff.schema_version": b"\xff"}))


def other_table(folder):
    part(folder / "topics" / "x.parquet", "a", schema=SCHEMA.with_metadata({"mqsniff.table": "messages"}))


def foreign_file(folder):
    part(folder / "topics" / "x.parquet", "a", schema=pa.schema([("a", pa.string())]))


def named_pipe(folder):
    (folder / "topics").mkdir()
    os.mkfifo(folder / "topics" / "x.parquet")


def dangling_link(folder):
    (folder / "topics").mkdir()
    (folder / "topics" / "x.parquet").symlink_to(folder / "gone.parquet")


def broken_manifest(folder, content="{"):
    (folder / "_mqsniff" / "runs").mkdir(parents=True)
    (folder / "_mqsniff" / "runs" / "1.json").write_text(content)


def manifest_of_another_kind(folder):
    broken_manifest(folder, '{"run": "1", "replaces": [], "options": {}, "parts": [5]}')


def manifest_that_leads_out(folder):
    manifest(folder / "inner", "1", "topics/../../x.parquet")
    (folder / "inner").rename(folder / "topics")
    (folder / "topics" / "_mqsniff").rename(folder / "_mqsniff")


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda _: None, "no tables in this folder"),
        (broken_file, "arquet"),
        (other_columns, "not the columns of topics"),
        (later_schema, "tables of schema 2.0, this is 1.0"),
        (later_schema_in_a_later_part, "x.parquet: tables of schema 2.0, this is 1.0"),
        (unreadable_version, "tables of schema \ufffd, this is 1.0"),
        (other_table, "not the columns of topics but of messages"),
        (foreign_file, "x.parquet: not the columns of topics"),
        (named_pipe, "x.parquet: not a regular file"),
        (dangling_link, "No such file or directory"),
        (broken_manifest, "1.json: no manifest"),
        (manifest_of_another_kind, "1.json: no manifest"),
        (manifest_that_leads_out, "is outside the folder"),
    ],
)
def test_what_cannot_be_read_is_told_in_one_line(tmp_path, make, told):
    make(tmp_path)
    with pytest.raises(FolderError) as failed:
        names(tmp_path)
    assert told in str(failed.value)
    assert str(tmp_path) in str(failed.value)
    assert "\n" not in str(failed.value)
