"""Decodes Pulsar's protobuf messages: commands, metadata and markers.

1. The descriptors are read at the first call, into a pool of their own.
2. In the usual form a BaseCommand has the type, then the command's field, then nothing: the command is decoded
   directly. Any other form is decoded as a BaseCommand; fields that do not fit its ``type`` are problems.
3. Paths of problems start at the command's body; those of the envelope start with ``base_command``.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from functools import cache
from typing import Any, Final, NamedTuple

from mqsniff.limits import Limits
from mqsniff.model import Problem
from mqsniff.spec.interpret import DecodedBody
from mqsniff.spec.protobuf import MessageType, MessageTypes
from mqsniff_pulsar.commands import BY_NAME, COMMANDS, PulsarCommand
from mqsniff_pulsar.frames import content_of

PACKAGE: Final = "pulsar.proto."
BASE: Final = "base_command"
"""Name in bodies of the envelope's other fields."""

_MARKERS: Final[Mapping[int, str]] = {
    10: "ReplicatedSubscriptionsSnapshotRequest",
    11: "ReplicatedSubscriptionsSnapshotResponse",
    12: "ReplicatedSubscriptionsSnapshot",
    13: "ReplicatedSubscriptionsUpdate",
}


@cache
def types() -> MessageTypes:
    """Every message type of the protocol."""
    content = pkgutil.get_data("mqsniff_pulsar", "data/pulsar.binpb")
    if content is None:
        raise FileNotFoundError("dissectors/mqsniff_pulsar/data/pulsar.binpb")
    return MessageTypes(content)


@cache
def message_type(name: str) -> MessageType:
    """A message type by its short name."""
    return types()[PACKAGE + name]


@cache
def numbers(enum: str) -> Mapping[str, int]:
    """Name -> number of an enum's values."""
    return {name: number for number, name in types().enum(PACKAGE + enum).items()}


@cache
def marker_names() -> Mapping[int, str]:
    """Number -> name of the markers."""
    return types().enum(PACKAGE + "MarkerType")


def marker_type(number: int) -> MessageType | None:
    """The type of a marker's payload; None if it has none or is unknown."""
    return message_type(_MARKERS[number]) if number in _MARKERS else None


@cache
def _content_types() -> Mapping[int, MessageType]:
    """Number of a command -> the type of its content."""
    fields = message_type("BaseCommand").fields
    return {number: inner for number in COMMANDS if (inner := fields[number].message) is not None}


@cache
def id_fields() -> Mapping[str, tuple[str, ...]]:
    """Name of a command -> its fields that hold message ids, for commands that have any."""
    of = {
        COMMANDS[number].name: tuple(
            field.name
            for field in kind.fields.values()
            if field.message is not None and field.message.name == PACKAGE + "MessageIdData"
        )
        for number, kind in _content_types().items()
    }
    return {name: fields for name, fields in of.items() if fields}


class DecodedCommand(NamedTuple):
    """A command, its body and its problems."""

    name: str
    command: PulsarCommand | None
    """None for an unknown command."""
    body: dict[str, Any]
    problems: list[Problem]
    whole: bool
    """Whether it was decoded to its end."""


def read_command(data: bytes, start: int, stop: int, limits: Limits) -> DecodedCommand:
    """The BaseCommand in ``data[start:stop]``, or its part if ``data`` ends before: that is no problem here."""
    try:
        content = content_of(data, start, stop)
    except IndexError:
        content = None
    if content is None:
        return _read_base(data, start, stop, limits)
    number, at = content
    there = min(stop, len(data))
    decoded = _content_types()[number].decode(data, at, there, limits)
    problems = problems_of(decoded, cut=there < stop) if decoded.problems else []
    command = COMMANDS[number]
    return DecodedCommand(command.name, command, decoded.body, problems, decoded.broken is None and there == stop)


def problems_of(decoded: DecodedBody, *, cut: bool) -> list[Problem]:
    """The problems of a message, without those that the capture caused if it is ``cut``."""
    if not cut:
        return list(decoded.problems)
    return [problem for problem in decoded.problems if problem.kind not in ("malformed", "missing_field")]


def _read_base(data: bytes, start: int, stop: int, limits: Limits) -> DecodedCommand:
    """Decode a command as a BaseCommand: it is unknown, does not fit its type, or has an unusual form."""
    base = message_type("BaseCommand")
    decoded = base.decode(data, start, min(stop, len(data)), limits)
    rest, problems, cut = decoded.body, problems_of(decoded, cut=stop > len(data)), stop > len(data)
    kind = rest.get("type")
    name = kind if isinstance(kind, str) else "unknown" if kind is None else f"unknown({kind})"
    command = BY_NAME.get(name)
    if command is None:
        return DecodedCommand(name, None, rest, problems, decoded.broken is None and not cut)
    field = base.fields[command.type].name
    del rest["type"]
    body = rest.pop(field, None)
    if body is None and not cut:
        problems.append(Problem("missing_field", "error", "the field of the command that type names is missing", BASE))
    if rest.keys() & {inner.name for inner in base.fields.values()}:
        problems.append(Problem("out_of_range", "error", "fields of other commands than type names", BASE))
    for problem in decoded.problems:
        inside = problem.path.startswith(field + ".")
        problem.path = problem.path.removeprefix(field + ".") if inside else f"{BASE}.{problem.path}"
    body = body or {}
    if rest:
        body[BASE] = rest
    return DecodedCommand(name, command, body, problems, decoded.broken is None and not cut)
