"""One input for one target in, what is wrong with it out: an exception, too much time, too much memory."""

from __future__ import annotations

import resource
import time
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

SECONDS_FREE = 1.0
"""Processor time that every input may take, however short: tables are read at first use."""
SECONDS_EACH = 0.001
"""Processor time for each byte: a thousand times that of good traffic, since each byte is decoded several times."""
MEMORY_FREE = 256 * 1024
"""KiB by which one input may raise the peak of the process."""


class Target(NamedTuple):
    """What is fuzzed."""

    name: str
    about: str
    attempt: Callable[[bytes], None]
    """Tries an input; raises where something is wrong."""
    seeds: Callable[[], Iterable[bytes]]
    rooms: tuple[str, ...]
    """Files whose lines are counted as covered, as patterns of paths."""
    size_max: int = 4096
    """Largest input that is made."""


class Finding(NamedTuple):
    """What is wrong with an input."""

    kind: str
    """Exception, or "slow", or "memory"."""
    place: str
    """Innermost function of ours."""
    text: str

    @property
    def signature(self) -> str:
        """The same for inputs that fail alike."""
        return f"{self.kind} in {self.place}"


def judge(target: Target, data: bytes, *, slowness: float = 1) -> Finding | None:
    """What is wrong with an input; ``slowness``: how much slower the code runs than usual."""
    peak, began = _peak(), time.process_time()
    try:
        target.attempt(data)
    except Exception as error:  # noqa: BLE001  # any exception is a finding
        return Finding(type(error).__name__, _place(error), "".join(traceback.format_exception(error)))
    allowed = slowness * (SECONDS_FREE + SECONDS_EACH * len(data))
    if time.process_time() - began > allowed and (took := _again(target, data)) > allowed:
        return Finding("slow", target.name, f"{took:.2f} s for {len(data)} bytes")
    grown = _peak() - peak
    if grown > MEMORY_FREE:
        return Finding("memory", target.name, f"{grown} KiB for {len(data)} bytes")
    return None


def _again(target: Target, data: bytes) -> float:
    """The shortest of two more tries: the first may have loaded tables."""
    took = []
    for _ in range(2):
        began = time.process_time()
        target.attempt(data)
        took.append(time.process_time() - began)
    return min(took)


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _place(error: BaseException) -> str:
    """Where an exception was raised: the innermost frame of the project, and of the tests where a check failed."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "/mqsniff" in frame.filename or "/tests/" in frame.filename]
    frame = (ours or frames)[-1]
    return f"{Path(frame.filename).name}:{frame.name}:{frame.line}"
