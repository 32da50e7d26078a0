"""Rows as lines of JSON."""

from __future__ import annotations

import io
import json

import pytest
from handmade import START, answer_to, batch, captures, connection, noticed, pub

from mqsniff.model import ClosedItem, MessageItem, OpenedItem, RecordItem, Secret, TopicItem
from mqsniff.sinks.ndjson import FEW, NdjsonSink
from mqsniff.tables.schemas import STREAM_TABLES, TABLES
from mqsniff.tables.values import Redaction


def lines(*items, tables=TABLES, **options):
    stream = io.BytesIO()
    sink = NdjsonSink(stream, captures(), tables, Redaction(**options))
    for item in items:
        sink.write(item)
    sink.tick()
    return stream.getvalue().decode().splitlines()


def test_a_message_is_this_line():
    item = MessageItem(connection(), pub(body={"topic": "retry", "body": {"size": 40}, "token": Secret(b"hush")}))
    assert lines(item) == [
        (
            '{"table":"messages","connection_id":"c1","side":"client","stream_offset":4,"client":"127.0.0.1:57938",'
            '"server":"127.0.0.1:4150","capture":"a.pcap","first_packet":7,"last_capture":"b.pcap","last_packet":8,'
            '"ts":"2026-11-21T09:38:50.702681250Z","ts_ns":1795253930702681250,"last_ts":"2026-11-21T09:38:50.702682250Z",'
            '"size":50,"protocol":"nsq","name":"PUB","kind":"request","topics":["retry"],'
            '"body":{"topic":"retry","body":{"size":40},"token":{"redacted":4}},"problems":0}'
        )
    ]


def test_table_comes_first_and_null_columns_are_left_out():
    question = pub()
    answer, _ = answer_to(question)
    everything = [
        MessageItem(connection(), answer),
        noticed(),
        TopicItem("kafka", "id", "name", START),
        ClosedItem(connection()),
    ]
    for line in lines(*everything):
        row = json.loads(line)
        assert next(iter(row)) == "table"
        assert None not in row.values()


def test_null_and_empty_stay_different_inside_a_body():
    (line,) = lines(MessageItem(connection(), pub(body={"null": None, "empty": "", "list": []})))
    assert json.loads(line)["body"] == {"null": None, "empty": "", "list": []}


def test_records_are_text_with_an_encoding():
    item = RecordItem(connection(), pub(), batch((b"key\xc3\xa9", b"\x00\xff"), (None, b"long value")))
    first, second = map(json.loads, lines(item, max_bytes=4))
    assert (first["key"], first["key_encoding"]) == ("key", "cut")
    assert (first["value"], first["value_encoding"], first["value_size"]) == ("AP8=", "base64", 2)
    assert (second["value"], second["value_encoding"], second["value_size"]) == ("long", "cut", 10)
    assert "key" not in second
    redacted = json.loads(lines(item, payload=False)[0])
    assert (redacted["value_encoding"], "value" in redacted, "key" in redacted) == ("redacted", False, False)


@pytest.mark.parametrize("count", [FEW, FEW + 1])
def test_records_of_a_small_and_of_a_large_batch_are_alike(count):
    records = [(b"k%d" % number, b"\x00" * number) for number in range(count)]
    shown = [json.loads(line) for line in lines(RecordItem(connection(), pub(), batch(*records, topic="retry")))]
    assert [(row["key"], row["value_size"], row["record_index"]) for row in shown] == [
        (f"k{number}", number, number) for number in range(count)
    ]
    assert {row["topic"] for row in shown} == {"retry"}
    assert len({tuple(row) for row in shown}) == 1
    assert lines(RecordItem(connection(), pub(), batch(*records)), tables=["messages"]) == []


def test_a_time_that_has_no_name_is_left_out():
    made = batch((None, b"v"), record_ts=1 << 80, deliver_at_ts=0)
    row = json.loads(lines(RecordItem(connection(), pub(), made))[0])
    assert "record_ts" not in row
    assert row["deliver_at_ts"] == "1970-01-01T00:00:00.000000000Z"


def test_text_columns_stay_text_whatever_the_traffic_wrote():
    (line,) = lines(MessageItem(connection(), pub(topics=("\udc80", "fine"), group="\udc80", body={"topic": "\udc80"})))
    row = json.loads(line)
    assert (row["topics"], row["group"]) == (["\\udc80", "fine"], "\\udc80")
    assert row["body"] == {"topic": {"base64": "7bKA"}}


def test_only_chosen_tables_come_out():
    items = [OpenedItem(connection(), START), MessageItem(connection(), pub()), noticed(), ClosedItem(connection())]
    made = [json.loads(line)["table"] for line in lines(*items, tables=STREAM_TABLES)]
    assert made == ["messages", "problems", "connections"]
    assert [json.loads(line)["table"] for line in lines(*items, tables=["problems"])] == ["problems"]


def test_a_tick_shows_what_was_written():
    shown = io.BytesIO()
    sink = NdjsonSink(io.BufferedWriter(shown, 1 << 20), captures(), TABLES, Redaction())
    sink.write(ClosedItem(connection()))
    assert shown.getvalue() == b""
    sink.tick()
    assert shown.getvalue().endswith(b"}\n")
