"""Violations of the specification by commands, as problems of severity info.

1. Limits are nsqd's defaults, or those of the reply to IDENTIFY; the text says which.
2. Rules about the order of commands (before SUB, before AUTH) are checked only if the client's stream was captured from
   its beginning.
3. Texts hold fixed words and numbers, never names or bytes of the traffic.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from mqsniff.model import Problem, ProblemKind, Value
from mqsniff_nsq.lines import ParsedCommand, number
from mqsniff_nsq.tables import (
    IDENTIFY_RANGES,
    MAX_BODY_SIZE,
    MAX_MSG_SIZE,
    MAX_RDY_COUNT,
    MAX_TIMEOUT_MS,
    MESSAGE_ID,
    MESSAGE_ID_SIZE,
    NAME,
    NAME_MAX,
    ValueRange,
)

_OPENINGS: Final = {
    ": HTTP": (b"GET ", b"POST", b"HEAD", b"PUT ", b"DELE", b"OPTI", b"CONN", b"PATC", b"TRAC"),
    ": HTTP/2": (b"PRI ",),
    ": TLS": (b"\x16\x03",),
}
"""Text of a problem -> first bytes of the protocol that it names."""
_MESSAGE_COMMANDS = ("RDY", "FIN", "REQ", "TOUCH", "CLS")


@dataclass(slots=True)
class State:
    """The state of a connection, as far as the rules need it."""

    whole: bool = True
    """Whether every byte of the client was seen."""
    subscribed: bool = False
    identified: bool = False
    authorized: bool = False
    auth_required: bool = False
    heartbeats_off: bool = False
    max_rdy_count: int = MAX_RDY_COUNT
    max_rdy_source: str = "by default"


class UnknownRow:
    """Counts unknown commands in a row; where too many have come, lines are no commands by their form alone.

    The server closes the connection at the first one, so what follows it was never executed.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._count = 0

    @property
    def spent(self) -> bool:
        """Whether only what ``probe`` accepts is a command now."""
        return self._count >= self._most

    def add(self, read: ParsedCommand) -> list[Problem]:
        """Count a command; a problem for the last one that is believed."""
        self._count = 0 if read.command else self._count + 1
        if self._count != self._most:
            return []
        detail = "unknown_max unknown commands in a row: bytes up to the next known command are skipped"
        return [Problem("limit", "warning", detail)]


def spec_violations(kind: ProblemKind, detail: str, path: str = "") -> Problem:
    """A problem of severity info."""
    return Problem(kind, "info", detail, path)


def odd_magic(data: bytes, server: str) -> Problem:
    """The problem of a wrong magic; clients of HTTP and TLS on the wrong port are named."""
    looks = next((name for name, starts in _OPENINGS.items() if data.startswith(starts)), "")
    return spec_violations("format", f"the connection does not begin with the magic of {server}{looks}")


def check_name(raw: bytes, path: str) -> Iterator[Problem]:
    """Check the name of a topic or channel (``IsValidTopicName``)."""
    if not 1 <= len(raw) <= NAME_MAX:
        yield spec_violations("out_of_range", f"a name of {len(raw)} bytes: 1 to {NAME_MAX} are allowed", path)
    elif not NAME.match(raw):
        yield spec_violations(
            "format", "a name with bytes other than . a-z A-Z 0-9 _ - and #ephemeral at its end", path
        )


def check_names(read: ParsedCommand) -> Iterator[Problem]:
    """Check parameters that are names, and the number of parameters."""
    yield from _check_line(read)
    for path, raw in read.params.items():
        yield from check_name(raw, path)


def check_command(read: ParsedCommand, state: State) -> list[Problem]:
    """All problems of a command, except those of its messages."""
    command = read.command
    if command is None:
        return [Problem("unknown_code", "warning", "a command that the protocol does not have")]
    problems = list(_check_line(read))
    problems += _check_params(read, state)
    if state.whole:
        problems += _check_state(command.name, state)
    return problems


def _check_line(read: ParsedCommand) -> Iterator[Problem]:
    command = read.command
    assert command is not None
    missing = command.params[len(read.params) : command.required]
    if missing:
        yield spec_violations("missing_field", f"{len(missing)} of its parameters are missing", missing[0])
    if read.extra:
        yield spec_violations("format", f"{len(read.extra)} parameters too many are ignored", "extra_params")


def _check_params(read: ParsedCommand, state: State) -> Iterator[Problem]:
    for path, raw in read.params.items():
        match path:
            case "topic" | "channel":
                yield from check_name(raw, path)
            case "message_id":
                if not MESSAGE_ID.fullmatch(raw):
                    yield _odd_id(raw, path)
            case "count":
                yield from _check_number(raw, path, state.max_rdy_count, state.max_rdy_source)
            case _:
                yield from _check_number(raw, path, MAX_TIMEOUT_MS, "by default")


def _odd_id(raw: bytes, path: str) -> Problem:
    if len(raw) != MESSAGE_ID_SIZE:
        return spec_violations("format", f"a message id of {len(raw)} bytes: it has {MESSAGE_ID_SIZE}", path)
    return spec_violations("format", "a message id that is not 16 hex digits", path)


def _check_number(raw: bytes, path: str, most: int, source: str) -> Iterator[Problem]:
    value = number(raw)
    if value is None:
        yield spec_violations("format", "not a decimal number", path)
    elif not 0 <= value <= most:
        yield spec_violations("out_of_range", f"{value} is not within 0 to {most} ({source})", path)


def _check_state(name: str, state: State) -> Iterator[Problem]:
    if name in ("IDENTIFY", "AUTH", "SUB") and state.subscribed:
        yield spec_violations("format", f"{name} after SUB")
    elif name == "SUB" and state.heartbeats_off:
        yield spec_violations("format", "SUB with heartbeats disabled")
    elif name in _MESSAGE_COMMANDS and not state.subscribed:
        yield spec_violations("format", f"{name} before SUB")
    if name in ("SUB", "PUB", "MPUB", "DPUB") and state.auth_required and not state.authorized:
        yield spec_violations("format", f"{name} before AUTH, which the server requires")


def check_size(size: int, path: str, *, most: int = MAX_MSG_SIZE) -> Iterator[Problem]:
    """Check the size of a message or, by its own limit, of a body."""
    if size <= 0:
        yield spec_violations("out_of_range", f"a size of {size}: at least 1 is required", path)
    elif size > most:
        yield spec_violations("out_of_range", f"a size of {size}: {most} are allowed by default", path)


def check_body_size(size: int) -> Iterator[Problem]:
    """Check the body size of IDENTIFY, AUTH or MPUB."""
    return check_size(size, "body", most=MAX_BODY_SIZE)


def check_identify(fields: dict[str, Value]) -> Iterator[Problem]:
    """Check the fields of IDENTIFY."""
    for name, allowed in IDENTIFY_RANGES.items():
        value = fields.get(name)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int):
            yield spec_violations("format", "no integer", name)
        elif not _within(value, allowed):
            also = "".join(f", or {n}" for n in allowed.also)
            yield spec_violations(
                "out_of_range", f"{value} is not within {allowed.low} to {allowed.high}{also} (by default)", name
            )
    if fields.get("snappy") is True and fields.get("deflate") is True:
        yield spec_violations("format", "snappy and deflate are both asked for: one excludes the other")


def _within(value: int, allowed: ValueRange) -> bool:
    return allowed.low <= value <= allowed.high or value in allowed.also
