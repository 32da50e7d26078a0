"""Publication to tables of Delta and Iceberg: what runs append and delete, and which are done; without jars."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mqsniff.batch.commit import CommitError
from mqsniff.batch.lakes import (
    ARCHIVE_PROPERTY,
    RUN_PROPERTY,
    DeltaVersion,
    LakeChange,
    archive_name,
    changes,
    check_format,
    last_of_delta,
    quoted,
)
from mqsniff.batch.manifest import Manifest, Published
from mqsniff.batch.store import Store

A, B, C = "20260101T000000-00000001", "20260102T000000-00000002", "20260103T000000-00000003"


def part(run: str, name: str = "0", *, table: str = "messages", rows: int = 1) -> Published:
    return Published(table, f"{table}/{run}-{name}.parquet", rows, 10)


def a_run(run: str, *parts: Published, **more: Any) -> Manifest:
    return Manifest(run, "", "0", "1", (), parts, **more)


def test_each_run_is_a_commit_of_its_own_oldest_first():
    runs = [a_run(A, part(A)), a_run(B, part(B), part(B, "1"))]
    assert changes(runs, "messages", "") == [
        LakeChange(A, (part(A),), (), replaces=False),
        LakeChange(B, (part(B), part(B, "1")), (), replaces=False),
    ]


def test_a_published_run_is_no_commit_again():
    runs = [a_run(A, part(A)), a_run(B, part(B))]
    assert [change.run for change in changes(runs, "messages", A)] == [B]
    assert changes(runs, "messages", B) == []


def test_a_table_gets_its_own_parts_only_and_none_without_rows():
    runs = [a_run(A, part(A), part(A, table="records"), part(A, table="topics", rows=0))]
    assert changes(runs, "records", "")[0].parts == (part(A, table="records"),)
    assert changes(runs, "topics", "") == []


def test_a_part_that_was_dropped_before_it_was_published_is_neither_appended_nor_deleted():
    edge = part(A, "edge")
    runs = [a_run(A, part(A), edge), a_run(B, part(B), drops=(edge.path,))]
    first, second = changes(runs, "messages", "")
    assert first.parts == (part(A),)
    assert second.gone == ()


def test_a_published_part_that_a_run_drops_is_deleted_by_the_commit_of_that_run():
    edge = part(A, "edge")
    runs = [a_run(A, part(A), edge), a_run(B, part(B), drops=(edge.path, part(A, table="topics").path))]
    assert changes(runs, "messages", A) == [LakeChange(B, (part(B),), (edge.path,), replaces=False)]


def test_a_run_that_only_drops_is_a_commit_too():
    edge = part(A, "edge")
    assert changes([a_run(A, edge), a_run(B, drops=(edge.path,))], "messages", A)[0].gone == (edge.path,)


def test_a_run_that_replaces_all_deletes_what_was_published_before():
    runs = [a_run(B, part(B), replaces=(A,)), a_run(C, part(C))]
    assert [change.replaces for change in changes(runs, "messages", A)] == [True, False]
    assert [change.replaces for change in changes(runs, "messages", "")] == [False, False]


def version(number: int, run: str | None = None, operation: str = "WRITE", **parameters: str) -> DeltaVersion:
    return DeltaVersion(number, f"2026-01-0{number} 00:00:00", operation, parameters, run)


def test_the_last_run_of_a_history_is_that_of_its_newest_commit_with_one():
    assert last_of_delta([version(3, operation="OPTIMIZE"), version(2, B), version(1, A)]) == B
    assert last_of_delta([version(3, operation="OPTIMIZE")]) is None


@pytest.mark.parametrize("to", [{"version": "1"}, {"timestamp": "2026-01-01 00:00:00"}])
def test_runs_that_were_undone_by_a_restore_do_not_count(to: dict[str, str]):
    history = [version(3, operation="RESTORE", **to), version(2, B), version(1, A)]
    assert last_of_delta(history) == A
    assert last_of_delta([version(4, B), *history]) == B


def test_a_restore_that_was_undone_itself_counts_no_more():
    history = [
        version(5, operation="RESTORE", version="3"),
        version(4, operation="RESTORE", version="1"),
        version(3, C),
        version(2, B),
        version(1, A),
    ]
    assert last_of_delta(history) == C


def test_an_archive_keeps_its_name(tmp_path: Path):
    one, other = archive_name(Store.at(str(tmp_path / "a"))), archive_name(Store.at(str(tmp_path / "b")))
    assert one == archive_name(Store.at(str(tmp_path / "a"))) != other


@pytest.mark.parametrize("name", ["", "a b", "mq;drop", "a..b", "`a`", "a."])
def test_a_name_that_is_none_is_refused(name: str):
    with pytest.raises(CommitError, match="no name of tables"):
        quoted(name)


def test_names_are_quoted_part_by_part():
    assert quoted("lake.mq-1") == "`lake`.`mq-1`"


def test_a_format_that_is_not_known_is_refused():
    assert check_format("iceberg") == "iceberg"
    with pytest.raises(CommitError, match="delta or iceberg"):
        check_format("hudi")


def test_properties_of_tables_have_the_names_that_the_page_tells():
    page = Path(__file__).parents[2] / "docs" / "batch.md"
    assert f"`{ARCHIVE_PROPERTY}` and `{RUN_PROPERTY}`" in page.read_text()


def test_publishing_a_folder_without_runs_is_refused_before_anything_is_written(spark: Any, tmp_path: Path):
    from mqsniff.batch.spark import publish

    with pytest.raises(CommitError, match="no run is committed there"):
        publish(spark, str(tmp_path / "tables"), table="mq", format="delta")
    assert not (tmp_path / "tables").exists()
