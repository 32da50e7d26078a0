"""Pages of lines in, the screen of a terminal out: the other screen of it, that of full-screen programs.

1. What goes to stderr meanwhile would be painted over: its last line is shown below the page, and all of it is written
   to stderr when the screen is left.
"""

from __future__ import annotations

import io
import sys
from collections import deque
from typing import Final, Self, TextIO

from rich.console import Console
from rich.live import Live
from rich.text import Text

from mqsniff.cli.talk import say
from mqsniff.tables.escape import safe

_KEPT_LINES: Final = 200
"""Lines for stderr that are kept."""


class HeldTalk(io.TextIOBase):
    """Stands in for stderr, and keeps the last lines that are written to it."""

    def __init__(self) -> None:
        self.lines: deque[str] = deque(maxlen=_KEPT_LINES)

    def writable(self) -> bool:
        """See io.IOBase."""
        return True

    def write(self, text: str, /) -> int:
        """Keep lines."""
        self.lines.extend(line for line in text.splitlines() if line)
        return len(text)


class LiveScreen:
    """Shows one page after the other on a terminal."""

    def __init__(self, terminal: TextIO) -> None:
        self._console = Console(file=terminal, highlight=False)
        self._live = Live(
            console=self._console, screen=True, auto_refresh=False, redirect_stdout=False, redirect_stderr=False
        )
        self._talk = HeldTalk()
        self._stderr: TextIO | None = None

    @property
    def width(self) -> int:
        """Columns of the terminal now."""
        return self._console.width

    @property
    def height(self) -> int:
        """Lines of a page; the last one of the terminal is for what was said."""
        return max(self._console.height - 1, 1)

    def show(self, lines: list[str]) -> None:
        """Show a page."""
        said = Text(safe(self._talk.lines[-1]) if self._talk.lines else "", style="yellow")
        page = Text.from_ansi("\n".join(lines + [""] * (self.height - len(lines))))
        page.append("\n").append_text(said)
        page.no_wrap, page.overflow = True, "ellipsis"
        self._live.update(page, refresh=True)

    def __enter__(self) -> Self:
        self._stderr, sys.stderr = sys.stderr, self._talk
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()
        if self._stderr is not None:
            sys.stderr = self._stderr
            for line in self._talk.lines:
                say(line)
