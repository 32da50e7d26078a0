"""Folders of Parquet tables: names that are learned late, runs that are interrupted, and who else can read them."""

from __future__ import annotations

import io
import json
import struct
from dataclasses import replace

import kafkacraft as kafka
import pyarrow.parquet as pq
import pytest
from imports import imported
from kafkacraft import FETCH, METADATA, TOPIC_ID, record_batch, request, response
from parquetrows import decode_both, items_of, rows_of_parts

from mqsniff.limits import Limits
from mqsniff.model import CaptureInfo
from mqsniff.sinks.outputfolder import OutputFolder
from mqsniff.sinks.parquet import ParquetSink
from mqsniff.tables.schemas import TABLES
from mqsniff.tables.values import Redaction
from mqsniff.testing.conversations import STEP_NS, client, segments, server, write_pcap

OFFSETS_ID = "AAAAAAAAAAAAAAAAAAAAQQ"
OTHER_ID = "AAAAAAAAAAAAAAAAAAAAgQ"
COMMIT = {
    "key": {"type": 1, "group": "billing", "topic": "orders", "partition": 3},
    "value": {"version": 3, "offset": 42, "leader_epoch": -1, "metadata": "", "commit_timestamp": 1000},
}


def commit():
    """A batch of ``__consumer_offsets`` with one commit."""
    key = struct.pack(">hh7sh6si", 1, 7, b"billing", 6, b"orders", 3)
    return record_batch(struct.pack(">hqihq", 3, 42, -1, 0, 1000), key=key)


def fetcher(*, topics, version=13):
    """A consumer that knows its topics by ids alone."""
    pending = [{"topic_id": one, "partitions": [{"partition": 0, "fetch_offset": 0}]} for one in topics]
    answered = [
        {"topic_id": one, "partitions": [{"partition_index": 0, "high_watermark": 9, "records": records}]}
        for one, records in topics.items()
    ]
    return [
        client(request(FETCH, version, 1, {"max_wait_ms": 500, "session_epoch": -1, "topics": pending})),
        server(response(FETCH, version, 1, {"responses": answered})),
    ]


def asker(names):
    """A client whose broker tells the names of topic ids."""
    told = [{"name": name, "topic_id": topic_id, "partitions": kafka.LED} for topic_id, name in names.items()]
    return [
        client(request(METADATA, 12, 1, {"topics": None})),
        server(response(METADATA, 12, 1, {"brokers": kafka.BROKERS, "topics": told})),
    ]


def capture(folder, *dialogues, gap_ns=1000 * STEP_NS):
    """One capture a conversation, each later than the one before."""
    paths = []
    for number, dialogue in enumerate(dialogues):
        packets = [replace(one, ts_ns=one.ts_ns + number * gap_ns) for one in segments(dialogue)]
        path = folder / f"{number}.pcap"
        write_pcap(path, packets, ports=(40_000 + number, 9092))
        paths.append(path)
    return paths


def lines_of(stream, table):
    return [row for line in stream.getvalue().splitlines() if (row := json.loads(line))["table"] == table]


LATE = {TOPIC_ID: record_batch(b"one", b"two"), OFFSETS_ID: commit()}
NAMES = {TOPIC_ID: "orders", OFFSETS_ID: "__consumer_offsets"}


@pytest.fixture
def late(tmp_path):
    """(folder, NDJSON) of a fetch by ids whose names another connection learns a second later."""
    stream = io.BytesIO()
    decode_both(capture(tmp_path, fetcher(topics=LATE), asker(NAMES)), tmp_path / "out", stream)
    return tmp_path / "out", stream


def test_names_taught_after_the_rows_on_another_connection_are_filled(late):
    folder, stream = late
    assert {row.get("topic") for row in lines_of(stream, "records")} == {None}
    named = {row["topic_id"]: row["topic"] for row in rows_of_parts(folder, "records")}
    assert named == NAMES
    named = {row["topic_id"]: row["topic"] for row in rows_of_parts(folder, "partitions") if row["name"] == "Fetch"}
    assert named == NAMES
    for table in ("messages", "exchanges"):
        fetches = [row for row in rows_of_parts(folder, table) if row["name"] == "Fetch"]
        assert fetches
        for row in fetches:
            assert row["topic_ids"] == [*NAMES]
            assert row["topics"] == [*NAMES.values()]


def test_records_of_internal_topics_are_decoded_by_a_name_taught_later(late):
    folder, stream = late
    assert not any("decoded" in row for row in lines_of(stream, "records"))
    rows = {row["topic"]: row["decoded"] for row in rows_of_parts(folder, "records")}
    assert rows["orders"] is None
    assert json.loads(rows["__consumer_offsets"]) == COMMIT


def test_a_name_known_in_time_needs_no_second_writing(tmp_path):
    stream = io.BytesIO()
    parts = decode_both(capture(tmp_path, asker(NAMES), fetcher(topics=LATE)), tmp_path / "out", stream)
    by_ndjson = {row["topic_id"]: (row["topic"], row.get("decoded")) for row in lines_of(stream, "records")}
    assert by_ndjson == {TOPIC_ID: ("orders", None), OFFSETS_ID: ("__consumer_offsets", COMMIT)}
    rows = rows_of_parts(tmp_path / "out", "records")
    assert {row["topic_id"]: row["decoded"] and json.loads(row["decoded"]) for row in rows} == {
        TOPIC_ID: None,
        OFFSETS_ID: COMMIT,
    }
    (records,) = (part for part in parts if part.table == "records")
    assert records.topic_ids == {("kafka", TOPIC_ID): "orders", ("kafka", OFFSETS_ID): "__consumer_offsets"}


def test_the_order_of_teaching_and_fetching_changes_no_row_but_its_times(tmp_path):
    told = []
    for name, dialogues in {
        "after": (fetcher(topics=LATE), asker(NAMES)),
        "before": (asker(NAMES), fetcher(topics=LATE)),
    }.items():
        (tmp_path / name).mkdir()
        paths = capture(tmp_path / name, *dialogues)
        decode_both(paths, tmp_path / name / "out", io.BytesIO())
        columns = ("protocol", "name", "kind", "topics", "topic_ids")
        rows = rows_of_parts(tmp_path / name / "out", "messages")
        told.append(sorted(str([row[column] for column in columns]) for row in rows))
    assert told[0] == told[1]


def test_only_parts_that_name_other_topics_are_written_again(tmp_path):
    known = {TOPIC_ID: record_batch(b"one")}
    paths = capture(
        tmp_path, asker({TOPIC_ID: "orders"}), fetcher(topics=known), fetcher(topics=LATE), asker({OFFSETS_ID: "late"})
    )
    pipeline, items = items_of(paths)
    limits = Limits(part_size=1, row_group_size=1)
    sink = ParquetSink(str(tmp_path / "out"), pipeline.captures, ("messages", "records"), Redaction(), limits=limits)
    for item in items:
        sink.write(item)
    before = {part.path: (part, pq.ParquetFile(part.path).read().to_pylist()) for part in sink.close_parts()}
    again = sink.close()
    for part in again:
        old, rows = before[part.path]
        named = [key for key, name in old.topic_ids.items() if name is None and key[1] != OTHER_ID]
        assert (pq.ParquetFile(part.path).read().to_pylist() != rows) == bool(named)


def test_an_id_with_two_names_gets_the_one_that_was_taught_first(tmp_path):
    paths = capture(
        tmp_path,
        fetcher(topics={TOPIC_ID: record_batch(b"one")}),
        asker({TOPIC_ID: "first"}),
        asker({TOPIC_ID: "second"}),
        fetcher(topics={TOPIC_ID: record_batch(b"two")}),
    )
    decode_both(paths, tmp_path / "out", io.BytesIO())
    assert {row["topic"] for row in rows_of_parts(tmp_path / "out", "records")} == {"first"}
    assert [row["name"] for row in rows_of_parts(tmp_path / "out", "topics")] == ["first"]


@pytest.mark.parametrize("shown", [Redaction(payload=False), Redaction(max_bytes=3)], ids=["redacted", "cut"])
def test_what_is_not_there_as_it_was_is_not_decoded_at_the_end(tmp_path, shown):
    decode_both(capture(tmp_path, fetcher(topics=LATE), asker(NAMES)), tmp_path / "out", io.BytesIO(), shown)
    rows = rows_of_parts(tmp_path / "out", "records")
    assert {row["topic"] for row in rows} == {*NAMES.values()}
    assert {row["decoded"] for row in rows} == {None}


def test_redacted_records_do_not_show_what_internal_topics_hold(tmp_path):
    stream = io.BytesIO()
    paths = capture(tmp_path, asker(NAMES), fetcher(topics=LATE))
    decode_both(paths, tmp_path / "out", stream, Redaction(payload=False))
    assert {row["decoded"] for row in rows_of_parts(tmp_path / "out", "records")} == {None}
    assert not any("decoded" in row for row in lines_of(stream, "records"))


# ---- runs that end early, and folders


def test_an_interrupt_leaves_whole_files(tmp_path):
    pipeline, items = items_of(capture(tmp_path, asker(NAMES), fetcher(topics=LATE)))
    sink = ParquetSink(str(tmp_path / "out"), pipeline.captures, TABLES, Redaction(), limits=Limits(row_group_size=1))
    for item in items[: len(items) // 2]:
        sink.write(item)
    parts = sink.close()
    assert not list((tmp_path / "out").rglob("*.tmp"))
    assert {part.table for part in parts} == {*TABLES}
    assert [row["name"] for row in rows_of_parts(tmp_path / "out", "messages")] == ["Metadata", "Metadata"]


def test_what_earlier_runs_left_goes_when_there_is_something_to_put_in_its_place(tmp_path):
    (path,) = capture(tmp_path, asker({TOPIC_ID: "orders"}))
    out = tmp_path / "out"
    old = out / "messages" / "part-00007.parquet"
    old.parent.mkdir(parents=True)
    old.write_text("x")
    pipeline, items = items_of([path])
    folder = OutputFolder(str(out))
    folder.prepare(overwrite=True)
    sink = ParquetSink(folder, pipeline.captures, TABLES, Redaction())
    assert old.exists()
    for item in items:
        sink.write(item)
    sink.close()
    assert {part.name for part in out.glob("*/*")} == {"part-00000.parquet"}


@pytest.mark.parametrize("captures", [[], [CaptureInfo(0, "x", unreadable="is a directory")]])
def test_a_run_that_could_read_nothing_leaves_the_folder_as_it_was(tmp_path, captures):
    held = tmp_path / "held" / "messages" / "part-00000.parquet"
    held.parent.mkdir(parents=True)
    held.write_text("x")
    for out in (tmp_path / "held", tmp_path / "a" / "b"):
        folder = OutputFolder(str(out))
        folder.prepare(overwrite=True)
        assert ParquetSink(folder, captures, TABLES, Redaction()).close() == []
    assert [path.name for path in tmp_path.rglob("*")] == ["held", "messages", "part-00000.parquet"]


def test_tables_are_written_and_filled_without_pandas(tmp_path):
    pytest.importorskip("pandas")  # pyarrow imports it after one's back, which costs more than a small capture
    paths = capture(tmp_path, fetcher(topics={TOPIC_ID: record_batch(b"v", key=b"k")}), asker({TOPIC_ID: "orders"}))
    assert imported(("pyarrow", "pandas"), "decode", "-o", "parquet", "--out", tmp_path / "out", *paths) == ["pyarrow"]
    assert pq.read_table(tmp_path / "out" / "records")["topic"].to_pylist() == ["orders"]
