"""Messages of a run in, lines on stderr out; and replacements for standard streams that are closed.

1. All messages go through ``say``, and through ``remark`` where ``-q`` drops them: one line each, with control
   characters escaped. Names of files, topics and plugins, and the values of options, are not trusted.
2. If stderr is closed or full, rows are still written, and the run ends with exit code 2. If the reader of stderr goes
   away, messages are dropped.
3. An unbuffered stdout is buffered, since a write of a part would go unnoticed. Who shows rows at once flushes it.
4. A standard stream that was closed before the start is opened on the null device: else the first file that is opened
   gets its number, and text for the stream is written to the file.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, TextIO, cast

import click

from mqsniff.tables.escape import safe

if TYPE_CHECKING:
    from mqsniff.tls.keylog import KeyLog

QUIET: Final = "mqsniff.quiet"
"""Under this name a command notes that ``-q`` was given."""
_STDIN: Final = 0


class UnwritableStderr(io.TextIOBase):
    """Replaces a stderr that cannot be written to."""

    def __init__(self, *, missed: bool = False) -> None:
        self.missed = missed
        """Whether a message was lost."""

    def writable(self) -> bool:
        """See io.IOBase."""
        return True

    def write(self, text: str, /) -> int:
        """Note that a message was lost."""
        self.missed = self.missed or bool(text)
        return len(text)


def say(line: str) -> None:
    """Write a line to stderr."""
    try:
        sys.stderr.write(f"{safe(line)}\n")
        sys.stderr.flush()
    except BrokenPipeError:
        sys.stderr = io.StringIO()
    except OSError:
        sys.stderr = UnwritableStderr(missed=True)


def remark(line: str) -> None:
    """Say what nobody needs to go on: totals and hints. Nothing under ``-q``."""
    context = click.get_current_context(silent=True)
    if context is None or not context.meta.get(QUIET):
        say(line)


def tell_key_logs(logs: Iterable[KeyLog]) -> None:
    """Say what is odd about key logs of the user."""
    for log in logs:
        if (sentence := log.sentence()) is not None:
            say(f"mqsniff: {sentence}")


def was_missed() -> bool:
    """Whether a message could not be written."""
    return isinstance(sys.stderr, UnwritableStderr) and sys.stderr.missed


def open_standard_streams() -> None:
    """Replace standard streams that are closed; characters that stdout cannot encode are escaped."""
    if sys.stdin is None:
        sys.stdin = _opened(_STDIN, os.O_WRONLY, "r")  # opened for writing, so that reading fails
    if sys.stdout is None:
        sys.stdout = _opened(1, os.O_RDONLY, "w")  # likewise
    if sys.stderr is None:
        _opened(2, os.O_WRONLY, "w")
        sys.stderr = UnwritableStderr()
    if isinstance(sys.stdout, io.TextIOWrapper):
        if isinstance(sys.stdout.buffer, io.RawIOBase):
            sys.stdout = _buffered(sys.stdout)
        sys.stdout.reconfigure(errors="backslashreplace")


def _buffered(stream: io.TextIOWrapper) -> io.TextIOWrapper:
    """A stream in place of an unbuffered one (PYTHONUNBUFFERED).

    Python takes no notice if the system writes only a part of what an unbuffered stream gets, as it does where a disk
    is nearly full: rows would be lost without an error.
    """
    encoding, raw = stream.encoding, cast("io.RawIOBase", stream.detach())
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding=encoding, line_buffering=raw.isatty())


def _opened(number: int, flags: int, mode: str) -> TextIO:
    """A stream on the null device, with the number of a standard stream if that is free."""
    descriptor = os.open(os.devnull, flags)
    if descriptor == number:
        os.set_inheritable(descriptor, True)  # noqa: FBT003  # its signature
    stream = open(descriptor, mode, encoding="utf-8", closefd=False)  # noqa: SIM115  # it stays open
    return cast("TextIO", stream)
