"""Decodes a frame by itself: body, notes and error of its message, and the parts of its payload.

1. A frame becomes exactly one message; it is Malformed only if it ends before its command.
2. Undecoded bytes are kept in the body as ``undecoded``, with a problem.
3. The state of the connection (topics, pending requests, permits) is not used here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from mqsniff.limits import Limits
from mqsniff.model import Frame, Message, MessageKind, Problem, Side, Undecoded
from mqsniff.spec.wire import Malformed
from mqsniff_pulsar import acksets
from mqsniff_pulsar.commands import PAYLOAD, UNREMARKABLE, PulsarCommand
from mqsniff_pulsar.frames import HEAD
from mqsniff_pulsar.messages import id_fields, marker_names, marker_type, numbers, read_command
from mqsniff_pulsar.ordinary import ORDINARY
from mqsniff_pulsar.payload import Payload, is_plain, read_payload
from mqsniff_pulsar.schemas import open_schema

PROTOCOL: Final = "pulsar"

MARKER: Final = "opened_marker"
"""Name in bodies of a decoded marker; ``marker`` is a field of SEND."""
_SCHEMAS: Final = frozenset({"PRODUCER", "SUBSCRIBE", "SUCCESS", "GET_SCHEMA_RESPONSE", "GET_OR_CREATE_SCHEMA"})
_ERRORS: Final[Mapping[str, str]] = {"validation_error": "CommandAck.ValidationError"}
"""Error field -> its enum, if that is not ServerError."""


class FrameReading(NamedTuple):
    """A decoded frame."""

    message: Message
    body: dict[str, Any]
    """Body, typed by the descriptors; text that is no UTF-8 is bytes, an unknown enum value an integer."""
    command: PulsarCommand | None
    """None for an unknown command."""
    payload: Payload | None
    """The payload of SEND and MESSAGE."""


def read_frame(frame: Frame, limits: Limits) -> FrameReading:
    """Decode a frame; Malformed if it has no byte of a command."""
    data = frame.data
    if len(data) <= HEAD:
        raise Malformed("the frame ends before its command")
    stop = HEAD + int.from_bytes(data[4:8], "big")
    name, command, body, problems, whole = read_command(data, HEAD, stop, limits)
    message = Message(frame, PROTOCOL, name, _kind(command, frame), body, problems=problems)
    if command is not None:
        _interpret(message, command, body, limits, whole=whole)
    payload = None
    if name in PAYLOAD:
        payload = _open_payload(message, stop, limits)
    elif stop < frame.size:
        body["undecoded"] = Undecoded(data[stop:])
        size = frame.size - stop
        problems.append(Problem("trailing_bytes", "warning", "bytes after the command", "undecoded", size=size))
    return FrameReading(message, body, command, payload)


def _kind(command: PulsarCommand | None, frame: Frame) -> MessageKind:
    if command is not None:
        return command.kind
    return "oneway" if frame.side is Side.CLIENT else "push"


def _interpret(message: Message, command: PulsarCommand, body: dict[str, Any], limits: Limits, *, whole: bool) -> None:
    """Fill in the error and notes of the command; decode schemas and ack sets."""
    name = command.name
    message.judged = True  # commands without an error field mean success
    if command.error:
        _fill_error(message, body, command, whole=whole)
    if name in (holders := id_fields()):
        _open_ack_sets(message, holders[name], limits)
    if name in _SCHEMAS and isinstance(body.get("schema"), dict):
        message.problems += open_schema(body["schema"], limits)
    message.notes = tuple(
        [(field, body[field]) for field in command.notes if field in body and _is_notable(field, body)]
    )
    if command.side is not None and command.side is not message.frame.side:
        message.problems.append(Problem("out_of_range", "warning", "a command that the other side should send"))


def _is_notable(field: str, body: dict[str, Any]) -> bool:
    value = body[field]
    if field in UNREMARKABLE:
        return bool(value != UNREMARKABLE[field])
    return value is not False and value != ""


def _fill_error(message: Message, body: dict[str, Any], command: PulsarCommand, *, whole: bool) -> None:
    """Fill in number and name of the command's error; 0 if it has none."""
    error = body.get(command.error)
    if error is None:
        if body.get("response") == "Failed":
            message.error_count = 1
        elif whole:
            message.error_code = message.error_count = 0
        else:
            message.judged = False
        return
    message.error_count = 1
    if isinstance(error, int):
        message.error_code, message.error_name = error, f"unknown({error})"
    else:
        message.error_code, message.error_name = numbers(_ERRORS.get(command.error, "ServerError"))[error], error
    if ORDINARY.has(command.name, message.error_code, {}):
        message.error_count = 0


def _open_payload(message: Message, at: int, limits: Limits) -> Payload:
    """Decode the parts after the command into the body."""
    frame, body = message.frame, message.body
    payload, unreadable = read_payload(frame, at, limits)
    payload.put_into(body)
    if unreadable is not None:
        body["undecoded"] = unreadable
    message.problems += payload.problems
    if payload.metadata is not None and "marker_type" in payload.metadata:
        _open_marker(message, payload, payload.metadata, limits)
    return payload


def _open_marker(message: Message, payload: Payload, metadata: Mapping[str, Any], limits: Limits) -> None:
    """Decode a marker of brokers: its name and payload."""
    number = metadata["marker_type"]
    name = marker_names().get(number)
    marker: dict[str, Any] = {"type": name or number}
    message.body[MARKER] = marker
    kind = marker_type(number)
    if name is None:
        message.problems.append(Problem("unknown_code", "warning", "a marker without a name", "metadata.marker_type"))
    elif kind is not None and message.frame.whole and is_plain(metadata):
        decoded = kind.decode(message.frame.data, payload.start, message.frame.size, limits)
        marker |= decoded.body
        for problem in decoded.problems:
            problem.path = f"{MARKER}.{problem.path}"
            message.problems.append(problem)


def _open_ack_sets(message: Message, fields: Sequence[str], limits: Limits) -> None:
    """Add the indexes of ack sets beside their words."""
    left_out = acksets.open_sets(message.body, fields, limits)
    if left_out:
        detail = f"{left_out} ack sets too long to be opened"
        message.problems.append(Problem("limit", "warning", detail, acksets.WORDS))
