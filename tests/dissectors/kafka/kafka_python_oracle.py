"""kafka-python's own messages and encoders as an oracle: filled by chance, their bytes, and what a decoder should find.

Its schemas reach down to version 0 of every API that it knows, which kio's do not. Its names part words otherwise
(``k_raft_version``), so names are to be compared without underscores.
"""

from __future__ import annotations

import importlib
import random
import uuid
import warnings
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from typing import Any, NamedTuple

ROOMS = ("admin", "consumer", "metadata", "producer", "sasl")
with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # it reads its schemas by a call that Python gave up
    from kafka.protocol.api_message import ApiMessage

    for room in ROOMS:
        importlib.import_module(f"kafka.protocol.{room}")

LIMITS = {
    "int8": (-(2**7), 2**7 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
    "uint16": (0, 2**16 - 1),
}


class Case(NamedTuple):
    """A message class of kafka-python at a version."""

    kind: str
    key: int
    version: int
    message: Any


def cases() -> Iterator[Case]:
    for message in sorted(ApiMessage.__subclasses__(), key=lambda one: one.__name__):
        if message._class_version is not None:
            continue
        for version in range(message.max_version + 1):
            yield Case(message.type, message.API_KEY, version, message)


def filled(case: Case, chance: random.Random) -> tuple[bytes, dict[str, Any]]:
    """(the bytes, what a decoder should find by kafka-python's names)."""
    values, expected = _struct(case.message._struct, case.version, chance)
    return bytes(case.message(version=case.version, **values).encode()), expected


def _struct(struct: Any, version: int, chance: random.Random) -> tuple[dict[str, Any], dict[str, Any]]:
    values, expected = {}, {}
    for field in struct._fields:
        if not field.for_version_q(version):
            continue
        if field.tagged_field_q(version) and chance.random() < 0.3:
            continue
        value, found = _field(field, version, chance)
        values[field.name] = value
        if not (field.tagged_field_q(version) and value == field.default):
            expected[field.name] = found
    return values, expected


def _field(field: Any, version: int, chance: random.Random) -> tuple[Any, Any]:
    if field.nullable_for_version_q(version) and chance.random() < 0.25:
        return None, None
    if field.is_array():
        pairs = [_one(field.array_of, version, chance) for _ in range(chance.randint(1, 3))]
        return [value for value, _ in pairs], [found for _, found in pairs]
    return _one(field, version, chance)


def _one(field: Any, version: int, chance: random.Random) -> tuple[Any, Any]:
    """A value as kafka-python wants it, and as a decoder should give it."""
    if field.is_struct():
        values, expected = _struct(field, version, chance)
        return field.data_class(version=version, **values), expected
    match field.type_str.removeprefix("[]"):
        case "bool":
            value = chance.random() < 0.5
        case "string":
            value = "".join(chance.choices("abcé-.", k=chance.choice((1, 5, 130))))
        case "bytes" | "records":
            value = chance.randbytes(chance.choice((1, 7, 200)))
        case "uuid":
            given = uuid.UUID(bytes=chance.randbytes(16))
            return given, urlsafe_b64encode(given.bytes)[:22].decode()
        case "float64":
            value = chance.random()
        case "bitfield":
            bits = set(chance.sample(range(16), 3))
            return bits, sum(1 << bit for bit in bits)
        case name:
            value = chance.randint(*LIMITS[name]) or 1
    return value, value
