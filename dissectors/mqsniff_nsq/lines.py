"""Command lines of both NSQ protocols: a word and its parameters.

1. A line ends with LF or CR LF and has at most LINE_MAX bytes; single spaces separate the parameters.
2. In step, any printable word is a command. The first wrong byte decides, so that no answer changes when more bytes
   come.
3. A body is a signed four-byte size and so many bytes; there is none if the size is below one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from struct import Struct
from typing import Final, Literal, NamedTuple

from mqsniff.dissector import NEED, NO_FRAME, FrameAnswer, IncrementalSize, Sized
from mqsniff.model import Value
from mqsniff.spec.wire import Malformed, text_or_bytes
from mqsniff_nsq.tables import LINE_MAX, NsqCommand

INT32: Final = Struct(">i")

HEAD_MAX: Final = LINE_MAX + 4
"""Bytes of the longest line and the size after it."""

_WORD: Final = re.compile(rb"[!-~]{0,64}(?=[ \n]|\r\n)")
_WORD_BEGUN: Final = re.compile(rb"[!-~]{0,64}\r?\Z")


class Line(NamedTuple):
    """A command line."""

    word: bytes
    params: list[bytes]
    size: int
    """Bytes of the line with its LF."""

    @property
    def name(self) -> str:
        """Name of a command that is in no table."""
        return f"unknown({self.word.decode('ascii', 'backslashreplace')})"


def read_line(data: bytes) -> Line | Literal[FrameAnswer.NEED, FrameAnswer.NO_FRAME]:
    """The line at the start of ``data``."""
    end = data.find(b"\n", 0, LINE_MAX)
    if end < 0:
        begun = _WORD.match(data) or _WORD_BEGUN.match(data)
        return NEED if begun and len(data) < LINE_MAX else NO_FRAME
    word, *params = data[: end - 1 if data[end - 1 : end] == b"\r" else end].split(b" ")
    return Line(word, params, end + 1) if _WORD.match(data) else NO_FRAME


def size_of(head: bytes, commands: Mapping[bytes, NsqCommand]) -> Sized:
    """Size of the command at the start of ``head``, on a side that is in step."""
    line = read_line(head)
    if not isinstance(line, Line):
        return line
    command = commands.get(line.word)
    if command is None or not command.body:
        return line.size
    if len(head) < line.size + 4:
        return NEED
    (size,) = INT32.unpack_from(head, line.size)
    end: int = line.size + 4 + max(size, 0)
    if command.body == "messages" and size >= 4:
        return IncrementalSize(line.size + 4, end)
    return end


class ParsedCommand(NamedTuple):
    """The parsed line of a command, and the place of its body."""

    line: Line
    command: NsqCommand | None
    """None for a word that is not in the table."""
    params: dict[str, bytes]
    """Parameters by their names in the table."""
    extra: list[bytes]
    size: int | None
    """Size of the body as on the wire; None for a command without one."""
    start: int
    """Offset of the body."""


def read_command(data: bytes, commands: Mapping[bytes, NsqCommand]) -> ParsedCommand:
    """The command of a frame; Malformed if its line was cut."""
    line = read_line(data)
    if not isinstance(line, Line):
        raise Malformed("no command line")
    command = commands.get(line.word)
    if command is None:
        return ParsedCommand(line, None, {}, line.params, None, line.size)
    known = len(command.params)
    params = dict(zip(command.params, line.params, strict=False))
    if not command.body:
        return ParsedCommand(line, command, params, line.params[known:], None, line.size)
    (size,) = INT32.unpack_from(data, line.size)
    return ParsedCommand(line, command, params, line.params[known:], size, line.size + 4)


def text(raw: bytes) -> str:
    """A name as text for columns; bytes that are no UTF-8 become backslash escapes."""
    return raw.decode(errors="backslashreplace")


def number(raw: bytes | None) -> int | None:
    """A decimal number, perhaps negative; None if it is none."""
    if raw is None or not re.fullmatch(rb"-?[0-9]{1,19}", raw):
        return None
    return int(raw)


def number_or_text(raw: bytes) -> Value:
    """A parameter as a number; as text if it is none."""
    value = number(raw)
    return text_or_bytes(raw) if value is None else value
