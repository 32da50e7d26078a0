"""The other direction, for tests: a layout and a body in, bytes out; and bodies made by chance or by Hypothesis.

Written from Kafka's protocol guide and KIP-482, not from the decoders. ``records`` fields are bytes here.
"""

from __future__ import annotations

import random
import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any

from hypothesis import strategies as st
from lengths import Length, Part, honest, sized, uvarint

from mqsniff.model import Secret
from mqsniff.spec.schema import FieldLayout, Struct
from mqsniff.spec.wire import Extent

LETTERS = {
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "uint16": "H",
    "uint32": "I",
    "float64": "d",
}


def encode(layout: Struct, body: dict[str, Any]) -> bytes:
    return honest(parts(layout, body))


def parts(layout: Struct, body: dict[str, Any]) -> list[Part]:
    """The bytes of a body, with its lengths and counts apart."""
    out = [part for item in layout.items for part in _item(item, body[item.name])]
    return [*out, *_tags(layout, body)] if layout.flexible else out


def _tags(layout: Struct, body: dict[str, Any]) -> list[Part]:
    blocks = {item.tag: _item(item, body[item.name]) for item in layout.tagged if item.name in body}
    blocks |= {int(tag): [raw] for tag, raw in body.get("unknown_tags", {}).items()}
    out: list[Part] = [Length("uvarint", len(blocks))]
    for tag, raw in sorted(blocks.items()):
        out += [uvarint(tag), *sized("uvarint", raw)]
    return out


def _item(item: FieldLayout, value: Any) -> list[Part]:
    if item.array:
        if value is None:
            return [_size(item, -1, "i")]
        return [_size(item, len(value), "i"), *(part for element in value for part in _value(item, element))]
    if item.struct is not None and item.nullable:
        present, null = (b"\x01", b"\x00") if item.tag is not None else (b"\x01", b"\xff")
        return [null] if value is None else [present, *_value(item, value)]
    return _value(item, value)


def _size(item: FieldLayout, size: int, letter: str) -> Length:
    return Length("compact" if item.compact else ">" + letter, size)


def _value(item: FieldLayout, value: Any) -> list[Part]:
    match item.type:
        case "struct":
            assert item.struct is not None
            return parts(item.struct, value)
        case "bool":
            return [b"\x01" if value else b"\x00"]
        case "uuid":
            return [urlsafe_b64decode(value + "==")]
        case "string" | "bytes" | "records":
            letter = "h" if item.type == "string" else "i"
            if value is None:
                return [_size(item, -1, letter)]
            raw = value.encode() if isinstance(value, str) else value.data if isinstance(value, Secret) else value
            return [_size(item, len(raw), letter), raw]
        case _:
            return [struct.pack(">" + LETTERS[item.type], value)]


def with_records(body: Any, data: bytes) -> Any:
    """A decoded body with the bytes of its records in place of their extents."""
    match body:
        case Extent():
            return data[body.start : body.stop]
        case dict():
            return {key: with_records(value, data) for key, value in body.items()}
        case list():
            return [with_records(value, data) for value in body]
        case _:
            return body


# ---- bodies by Hypothesis


def bodies(layout: Struct) -> st.SearchStrategy[dict[str, Any]]:
    required = {item.name: _values(item) for item in layout.items}
    optional: dict[str, Any] = {}
    if layout.flexible:
        optional = {item.name: _values(item) for item in layout.tagged}
        optional["unknown_tags"] = st.dictionaries(
            st.integers(100, 2**31).map(str), st.binary(max_size=4), min_size=1, max_size=3
        )
    return st.fixed_dictionaries(required, optional=optional)


def _values(item: FieldLayout) -> st.SearchStrategy[Any]:
    one = _one(item)
    if item.array:
        one = st.lists(one, max_size=4)
    return st.none() | one if item.nullable else one


def _one(item: FieldLayout) -> st.SearchStrategy[Any]:
    match item.type:
        case "struct":
            assert item.struct is not None
            return bodies(item.struct)
        case "bool":
            return st.booleans()
        case "uuid":
            return st.binary(min_size=16, max_size=16).map(lambda raw: urlsafe_b64encode(raw)[:22].decode())
        case "string":
            text = st.text(max_size=6) | st.text("x", min_size=126, max_size=130)
            return text.map(lambda value: Secret(value.encode())) if item.secret else text
        case "bytes" | "records":
            raw = st.binary(max_size=6) | st.just(bytes(200))
            return raw.map(Secret) if item.secret else raw
        case "float64":
            return st.floats(allow_nan=False)
        case _:
            size = 8 * struct.calcsize(LETTERS[item.type])
            low = 0 if item.type.startswith("u") else -(1 << size - 1)
            return st.integers(low, low + (1 << size) - 1)


# ---- bodies by chance: for sweeps over hundreds of layouts


def some_body(layout: Struct, chance: random.Random, *, richness: int) -> dict[str, Any]:
    """A body with arrays of up to ``richness`` elements; 0 gives the smallest: empty, and null where that may be."""
    body = {item.name: _some(item, chance, richness) for item in layout.items}
    if layout.flexible and richness:
        body |= {item.name: _some(item, chance, richness) for item in layout.tagged if chance.random() < 0.6}
        if chance.random() < 0.3:
            body["unknown_tags"] = {str(chance.randrange(100, 1 << 20)): chance.randbytes(3)}
    return body


def _some(item: FieldLayout, chance: random.Random, richness: int) -> Any:
    if item.nullable and chance.random() < (0.2 if richness else 2):
        return None
    if item.array:
        return [_some_value(item, chance, richness) for _ in range(chance.randint(0, richness))]
    return _some_value(item, chance, richness)


def _some_value(item: FieldLayout, chance: random.Random, richness: int) -> Any:
    match item.type:
        case "struct":
            assert item.struct is not None
            return some_body(item.struct, chance, richness=richness)
        case "bool":
            return richness > 0 and chance.random() < 0.5
        case "uuid":
            return urlsafe_b64encode(chance.randbytes(16) if richness else bytes(16))[:22].decode()
        case "string" | "bytes" | "records":
            text = "".join(chance.choices("abcé-.", k=chance.choice((0, 3, 12, 140)) if richness else 0))
            raw = text.encode()
            if item.secret:
                return Secret(raw)
            return text if item.type == "string" else raw
        case "float64":
            return chance.random() if richness else 0.0
        case _:
            size = 8 * struct.calcsize(LETTERS[item.type])
            low = 0 if item.type.startswith("u") else -(1 << size - 1)
            return chance.randrange(low, low + (1 << size)) if richness else 0
