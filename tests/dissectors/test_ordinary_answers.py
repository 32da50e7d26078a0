"""Answers of the normal course: told by code and name, counted as no errors, by all that speaks of errors."""

from __future__ import annotations

import kafkacraft
import orjson
import pulsarcraft
import pytest
import remotingcraft
from click.testing import CliRunner
from handmade import frame
from kafkacraft import API_VERSIONS, HEARTBEAT, JOIN_GROUP, METADATA, OFFSET_COMMIT, SYNC_GROUP

from mqsniff.cli import main
from mqsniff.model import Message, Ordinary, OrdinaryAnswers
from mqsniff.testing.conversations import Say, chunks, client, segments, server, write_pcap
from mqsniff.testing.driver import Driver
from mqsniff_kafka import Kafka, specs
from mqsniff_kafka.ordinary import ORDINARY as KAFKA
from mqsniff_nsq.ordinary import ORDINARY as NSQ
from mqsniff_pulsar import Pulsar
from mqsniff_pulsar.messages import numbers
from mqsniff_pulsar.ordinary import ORDINARY as PULSAR
from mqsniff_rocketmq import RocketMQ
from mqsniff_rocketmq.ordinary import ORDINARY as ROCKETMQ
from mqsniff_rocketmq.tables import tables

ADD_PARTITIONS = 24


def kafka(key: int, version: int, pending: dict, told: dict) -> list[Say]:
    return [client(kafkacraft.request(key, version, 1, pending)), server(kafkacraft.response(key, version, 1, told))]


def rocketmq(code: int, ext: dict, response: int) -> list[Say]:
    question = remotingcraft.json_frame(code, 1, ext)
    return [client(question), server(remotingcraft.answer(1, code=response, remark="so it is"))]


def pulsar(error: str) -> list[Say]:
    pending = pulsarcraft.frame("GET_SCHEMA", topic="persistent://a/b/c", request_id=1)
    fields = {"request_id": 1, "error_code": error, "error_message": "so it is"}
    return [client(pending), server(pulsarcraft.frame("GET_SCHEMA_RESPONSE", **fields))]


def partitions(*codes: int) -> dict:
    rows = [{"partition_index": index, "partition_error_code": code} for index, code in enumerate(codes)]
    return {"results_by_topic_v3_and_below": [{"name": "t", "results_by_partition": rows}]}


NAMED = {"consumerGroup": "g", "topic": "t", "queueId": 0}

CASES = [
    (Kafka, kafka(JOIN_GROUP, 5, {"member_id": ""}, {"error_code": 79}), (79, "MEMBER_ID_REQUIRED", 0)),
    (Kafka, kafka(JOIN_GROUP, 5, {"member_id": "m-1"}, {"error_code": 79}), (79, "MEMBER_ID_REQUIRED", 1)),
    (Kafka, kafka(JOIN_GROUP, 5, {"member_id": ""}, {"error_code": 25}), (25, "UNKNOWN_MEMBER_ID", 1)),
    (Kafka, kafka(HEARTBEAT, 4, {}, {"error_code": 27}), (27, "REBALANCE_IN_PROGRESS", 0)),
    (Kafka, kafka(SYNC_GROUP, 3, {}, {"error_code": 27}), (27, "REBALANCE_IN_PROGRESS", 0)),
    (Kafka, kafka(HEARTBEAT, 4, {}, {"error_code": 25}), (25, "UNKNOWN_MEMBER_ID", 1)),
    (Kafka, kafka(API_VERSIONS, 0, {}, {"error_code": 35}), (35, "UNSUPPORTED_VERSION", 0)),
    (Kafka, kafka(METADATA, 1, {}, {"topics": [{"name": "t", "error_code": 5}]}), (5, "LEADER_NOT_AVAILABLE", 1)),
    (
        Kafka,
        kafka(
            OFFSET_COMMIT, 7, {}, {"topics": [{"name": "t", "partitions": [{"partition_index": 0, "error_code": 27}]}]}
        ),
        (27, "REBALANCE_IN_PROGRESS", 1),
    ),
    (Kafka, kafka(ADD_PARTITIONS, 1, {}, partitions(51, 51)), (51, "CONCURRENT_TRANSACTIONS", 0)),
    (Kafka, kafka(ADD_PARTITIONS, 1, {}, partitions(51, 47)), (47, "INVALID_PRODUCER_EPOCH", 1)),
    (RocketMQ, rocketmq(11, remotingcraft.pull_fields(), 19), (19, "PULL_NOT_FOUND", 0)),
    (RocketMQ, rocketmq(11, remotingcraft.pull_fields(), 20), (20, "PULL_RETRY_IMMEDIATELY", 0)),
    (RocketMQ, rocketmq(11, remotingcraft.pull_fields(), 21), (21, "PULL_OFFSET_MOVED", 1)),
    (RocketMQ, rocketmq(200050, remotingcraft.pop_fields(), 210), (210, "POLLING_TIMEOUT", 0)),
    (RocketMQ, rocketmq(200050, remotingcraft.pop_fields(), 209), (209, "POLLING_FULL", 1)),
    (RocketMQ, rocketmq(200052, remotingcraft.pop_fields(), 19), (19, "PULL_NOT_FOUND", 0)),
    (RocketMQ, rocketmq(14, NAMED, 22), (22, "QUERY_NOT_FOUND", 0)),
    (RocketMQ, rocketmq(14, NAMED, 19), (19, "PULL_NOT_FOUND", 1)),
    (RocketMQ, rocketmq(12, {"topic": "t", "key": "k"}, 22), (22, "QUERY_NOT_FOUND", 0)),
    (RocketMQ, rocketmq(105, {"topic": "%RETRY%g"}, 17), (17, "TOPIC_NOT_EXIST", 0)),
    (RocketMQ, rocketmq(105, {"topic": "TBW102"}, 17), (17, "TOPIC_NOT_EXIST", 0)),
    (RocketMQ, rocketmq(105, {"topic": "orders"}, 17), (17, "TOPIC_NOT_EXIST", 1)),
    (RocketMQ, rocketmq(200051, remotingcraft.ack_fields(0, 1), 208), (208, "NO_MESSAGE", 1)),
    (Pulsar, pulsar("TopicNotFound"), (11, "TopicNotFound", 0)),
    (Pulsar, pulsar("MetadataError"), (1, "MetadataError", 1)),
]


@pytest.mark.parametrize(("dissector", "says", "expected"), CASES)
def test_an_answer_of_the_normal_course_keeps_its_code_and_name_and_counts_as_no_error(dissector, says, expected):
    told = Driver(dissector).run(chunks(says)).messages[1]
    assert (told.error_code, told.error_name, told.error_count) == expected
    assert told.failed is (expected[2] > 0)


@pytest.mark.parametrize(
    ("table", "names"),
    [
        (KAFKA, {api.name: specs.errors() for api in specs.apis().values()}),
        (ROCKETMQ, {request.name: tables().responses[""] for request in tables().every}),
        (PULSAR, {"GET_SCHEMA_RESPONSE": {number: name for name, number in numbers("ServerError").items()}}),
        (NSQ, {}),
    ],
)
def test_the_tables_name_answers_and_codes_as_the_protocol_does(table, names):
    for row in table.rows:
        assert names[row.name][row.code] == row.error
        assert row.why
    assert len({(row.name, row.code) for row in table.rows}) == len(table.rows)


def test_a_condition_is_held_against_the_request():
    table = OrdinaryAnswers(Ordinary("A", 1, "ONE", "because", "topic", ("%R%*", "T")))
    cases = {"%R%x": True, "%R%": True, "T": True, "Tx": False, "x%R%": False, b"T": False, None: False}
    assert {text: table.has("A", 1, {"topic": text}) for text in cases} == cases
    assert not table.has("A", 1, {})
    assert not table.has("A", 2, {"topic": "T"})
    assert table.described()[0]["when"] == "topic of the request is '%R%*' or 'T'"


@pytest.mark.parametrize(
    ("fields", "failed"),
    [
        ({}, False),
        ({"error_code": 0, "error_count": 0}, False),
        ({"error_code": 19, "error_count": 0}, False),
        ({"error_code": 19, "error_count": 1}, True),
        ({"error_code": None, "error_name": "E_BAD", "error_count": 1}, True),
        ({"error_code": 19}, True),
        ({"error_name": "E_BAD"}, True),
    ],
)
def test_a_message_has_failed_by_its_count_and_without_one_by_its_code_or_name(fields, failed):
    assert Message(frame(), "p", "n", "response", **fields).failed is failed


# ---- the whole way


@pytest.fixture
def joining(tmp_path):
    """A capture of a member that joins: it gets its id, joins with it, and is told to join again."""
    says = [
        *kafka(JOIN_GROUP, 5, {"group_id": "g", "member_id": ""}, {"error_code": 79, "member_id": "m-1"}),
        client(kafkacraft.request(JOIN_GROUP, 5, 2, {"group_id": "g", "member_id": "m-1"})),
        server(kafkacraft.response(JOIN_GROUP, 5, 2, {"generation_id": 1, "member_id": "m-1"})),
        client(kafkacraft.request(HEARTBEAT, 4, 3, {"group_id": "g"})),
        server(kafkacraft.response(HEARTBEAT, 4, 3, {"error_code": 27})),
    ]
    path = tmp_path / "joining.pcap"
    write_pcap(path, segments(says), ports=(50_000, 9092))
    return path


def run(*options: object):
    return CliRunner().invoke(main, ["decode", *map(str, options)])


def test_status_errors_fail_on_and_text_agree(joining):
    rows = [orjson.loads(line) for line in run("--table", "exchanges", joining).stdout.splitlines()]
    told = [(row["name"], row["status"], row["error_code"], row.get("error_name")) for row in rows]
    assert told == [
        ("JoinGroup", "ok", 79, "MEMBER_ID_REQUIRED"),
        ("JoinGroup", "ok", 0, None),
        ("Heartbeat", "ok", 27, "REBALANCE_IN_PROGRESS"),
    ]
    assert run("--errors", "--table", "messages", "--table", "exchanges", joining).stdout == ""
    assert run("--fail-on", "answer-error", joining).exit_code == 0
    text = run("-o", "text", joining).stdout
    assert "code=MEMBER_ID_REQUIRED" in text
    assert "code=REBALANCE_IN_PROGRESS" in text


@pytest.mark.parametrize("name", ["kafka", "pulsar", "rocketmq", "nsq"])
def test_the_protocol_lists_its_table(name):
    tables = {"kafka": KAFKA, "pulsar": PULSAR, "rocketmq": ROCKETMQ, "nsq": NSQ}
    done = CliRunner().invoke(main, ["protocols", name, "--json"])
    assert orjson.loads(done.stdout)["protocols"][0]["ordinary_answers"] == tables[name].described()
