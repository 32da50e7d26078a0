"""The bytes of a frame in, its size or its header out, in both serialisations.

    length i32 | serialize type u8, header length u24 | header | body

1. ``probe`` believes a frame by what only a header has: the first key of JSON, or lengths that add up and numbers in
   their ranges. ``frame_size`` follows a connection in step by the two lengths alone.
2. The serialisation is told by each frame; a response may use the other one than its request.
3. A header that was cut gives the fields before the cut. One that is no header raises Malformed; an odd field is noted.
4. Fields keep their order on the wire, null and empty stay different.

Source: RemotingCommand, RemotingSerializable and RocketMQSerializable of apache/rocketmq.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from struct import Struct, error
from types import MappingProxyType
from typing import Any, Final

import orjson

from dissectors.rocketmq.fastjson import read_tolerant
from dissectors.rocketmq.notes import Notes
from mqsniff.dissector import NEED, NO_FRAME, Probed
from mqsniff.spec.wire import Malformed, text_or_bytes

HEAD: Final = Struct(">iI")
HEAD_SIZE: Final = 8
PROBE_MAX: Final = 256
"""Bytes that ``probe`` looks at; a remark of a binary header may push its last length behind them."""
LENGTH_PROBED: Final = 16 << 20
"""The largest frame a peer accepts unless it is told otherwise (com.rocketmq.remoting.frameMaxLength)."""
LENGTH_MAX: Final = 0x15FF_FFFF
"""A first byte of 0x16 or more means TLS to every server, so no frame can be longer."""

JSON: Final = 0
BINARY: Final = 1
RESPONSE: Final = 1
ONEWAY: Final = 2

BINARY_HEAD: Final = Struct(">hBhiii")
BINARY_HEAD_SIZE: Final = 17
BINARY_MIN: Final = 21
LANGUAGE_MAX: Final = 13
VERSION_MAX: Final = 4096
"""Far above the number of any release (612 is the last that is named)."""

KEYS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "code": "code",
        "language": "language",
        "version": "version",
        "opaque": "opaque",
        "flag": "flag",
        "remark": "remark",
        "extFields": "ext_fields",
        "serializeTypeCurrentRPC": "serialize_type_current_rpc",
    }
)
"""Keys of a JSON header -> names in the body."""

_JSON_START: Final = re.compile(rb'\{[ \t\r\n]*"(?:' + "|".join(KEYS).encode() + rb')"[ \t\r\n]*:')
_JSON_START_MAX: Final = 64
_HEAD_START: Final = re.compile(rb"[\x00\x01](?=[\x00-\xff]{3}[\x00\x01]|[\x00-\xff]{0,3}\Z)")
_INT32: Final = Struct(">i")
_UINT16: Final = Struct(">H")
_UINT32: Final = Struct(">I")


@dataclass(slots=True)
class Header:
    """The header of a frame. ``ext`` holds the extFields as they came: text by text."""

    serialize_type: int
    code: int | None = None
    opaque: int | None = None
    flag: int | None = None
    fields: dict[str, Any] = field(default_factory=dict)
    """Everything but ext_fields by its name in the body, in the order of the wire."""
    ext: dict[str, Any] | None = None
    has_ext: bool = False
    """Whether there was an extFields, if only null."""


# ---- sizes


def probe(head: bytes) -> Probed:
    """Size of the frame that must start here, its length word included; looks at PROBE_MAX bytes at most."""
    if len(head) < HEAD_SIZE:
        return NEED if _may_begin(head) else NO_FRAME
    length, word = HEAD.unpack_from(head)
    kind, header = word >> 24, word & 0xFFFFFF
    if kind > BINARY or not 0 < header <= length - 4 <= LENGTH_PROBED:
        return NO_FRAME
    whole = _json_begins(head, header) if kind == JSON else _binary_begins(head, header)
    if whole is None:
        return NEED
    return 4 + length if whole else NO_FRAME


def _may_begin(head: bytes) -> bool:
    """Whether fewer than eight bytes may be the start of a head: the length is below 16 MiB, the type 0 or 1."""
    return head[:1] in (b"", b"\0", b"\1") and head[4:5] in (b"", b"\0", b"\1")


def _json_begins(head: bytes, size: int) -> bool | None:
    """None: more bytes are needed."""
    start = head[HEAD_SIZE : HEAD_SIZE + min(size, _JSON_START_MAX)]
    if start[:1] not in (b"", b"{"):
        return False
    if _JSON_START.match(start):
        return True
    return None if len(start) < min(size, _JSON_START_MAX) and size > 2 else False


def _binary_begins(head: bytes, size: int) -> bool | None:
    """None: more bytes are needed."""
    if size < BINARY_MIN:
        return False
    if len(head) < HEAD_SIZE + BINARY_HEAD_SIZE:
        return None
    _, language, version, _, flag, remark = BINARY_HEAD.unpack_from(head, HEAD_SIZE)
    if language > LANGUAGE_MAX or not 0 <= version < VERSION_MAX or not 0 <= flag <= (RESPONSE | ONEWAY):
        return False
    if not 0 <= remark <= size - BINARY_MIN:
        return False
    at = HEAD_SIZE + BINARY_HEAD_SIZE + remark
    if at + 4 > PROBE_MAX:
        return True
    if len(head) < at + 4:
        return None
    (ext,) = _INT32.unpack_from(head, at)
    return bool(ext == size - BINARY_MIN - remark)


def scan(data: bytes, start: int) -> int:
    """The next offset >= ``start`` at which ``probe`` is worth asking; the end where there is none.

    A head has its serialize type, 0 or 1, at its fifth byte, and its length, below 16 MiB, begins with 0 or 1: bytes of
    text are passed over.
    """
    found = _HEAD_START.search(data, start)
    return found.start() if found else len(data)


def frame_size(head: bytes) -> Probed:
    """Size of the frame that starts here on a side that is in step."""
    if len(head) < HEAD_SIZE:
        return NEED
    length, word = HEAD.unpack_from(head)
    if word >> 24 > BINARY or not 0 < word & 0xFFFFFF <= length - 4 or length > LENGTH_MAX:
        return NO_FRAME
    return int(length) + 4


# ---- headers


def read_header(data: bytes, notes: Notes) -> tuple[Header, int]:
    """The header of a frame and where the body starts; ``data`` may end anywhere. Malformed for what is none."""
    if len(data) < HEAD_SIZE:
        raise Malformed("the head of a frame was cut")
    (word,) = _INT32.unpack_from(data, 4)
    stop = HEAD_SIZE + (word & 0xFFFFFF)
    if word >> 24 == BINARY:
        return read_binary(data, HEAD_SIZE, stop, notes), stop
    return read_json_header(data[HEAD_SIZE:stop], notes, cut=len(data) < stop), stop


def read_json_header(raw: bytes, notes: Notes, *, cut: bool = False) -> Header:
    """A JSON header. Hot: once a frame; whatever is odd goes the slow way."""
    if not cut and len(raw) <= notes.room:
        try:
            found = orjson.loads(raw)
        except orjson.JSONDecodeError:
            found = None
        if type(found) is dict:
            ext = found.get("extFields")
            keys = len(found) + (len(ext) if type(ext) is dict else 0)
            marks = raw.count(b'":')
            if marks == keys or marks - raw.count(b'\\":') == keys:
                return _json_header(found, notes)
    slow = read_tolerant(raw, notes, "", cut=cut)
    if not isinstance(slow, dict):
        raise Malformed("the header is no JSON object")
    return _json_header(slow, notes)


def _json_header(found: dict[str, Any], notes: Notes) -> Header:
    """Hot: once a frame; keys and types that are odd go the slow way."""
    try:
        fields = {KEYS[key]: value for key, value in found.items()}
    except KeyError:
        fields = {KEYS[key]: value for key, value in found.items() if key in KEYS}
        fields["unknown_fields"] = {key: value for key, value in found.items() if key not in KEYS}
    header = Header(JSON, fields.get("code"), fields.get("opaque"), fields.get("flag"), fields)
    if "ext_fields" in fields:
        ext = fields.pop("ext_fields")
        if ext is None or type(ext) is dict:
            header.ext, header.has_ext = ext, True
        else:
            notes.note("format", "warning", "extFields is no object", "ext_fields")
            fields.setdefault("unknown_fields", {})["extFields"] = ext
    if not type(header.code) is type(header.opaque) is type(header.flag) is int:
        header.code = _number(fields, "code", notes)
        header.opaque = _number(fields, "opaque", notes)
        header.flag = _number(fields, "flag", notes)
    return header


def _number(fields: dict[str, Any], name: str, notes: Notes) -> int | None:
    """An integer of the header; fastjson also reads one that is written as text."""
    value = fields.get(name)
    if type(value) is int:
        return value
    if value is None:
        return None
    notes.note("format", "info", "a number of the header is written in another form", name)
    if type(value) is str and value.removeprefix("-").isdecimal() and len(value) < 12:
        fields[name] = int(value)
        return int(value)
    return None


def read_binary(data: bytes, pos: int, stop: int, notes: Notes) -> Header:
    """A header in the serialisation ROCKETMQ between two offsets of ``data``, which may end before ``stop``."""
    header = Header(BINARY)
    end = min(stop, len(data))
    if end - pos < BINARY_HEAD_SIZE:
        if end < stop:
            return header
        raise Malformed("the header is too short")
    header.code, language, version, header.opaque, header.flag, size = BINARY_HEAD.unpack_from(data, pos)
    header.fields = {
        "code": header.code,
        "language": language,
        "version": version,
        "opaque": header.opaque,
        "flag": header.flag,
    }
    pos += BINARY_HEAD_SIZE
    if size < 0 or pos + size > stop - 4:
        raise Malformed("the remark is longer than the header")
    if pos + size + 4 > end:
        return header
    header.fields["remark"] = text_or_bytes(data[pos : pos + size]) if size else None
    pos += size
    (size,) = _INT32.unpack_from(data, pos)
    pos += 4
    if size != stop - pos:
        notes.note("malformed", "warning", "the lengths of the header do not add up", "ext_fields")
    header.has_ext, header.ext = True, {}
    _read_ext(data, pos, min(pos + max(size, 0), end), header.ext, notes, cut=end < stop)
    return header


def _read_ext(data: bytes, pos: int, end: int, ext: dict[str, Any], notes: Notes, *, cut: bool) -> None:
    """Entries of ``key length i16 | key | value length i32 | value``. Hot: once a field, as long as nothing is odd."""
    if end - pos > notes.room:
        raise Malformed("more bytes of extFields than elements_max")
    first, count = pos, 0
    size_of_key, size_of_value = _UINT16.unpack_from, _UINT32.unpack_from
    try:
        while pos < end:
            start = pos + 2
            pos = start + size_of_key(data, pos)[0]
            key = data[start:pos].decode()
            start = pos + 4
            pos = start + size_of_value(data, pos)[0]
            ext[key] = data[start:pos].decode()
            count += 1
    except (error, UnicodeDecodeError):
        pos = -1
    if pos != end or count != len(ext):
        ext.clear()
        _read_odd_ext(data, first, end, ext, notes, cut=cut)


def _read_odd_ext(data: bytes, pos: int, end: int, ext: dict[str, Any], notes: Notes, *, cut: bool) -> None:
    """The same with care: text that is no UTF-8, keys that stand twice, lengths that lead out of the header."""
    while end - pos >= 2:
        start = pos + 2
        stop = start + _UINT16.unpack_from(data, pos)[0]
        if stop + 4 > end:
            break
        key = data[start:stop].decode(errors="backslashreplace")
        start = stop + 4
        stop = start + _UINT32.unpack_from(data, stop)[0]
        if stop > end:
            break
        if key in ext:
            notes.note("format", "info", "an ext field stands twice", "ext_fields")
        ext[key] = text_or_bytes(data[start:stop])
        pos = stop
    if pos < end and not cut:
        notes.note("malformed", "warning", "a length of an ext field leads out of the header", "ext_fields")
