"""Traces of records: the packets that the clients' own logs imply, waits, and what a capture does not show."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from pathlib import Path

import kafkacraft
import nsqcraft
import pulsarcraft
import pytest
from click.testing import CliRunner
from crc32c import crc32c

from mqsniff.cli import main
from mqsniff.model import RecordOrigin
from mqsniff.testing.conversations import acknowledged, client, segments, server, write_pcap
from mqsniff_kafka import Kafka

PCAPS = Path(__file__).parents[2] / "pcaps"
NACK_DLQ = PCAPS / "pulsar" / "pulsar-4.2.4-py-nack-dlq-a.pcap"
ACKS = PCAPS / "pulsar" / "pulsar-4.2.4-java-acks-a.pcap"
MSG_TIMEOUT = PCAPS / "nsq" / "nsq-1.3.0-go-msg-timeout.pcap"
POP_RAW = PCAPS / "rocketmq" / "rocketmq-5.5.0-b-bserrocket-pop-raw.pcap"
CROSS = PCAPS / "kafka" / "kafka-2.8.2-java-1.1.1-cross-xj.pcapng"


def truth(capture):
    return json.loads(capture.with_suffix(".json").read_text())


def traced(*arguments):
    done = CliRunner().invoke(main, ["trace", *map(str, arguments), "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def kinds(trace):
    return [step["kind"] for step in trace["steps"]]


def of_kind(trace, kind):
    return [step for step in trace["steps"] if step["kind"] == kind]


def rows(capture, table, **wanted):
    done = CliRunner().invoke(main, ["decode", str(capture), "-o", "ndjson", "--table", table])
    found = map(json.loads, done.stdout.splitlines())
    return [row for row in found if all(row.get(name) == value for name, value in wanted.items())]


# ---- Kafka


@pytest.mark.parametrize("number", range(0, 26, 5))
def test_a_record_of_kafka_goes_from_produce_to_the_commit_that_passes_it(number):
    partition, offset = truth(CROSS)["topics"]["xj.gzip"]["acked_partition_offset"][number]
    place = ("--topic", "xj.gzip", "--partition", partition, "--offset", offset)
    (trace,) = traced(CROSS, *place)["traces"]
    assert trace["about"]["value"].startswith(f"v{number}-")
    assert kinds(trace) == ["produced", "stored", "delivered", "committed"]
    sent, stored, delivered, committed = trace["steps"]
    assert stored["details"]["offset"] == offset
    assert delivered["group"] == committed["group"] == "xj-g"
    records = rows(CROSS, "records", partition=partition, offset=offset)
    assert [row["packet"] for row in records] == [sent["packet"], delivered["packet"]]
    assert committed["packet"] == next(
        message["first_packet"]
        for message in rows(CROSS, "messages", name="OffsetCommit", kind="request")
        for topic in message["body"]["topics"]
        for each in topic["partitions"]
        if each["partition_index"] == partition and each["committed_offset"] > offset
    )
    assert [wait["what"].split(" ")[0] for wait in trace["waits"]] == ["until", "in", "held"]
    assert trace["not_seen"] == []


def test_a_key_finds_each_of_its_records():
    found = traced(CROSS, "--key", "k1")
    assert found["found"] == 1
    assert found["traces"][0]["about"]["value"].startswith("v1-")


def idempotent(value, sequence):
    """A batch of one record with a producer id and a sequence number."""
    batch = bytearray(kafkacraft.record_batch(value, producer=7))
    batch[53:57] = struct.pack(">i", sequence)
    batch[17:21] = struct.pack(">I", crc32c(bytes(batch[21:])))
    return bytes(batch)


def sent(correlation, records, **more):
    topics = [{"name": "orders", "partition_data": [{"index": 0, "records": records}]}]
    return kafkacraft.request(0, 3, correlation, {"acks": -1, "timeout_ms": 1000, "topic_data": topics} | more)


def test_a_record_that_was_sent_again_is_one_record(tmp_path):
    dialogue = [
        client(sent(1, idempotent(b"once", 0))),
        server(kafkacraft.produced(1, -1, error=7)),
        client(sent(2, idempotent(b"once", 0))),
        server(kafkacraft.produced(2, 5)),
    ]
    path = tmp_path / "again.pcap"
    write_pcap(path, segments(dialogue), ports=(40_000, 9092))
    found = traced(path, "--topic", "orders")
    assert found["found"] == 1
    (trace,) = found["traces"]
    assert kinds(trace) == ["produced", "stored", "produced", "stored"]
    assert [step["what"] for step in of_kind(trace, "stored")] == ["refused", "stored"]
    assert of_kind(trace, "stored")[0]["error"] == "REQUEST_TIMED_OUT"
    assert "until it was sent again" in [wait["what"] for wait in trace["waits"]]
    assert "a delivery to a consumer" in trace["not_seen"]


def commit(correlation, group, offset):
    topics = [{"name": "orders", "partitions": [{"partition_index": 0, "committed_offset": offset}]}]
    asked = kafkacraft.request(8, 7, correlation, {"group_id": group, "generation_id": 1, "topics": topics})
    told = [{"name": "orders", "partitions": [{"partition_index": 0}]}]
    return [client(asked), server(kafkacraft.response(8, 7, correlation, {"topics": told}))]


@pytest.mark.parametrize(("offset", "missing"), [(6, []), (5, ["a commit or acknowledgement by client craft"])])
def test_a_commit_of_one_of_two_groups_of_a_client_settles_what_it_got(tmp_path, offset, missing):
    dialogue = [
        client(sent(1, idempotent(b"one", 0))),
        server(kafkacraft.produced(1, 5)),
        *commit(2, "this", 3),
        *commit(3, "other", 3),
        client(kafkacraft.fetch(4, topics=kafkacraft.ASKED)),
        server(kafkacraft.fetched(4, kafkacraft.record_batch(b"one", base=5))),
        *commit(5, "this", offset),
    ]
    path = tmp_path / "two.pcap"
    write_pcap(path, segments(dialogue), ports=(40_000, 9092))
    (trace,) = traced(path, "--topic", "orders")["traces"]
    assert [step.get("group") for step in of_kind(trace, "delivered")] == [None]
    assert trace["not_seen"] == missing


def test_an_error_of_another_partition_is_none_of_a_record(tmp_path):
    topics = [{"name": "orders", "partition_data": [{"index": i, "records": idempotent(b"x", 0)} for i in (0, 1)]}]
    request = kafkacraft.request(0, 3, 1, {"acks": -1, "timeout_ms": 1000, "topic_data": topics})
    answers = [
        {"index": 0, "error_code": 10, "base_offset": -1, "log_append_time_ms": -1},
        {"index": 1, "error_code": 0, "base_offset": 9, "log_append_time_ms": -1},
    ]
    body = {"responses": [{"name": "orders", "partition_responses": answers}]}
    path = tmp_path / "two.pcap"
    write_pcap(path, segments([client(request), server(kafkacraft.response(0, 3, 1, body))]), ports=(40_000, 9092))
    first, second = (traced(path, "--partition", partition)["traces"][0] for partition in (0, 1))
    assert of_kind(first, "stored")[0]["error"] == "MESSAGE_TOO_LARGE"
    assert of_kind(second, "stored")[0]["what"] == "stored"
    assert of_kind(second, "stored")[0]["details"] == {"offset": 9}


def test_a_record_without_an_answer_says_why(tmp_path):
    path = tmp_path / "silent.pcap"
    write_pcap(
        path,
        segments([client(sent(1, idempotent(b"one", 0))), client(sent(2, idempotent(b"two", 1)))]),
        ports=(40_000, 9092),
    )
    first, second = traced(path, "--topic", "orders", "--decode-as", "9092=kafka")["traces"]
    assert [step["error"] for step in (*first["steps"], *second["steps"])] == ["no answer"] * 2


# ---- Pulsar


@pytest.mark.parametrize("number", range(3))
def test_a_poisoned_message_of_pulsar_is_followed_to_its_dead_letter_topic(number):
    (trace,) = traced(NACK_DLQ, "--message-id", f"92:{number}:-1")["traces"]
    told = truth(NACK_DLQ)["topics"]["persistent://public/default/orders-dlq"]
    deliveries = [count for value, count in told["deliveries"] if value == f"ord poison {number}"]
    own = [step for step in of_kind(trace, "delivered") if "topic" not in step]
    assert [step["what"] for step in own] == [
        "delivered" if count == 0 else f"delivered again (attempt {count + 1})" for count in deliveries
    ]
    (copied,) = of_kind(trace, "copied")
    assert copied["topic"] == "persistent://public/default/orders-dlq-graveyard"
    assert [step["group"] for step in of_kind(trace, "delivered")] == ["billing"] * 3 + ["undertaker"]
    assert [step["group"] for step in of_kind(trace, "acked")] == ["billing", "undertaker"]
    assert len(of_kind(trace, "nacked")) == 2


def test_an_acknowledgement_of_some_messages_of_a_batch_is_about_these_alone():
    acked = truth(ACKS)["steps"][2]["ids"]
    assert acked == ["197:6:-1:1", "197:6:-1:2"]
    counts = {}
    for index in range(6):
        (trace,) = traced(ACKS, "--message-id", f"197:6:-1:{index}")["traces"]
        counts[index] = len(of_kind(trace, "acked"))
    assert [index for index, count in counts.items() if count] == [1, 2]


def test_a_cumulative_acknowledgement_is_about_what_stands_before_it_in_its_topic():
    for index, count in ((0, 1), (1, 1), (2, 0)):
        (trace,) = traced(ACKS, "--message-id", f"199:1:-1:{index}")["traces"]
        assert len(of_kind(trace, "acked")) == count
    (other,) = traced(ACKS, "--message-id", "197:6:-1:0")["traces"]
    assert not of_kind(other, "acked")


def pulsar(path, *dialogue):
    opening = [client(pulsarcraft.connect()), server(pulsarcraft.connected()), pulsarcraft.SUBSCRIBE]
    write_pcap(path, segments([*opening, *dialogue]), ports=(40_000, 6650))
    return path


def test_a_wish_for_all_that_is_unacknowledged_is_about_what_the_consumer_holds(tmp_path):
    again = client(pulsarcraft.frame("REDELIVER_UNACKNOWLEDGED_MESSAGES", consumer_id=1))
    dialogue = [
        pulsarcraft.deliver(1, sequence_id=1),
        pulsarcraft.deliver(2, sequence_id=2),
        pulsarcraft.ack(1),
        again,
        pulsarcraft.deliver(2, sequence_id=2, told={"redelivery_count": 1}),
        pulsarcraft.ack(2),
    ]
    path = pulsar(tmp_path / "all.pcap", *dialogue)
    first, second = (traced(path, "--message-id", f"7:{entry}:-1")["traces"][0] for entry in (1, 2))
    assert kinds(first) == ["delivered", "acked"]
    assert kinds(second) == ["delivered", "nacked", "delivered", "acked"]
    assert of_kind(second, "delivered")[1]["what"] == "delivered again (attempt 2)"


def test_a_message_that_was_sent_again_is_one_by_its_sequence_number_and_time(tmp_path):
    receipt = {"producer_id": 1, "sequence_id": 4, "message_id": {"ledger_id": 7, "entry_id": 9}}
    dialogue = [
        pulsarcraft.PRODUCER,
        server(pulsarcraft.frame("PRODUCER_SUCCESS", request_id=1, producer_name="p-0")),
        client(pulsarcraft.send(b"v", sequence=4)),
        client(pulsarcraft.send(b"v", sequence=4)),
        server(pulsarcraft.frame("SEND_RECEIPT", **receipt)),
        client(pulsarcraft.send(b"v", sequence=4, publish_time=2)),
        pulsarcraft.deliver(9, sequence_id=4),
    ]
    found = traced(pulsar(tmp_path / "again.pcap", *dialogue), "--topic", "orders")
    assert [kinds(trace) for trace in found["traces"]] == [
        ["produced", "produced", "stored", "delivered"],
        ["produced"],
    ]


def test_each_message_of_a_batch_is_acknowledged_once(tmp_path):
    slots = [(b"a", {}), (b"b", {}), (b"c", {})]
    batch = pulsarcraft.message(pulsarcraft.batch(*slots), entry_id=1, num_messages_in_batch=3)
    acks = [pulsarcraft.ack(1, ack_set=[bits]) for bits in (0b110, 0b100)]
    path = pulsar(tmp_path / "batch.pcap", server(batch), *acks)
    packets = [
        [step["packet"] for step in of_kind(traced(path, "--message-id", f"7:1:-1:{index}")["traces"][0], "acked")]
        for index in range(3)
    ]
    assert list(map(len, packets)) == [1, 1, 0]
    assert packets[0] < packets[1]


# ---- NSQ


def test_a_message_of_nsq_that_times_out_shows_each_delivery_and_the_refused_fin():
    seen = [each for each in truth(MSG_TIMEOUT)["messages_seen"] if each["id"] == "18a2faf2f26cf000"]
    (trace,) = traced(MSG_TIMEOUT, "--message-id", "18a2faf2f26cf000")["traces"]
    delivered, finished = of_kind(trace, "delivered"), of_kind(trace, "acked")
    assert len(delivered) == len(seen) == 3
    assert [step["error"] for step in delivered] == ["timed out: not settled in time"] * 3
    assert [step["error"] for step in finished] == ["E_FIN_FAILED"] * 3
    assert kinds(trace)[:2] == ["produced", "stored"]
    assert trace["steps"][0]["what"] == "produced (found by its content)"
    assert any(wait["what"] == "held by group s before FIN" for wait in trace["waits"])


def test_content_that_was_sent_twice_names_no_message(tmp_path):
    ids = nsqcraft.ids(2)
    dialogue = [
        client(nsqcraft.MAGIC + nsqcraft.line("SUB", "orders", "ch"), nsqcraft.line("RDY", "2")),
        server(nsqcraft.response(b"OK")),
        client(nsqcraft.pub("orders", b"same"), nsqcraft.pub("orders", b"same")),
        server(nsqcraft.response(b"OK"), nsqcraft.response(b"OK")),
        server(nsqcraft.message(ids[0], b"same"), nsqcraft.message(ids[1], b"same")),
    ]
    path = tmp_path / "twice.pcap"
    write_pcap(path, segments(dialogue))
    (trace,) = traced(path, "--message-id", ids[0])["traces"]
    assert kinds(trace) == ["delivered"]
    assert "which of the 2 sends with this content it is" in trace["not_seen"]


# ---- RocketMQ


def test_popped_messages_of_rocketmq_are_acknowledged_one_by_one_and_in_batches():
    acked = rows(POP_RAW, "messages", name="ACK_MESSAGE", kind="request")
    ext = acked[0]["body"]["ext_fields"]
    place = ("--topic", ext["topic"], "--partition", ext["queue_id"], "--offset", ext["offset"])
    (trace,) = traced(POP_RAW, *place)["traces"]
    assert of_kind(trace, "acked")[0]["packet"] == acked[0]["first_packet"]
    assert kinds(trace)[:4] == ["produced", "stored", "delivered", "acked"]
    (batch, *_) = rows(POP_RAW, "messages", name="BATCH_ACK_MESSAGE", kind="request")
    ack = batch["body"]["body"]["acks"][0]
    offset = ack["start_offset"] + ack["bit_set"][-1]
    (trace,) = traced(POP_RAW, "--topic", ack["topic"], "--partition", ack["queue_id"], "--offset", offset)["traces"]
    assert batch["first_packet"] in [step["packet"] for step in of_kind(trace, "acked")]


def test_a_message_whose_invisible_time_was_changed_is_delivered_again():
    changed = rows(POP_RAW, "messages", name="CHANGE_MESSAGE_INVISIBLETIME", kind="request")
    ext = changed[0]["body"]["ext_fields"]
    place = ("--topic", ext["topic"], "--partition", ext["queue_id"], "--offset", ext["offset"])
    (trace,) = traced(POP_RAW, *place)["traces"]
    assert of_kind(trace, "nacked")[0]["packet"] == changed[0]["first_packet"]
    assert "until it was delivered again" in [wait["what"] for wait in trace["waits"]]


# ---- what a capture does not show


def test_a_record_without_its_produce_says_so(tmp_path):
    deliver = acknowledged((server(nsqcraft.message(nsqcraft.ids(1)[0], b"alone")), 0))
    path = tmp_path / "alone.pcap"
    opening = [client(nsqcraft.MAGIC + nsqcraft.line("SUB", "orders", "ch")), server(nsqcraft.response(b"OK"))]
    write_pcap(path, segments([*opening, *deliver]))
    (trace,) = traced(path, "--topic", "orders")["traces"]
    assert trace["not_seen"] == [
        "how it was produced (before the capture began, or on a connection that was not captured)",
        "a commit or acknowledgement by group ch",
    ]


def test_sends_without_a_delivery_are_not_told_apart_by_their_content(tmp_path):
    path = tmp_path / "sends.pcap"
    dialogue = [
        client(nsqcraft.MAGIC + nsqcraft.pub("orders", b"same"), nsqcraft.pub("orders", b"same")),
        server(nsqcraft.response(b"OK"), nsqcraft.response(b"OK")),
    ]
    write_pcap(path, segments(dialogue))
    (trace,) = traced(path, "--topic", "orders")["traces"]
    assert [step["what"] for step in of_kind(trace, "produced")] == ["produced"] * 2
    assert "whether the 2 sends with this content are one record or several" in trace["not_seen"]


def test_a_capture_of_one_side_says_so(tmp_path):
    path = tmp_path / "server.pcap"
    ids = nsqcraft.ids(2)
    dialogue = [
        client(nsqcraft.MAGIC + nsqcraft.line("SUB", "orders", "ch")),
        server(nsqcraft.response(b"OK"), *(nsqcraft.message(each, b"body") for each in ids)),
        client(nsqcraft.line("FIN", ids[0])),
    ]
    write_pcap(path, [packet for packet in segments(dialogue) if packet.side == 1])
    (trace, _) = traced(path, "--message-id", ids[0], "--message-id", ids[1])["traces"]
    assert kinds(trace) == ["delivered"]
    assert any(each.startswith("the client's side of ") for each in trace["not_seen"])


def test_clocks_that_disagree_are_told(tmp_path):
    """The consumer's tap is half a second after the producer's."""
    early, late = tmp_path / "consumer.pcap", tmp_path / "producer.pcap"
    opening = [client(nsqcraft.MAGIC + nsqcraft.line("SUB", "orders", "ch")), server(nsqcraft.response(b"OK"))]
    delivered = segments([*opening, server(nsqcraft.message(nsqcraft.ids(1)[0], b"body"))])
    published = segments([client(nsqcraft.MAGIC + nsqcraft.pub("orders", b"body")), server(nsqcraft.response(b"OK"))])
    write_pcap(early, delivered)
    write_pcap(late, [replace(packet, ts_ns=packet.ts_ns + 500_000_000) for packet in published], ports=(40_001, 4150))
    (trace,) = traced(early, late, "--topic", "orders")["traces"]
    assert kinds(trace) == ["delivered", "produced", "stored"]
    assert any("the clocks of the captures disagree" in each for each in trace["not_seen"])


def test_a_copy_in_a_dead_letter_topic_of_kafka_is_found_by_its_headers():
    """Spring Kafka and Connect name the record that they could not work on."""
    spring = {
        "kafka_dlt-original-topic": b"orders",
        "kafka_dlt-original-partition": b"\x00\x00\x00\x03",
        "kafka_dlt-original-offset": b"\x00" * 7 + b"\x2a",
    }
    assert Kafka.origin(spring) == RecordOrigin("orders", 3, 42)
    connect = {
        f"__connect.errors.{name}": value for name, value in (("topic", b"t"), ("partition", b"1"), ("offset", b"7"))
    }
    assert Kafka.origin(connect) == RecordOrigin("t", 1, 7)
    assert Kafka.origin({"other": b"x"}) is None
