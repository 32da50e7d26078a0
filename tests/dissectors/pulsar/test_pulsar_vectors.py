"""Frames of the Java client's own encoders (``PulsarVectors.java``): every field of every command, batches, markers."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from crc32c import crc32c
from pulsarcraft import frame

from mqsniff.limits import Limits
from mqsniff.model import Secret, Side
from mqsniff.spec import protowire
from mqsniff.testing.conversations import chunks, client, server
from mqsniff.testing.driver import Driver
from mqsniff_pulsar import Pulsar
from mqsniff_pulsar.commands import BY_NAME, PAYLOAD
from mqsniff_pulsar.frames import HEAD, probe
from mqsniff_pulsar.messages import message_type, read_command

LINES = [json.loads(line) for line in Path(__file__).with_name("pulsar_vectors.jsonl").read_text().splitlines()]
NEWER_COMMAND_FIELDS = {("CommandScalableTopicLookup", "create_if_missing")}
"""Fields of today's definitions that the release of the vectors, 5.0.0-M1, does not have."""
NEWER_METADATA_FIELDS = {"entry_hash_max", "entry_hash_min"}
COMMANDS = [line for line in LINES if line["kind"] == "command"]


def of_kind(*kinds):
    lines = [line for line in LINES if line["kind"] in kinds]
    return pytest.mark.parametrize("line", lines, ids=[f"{line['kind']} {line['name']}" for line in lines])


def run(line):
    """The message of a line's frame, on a connection that knows its producer and consumer."""
    data = bytes.fromhex(line["frame"])
    opening = [
        client(frame("PRODUCER", topic="persistent://public/default/t", producer_id=7, request_id=1)),
        client(frame("SUBSCRIBE", topic="t", subscription="s", sub_type="Shared", consumer_id=3, request_id=2)),
    ]
    sent = client(data) if line["kind"] == "send" else server(data)
    driver = Driver(Pulsar).run(chunks([*opening, sent]))
    assert driver.skipped == []
    return driver.messages[-1]


def field_of(shape, told):
    """The field that a setter or adder of Java's class fills, by its name."""
    snake = re.sub(r"(?<!^)(?=[A-Z])", "_", told).lower()
    singular = {field.name: field for field in shape.fields.values()}
    for name in (snake, f"{snake}s", snake.removesuffix("y") + "ies"):
        if name in singular:
            return singular[name]
    raise AssertionError(f"{shape} has no field for {told}")


def told_of(line):
    """What went into the command itself: the metadata of payloads stand beside it."""
    names = line["told"].keys() - ({"Metadata"} if line["name"] in PAYLOAD else set())
    return {name: line["told"][name] for name in names}


def unwritten(shape, told):
    """Fields that were not written, but for members of a oneof that another one replaced."""
    rivals = {rival for field in shape.fields.values() for rival in field.rivals}
    return {field.name for field in shape.fields.values()} - {field_of(shape, name).name for name in told} - rivals


def compare(shape, told, body):
    expected = {field_of(shape, name).name for name in told}
    assert set(body) == expected
    for name, value in told.items():
        field = field_of(shape, name)
        found = body[field.name]
        if field.repeated:
            assert len(found) == len(value)
        for one, other in zip(value, found, strict=True) if field.repeated else [(value, found)]:
            if field.message is not None:
                compare(field.message, one, other)
            else:
                compare_value(field, one, other)


def compare_value(field, told, found):
    if isinstance(told, dict):
        told = bytes.fromhex(told["hex"])
    if isinstance(found, Secret):
        assert field.secret
        found = found.data if isinstance(told, bytes) else found.data.decode()
    if field.type in ("uint64", "uint32") and told < 0:
        told += 1 << int(field.type[4:])
    assert found == told


@of_kind("command")
def test_every_field_that_java_wrote_is_read(line):
    data = bytes.fromhex(line["frame"])
    side = BY_NAME[line["name"]].side or Side.CLIENT
    assert probe(side, data) == len(data)
    stop = HEAD + int.from_bytes(data[4:8], "big")
    read = read_command(data, HEAD, stop, Limits())
    assert (read.name, read.problems, read.whole) == (line["name"], [], True)
    shape = message_type("BaseCommand").fields[BY_NAME[line["name"]].type].message
    compare(shape, told_of(line), read.body)


@of_kind("command")
def test_the_interpreter_reads_what_the_runtime_reads(line):
    data = bytes.fromhex(line["frame"])
    stop = HEAD + int.from_bytes(data[4:8], "big")
    base = message_type("BaseCommand")
    slow = protowire.interpret(base, data, HEAD, stop)
    assert slow.problems == ()
    assert slow == base.decode(data, HEAD, stop)


def test_java_wrote_every_command_and_every_field_of_it():
    assert {line["name"] for line in COMMANDS} == set(BY_NAME)
    missing = set()
    for line in COMMANDS:
        shape = message_type("BaseCommand").fields[BY_NAME[line["name"]].type].message
        missing |= {(shape.name, name) for name in unwritten(shape, told_of(line))}
    assert {(name.removeprefix("pulsar.proto."), field) for name, field in missing} == NEWER_COMMAND_FIELDS


@pytest.mark.parametrize("name", ["SEND", "MESSAGE"])
def test_every_field_of_the_metadata_is_read(name):
    (line,) = (line for line in COMMANDS if line["name"] == name)
    shape, told = message_type("MessageMetadata"), line["told"]["Metadata"]
    assert unwritten(shape, told) == NEWER_METADATA_FIELDS
    side = client if name == "SEND" else server
    (message,) = Driver(Pulsar).run(chunks([side(bytes.fromhex(line["frame"]))])).messages
    payload = message.body["payload"]
    assert (payload["size"], payload["checksum_ok"]) == (len(b"sealed"), True)
    whole = bytes.fromhex(line["frame"])
    assert int.from_bytes(whole[4:8], "big") == payload["command_size"]
    covered = whole[len(whole) - payload["size"] - payload["metadata_size"] - 4 :]
    assert payload["checksum"] == crc32c(covered)
    compare(shape, told, message.body["metadata"])


@of_kind("send", "message")
def test_batches_of_every_codec_are_opened(line):
    message = run(line)
    assert message.problems == []
    assert message.body["payload"].get("checksum_ok") is (None if line["name"].endswith(" None") else True)
    (batch,) = message.records
    starts, stops = batch.values
    key_starts, key_stops = batch.keys
    for index, told in enumerate(line["told"]):
        assert batch.data[starts[index] : stops[index]].decode() == told["value"]
        key = batch.data[key_starts[index] : key_stops[index]].decode() if key_starts[index] >= 0 else None
        assert key == told.get("key")
        assert batch.headers[index] == [(name, text.encode()) for name, text in told["properties"].items()]
        assert batch.columns["sequence"][index] == told["sequence"]
        assert batch.columns["event_ts"][index] == batch.columns["record_ts"][index] == told["event_time"] * 1_000_000
    assert batch.count == len(line["told"])
    assert batch.constant["codec"] == line["name"].split()[0].lower()
    assert batch.constant["checksum_ok"] is message.body["payload"].get("checksum_ok")


@of_kind("message")
def test_entry_metadata_number_the_messages_of_an_entry(line):
    message = run(line)
    assert message.body["broker_entry_metadata"] == {"index": 46}
    (batch,) = message.records
    assert batch.columns["offset"] == [42, 43, 44, 45, 46]
    assert batch.columns["message_id"] == [f"12:34:2:{index}" for index in range(5)]
    assert batch.constant["attempts"] == 7


@of_kind("marker")
def test_markers_are_read(line):
    message = run(line)
    assert message.problems == []
    assert message.body["opened_marker"] == {"type": line["name"], **line["told"]}
    assert message.records[0].constant["control"] is True


@of_kind("schema")
def test_schemas_are_opened(line):
    (message,) = Driver(Pulsar).run(chunks([client(bytes.fromhex(line["frame"]))])).messages
    assert message.problems == []
    definition = message.body["schema"]["schema_data"]
    assert {name: definition[name] for name in line["told"]} == line["told"]
    if line["name"] == "PROTOBUF_NATIVE":
        (file,) = definition["fileDescriptorSet"]["file"]
        assert [field["name"] for field in file["message_type"][0]["field"]] == ["seconds", "nanos"]
