"""The captures of the Kafka benchmarks are what they say: real enough to be decoded without a word of complaint."""

from __future__ import annotations

import gc
import io
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import orjson
import pytest

from mqsniff.dissector import WITH_RECORDS, Settings
from mqsniff.limits import Limits
from mqsniff.pipeline import Pipeline
from mqsniff.sinks.ndjson import NdjsonSink
from mqsniff.sources.files import FileSource
from mqsniff.tables.schemas import TABLES
from mqsniff.tables.values import Redaction

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "kafkatraffic.py"


def written(kind: str, path: Path, *numbers: str) -> tuple[int, int]:
    """The messages and rows of records that the script says it wrote."""
    command = [sys.executable, str(SCRIPT), kind, str(path), *numbers]
    environment = os.environ | {"PYTHONSAFEPATH": ""}  # it has modules beside it
    out = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment).stdout
    messages, records = map(int, out.split())
    return messages, records


def tables(path: Path) -> dict[str, list[dict]]:
    """All rows of a capture by table."""
    settings = Settings(Limits(), wanted=WITH_RECORDS)
    run, out = Pipeline(FileSource([str(path)], settings.limits), settings), io.BytesIO()
    sink = NdjsonSink(out, run.captures, tuple(TABLES), Redaction())
    for item in run.items():
        if item is not None:
            sink.write(item)
    found: dict[str, list[dict]] = {name: [] for name in TABLES}
    for line in out.getvalue().splitlines():
        row = orjson.loads(line)
        found[row["table"]].append(row)
    return found


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    path = tmp_path_factory.mktemp("small") / "small.pcap"
    return written("small", path, "400", "7"), tables(path)


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    path = tmp_path_factory.mktemp("records") / "records.pcap"
    return written("records", path, "1", "5000", "7"), tables(path)


@pytest.mark.parametrize("traffic", ["small", "large"])
def test_every_message_and_record_is_decoded_and_nothing_is_odd(traffic, request):
    (messages, records), rows = request.getfixturevalue(traffic)
    assert (len(rows["messages"]), len(rows["records"])) == (messages, records)
    assert {row["kind"] for row in rows["problems"]} <= {"retransmission", "stall"}  # the capture has some losses
    assert {row["status"] for row in rows["exchanges"]} == {"ok"}
    assert {row["outcome"] for row in rows["connections"]} == {"established"}
    assert len(rows["connections"]) == 20


def test_small_requests_are_heartbeats_and_single_records_in_turn(small):
    _, rows = small
    names = Counter(row["name"] for row in rows["messages"])
    assert (names["Heartbeat"], names["Produce"]) == (400, 400)
    assert all(row["ack"] == "acked" and row["checksum_ok"] for row in rows["records"])


def test_what_was_produced_is_delivered_in_all_codecs(large):
    _, rows = large
    kept = "key", "value", "headers", "record_ts", "sequence"
    sides: dict[str, dict] = {"produce": {}, "deliver": {}}
    for row in rows["records"]:
        place = row["topic"], row["partition"], row["offset"]
        sides[row["direction"]][place] = [row.get(name) for name in kept]
        assert row["checksum_ok"]
    assert sides["produce"] == sides["deliver"]
    assert {row["codec"] for row in rows["records"]} == {"none", "gzip", "snappy", "lz4", "zstd"}


def test_values_and_headers_are_as_the_benchmark_says(large):
    _, rows = large
    sizes = sorted(row["value_size"] for row in rows["records"])
    assert 20 <= sizes[0] < 25
    assert 3500 < sizes[-1] <= 4096
    assert 250 < sizes[len(sizes) // 2] < 330
    headed = sum(bool(row["headers"]) for row in rows["records"]) / len(sizes)
    assert 0.28 < headed < 0.38


def test_segments_are_lost_and_come_again(large):
    _, rows = large
    odd = Counter()
    for row in rows["connections"]:
        assert row["gap_bytes"] == 0
        odd["late"] += row["out_of_order_segments"]
        odd["twice"] += row["retransmitted_segments"]
    assert odd["late"] > 0
    assert odd["twice"] > 0


def test_a_seed_gives_the_same_bytes(tmp_path):
    paths = [tmp_path / name for name in ("one", "two", "three")]
    for path, seed in zip(paths, ("7", "7", "8"), strict=True):
        written("records", path, "0", "10", seed, "zstd")
    one, two, three = (path.read_bytes() for path in paths)
    assert one == two
    assert one != three


@pytest.mark.parametrize(("mode", "each"), [("single", 1), ("even", 100)])
def test_every_request_produces_a_batch_of_the_same_size(tmp_path, mode, each):
    path = tmp_path / "made.pcap"
    messages, records = written(mode, path, "100", "1")
    found = tables(path)
    assert (len(found["messages"]), len(found["records"])) == (messages, records) == (280, 100 * each)
    assert {row["name"] for row in found["problems"]} <= set()
    if mode == "even":
        assert {row["value_size"] for row in found["records"]} == {100}


def test_cycles_do_not_grow_with_the_messages_of_a_connection(tmp_path):
    counts = []
    for requests in ("100", "100", "1000"):
        path = tmp_path / "made.pcap"
        written("small", path, requests, "1")
        gc.collect()
        gc.disable()
        try:
            tables(path)
            counts.append(gc.collect())
        finally:
            gc.enable()
    assert counts[2] - counts[1] < 100  # of 1,800 more messages
