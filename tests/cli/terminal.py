"""Runs the command as its users do: in a process of its own, with a terminal or a pipe on each stream."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer
from typing import NamedTuple

COMMAND = [sys.executable, "-c", "from mqsniff.cli import main; main()"]


PATIENCE_S = 30


class Done(NamedTuple):
    """What a process left behind."""

    code: int
    shown: str
    """What a terminal saw."""
    talk: str
    """What went to stderr."""


@contextmanager
def piped(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run with pipes on all streams; a run that hangs is killed, so that the test fails instead of waiting."""
    pipe = subprocess.PIPE
    with subprocess.Popen([*COMMAND, *arguments], stdin=pipe, stdout=pipe, stderr=pipe) as process:
        watchdog = Timer(PATIENCE_S, process.kill)
        watchdog.start()
        try:
            yield process
        finally:
            process.wait()
            watchdog.cancel()


def on_terminal(*arguments: str, columns: int = 80, **environment: str) -> Done:
    """Run with a terminal on stdout."""
    keep = {name: os.environ[name] for name in ("PATH", "PYTHONPATH", "HOME") if name in os.environ}
    env = keep | {"TERM": "xterm-256color", "COLUMNS": str(columns), "LC_ALL": "C.UTF-8"} | environment
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [*COMMAND, *arguments], stdin=subprocess.DEVNULL, stdout=theirs, stderr=subprocess.PIPE, env=env
    ) as process:
        os.close(theirs)
        shown = b""
        while piece := _read(ours):
            shown += piece
        os.close(ours)
        assert process.stderr is not None
        talk = process.stderr.read()
    return Done(process.returncode, shown.decode().replace("\r\n", "\n"), talk.decode())


def _read(terminal: int) -> bytes:
    """The next bytes, none when the other end is closed (Linux tells that by an error)."""
    try:
        return os.read(terminal, 65_536)
    except OSError:
        return b""
