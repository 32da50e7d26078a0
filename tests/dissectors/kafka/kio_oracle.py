"""kio's own classes and writers as an oracle: entities filled by chance, their bytes, and what a decoder should find.

kio is generated from Kafka's message definitions by other people. It writes durations and times under shorter names
(``throttle_time`` for ``throttle_time_ms``) and as other types; ``expected`` turns them back.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import io
import random
import typing
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from typing import Any, NamedTuple

from kio.index import load_entity_schema
from kio.schema.errors import ErrorCode
from kio.schema.index import schema_name_map
from kio.serial import entity_writer
from kio.static.constants import EntityType

LIMITS = {
    "int8": (-(2**7), 2**7 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
    "uint16": (0, 2**16 - 1),
}
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


class Case(NamedTuple):
    """An entity of kio: an API's request or response, or a structure with a name only."""

    kind: str
    key: int | None
    name: str
    version: int
    entity: Any


def cases() -> Iterator[Case]:
    for name, versions in schema_name_map.items():
        for version, kinds in versions.items():
            for kind in kinds:
                entity = load_entity_schema(name, version, kind)
                key = (
                    getattr(entity, "__api_key__", None) if kind in (EntityType.request, EntityType.response) else None
                )
                yield Case(kind.name, key, entity.__name__, version, entity)


def written(entity: Any) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return buffer.getvalue()


def filled(kind: type, chance: random.Random) -> Any:
    hints = typing.get_type_hints(kind)
    fields = dataclasses.fields(kind)
    return kind(**{field.name: _filled_field(field, hints[field.name], chance) for field in fields})


def _filled_field(field: Any, hint: Any, chance: random.Random) -> Any:
    optional = type(None) in typing.get_args(hint)
    tagged = field.metadata.get("tag") is not None
    name = field.metadata.get("kafka_type")
    if optional and name not in ("uuid", "datetime_i64") and chance.random() < 0.25 and not tagged:
        return None
    hint = next((part for part in typing.get_args(hint) if part is not type(None)), hint) if optional else hint
    if typing.get_origin(hint) is tuple:
        inner = typing.get_args(hint)[0]
        return tuple(_filled_value(name, inner, chance) for _ in range(chance.randint(0, 3)))
    return _filled_value(name, hint, chance)


def _filled_value(name: str | None, hint: Any, chance: random.Random) -> Any:
    match name:
        case None:
            return filled(hint, chance)
        case "bool":
            return chance.random() < 0.5
        case "string":
            return "".join(chance.choices("abcé-.", k=chance.choice((0, 5, 130))))
        case "bytes" | "records":
            return chance.randbytes(chance.choice((0, 7, 200)))
        case "uuid":
            return uuid.UUID(bytes=chance.randbytes(16))
        case "float64":
            return chance.random()
        case "error_code":
            return chance.choice(list(ErrorCode))
        case "timedelta_i32" | "timedelta_i64":
            return dt.timedelta(milliseconds=chance.randrange(2**31))
        case "datetime_i64":
            return EPOCH + dt.timedelta(milliseconds=chance.randrange(2**41))
        case _:
            return chance.randint(*LIMITS[name])


def expected(entity: Any) -> dict[str, Any]:
    """The fields of an entity that stand on the wire, by kio's names."""
    return {
        field.name: _plain(getattr(entity, field.name))
        for field in dataclasses.fields(entity)
        if not _left_out(field, getattr(entity, field.name))
    }


def _left_out(field: Any, value: Any) -> bool:
    """A tagged field of its default value is not written."""
    if field.metadata.get("tag") is None:
        return False
    default = field.default_factory() if field.default_factory is not dataclasses.MISSING else field.default
    return value == default


def _plain(value: Any) -> Any:
    match value:
        case tuple():
            return [_plain(one) for one in value]
        case uuid.UUID():
            return urlsafe_b64encode(value.bytes)[:22].decode()
        case dt.timedelta():
            return value // dt.timedelta(milliseconds=1)
        case dt.datetime():
            return (value - EPOCH) // dt.timedelta(milliseconds=1)
        case ErrorCode():
            return value.value
        case _ if dataclasses.is_dataclass(value):
            return expected(value)
        case _:
            return value
