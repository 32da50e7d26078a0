"""Lies in Kafka: every request and response in every version, records of internal topics, batches of records."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from typing import Any

import struct_encoder
from crc32c import crc32c
from lengths import Length, Part, honest, sized, uvarint, zigzag

from mqsniff.model import Secret, Side
from mqsniff.spec.layout import Layout
from mqsniff.spec.schema import UNKNOWN_TAGS, FieldLayout, Struct
from mqsniff.testing.conversations import Say, chunks, client, server
from mqsniff.testing.driver import Driver, shown
from mqsniff.testing.laws import claimed_bytes, claimed_twice_or_never
from mqsniff_kafka import Kafka, specs
from mqsniff_kafka.formats.internaltopics import COORDINATED, FRAMED, PREVIEW

from .lying import LengthCase
from .target_dissectors import SMALL, LookingDriver

HEADERLESS_RESPONSE = 18
"""ApiVersions: its responses have no tags in their head."""


def outcome(driver: Driver) -> list[Any]:
    """What a run told, as far as a table shows it: without the bytes themselves."""
    told = []
    for now, event in driver.told:
        plain = shown(event)
        told.append((now, plain[0][:3], *plain[1:]) if isinstance(plain[0], tuple) else (now, *plain))
    return told


def converse(cls: Any, says: list[Say], *, explain: bool = True) -> list[Any]:
    """A conversation: nothing raises, every byte is claimed."""
    driver = LookingDriver(cls, SMALL, explain=explain).run(chunks(says))
    assert [problem.detail for problem in driver.problems if problem.kind == "internal"] == []
    for side in Side:
        assert claimed_twice_or_never(driver, side) == {}
        assert claimed_bytes(driver, side) == sum(stop - start for start, stop in driver.fed[side])
    return outcome(driver)


# ---- messages


def request_parts(key: int, version: int, body: list[Part]) -> list[Part]:
    """A request with its head."""
    flexible = specs.apis()[key].flexible_requests.holds(version)
    name: list[Part] = [] if (key, version) == (7, 0) else sized(">h", [b"craft"])
    head: list[Part] = [struct.pack(">hhi", key, version, 5), *name, *([Length("uvarint", 0)] if flexible else [])]
    return sized(">i", [*head, *body])


def response_parts(key: int, version: int, body: list[Part]) -> list[Part]:
    """A response with its head."""
    flexible = key != HEADERLESS_RESPONSE and specs.apis()[key].flexible_responses.holds(version)
    return sized(">i", [struct.pack(">i", 5), *([Length("uvarint", 0)] if flexible else []), *body])


def messages() -> Iterator[LengthCase]:
    """Every request and response in every version and layout."""
    for key, api in sorted(specs.apis().items()):
        versions = range(min(api.versions.first, api.legacy.first), max(api.versions.last, api.legacy.last) + 1)
        for version in versions:
            for layout in specs.layouts(key, "request", version):
                name = f"{api.name} request v{version} {layout.note}"
                yield LengthCase(name, request_parts(key, version, _body(layout)), _ask)
            for layout in specs.layouts(key, "response", version):
                name = f"{api.name} response v{version} {layout.note}"
                yield LengthCase(name, response_parts(key, version, _body(layout)), _answer(key, version))


def _ask(data: bytes) -> list[Any]:
    return converse(Kafka, [client(data), client(data)], explain=False)


def _answer(key: int, version: int) -> Any:
    layout = specs.layouts(key, "request", version)[0].struct
    smallest = struct_encoder.parts(layout, struct_encoder.some_body(layout, random.Random(1), richness=0))
    asked = honest(request_parts(key, version, smallest))

    def attempt(data: bytes) -> list[Any]:
        return converse(Kafka, [client(asked), server(data)], explain=False)

    return attempt


# ---- records of internal topics


def internal_records() -> Iterator[LengthCase]:
    """Keys and values of records of internal topics, every type and version."""
    for topic, page in COORDINATED.items():
        for kind, number, version, layout in _layouts_of(page):
            body = _body(layout)
            if kind == "key":
                parts: list[Part] = [struct.pack(">h", number), *body]
                yield LengthCase(f"{topic} key {number}", parts, _decode_key(topic))
            else:
                key = struct.pack(">h", number) + honest(_body(specs.record(page, "key", number, 0)[0]))
                value: list[Part] = [struct.pack(">h", version), *body]
                yield LengthCase(f"{topic} value {number} v{version}", value, _decode_value(topic, key))
    for topic, page in FRAMED.items():
        for _kind, number, version, layout in _layouts_of(page):
            frame = 0 if layout.note == PREVIEW else 1
            head = [uvarint(frame), Length("uvarint", number), Length("uvarint", version)]
            yield LengthCase(f"{topic} {number} v{version}", [*head, *_body(layout)], _decode_value(topic, None))


def _layouts_of(page: str) -> Iterator[tuple[Any, int, int, Any]]:
    for kind, number, _, versions in specs.record_types(page):
        for version in range(specs.Versions.parse(versions).first, specs.Versions.parse(versions).last + 1):
            for layout in specs.record(page, kind, number, version):
                yield kind, number, version, layout


def _body(layout: Layout) -> list[Part]:
    return struct_encoder.parts(layout.struct, full_body(layout.struct))


def full_body(struct_: Struct) -> dict[str, Any]:
    """A body with every field: nothing is null, two elements in each array, each tagged field, and an unknown one."""
    body = {item.name: _full(item) for item in (*struct_.items, *struct_.tagged)}
    return body | ({UNKNOWN_TAGS: {"999": b"new"}} if struct_.flexible else {})


def _full(item: FieldLayout) -> Any:
    return [_full_value(item) for _ in range(2)] if item.array else _full_value(item)


def _full_value(item: FieldLayout) -> Any:
    match item.type:
        case "struct":
            assert item.struct is not None
            return full_body(item.struct)
        case "uuid":
            return "A" * 22
        case "records":
            return honest(_batch(0))
        case "string" | "bytes":
            raw = b"orders"
            return Secret(raw) if item.secret else raw.decode() if item.type == "string" else raw
    return 1


def _decode_key(topic: str) -> Any:
    return lambda data: (repr(Kafka.decode_record(topic, data, None)), data)


def _decode_value(topic: str, key: bytes | None) -> Any:
    return lambda data: (repr(Kafka.decode_record(topic, key, data)), data)


# ---- batches of records


def batches() -> Iterator[LengthCase]:
    """Record data of all three formats, in a Produce request."""
    for name, attributes in (("plain", 0), ("control", 0x30)):
        yield LengthCase(f"batch of magic 2, {name}", _batch(attributes), _produce)
    for magic in (0, 1):
        yield LengthCase(f"message set of magic {magic}", _message_set(magic), _produce)


def _batch(attributes: int) -> list[Part]:
    records: list[Part] = []
    for index in range(3):
        header = [*sized("zigzag", [b"trace"]), *sized("zigzag", [b"1f"])]
        body = [b"\0", zigzag(0, 64), zigzag(index, 32), *sized("zigzag", [b"\0\0\0\1"]), *sized("zigzag", [b"value"])]
        records += sized("zigzag", [*body, Length("zigzag", 1), *header])
    checked: list[Part] = [struct.pack(">h", attributes), Length(">i", 2), struct.pack(">qqqhi", 1, 2, -1, 0, -1)]
    checked += [Length(">i", 3), *records]
    crc = struct.pack(">I", crc32c(honest(checked)))
    return [struct.pack(">q", 7), *sized(">i", [struct.pack(">ib", 0, 2), crc, *checked])]


def _message_set(magic: int) -> list[Part]:
    out: list[Part] = []
    for offset in range(3):
        head: list[Part] = [b"\0\0\0\0", bytes((magic, 0)), bytes(8) if magic else b""]
        out += [struct.pack(">q", offset), *sized(">i", [*head, *sized(">i", [b"key"]), *sized(">i", [b"value"])])]
    return out


def _produce(data: bytes) -> list[Any]:
    layout = specs.layouts(0, "request", 3)[0].struct
    partition = {"index": 0, "records": data}
    body = {"transactional_id": None, "acks": 1, "timeout_ms": 9, "topic_data": []}
    body["topic_data"] = [{"name": "orders", "partition_data": [partition]}]
    return converse(Kafka, [client(honest(request_parts(0, 3, struct_encoder.parts(layout, body))))])


def cases() -> Iterator[LengthCase]:
    """All of Kafka."""
    yield from batches()
    yield from internal_records()
    yield from messages()
