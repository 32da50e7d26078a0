"""What producers send, and what brokers say became of it."""

from __future__ import annotations

import pytest
from pulsarcraft import (
    NO_REQUEST,
    PRODUCER,
    SUBSCRIBE,
    TOPIC,
    batch,
    connect,
    connected,
    ended,
    frame,
    message,
    noted,
    run,
    send,
)

from mqsniff.testing.conversations import client, server


def test_receipts_come_first_in_first_out_for_each_sequence_id():
    receipts = [
        frame("SEND_RECEIPT", producer_id=1, sequence_id=5, message_id={"ledger_id": 7, "entry_id": entry})
        for entry in (1, 2)
    ]
    driver = run(PRODUCER, client(send(b"a", sequence=5), send(b"b", sequence=5)), server(*receipts))
    assert [a.frame.offset for message in driver.messages for a in message.closed] == [
        driver.messages[1].frame.offset,
        driver.messages[2].frame.offset,
    ]
    assert [message.records[0].constant["message_id"] for message in driver.messages[1:3]] == ["7:1:-1", "7:2:-1"]
    assert {message.correlation for message in driver.messages[1:]} == {"p:1:5"}


def test_a_receipt_names_each_message_of_a_batch():
    partition = client(frame("PRODUCER", topic=TOPIC + "-partition-3", producer_id=2, request_id=1))
    sent = send(batch((b"a", {}), (b"b", {})), producer=2, told={"num_messages": 2}, num_messages_in_batch=2)
    receipt = frame("SEND_RECEIPT", producer_id=2, sequence_id=0, message_id={"ledger_id": 7, "entry_id": 1})
    driver = run(partition, client(sent), server(receipt))
    (records,) = driver.messages[1].records
    assert records.columns["message_id"] == ["7:1:3:0", "7:1:3:1"]
    assert records.constant["partition"] == 3
    assert driver.problems == []


def test_a_message_that_is_nowhere_gets_no_place():
    nowhere = {"ledger_id": NO_REQUEST, "entry_id": NO_REQUEST}
    driver = run(
        PRODUCER, client(send(b"a")), server(frame("SEND_RECEIPT", producer_id=1, sequence_id=0, message_id=nowhere))
    )
    assert "message_id" not in driver.messages[1].records[0].constant
    assert ended(driver) == [("SEND", "SEND_RECEIPT", None)]


def test_a_refused_message_is_an_error_by_name():
    refused = frame("SEND_ERROR", producer_id=1, sequence_id=0, error="TopicTerminatedError", message="over")
    driver = run(PRODUCER, client(send(b"a")), server(refused))
    answer = driver.messages[-1]
    assert (answer.error_code, answer.error_name, answer.error_count) == (15, "TopicTerminatedError", 1)
    assert answer.topics == (TOPIC,)
    assert ended(driver) == [("SEND", "SEND_ERROR", None)]


def position(ledger: int, entry: int) -> dict:
    return {
        "replicated_from": "near",
        "properties": [{"key": "__MSG_PROP_REPL_SOURCE_POSITION", "value": f"{ledger}:{entry}"}],
    }


@pytest.mark.parametrize("flags", [{}, {"feature_flags": {"supports_repl_dedup_by_lid_and_eid": True}}])
def test_receipts_of_replicated_messages_tell_positions_where_both_ends_know_how(flags):
    by_position = bool(flags)
    receipt = {"sequence_id": 3, "highest_sequence_id": 8} if by_position else {"sequence_id": 0}
    driver = run(
        client(connect()),
        server(connected(**flags)),
        PRODUCER,
        client(send(b"a", **position(3, 8))),
        server(frame("SEND_RECEIPT", producer_id=1, **receipt)),
    )
    assert ended(driver)[-1] == ("SEND", "SEND_RECEIPT", None)
    assert {message.correlation for message in driver.messages[-2:]} == {"p:1:3:8" if by_position else "p:1:0"}


def test_receipts_of_markers_are_as_others():
    driver = run(
        PRODUCER,
        client(send(b"", marker_type=21, **position(3, 8))),
        server(frame("SEND_RECEIPT", producer_id=1, sequence_id=0, highest_sequence_id=1 << 63)),
    )
    assert ended(driver) == [("SEND", "SEND_RECEIPT", None)]


def test_the_counts_of_command_and_metadata_are_held_against_each_other():
    driver = run(PRODUCER, client(send(batch((b"a", {})), told={"num_messages": 2}, num_messages_in_batch=1)))
    assert noted(driver) == [("out_of_range", "warning")]


def test_chunks_are_followed_on_both_sides():
    def chunk(number):
        return {"uuid": "u", "chunk_id": number, "num_chunks_from_msg": 3, "total_chunk_msg_size": 3}

    sent = [send(b"x", sequence=9, told={"is_chunk": True}, **chunk(number)) for number in (0, 2)]
    delivered = [message(b"x", entry_id=number, **chunk(number)) for number in (0, 1, 2)]
    driver = run(PRODUCER, SUBSCRIBE, client(*sent), server(*delivered))
    assert noted(driver) == [("unmatched", "warning")]
    assert [m.records[0].constant["chunk_id"] for m in driver.messages if m.records] == [0, 2, 0, 1, 2]
