"""What a task of the batch job wrote and counted: results are plain data, and add up."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import orjson
import pyarrow.parquet as pq
import pytest
from handmade import captures, connection, noticed, pub

from mqsniff.batch.carried import CarriedCounts
from mqsniff.batch.job import JobOptions
from mqsniff.batch.tasktables import TaskOutput, TaskResult, Writer, part_of, peak_memory, plain_part
from mqsniff.model import ClosedItem, MessageItem, OpenedItem
from mqsniff.sinks.parts import WrittenPart

PART = WrittenPart("records", "records/a.parquet", 3, 400, {("kafka", "id"): "name", ("kafka", "other"): None})


def result(number: int) -> TaskResult:
    """A result whose numbers are all different."""
    return TaskResult(
        parts=[PART],
        taught=[("kafka", f"id{number}", "name", number)],  # type: ignore[list-item]  # a row of a directory
        connections=number + 1,
        messages=Counter(kafka=number + 2),
        problems=Counter(error=number + 3),
        encrypted=Counter(missing=number + 4),
        duplicate_packets=number + 5,
        memory=number + 6,
        bundles=number + 7,
        bundle_bytes=number + 8,
        segments=number + 9,
        edge_parts=[PART],
        edge_taught=[("kafka", "edge", "name", number)],  # type: ignore[list-item]  # as above
        carried=[("carried/a.parquet", number, number + 1)],
        carried_counts=CarriedCounts(number, number + 1, number + 2, number + 3),
    )


def test_a_result_goes_through_json_and_comes_back_whole() -> None:
    back = TaskResult()
    back.add(orjson.loads(orjson.dumps(result(10).plain())))
    assert back == result(10)


def test_results_of_tasks_add_up_and_the_memory_is_that_of_the_largest() -> None:
    both = result(10)
    both.add(result(500).plain())
    assert both == TaskResult(
        parts=[PART, PART],
        taught=result(10).taught + result(500).taught,
        connections=512,
        messages=Counter(kafka=514),
        problems=Counter(error=516),
        encrypted=Counter(missing=518),
        duplicate_packets=520,
        memory=506,
        bundles=524,
        bundle_bytes=526,
        segments=528,
        edge_parts=[PART, PART],
        edge_taught=result(10).edge_taught + result(500).edge_taught,
        carried=result(10).carried + result(500).carried,
        carried_counts=CarriedCounts(510, 512, 514, 516),
    )
    both.add(result(1).plain())
    assert both.memory == 506


def test_a_part_goes_through_json_and_comes_back_whole() -> None:
    assert part_of(orjson.loads(orjson.dumps(plain_part(PART)))) == PART


def test_memory_is_told_in_bytes() -> None:
    assert 10 << 20 < peak_memory() < 64 << 30


# ---- the writer


def written(folder: Path, items: list[Any], **options: Any) -> TaskResult:
    (folder / "out").mkdir()
    output = TaskOutput(str(folder / "out"), "staged", "r1", JobOptions(**options))
    writer = Writer(output, captures(), "attempt")
    for item in items:
        writer.take(item)
    return writer.close()


@pytest.mark.parametrize(
    ("keys", "encrypted"), [("missing", {"missing": 1}), ("wrong", {"wrong": 1}), ("used", {}), (None, {})]
)
def test_items_are_counted_by_what_they_are(tmp_path: Path, keys: str | None, encrypted: dict[str, int]) -> None:
    info = connection(tls_keys=keys, duplicate_packets=3)
    message = MessageItem(info, pub())
    items = [OpenedItem(info, 0), message, message, noticed(severity="error"), noticed(), ClosedItem(info)]
    made = written(tmp_path, items)
    assert (made.connections, made.messages, made.problems) == (1, {"nsq": 2}, {"error": 1, "info": 1})
    assert (made.duplicate_packets, made.encrypted) == (3, encrypted)
    assert (made.bundles, made.bundle_bytes, made.segments, made.edge_parts, made.carried) == (0, 0, 0, [], [])
    rows = {part.table: part.rows for part in made.parts}
    assert rows == {"connections": 1, "messages": 2, "problems": 2}


@pytest.mark.parametrize(("body", "shown"), [(True, True), (False, False)])
def test_bodies_of_messages_are_written_where_they_are_wanted(tmp_path: Path, *, body: bool, shown: bool) -> None:
    made = written(tmp_path, [MessageItem(connection(), pub())], body=body)
    (part,) = made.parts
    (row,) = pq.read_table("/" + part.path.lstrip("/")).to_pylist()
    assert ("retry" in row["body"]) is shown
    assert row["run_id"] == "r1"
    assert Path(part.path).name.startswith("r1-attempt")
    assert "/out/staged/messages/" in "/" + part.path


def test_an_attempt_that_is_discarded_leaves_no_file(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    writer = Writer(TaskOutput(str(tmp_path / "out"), "", "r1", JobOptions()), captures(), "attempt")
    for number in range(10):
        writer.take(MessageItem(connection(f"c{number}"), pub()))
    writer.write_waiting()
    writer.discard()
    assert list(tmp_path.rglob("*.parquet")) == []
