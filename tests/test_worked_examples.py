"""The worked examples of the protocols' public pages, as the bytes that those pages give or describe, decoded.

The bytes are put together here with ``struct`` and the protobuf runtime, by the pages' words, not by our encoders.
"""

from __future__ import annotations

import json
import struct
import zlib
from typing import Any

import crc32c
from pulsarcraft import command, encoded

from mqsniff.answers.check.asking import asking
from mqsniff.answers.check.goldens import PLAIN
from mqsniff.testing import Say, client, segments, server, write_pcap


def rows(tmp_path, dialogue: list[Say], port: int, table: str = "messages") -> list[dict[str, Any]]:
    path = tmp_path / "page.pcap"
    write_pcap(path, segments(dialogue), ports=(40_000, port))
    with asking(path, PLAIN) as ask:
        found = ask(f"from {table} order by ts_ns")
        assert ask("select kind, detail from problems where severity <> 'info'") == []
    for row in found:
        if "body" in row:
            row["body"] = json.loads(row["body"])
    return found


def sized(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


# ---- Kafka: "Kafka protocol practical guide" (Ivan Yurchenko), and the protocol guide of kafka.apache.org


def kafka_text(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def test_kafka_metadata_v1_of_the_practical_guide(tmp_path):
    request = struct.pack(">hhi", 3, 1, 1) + kafka_text("test") + struct.pack(">i", 1) + kafka_text("test1")
    broker = struct.pack(">i", 0) + kafka_text("bogon") + struct.pack(">ih", 9092, -1)
    partition = struct.pack(">hiii", 0, 0, 0, 1) + struct.pack(">iii", 0, 1, 0)
    topic = struct.pack(">h", 0) + kafka_text("test1") + b"\0" + struct.pack(">i", 1) + partition
    response = struct.pack(">ii", 1, 1) + broker + struct.pack(">ii", 0, 1) + topic
    assert len(response) == 73
    asked, answered = rows(tmp_path, [client(sized(request)), server(sized(response))], 9092)
    assert (asked["name"], asked["version"], asked["client_id"], asked["topics"]) == ("Metadata", 1, "test", ["test1"])
    assert asked["body"]["topics"] == [{"name": "test1"}]
    body = answered["body"]
    assert body["brokers"] == [{"node_id": 0, "host": "bogon", "port": 9092, "rack": None}]
    assert body["controller_id"] == 0
    (told,) = body["topics"]
    assert (told["name"], told["is_internal"], told["error_code"]) == ("test1", False, 0)
    assert told["partitions"] == [
        {"error_code": 0, "partition_index": 0, "leader_id": 0, "replica_nodes": [0], "isr_nodes": [0]}
    ]


def kafka_message(key: bytes | None, value: bytes | None) -> bytes:
    """A message of magic 0: CRC-32 over magic, attributes, key and value."""

    def nullable(data: bytes | None) -> bytes:
        return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data

    body = b"\0\0" + nullable(key) + nullable(value)
    message = struct.pack(">I", zlib.crc32(body)) + body
    return struct.pack(">qi", 0, len(message)) + message


def test_kafka_message_set_of_the_protocol_guide(tmp_path):
    """ "Message sets" of the guide: offset, size, crc, magic byte, attributes, key, value; -1 is null."""
    data = kafka_message(b"k", b"v") + kafka_message(None, b"only a value")
    partition = struct.pack(">ii", 0, len(data)) + data
    topic = kafka_text("t") + struct.pack(">i", 1) + partition
    request = struct.pack(">hhi", 0, 0, 7) + kafka_text("c") + struct.pack(">hii", 1, 1500, 1) + topic
    response = struct.pack(">ii", 7, 1) + kafka_text("t") + struct.pack(">iihq", 1, 0, 0, 500)
    found = rows(tmp_path, [client(sized(request)), server(sized(response))], 9092, "records")
    told = [(row["key"], row["value"], row["offset"], row["checksum_ok"], row["ack"]) for row in found]
    assert told == [(b"k", b"v", 500, True, "acked"), (None, b"only a value", 501, True, "acked")]


# ---- NSQ: "TCP Protocol Spec" of nsq.io


def nsq_frame(kind: int, data: bytes) -> bytes:
    return sized(struct.pack(">i", kind) + data)


def test_nsq_commands_of_the_specification(tmp_path):
    mid = b"0123456789abcdef"
    message = struct.pack(">qH", 1_700_000_000_123_456_789, 1) + mid + b"body"
    ok = server(nsq_frame(0, b"OK"))
    dialogue = [
        client(b"  V2"),
        client(b"PUB orders\n" + sized(b"one")),
        ok,
        client(b"MPUB orders\n" + sized(struct.pack(">i", 2) + sized(b"two") + sized(b"three"))),
        ok,
        client(b"DPUB orders 1500\n" + sized(b"later")),
        ok,
        client(b"SUB orders billing\n"),
        ok,
        client(b"RDY 10\n"),
        server(nsq_frame(2, message)),
        client(b"FIN " + mid + b"\n"),
        server(nsq_frame(0, b"_heartbeat_")),
        client(b"NOP\n"),
        client(b"CLS\n"),
        server(nsq_frame(0, b"CLOSE_WAIT")),
    ]
    found = rows(tmp_path, dialogue, 4150)
    sent = [row["name"] for row in found if row["side"] == "client"]
    assert sent == ["MAGIC", "PUB", "MPUB", "DPUB", "SUB", "RDY", "FIN", "NOP", "CLS"]
    answers = [row["name"] for row in found if row["side"] == "server"]
    assert answers == ["RESPONSE"] * 4 + ["MESSAGE", "HEARTBEAT", "RESPONSE"]
    (delivered,) = (row for row in found if row["name"] == "MESSAGE")
    assert delivered["body"]["message_id"] == mid.decode()
    assert (delivered["body"]["attempts"], delivered["topics"]) == (1, ["orders"])
    (delayed,) = (row for row in found if row["name"] == "DPUB")
    assert delayed["body"]["defer_ms"] == 1500
    records = rows(tmp_path, dialogue, 4150, "records")
    assert [row["value"] for row in records] == [b"one", b"two", b"three", b"later", b"body"]


# ---- Pulsar: "Pulsar binary protocol specification" of pulsar.apache.org


def test_pulsar_connect_and_send_of_the_specification(tmp_path):
    topic = "persistent://my-property/my-cluster/my-namespace/my-topic"
    name = "generated-unique-producer-name"
    metadata = encoded("MessageMetadata", producer_name=name, sequence_id=0, publish_time=1)
    tail = sized(metadata) + b"hello"
    connect = command(
        "CONNECT",
        client_version="Pulsar-Client-Java-v1.15.2",
        auth_method_name="my-authentication-plugin",
        auth_data=b"my-auth-data",
        protocol_version=6,
    )
    send = command("SEND", producer_id=1, sequence_id=0, num_messages=1)
    checksum = b"\x0e\x01" + struct.pack(">I", crc32c.crc32c(tail))
    dialogue = [
        client(sized(sized(connect))),
        server(sized(sized(command("CONNECTED", server_version="Pulsar-Broker-v1.15.2", protocol_version=6)))),
        client(sized(sized(command("PRODUCER", topic=topic, producer_id=1, request_id=4)))),
        server(sized(sized(command("PRODUCER_SUCCESS", request_id=4, producer_name=name)))),
        client(sized(sized(send) + checksum + tail)),
    ]
    found = rows(tmp_path, dialogue, 6650)
    assert [row["name"] for row in found] == ["CONNECT", "CONNECTED", "PRODUCER", "PRODUCER_SUCCESS", "SEND"]
    told = found[0]["body"]
    assert told["client_version"] == "Pulsar-Client-Java-v1.15.2"
    assert "my-auth-data" not in json.dumps(told)
    (record,) = rows(tmp_path, dialogue, 6650, "records")
    assert (record["value"], record["topic"], record["producer_name"]) == (b"hello", topic, name)
    assert record["checksum_ok"] is True


# ---- RocketMQ: the remoting protocol of the developer guide (docs/cn/design.md of apache/rocketmq)

EXAMPLE = {
    "code": 310,
    "extFields": {
        "f": "0",
        "g": "1482158310125",
        "d": "4",
        "e": "0",
        "b": "TopicTest",
        "c": "TBW102",
        "a": "please_rename_unique_group_name",
        "j": "0",
        "k": "false",
        "h": "0",
        "i": "TAGS\x01TagA\x02WAIT\x01true\x02",
    },
    "flag": 0,
    "language": "JAVA",
    "opaque": 206,
    "version": 79,
}


def remoting(header: dict[str, Any], body: bytes = b"") -> bytes:
    """Length of all that follows, length of the header, header as JSON, body."""
    text = json.dumps(header).encode()
    return sized(struct.pack(">I", len(text)) + text + body)


def test_rocketmq_send_message_of_the_guide(tmp_path):
    answer = {"code": 0, "flag": 1, "language": "JAVA", "opaque": 206, "version": 79}
    told = {"queueId": "0", "queueOffset": "5", "msgId": "0A0A0A0A00002A9F0000000000000123"}
    dialogue = [client(remoting(EXAMPLE, b"Hello RocketMQ 0")), server(remoting(answer | {"extFields": told}))]
    asked, answered = rows(tmp_path, dialogue, 10911)
    assert (asked["name"], asked["correlation"], asked["topics"]) == ("SEND_MESSAGE_V2", "206", ["TopicTest"])
    fields = asked["body"]["ext_fields"]
    assert (fields["producer_group"], fields["queue_id"]) == ("please_rename_unique_group_name", 0)
    assert (answered["kind"], answered["error_code"]) == ("response", 0)
    (record,) = rows(tmp_path, dialogue, 10911, "records")
    assert (record["value"], record["offset"], record["topic"]) == (b"Hello RocketMQ 0", 5, "TopicTest")
    assert {"key": "TAGS", "value": b"TagA"} in record["headers"]
