"""Lies in RocketMQ (headers of every code, stored messages, batches), in its replication, and in NSQ."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator
from typing import Any

import nsqcraft
import remotingcraft
from lengths import Length, Part, honest, sized

from mqsniff.dissector import Sample
from mqsniff.testing.conversations import Say, client, server
from mqsniff_nsq import Nsq, Nsqlookupd
from mqsniff_rocketmq import RocketMQ, RocketMQHa
from mqsniff_rocketmq.tables import CodePart, tables

from .lies_kafka import converse
from .lying import LengthCase

RESPONSE = 1

# ---- RocketMQ


def binary_parts(code: int, fields: dict[str, list[Part]], body: list[Part], *, flag: int = 0) -> list[Part]:
    """A frame with the header in the serialisation ROCKETMQ."""
    entries: list[Part] = []
    for name, value in fields.items():
        entries += [*sized(">h", [name.encode()]), *sized(">i", value)]
    code = (code + 0x8000 & 0xFFFF) - 0x8000
    head: list[Part] = [struct.pack(">hBhii", code, 0, 435, 7, flag), *sized(">i", [b"remark"])]
    return _frame([*head, *sized(">i", entries)], body, kind=1)


def json_parts(code: int, fields: dict[str, list[Part]], body: list[Part], *, flag: int = 0) -> list[Part]:
    """A frame with a header of JSON, its numbers as lengths."""
    head = json.dumps({"code": code, "flag": flag, "language": "JAVA", "opaque": 7, "version": 435})
    out: list[Part] = [head[:-1].encode(), b',"extFields":{']
    for index, (name, value) in enumerate(fields.items()):
        out += [b'%s"%s":"' % (b"," if index else b"", name.encode()), *value, b'"']
    return _frame([*out, b"}}"], body, kind=0)


def _frame(header: list[Part], body: list[Part], kind: int) -> list[Part]:
    return sized(">i", [bytes([kind]), *sized("u24", header), *body])


def fields_of(part: CodePart) -> dict[str, list[Part]]:
    """A value for each field of a header: numbers of which many are counts, offsets and sizes."""
    numbers = {1, 2}
    return {
        name: [Length("text", 3)] if field.kind in numbers else [b"true" if field.kind == 3 else b"orders"]
        for name, field in part.header.fields.items()
    }


def remoting() -> Iterator[LengthCase]:
    """Every request and response, in both serialisations."""
    for code, request in sorted(tables().requests.items()):
        for write in (binary_parts, json_parts):
            name = f"{request.name} {write.__name__}"
            yield LengthCase(name, write(code, fields_of(request.request), body_of(request.request)), _ask)
            answer = write(0, fields_of(request.response), body_of(request.response), flag=RESPONSE)
            yield LengthCase(f"{name} response", answer, _answer(code))


def body_of(part: CodePart) -> list[Part]:
    """A body of the kind that a code has."""
    match part.body:
        case "stored-message":
            return stored_parts()
        case "stored-messages":
            return stored_parts() * 2
        case "message" if "batch" not in part.header.fields and "m" not in part.header.fields:
            return [b"value"]  # a body of its own, without a length
        case "message" | "message-batch":  # the header says that it is a batch
            return sent_parts()
        case "timer-checkpoint":
            return [bytes(32)]
    return [b"[]" if part.body.startswith("[") else b"{}"]


def _ask(data: bytes) -> list[Any]:
    return converse(RocketMQ, [client(data), client(data)])


def _answer(code: int) -> Any:
    asked = remotingcraft.json_frame(code, 7, {"topic": "orders", "queueId": 2, "consumerGroup": "g"})
    return lambda data: converse(RocketMQ, [client(asked), server(data)])


def stored_parts(magic: int = remotingcraft.MAGIC_V1) -> list[Part]:
    """A message as a broker stores it."""
    topic = sized(">B" if magic == remotingcraft.MAGIC_V1 else ">H", [b"orders"])
    head = struct.pack(">Iiiiqqiq", magic, 0, 0, 0, 1, 4096, 0, remotingcraft.BORN)
    hosts = remotingcraft.host("10.1.2.3", 5) + struct.pack(">q", 9) + remotingcraft.host("10.1.2.4", 10_911)
    rest: list[Part] = [head, hosts, struct.pack(">iq", 0, 0), *sized(">i", [b"value"]), *topic]
    return _counted([*rest, *sized(">H", [b"KEYS\x01k\x02"])])


def sent_parts() -> list[Part]:
    """Three messages of a batch, as a producer sends them."""
    rest = [bytes(12), *sized(">i", [b"value"]), *sized(">H", [b"TAGS\x01t\x02"])]
    return _counted(rest) * 3


def _counted(rest: list[Part]) -> list[Part]:
    """Parts behind a size that counts itself."""
    return [Length(">i", 4 + len(honest(rest))), *rest]


def message_bodies() -> Iterator[LengthCase]:
    """Bodies of messages: what a pull gives, and a batch that a producer sends."""
    fields: dict[str, list[Part]] = {name: [b"3"] for name in remotingcraft.pull_result(9)}
    for magic in (remotingcraft.MAGIC_V1, remotingcraft.MAGIC_V2):
        parts = json_parts(0, fields, stored_parts(magic) * 2, flag=RESPONSE)
        yield LengthCase(f"pulled messages {magic}", parts, _answer(11))
    sent = {name: [str(value).encode()] for name, value in remotingcraft.send_fields(m="true").items()}
    yield LengthCase("a batch that is sent", json_parts(320, sent, sent_parts()), _ask)


def registration() -> Iterator[LengthCase]:
    """What a broker tells a name server of its topics: with lengths, and compressed."""
    parts = sized(">i", [b'{"counter":3,"stateVersion":0,"timestamp":1795255473376}'])
    topics = [sized(">i", [f"{topic} 4 4 6 SINGLE_TAG ".encode()]) for topic in ("orders", "jobs")]
    parts += [Length(">i", 2), *(part for topic in topics for part in topic)]
    parts += [*sized(">i", [b"[]"]), Length(">i", 0)]

    def attempt(data: bytes) -> list[Any]:
        body = zlib.compress(data)
        fields = remotingcraft.registration_fields(body) | {"compressed": "true"}
        return converse(RocketMQ, [client(remotingcraft.json_frame(103, 1, fields, body))])

    yield LengthCase("REGISTER_BROKER compressed", parts, attempt)


def replication() -> Iterator[LengthCase]:
    """What a master sends to its slave: it is counted, not decoded, so its sizes matter to detection alone."""
    parts = [struct.pack(">q", 0), *sized(">i", stored_parts())]
    report = client(remotingcraft.ha_report(0))

    def attempt(data: bytes) -> list[Any]:
        verdict = RocketMQHa.detect(Sample(report.data * 2), Sample(data))
        return [data, verdict, *converse(RocketMQHa, [report, server(data), server(data)])]

    yield LengthCase("replicated log", parts, attempt)


# ---- NSQ


def commands() -> Iterator[LengthCase]:
    """What clients of nsqd send."""
    opening = [client(nsqcraft.MAGIC)]

    def case(name: str, parts: list[Part], before: list[Say] = opening) -> LengthCase:
        tail = client(nsqcraft.line("NOP"), nsqcraft.line("CLS"))
        return LengthCase(name, parts, lambda data: converse(Nsq, [*before, client(data), tail]))

    identify = b'{"client_id":"c","feature_negotiation":true,"heartbeat_interval":3}'
    yield case("IDENTIFY", [b"IDENTIFY\n", *sized(">i", [identify])])
    yield case("AUTH", [b"AUTH\n", *sized(">i", [b"secret"])], nsqcraft.opening(auth_required=True))
    yield case("PUB", [b"PUB orders\n", *sized(">i", [b"value"])])
    yield case("DPUB", [b"DPUB orders ", Length("text", 100), b"\n", *sized(">i", [b"value"])])
    bodies = [part for _ in range(3) for part in sized(">i", [b"value"])]
    yield case("MPUB", [b"MPUB orders\n", *sized(">i", [Length(">i", 3), *bodies])])
    subscribed = [*opening, client(nsqcraft.line("SUB", "orders", "billing")), server(nsqcraft.OK)]
    yield case("RDY", [b"RDY ", Length("text", 3), b"\n"], subscribed)
    (one,) = nsqcraft.ids(1)
    delivered = [*subscribed, client(nsqcraft.line("RDY", "1")), server(nsqcraft.message(one, b"value"))]
    yield case("REQ", [b"REQ " + one.encode() + b" ", Length("text", 100), b"\n"], delivered)


def replies() -> Iterator[LengthCase]:
    """What nsqd sends, and nsqlookupd both ways."""
    opened = nsqcraft.opening()
    message = nsqcraft.message(nsqcraft.ids(1)[0], b"value")[4:]
    for name, data in (("response", b"\0\0\0\0OK"), ("error", b"\0\0\0\1E_INVALID"), ("message", message)):

        def attempt(said: bytes) -> list[Any]:
            return converse(
                Nsq, [*opened, client(nsqcraft.pub("orders", b"v")), server(said), server(nsqcraft.HEARTBEAT)]
            )

        yield LengthCase(name, sized(">i", [data]), attempt)
    magic = client(nsqcraft.LOOKUPD_MAGIC)
    told = b'{"broadcast_address":"h","hostname":"h","http_port":1,"tcp_port":2,"version":"1"}'

    def asks(said: bytes) -> list[Any]:
        return converse(Nsqlookupd, [magic, client(said), client(nsqcraft.line("PING"))])

    def answers(said: bytes) -> list[Any]:
        ping = client(nsqcraft.line("PING"))
        return converse(Nsqlookupd, [magic, ping, server(said), ping, server(nsqcraft.sized(b"OK"))])

    yield LengthCase("IDENTIFY to nsqlookupd", [b"IDENTIFY\n", *sized(">i", [told])], asks)
    yield LengthCase("reply of nsqlookupd", sized(">i", [b"OK"]), answers)


def cases() -> Iterator[LengthCase]:
    """All of them."""
    yield from message_bodies()
    yield from registration()
    yield from replication()
    yield from commands()
    yield from replies()
    yield from remoting()
