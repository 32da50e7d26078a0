"""The tables that ``mqsniff protocols nsq`` and ``nsqlookupd`` print."""

from __future__ import annotations

from typing import Final

from mqsniff.dissector import Table
from mqsniff.model import Value
from mqsniff_nsq.ordinary import ORDINARY
from mqsniff_nsq.tables import (
    COMMANDS,
    ERRORS,
    ERRORS_HISTORIC,
    FRAME_TYPES,
    HEARTBEAT,
    IDENTIFY_RANGES,
    LOOKUPD_COMMANDS,
    LOOKUPD_ERRORS,
    LOOKUPD_IDENTIFY_FIELDS,
    MAGIC_V1,
    MAGIC_V2,
    MESSAGE_HEAD,
    UPGRADES,
    Error,
    FrameType,
    NsqCommand,
    UpgradeField,
)

_ANSWERS: Final[dict[str, list[Value]]] = {"request": ["RESPONSE", "ERROR"], "oneway": ["ERROR"]}
"""Kind of a command -> its replies; an error may answer any."""
_FRAME_ANSWERS: Final[dict[str, list[Value]]] = {"MESSAGE": ["FIN", "REQ"]}
"""Frame -> commands that answer it: FIN and REQ settle a message."""
_HEARTBEAT: Final[dict[str, Value]] = {
    "name": "HEARTBEAT",
    "sent_by": "server",
    "carries": HEARTBEAT.decode(),
    "answered_by": ["NOP"],
}

_BLOCKS: Final[dict[str, tuple[str, str]]] = {
    "frame head": ("int32 size | int32 frame type", "every frame of nsqd"),
    "message head": (
        f"int64 timestamp | uint16 attempts | 16 hex digits message id ({MESSAGE_HEAD} bytes)",
        "MESSAGE frames",
    ),
    "body size": ("int32 size", "IDENTIFY, AUTH, PUB, DPUB; MPUB: int32 size | int32 count, then a size each"),
    "names": ("topic and channel of SUB, topic of PUB, MPUB and DPUB", "command lines, kept for later messages"),
}
"""Name -> (layout, where it occurs)."""

_RECORDS: Final[dict[str, str]] = {
    "PUB, DPUB": "the body is one record",
    "MPUB": "a record after each size of the body",
    "MESSAGE": "a record after the message head",
}

_SERIALISATIONS: Final[dict[str, str]] = {
    "command line": "words with spaces between them, ended by LF",
    "frame": "int32 size | int32 type | data",
    "JSON": "body of IDENTIFY, answers to IDENTIFY and AUTH",
}


def message_names() -> tuple[str, ...]:
    """Names that messages of nsqd's protocol may have."""
    frames = (frame.name for frame in FRAME_TYPES)
    return ("MAGIC", *(command.name for command in COMMANDS.values()), *frames, "HEARTBEAT")


def lookupd_names() -> tuple[str, ...]:
    """Names that messages of nsqlookupd's protocol may have."""
    return ("MAGIC", *(command.name for command in LOOKUPD_COMMANDS.values()), "RESPONSE", "ERROR")


def describe_nsqd() -> dict[str, Table]:
    """The tables of nsqd's protocol, and nsqlookupd's commands."""
    return {
        "commands": _command_rows(COMMANDS),
        "frame_types": _frame_rows(),
        "other_messages": [_magic_row(MAGIC_V2), _HEARTBEAT],
        "metadata_blocks": [
            {"block": name, "layout": layout, "stands_in": where} for name, (layout, where) in _BLOCKS.items()
        ],
        "record_formats": [{"format": name, "records": what} for name, what in _RECORDS.items()],
        "serialisations": [{"name": name, "form": form} for name, form in _SERIALISATIONS.items()],
        "identify_ranges": [
            {"field": name, "from": allowed.low, "to": allowed.high, "also": list(allowed.also)}
            for name, allowed in IDENTIFY_RANGES.items()
        ],
        "errors": _error_rows(ERRORS),
        "ordinary_answers": ORDINARY.described(),
        "historic_errors": [{"code": e.code, "seen": e.seen, "meaning": e.meaning} for e in ERRORS_HISTORIC.values()],
        "upgrades": [dict(zip(UpgradeField._fields, row, strict=True)) for row in UPGRADES],
        "nsqlookupd_commands": _command_rows(LOOKUPD_COMMANDS),
    }


def describe_lookupd() -> dict[str, Table]:
    """The tables of nsqlookupd's protocol."""
    required: list[Value] = [*LOOKUPD_IDENTIFY_FIELDS]
    return {
        "nsqlookupd_commands": _command_rows(LOOKUPD_COMMANDS),
        "other_messages": [_magic_row(MAGIC_V1)],
        "nsqlookupd_errors": _error_rows(LOOKUPD_ERRORS),
        "ordinary_answers": ORDINARY.described(),
        "metadata_blocks": [
            {"block": "IDENTIFY body", "layout": "int32 size | JSON", "fields_that_must_be_there": required}
        ],
        "serialisations": [
            {"name": "command line", "form": _SERIALISATIONS["command line"]},
            {"name": "answer", "form": "int32 size | data"},
            {"name": "JSON", "form": "body of IDENTIFY and its answer"},
        ],
    }


def _magic_row(magic: bytes) -> dict[str, Value]:
    """The magic; it gets no reply if it is right."""
    return {"name": "MAGIC", "sent_by": "client", "carries": repr(magic.decode()), "answered_by": ["ERROR"]}


def _command_rows(commands: dict[bytes, NsqCommand]) -> Table:
    return [
        {
            "command": command.name,
            "params": ", ".join(
                name if index < command.required else f"[{name}]" for index, name in enumerate(command.params)
            ),
            "body": command.body,
            "kind": command.kind,
            "answered_by": _ANSWERS[command.kind],
            "errors": ", ".join(command.errors),
            "since": command.since,
        }
        for command in commands.values()
    ]


def _frame_rows() -> Table:
    return [
        dict(zip(FrameType._fields, row, strict=True)) | {"answered_by": _FRAME_ANSWERS.get(row.name, [])}
        for row in FRAME_TYPES
    ]


def _error_rows(errors: dict[str, Error]) -> Table:
    return [{"code": e.code, "closes": e.fatal, "meaning": e.meaning} for e in errors.values()]
