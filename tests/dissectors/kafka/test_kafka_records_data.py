"""What messages say of the records that they carry: every column, of every way to produce and to fetch them."""

from __future__ import annotations

import struct
from typing import Any

import kafkacraft as craft
import pytest
from kafkacraft import ASKED, TOPIC_ID, fetch, fetched, produce, produced, record_batch
from record_craft import Plain, batch

from mqsniff.dissector import WITH_RECORDS, Settings
from mqsniff.limits import Limits
from mqsniff.model import HeaderSpans, Message, Problem, RecordBatch
from mqsniff.testing.conversations import Say, chunks, client, server
from mqsniff.testing.driver import Driver
from mqsniff_kafka import Kafka
from mqsniff_kafka.records.batches import read_batches
from mqsniff_kafka.records.data import Produced, complete

MS = 1_000_000
HEADED = (
    Plain(1_600_000_000_000, b"key", b"value", (("trace", b"abc"), ("nul", None))),
    Plain(1_600_000_000_005, None, None),
)
RAW = batch(HEADED, base=40, producer=(7, 2, 11), transactional=True)
CRC = struct.unpack_from(">I", RAW, 17)[0]
CONSTANT = {
    "codec": "none",
    "checksum_ok": True,
    "base_offset": 40,
    "producer_id": 7,
    "producer_epoch": 2,
    "leader_epoch": 0,
    "transactional": True,
    "control": False,
    "batch_index": 0,
    "timestamp_type": "CreateTime",
    "crc": CRC,
    "attributes": 0x10,
    "topic": "orders",
    "topic_id": None,
    "partition": 0,
}
"""Columns that all records of ``RAW`` have in common."""


def whole(records: RecordBatch) -> tuple[dict[str, Any], dict[str, list[Any]], list[Any]]:
    """(constants, columns, (key, value, headers) of each record) of a batch: all that it tells."""
    assert records.keys is not None
    assert records.values is not None
    spans = zip(*records.keys, *records.values, strict=True)
    contents = [
        (
            None if key < 0 else records.data[key:key_stop],
            None if value < 0 else records.data[value:stop],
            [] if records.headers is None else records.headers[index],
        )
        for index, (key, key_stop, value, stop) in enumerate(spans)
    ]
    return records.constant, {name: list(column) for name, column in records.columns.items()}, contents


CONTENTS = [(b"key", b"value", [("trace", b"abc"), ("nul", None)]), (None, None, [])]
TIMES = [1_600_000_000_000 * MS, 1_600_000_000_005 * MS]


def driven(*said: Say) -> list[Message]:
    return Driver(Kafka).run(chunks(said)).messages


def produced_raw(correlation: int, raw: bytes, **partition: Any) -> bytes:
    one = {"index": 0, "records": raw} | partition
    body = {"acks": -1, "timeout_ms": 1000, "topic_data": [{"name": "orders", "partition_data": [one]}]}
    return craft.request(craft.PRODUCE, 3, correlation, body)


def answered(correlation: int, **partition: Any) -> bytes:
    one = {"index": 0, "error_code": 0, "base_offset": 900, "log_append_time_ms": -1} | partition
    body = {"responses": [{"name": "orders", "partition_responses": [one]}]}
    return craft.response(craft.PRODUCE, 3, correlation, body)


def test_a_produced_record_has_all_that_its_batch_and_its_response_say() -> None:
    request, _ = driven(client(produced_raw(1, RAW)), server(answered(1, log_append_time_ms=1_700_000_000_000)))
    (records,) = request.records
    assert whole(records) == (
        CONSTANT | {"direction": "produce", "ack": "acked", "base_offset": 900, "store_ts": 1_700_000_000_000 * MS},
        {"record_ts": TIMES, "sequence": [11, 12], "client_offset": [40, 41], "offset": [900, 901]},
        CONTENTS,
    )
    assert records.header_spans is not None
    counts, places = records.header_spans() or HeaderSpans((), ())
    assert (list(counts), len(places)) == ([2, 0], 8)


def test_a_refused_record_has_no_offset() -> None:
    request, _ = driven(client(produced_raw(1, RAW)), server(answered(1, error_code=5, base_offset=900)))
    (records,) = request.records
    constant = CONSTANT | {"direction": "produce", "ack": "failed"}
    del constant["base_offset"]
    assert whole(records) == (
        constant,
        {"record_ts": TIMES, "sequence": [11, 12], "client_offset": [40, 41]},
        CONTENTS,
    )


@pytest.mark.parametrize("index", [0, 1])
def test_a_response_is_about_the_partition_that_it_names(index: int) -> None:
    request, _ = driven(client(produced_raw(1, RAW)), server(answered(1, index=index)))
    assert request.records[0].constant.get("ack") == ("acked" if index == 0 else None)


def test_batches_of_a_partition_are_numbered_and_take_offsets_one_after_the_other() -> None:
    raw = record_batch(b"a", b"b") + record_batch(b"c")
    request, _ = driven(client(produced_raw(1, raw)), server(answered(1)))
    assert [
        (records.constant["batch_index"], records.constant["base_offset"], list(records.columns["offset"]))
        for records in request.records
    ] == [(0, 900, [900, 901]), (1, 902, [902])]


def test_a_produced_batch_without_its_end_is_malformed() -> None:
    raw = record_batch(b"a")
    (request,) = driven(client(produced_raw(1, raw + raw[:-4])))
    assert request.problems == [
        Problem(
            *("malformed", "error", "a batch without its end", "topic_data[0].partition_data[0].records"),
            size=len(raw) - 4,
        )
    ]
    assert [records.count for records in request.records] == [1]


def test_a_fetched_record_has_all_that_its_batch_and_its_partition_say() -> None:
    aborted = [{"producer_id": 7, "first_offset": 41}]
    said = client(fetch(1, topics=ASKED)), server(fetched(1, RAW, aborted_transactions=aborted))
    (records,) = driven(*said)[1].records
    assert whole(records) == (
        CONSTANT | {"direction": "deliver", "reader": "consumer", "aborted": True, "before_asked": False},
        {"record_ts": TIMES, "sequence": [11, 12], "offset": [40, 41]},
        CONTENTS,
    )


@pytest.mark.parametrize(("first", "aborted"), [(41, True), (42, False)])
def test_a_transaction_is_aborted_from_the_offset_that_the_response_tells(first: int, *, aborted: bool) -> None:
    named = [{"producer_id": 7, "first_offset": first}]
    (records,) = driven(client(fetch(1, topics=ASKED)), server(fetched(1, RAW, aborted_transactions=named)))[1].records
    assert records.constant["aborted"] is aborted


def test_records_of_topics_by_id_have_the_id_and_the_name_once_it_is_known() -> None:
    asked = [{"topic_id": TOPIC_ID, "partitions": [{"partition": 3, "fetch_offset": 41}]}]
    partition = {"partition_index": 3, "records": RAW}
    answer = craft.response(craft.FETCH, 13, 1, {"responses": [{"topic_id": TOPIC_ID, "partitions": [partition]}]})
    (records,) = driven(client(fetch(1, 13, topics=asked)), server(answer))[1].records
    constant, columns, _ = whole(records)
    assert {name: constant[name] for name in ("topic", "topic_id", "partition")} == {
        "topic": None,
        "topic_id": TOPIC_ID,
        "partition": 3,
    }
    assert columns["before_asked"] == [True, False]


@pytest.mark.parametrize(
    ("acquired", "attempts"),
    [
        ([(40, 41, 3)], [3, 3, None]),
        ([(41, 41, 2)], [None, 2, None]),
        ([(30, 39, 9), (40, 40, 1), (42, 50, 4)], [1, None, 4]),
        ([], None),
    ],
)
def test_a_share_group_tells_how_often_it_got_each_record(
    acquired: list[tuple[int, int, int]], attempts: list[int | None] | None
) -> None:
    names = ("first_offset", "last_offset", "delivery_count")
    ranges = [dict(zip(names, one, strict=True)) for one in acquired]
    partition = {"partition_index": 0, "records": record_batch(b"a", b"b", b"c", base=40), "acquired_records": ranges}
    answer = craft.response(78, 1, 1, {"responses": [{"topic_id": TOPIC_ID, "partitions": [partition]}]})
    (records,) = driven(client(craft.request(78, 1, 1)), server(answer))[1].records
    assert records.columns.get("attempts") == attempts


# ---- what responses complete


def reading(*raw: bytes) -> Produced:
    data = b"".join(raw)
    found = read_batches(data, 0, len(data), decompress_max=1 << 20, open_records=True)
    return Produced("orders", 0, found)


def answer_of(**body: Any) -> Message:
    """A response by its body alone."""
    (message,) = (one for one in driven(client(produce(1, b"x")), server(produced(1, 5))) if one.kind == "response")
    message.body = body
    return message


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"responses": None},
        {"responses": [{"name": "orders"}]},
        {"responses": [{"name": "orders", "partition_responses": [{"index": 0}]}]},
        {"responses": [{"name": "jobs", "partition_responses": [{"index": 0, "error_code": 0}]}]},
        {"responses": [{"name": "orders", "partition_responses": [{"index": 1, "error_code": 0}]}]},
    ],
)
def test_a_response_that_does_not_tell_how_a_partition_fared_leaves_its_records_open(body: dict[str, Any]) -> None:
    one = reading(record_batch(b"a"))
    complete([one], answer_of(**body))
    assert "ack" not in one.records[0].constant


def test_amounts_are_acknowledged_as_records_are() -> None:
    lone = Produced("orders", 0, None, RecordBatch(b"", 2))
    nothing = Produced("orders", 0, None)
    complete([lone, nothing], answer_of(responses=[{"name": "orders", "partition_responses": [
        {"index": 0, "error_code": 0, "base_offset": 7}]}]))  # fmt: skip
    assert (lone.records[0].constant, nothing.records) == ({"ack": "acked"}, ())


def test_topics_by_id_are_completed_by_their_id() -> None:
    one = Produced(TOPIC_ID, 0, None, RecordBatch(b"", 2))
    complete([one], answer_of(responses=[{"topic_id": TOPIC_ID, "partition_responses": [
        {"index": 0, "error_code": 6}]}]))  # fmt: skip
    assert one.records[0].constant == {"ack": "failed"}


@pytest.mark.parametrize("wanted", [WITH_RECORDS, WITH_RECORDS - {"records"} | {"amounts"}, WITH_RECORDS - {"records"}])
def test_amounts_are_given_only_where_they_are_wanted(wanted: frozenset[Any]) -> None:
    dissector = Kafka(Settings(Limits(), wanted=wanted))
    events = [event for chunk in chunks([client(produce(1, b"ab", b"c"))]) for event in dissector.feed(chunk)]
    (message,) = [event for event in events if isinstance(event, Message)]
    if "records" in wanted:
        assert [records.count for records in message.records] == [2]
        return
    found = [(records.data, records.count, records.constant) for records in message.records]
    told = {"control": False, "topic": "orders", "topic_id": None, "partition": 0, "direction": "produce"}
    assert found == ([(b"", 2, told)] if "amounts" in wanted else [])
