"""Ctrl-C and SIGTERM, which schedulers and service managers send: both end a run in the same way.

1. The exit code is 128 plus the number of the signal.
2. A signal is not lost. Python drops exceptions of some callbacks, such as those that importlib runs after each import:
   where it drops the exception of a signal, it is raised again a moment later.
3. A step that must not be left half done (``undivided``) ends first; a second signal ends it at once.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

INTERRUPTED: Final = 128 + signal.SIGINT
TERMINATED: Final = 128 + signal.SIGTERM
_ENDING: Final = (signal.SIGINT, signal.SIGTERM)
_AGAIN_S: Final = 0.01
"""Time after which a dropped exception is raised again: the callback that dropped it has ended by then."""


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


@contextmanager
def undivided() -> Iterator[None]:
    """Raise a signal that comes inside of this when the block has ended, but a second one at once.

    Signals that have no handler of Python do what they did.
    """
    known = {number: handler for number in _ENDING if callable(handler := signal.getsignal(number))}
    waiting: list[int] = []

    def wait(number: int, frame: FrameType | None) -> None:
        waiting.append(number)
        if len(waiting) > 1:
            known[signal.Signals(number)](number, frame)

    for number in known:
        signal.signal(number, wait)
    try:
        yield
    finally:
        for number, handler in known.items():
            signal.signal(number, handler)
        if waiting:
            signal.raise_signal(waiting[0])


def code_of(interrupt: KeyboardInterrupt) -> int:
    """The exit code of a run that a signal ended."""
    return TERMINATED if isinstance(interrupt, Terminated) else INTERRUPTED


def raise_dropped_again() -> Callable[[Any], object]:
    """From now on, raise exceptions of signals again that Python drops (rule 2); the hook that was there before."""
    before = sys.unraisablehook

    def hook(dropped: Any) -> None:
        if isinstance(dropped.exc_value, KeyboardInterrupt):
            _raise_later(type(dropped.exc_value))
        else:
            before(dropped)

    sys.unraisablehook = hook
    return before


def _raise_later(kind: type[KeyboardInterrupt]) -> None:
    """Raise an exception in the main thread a moment later."""

    def handler(_signal: int, _frame: object) -> NoReturn:
        raise kind

    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, _AGAIN_S)
