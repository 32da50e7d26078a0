"""Every field of a frame beside its bytes, for ``mqsniff explain``.

1. Spans tile the frame: each starts where the one before it stopped, the last one covers the undecoded bytes.
2. A separator belongs to the field before it, LF to the last parameter.
3. JSON and message data are one span each; a secret is wrapped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from mqsniff.model import Frame, Secret, Side, Span, Undecoded, Value, payload
from mqsniff.spec.wire import Malformed, text_or_bytes
from mqsniff_nsq import frames, tables
from mqsniff_nsq.lines import INT32, ParsedCommand, number_or_text, read_command, text

_NUMBERS: Final = frozenset(("count", "defer_ms", "timeout_ms"))
_FRAME_TYPES: Final = {row.number: row.name for row in tables.FRAME_TYPES}
_MEANINGS: Final = {error.code: error.meaning for error in (*tables.ERRORS_HISTORIC.values(), *tables.ERRORS.values())}


def nsqd_spans(frame: Frame, *, is_magic: bool) -> Iterator[Span]:
    """Every field of a frame of a connection to nsqd."""
    if frame.side is Side.SERVER:
        return _tiled(frame.data, _frame(frame.data))
    return _tiled(frame.data, _magic(frame.data) if is_magic else _command(frame.data, tables.COMMANDS))


def lookupd_spans(frame: Frame, *, is_magic: bool) -> Iterator[Span]:
    """Every field of a frame of a connection to nsqlookupd."""
    if frame.side is Side.SERVER:
        return _tiled(frame.data, _reply(frame.data))
    return _tiled(frame.data, _magic(frame.data) if is_magic else _command(frame.data, tables.LOOKUPD_COMMANDS))


def _tiled(data: bytes, spans: Iterator[Span]) -> Iterator[Span]:
    at = 0
    try:
        for span in spans:
            if span.start < span.stop:
                yield span
                at = span.stop
    except Malformed:
        pass
    if at < len(data):
        yield Span("undecoded", at, len(data), Undecoded(data[at:]), "undecoded")


# ---- client


def _magic(data: bytes) -> Iterator[Span]:
    yield Span("magic", 0, len(data), frames.magic(data), "protocol version")


def _command(data: bytes, commands: Mapping[bytes, tables.NsqCommand]) -> Iterator[Span]:
    read = read_command(data, commands)
    fields = [("command", read.line.word), *zip(_paths(read), read.line.params, strict=True)]
    at = 0
    for index, (path, raw) in enumerate(fields):
        last = index == len(fields) - 1
        stop = read.line.size if last else at + len(raw) + 1
        value = _param(read, path, raw) if read.command is not None else read.line.shown(raw)
        yield Span(path, at, stop, value, "parameter" if index else "command")
        at = stop
    if read.command is not None and read.size is not None:
        yield Span("size", at, at + 4, read.size, "bytes of the body")
        yield from _body(data, read, read.command.body)


def _paths(read: ParsedCommand) -> list[str]:
    extra = "extra_params" if read.command else "params"
    return [*read.params, *(f"{extra}[{index}]" for index in range(len(read.extra)))]


def _param(read: ParsedCommand, path: str, raw: bytes) -> Value:
    if path in _NUMBERS:
        return number_or_text(raw)
    secret = read.command is not None and read.command.body == "secret" and path != "command"
    return Secret(raw) if secret else text_or_bytes(raw)


def _body(data: bytes, read: ParsedCommand, kind: tables.BodyKind) -> Iterator[Span]:
    start, stop = read.start, min(read.start + max(read.size or 0, 0), len(data))
    match kind:
        case "json":
            yield Span("body", start, stop, frames.json_body(data[start:stop])[0], "JSON")
        case "secret":
            yield Span("secret", start, stop, Secret(data[start:stop]), "secret")
        case "messages":
            yield from _messages(data, start)
        case _:
            yield Span("body", start, stop, payload(data[start:stop]), "message data")


def _messages(data: bytes, at: int) -> Iterator[Span]:
    if at + 4 > len(data):
        return
    (count,) = INT32.unpack_from(data, at)
    yield Span("num_messages", at, at + 4, count, "messages that follow")
    at += 4
    for index in range(max(count, 0)):
        if at + 4 > len(data):
            return
        (size,) = INT32.unpack_from(data, at)
        yield Span(f"messages[{index}].size", at, at + 4, size, "bytes of the message")
        if size <= 0:
            return
        stop = min(at + 4 + size, len(data))
        yield Span(f"messages[{index}].body", at + 4, stop, payload(data[at + 4 : stop]), "message data")
        at = stop


# ---- server


def _frame(data: bytes) -> Iterator[Span]:
    size, frame_type = frames.read_head(data)
    yield Span("size", 0, 4, size, "bytes that follow")
    yield Span("frame_type", 4, 8, frame_type, _FRAME_TYPES.get(frame_type, "unknown"))
    match frame_type:
        case tables.MESSAGE:
            yield from _message(data)
        case tables.ERROR:
            yield from _error(data, frames.HEAD)
        case tables.RESPONSE:
            yield _said(data, frames.HEAD)


def _message(data: bytes) -> Iterator[Span]:
    head, at = frames.read_message(data), frames.HEAD
    for path, size, meaning in _MESSAGE_FIELDS:
        value = head.fields[path]
        if value is None:
            return
        yield Span(path, at, at + size, value, meaning)
        at += size
    yield Span("body", at, len(data), payload(data[at:]), "message data")


_MESSAGE_FIELDS: Final = (
    ("timestamp", 8, "nanoseconds since 1970"),
    ("attempts", 2, "deliveries so far, this one included"),
    ("message_id", tables.MESSAGE_ID_SIZE, "message id"),
)


def _error(data: bytes, at: int) -> Iterator[Span]:
    code, _, description = data[at:].partition(b" ")
    stop = min(at + len(code) + 1, len(data))
    yield Span("code", at, stop, text(code), _MEANINGS.get(text(code), "unknown"))
    yield Span("description", stop, len(data), text(description), "text")


def _said(data: bytes, at: int) -> Span:
    raw = data[at:]
    value: Value = frames.json_body(raw)[0] if raw.startswith(b"{") else frames.response_value(raw)
    return Span("data", at, len(data), value, "JSON" if raw.startswith(b"{") else "response")


def _reply(data: bytes) -> Iterator[Span]:
    (size,) = INT32.unpack_from(data)
    yield Span("size", 0, 4, size, "bytes that follow")
    if data[4:].startswith(b"E_"):
        yield from _error(data, 4)
    else:
        yield _said(data, 4)
