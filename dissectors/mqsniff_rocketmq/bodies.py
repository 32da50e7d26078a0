"""Decodes bodies of frames by their kind, except those made of messages (``messages.py``).

1. Keys of a JSON class get their long names; unknown keys are kept under ``unknown_fields``. Keys of maps stay.
2. Secrets are wrapped by marks of the class; in maps, properties and unknown JSON by their names.
3. Bytes that cannot be decoded become Undecoded, with a problem; traffic never raises.
4. Topics, groups, clients and queues in a body are collected (``Mentions``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from struct import Struct
from types import MappingProxyType
from typing import Any, Final
from zlib import crc32

from mqsniff.codecs.blocks import BlockError, decompress
from mqsniff.model import Secret, Undecoded, Value
from mqsniff.spec.wire import Malformed, as_name, read_int32, read_slice, text_or_bytes
from mqsniff_rocketmq.fastjson import read_json
from mqsniff_rocketmq.heads import LENGTH_PROBED
from mqsniff_rocketmq.notes import ProblemNotes
from mqsniff_rocketmq.tables import Shape, tables
from mqsniff_rocketmq.texts import holds_secret, is_secret_name, read_bit_set

PATH: Final = "body"
_TIMER: Final = Struct(">7q")
_TIMER_OLD: Final = Struct(">4q")
_NUMBER: Final = re.compile(r"-?[0-9]{1,10}")
_TIMER_NAMES: Final = (
    "last_read_time_ms",
    "last_timer_log_flush_pos",
    "last_timer_queue_offset",
    "master_timer_queue_offset",
)


@dataclass(slots=True)
class Mentions:
    """Topics, queues, and the first group and client in a body."""

    topics: list[str] = field(default_factory=list)
    group: str | None = None
    client: str | None = None
    queues: list[dict[str, Any]] = field(default_factory=list)
    """Rows of the table ``partitions``."""

    def queue(self, columns: tuple[tuple[str, str], ...], values: Mapping[str, Value]) -> None:
        """Begin a row for a queue; offsets without a queue belong to the queue before."""
        found: dict[str, Any] = {column: values[name] for column, name in columns if type(values.get(name)) is int}
        topic = as_name(values.get("topic"))
        if found.get("partition", -1) >= 0 and topic is not None:
            self.queues.append({"topic": topic, **found})
        elif self.queues:
            self.queues[-1] |= found

    def note(self, role: str, value: Any) -> None:
        """Note a value with a role, or a list of such values."""
        if role == "topic":
            names = map(as_name, value if isinstance(value, list) else (value,))
            self.topics += [name for name in names if name is not None]
        elif role == "group":
            self.group = self.group or as_name(value)
        elif role == "client":
            self.client = self.client or as_name(value)


def read_body(kind: str, raw: bytes, notes: ProblemNotes, mentions: Mentions) -> Value:
    """The value of a body that is no message data; ``kind`` is empty if the protocol defines none."""
    try:
        reader = _READERS.get(kind)
        return reader(raw, notes, mentions) if reader else _read_class(kind, raw, notes, mentions)
    except (Malformed, BlockError) as error:
        notes.note("malformed", "error", str(error), PATH)
        return Undecoded(raw)


def body_checksum_ok(raw: bytes, crc: object) -> bool:
    """Whether the CRC-32 of a body, without its sign bit, equals ``crc`` (REGISTER_BROKER: bodyCrc32)."""
    return crc32(raw) & 0x7FFFFFFF == crc


# ---- JSON


def _read_class(kind: str, raw: bytes, notes: ProblemNotes, mentions: Mentions) -> Value:
    name = kind.strip("[]")
    shape: Shape = ["class", name] if name in tables().bodies else None
    value = read_json(raw, notes, PATH)
    return shaped(value, ["list", shape] if kind[0] == "[" else shape, notes, mentions, PATH)


def shaped(value: Any, shape: Shape, notes: ProblemNotes, mentions: Mentions, path: str) -> Value:
    """A JSON value by its shape; if it has another form, as plain JSON."""
    if type(value) not in (dict, list):
        return value if shape is None else _scalar(value, shape, notes, path)
    match shape:
        case ["class", name] if type(value) is dict:
            return _object(value, name, notes, mentions, path)
        case ["list", inner] if type(value) is list:
            return [shaped(item, inner, notes, mentions, f"{path}[{at}]") for at, item in enumerate(value)]
        case ["map", inner] if type(value) is dict:
            return {
                key: _guarded(key, shaped(item, inner, notes, mentions, f"{path}.{key}")) for key, item in value.items()
            }
        case ["pairs", keys, inner]:
            return [
                _pair(pair, (keys, inner), notes, mentions, f"{path}[{at}]") for at, pair in enumerate(_pairs(value))
            ]
    return plain(value)


def _scalar(value: Any, shape: list[Any], notes: ProblemNotes, path: str) -> Value:
    """A scalar by its shape: an enum is checked against its values, a bit set becomes its indexes."""
    if shape[0] == "enum" and value is not None and value not in tables().enums[shape[1]]:
        notes.note("unknown_code", "info", f"a value that the enum {shape[1]} does not have", path)
    if shape[0] == "bits" and value is not None:
        found = read_bit_set(value) if isinstance(value, str) else None
        if found is None:
            notes.note("format", "warning", "not a bit set in base64, or one that is too long to decode", path)
        else:
            notes.take(len(found))
            return found
    return value  # type: ignore[no-any-return]


def _object(value: dict[str, Any], name: str, notes: ProblemNotes, mentions: Mentions, path: str) -> Value:
    body = tables().bodies[name]
    found: dict[str, Value] = {}
    for key, item in value.items():
        known = body.fields.get(key)
        if known is None:
            _keep_unknown(found, key, item)
        elif known.secret and item is not None:
            found[known.name] = Secret(str(item).encode(errors="replace"))
        else:
            found[known.name] = (
                item if known.shape is None else shaped(item, known.shape, notes, mentions, f"{path}.{known.name}")
            )
            if known.role:
                mentions.note(known.role, item)
    if body.columns:
        mentions.queue(body.columns, found)
    return found


def _keep_unknown(found: dict[str, Value], key: str, item: Any) -> None:
    if key == "$ref":
        found[key] = item
        return
    unknown = found.setdefault("unknown_fields", {})
    assert isinstance(unknown, dict)
    unknown[key] = _guarded(key, plain(item))


def _pair(
    pair: tuple[Any, Any], shapes: tuple[Shape, Shape], notes: ProblemNotes, mentions: Mentions, path: str
) -> Value:
    """A member of a map with objects as keys; a number under a queue is its offset."""
    queues = len(mentions.queues)
    key = shaped(pair[0], shapes[0], notes, mentions, f"{path}.key")
    value = shaped(pair[1], shapes[1], notes, mentions, f"{path}.value")
    if type(value) is int and len(mentions.queues) > queues:
        mentions.queues[-1]["offset"] = value
    return {"key": key, "value": value}


def _pairs(value: Any) -> list[tuple[Any, Any]]:
    """Members of a map with objects as keys; an empty one, or one with text keys, is a dict."""
    if isinstance(value, dict):
        return list(value.items())
    return [(item.get("key"), item.get("value")) for item in value if isinstance(item, dict)]


def plain(value: Any) -> Value:
    """JSON of no known class: as it is, with secrets wrapped by their names."""
    if type(value) is dict:
        return {key: _guarded(key, plain(item)) for key, item in value.items()}
    if type(value) is list:
        return [plain(item) for item in value]
    return value  # type: ignore[no-any-return]


def _guarded(name: str, value: Value) -> Value:
    """A named value, wrapped if its name or its text says that it is a secret."""
    if isinstance(value, str | int | float) and is_secret_name(name) and value is not True and value is not False:
        return Secret(str(value).encode(errors="replace"))
    if isinstance(value, str) and holds_secret(value):
        return Secret(value.encode(errors="replace"))
    return value


def _read_plain_json(raw: bytes, notes: ProblemNotes, _mentions: Mentions) -> Value:
    return plain(read_json(raw, notes, PATH))


def _read_undefined(raw: bytes, notes: ProblemNotes, _mentions: Mentions) -> Value:
    """A body where the protocol defines none: decoded if it looks like JSON."""
    notes.note("format", "info", "a body where the protocol defines none", PATH)
    return plain(read_json(raw, notes, PATH)) if raw[:1] in (b"{", b"[") else Undecoded(raw)


# ---- text and numbers


def _read_text(raw: bytes, _notes: ProblemNotes, _mentions: Mentions) -> Value:
    return text_or_bytes(raw)


def _read_java_properties(raw: bytes, notes: ProblemNotes, _mentions: Mentions) -> Value:
    """Lines of ``key=value`` (MixAll.properties2String); a line without "=" has the value null."""
    text = text_or_bytes(raw)
    if isinstance(text, bytes):
        raise Malformed("properties that are not UTF-8")
    notes.take(text.count("\n"))
    found: dict[str, Value] = {}
    for line in text.splitlines():
        key, equals, value = line.partition("=")
        if line.strip():
            found[key] = _guarded(key, value) if equals else None
    return found


def _read_timer_checkpoint(raw: bytes, _notes: ProblemNotes, _mentions: Mentions) -> Value:
    if len(raw) == _TIMER_OLD.size:
        return dict(zip(_TIMER_NAMES, _TIMER_OLD.unpack(raw), strict=True))
    if len(raw) != _TIMER.size:
        raise Malformed("a timer checkpoint of another size")
    *numbers, state, timestamp, counter = _TIMER.unpack(raw)
    version: Value = {"state_version": state, "timestamp": timestamp, "counter": counter}
    return dict(zip(_TIMER_NAMES, numbers, strict=True)) | {"data_version": version}


# ---- REGISTER_BROKER


def _read_register_broker(raw: bytes, notes: ProblemNotes, mentions: Mentions) -> Value:
    """RegisterBrokerBody: JSON, or parts with lengths in a zlib stream. The first byte decides.

    The field ``compressed`` is wrong in 5.3.3. Source: RegisterBrokerBody.encode of apache/rocketmq.
    """
    if raw[:1] != b"\x78":
        return _read_class("RegisterBrokerBody", raw, notes, mentions)
    parts = _Parts(decompress("zlib", raw, LENGTH_PROBED), notes, mentions)
    wrapper: dict[str, Value] = {"data_version": parts.json(["class", "DataVersion"])}
    topics: dict[str, Value] = {}
    for _ in range(parts.count()):
        name, config = parts.topic_config()
        topics[name] = config
    wrapper["topic_config_table"] = topics
    body: dict[str, Value] = {"topic_config_serialize_wrapper": wrapper, "filter_server_list": parts.json(None)}
    if not parts.ended:
        mappings: dict[str, Value] = {}
        for _ in range(parts.count()):
            mapping = parts.json(["class", "TopicQueueMappingInfo"])
            mappings[str(mapping.get("topic")) if isinstance(mapping, dict) else str(len(mappings))] = mapping
        wrapper["topic_queue_mapping_info_map"] = mappings
    if not parts.ended:
        notes.note("trailing_bytes", "warning", "bytes after the last part", PATH)
    return body


class _Parts:
    """Parts of ``length i32 | bytes``."""

    def __init__(self, data: bytes, notes: ProblemNotes, mentions: Mentions) -> None:
        self._data = data
        self._pos = 0
        self._notes = notes
        self._mentions = mentions

    @property
    def ended(self) -> bool:
        return self._pos == len(self._data)

    def count(self) -> int:
        count, self._pos = read_int32(self._data, self._pos, len(self._data))
        if not 0 <= 4 * count <= len(self._data) - self._pos:
            raise Malformed("more parts than bytes")
        return count

    def _next(self) -> bytes:
        size, self._pos = read_int32(self._data, self._pos, len(self._data))
        if size < 0:
            raise Malformed("a part of negative length")
        part, self._pos = read_slice(self._data, self._pos, len(self._data), size)
        return part

    def json(self, shape: Shape) -> Value:
        return shaped(read_json(self._next(), self._notes, PATH), shape, self._notes, self._mentions, PATH)

    def topic_config(self) -> tuple[str, Value]:
        """Text ``name readQueueNums writeQueueNums perm filterType [attributes]`` (TopicConfig.encode)."""
        text = self._next().decode(errors="backslashreplace")
        self._notes.take(8)
        name, *words = text.split(" ", 5)
        self._mentions.topics.append(name)
        if len(words) < 4 or not all(_NUMBER.fullmatch(word) for word in words[:3]):
            self._notes.note("malformed", "warning", "a topic configuration in another form", PATH)
            return name, text
        config: dict[str, Value] = {"topic_name": name}
        config |= zip(("read_queue_nums", "write_queue_nums", "perm"), map(int, words[:3]), strict=True)
        config["topic_filter_type"] = words[3]
        if len(words) > 4 and words[4]:
            config["attributes"] = plain(read_json(words[4].encode(), self._notes, PATH))
        return name, config


_Reader = Callable[[bytes, ProblemNotes, Mentions], Value]
_READERS: Final[Mapping[str, _Reader]] = MappingProxyType(
    {
        "": _read_undefined,
        "json": _read_plain_json,
        "text": _read_text,
        "java-properties": _read_java_properties,
        "timer-checkpoint": _read_timer_checkpoint,
        "register-broker": _read_register_broker,
    }
)
"""Kinds of bodies that are no JSON class -> readers."""
