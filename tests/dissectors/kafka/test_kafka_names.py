"""Names for topic ids: taught on one connection, shown on another, in a stream where they were taught before."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import kafkacraft as craft
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from kafkacraft import TOPIC_ID, record_batch
from test_kafka_formats import SAMPLES
from tinycapture import conversation, pcap

from mqsniff.cli import main
from mqsniff_kafka.formats import decode_record

HELLO = [
    ("c", craft.request(craft.API_VERSIONS, 3, 0)),
    ("s", craft.response(craft.API_VERSIONS, 3, 0)),
]
LOG_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
TOPIC_RECORD = next(
    bytes.fromhex(one["value"])
    for one in SAMPLES["records"]
    if one["topic"] == "__cluster_metadata" and one["value"].startswith("0102")
)
ASKS = [
    *HELLO,
    ("c", craft.request(craft.METADATA, 12, 1, {"topics": [{"name": "orders"}]})),
    ("s", craft.response(craft.METADATA, 12, 1, {"brokers": craft.BROKERS, "topics": craft.NAMED})),
]


def fetches(topic_id: str, *values: bytes) -> list[tuple[str, bytes]]:
    held = record_batch(*(values or (b"x",)), base=5)
    pending = [{"topic_id": topic_id, "partitions": [{"partition": 0, "fetch_offset": 5}]}]
    answer = [{"topic_id": topic_id, "partitions": [{"partition_index": 0, "records": held}]}]
    return [
        *HELLO,
        ("c", craft.request(craft.FETCH, 16, 1, {"max_wait_ms": 5, "topics": pending})),
        ("s", craft.response(craft.FETCH, 16, 1, {"responses": answer})),
    ]


def rows(
    folder: Path,
    *dialogues: list[tuple[str, bytes]],
    tables: tuple[str, ...] = ("messages", "partitions", "records", "topics"),
) -> list[dict[str, Any]]:
    """NDJSON of tables of a capture of these connections, one after the other."""
    path = folder / "one.pcap"
    packets = (
        packet
        for number, steps in enumerate(dialogues)
        for packet in conversation(steps, client=40_000 + number, server=9092)
    )
    path.write_bytes(pcap(packets))
    arguments = ["decode", str(path), "-o", "ndjson", *(f"--table={table}" for table in tables)]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def of_fetch(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row in found if row.get("name") == "Fetch" or row["table"] == "records"]


def test_a_fetch_by_id_shows_the_name_that_another_connection_was_told_before(tmp_path: Path) -> None:
    found = of_fetch(rows(tmp_path, ASKS, fetches(TOPIC_ID)))
    assert [row["table"] for row in found] == ["messages", "partitions", "messages", "partitions", "records"]
    assert all("orders" in (row.get("topics") or [row.get("topic")]) for row in found)
    assert all(TOPIC_ID in (row.get("topic_ids") or [row.get("topic_id")]) for row in found)


def test_a_stream_does_not_know_a_name_that_is_taught_later(tmp_path: Path) -> None:
    found = of_fetch(rows(tmp_path, fetches(TOPIC_ID), ASKS))
    assert len(found) == 5
    assert all(row.get("topics") is None and row.get("topic") is None for row in found)


@pytest.mark.parametrize("before", [[], [ASKS]])
def test_the_metadata_log_has_its_name_without_being_told(tmp_path: Path, before: list[Any]) -> None:
    found = rows(tmp_path, *before, fetches(LOG_ID))
    assert "__cluster_metadata" in {row["name"] for row in found if row["table"] == "topics"}
    assert all("__cluster_metadata" in (row.get("topics") or [row.get("topic")]) for row in of_fetch(found))


@pytest.mark.parametrize("tables", [("messages", "topics"), ("messages", "topics", "records")])
def test_the_metadata_log_names_topics_whether_records_are_asked_for_or_not(
    tmp_path: Path, tables: tuple[str, ...]
) -> None:
    told: Any = decode_record("__cluster_metadata", None, TOPIC_RECORD)
    named = told["value"]
    found = rows(tmp_path, fetches(LOG_ID, TOPIC_RECORD), fetches(named["topic_id"]), tables=tables)
    assert (named["topic_id"], named["name"]) in {(row.get("topic_id"), row.get("name")) for row in found}
    last = [row for row in of_fetch(found) if row["table"] == "messages"][-1]
    assert last["topics"] == [named["name"]]


def test_an_answer_takes_over_no_name_that_was_filled_into_its_request(tmp_path: Path) -> None:
    late = "ZZZZZZZZQQGZZZZZZZZZZA"
    pending = [{"topic_id": one, "partitions": [{"partition": 0}]} for one in (late, TOPIC_ID)]
    nothing_new = [
        *HELLO,
        ("c", craft.request(craft.FETCH, 16, 1, {"max_wait_ms": 5, "topics": pending})),
        ("s", craft.response(craft.FETCH, 16, 1, {"session_id": 7})),
    ]
    bills = {"brokers": craft.BROKERS, "topics": [craft.NAMED[0] | {"name": "bills", "topic_id": late}]}
    told_late = [*ASKS[:3], ("s", craft.response(craft.METADATA, 12, 1, bills))]
    path, out = tmp_path / "one.pcap", str(tmp_path / "tables")
    path.write_bytes(
        pcap(
            packet
            for number, steps in enumerate((ASKS, nothing_new, told_late))
            for packet in conversation(steps, client=40_000 + number, server=9092)
        )
    )
    assert CliRunner().invoke(main, ["decode", str(path), "-o", "parquet", "--out", out]).exit_code == 0
    for table in ("messages", "exchanges"):
        found = [row for row in pq.read_table(f"{out}/{table}").to_pylist() if row["name"] == "Fetch"]
        assert found
        assert [row["topics"] for row in found] == [["bills", "orders"]] * len(found)
