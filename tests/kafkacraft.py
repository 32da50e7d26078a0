"""Kafka on the wire: headers written from the protocol guide, bodies by ``struct_encoder``, batches by hand.

A body is given as far as it matters; what is left out is zero, empty or null.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from crc32c import crc32c
from lengths import zigzag
from struct_encoder import encode

from mqsniff.spec.schema import FieldLayout, Struct
from mqsniff.testing.conversations import Say, client, server
from mqsniff_kafka import specs

TOPIC_ID = "q83vEjRWeJCrze8SNFZ4kA"
LATE = "ZZZZZZZZQQGZZZZZZZZZZA"
"""Topic id whose name is told late."""
PRODUCE, FETCH, LIST_OFFSETS, METADATA, OFFSET_COMMIT, OFFSET_FETCH = 0, 1, 2, 3, 8, 9
FIND_COORDINATOR, JOIN_GROUP, HEARTBEAT, LEAVE_GROUP, SYNC_GROUP = 10, 11, 12, 13, 14
SASL_HANDSHAKE, API_VERSIONS, CREATE_TOPICS, DESCRIBE_CONFIGS, SASL_AUTHENTICATE = 17, 18, 19, 32, 36


# ---- frames


def sized(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def request(
    key: int, version: int, correlation: int, given: dict[str, Any] | None = None, client_id: str | None = "craft"
) -> bytes:
    """A request of a known version."""
    layout = specs.layouts(key, "request", version)[0]
    flexible = specs.apis()[key].flexible_requests.holds(version)
    body = encode(layout.struct, filled(layout.struct, given or {}))
    return raw_request(key, version, correlation, body, client_id, flexible=flexible)


def raw_request(
    key: int, version: int, correlation: int, body: bytes, client_id: str | None = "craft", *, flexible: bool = False
) -> bytes:
    """A request with a body of any bytes."""
    name = b"\xff\xff" if client_id is None else struct.pack(">h", len(client_id)) + client_id.encode()
    head = struct.pack(">hhi", key, version, correlation) + name + (b"\x00" if flexible else b"")
    return sized(head + body)


def response(key: int, version: int, correlation: int, given: dict[str, Any] | None = None) -> bytes:
    """A response to a request of a known version."""
    layout = specs.layouts(key, "response", version)[0]
    flexible = key != API_VERSIONS and specs.apis()[key].flexible_responses.holds(version)
    body = encode(layout.struct, filled(layout.struct, given or {}))
    return sized(struct.pack(">i", correlation) + (b"\x00" if flexible else b"") + body)


def filled(layout: Struct, given: dict[str, Any]) -> dict[str, Any]:
    """A whole body."""
    body = {item.name: _filled(item, given.get(item.name, ...)) for item in layout.items}
    return body | {item.name: _filled(item, given[item.name]) for item in layout.tagged if item.name in given}


def _filled(item: FieldLayout, value: Any) -> Any:
    if value is ...:
        return None if item.nullable else [] if item.array else _default(item)
    if item.struct is None or value is None:
        return value
    return [filled(item.struct, one) for one in value] if item.array else filled(item.struct, value)


def _default(item: FieldLayout) -> Any:
    match item.type:
        case "struct":
            assert item.struct is not None
            return filled(item.struct, {})
        case "string":
            return ""
        case "bytes" | "records":
            return b""
        case "uuid":
            return "A" * 22
    return 0


# ---- record data


def record_batch(*values: bytes, base: int = 0, producer: int = -1, attributes: int = 0, key: bytes = b"") -> bytes:
    """A batch of magic 2 without compression."""
    records = b"".join(_record(index, key or None, value) for index, value in enumerate(values))
    count = len(values)
    checked = struct.pack(">hiqqqhii", attributes, count - 1, 1000, 1000, producer, 0, -1, count) + records
    return struct.pack(">qiibI", base, len(checked) + 9, 0, 2, crc32c(checked)) + checked


def _record(delta: int, key: bytes | None, value: bytes) -> bytes:
    keyed = zigzag(-1, 32) if key is None else zigzag(len(key), 32) + key
    body = b"\x00" + zigzag(0, 64) + zigzag(delta, 32) + keyed + zigzag(len(value), 32) + value + zigzag(0, 32)
    return zigzag(len(body), 32) + body


def control_batch(kind: int, base: int, producer: int) -> bytes:
    """The marker that ends a transaction: 0 abort, 1 commit."""
    return record_batch(bytes(6), base=base, producer=producer, attributes=0x30, key=struct.pack(">hh", 0, kind))


def subscription(*topics: str) -> bytes:
    """Metadata of a member of a consumer group, version 0."""
    names = b"".join(struct.pack(">h", len(topic)) + topic.encode() for topic in topics)
    return struct.pack(">hi", 0, len(topics)) + names + struct.pack(">i", -1)


# ---- conversations


def produce(correlation: int, *values: bytes, acks: int = 1, version: int = 3) -> bytes:
    partition = {"index": 0, "records": record_batch(*values)}
    body = {"acks": acks, "timeout_ms": 1000, "topic_data": [{"name": "orders", "partition_data": [partition]}]}
    return request(PRODUCE, version, correlation, body)


def produced(correlation: int, offset: int, error: int = 0, version: int = 3) -> bytes:
    partition = {"index": 0, "error_code": error, "base_offset": offset, "log_append_time_ms": -1}
    body = {"responses": [{"name": "orders", "partition_responses": [partition]}]}
    return response(PRODUCE, version, correlation, body)


def fetch(correlation: int, version: int = 12, *, session: int = 0, epoch: int = 0, **given: Any) -> bytes:
    body = {"replica_id": -1, "max_wait_ms": 500, "session_id": session, "session_epoch": epoch, "rack_id": ""}
    return request(FETCH, version, correlation, body | given)


def fetched(correlation: int, records: bytes | None, version: int = 12, *, session: int = 0, **given: Any) -> bytes:
    partition = {"partition_index": 0, "high_watermark": 9, "records": records} | given
    topics = [] if records is None else [{"topic": "orders", "partitions": [partition]}]
    return response(FETCH, version, correlation, {"session_id": session, "responses": topics})


ASKED = [{"topic": "orders", "partitions": [{"partition": 0, "fetch_offset": 5, "partition_max_bytes": 1 << 20}]}]
LED = [{"leader_id": 1, "replica_nodes": [1], "isr_nodes": [1]}]
NAMED = [{"name": "orders", "topic_id": TOPIC_ID, "partitions": LED}]
BROKERS = [{"node_id": 1, "host": "broker", "port": 9092}]


def metadata(name: str, topic_id: str) -> list[Say]:
    """A client whose broker tells the name of a topic id."""
    told = {"brokers": BROKERS, "topics": [{"name": name, "topic_id": topic_id, "partitions": LED}]}
    return [("c", request(METADATA, 12, 1, {"topics": None})), ("s", response(METADATA, 12, 1, told))]


def fetches_by_id(*topic_ids: str) -> list[Say]:
    """A consumer that knows its topics by ids alone, and a broker that has nothing new."""
    pending = [{"topic_id": each, "partitions": [{"partition": 0}]} for each in topic_ids]
    return [
        ("c", request(FETCH, 16, 1, {"max_wait_ms": 5, "topics": pending})),
        ("s", response(FETCH, 16, 1, {"session_id": 7})),
    ]


def consumer() -> list[Say]:
    """A consumer of a group that fetches in a session."""
    joining = {"group_id": "g", "protocol_type": "consumer", "session_timeout_ms": 9000, "rebalance_timeout_ms": 60_000}
    protocols = [{"name": "range", "metadata": subscription("orders")}]
    member = {"group_id": "g", "generation_id": 1, "member_id": "m"}
    offsets = [{"group_id": "g", "topics": [{"name": "orders", "partition_indexes": [0]}]}]
    partition = {"partition_index": 0, "committed_offset": 5, "committed_leader_epoch": -1}
    committed = [{"group_id": "g", "topics": [{"name": "orders", "partitions": [partition]}]}]
    return [
        client(request(API_VERSIONS, 3, 0, {"client_software_name": "craft", "client_software_version": "1.0"})),
        server(response(API_VERSIONS, 3, 0, {"api_keys": [{"api_key": 3, "max_version": 13}]})),
        client(request(METADATA, 12, 1, {"topics": [{"name": "orders"}]})),
        server(response(METADATA, 12, 1, {"brokers": BROKERS, "topics": NAMED})),
        client(request(JOIN_GROUP, 9, 2, joining | {"protocols": protocols})),
        server(response(JOIN_GROUP, 9, 2, {"error_code": 79, "member_id": "m"})),
        client(request(JOIN_GROUP, 9, 3, joining | {"protocols": protocols, "member_id": "m"})),
        server(response(JOIN_GROUP, 9, 3, {"generation_id": 1, "protocol_type": "consumer", "protocol_name": "range"})),
        client(request(SYNC_GROUP, 5, 4, member | {"protocol_type": "consumer", "protocol_name": "range"})),
        server(response(SYNC_GROUP, 5, 4, {"protocol_type": "consumer", "protocol_name": "range"})),
        client(request(OFFSET_FETCH, 8, 5, {"groups": offsets})),
        server(response(OFFSET_FETCH, 8, 5, {"groups": committed})),
        client(fetch(6, topics=ASKED), request(HEARTBEAT, 4, 7, member)),
        server(fetched(6, record_batch(b"one", b"two", base=5), session=77)),
        server(response(HEARTBEAT, 4, 7)),
        client(fetch(8, session=77, epoch=1)),
        server(fetched(8, None, session=77)),
        client(request(LEAVE_GROUP, 5, 9, {"group_id": "g", "members": [{"member_id": "m"}]})),
        server(response(LEAVE_GROUP, 5, 9, {"members": [{"member_id": "m"}]})),
    ]


def producer() -> list[Say]:
    """A producer that sends on before answers come, asks for what nobody knows, and ends without wanting answers."""
    oldest = [{"name": "orders", "partitions": [{"timestamp": -2}]}]
    found = [{"name": "orders", "partitions": [{"offset": 3}]}]
    return [
        client(raw_request(API_VERSIONS, 0, 1, b"\x00\x00\x00\x00")),
        server(response(API_VERSIONS, 0, 1, {"api_keys": [{"api_key": 0, "max_version": 3}]})),
        client(request(METADATA, 1, 2, {"topics": [{"name": "orders"}]})),
        server(response(METADATA, 1, 2, {"brokers": BROKERS, "controller_id": 1, "topics": NAMED})),
        client(produce(3, b"a"), produce(4, b"b", b"c"), produce(5, b"d")),
        server(produced(3, 10)),
        client(request(LIST_OFFSETS, 1, 6, {"replica_id": -1, "topics": oldest})),
        server(produced(4, 11), produced(5, -1, error=10)),
        server(response(LIST_OFFSETS, 1, 6, {"topics": found})),
        client(produce(7, b"e", acks=0), produce(8, b"f", acks=-1)),
        server(produced(8, 14)),
    ]


def fallback() -> list[Say]:
    """A client that is newer than its broker, twice."""
    too_new = struct.pack(">ihihhh", 9, 35, 1, 18, 0, 3)
    return [
        client(request(API_VERSIONS, 5, 9, {"client_software_name": "craft"})),
        server(sized(too_new)),
        client(request(API_VERSIONS, 3, 10, {"client_software_name": "craft"})),
        server(response(API_VERSIONS, 3, 10, {"api_keys": [{"api_key": 18, "max_version": 3}]})),
        client(raw_request(METADATA, 99, 11, b"\x01\x02\x03", flexible=True)),
        server(sized(struct.pack(">iB", 11, 0) + b"tomorrow")),
        client(raw_request(10_001, 0, 12, b"vendor")),
        server(sized(struct.pack(">i", 12) + b"answer")),
    ]


def login_v1() -> list[Say]:
    """SaslAuthenticate, and once more in mid connection with the same correlation ids."""
    first = 2_147_483_640
    token = {"auth_bytes": b"\x00alice\x00wonder"}
    shake = {"mechanism": "PLAIN"}
    return [
        client(request(SASL_HANDSHAKE, 1, first, shake)),
        server(response(SASL_HANDSHAKE, 1, first, {"mechanisms": ["PLAIN"]})),
        client(request(SASL_AUTHENTICATE, 2, first + 1, token)),
        server(response(SASL_AUTHENTICATE, 2, first + 1, {"session_lifetime_ms": 3000})),
        client(request(METADATA, 12, 0)),
        server(response(METADATA, 12, 0, {"brokers": BROKERS})),
        client(request(SASL_HANDSHAKE, 1, first, shake)),
        server(response(SASL_HANDSHAKE, 1, first, {"mechanisms": ["PLAIN"]})),
        client(request(SASL_AUTHENTICATE, 2, first + 1, token)),
        server(response(SASL_AUTHENTICATE, 2, first + 1, {"session_lifetime_ms": 3000})),
    ]


def login_v0() -> list[Say]:
    """Raw tokens; the client's first request comes with its last token's answer still to be fed."""
    return [
        client(request(SASL_HANDSHAKE, 0, 1, {"mechanism": "SCRAM-SHA-256"})),
        server(response(SASL_HANDSHAKE, 0, 1, {"mechanisms": ["SCRAM-SHA-256"]})),
        client(sized(b"n,,n=al=2Cice,r=nonce")),
        server(sized(b"r=nonceserver,s=c2FsdA==,i=4096")),
        client(sized(b"c=biws,r=nonceserver,p=cHJvb2Y=")),
        server(sized(b"v=c2lnbmF0dXJl")),
        client(request(METADATA, 1, 2)),
        server(response(METADATA, 1, 2, {"brokers": BROKERS, "controller_id": 1})),
    ]


_MAKERS: dict[str, Callable[[], list[Say]]] = {
    "consumer": consumer,
    "producer": producer,
    "fallback": fallback,
    "login by SaslAuthenticate": login_v1,
    "login by raw tokens": login_v0,
}
CONVERSATIONS = {name: make() for name, make in _MAKERS.items()}
"""Name -> conversation."""
