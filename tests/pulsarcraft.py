"""Pulsar frames made by the protobuf runtime from plain dicts, and conversations of them: what tests say and ask."""

from __future__ import annotations

import struct
import zlib
from typing import Any

from crc32c import crc32c
from google.protobuf.json_format import ParseDict
from google.protobuf.message_factory import GetMessageClass

from mqsniff.limits import Limits
from mqsniff.testing.conversations import Say, chunks, client, server
from mqsniff.testing.driver import Driver
from mqsniff_pulsar import Pulsar
from mqsniff_pulsar.commands import BY_NAME
from mqsniff_pulsar.messages import PACKAGE, message_type, types

ENTRY, CHECKSUM = b"\x0e\x02", b"\x0e\x01"
NO_REQUEST = (1 << 64) - 1


def encoded(name: str, **fields: Any) -> bytes:
    """A message of the protocol by its own name."""
    message = GetMessageClass(types()[PACKAGE + name]._descriptor)()
    _fill(message, fields)
    return message.SerializePartialToString()


def _fill(message: Any, fields: dict[str, Any]) -> None:
    for name, value in fields.items():
        if isinstance(value, bytes):
            setattr(message, name, value)
        else:
            ParseDict({name: value}, message)


def command(name: str, **fields: Any) -> bytes:
    """A BaseCommand."""
    number = BY_NAME[name].type
    field = message_type("BaseCommand").fields[number].name
    base = GetMessageClass(types()[PACKAGE + "BaseCommand"]._descriptor)(type=number)
    getattr(base, field).SetInParent()
    _fill(getattr(base, field), fields)
    return base.SerializePartialToString()


def framed(base: bytes, behind: bytes = b"") -> bytes:
    """A frame of a BaseCommand and what follows it."""
    return struct.pack(">II", 4 + len(base) + len(behind), len(base)) + base + behind


def frame(name: str, **fields: Any) -> bytes:
    """A frame without payload."""
    return framed(command(name, **fields))


def payload(data: bytes, *, checksum: bool = True, entry: bytes | None = None, **metadata: Any) -> bytes:
    """Metadata and payload as they come after a command."""
    told = encoded("MessageMetadata", **{"producer_name": "p-0", "sequence_id": 0, "publish_time": 1} | metadata)
    rest = struct.pack(">I", len(told)) + told + data
    if checksum:
        rest = CHECKSUM + struct.pack(">I", crc32c(rest)) + rest
    return rest if entry is None else ENTRY + struct.pack(">I", len(entry)) + entry + rest


def send(
    data: bytes, *, producer: int = 1, sequence: int = 0, told: dict[str, Any] | None = None, **more: Any
) -> bytes:
    """A SEND; ``told`` are further fields of its command, ``more`` goes to ``payload``."""
    base = command("SEND", producer_id=producer, sequence_id=sequence, **(told or {}))
    return framed(base, payload(data, **{"sequence_id": sequence} | more))


def message(
    data: bytes, *, consumer: int = 1, entry_id: int = 0, told: dict[str, Any] | None = None, **more: Any
) -> bytes:
    """A MESSAGE of ledger 7."""
    place = {"ledger_id": 7, "entry_id": entry_id, "partition": -1}
    base = command("MESSAGE", consumer_id=consumer, message_id=place, **(told or {}))
    return framed(base, payload(data, **more))


def batch(*slots: tuple[bytes, dict[str, Any]]) -> bytes:
    """The plain payload of a batch: value and fields of SingleMessageMetadata of each message."""
    out = b""
    for value, fields in slots:
        single = encoded("SingleMessageMetadata", **{"payload_size": len(value)} | fields)
        out += struct.pack(">I", len(single)) + single + value
    return out


OPENING = {
    "connect": ("CONNECT", {"client_version": "Pulsar-Java-v4.2.4", "protocol_version": 21}),
    "connected": ("CONNECTED", {"server_version": "Pulsar Server4.2.4", "max_message_size": 5_242_880}),
}


def connect(**fields: Any) -> bytes:
    name, usual = OPENING["connect"]
    return frame(name, **usual | fields)


def connected(**fields: Any) -> bytes:
    name, usual = OPENING["connected"]
    return frame(name, **usual | fields)


# ---- conversations

TOPIC = "persistent://public/default/orders"
PRODUCER = client(frame("PRODUCER", topic=TOPIC, producer_id=1, request_id=1, producer_name="p-0"))
CONSUMER = {"subscription": "billing", "sub_type": "Shared", "consumer_id": 1, "consumer_name": "c"}
SUBSCRIBE = client(frame("SUBSCRIBE", topic=TOPIC, request_id=2, **CONSUMER))


def deliver(*entries: int, **more) -> Say:
    return server(*(message(b"v", entry_id=entry, **more) for entry in entries))


def ack(*entries: int, kind: str = "Individual", ack_set: list[int] | None = None, **more) -> Say:
    sets = {"ack_set": ack_set} if ack_set is not None else {}
    ids = [{"ledger_id": 7, "entry_id": entry, **sets} for entry in entries]
    return client(frame("ACK", consumer_id=1, ack_type=kind, message_id=ids, **more))


def run(*dialogue: Say, limits: Limits | None = None) -> Driver:
    driver = Driver(Pulsar, limits).run(chunks(list(dialogue)))
    assert driver.skipped == []
    return driver


def names(driver: Driver) -> list[tuple[str, str, str | None]]:
    return [(message.name, message.kind, message.correlation) for message in driver.messages]


def ended(driver: Driver, link: str = "answer") -> list[tuple[str, str | None, str | None]]:
    """(name of the question, name of its answer, status) of every question that ended."""
    return [
        (pending.message.name, pending.answer.name if pending.answer else None, pending.status)
        for message in driver.messages
        for pending in message.resolved
        if pending.link == link
    ]


def still_open(driver: Driver, link: str = "answer") -> list[str]:
    return [pending.message.name for pending in driver.dissector.unanswered() if pending.link == link]


def noted(driver: Driver) -> list[tuple[str, str]]:
    return [(problem.kind, problem.severity) for problem in driver.problems]


# ---- conversations for the laws

RECEIPTS = [
    frame("SEND_RECEIPT", producer_id=1, sequence_id=n, message_id={"ledger_id": 7, "entry_id": n}) for n in range(4)
]
SLOTS = [(b"value %d" % n, {"partition_key": f"k{n}", "properties": [{"key": "n", "value": str(n)}]}) for n in range(3)]
BATCHED = {"num_messages_in_batch": 3, "uncompressed_size": len(batch(*SLOTS))}
BATCH = {"told": {"num_messages": 3}, **BATCHED}
CHUNKED = {"uuid": "p-0-3", "num_chunks_from_msg": 2, "total_chunk_msg_size": 10}
OPENED = [
    client(connect(auth_method_name="token", auth_data=b"a.b.c", feature_flags={"supports_auth_refresh": True})),
    server(connected(feature_flags={"supports_topic_watchers": True})),
]
GRANTED = [frame("SUCCESS", request_id=2), frame("PRODUCER_SUCCESS", request_id=1, producer_name="p-0")]
WATCH = {"request_id": 9, "watcher_id": 1, "namespace": "public/default", "topics_pattern": "o.*"}

CONVERSATIONS: dict[str, list[Say]] = {
    "producer": [
        *OPENED,
        client(frame("PARTITIONED_METADATA", topic=TOPIC, request_id=3), frame("LOOKUP", topic=TOPIC, request_id=4)),
        server(frame("PARTITIONED_METADATA_RESPONSE", request_id=3, partitions=0, response="Success")),
        server(frame("LOOKUP_RESPONSE", request_id=4, response="Connect", broker_service_url="pulsar://b:6650")),
        PRODUCER,
        server(frame("PRODUCER_SUCCESS", request_id=1, producer_name="p-0", schema_version=bytes(8))),
        client(send(b"value", properties=[{"key": "a", "value": "b"}]), send(batch(*SLOTS), sequence=1, **BATCH)),
        server(RECEIPTS[0]),
        client(send(zlib.compress(batch(*SLOTS)), sequence=2, compression="ZLIB", **BATCH)),
        server(RECEIPTS[1], RECEIPTS[2]),
        client(*(send(b"chunk", sequence=3, told={"is_chunk": True}, chunk_id=n, **CHUNKED) for n in range(2))),
        server(RECEIPTS[3], frame("PING")),
        client(frame("PONG"), send(b"too late", sequence=4, checksum=False)),
        server(frame("SEND_ERROR", producer_id=1, sequence_id=4, error="TopicTerminatedError", message="over")),
        server(frame("CLOSE_PRODUCER", producer_id=1, request_id=NO_REQUEST)),
        client(frame("GET_SCHEMA", topic=TOPIC, request_id=5)),
        server(frame("ERROR", request_id=5, error="MetadataError", message="no schema")),
    ],
    "consumer": [
        *OPENED,
        SUBSCRIBE,
        server(frame("SUCCESS", request_id=2)),
        client(frame("FLOW", consumer_id=1, message_permits=10)),
        server(
            message(b"value", told={"redelivery_count": 1}, entry=b"\x08\x05\x10\x09"),
            message(batch(*SLOTS), entry_id=1, entry=b"\x08\x05\x10\x0c", **BATCHED),
            message(batch(*SLOTS), entry_id=2, told={"ack_set": [6]}, **BATCHED),
            message(b"sealed", entry_id=3, encryption_keys=[{"key": "k", "value": "dg=="}]),
        ),
        ack(0),
        ack(1, ack_set=[5]),
        ack(2, kind="Cumulative", request_id=6),
        server(frame("ACK_RESPONSE", consumer_id=1, request_id=6)),
        client(frame("REDELIVER_UNACKNOWLEDGED_MESSAGES", consumer_id=1)),
        deliver(3),
        client(frame("GET_LAST_MESSAGE_ID", consumer_id=1, request_id=7)),
        server(
            frame("GET_LAST_MESSAGE_ID_RESPONSE", request_id=7, last_message_id={"ledger_id": 7, "entry_id": 3}),
            frame("ACTIVE_CONSUMER_CHANGE", consumer_id=1, is_active=True),
            frame("REACHED_END_OF_TOPIC", consumer_id=1),
        ),
        client(frame("CLOSE_CONSUMER", consumer_id=1, request_id=8)),
        server(frame("SUCCESS", request_id=8)),
    ],
    "crossing": [
        SUBSCRIBE,
        PRODUCER,
        server(GRANTED[0], knows=len(SUBSCRIBE.data)),
        server(GRANTED[1]),
        client(frame("FLOW", consumer_id=1, message_permits=2), send(b"a")),
        server(RECEIPTS[0], frame("PING")),
        client(send(b"b", sequence=1), frame("PING"), knows=len(b"".join(GRANTED))),
        server(message(b"a"), RECEIPTS[1]),
        client(frame("PONG"), knows=len(b"".join([*GRANTED, RECEIPTS[0], frame("PING")]))),
        server(message(b"b", entry_id=1), frame("PONG")),
        ack(0, 1),
    ],
    "watches and transactions": [
        client(connect()),
        server(frame("AUTH_CHALLENGE", challenge={"auth_method_name": "sasl", "auth_data": "cQ=="})),
        client(frame("AUTH_RESPONSE", response={"auth_method_name": "sasl", "auth_data": "YQ=="})),
        server(connected()),
        client(frame("WATCH_TOPIC_LIST", **WATCH), frame("NEW_TXN", request_id=10, tc_id=0)),
        server(
            frame("WATCH_TOPIC_LIST_SUCCESS", request_id=9, watcher_id=1, topic=[TOPIC], topics_hash="h"),
            frame("NEW_TXN_RESPONSE", request_id=10, txnid_most_bits=0, txnid_least_bits=4),
            frame("WATCH_TOPIC_UPDATE", watcher_id=1, new_topics=["o"], topics_hash="i"),
        ),
        client(
            frame("SCALABLE_TOPIC_LOOKUP", session_id=1, topic="topic://public/default/o"),
            frame("END_TXN", request_id=11, txnid_least_bits=4, txn_action="COMMIT"),
        ),
        server(
            frame("SCALABLE_TOPIC_UPDATE", session_id=1, dag={"epoch": 1}),
            frame("END_TXN_RESPONSE", request_id=11, error="TransactionNotFound", message="gone"),
            frame("SCALABLE_TOPIC_UPDATE", session_id=1, dag={"epoch": 2}),
        ),
        client(frame("SCALABLE_TOPIC_CLOSE", session_id=1)),
    ],
}
"""What ``tests/test_laws.py`` is tried on."""
