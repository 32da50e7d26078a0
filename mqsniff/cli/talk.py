"""What a run has to say in, lines on stderr out; and what becomes of standard streams that are closed.

1. All talk goes through ``say``: one line each, and nothing in it that a terminal would act on. Names of files, topics
   and plugins, and the values of options, are somebody else's words.
2. Nobody can be told where stderr is closed or full: rows go on, and the run ends with exit code 2. A reader of stderr
   that went away wanted no more.
3. A standard stream that was closed before the start is opened on nothing: else the first file that is opened gets its
   number, and what somebody writes to the stream ends up in the file.
"""

from __future__ import annotations

import io
import os
import sys
from typing import Final, TextIO, cast

from mqsniff.tables.escape import safe

_STDIN: Final = 0


class Unheard(io.TextIOBase):
    """Stands for a stderr that takes nothing."""

    def __init__(self, *, missed: bool = False) -> None:
        self.missed = missed
        """Whether something was said that somebody should have heard."""

    def writable(self) -> bool:
        """See io.IOBase."""
        return True

    def write(self, text: str, /) -> int:
        """Take note that there was something to say."""
        self.missed = self.missed or bool(text)
        return len(text)


def say(line: str) -> None:
    """Say a line on stderr."""
    try:
        sys.stderr.write(f"{safe(line)}\n")
        sys.stderr.flush()
    except BrokenPipeError:
        sys.stderr = io.StringIO()
    except OSError:
        sys.stderr = Unheard(missed=True)


def was_missed() -> bool:
    """Whether something could not be said."""
    return isinstance(sys.stderr, Unheard) and sys.stderr.missed


def open_standard_streams() -> None:
    """Stand in for standard streams that are closed; what stdout cannot show becomes an escape."""
    if sys.stdin is None:
        sys.stdin = _opened(_STDIN, os.O_WRONLY, "r")  # reading from it fails
    if sys.stdout is None:
        sys.stdout = _opened(1, os.O_RDONLY, "w")  # and so does writing here
    if sys.stderr is None:
        _opened(2, os.O_WRONLY, "w")
        sys.stderr = Unheard()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _opened(number: int, flags: int, mode: str) -> TextIO:
    """A stream on the null device, with the number of a standard stream where that is free."""
    descriptor = os.open(os.devnull, flags)
    if descriptor == number:
        os.set_inheritable(descriptor, True)  # noqa: FBT003  # its signature
    stream = open(descriptor, mode, encoding="utf-8", closefd=False)  # noqa: SIM115  # it stays open
    return cast("TextIO", stream)
