"""Formats inside bodies, as messages carry them: with what the message and its group say of them."""

from __future__ import annotations

import struct
from typing import Any

import cramjam
import kafkacraft as craft
import pytest

from mqsniff.limits import Limits
from mqsniff.model import Message, RecordBatch
from mqsniff.testing.conversations import chunks, client, server
from mqsniff.testing.driver import Driver
from mqsniff_kafka import Kafka
from mqsniff_kafka.bodies import read_response_body, version_of
from mqsniff_kafka.formats import TEXTS, decode_marked
from mqsniff_kafka.records.data import _count_deliveries, replace_all

PUSH_TELEMETRY, TXN_OFFSET_COMMIT = 72, 28
COMMIT = "AgAAAYvP5WgAAAAAAQAAAAZ3aW5kb3cAAAGLz+Vn/w=="
COMMIT_WITHOUT_TIME = "Av//////////"
EAGER = bytes.fromhex(
    "0000000000027731000f687474703a2f2f77313a383038332f000000000000001100000001000566696c657300000002ffffffff00000000"
)
"""What Streams said with an offset, and an assignment of a worker of Connect, as Kafka 4.0.2 wrote them."""
METRICS = bytes.fromhex("0a00")
"""A MetricsData with one empty ResourceMetrics."""


def requested(key: int, version: int, given: dict[str, Any]) -> Message:
    (message,) = Driver(Kafka).run(chunks([client(craft.request(key, version, 1, given))])).messages
    return message


@pytest.mark.parametrize("codec", [0, 2])
def test_metrics_are_opened_by_the_codec_that_stands_beside_them(codec: int) -> None:
    packed = bytes(cramjam.snappy.compress_raw(METRICS)) if codec else METRICS
    message = requested(PUSH_TELEMETRY, 0, {"compression_type": codec, "metrics": packed})
    assert message.body["metrics"] == {"resource_metrics": [{}]}
    assert not message.problems


def test_metrics_that_are_none_stay_bytes_with_a_problem() -> None:
    message = requested(PUSH_TELEMETRY, 0, {"compression_type": 1, "metrics": METRICS})
    assert message.body["metrics"] == METRICS
    assert [(problem.kind, problem.detail, problem.path) for problem in message.problems] == [
        ("format", "expected OTLP metrics", "metrics")
    ]


@pytest.mark.parametrize("key", [craft.OFFSET_COMMIT, TXN_OFFSET_COMMIT])
def test_what_streams_says_with_an_offset_is_told_where_it_commits(key: int) -> None:
    partitions = [
        {"partition_index": 0, "committed_metadata": COMMIT},
        {"partition_index": 1, "committed_metadata": "by hand"},
        {"partition_index": 2, "committed_metadata": None},
    ]
    message = requested(key, 3, {"group_id": "g", "topics": [{"name": "words", "partitions": partitions}]})
    body: Any = message.body
    found = [one["committed_metadata"] for one in body["topics"][0]["partitions"]]
    assert found[0]["partition_time"] == 1_700_000_000_000
    assert found[1:] == ["by hand", None]
    assert not message.problems


def test_what_streams_said_is_told_where_offsets_are_fetched() -> None:
    partition = {
        "partition_index": 0,
        "committed_offset": 5,
        "metadata": COMMIT_WITHOUT_TIME,
    }
    groups = [{"group_id": "g", "topics": [{"name": "words", "partitions": [partition]}]}]
    said = [
        client(craft.request(craft.OFFSET_FETCH, 8, 1, {"groups": [{"group_id": "g"}]})),
        server(craft.response(craft.OFFSET_FETCH, 8, 1, {"groups": groups})),
    ]
    body: Any = Driver(Kafka).run(chunks(said)).messages[1].body
    assert body["groups"][0]["topics"][0]["partitions"][0]["metadata"]["partition_time"] == -1


@pytest.mark.parametrize("text", ["", "sarama", "meta v10", "AQAAAaH9nog=", "AQAAAaH9nogrAA==", "Af__________", "AgAA"])
def test_other_metadata_of_an_offset_stays_text(text: str) -> None:
    assert TEXTS["commit_metadata"](text) is None


@pytest.mark.parametrize("text", ["AQAAAaH9nogr", "AgAAAaH9hYrz"])
def test_what_streams_said_on_real_wires_is_a_time(text: str) -> None:
    found = TEXTS["commit_metadata"](text)
    assert found is not None
    assert found["partition_time"] // 1_000_000_000 == 1_795


def test_data_of_a_group_of_an_unknown_type_is_what_fits_to_the_last_byte() -> None:
    found: Any = decode_marked("member_assignment", EAGER)
    assert (found["leader"], found["assignment"]) == ("w1", [{"connector": "files", "tasks": [-1, 0]}])
    assert decode_marked("member_assignment", EAGER + b"\0") == EAGER + b"\0"


def test_an_assignment_of_a_group_that_nobody_saw_form_is_read_by_what_fits() -> None:
    given = {"group_id": "g", "generation_id": 3, "member_id": "m"}
    plain = struct.pack(">hi", 0, 1) + struct.pack(">h", 6) + b"orders" + struct.pack(">iii", 1, 0, -1)
    assignments = [
        {"member_id": "m", "assignment": plain},
        {"member_id": "n", "assignment": EAGER},
        {"member_id": "o", "assignment": b"\x7f\x7f what nobody knows"},
    ]
    body: Any = requested(craft.SYNC_GROUP, 3, given | {"assignments": assignments}).body
    consumer, worker, unknown = (one["assignment"] for one in body["assignments"])
    assert consumer["assigned_partitions"] == [{"topic": "orders", "partitions": [0]}]
    assert worker["leader"] == "w1"
    assert unknown == b"\x7f\x7f what nobody knows"


def test_records_without_offsets_were_acquired_nobody_knows_how_often() -> None:
    batch = RecordBatch(b"", 3, columns={"offset": [None, 7, None]})
    _count_deliveries(batch, [{"first_offset": 5, "last_offset": 9, "delivery_count": 2}])
    assert list(batch.columns["attempts"]) == [None, 2, None]


@pytest.mark.parametrize(("records", "shown"), [(b"any bytes", {"size": 9}), (b"", {"size": 0}), (None, None)])
def test_record_data_that_nobody_reads_is_its_size(records, shown):
    topics = [{"topic": "orders", "partitions": [{"partition_index": 0, "records": records}]}]
    data = craft.response(craft.FETCH, 4, 7, {"responses": topics})
    body, problems = read_response_body(version_of(craft.FETCH, 4), data, 8, len(data), Limits())
    assert problems == []
    replace_all(body.marks.records, body.value)
    assert body.value["responses"][0]["partitions"][0]["records"] == shown
