"""Decodes headers in both serialisations.

    JSON      one object; extFields in it is an object of strings
    ROCKETMQ  code i16 | language u8 | version i16 | opaque i32 | flag i32 | remark length i32 | remark | ext length i32
              | (key length i16 | key | value length i32 | value), over and over

1. Each frame names its serialisation; that of a response may differ from that of its request.
2. A cut header gives the fields before the cut. Bytes that are no header, or were cut before the first field, raise
   Malformed; odd fields are noted.
3. Fields keep their order on the wire; null and empty stay different.
4. In both, the language is given by name; a number without a name is ``unknown(N)``.

Source: RemotingCommand, RemotingSerializable and RocketMQSerializable of apache/rocketmq.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from struct import Struct, error
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import orjson

from mqsniff.spec.wire import Malformed, text_or_bytes
from mqsniff_rocketmq.fastjson import read_tolerant
from mqsniff_rocketmq.heads import BINARY, BINARY_HEAD, BINARY_HEAD_SIZE, HEAD_SIZE, JSON
from mqsniff_rocketmq.notes import ProblemNotes
from mqsniff_rocketmq.tables import tables

ExtFields: TypeAlias = Mapping[str, Any]
"""A header's extFields, by name."""

NAMES: Final[Mapping[str, str]] = MappingProxyType(
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
"""Key of a JSON header -> name in the body."""

CUT: Final = "a header was cut before it told anything"

_INT32: Final = Struct(">i")
_UINT16: Final = Struct(">H")
_UINT32: Final = Struct(">I")


@dataclass(slots=True)
class RemotingHeader:
    """The header of a frame. ``ext`` holds the extFields as on the wire: text -> text."""

    serialize_type: int
    code: int | None = None
    opaque: int | None = None
    flag: int | None = None
    fields: dict[str, Any] = field(default_factory=dict)
    """All fields except ext_fields by their names in the body, in the order of the wire."""
    ext: dict[str, Any] | None = None
    has_ext: bool = False
    """Whether there is an extFields, perhaps null."""
    size: int = 0
    """Size of the header by the second word of the frame."""


def read_header(data: bytes, notes: ProblemNotes) -> tuple[RemotingHeader, int]:
    """(header of a frame, offset of its body); ``data`` may end anywhere. Malformed if there is no header."""
    if len(data) < HEAD_SIZE:
        raise Malformed(CUT)
    (word,) = _INT32.unpack_from(data, 4)
    stop = HEAD_SIZE + (word & 0xFFFFFF)
    if word >> 24 == BINARY:
        header = read_binary(data, HEAD_SIZE, stop, notes)
    else:
        header = read_json_header(data[HEAD_SIZE:stop], notes, cut=len(data) < stop)
    header.size = stop - HEAD_SIZE
    return header, stop


def read_json_header(raw: bytes, notes: ProblemNotes, *, cut: bool = False) -> RemotingHeader:
    """A JSON header. Hot: once a frame; odd ones take the slow path."""
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
        raise Malformed("the header is not a JSON object" if raw else CUT)
    return _json_header(slow, notes)


def _json_header(found: dict[str, Any], notes: ProblemNotes) -> RemotingHeader:
    """The header of decoded JSON. Hot: once a frame; odd keys and types take the slow path."""
    try:
        fields = {NAMES[key]: value for key, value in found.items()}
    except KeyError:
        fields = {NAMES[key]: value for key, value in found.items() if key in NAMES}
        fields["unknown_fields"] = {key: value for key, value in found.items() if key not in NAMES}
    header = RemotingHeader(JSON, fields.get("code"), fields.get("opaque"), fields.get("flag"), fields)
    if "ext_fields" in fields:
        ext = fields.pop("ext_fields")
        if ext is None or type(ext) is dict:
            header.ext, header.has_ext = ext, True
        else:
            notes.note("format", "warning", "extFields is not a JSON object", "ext_fields")
            fields.setdefault("unknown_fields", {})["extFields"] = ext
    if not type(header.code) is type(header.opaque) is type(header.flag) is int:
        header.code = _number(fields, "code", notes)
        header.opaque = _number(fields, "opaque", notes)
        header.flag = _number(fields, "flag", notes)
    language = fields.get("language")
    if language is not None and (type(language) is not str or language not in tables().language_names):
        fields["language"] = _language(language, notes)
    return header


def _language(language: Any, notes: ProblemNotes) -> Any:
    """The name of a language; a value that is neither number nor text stays."""
    name = tables().languages.get(language) if type(language) is int else None
    if name is None:
        notes.note("unknown_code", "info", "a language without a name", "language")
    return f"unknown({language})" if name is None and type(language) is int else name or language


def _number(fields: dict[str, Any], name: str, notes: ProblemNotes) -> int | None:
    """An integer of the header; it may be text, as fastjson allows."""
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


def read_binary(data: bytes, pos: int, stop: int, notes: ProblemNotes) -> RemotingHeader:
    """A header in the serialisation ROCKETMQ in ``data[pos:stop]``; ``data`` may end before ``stop``."""
    header = RemotingHeader(BINARY)
    end = min(stop, len(data))
    if end - pos < BINARY_HEAD_SIZE:
        raise Malformed("the header is too short" if end == stop else CUT)
    header.code, language, version, header.opaque, header.flag, size = BINARY_HEAD.unpack_from(data, pos)
    header.fields = {
        "code": header.code,
        "language": tables().languages.get(language) or _language(language, notes),
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


def _read_ext(data: bytes, pos: int, end: int, ext: dict[str, Any], notes: ProblemNotes, *, cut: bool) -> None:
    """Entries of ``key length i16 | key | value length i32 | value``. Hot: once a field, unless one is odd."""
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


def _read_odd_ext(data: bytes, pos: int, end: int, ext: dict[str, Any], notes: ProblemNotes, *, cut: bool) -> None:
    """As ``_read_ext``, with text that is no UTF-8, repeated keys, and lengths beyond the header."""
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
        notes.note("malformed", "warning", "the length of an ext field points past the end of the header", "ext_fields")
