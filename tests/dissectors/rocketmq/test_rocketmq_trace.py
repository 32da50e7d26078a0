"""Message traces, which clients write to a topic of their own."""

from __future__ import annotations

import pytest

from mqsniff_rocketmq import RocketMQ

TOPIC = "RMQ_SYS_TRACE_TOPIC"


def record(*words: object) -> bytes:
    return "\x01".join(map(str, words)).encode() + b"\x02"


def test_what_was_sent_and_consumed_is_told_record_by_record():
    value = record(
        "Pub", 1795255473376, "r", "g", "t", "ID", "A", "k", "10.1.2.4:10911", 5, 3, 0, "OFF", "true", "10.1.2.3"
    )
    value += record("SubBefore", 1795255473376, "r", "g", "q1", "ID", 1, "k", "c")
    value += record("SubAfter", "q1", "ID", 12, "false", "k", 0)
    assert RocketMQ.decode_record(TOPIC, None, value) == [
        {
            "kind": "Pub",
            "time": 1795255473376,
            "region": "r",
            "group": "g",
            "topic": "t",
            "message_id": "ID",
            "tags": "A",
            "keys": "k",
            "store_host": "10.1.2.4:10911",
            "body_length": 5,
            "cost_ms": 3,
            "message_type": 0,
            "offset_message_id": "OFF",
            "success": True,
            "client_host": "10.1.2.3",
        },
        {
            "kind": "SubBefore",
            "time": 1795255473376,
            "region": "r",
            "group": "g",
            "request_id": "q1",
            "message_id": "ID",
            "retry_times": 1,
            "keys": "k",
            "client_host": "c",
        },
        {
            "kind": "SubAfter",
            "request_id": "q1",
            "message_id": "ID",
            "cost_ms": 12,
            "success": False,
            "keys": "k",
            "context_code": 0,
        },
    ]


def test_fields_that_newer_clients_add_are_kept():
    value = record("Recall", 1, "r", "g", "t", "ID", "true", "more", "and more")
    assert RocketMQ.decode_record(TOPIC, None, value)[0]["unknown_fields"] == ["more", "and more"]


@pytest.mark.parametrize("value", [b"", b"\xff\xfe", record("Else", 1), b"Pub", None])
def test_what_is_no_trace_is_none(value):
    decoded = RocketMQ.decode_record(TOPIC, None, value)
    assert decoded is None or decoded == [{"kind": "Pub"}]


def test_other_topics_have_no_format():
    assert RocketMQ.decode_record("orders", None, record("Recall", 1)) is None
