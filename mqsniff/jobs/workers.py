"""Tasks in, processes that do them out; none of them outlives the run.

1. A worker is a fork: it has the options of the run, its keys too, without anything being written anywhere.
2. The first signal that means an end is raised in a worker as in any run; those after it are ignored.
3. A worker whose parent is gone ends at its next message.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, Pipe, wait
from types import TracebackType
from typing import Final, Self

from mqsniff.limits import MIB

WorkerTask = Callable[[int, Connection], None]
"""The number of the worker, and where to send what it has to say."""
_F_SETPIPE_SZ: Final = 1031
_FAULT: Final = 70
"""Exit code after an exception that nobody expected."""


class WorkerLost(Exception):  # noqa: N818  # it says what happened
    """A worker ended without its report; the text says how."""


class Workers:
    """The processes of a run."""

    def __init__(self, jobs: int, task: WorkerTask) -> None:
        self.channels: list[Connection] = []
        self._pids: dict[int, int] = {}
        """Number of the worker -> its process, while that is not reaped."""
        try:
            for job in range(jobs):
                self._start(job, task)
        except BaseException:
            self.end()
            raise

    def _start(self, job: int, task: WorkerTask) -> None:
        reader, writer = Pipe(duplex=False)
        with suppress(OSError):
            fcntl.fcntl(writer.fileno(), _F_SETPIPE_SZ, MIB)
        sys.stderr.flush()
        with warnings.catch_warnings():  # Arrow's threads may be there, at rest: it starts them anew in the child
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if not pid:
            for other in (*self.channels, reader):  # else a write would not fail when the parent is gone
                other.close()
            _do(job, task, writer)
        writer.close()
        self.channels.append(reader)
        self._pids[job] = pid

    def readable(self, jobs: Sequence[int], timeout_s: float) -> list[int]:
        """Those of some workers that have something to say."""
        ready = wait([self.channels[job] for job in jobs], timeout_s)
        return [job for job in jobs if self.channels[job] in ready]

    def interrupt(self) -> None:
        """Let all workers end with what they have."""
        for pid in self._pids.values():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGINT)

    def lost(self, job: int) -> WorkerLost:
        """How a worker ended that gave no report."""
        _, status = os.waitpid(self._pids.pop(job), 0)
        code = os.waitstatus_to_exitcode(status)
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        return WorkerLost(f"a worker process {how}")

    def end(self) -> None:
        """End those that still run, and wait until they are gone."""
        for pid in self._pids.values():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._reap()

    def join(self, timeout_s: float = 5.0) -> None:
        """Wait for workers that have reported."""
        until = time.monotonic() + timeout_s
        while self._pids and time.monotonic() < until:
            for job, pid in list(self._pids.items()):
                if os.waitpid(pid, os.WNOHANG)[0]:
                    del self._pids[job]
            if self._pids:
                time.sleep(0.001)

    def _reap(self) -> None:
        for pid in self._pids.values():
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)
        self._pids.clear()
        for channel in self.channels:
            channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()


@contextmanager
def whole() -> Iterator[None]:
    """Send a message inside of this: a signal is raised after it, since half a message could not be taken back."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _do(job: int, task: WorkerTask, channel: Connection) -> None:
    """Do a task, and end this process; nothing that its parent began is ended by it."""
    code = 0
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, _raise_once)
        task(job, channel)
    except (BrokenPipeError, KeyboardInterrupt):
        code = 1
    except BaseException:  # noqa: BLE001  # the border of the process
        traceback.print_exc()
        code = _FAULT
    finally:
        with suppress(Exception):
            sys.stderr.flush()
        os._exit(code)


def _raise_once(number: int, _frame: object) -> None:
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)
    raise KeyboardInterrupt(number)
