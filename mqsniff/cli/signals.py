"""What ends a run from outside: Ctrl-C, and SIGTERM as schedulers and service managers send it; both end it alike.

The exit code tells which it was: 128 and the number of the signal.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

INTERRUPTED: Final = 128 + signal.SIGINT
TERMINATED: Final = 128 + signal.SIGTERM


class Terminated(KeyboardInterrupt):
    """A SIGTERM: what unwinds at a Ctrl-C unwinds at it too."""


def terminate(_signal: int, _frame: object) -> None:
    """A handler of SIGTERM."""
    raise Terminated


@contextmanager
def ended_by_sigterm() -> Iterator[None]:
    """Let SIGTERM unwind the program, so that files are closed and no folder is left behind.

    Whoever handles or ignores it already goes on doing so.
    """
    before = signal.getsignal(signal.SIGTERM)
    if before is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def code_of(interrupt: KeyboardInterrupt) -> int:
    """The exit code of a run that was ended."""
    return TERMINATED if isinstance(interrupt, Terminated) else INTERRUPTED
