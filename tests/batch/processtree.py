"""A process in, the processes below it out: to kill them, and to see that none is left."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple


class Below(NamedTuple):
    """A process below another one."""

    name: str
    parent: int
    started: int
    """Clock ticks since the machine started: a number may be given again."""


def descendants(root: int) -> dict[int, Below]:
    """The processes that a process started, and those that they started, by number."""
    every = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            front, _, rest = path.read_text().rpartition(")")
        except OSError:
            continue
        fields = rest.split()
        every[int(path.parent.name)] = Below(front.partition("(")[2], int(fields[1]), int(fields[19]))
    found, wanted = {}, {root}
    while wanted:
        wanted = {number for number, process in every.items() if process.parent in wanted}
        found |= {number: every[number] for number in wanted}
    return found


def kill_all(process: subprocess.Popen[bytes]) -> None:
    """Kill a command and all that it started, at once."""
    for number in (process.pid, *descendants(process.pid)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)
    process.wait()


def left_of(processes: Iterable[tuple[int, Below]], seconds: float) -> list[str]:
    """Those of some processes that still run after so many seconds at most."""
    until = time.monotonic() + seconds
    while left := [f"{process.name} {number}" for number, process in processes if _runs(number, process)]:
        if time.monotonic() > until:
            break
        time.sleep(0.2)
    return left


def _runs(number: int, process: Below) -> bool:
    try:
        fields = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return False
    return fields[0] != "Z" and int(fields[19]) == process.started
