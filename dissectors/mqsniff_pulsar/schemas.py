"""Decodes the definitions of schemas in commands, by their types.

Avro, Json, Protobuf   the definition is JSON text
ProtobufNative         JSON text that holds a serialized FileDescriptorSet in base64
KeyValue               u32 size | definition of the key | u32 size | definition of the value; types in properties

1. A definition that cannot be read stays bytes, with a problem; that of a primitive type is empty or free text.
2. JSON of more than DEFINITION_MAX bytes or DEPTH_MAX levels stays bytes: each byte may take 30 bytes of memory.

Sources: ``SchemaInfoUtil``, ``KeyValueSchemaInfo`` and ``ProtobufNativeSchemaUtils`` of Apache Pulsar.
"""

from __future__ import annotations

from binascii import Error as Base64Error
from binascii import a2b_base64
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

import orjson
from google.protobuf import descriptor_pb2

from mqsniff.limits import MIB, Limits
from mqsniff.model import Problem
from mqsniff.spec.protobuf import MessageType, MessageTypes

DEFINITION_MAX: Final = MIB
DEPTH_MAX: Final = 64

DECODED: Final[Mapping[str, str]] = {
    **dict.fromkeys(("avro", "json", "protobuf"), "JSON object"),
    "protobufnative": "JSON object with descriptors",
    "keyvalue": "definitions of key and value",
}
"""Type (lower case) -> reader of its definition."""


class _Unreadable(ValueError):  # noqa: N818  # says what the definition is
    """The definition does not fit the schema's type."""


def open_schema(schema: dict[str, Any], limits: Limits) -> list[Problem]:
    """Replace ``schema["schema_data"]`` by an object if the type has one; returns problems."""
    data, kind = schema.get("schema_data"), schema.get("type")
    if not isinstance(data, bytes) or not isinstance(kind, str):
        return []
    try:
        schema["schema_data"] = _definition(_plain(kind), data, _properties(schema), limits)
    except _Unreadable as error:
        return [Problem("format", "warning", str(error), "schema.schema_data")]
    return []


def _plain(kind: str) -> str:
    """A type in lower case without underscores: "ProtobufNative" is "PROTOBUF_NATIVE" in properties."""
    return kind.replace("_", "").lower()


def _properties(schema: dict[str, Any]) -> dict[str, str]:
    pairs = schema.get("properties", ())
    return {str(pair.get("key")): str(pair.get("value")) for pair in pairs}


def _definition(kind: str, data: bytes, properties: Mapping[str, str], limits: Limits) -> Any:
    """The definition as an object; the bytes if the type has none."""
    if not data:
        return data
    if kind == "protobufnative":
        return _native(data, limits)
    if kind == "keyvalue":
        return _key_value(data, properties, limits)
    return _json(data) if kind in DECODED else data


def _json(data: bytes) -> Any:
    if len(data) > DEFINITION_MAX:
        raise _Unreadable("a schema definition too large to be read")
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        raise _Unreadable("a schema definition that is not JSON") from None
    if _deeper_than(value, DEPTH_MAX):
        raise _Unreadable("a schema definition nested too deep")
    return value


def _deeper_than(value: Any, levels: int) -> bool:
    level = [value]
    for _ in range(levels):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return False
    return True


def _native(data: bytes, limits: Limits) -> Any:
    """A protobuf descriptor: its files, and the name of its message."""
    value = _json(data)
    packed = value.get("fileDescriptorSet") if isinstance(value, dict) else None
    if not isinstance(packed, str):
        raise _Unreadable("a protobuf schema without descriptors")
    try:
        files = _descriptor_set().decode(a2b_base64(packed), limits=limits)
    except Base64Error:
        raise _Unreadable("a protobuf schema without descriptors") from None
    if files.broken is not None:
        raise _Unreadable("a protobuf schema with damaged descriptors")
    return value | {"fileDescriptorSet": files.body}


@cache
def _descriptor_set() -> MessageType:
    """The type of descriptor sets, as the protobuf runtime defines it."""
    content = descriptor_pb2.FileDescriptorSet()
    descriptor_pb2.DESCRIPTOR.CopyToProto(content.file.add())
    return MessageTypes(content.SerializeToString())["google.protobuf.FileDescriptorSet"]


def _key_value(data: bytes, properties: Mapping[str, str], limits: Limits) -> Any:
    """Both definitions, each by its own type."""
    both, at = {}, 0
    for half in ("key", "value"):
        start = at + 4
        at = start + int.from_bytes(data[at:start], "big")
        if len(data) < max(start, at):
            raise _Unreadable("a key/value schema that is cut")
        kind = _plain(properties.get(f"{half}.schema.type", ""))
        if kind == "keyvalue":
            raise _Unreadable("a key/value schema inside another")
        both[half] = _definition(kind, data[start:at], {}, limits)
    if at != len(data):
        raise _Unreadable("bytes after a key/value schema")
    return both
