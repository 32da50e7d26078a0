"""Records that hold secrets: their values are out of sight in every output, and what else they hold is told."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import kafkacraft as craft
import pytest
from kafkacraft import fetch, record_batch
from test_kafka_formats import SAMPLES
from tinycapture import conversation, pcap

from mqsniff.dissector import WITH_RECORDS, Settings
from mqsniff.model import RecordBatch, Secret
from mqsniff.pipeline import Pipeline
from mqsniff.sinks.ndjson import NdjsonSink
from mqsniff.sources.files import FileSource
from mqsniff.tables.schemas import TABLES
from mqsniff.tables.values import Redaction
from mqsniff.testing.conversations import chunks, client, server
from mqsniff.testing.driver import Driver
from mqsniff_kafka import Kafka

SCRAM = bytes.fromhex(
    # UserScramCredentialRecord of user "ruth": salt, stored key and server key are four bytes each here.
    "010b00" + "0572757468" + "02" + "0573346c74" + "0573743072" + "0573337276" + "00001000" + "00"
)
SECRETS = (b"s4lt", b"st0r", b"s3rv")
TOPIC_RECORD = next(bytes.fromhex(one["value"]) for one in SAMPLES["records"] if one["topic"] == "__cluster_metadata")
CONFIG = {"connector.class": "FileStreamSource", "database.password": "hunter2", "tasks.max": "1"}
KEYED = json.dumps({"properties": CONFIG}).encode()
CREDENTIALS = json.dumps({"properties": {"connection.url": "jdbc:db://bob:hunter2@host/x"}}).encode()
SESSION = json.dumps({"key": "aHVudGVyMg==", "algorithm": "HmacSHA256", "creation-timestamp": 5}).encode()
HARMLESS = json.dumps({"properties": {"connector.class": "FileStreamSource"}}).encode()


def delivered(topic: str, *values: bytes, key: bytes = b"") -> RecordBatch:
    pending = [{"topic": topic, "partitions": [{"partition": 0, "fetch_offset": 0}]}]
    partition = {"partition_index": 0, "records": record_batch(*values, key=key)}
    answer = craft.response(craft.FETCH, 12, 1, {"responses": [{"topic": topic, "partitions": [partition]}]})
    driver = Driver(Kafka).run(chunks([client(fetch(1, topics=pending)), server(answer)]))
    (batch,) = driver.messages[1].records
    return batch


def test_a_scram_credential_of_the_metadata_log_is_out_of_sight() -> None:
    batch = delivered("__cluster_metadata", TOPIC_RECORD, SCRAM)
    assert batch.values is not None
    assert [start < 0 for start in batch.values[0]] == [False, True]
    assert list(batch.columns["value_encoding"]) == [None, "redacted"]
    assert list(batch.columns["value_size"]) == [None, len(SCRAM)]
    told: Any = batch.columns["decoded"][1]
    assert told["value"]["name"] == "ruth"
    assert told["value"]["salt"] == Secret(b"s4lt")


@pytest.mark.parametrize(
    ("key", "value", "shown"),
    [
        (b"connector-files", KEYED, {"tasks.max": "1", "database.password": Secret(b"hunter2")}),
        (b"task-files-0", CREDENTIALS, {"connection.url": Secret(b"jdbc:db://bob:hunter2@host/x")}),
    ],
)
def test_a_secret_of_a_connectors_configuration_is_out_of_sight(
    key: bytes, value: bytes, shown: dict[str, Any]
) -> None:
    batch = delivered("any-name", value, key=key)
    assert batch.values is not None
    assert batch.values[0][0] < 0
    held: Any = batch.columns["decoded"][0]
    assert {name: held["value"]["properties"][name] for name in shown} == shown


def test_the_key_of_a_connect_groups_sessions_is_out_of_sight() -> None:
    batch = delivered("any-name", SESSION, key=b"session-key")
    held: Any = batch.columns["decoded"][0]
    assert held["value"]["key"] == Secret(b"aHVudGVyMg==")
    assert held["value"]["algorithm"] == "HmacSHA256"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"connector-files", HARMLESS),
        (b"order-1", KEYED),
        (b"", KEYED),
        (b"task-1", b'no JSON, though it says \\"properties\\"'),
    ],
)
def test_other_records_stay_as_they_are(key: bytes, value: bytes) -> None:
    batch = delivered("any-name", value, key=key)
    assert batch.values is not None
    assert batch.data[batch.values[0][0] : batch.values[1][0]] == value


@pytest.mark.parametrize(
    ("topic", "key", "value"),
    [("any-name", b"connector-files", b'{"properties": {"a'), ("__cluster_metadata", b"", b"\x01\xff\xff")],
)
def test_what_might_be_secret_and_cannot_be_read_is_hidden(topic: str, key: bytes, value: bytes) -> None:
    batch = delivered(topic, value, key=key)
    assert list(batch.columns["decoded"]) == [Secret(value)]


def lines(folder: Path, steps: list[tuple[str, bytes]], *, show_secrets: bool) -> bytes:
    """All rows of one connection, as NDJSON."""
    path = folder / "one.pcap"
    path.write_bytes(pcap(conversation(steps, server=9092)))
    run = Pipeline(FileSource([str(path)]), Settings(wanted=WITH_RECORDS, show_secrets=show_secrets))
    out = io.BytesIO()
    sink = NdjsonSink(out, run.captures, tuple(TABLES), Redaction(secrets=show_secrets))
    for item in run.items():
        if item is not None:
            sink.write(item)
    sink.tick()
    return out.getvalue()


@pytest.mark.parametrize("show_secrets", [False, True])
def test_no_byte_of_a_credential_gets_into_an_output_unless_asked_for(tmp_path: Path, *, show_secrets: bool) -> None:
    pending = [{"topic": "__cluster_metadata", "partitions": [{"partition": 0, "fetch_offset": 5}]}]
    partition = {"partition_index": 0, "records": record_batch(SCRAM, base=5)}
    topics = [{"topic": "__cluster_metadata", "partitions": [partition]}]
    steps = [
        ("c", craft.request(craft.API_VERSIONS, 3, 0)),
        ("s", craft.response(craft.API_VERSIONS, 3, 0)),
        ("c", fetch(1, topics=pending)),
        ("s", craft.response(craft.FETCH, 12, 1, {"responses": topics})),
    ]
    shown = lines(tmp_path, steps, show_secrets=show_secrets)
    assert b"UserScramCredentialRecord" in shown
    assert all((secret in shown) == show_secrets for secret in SECRETS)


@pytest.mark.parametrize(("value", "secret"), [(SCRAM, True), (TOPIC_RECORD, False)])
def test_the_bytes_of_a_credential_are_a_secret_beside_their_field_too(value: bytes, *, secret: bool) -> None:
    pending = [{"topic": "__cluster_metadata", "partitions": [{"partition": 0, "fetch_offset": 0}]}]
    partition = {"partition_index": 0, "records": record_batch(value)}
    topics = [{"topic": "__cluster_metadata", "partitions": [partition]}]
    answer = craft.response(craft.FETCH, 12, 1, {"responses": topics})
    driver = Driver(Kafka).run(chunks([client(fetch(1, topics=pending)), server(answer)]))
    spans = {span.path: span for span in driver.dissector.spans(driver.messages[1].frame)}
    record = "responses[0].partitions[0].records.batches[0].records[0]"
    assert isinstance(spans[f"{record}.value"].value, Secret) == secret
    assert spans[f"{record}.offset_delta"].value == 0
