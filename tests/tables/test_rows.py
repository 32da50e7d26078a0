"""Items to rows: every column in its place, keys that join, and payload that stays where it should."""

from __future__ import annotations

import hmac

import numpy as np
import pytest
from handmade import MILLISECOND, START, answer_to, batch, captures, connection, frame, noticed, pub

from mqsniff.model import (
    ClosedItem,
    Exchange,
    ExchangeItem,
    Message,
    MessageItem,
    OpenedItem,
    Pending,
    RecordItem,
    Side,
    TopicItem,
    packet_id,
)
from mqsniff.tables.hashkey import HashKey
from mqsniff.tables.rows import rows_of
from mqsniff.tables.schemas import TABLES, names_of
from mqsniff.tables.values import Redaction


def rows(item, wanted=TABLES, **options):
    return list(rows_of(item, captures(), wanted, Redaction(**options)))


KEY = b"a key of a test, long enough"


def only(item, **options):
    ((_, row),) = rows(item, **options)
    return row


def filled(row):
    return {name: value for name, value in row.items() if value is not None}


def exchanged(pending, answer, status="ok", **times):
    return ExchangeItem(connection(), Exchange(pending, answer, status, **times))


QUESTION = pub(partitions=({"topic": "retry", "partition": 3},))
ANSWER, ASKED = answer_to(QUESTION)
ONE_OF_EACH = [
    (MessageItem(connection(), QUESTION), ["messages", "partitions"]),
    (exchanged(ASKED, ANSWER), ["exchanges"]),
    (RecordItem(connection(), QUESTION, batch((b"k", b"v"), (None, b"w"))), ["records", "records"]),
    (noticed(), ["problems"]),
    (noticed(connection=None, ts_ns=None, packet=None), ["problems"]),
    (TopicItem("kafka", "AAAAAAAAAAAAAAAAAAAAAQ", "orders", START), ["topics"]),
    (ClosedItem(connection()), ["connections"]),
    (OpenedItem(connection(), START), []),
]


@pytest.mark.parametrize(("item", "tables"), ONE_OF_EACH)
def test_a_row_has_every_column_of_its_table_in_order(item, tables):
    made = rows(item)
    assert [table for table, _ in made] == tables
    for table, row in made:
        assert tuple(row) == names_of(table)


@pytest.mark.parametrize("item", [item for item, _ in ONE_OF_EACH])
def test_columns_that_are_never_null_are_not(item):
    for table, row in rows(item):
        assert [c.name for c in TABLES[table] if not c.nullable and row[c.name] is None] == []


@pytest.mark.parametrize("wanted", TABLES)
def test_only_wanted_tables_are_made(wanted):
    made = [table for item, _ in ONE_OF_EACH for table, _ in rows(item, {wanted})]
    assert set(made) == {wanted}


def test_a_message_is_placed_by_packets_of_both_captures():
    row = only(MessageItem(connection(), pub(version=3, error_code=0, error_count=0)))
    assert filled(row) == {
        "connection_id": "c1",
        "side": "client",
        "stream_offset": 4,
        "client": "127.0.0.1:57938",
        "server": "127.0.0.1:4150",
        "capture": "a.pcap",
        "first_packet": 7,
        "last_capture": "b.pcap",
        "last_packet": 8,
        "ts": START,
        "ts_ns": START,
        "last_ts": START + 1000,
        "size": 50,
        "protocol": "nsq",
        "name": "PUB",
        "version": 3,
        "kind": "request",
        "topics": ("retry",),
        "error_code": 0,
        "error_count": 0,
        "body": {"topic": "retry", "body": {"size": 40}},
        "problems": 0,
    }


def test_a_message_has_the_client_of_its_connection_but_no_group_that_it_does_not_name():
    info = connection()
    info.identity.client_id, info.identity.group = "old", "channel"
    row = only(MessageItem(info, pub(client_id="new")))
    assert (row["client_id"], row["group"]) == ("new", None)
    row = only(MessageItem(info, pub(group="own")))
    assert (row["client_id"], row["group"]) == ("old", "own")
    row = only(noticed(connection=info))
    assert (row["client_id"], row["group"]) == ("old", "channel")


def test_an_exchange_has_the_key_of_its_question_and_both_places():
    ASKED.wait_limit_ns, ASKED.extra = 5, {"attempts": 2, "not a column": 1}
    row = only(exchanged(ASKED, ANSWER, latency_ns=78_000, total_ns=80_000, queue_ns=0))
    assert filled(row) == {
        "connection_id": "c1",
        "side": "client",
        "stream_offset": 4,
        "client": "127.0.0.1:57938",
        "server": "127.0.0.1:4150",
        "link": "answer",
        "protocol": "nsq",
        "name": "PUB",
        "request_ts": START,
        "response_ts": START + 79_000,
        "request_capture": "a.pcap",
        "request_packet": 7,
        "request_size": 50,
        "request_stream_offset": 4,
        "response_capture": "a.pcap",
        "response_packet": 9,
        "response_size": 10,
        "response_stream_offset": 0,
        "latency_ns": 78_000,
        "total_ns": 80_000,
        "queue_ns": 0,
        "wait_limit_ns": 5,
        "status": "ok",
        "error_code": 0,
        "topics": ("retry",),
        "response_name": "RESPONSE",
        "attempts": 2,
    }


def test_half_an_exchange_leaves_the_other_half_null():
    unanswered = only(exchanged(Pending("pub", "answer", frame(), message=pub()), None, "unanswered"))
    assert (unanswered["side"], unanswered["name"], unanswered["response_ts"]) == ("client", "PUB", None)
    unasked = only(exchanged(None, ANSWER, "unasked"))
    assert (unasked["side"], unasked["stream_offset"]) == ("server", 0)
    assert (unasked["name"], unasked["response_name"], unasked["request_packet"]) == (None, "RESPONSE", None)
    undecoded = only(exchanged(Pending("pub", "answer", frame()), None, "pending"))
    assert (undecoded["protocol"], undecoded["name"], undecoded["topics"]) == ("nsq", None, None)


def test_topics_of_an_exchange_are_those_of_both_halves_once():
    question = pub(topics=("a", "b"))
    answer, pending = answer_to(question, topics=("b", "c"))
    assert only(exchanged(pending, answer))["topics"] == ("a", "b", "c")


def test_the_error_of_an_exchange_is_that_of_whichever_answer_has_one():
    failed = Message(frame(Side.SERVER, 10), "nsq", "ERROR", "response", error_name="E_IDENTIFY_FAILED", error_count=1)
    answer, pending = answer_to(pub())
    pending.last_answer = failed
    assert only(exchanged(pending, answer, "error"))["error_name"] == "E_IDENTIFY_FAILED"


def test_a_settlement_has_the_error_of_the_refusal():
    refusal = Message(frame(Side.SERVER, 10), "nsq", "ERROR", "response", error_name="E_FIN_FAILED", error_count=1)
    fin = Message(frame(offset=9), "nsq", "FIN", "oneway")
    command = Pending("reply", "answer", fin.frame, message=fin, answer=refusal, last_answer=refusal)
    delivery = Pending("m", "settlement", frame(Side.SERVER), message=pub(), awaits=command, extra={"timed_out": True})
    delivery.answer = delivery.last_answer = fin
    row = only(exchanged(delivery, fin, "error"))
    assert (row["error_name"], row["timed_out"], row["response_name"]) == ("E_FIN_FAILED", True, "FIN")
    command.answer = None
    assert only(exchanged(delivery, fin))["error_name"] is None


def test_records_take_constants_columns_and_slices():
    made = batch((b"k", b"v1"), (None, None), topic="retry", direction="deliver", no_column=1)
    made.columns = {"offset": np.array([10, 11]), "message_id": ["m1", "m2"], "no_column": [1, 2]}
    made.headers = [[("trace", b"abc")], []]
    message = Message(frame(Side.SERVER, 100), "kafka", "Fetch", "response")
    first, second = (row for _, row in rows(RecordItem(connection(), message, made)))
    assert filled(first) == {
        "connection_id": "c1",
        "side": "server",
        "stream_offset": 100,
        "client": "127.0.0.1:57938",
        "server": "127.0.0.1:4150",
        "capture": "a.pcap",
        "packet": 7,
        "ts": START,
        "ts_ns": START,
        "direction": "deliver",
        "protocol": "kafka",
        "topic": "retry",
        "offset": 10,
        "message_id": "m1",
        "key": b"k",
        "key_encoding": "utf8",
        "value": b"v1",
        "value_encoding": "utf8",
        "value_size": 2,
        "headers": [{"key": "trace", "value": b"abc"}],
        "record_index": 0,
    }
    assert type(first["offset"]) is int
    assert (second["record_index"], second["key"], second["value"], second["value_size"]) == (1, None, None, None)
    assert (second["key_encoding"], second["value_encoding"], second["headers"]) == (None, None, [])


def test_a_value_whose_end_was_not_captured_is_cut_and_keeps_its_size():
    made = batch((None, b"0123456789"))
    made.data = made.data[:4]
    row = only(RecordItem(connection(), pub(), made))
    assert (row["value"], row["value_encoding"], row["value_size"]) == (b"0123", "cut", 10)


def test_a_size_that_the_dissector_knows_better_stands():
    made = batch((None, b"0123"))
    made.columns = {"value_size": [1000]}
    row = only(RecordItem(connection(), pub(), made))
    assert (row["value"], row["value_encoding"], row["value_size"]) == (b"0123", "cut", 1000)


def test_redacted_payload_leaves_sizes_only():
    row = only(RecordItem(connection(), pub(), batch((b"key", b"value"))), payload=False, hash_key=HashKey(KEY))
    assert (row["key"], row["key_encoding"], row["value"], row["value_encoding"]) == (
        None,
        "redacted",
        None,
        "redacted",
    )
    assert row["value_size"] == 5
    expected = [hmac.digest(KEY, data, "sha256").hex() for data in (b"key", b"value")]
    assert [row["key_hmac_sha256"], row["value_hmac_sha256"]] == expected


def test_hashes_are_those_of_whole_values_and_stand_where_payload_is_redacted_alone():
    made = batch((None, b"0123"))
    made.columns = {"value_size": [1000]}
    row = only(RecordItem(connection(), pub(), made), payload=False, hash_key=HashKey(KEY))
    assert (row["key_hmac_sha256"], row["value_hmac_sha256"]) == (None, None)
    row = only(RecordItem(connection(), pub(), batch((b"key", b"value"))), hash_key=HashKey(KEY))
    assert (row["key_hmac_sha256"], row["value_hmac_sha256"]) == (None, None)


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ({}, [(b"order", "utf8"), (b"\xff", "base64"), (None, None)]),
        ({"max_bytes": 3}, [(b"ord", "cut"), (b"\xff", "base64"), (None, None)]),
        ({"payload": False}, [(None, "redacted"), (None, "redacted"), (None, None)]),
    ],
)
def test_an_ordering_key_is_shown_as_a_key_is(options, shown):
    made = batch((b"k", b"v"), (b"k", b"v"), (b"k", b"v"))
    made.columns = {"ordering_key": [b"order", b"\xff", None]}
    found = [row for _, row in rows(RecordItem(connection(), pub(), made), **options)]
    assert [(row["ordering_key"], row["ordering_key_encoding"]) for row in found] == shown


def test_checksums_and_decoded_content_are_payload():
    made = batch((b"k", b"v"), crc=7)
    made.columns = {"decoded": [{"a": 1}]}
    assert [only(RecordItem(connection(), pub(), made))[name] for name in ("crc", "decoded")] == [7, {"a": 1}]
    hidden = only(RecordItem(connection(), pub(), made), payload=False)
    assert (hidden["crc"], hidden["decoded"]) == (None, None)
    made.columns = {"crc": [8]}
    assert only(RecordItem(connection(), pub(), made), payload=False)["crc"] is None


def test_a_connection_has_every_field_and_who_uses_it():
    info = connection(client_bytes=1, server_bytes=2, tls_version="TLS 1.3", proxy_client="10.0.0.9:1")
    info.identity.client_id, info.identity.mechanism = "id", "PLAIN"
    row = only(ClosedItem(info))
    assert filled(row) == {
        "connection_id": "c1",
        "client": "127.0.0.1:57938",
        "server": "127.0.0.1:4150",
        "client_ip": "127.0.0.1",
        "client_port": 57938,
        "server_ip": "127.0.0.1",
        "server_port": 4150,
        "protocol": "nsq",
        "detected_by": "content",
        "outcome": "established",
        "client_id": "id",
        "mechanism": "PLAIN",
        "capture": "a.pcap",
        "first_packet": 1,
        "first_ts": START,
        "last_ts": START + 1500 * MILLISECOND,
        "client_bytes": 1,
        "server_bytes": 2,
        "tls_version": "TLS 1.3",
        "proxy_client": "10.0.0.9:1",
        "community_id": row["community_id"],
        "sides_seen": "both",
        "handshake_seen": False,
        "open_at_end": False,
        **dict.fromkeys(
            (
                *("client_packets", "server_packets", "gap_bytes", "undecoded_bytes", "retransmitted_segments"),
                *("out_of_order_segments", "duplicate_packets", "client_zero_windows", "server_zero_windows"),
            ),
            0,
        ),
    } | {name: row[name] for name in ("first_ts_ns", "last_ts_ns") if name in row}
    assert row["community_id"].startswith("1:")


def test_a_batch_without_keys_and_values_still_has_its_rows():
    made = batch((None, None))
    made.count, made.keys, made.values = 2, None, None
    assert [row["record_index"] for _, row in rows(RecordItem(connection(), pub(), made))] == [0, 1]


def test_a_problem_of_a_message_has_the_key_of_its_message():
    alone = noticed()
    alone.problem.side, alone.problem.offset = Side.SERVER, 77
    row = only(alone)
    assert (row["side"], row["stream_offset"], row["name"]) == ("server", 77, None)
    alone.message = pub()
    row = only(alone)
    assert (row["side"], row["stream_offset"], row["name"]) == ("client", 4, "PUB")


def test_a_problem_of_an_input_has_no_connection():
    row = only(noticed(connection=None, ts_ns=None, packet=None, path=""))
    assert filled(row) == {"severity": "info", "kind": "out_of_range", "detail": "RDY count 9999 is over 2500"}


def test_a_problem_of_a_whole_capture_names_it_and_no_packet():
    row = only(noticed(connection=None, ts_ns=None, packet=packet_id(1, 0)))
    assert (row["capture"], row["packet"]) == ("b.pcap", None)


def test_a_connection_shows_the_cause_of_its_close_where_it_was_seen():
    info = connection(close_reason="rst", tunnel="vxlan 7", client_bytes=12)
    row = only(ClosedItem(info))
    assert (row["close_reason"], row["tunnel"], row["client_bytes"]) == ("rst", "vxlan 7", 12)
    assert (row["first_ts"], row["last_ts"]) == (START, START + 1500 * MILLISECOND)
    assert (row["capture"], row["first_packet"]) == ("a.pcap", 1)
    info.identity.close_reason, info.identity.user = "keepalive missed", "ann"
    row = only(ClosedItem(info))
    assert (row["close_reason"], row["user"]) == ("keepalive missed", "ann")


def test_packets_name_the_capture_that_they_are_in():
    info = connection()
    info.first_packet = packet_id(1, 99)
    row = only(ClosedItem(info))
    assert (row["capture"], row["first_packet"]) == ("b.pcap", 99)


# ---- numbers that no int64 holds


def test_a_message_keeps_an_error_code_that_no_int64_holds():
    row = only(MessageItem(connection(), pub(error_code=1 << 63, error_count=1)))
    assert (row["error_code"], row["error_count"], row["beyond_int64"]) == (None, 1, {"error_code": 1 << 63})


def test_an_exchange_keeps_what_no_int64_holds():
    answer, pending = answer_to(pub())
    pending.wait_limit_ns, pending.extra = 1 << 70, {"credit": -(1 << 63) - 1, "attempts": 1}
    row = only(exchanged(pending, answer))
    assert (row["wait_limit_ns"], row["credit"], row["attempts"]) == (None, None, 1)
    assert row["beyond_int64"] == {"wait_limit_ns": 1 << 70, "credit": -(1 << 63) - 1}


def test_a_partition_keeps_what_no_int64_holds():
    message = pub(partitions=({"topic": "retry", "offset": 1 << 64, "partition": (1 << 63) - 1},))
    (row,) = (row for table, row in rows(MessageItem(connection(), message)) if table == "partitions")
    assert (row["offset"], row["partition"], row["beyond_int64"]) == (None, (1 << 63) - 1, {"offset": 1 << 64})


@pytest.mark.parametrize("column", [[1 << 63, 5], (1 << 63, 5), range((1 << 63), (1 << 63) - 2, -1)])
def test_a_record_keeps_what_no_int64_holds_and_times_too(column):
    made = batch((b"k", b"v"), (None, b"w"), record_ts=1 << 80)
    made.columns["offset"] = column
    first, second = (row for _, row in rows(RecordItem(connection(), QUESTION, made)))
    assert (first["offset"], first["record_ts"]) == (None, None)
    assert first["beyond_int64"] == {"record_ts": 1 << 80, "offset": 1 << 63}
    assert second["offset"] == column[1] if column[1] < 1 << 63 else None
    assert second["beyond_int64"]["record_ts"] == 1 << 80


def test_what_no_int64_holds_stands_in_the_same_order_in_every_run():
    constant = dict.fromkeys(("sequence", "record_ts", "offset", "event_ts", "partition", "base_offset"), 1 << 70)
    row, *_ = (row for _, row in rows(RecordItem(connection(), QUESTION, batch((b"k", b"v"), **constant))))
    assert list(row["beyond_int64"]) == list(constant)
    message = pub(partitions=(dict.fromkeys(("offset", "high_watermark", "records", "batches"), 1 << 70),))
    (row,) = (row for table, row in rows(MessageItem(connection(), message)) if table == "partitions")
    assert list(row["beyond_int64"]) == ["offset", "high_watermark", "records", "batches"]
