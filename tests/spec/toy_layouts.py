"""Layouts that hold, between them, everything that the type system knows: flexible and not, nulls, tags, nesting."""

from __future__ import annotations

from typing import Any

from mqsniff.spec.layout import Layout
from mqsniff.spec.schema import MessageSpec

SCALARS = ("bool", "int8", "int16", "int32", "int64", "uint16", "uint32", "float64", "uuid")
INNER: list[dict[str, Any]] = [
    {"name": "id", "type": "uuid"},
    {"name": "label", "type": "string", "nullable": "0+"},
    {"name": "weights", "type": "int64", "array": True},
    {"name": "note", "type": "string", "tag": 0, "tagged": "1"},
]
NESTED: dict[str, Any] = {"name": "inner", "type": "struct", "fields": INNER}
FIELDS: dict[str, list[dict[str, Any]]] = {
    "scalars": [{"name": f"a_{name}", "type": name} for name in SCALARS],
    "arrays_of_scalars": [{"name": f"some_{name}", "type": name, "array": True} for name in SCALARS],
    "arrays_of_sized": [
        {"name": "texts", "type": "string", "array": True, "nullable": "0+"},
        {"name": "blobs", "type": "bytes", "array": True},
    ],
    "sized": [
        {"name": "text", "type": "string"},
        {"name": "maybe_text", "type": "string", "nullable": "0+"},
        {"name": "blob", "type": "bytes"},
        {"name": "maybe_blob", "type": "bytes", "nullable": "0+"},
        {"name": "batches", "type": "records", "nullable": "0+"},
        {"name": "token", "type": "bytes", "secret": True},
        {"name": "password", "type": "string", "secret": True, "nullable": "0+"},
        {"name": "old", "type": "string", "flexible": False},
    ],
    "nullable_arrays": [
        {"name": "numbers", "type": "int32", "array": True, "nullable": "0+"},
        {"name": "after", "type": "int16"},
        {"name": "inner", "type": "struct", "array": True, "nullable": "0+", "fields": INNER},
        {"name": "last", "type": "int8", "array": True},
    ],
    "structs": [
        {"name": "before", "type": "int16"},
        {"name": "inner", "type": "struct", "fields": INNER},
        {"name": "maybe", "type": "struct", "nullable": "0+", "fields": INNER},
        {"name": "after", "type": "int8"},
    ],
    "fixed_rows": [
        {
            "name": "rows",
            "type": "struct",
            "array": True,
            "fields": [{"name": f"a_{name}", "type": name} for name in SCALARS],
        },
        {"name": "after", "type": "bool"},
    ],
    "nested": [
        {
            "name": "topics",
            "type": "struct",
            "array": True,
            "fields": [
                {"name": "name", "type": "string"},
                {
                    "name": "partitions",
                    "type": "struct",
                    "array": True,
                    "fields": [{"name": "index", "type": "int32"}, NESTED],
                },
            ],
        },
    ],
    "tags": [
        {"name": "first", "type": "int32"},
        {"name": "tagged_text", "type": "string", "nullable": "0+", "tag": 0, "tagged": "1"},
        {"name": "tagged_numbers", "type": "int16", "array": True, "tag": 1, "tagged": "1"},
        {"name": "tagged_struct", "type": "struct", "nullable": "0+", "tag": 2, "tagged": "1", "fields": INNER},
        {"name": "tagged_rows", "type": "struct", "array": True, "tag": 5, "tagged": "1", "fields": INNER},
        {"name": "tagged_id", "type": "uuid", "tag": 9, "tagged": "1"},
    ],
    "names_of_python": [
        {"name": name, "type": "string"}
        for name in ("class", "data", "p", "end", "room", "list", "range", "str", "body", "unpack_hi", "value", "tag")
    ],
    "nothing": [],
}
"""Version 0 is not flexible, version 1 is."""


def toy(name: str, version: int) -> Layout:
    plain = {"name": name, "versions": "0-1", "flexible": "1", "fields": FIELDS[name]}
    return Layout(MessageSpec.from_plain(plain), version)


TOYS = [toy(name, version) for name in FIELDS for version in (0, 1)]
