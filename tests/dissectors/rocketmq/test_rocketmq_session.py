"""Conversations on one remoting connection: who asks whom, what is answered, settled, wrong."""

from __future__ import annotations

import json
import zlib
from dataclasses import replace

import pytest
from handmade import connection
from remotingcraft import (
    BORN,
    CONVERSATIONS,
    HEARTBEAT,
    ONEWAY,
    POP_TIME,
    RESPONSE,
    UNIQUE,
    ack_fields,
    answer,
    batch_message,
    binary_frame,
    frame,
    handle,
    json_frame,
    pop_fields,
    pop_result,
    properties,
    pull_fields,
    pull_result,
    registration,
    registration_fields,
    send_fields,
    stored,
)

from mqsniff.dissector import Settings
from mqsniff.limits import Limits
from mqsniff.model import CaptureInfo, ExchangeItem, Secret, Side
from mqsniff.pipeline import Pipeline
from mqsniff.sources.files import FileSource
from mqsniff.tables.rows import exchange_row
from mqsniff.testing.conversations import Say, chunks, client, segments, server, write_pcap
from mqsniff.testing.driver import Driver
from mqsniff_rocketmq import RocketMQ

MS = 1_000_000


def run(*says: Say, **limits: int) -> Driver:
    driver = Driver(RocketMQ, Limits(**limits)).run(chunks(says))
    assert [problem.detail for problem in driver.problems if problem.kind == "internal"] == []
    assert driver.skipped == []
    return driver


def problems(message) -> list[tuple[str, str]]:
    return [(problem.kind, problem.path) for problem in message.problems]


def settlements(driver: Driver) -> list[tuple]:
    """(name of what was settled, by what, status) in the order of asking."""
    return [
        (pending.message.name, pending.extra.get("settled_by"), pending.status)
        for message in driver.messages
        for pending in message.pending
        if pending.link == "settlement"
    ]


# ---- questions and answers


def test_answers_find_their_questions_in_any_order():
    driver = run(
        client(json_frame(105, 1, {"topic": "a"}), json_frame(105, 2, {"topic": "b"}), json_frame(106, 3)),
        server(answer(3, None, b"{}"), answer(1, None, b"{}"), answer(2, None, code=17)),
    )
    answers = driver.messages[3:]
    assert [(m.name, m.topics, m.correlation) for m in answers] == [
        ("GET_BROKER_CLUSTER_INFO", (), "3"),
        ("GET_ROUTEINFO_BY_TOPIC", ("a",), "1"),
        ("GET_ROUTEINFO_BY_TOPIC", ("b",), "2"),
    ]
    assert [(m.error_code, m.error_name, m.error_count) for m in answers] == [
        (0, None, 0),
        (0, None, 0),
        (17, "TOPIC_NOT_EXIST", 1),
    ]
    assert [pending.in_order for m in driver.messages for pending in m.pending] == [False] * 3


def test_both_sides_may_ask_with_one_opaque_at_once():
    driver = run(
        client(json_frame(14, 7, {"consumerGroup": "g", "topic": "t", "queueId": 0})),
        server(json_frame(307, 7, {"consumerGroup": "g", "clientId": "c", "jstackEnable": "false"})),
        client(answer(7, None, b'{"properties":{}}')),
        server(answer(7, {"offset": 12})),
    )
    assert [(m.frame.side, m.name, m.kind) for m in driver.messages] == [
        (Side.CLIENT, "QUERY_CONSUMER_OFFSET", "request"),
        (Side.SERVER, "GET_CONSUMER_RUNNING_INFO", "request"),
        (Side.CLIENT, "GET_CONSUMER_RUNNING_INFO", "response"),
        (Side.SERVER, "QUERY_CONSUMER_OFFSET", "response"),
    ]
    assert driver.messages[3].body["ext_fields"] == {"offset": 12}


def test_an_opaque_that_repeats_is_answered_in_the_order_of_asking():
    driver = run(
        client(json_frame(105, 1, {"topic": "a"}), json_frame(105, 1, {"topic": "b"})),
        server(answer(1), answer(1)),
    )
    assert [m.topics for m in driver.messages[2:]] == [("a",), ("b",)]


def test_a_oneway_request_ends_at_once():
    driver = run(client(json_frame(310, 1, send_fields(), b"x", flag=ONEWAY)))
    (message,) = driver.messages
    assert message.kind == "oneway"
    assert [(pending.status, pending.expects) for pending in message.resolved] == [("oneway", 0)]
    assert message.records[0].constant["ack"] == "none"


def test_an_answer_that_nobody_asked_for_is_called_a_response_and_its_messages_are_read():
    driver = run(server(answer(5, {"msgId": "A"}, code=1)), server(answer(6, None, stored(b"job", topic="jobs"))))
    first, second = driver.messages
    assert (first.name, first.kind, first.error_name, first.body["ext_fields"]) == (
        "RESPONSE",
        "response",
        "SYSTEM_ERROR",
        {"unknown_fields": {"msgId": "A"}},
    )
    assert (second.topics, second.records[0].constant["reader"]) == (("jobs",), "other")


def test_each_frame_chooses_its_serialisation():
    driver = run(
        client(json_frame(310, 1, send_fields(), b"x"), binary_frame(310, 2, send_fields(), b"x")),
        server(binary_frame(0, 1, {"msgId": "A", "queueId": 2, "queueOffset": 5}, flag=RESPONSE)),
        server(answer(2, {"msgId": "B", "queueId": 2, "queueOffset": 6})),
    )
    assert [m.body["serialize_type"] for m in driver.messages] == [0, 1, 1, 0]
    assert [m.body["ext_fields"]["queue_offset"] for m in driver.messages[2:]] == [5, 6]
    first, second = driver.messages[:2]
    assert first.body["ext_fields"] == second.body["ext_fields"]
    assert (first.topics, first.group, first.partitions) == (second.topics, second.group, second.partitions)


# ---- codes


def test_a_code_that_was_cut_to_16_bits_is_named_by_the_code_it_was_cut_from():
    driver = run(
        client(binary_frame(200052, 1, {"topic": "jobs", "queueId": 0, "maxMsgNums": 1, "consumerGroup": "g"})),
        server(binary_frame(3, 1, None, flag=RESPONSE, remark=" request type 3444 not supported")),
    )
    pending, told = driver.messages
    assert (pending.name, pending.body["code"], pending.topics, problems(pending)) == (
        "PEEK_MESSAGE",
        3444,
        ("jobs",),
        [("out_of_range", "code")],
    )
    assert (told.name, told.error_name) == ("PEEK_MESSAGE", "REQUEST_CODE_NOT_SUPPORTED")


def test_json_has_room_for_the_whole_code():
    driver = run(client(json_frame(3444, 1, {})))
    assert (driver.messages[0].name, problems(driver.messages[0])) == ("unknown(3444)", [("unknown_code", "code")])


def test_a_code_without_a_name_is_shown_by_its_number():
    driver = run(client(json_frame(7777, 1, {"x": "y"})), server(answer(1, {"z": "1"}, code=4321)))
    pending, told = driver.messages
    assert (pending.name, pending.body["ext_fields"]) == ("unknown(7777)", {"unknown_fields": {"x": "y"}})
    assert (told.name, told.error_code, told.error_name) == ("unknown(7777)", 4321, "unknown(4321)")
    assert problems(told) == [("unknown_code", "code")]


def test_a_request_without_a_code_is_kept():
    driver = run(client(frame(b'{"opaque":1,"flag":0}')))
    assert (driver.messages[0].name, problems(driver.messages[0])) == ("unknown", [("missing_field", "code")])


@pytest.mark.parametrize(
    ("code", "response", "name"),
    [
        (50, 209, "UPDATE_AND_CREATE_ACL_CONFIG_FAILED"),
        (200050, 209, "POLLING_FULL"),
        (51001, 404, "NOT_LEADER"),
        (39, 200, "TRANSACTION_SHOULD_COMMIT"),
    ],
)
def test_response_codes_are_read_by_the_code_of_the_request(code, response, name):
    driver = run(client(json_frame(code, 1, {})), server(answer(1, code=response)))
    assert (driver.messages[1].error_code, driver.messages[1].error_name) == (response, name)


@pytest.mark.parametrize(
    ("code", "body", "error", "name"),
    [
        (200, b'{"code":200}', 0, None),
        (200, b"", 0, None),
        (0, b'{"code":200}', 0, None),
        (200, b'{"code":407}', 407, "INCONSISTENT_TERM"),
        (200, b'{"code":-1}', -1, "UNKNOWN"),
        (501, b'{"code":200}', 501, "TERM_CHANGED"),
        (1, b"", 1, "SYSTEM_ERROR"),
    ],
)
def test_a_dledger_node_agrees_with_200_in_header_and_body(code, body, error, name):
    driver = run(client(json_frame(51002, 1, None, b"{}")), server(answer(1, None, body, code=code)))
    message = driver.messages[1]
    assert (message.error_code, message.error_name, message.error_count) == (error, name, int(error != 0))


def test_the_first_line_of_an_errors_remark_is_worth_a_note():
    pending = [json_frame(105, opaque, {"topic": "t"}) for opaque in (1, 2, 3)]
    remark = " No topic route info\n\tat java.lang.Thread"
    driver = run(
        client(*pending),
        server(answer(1, code=17, remark=remark), answer(2, code=1, remark="x" * 500), answer(3, remark="fine")),
    )
    assert [m.notes for m in driver.messages[3:]] == [
        (("remark", "No topic route info"),),
        (("remark", "x" * 120),),
        (),
    ]


def test_flag_bits_that_mean_nothing_are_noted():
    driver = run(client(json_frame(106, 1, flag=4)))
    assert (driver.messages[0].kind, problems(driver.messages[0])) == ("request", [("out_of_range", "flag")])


def test_older_peers_may_leave_a_whole_header_out():
    driver = run(
        client(json_frame(21, 1), json_frame(21, 2, {"maxTopicNum": 5}), json_frame(201, 3)),
        server(answer(1, None, b"{}")),
    )
    assert [problems(m) for m in driver.messages] == [[], [("missing_field", "ext_fields.topic_seq")], [], []]


def test_a_response_owes_its_fields_only_where_it_succeeds():
    pending = [json_frame(30, opaque, {"topic": "t", "queueId": 0}) for opaque in (1, 2)]
    driver = run(client(*pending), server(answer(1, code=1), answer(2)))
    assert [problems(m) for m in driver.messages[2:]] == [[], [("missing_field", "ext_fields.offset")]]


# ---- polls


def poll(code: int, ext: dict, response: bytes, waited_ms: int):
    """(question, answer) of a poll that was answered so late."""
    pending, told = chunks([client(json_frame(code, 1, ext)), server(response)])
    late = replace(told, marks=[mark._replace(ts_ns=pending.marks[0].ts_ns + waited_ms * MS) for mark in told.marks])
    driver = Driver(RocketMQ).run([pending, late])
    return driver.messages[0].pending[0], driver.messages[1]


FOUND = answer(1, pull_result(1), stored(b"x"))
LONG_AGO = 1_600_000_000_000
FOUND_OLD = answer(1, pull_result(1), stored(b"x").replace((BORN + 23).to_bytes(8), LONG_AGO.to_bytes(8)))
NOT_FOUND = answer(1, pull_result(0), code=19)
POLLS = [
    (11, pull_fields(), NOT_FOUND, 15000, True, 15000),
    (11, pull_fields(), NOT_FOUND, 3, False, 15000),
    (11, pull_fields(), FOUND, 3, False, 15000),
    (11, pull_fields(), FOUND, 100, True, 15000),
    (11, pull_fields(), FOUND, 900, True, 15000),
    (11, pull_fields(), FOUND_OLD, 900, False, 15000),
    (11, pull_fields(), answer(1, code=2), 900, False, 15000),
    (11, pull_fields(suspendTimeoutMillis=10), NOT_FOUND, 11, True, 10),
    (11, pull_fields(sysFlag=0), NOT_FOUND, 3, None, None),
    (361, pull_fields(suspendTimeoutMillis=-1), NOT_FOUND, 3, None, None),
    (200050, pop_fields(), answer(1, pop_result("", ""), code=210), 15000, True, 15000),
    (
        200054,
        {"consumerGroup": "g", "topic": "t", "queueId": 0, "pollTime": 5000, "bornTime": BORN},
        answer(1, {"hasMsg": "false"}),
        5000,
        True,
        5000,
    ),
    (11, pull_fields(suspendTimeoutMillis=1 << 50), NOT_FOUND, 3, None, None),
]


@pytest.mark.parametrize(("pending", "told"), [(case[:4], case[4:]) for case in POLLS])
def test_a_poll_says_how_long_it_may_be_held_and_whether_it_was(pending, told):
    held, limit = told
    question, _ = poll(*pending)
    assert (question.wait_limit_ns, question.held) == (None if limit is None else limit * MS, held)


# ---- records and partitions


def test_a_send_has_a_record_that_its_response_completes():
    driver = run(
        client(json_frame(310, 1, send_fields(queue=-1), b"hello")),
        server(answer(1, {"msgId": "0A01", "queueId": 2, "queueOffset": 7})),
    )
    (batch,) = driver.messages[0].records
    assert (batch.constant["partition"], batch.columns["offset"][0], batch.columns["message_id"][0]) == (2, 7, "0A01")
    assert batch.constant["direction"] == "produce"
    assert driver.messages[0].partitions == ()
    assert driver.messages[1].partitions == (
        {"topic": "orders", "partition": 2, "offset": 7, "error_code": 0, "error_name": None},
    )


def test_a_send_that_failed_stays_without_an_offset():
    driver = run(
        client(json_frame(310, 1, send_fields(), b"hello")),
        server(answer(1, {"msgId": "0A01", "queueId": 2, "queueOffset": 7}, code=13)),
    )
    (batch,) = driver.messages[0].records
    assert "offset" not in batch.columns
    assert driver.messages[1].partitions[0]["error_name"] == "MESSAGE_ILLEGAL"


@pytest.mark.parametrize("code", [10, 11, 12])
def test_a_message_that_is_stored_but_not_yet_safe_has_its_place(code):
    driver = run(
        client(json_frame(310, 1, send_fields(), b"hello")),
        server(answer(1, {"msgId": "0A01", "queueId": 2, "queueOffset": 7}, code=code)),
    )
    (batch,) = driver.messages[0].records
    assert (list(batch.columns["offset"]), batch.constant["ack"]) == ([7], "acked")
    assert (driver.messages[1].error_code, driver.messages[1].error_count) == (code, 1)


def test_a_pull_tells_its_queue_what_was_asked_and_what_was_found():
    driver = run(
        client(json_frame(11, 1, pull_fields(5))),
        server(answer(1, pull_result(7), stored(b"five", offset=5) + stored(b"six", offset=6))),
    )
    pending, told = driver.messages
    assert pending.partitions == ({"topic": "orders", "partition": 0, "offset": 5},)
    size = told.body["body"]["size"]
    assert told.partitions == (
        {
            "topic": "orders",
            "partition": 0,
            "offset": 5,
            "records": 2,
            "wire_bytes": size,
            "high_watermark": 7,
            "log_start_offset": 0,
            "error_code": 0,
            "error_name": None,
        },
    )
    assert told.records[0].constant["reader"] == "consumer"
    assert (told.group, told.topics) == ("shop_c", ("orders",))


def test_a_pop_tells_each_queue_that_it_took_from():
    body = b"".join(
        stored(b"x", topic="jobs", queue=queue, offset=offset) for queue, offset in ((1, 4), (0, 9), (1, 5))
    )
    driver = run(client(json_frame(200050, 1, pop_fields())), server(answer(1, pop_result("", ""), body)))
    assert [(row["partition"], row["offset"], row["records"]) for row in driver.messages[1].partitions] == [
        (1, 4, 2),
        (0, 9, 1),
    ]
    assert driver.messages[0].partitions == ()


@pytest.mark.parametrize(
    ("code", "reader"), [(11, "consumer"), (361, "consumer"), (12, "other"), (33, "other"), (200052, "other")]
)
def test_who_reads_is_told_by_the_request(code, reader):
    driver = run(client(json_frame(code, 1, {})), server(answer(1, {}, stored(b"x"))))
    assert driver.messages[1].records[0].constant["reader"] == reader


QUEUE = b'{"brokerName":"broker-a","queueId":%d,"topic":"orders"}'
QUEUE_TABLES = [
    (208, b'{"offsetTable":{%s:{"brokerOffset":9,"consumerOffset":7}}}', {"offset": 7, "high_watermark": 9}),
    (202, b'{"offsetTable":{%s:{"maxOffset":9,"minOffset":2}}}', {"high_watermark": 9, "log_start_offset": 2}),
    (222, b'{"offsetTable":{%s:5}}', {"offset": 5}),
    (307, b'{"mqTable":{%s:{"commitOffset":3,"locked":false}}}', {"offset": 3}),
    (41, b'{"lockOKMQSet":[%s]}', {}),
    (400, b'{"messageQueueAssignments":[{"messageQueue":%s}]}', {}),
]


@pytest.mark.parametrize(("code", "body", "told"), QUEUE_TABLES)
def test_queues_that_a_body_names_are_rows_of_partitions(code, body, told):
    bodies = [body % (QUEUE % queue) for queue in (3, -1)]
    driver = run(
        client(*(json_frame(code, opaque, {"topic": "t", "group": "g"}) for opaque in (1, 2))),
        server(answer(1, None, bodies[0]), answer(2, None, bodies[1])),
    )
    named, unnamed = driver.messages[2:]
    error = {"error_code": 0, "error_name": None}
    assert named.partitions == ({"topic": "orders", "partition": 3, **told, **error},)
    assert unnamed.partitions == ()


def test_a_queue_that_a_request_locks_is_a_row_of_partitions():
    driver = run(client(json_frame(41, 1, None, b'{"consumerGroup":"g","mqSet":[%s,%s]}' % (QUEUE % 0, QUEUE % 1))))
    assert driver.messages[0].partitions == (
        {"topic": "orders", "partition": 0},
        {"topic": "orders", "partition": 1},
    )


def test_a_message_that_the_broker_pushes_is_a_record():
    ext = {
        "producerGroup": "g",
        "topic": "r",
        "defaultTopic": "d",
        "defaultTopicQueueNums": 4,
        "queueId": 0,
        "sysFlag": 0,
    }
    ext |= {"bornTimestamp": BORN, "flag": 0, "properties": properties(CORRELATION_ID="c1"), "bornHost": "/10.1.2.3:5"}
    ext |= {"storeHost": "/10.1.2.4:10911", "storeTimestamp": BORN + 3}
    driver = run(server(json_frame(326, 1, ext, b"the reply")), client(answer(1)))
    (batch,) = driver.messages[0].records
    assert (batch.constant["direction"], batch.constant["reader"], batch.data) == ("deliver", "other", b"the reply")
    assert problems(driver.messages[0]) == []


@pytest.mark.parametrize(
    ("code", "ext", "name", "value"),
    [
        (30, {"offset": 9}, "high_watermark", 9),
        (31, {"offset": 2}, "log_start_offset", 2),
        (29, {"offset": 4}, "offset", 4),
        (14, {"offset": 3}, "offset", 3),
    ],
)
def test_what_a_broker_tells_of_a_queue_is_a_row_of_partitions(code, ext, name, value):
    pending = {"topic": "t", "queueId": 3, "timestamp": BORN, "consumerGroup": "g"}
    driver = run(client(json_frame(code, 1, pending)), server(answer(1, ext)))
    (row,) = driver.messages[1].partitions
    assert (row["topic"], row["partition"], row[name]) == ("t", 3, value)


# ---- settlements


def test_acks_settle_the_messages_of_a_pop():
    driver = run(*CONVERSATIONS["pop"])
    assert settlements(driver) == [
        ("POP_MESSAGE", "ACK_MESSAGE", None),
        ("POP_MESSAGE", "BATCH_ACK_MESSAGE", None),
        ("POP_MESSAGE", "CHANGE_MESSAGE_INVISIBLETIME", None),
    ]
    popped = driver.messages[1]
    waits = [pending for pending in popped.pending if pending.link == "settlement"]
    assert [pending.extra["attempts"] for pending in waits] == [1, 1, 2]
    assert [pending.extra["in_flight"] for pending in waits] == [1, 2, 3]
    assert [pending.answer.name for pending in waits] == [
        "ACK_MESSAGE",
        "BATCH_ACK_MESSAGE",
        "CHANGE_MESSAGE_INVISIBLETIME",
    ]
    assert {pending.wait_limit_ns for pending in waits} == {20_000 * MS}


def ended(path, *says: Say) -> list[tuple]:
    """(name, settled by, status, error) of every settlement, as the table exchanges has them."""
    write_pcap(path, segments(says), ports=(50_000, 10_911))
    settings = Settings()
    items = Pipeline(FileSource([str(path)], settings.limits), settings).items()
    captures = [CaptureInfo(0, "x.pcap")]
    settled = [item.exchange for item in items if isinstance(item, ExchangeItem)]
    rows = [exchange_row(connection(), exchange, captures) for exchange in settled]
    return [
        (row["name"], row["settled_by"], row["status"], row["error_name"])
        for row in rows
        if row["link"] == "settlement"
    ]


def test_a_settlement_that_the_broker_refuses_is_an_error(tmp_path):
    says = list(CONVERSATIONS["pop"])
    says[3] = server(answer(2, code=208, remark="offset is illegal"))
    says[5] = server(answer(3, code=1, remark="broken"))
    assert ended(tmp_path / "x.pcap", *says) == [
        ("POP_MESSAGE", "ACK_MESSAGE", "error", "NO_MESSAGE"),
        ("POP_MESSAGE", "BATCH_ACK_MESSAGE", "error", "SYSTEM_ERROR"),
        ("POP_MESSAGE", "CHANGE_MESSAGE_INVISIBLETIME", "ok", None),
    ]


def test_a_settlement_whose_command_was_never_answered_is_none(tmp_path):
    says = [say for at, say in enumerate(CONVERSATIONS["pop"]) if at in {0, 1, 2}]
    assert ended(tmp_path / "x.pcap", *says) == [
        ("POP_MESSAGE", None, "unanswered", None),
        ("POP_MESSAGE", None, "unanswered", None),
        ("POP_MESSAGE", "ACK_MESSAGE", "unanswered", None),
    ]


def test_the_end_of_a_transaction_may_be_refused_or_one_way(tmp_path):
    half = send_fields(f=4, i=properties(TRAN_MSG="true", UNIQ_KEY=UNIQUE))
    begin = [client(json_frame(310, 1, half, b"x")), server(answer(1, {"msgId": "0A", "queueId": 0, "queueOffset": 1}))]
    fields = {"msgId": UNIQUE, "commitOrRollback": 8}
    refused = [client(json_frame(37, 2, fields)), server(answer(2, code=1))]
    assert ended(tmp_path / "x.pcap", *begin, *refused) == [("SEND_MESSAGE_V2", "COMMIT", "error", "SYSTEM_ERROR")]
    oneway = [client(json_frame(37, 2, fields, flag=ONEWAY))]
    assert ended(tmp_path / "y.pcap", *begin, *oneway) == [("SEND_MESSAGE_V2", "COMMIT", "ok", None)]


def test_an_ack_that_comes_behind_the_invisible_time_says_so():
    events = chunks(CONVERSATIONS["pop"][:4])
    late = [
        replace(event, marks=[mark._replace(ts_ns=mark.ts_ns + (21_000 * MS if at > 1 else 0)) for mark in event.marks])
        for at, event in enumerate(events)
    ]
    for said, expected in ((events, False), (late, True)):
        popped = Driver(RocketMQ).run(said).messages[1]
        told = [pending.extra.get("timed_out") for pending in popped.pending if pending.link == "settlement"]
        assert told == [expected, None, None]


def test_an_ack_under_another_handle_settles_nothing():
    pop = CONVERSATIONS["pop"][:2]
    wrong = [
        ack_fields(1, 6),
        ack_fields(2, 4),
        ack_fields(1, 4, consumerGroup="other"),
        ack_fields(1, 4, extraInfo=handle(1, 4, retry=2)),
        ack_fields(1, 4, extraInfo="no handle"),
    ]
    driver = run(*pop, client(*(json_frame(200051, 10 + at, ext) for at, ext in enumerate(wrong))))
    assert [by for _, by, _ in settlements(driver)] == [None] * 3
    assert problems(driver.messages[-1]) == [("format", "ext_fields.extra_info")]


def test_a_message_whose_invisible_time_is_over_is_given_up():
    events = chunks([*CONVERSATIONS["pop"][:2], *CONVERSATIONS["pop"][8:]])
    late = [
        replace(event, marks=[mark._replace(ts_ns=mark.ts_ns + (31_000 * MS if at > 1 else 0)) for mark in event.marks])
        for at, event in enumerate(events)
    ]
    last = chunks([*CONVERSATIONS["pop"][:2], server(answer(5, pop_result("", ""), stored(b"x", topic="jobs")))])[-1]
    again = replace(
        last,
        offset=late[1].offset + len(late[1].data),
        marks=[
            mark._replace(ts_ns=late[-1].marks[0].ts_ns, offset=late[1].offset + len(late[1].data))
            for mark in last.marks
        ],
    )
    driver = Driver(RocketMQ).run([*late[:3], again])
    assert [status for _, _, status in settlements(driver)] == ["unanswered"] * 3 + [None]
    assert [
        pending.extra.get("timed_out") for pending in driver.messages[1].pending if pending.link == "settlement"
    ] == [True] * 3


def test_a_lite_message_is_named_by_its_lite_topic_and_the_offset_in_it():
    lite = properties(__LITE_TOPIC="s-1", INNER_MULTI_QUEUE_OFFSET="0")
    other = properties(__LITE_TOPIC="s-2", INNER_MULTI_QUEUE_OFFSET="0")
    fields = {"clientId": "c", "consumerGroup": "crew", "topic": "jobs", "maxMsgNum": 8, "invisibleTime": 20000}
    fields |= {"pollTime": 1000, "bornTime": BORN}
    told = {"popTime": POP_TIME, "invisibleTime": 20000, "reviveQid": 999, "orderCountInfo": "0;0"}
    driver = run(
        client(json_frame(200070, 1, fields)),
        server(
            answer(1, told, stored(b"a", lite, topic="jobs", offset=7) + stored(b"b", other, topic="jobs", offset=8))
        ),
        client(json_frame(200051, 2, ack_fields(0, 0, liteTopic="s-2"))),
    )
    assert [by for _, by, _ in settlements(driver)] == [None, "ACK_MESSAGE"]


@pytest.mark.parametrize(
    "entry",
    [
        {},
        {"b": "/w==", "so": "0"},
        {"b": "???", "so": 0},
        {"b": 7, "so": 0, "r": "x"},
        {"b": "A" * 400_000, "so": 0, "r": "0"},
    ],
)
def test_an_odd_batch_ack_settles_nothing_and_costs_nothing(entry):
    body = json.dumps({"acks": [{"c": "crew", "t": "jobs", "q": 1, "pt": POP_TIME} | entry, 7]}).encode()
    driver = run(*CONVERSATIONS["pop"][:2], client(json_frame(200151, 9, None, body)))
    assert [by for _, by, _ in settlements(driver)] == [None] * 3


def test_waits_for_acks_are_bounded():
    rounds = []
    for number in range(6):
        body = b"".join(stored(b"x", topic="jobs", queue=number, offset=offset) for offset in range(4))
        rounds += [client(json_frame(200050, number, pop_fields())), server(answer(number, pop_result("", ""), body))]
    driver = run(*rounds, pending_max=8)
    given_up = [status for _, _, status in settlements(driver)]
    assert given_up.count("unanswered") >= 24 - 8 - 4


def test_a_transaction_ends_by_its_producer_or_by_the_answer_to_a_check():
    driver = run(*CONVERSATIONS["transaction"])
    assert settlements(driver) == [
        ("SEND_MESSAGE_V2", "COMMIT", None),
        ("SEND_MESSAGE_V2", "ROLLBACK", None),
        ("CHECK_TRANSACTION_STATE", "ROLLBACK", None),
    ]
    assert driver.messages[5].records[0].constant["reader"] == "other"


def test_an_end_that_does_not_know_settles_the_check_alone():
    says = list(CONVERSATIONS["transaction"])
    says[-1] = client(says[-1].data.replace(b'"commitOrRollback":"12"', b'"commitOrRollback":"00"'))
    assert settlements(run(*says)) == [
        ("SEND_MESSAGE_V2", "COMMIT", None),
        ("SEND_MESSAGE_V2", None, None),
        ("CHECK_TRANSACTION_STATE", "UNKNOWN", None),
    ]


def test_a_half_message_that_the_broker_refuses_ends_with_it():
    half = send_fields(f=4, i=properties(TRAN_MSG="true", UNIQ_KEY=UNIQUE))
    driver = run(client(json_frame(310, 1, half, b"x")), server(answer(1, code=1)))
    assert settlements(driver) == [("SEND_MESSAGE_V2", None, "error")]


def test_a_message_that_is_no_half_waits_for_no_end():
    driver = run(client(json_frame(310, 1, send_fields(), b"x"), json_frame(310, 2, send_fields(i=""), b"x")))
    assert settlements(driver) == []


# ---- who is who


def test_a_connection_learns_who_is_at_its_ends():
    driver = run(
        client(json_frame(34, 1, {"AccessKey": "me", "Signature": "c2ln"}, HEARTBEAT)),
        server(answer(1, language="CPP", version=399)),
    )
    identity = driver.dissector.identity
    assert (identity.client_software, identity.server_software) == ("RocketMQ JAVA 5.5.0", "RocketMQ CPP 4.9.3")
    assert (identity.client_id, identity.user, identity.mechanism) == ("10.1.2.3@77", "me", "ACL")
    assert driver.messages[0].body["ext_fields"]["signature"] == Secret(b"c2ln")


def test_a_binary_header_names_its_writer_too():
    driver = run(client(binary_frame(106, 1, language=9)))
    assert driver.dissector.identity.client_software == "RocketMQ GO 5.5.0"


def test_a_server_that_shuts_down_says_why_the_connection_closes():
    driver = run(client(json_frame(106, 1)), server(answer(1, code=1500)))
    assert driver.dissector.identity.close_reason == "go away"
    assert driver.messages[1].error_name == "GO_AWAY"


def test_who_a_message_is_of_stands_beside_it():
    driver = run(
        client(json_frame(35, 1, {"clientID": "c1", "consumerGroup": "g1"}), json_frame(34, 2, None, HEARTBEAT))
    )
    assert [(m.client_id, m.group, m.topics) for m in driver.messages] == [
        ("c1", "g1", ()),
        ("10.1.2.3@77", "shop_c", ("orders",)),
    ]


# ---- checksums, cuts


def test_the_checksum_of_a_registration_is_held_against_its_body():
    body = registration("orders")
    good = json_frame(103, 1, registration_fields(body), body)
    wrong = json_frame(103, 2, registration_fields(body) | {"bodyCrc32": 1}, body)
    none = json_frame(103, 3, registration_fields(body) | {"bodyCrc32": 0}, body)
    driver = run(client(good, wrong, none))
    assert [problems(m) for m in driver.messages] == [[], [("checksum", "ext_fields.body_crc32")], []]


def cut(data: bytes, side: Side, at: int, response: bytes = b""):
    """The message of a frame of which only the first bytes were captured, and what follows."""
    say = client if side is Side.CLIENT else server
    says = [say(data), *([server(response)] if response else [])]
    holes: tuple[list, list] = ([], [])
    holes[side].append((at, len(data)))
    return Driver(RocketMQ).run(chunks(says, holes=holes))


def test_of_a_frame_that_was_cut_in_its_body_the_header_pairs():
    data = json_frame(310, 1, send_fields(), b"hello" * 20)
    driver = cut(data, Side.CLIENT, len(data) - 90, answer(1, {"msgId": "A", "queueId": 2, "queueOffset": 5}))
    pending, told = driver.messages
    assert (pending.name, told.name) == ("SEND_MESSAGE_V2", "SEND_MESSAGE_V2")
    assert problems(pending) == [("truncated", "")]
    batch = pending.records[0]
    assert (batch.constant["value_size"], batch.data[:10], batch.columns["offset"][0]) == (100, b"hellohello", 5)


def test_of_a_frame_that_was_cut_in_its_header_the_code_names_it():
    data = json_frame(310, 1, send_fields(), b"hello")
    driver = cut(data, Side.CLIENT, 60)
    (message,) = driver.messages
    assert (message.name, message.kind, message.correlation) == ("SEND_MESSAGE_V2", "request", None)
    assert message.body["ext_fields"]["producer_group"] == "shop_p"
    assert problems(message) == [("truncated", "")]


def test_a_header_cut_before_its_flag_is_a_responses_on_the_side_of_the_server():
    data = answer(1, {"msgId": "0A01020400002A9F0000000000001000", "queueId": 2})
    driver = cut(data, Side.SERVER, 70)
    assert [(m.name, m.kind) for m in driver.messages] == [("RESPONSE", "response")]
    pushed = json_frame(40, 1, {"consumerGroup": "shop_c"}, flag=ONEWAY)
    driver = cut(pushed, Side.SERVER, 60)
    assert [(m.name, m.kind) for m in driver.messages] == [("NOTIFY_CONSUMER_IDS_CHANGED", "request")]


def test_a_body_that_is_no_message_data_is_not_guessed_when_it_was_cut():
    data = json_frame(34, 1, None, HEARTBEAT)
    driver = cut(data, Side.CLIENT, len(data) - 10)
    assert driver.messages[0].body["body"] == {"size": len(HEARTBEAT)}


def test_of_a_batch_that_was_cut_the_whole_messages_are_records():
    body = batch_message(b"one") + batch_message(b"two")
    data = json_frame(320, 1, send_fields(m="true"), body)
    driver = cut(data, Side.CLIENT, len(data) - 1)
    assert [batch.count for batch in driver.messages[0].records] == [1]


def test_a_frame_whose_header_is_no_header_is_passed_over_and_the_next_one_is_read():
    bad = frame(b"[1,2,3]", b"body")
    driver = Driver(RocketMQ).run(chunks([client(json_frame(106, 1), bad, json_frame(106, 2))]))
    assert [m.correlation for m in driver.messages] == ["1", "2"]
    assert [skipped.length for skipped in driver.skipped] == [len(bad)]
    assert [problem.kind for problem in driver.problems] == ["malformed"]


def test_a_compressed_body_is_opened_for_records_only():
    data = json_frame(310, 1, send_fields(f=1), zlib.compress(b"hello " * 100))
    driver = run(client(data))
    start, stop = (column[0] for column in driver.messages[0].records[0].values)
    assert driver.messages[0].records[0].data[start:stop] == b"hello " * 100
    assert driver.messages[0].body["body"] == {"size": len(zlib.compress(b"hello " * 100)), "codec": "zlib"}


def test_the_problems_of_one_message_are_bounded_and_what_is_left_out_is_told():
    driver = run(client(json_frame(310, 1, dict.fromkeys("cdefghj", "x"))), message_problems_max=3)
    (message,) = driver.messages
    assert [problem.kind for problem in message.problems] == ["format", "format", "limit"]


def test_of_two_requests_with_one_opaque_the_first_is_answered_first():
    asked = [json_frame(34, 7, body=b"{}"), json_frame(34, 7, body=b"{}")]
    messages = Driver(RocketMQ).run(chunks([client(*asked), server(answer(7), answer(7))])).messages
    assert [[pending.message for pending in message.resolved] for message in messages] == [
        [],
        [],
        [messages[0]],
        [messages[1]],
    ]
