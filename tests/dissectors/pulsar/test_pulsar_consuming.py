"""What is delivered to consumers, and what they settle; permits and batches."""

from __future__ import annotations

import pytest
from handmade import captures, connection
from pulsarcraft import SUBSCRIBE, ack, batch, deliver, encoded, ended, frame, message, names, run, still_open

from mqsniff.decode.exchanges import Exchanges
from mqsniff.limits import Limits
from mqsniff.model import Side
from mqsniff.tables.rows import exchange_row, record_rows
from mqsniff.tables.values import Redaction
from mqsniff.testing.conversations import Say, client, server


def settled(driver):
    """(entry, name of what settled it, settled_by, status) of every delivery that ended."""
    closed = [pending for one in driver.messages for pending in one.resolved if pending.link == "settlement"]
    names = [pending.last_answer.name if pending.last_answer else None for pending in closed]
    return [(a.key[2][1], name, a.extra["settled_by"], a.status) for a, name in zip(closed, names, strict=True)]


def test_an_ack_settles_the_entries_that_it_names():
    driver = run(SUBSCRIBE, deliver(1, 2, 3), ack(3, 1))
    assert settled(driver) == [(3, "ACK", "ACK", None), (1, "ACK", "ACK", None)]
    assert still_open(driver, "settlement") == ["MESSAGE"]


def test_a_cumulative_ack_settles_everything_before_it():
    driver = run(SUBSCRIBE, deliver(1, 2, 3, 4), ack(2), ack(3, kind="Cumulative"))
    assert [entry for entry, *_ in settled(driver)] == [2, 1, 3]


def batch_of(count: int) -> Say:
    return server(message(batch(*[(b"v", {})] * count), entry_id=1, num_messages_in_batch=count))


def test_a_batch_is_settled_index_by_index():
    driver = run(SUBSCRIBE, batch_of(3), ack(1, ack_set=[0b110]), ack(1, ack_set=[0b100]), ack(1, ack_set=[0b000]))
    (pending,) = driver.messages[1].pending
    assert pending.answer is driver.messages[2]
    assert pending.last_answer is driver.messages[4]
    assert settled(driver) == [(1, "ACK", "ACK", None)]
    (told,) = driver.messages[2].body["message_id"]
    assert (told["ack_set"], told["unacknowledged"]) == ([0b110], [1, 2])


def test_a_batch_that_is_settled_in_part_says_so():
    driver = run(SUBSCRIBE, batch_of(3), ack(1, ack_set=[0b110]))
    (pending,) = (pending for pending in driver.dissector.unanswered() if pending.link == "settlement")
    assert (pending.status, pending.answer) == ("partial", driver.messages[2])


def test_acks_with_a_request_id_are_answered():
    driver = run(
        SUBSCRIBE, deliver(1), ack(1, request_id=9), server(frame("ACK_RESPONSE", consumer_id=1, request_id=9))
    )
    assert names(driver)[2:] == [("ACK", "request", "c:1:9"), ("ACK_RESPONSE", "response", "c:1:9")]
    assert ended(driver) == [("ACK", "ACK_RESPONSE", None)]


def test_a_message_that_the_client_found_damaged_is_an_error():
    driver = run(SUBSCRIBE, deliver(1), ack(1, validation_error="ChecksumMismatch"))
    last = driver.messages[-1]
    assert (last.kind, last.error_code, last.error_name, last.error_count) == ("oneway", 2, "ChecksumMismatch", 1)


def response(request: int, **more) -> Say:
    return server(frame("ACK_RESPONSE", consumer_id=1, request_id=request, **more))


def rows(driver, *, open_at_end: bool = True):
    """(entry, status, settled_by, error) of every delivery in the order in which they ended, as tables have it."""
    exchanges, info = Exchanges(Limits()), connection()
    found = [one for message in driver.messages for one in exchanges.of(message)]
    gaps = (driver.dissector.gaps_of(Side.CLIENT), driver.dissector.gaps_of(Side.SERVER))
    found += [
        exchanges.rest(pending, open_at_end=open_at_end, seen=(True, True), gaps=gaps)
        for pending in driver.dissector.unanswered()
    ]
    told = [
        (one.pending.key[2][1], exchange_row(info, one, captures()))
        for one in found
        if one.pending and one.pending.link == "settlement"
    ]
    return [(entry, row["status"], row["settled_by"], row["error_name"]) for entry, row in told]


REFUSED = {"error": "ConsumerNotFound", "message": "no consumer"}
ASK = {"request_id": 9}
SETTLEMENTS = [
    ("taken", [deliver(1), ack(1, **ASK), response(9)], [(1, "ok", "ACK", None)]),
    ("refused", [deliver(1), ack(1, **ASK), response(9, **REFUSED)], [(1, "error", "ACK", "ConsumerNotFound")]),
    ("not answered", [deliver(1), ack(1, **ASK)], [(1, "pending", "ACK", None)]),
    ("without a request id", [deliver(1), ack(1)], [(1, "ok", "ACK", None)]),
    (
        "all before it refused",
        [deliver(1, 2, 3), ack(2, kind="Cumulative", **ASK), response(9, **REFUSED)],
        [(1, "error", "ACK", "ConsumerNotFound"), (2, "error", "ACK", "ConsumerNotFound"), (3, "pending", None, None)],
    ),
    (
        "two at once, one refused",
        [deliver(1, 2), ack(1, **ASK), ack(2, request_id=10), response(10), response(9, **REFUSED)],
        [(2, "ok", "ACK", None), (1, "error", "ACK", "ConsumerNotFound")],
    ),
    (
        "refused, delivered again and taken",
        [deliver(1), ack(1, **ASK), response(9, **REFUSED), deliver(1), ack(1, request_id=10), response(10)],
        [(1, "error", "ACK", "ConsumerNotFound"), (1, "ok", "ACK", None)],
    ),
    (
        "delivered again before the answer",
        [deliver(1), ack(1, **ASK), deliver(1), response(9), ack(1)],
        [(1, "ok", "ACK", None), (1, "ok", "ACK", None)],
    ),
    ("delivered again", [deliver(1), deliver(1)], [(1, "unanswered", "redelivered", None), (1, "pending", None, None)]),
    (
        "damaged, says the client, and the broker takes that",
        [deliver(1), ack(1, validation_error="ChecksumMismatch", **ASK), response(9)],
        [(1, "error", "ACK", "ChecksumMismatch")],
    ),
    (
        "damaged, and refused",
        [deliver(1), ack(1, validation_error="ChecksumMismatch", **ASK), response(9, **REFUSED)],
        [(1, "error", "ACK", "ConsumerNotFound")],
    ),
]


@pytest.mark.parametrize(
    ("dialogue", "expected"), [case[1:] for case in SETTLEMENTS], ids=[case[0] for case in SETTLEMENTS]
)
def test_a_settlement_is_true_after_the_answer_that_may_refuse_it(dialogue, expected):
    assert rows(run(SUBSCRIBE, *dialogue)) == expected


def test_the_latency_of_a_settlement_runs_to_the_ack():
    driver = run(SUBSCRIBE, deliver(1), ack(1, **ASK), response(9))
    (pending,) = driver.messages[1].pending
    assert (pending.answer, pending.awaits.answer) == (driver.messages[2], driver.messages[3])
    assert pending in driver.messages[3].resolved


PARTS = [
    (
        "the first part refused, all of it taken later",
        [ack(1, ack_set=[0b110], **ASK), response(9, **REFUSED), ack(1, ack_set=[0])],
        [(1, "ok", "ACK", None)],
        [],
    ),
    (
        "the first part refused",
        [ack(1, ack_set=[0b110], **ASK), response(9, **REFUSED), ack(1, ack_set=[0b001])],
        [(1, "partial", "ACK", None)],
        [1],
    ),
    (
        "the first part refused after the last was sent",
        [
            *[ack(1, ack_set=[0b110], **ASK), ack(1, ack_set=[0], request_id=10)],
            *[response(9, **REFUSED), response(10)],
        ],
        [(1, "partial", "ACK", None)],
        [],
    ),
    (
        "both parts taken",
        [ack(1, ack_set=[0b110], **ASK), response(9), ack(1, ack_set=[0], request_id=10), response(10)],
        [(1, "ok", "ACK", None)],
        [],
    ),
]


@pytest.mark.parametrize(
    ("dialogue", "expected", "left"), [case[1:] for case in PARTS], ids=[case[0] for case in PARTS]
)
def test_messages_of_a_batch_whose_ack_is_refused_are_unsettled_again(dialogue, expected, left):
    driver = run(SUBSCRIBE, batch_of(3), *dialogue)
    consumer = driver.dissector._session._consuming._consumers._known[1]
    assert consumer.in_flight == len(left)
    assert rows(driver) == expected


@pytest.mark.parametrize(("ids", "expected"), [([{"ledger_id": 7, "entry_id": 2}], [2]), ([], [1, 2])])
def test_a_wish_for_redelivery_settles_what_it_names_or_all(ids, expected):
    wish = client(frame("REDELIVER_UNACKNOWLEDGED_MESSAGES", consumer_id=1, message_ids=ids))
    driver = run(SUBSCRIBE, deliver(1, 2), wish)
    name = "REDELIVER_UNACKNOWLEDGED_MESSAGES"
    assert settled(driver) == [(entry, name, name, None) for entry in expected]


def test_an_entry_that_is_delivered_again_leaves_its_first_delivery_unanswered():
    driver = run(SUBSCRIBE, deliver(1), deliver(1, told={"redelivery_count": 2}), ack(1))
    assert settled(driver) == [(1, None, "redelivered", "unanswered"), (1, "ACK", "ACK", None)]
    assert [m.pending[0].extra["attempts"] for m in driver.messages if m.name == "MESSAGE"] == [1, 3]


def test_nobody_acknowledges_messages_of_non_persistent_topics():
    subscribe = frame(
        "SUBSCRIBE", topic="non-persistent://a/b/c", subscription="s", sub_type="Shared", consumer_id=1, request_id=1
    )
    driver = run(client(subscribe), deliver(0, 0, 0))
    assert still_open(driver, "settlement") == []
    assert driver.problems == []


def test_permits_are_counted_against_deliveries():
    flow = client(frame("FLOW", consumer_id=1, message_permits=4))
    driver = run(SUBSCRIBE, flow, deliver(1), batch_of(3), deliver(5), ack(5), flow, deliver(6))
    extras = [m.pending[0].extra for m in driver.messages if m.name == "MESSAGE"]
    assert [extra["credit"] for extra in extras] == [4, 3, 0, 3]
    assert [extra["in_flight"] for extra in extras] == [1, 3, 4, 4]


def test_permits_are_unknown_where_the_opening_was_not_seen():
    driver = run(client(frame("FLOW", consumer_id=1, message_permits=4)), deliver(1))
    assert driver.messages[1].pending[0].extra["credit"] is None


def test_only_what_is_to_be_delivered_of_a_batch_counts():
    flow = client(frame("FLOW", consumer_id=1, message_permits=9))
    half = server(message(batch(*[(b"v", {})] * 4), entry_id=1, told={"ack_set": [0b1010]}, num_messages_in_batch=4))
    driver = run(SUBSCRIBE, flow, half, ack(1, ack_set=[0b1000]), deliver(2))
    (records,) = driver.messages[2].records
    assert records.columns["left_out"] == ["acknowledged", None, "acknowledged", None]
    assert records.columns["message_id"] == [f"7:1:-1:{index}" for index in range(4)]
    assert [m.pending[0].extra["credit"] for m in driver.messages if m.name == "MESSAGE"] == [9, 7]
    assert [m.pending[0].extra["in_flight"] for m in driver.messages if m.name == "MESSAGE"] == [2, 2]


def test_a_delivery_that_waits_for_its_ack_keeps_no_bytes():
    driver = run(SUBSCRIBE, server(message(bytes(100_000))), ack(0))
    (pending,) = driver.messages[1].pending
    assert len(driver.messages[1].frame.data) > 100_000
    assert (pending.frame.data, pending.message.frame.data, pending.message.records) == (b"", b"", ())
    assert (pending.frame.offset, pending.frame.size) == (0, driver.messages[1].frame.size)
    assert settled(driver) == [(0, "ACK", "ACK", None)]


def test_open_questions_are_limited():
    limits = Limits(pending_max=20)
    driver = run(SUBSCRIBE, deliver(*range(100)), limits=limits)
    assert len(list(driver.dissector.unanswered())) == 20
    assert len(driver.dissector._session._consuming._consumers._known[1].unsettled) == 20


def records_of(entry: bytes, *slots: tuple[bytes, dict], **more):
    said = message(batch(*slots) if slots else b"v", entry=entry, **more)
    return run(SUBSCRIBE, server(said)).messages[-1].records[0]


def test_a_delivery_with_only_the_time_of_the_broker_has_no_offset():
    delivered = records_of(encoded("BrokerEntryMetadata", broker_timestamp=1_700_000_000_000))
    assert delivered.constant["store_ts"] == 1_700_000_000_000_000_000
    assert "offset" not in delivered.constant | delivered.columns


def test_a_delivery_with_only_an_index_has_no_time_of_the_broker():
    delivered = records_of(encoded("BrokerEntryMetadata", index=9))
    assert (delivered.constant["store_ts"], delivered.constant["offset"]) == (None, 9)


def test_the_index_of_an_entry_is_that_of_its_last_message():
    slots = [(b"value", {})] * 3
    delivered = records_of(encoded("BrokerEntryMetadata", index=9), *slots, num_messages_in_batch=3)
    assert delivered.columns["offset"] == [7, 8, 9]


@pytest.mark.parametrize(
    ("index", "offset", "beyond"), [((1 << 63) - 1, (1 << 63) - 1, None), (1 << 63, None, {"offset": 1 << 63})]
)
def test_an_index_that_a_column_cannot_hold_is_beyond_it(index, offset, beyond):
    driver = run(SUBSCRIBE, server(message(b"v", entry=encoded("BrokerEntryMetadata", index=str(index)))))
    delivery = driver.messages[-1]
    (row,) = record_rows(connection(), delivery, delivery.records[0], captures(), Redaction())
    assert (row["offset"], row["beyond_int64"]) == (offset, beyond)
