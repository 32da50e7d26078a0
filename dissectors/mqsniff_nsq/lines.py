"""Command lines of a client, in both of NSQ's protocols: bytes in, a word and its parameters out.

1. A line ends with LF, perhaps CR before it, and is at most LINE_MAX bytes; parameters are parted by single spaces.
2. In step, any printable word is a command; what cannot be one is told from its first wrong byte on, so that no
   answer changes when more bytes come.
3. Bodies follow as a signed four-byte size and that many bytes; sizes below one have no body.
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
"""A line and the size behind it."""

_WORD: Final = re.compile(rb"[!-~]{0,64}(?=[ \n]|\r\n)")
_WORD_BEGUN: Final = re.compile(rb"[!-~]{0,64}\r?\Z")


class Line(NamedTuple):
    """A command line."""

    word: bytes
    params: list[bytes]
    size: int
    """Bytes of it, LF included."""

    @property
    def name(self) -> str:
        """The command, as it stands in ``name`` when no table knows it."""
        return f"unknown({self.word.decode('ascii', 'backslashreplace')})"


def read_line(data: bytes) -> Line | Literal[FrameAnswer.NEED, FrameAnswer.NO_FRAME]:
    """The line that starts ``data``."""
    end = data.find(b"\n", 0, LINE_MAX)
    if end < 0:
        begun = _WORD.match(data) or _WORD_BEGUN.match(data)
        return NEED if begun and len(data) < LINE_MAX else NO_FRAME
    word, *params = data[: end - 1 if data[end - 1 : end] == b"\r" else end].split(b" ")
    return Line(word, params, end + 1) if _WORD.match(data) else NO_FRAME


def size_of(head: bytes, commands: Mapping[bytes, NsqCommand]) -> Sized:
    """Size of the command that starts ``head`` on a connection that is in step."""
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
    """A command as it stands in a frame."""

    line: Line
    command: NsqCommand | None
    """None for a word that the table does not know."""
    params: dict[str, bytes]
    """Those that the table names."""
    extra: list[bytes]
    size: int | None
    """The size of the body as it was said; None for a command without one."""
    start: int
    """Where the body starts."""


def read_command(data: bytes, commands: Mapping[bytes, NsqCommand]) -> ParsedCommand:
    """The command whose frame begins ``data``; Malformed where its line is not there."""
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
    """A name as text for columns: what is no UTF-8 is shown with backslashes."""
    return raw.decode(errors="backslashreplace")


def number(raw: bytes | None) -> int | None:
    """A decimal number, perhaps with a minus; None where it is none."""
    if raw is None or not re.fullmatch(rb"-?[0-9]{1,19}", raw):
        return None
    return int(raw)


def number_or_text(raw: bytes) -> Value:
    """A parameter that should be a number, or what stands there."""
    value = number(raw)
    return text_or_bytes(raw) if value is None else value
