"""Ctrl-C and SIGTERM, which schedulers and service managers send: both end a run in the same way.

The exit code is 128 plus the number of the signal.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

INTERRUPTED: Final = 128 + signal.SIGINT
TERMINATED: Final = 128 + signal.SIGTERM


class Terminated(KeyboardInterrupt):
    """A SIGTERM; it unwinds the program as Ctrl-C does."""


def terminate(_signal: int, _frame: object) -> None:
    """A handler of SIGTERM."""
    raise Terminated


@contextmanager
def ended_by_sigterm() -> Iterator[None]:
    """Let SIGTERM unwind the program, so that files are closed and temporary folders deleted.

    A handler that is already set, or SIG_IGN, stays.
    """
    before = signal.getsignal(signal.SIGTERM)
    if before is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def code_of(interrupt: KeyboardInterrupt) -> int:
    """The exit code of a run that a signal ended."""
    return TERMINATED if isinstance(interrupt, Terminated) else INTERRUPTED
