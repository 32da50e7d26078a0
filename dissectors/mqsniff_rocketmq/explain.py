"""Every field of a frame beside its bytes, for ``mqsniff explain``.

1. Spans tile the frame: each starts where the one before it stopped. Commas, brackets and keys of JSON belong to the
   field after them. The last span covers the undecoded bytes.
2. Paths are those of the message's body; secrets stay wrapped.
3. The data of a message is one span; if it is compressed, or a batch, its plain bytes have spans inside. Bodies and
   properties of messages are marked as payload.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Any, Final

from mqsniff.codecs.blocks import CODECS, decompress_partly
from mqsniff.limits import Limits
from mqsniff.model import Frame, Message, OpenedBytes, Secret, Span, Undecoded, Value, payload
from mqsniff.spec.wire import Malformed, text_or_bytes
from mqsniff_rocketmq import stored
from mqsniff_rocketmq.explain_json import json_spans
from mqsniff_rocketmq.extfields import read_ext
from mqsniff_rocketmq.headers import read_header
from mqsniff_rocketmq.heads import BINARY, BINARY_HEAD_SIZE, HEAD_SIZE, RESPONSE, STORED_V1
from mqsniff_rocketmq.notes import ProblemNotes
from mqsniff_rocketmq.tables import CodePart, Shape, tables
from mqsniff_rocketmq.texts import holds_secret, is_secret_name

_INT32: Final = Struct(">i")
_UINT16: Final = Struct(">H")
_HEADER: Final = (("code", ">h"), ("language", ">B"), ("version", ">h"), ("opaque", ">i"), ("flag", ">i"))
_TIMER: Final = (
    *("last_read_time_ms", "last_timer_log_flush_pos", "last_timer_queue_offset", "master_timer_queue_offset"),
    *("data_version.state_version", "data_version.timestamp", "data_version.counter"),
)
_STORED: Final = (
    *(("store_size", "i"), ("magic", "i"), ("body_crc", "i"), ("queue_id", "i"), ("flag", "i"), ("queue_offset", "q")),
    *(
        ("physical_offset", "q"),
        ("sys_flag", "i"),
        ("born_timestamp", "q"),
        ("born_host", ""),
        ("store_timestamp", "q"),
    ),
    *(("store_host", ""), ("reconsume_times", "i"), ("prepared_transaction_offset", "q"), ("body.size", "i")),
)
_BATCHED: Final = (("total_size", "i"), ("magic", "i"), ("body_crc", "i"), ("flag", "i"), ("body.size", "i"))


def frame_spans(frame: Frame, part: CodePart, limits: Limits) -> Iterator[Span]:
    """Every field of a frame, by the classes of its header and body."""
    at = 0
    try:
        for span in _fields(frame, part, limits):
            at = span.stop
            yield span._replace(meaning=_code_name(frame, span.value, part)) if span.path == "code" else span
    except Malformed:
        pass  # the rest is one span; the message has the problem
    if at < len(frame.data):
        yield Span("undecoded", at, len(frame.data), Undecoded(frame.data[at:]), "undecoded")


def _code_name(frame: Frame, code: Value, part: CodePart) -> str:
    """The name of a code, as a request code or a response code."""
    header, _ = read_header(frame.data, ProblemNotes(Limits()))
    if type(code) is not int:
        return ""
    if (header.flag or 0) & RESPONSE:
        return tables().response_name(code, part.codes) or ""
    request = tables().requests.get(code) or (tables().cut.get(code) if header.serialize_type == BINARY else None)
    return request.name if request else ""


def _fields(frame: Frame, part: CodePart, limits: Limits) -> Iterator[Span]:
    data = frame.data
    if len(data) < HEAD_SIZE:
        return
    yield _number(data, 0, "length", "i", "bytes after this word")
    word = int.from_bytes(data[4:8], "big")
    stop = HEAD_SIZE + (word & 0xFFFFFF)
    kind = tables().names["serialize_types"].get(str(word >> 24), "")
    yield Span("serialize_type", 4, 5, word >> 24, kind)
    yield Span("header_size", 5, 8, word & 0xFFFFFF)
    if len(data) < stop:
        return
    header = (
        _binary(data, stop, part)
        if word >> 24 == BINARY
        else json_spans(data, HEAD_SIZE, stop, "", ["header", part.header.name])
    )
    sys_flag = 0
    for span in header:
        if span.path == "ext_fields.sys_flag" and type(span.value) is int:
            sys_flag = span.value
        yield span
    if len(data) == frame.size > stop:
        yield from _body(data, stop, part, sys_flag, limits)


def _number(data: bytes, at: int, path: str, code: str, meaning: str = "") -> Span:
    reader = Struct(">" + code)
    (value,) = reader.unpack_from(data, at)
    return Span(path, at, at + reader.size, value, meaning)


# ---- the binary header


def _binary(data: bytes, stop: int, part: CodePart) -> Iterator[Span]:
    at = HEAD_SIZE
    if stop - at < BINARY_HEAD_SIZE + 4:
        return
    for path, code in _HEADER:
        span = _number(data, at, path, code[1:])
        yield span._replace(meaning=_meaning(path, span.value))
        at = span.stop
    size = int.from_bytes(data[at : at + 4], "big", signed=True)
    if not 0 <= size <= stop - at - 8:
        return
    yield Span("remark", at, at + 4 + size, text_or_bytes(data[at + 4 : at + 4 + size]))
    at += 4 + size
    yield _number(data, at, "ext_fields_size", "i")
    at += 4
    while stop - at >= 6:
        middle = at + 2 + _UINT16.unpack_from(data, at)[0]
        end = middle + 4 + _INT32.unpack_from(data, middle)[0] if middle + 4 <= stop else stop + 1
        if not middle + 4 <= end <= stop:
            return
        yield _ext_span(data[at + 2 : middle], data[middle + 4 : end], (at, end), part)
        at = end


def _ext_span(key: bytes, value: bytes, place: tuple[int, int], part: CodePart) -> Span:
    name = key.decode(errors="backslashreplace")
    field = part.header.fields.get(name)
    typed = read_ext({name: text_or_bytes(value)}, part.header, ProblemNotes(Limits()))
    if field is None:
        return Span(f"ext_fields.unknown_fields.{name}", *place, typed["unknown_fields"][name])
    return Span(f"ext_fields.{field.name}", *place, typed[field.name], name if name != field.name else "")


def code_name(message: Message, field: str, code: int) -> str | None:
    """What a number in a field of a message's body is called."""
    if field == "code":
        if message.kind != "response":
            return message.name
        return message.error_name if code == message.error_code and code else tables().response_name(code)
    return _meaning(field, code) or None


def _meaning(path: str, value: Any) -> str:
    """The name of a number of the header."""
    known = tables()
    match path:
        case "language":
            return known.language_name(value) or ""
        case "version":
            return known.version_name(value) or ""
        case "flag":
            return ", ".join(name for bit, name in known.names["flag_bits"].items() if value & int(bit))
    return ""


# ---- bodies


def _body(data: bytes, at: int, part: CodePart, sys_flag: int, limits: Limits) -> Iterator[Span]:
    kind = part.body
    match kind:
        case "message":
            yield _message_data(data, (at, len(data)), "body", sys_flag, limits)
        case "message-batch" | "stored-message" | "stored-messages":
            yield from _messages(data, at, kind, limits)
        case "timer-checkpoint" if len(data) - at in (32, 56):
            for index in range((len(data) - at) // 8):
                yield _number(data, at + 8 * index, f"body.{_TIMER[index]}", "q")
        case "java-properties":
            yield from _lines(data, at)
        case "text":
            yield Span("body", at, len(data), text_or_bytes(data[at:]))
        case "register-broker" if data[at : at + 1] == b"\x78":
            yield _registration(data, at, limits)
        case _:
            yield from json_spans(data, at, len(data), "body", _shape(kind))


def _shape(kind: str) -> Shape:
    name = "RegisterBrokerBody" if kind == "register-broker" else kind.strip("[]")
    shape: Shape = ["class", name] if name in tables().bodies else None
    return ["list", shape] if kind.startswith("[") else shape


def _lines(data: bytes, at: int) -> Iterator[Span]:
    """Java properties, line by line."""
    for line in data[at:].splitlines(keepends=True):
        key, _, text = line.decode(errors="backslashreplace").rstrip("\r\n").partition("=")
        value: Value = Secret(text.encode()) if is_secret_name(key) or holds_secret(text) else text
        yield Span(f"body.{key}", at, at + len(line), value)
        at += len(line)


def _messages(data: bytes, at: int, kind: str, limits: Limits) -> Iterator[Span]:
    body, notes = data[at:], ProblemNotes(limits)
    if kind == "message-batch":
        for index, batched in enumerate(stored.read_batch(body, notes, "")[0]):
            path = f"body.messages[{index}]"
            yield from _head(data, at, path, _BATCHED, 4)
            at += stored.BATCH_MIN - 2
            yield _message_data(data, (at, at + batched.body_size), f"{path}.body", 0, limits)
            at += batched.body_size
            yield from _properties(data, at, path)
            at += 2 + batched.properties_stop - batched.properties
        return
    for index, message in enumerate(stored.read_stored(body, notes, "")[0]):
        path = f"body.messages[{index}]"
        for span in _head(data, at, path, _STORED, message.sys_flag):
            yield span
            at = span.stop
        fits = {True: "CRC matches", False: "CRC does not match", None: "no CRC"}[message.checksum_ok]
        held = _message_data(data, (at, at + message.body_size), f"{path}.body", message.sys_flag, limits)
        yield held._replace(meaning=f"{held.meaning}, {fits}")
        at += message.body_size
        width = 1 if message.magic == STORED_V1 else 2
        end = at + width + int.from_bytes(data[at : at + width], "big")
        yield Span(f"{path}.topic", at, end, message.topic)
        yield from _properties(data, end, path)
        at = end + 2 + message.properties_stop - message.properties


def _message_data(data: bytes, place: tuple[int, int], path: str, sys_flag: int, limits: Limits) -> Span:
    """The body of a message, with its plain bytes inside if it is compressed, or holds a batch."""
    start, stop = place
    raw = data[start:stop]
    codec = stored.codec_of(sys_flag)
    inner = sys_flag & stored.INNER_BATCH == stored.INNER_BATCH
    if codec == "none" and not inner:
        return Span(path, start, stop, payload(raw), "message data")
    plain, why = raw, None
    if codec in CODECS:
        plain, why = decompress_partly(codec, raw, limits.decompress_max)
    elif codec != "none":
        plain, why = b"", "a compression type without a name"
    if not plain:
        return Span(path, start, stop, payload(raw), f"message data in {codec}: {why}")
    spans = tuple(_messages(plain, 0, "message-batch", limits)) if inner else ()
    at = spans[-1].stop if spans else 0
    rest = (Span(path, at, len(plain), payload(plain[at:]), "message data"),) if at < len(plain) else ()
    form = "a batch of messages" if codec == "none" else codec
    meaning = f"message data in {codec}, {why or f'{len(plain)} bytes when opened'}" if codec != "none" else form
    return Span(path, start, stop, stop - start, meaning, OpenedBytes(form, plain, spans + rest))


def _registration(data: bytes, at: int, limits: Limits) -> Span:
    """A compressed registration of a broker, with its parts inside."""
    raw = data[at:]
    plain, why = decompress_partly("zlib", raw, limits.decompress_max)
    if not plain:
        return Span("body", at, len(data), Undecoded(raw), why or "zlib")
    meaning = f"parts in zlib, {why or f'{len(plain)} bytes when opened'}"
    return Span("body", at, len(data), len(raw), meaning, OpenedBytes("zlib", plain, tuple(_parts(plain))))


def _parts(plain: bytes) -> Iterator[Span]:
    """The parts of a registration, ``length i32 | bytes`` each, and counts, as ``bodies`` reads them."""
    wrapper = "body.topic_config_serialize_wrapper"
    at = 0
    for name, counted in (
        (f"{wrapper}.data_version", False),
        (f"{wrapper}.topic_config_table", True),
        ("body.filter_server_list", False),
        (f"{wrapper}.topic_queue_mapping_info_map", True),
    ):
        if at + 4 > len(plain):
            break
        count = _INT32.unpack_from(plain, at)[0] if counted else 1
        if counted:
            yield Span(name, at, at + 4, count, "count")
            at += 4
        for index in range(max(count, 0)):
            stop = at + 4 + _INT32.unpack_from(plain, at)[0] if at + 4 <= len(plain) else -1
            if not at + 4 <= stop <= len(plain):
                break
            yield Span(f"{name}[{index}]" if counted else name, at, stop, text_or_bytes(plain[at + 4 : stop]))
            at = stop
    if at < len(plain):
        yield Span("body", at, len(plain), Undecoded(plain[at:]), "undecoded")


def _head(data: bytes, at: int, path: str, fields: tuple[tuple[str, str], ...], sys_flag: int) -> Iterator[Span]:
    """The fixed part of a message; hosts are 4 or 16 bytes and a port."""
    for name, code in fields:
        if code:
            span = _number(data, at, f"{path}.{name}", code)
        else:
            bit = stored.BORN_HOST_V6 if name == "born_host" else stored.STORE_HOST_V6
            size = 16 if sys_flag & bit else 4
            host = stored.host_text(data[at : at + size], _INT32.unpack_from(data, at + size)[0])
            span = Span(f"{path}.{name}", at, at + size + 4, host)
        yield span
        at = span.stop


def _properties(data: bytes, at: int, path: str) -> Iterator[Span]:
    """All properties of a message: their size, then one span each."""
    yield _number(data, at, f"{path}.properties_size", "H")
    end = at + 2 + _UINT16.unpack_from(data, at)[0]
    at += 2
    while at < end:
        stop = data.find(b"\x02", at, end) + 1 or end
        name, _, value = data[at:stop].rstrip(b"\x02").partition(b"\x01")
        shown = payload(text_or_bytes(value))
        yield Span(f"{path}.properties.{name.decode(errors='backslashreplace')}", at, stop, shown)
        at = stop
