"""What producers send, and what brokers say became of it."""

from __future__ import annotations

import zlib

import cramjam
import lz4.block
import pytest
import zstandard
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

from mqsniff.model import Side
from mqsniff.testing.conversations import chunks, client, server
from mqsniff.testing.driver import Driver
from mqsniff_pulsar import Pulsar


def test_receipts_come_first_in_first_out_for_each_sequence_id():
    receipts = [
        frame("SEND_RECEIPT", producer_id=1, sequence_id=5, message_id={"ledger_id": 7, "entry_id": entry})
        for entry in (1, 2)
    ]
    driver = run(PRODUCER, client(send(b"a", sequence=5), send(b"b", sequence=5)), server(*receipts))
    assert [a.frame.offset for message in driver.messages for a in message.resolved] == [
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


def pieces(whole: bytes, count: int, **more):
    """Metadata and payloads of the chunks of a message."""
    size = -(-len(whole) // count)
    told = {"uuid": "u", "num_chunks_from_msg": count, "total_chunk_msg_size": len(whole)} | more
    return [(whole[n * size : (n + 1) * size], {"chunk_id": n, **told}) for n in range(count)]


def test_chunks_are_followed_on_both_sides():
    parts = pieces(b"xyz", 3)
    sent = [send(data, sequence=9, told={"is_chunk": True}, **told) for data, told in (parts[0], parts[2])]
    delivered = [message(data, entry_id=n, **told) for n, (data, told) in enumerate(parts)]
    driver = run(PRODUCER, SUBSCRIBE, client(*sent), server(*delivered))
    assert noted(driver) == [("unmatched", "warning")]
    assert "is not joined" in driver.problems[0].detail
    rows = [(r.constant["chunk_id"], r.constant.get("joined")) for m in driver.messages for r in m.records]
    assert rows == [(0, None), (2, None), (0, None), (1, None), (2, None), (None, True)]


PLAIN = b"the same words again and again, " * 400
CODECS = [
    ("NONE", lambda plain: plain),
    ("LZ4", lambda plain: lz4.block.compress(plain, store_size=False)),
    ("ZLIB", zlib.compress),
    ("ZSTD", zstandard.ZstdCompressor().compress),
    ("SNAPPY", lambda plain: bytes(cramjam.snappy.compress_raw(plain))),
    ("SNAPPY", lambda plain: bytes(cramjam.snappy.compress(plain))),  # the Rust client
]


@pytest.mark.parametrize(("codec", "compress"), CODECS)
@pytest.mark.parametrize("delivered", [False, True])
def test_a_message_in_chunks_is_a_record_of_its_own(codec, compress, delivered):
    more = {} if codec == "NONE" else {"compression": codec}
    key = {"partition_key": "k", "ordering_key": b"o", "properties": [{"key": "a", "value": "b"}]}
    parts = pieces(compress(PLAIN), 4, uncompressed_size=len(PLAIN), **key, **more)
    if delivered:
        frames = [message(data, entry_id=n, **told) for n, (data, told) in enumerate(parts)]
        driver = run(SUBSCRIBE, server(*frames))
    else:
        frames = [send(data, sequence=9, told={"is_chunk": True}, **told) for data, told in parts]
        place = {"ledger_id": 7}
        receipts = [
            frame("SEND_RECEIPT", producer_id=1, sequence_id=9, message_id={**place, "entry_id": n}) for n in range(4)
        ]
        driver = run(PRODUCER, client(*frames), server(*receipts))
    assert driver.problems == []
    *chunks, last, whole = [records for one in driver.messages for records in one.records]
    assert [one.constant["chunk_id"] for one in (*chunks, last)] == [0, 1, 2, 3]
    assert [one.values is None for one in (*chunks, last)] == [codec != "NONE"] * 4
    ((start,), (stop,)) = whole.values
    assert whole.data[start:stop] == PLAIN
    expected = {"joined": True, "chunk_id": None, "chunk_count": 4, "checksum_ok": True, "codec": codec.lower()}
    expected |= {"direction": "deliver" if delivered else "produce", "topic": TOPIC, "message_id": "7:3:-1"}
    assert {name: whole.constant[name] for name in expected} == expected
    assert (whole.headers[0], whole.columns["ordering_key"]) == ([("a", b"b")], [b"o"])


def test_a_message_whose_last_chunk_never_comes_is_told_at_the_end():
    frames = [send(data, told={"is_chunk": True}, **told) for data, told in pieces(b"abcdef", 3)[:2]]
    driver = Driver(Pulsar).run(chunks([PRODUCER, client(*frames)]), closes=())
    assert driver.problems == []
    driver.run([])
    (problem,) = driver.problems
    assert (problem.kind, problem.severity, problem.side) == ("unmatched", "info", Side.CLIENT)
    assert problem.offset == len(PRODUCER.data) + len(frames[0])
