"""Progress bars on stderr, if that is a terminal: for the bytes that were read, or for the stages of a Spark job.

1. ``Progress`` appears after a second, and only if it hides no output.
2. ``SparkProgress`` polls Spark in a thread, twice per second; if the session does not answer, only the bar stops. A
   cluster has a status tracker; a Spark Connect server reports by itself.
3. Spark counts tasks. Those of a stage are about equal: its bytes are its size times the share of tasks that are done.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, cast

if TYPE_CHECKING:
    import rich.progress
    from pyspark.sql import SparkSession

    from mqsniff.batch.job import JobStage

PATIENCE_S: Final = 1.0
PERIOD_S: Final = 0.5


class Progress:
    """A bar for the bytes that were read."""

    def __init__(self, *, silent_stdout: bool = False) -> None:
        """``silent_stdout``: nothing is written to stdout meanwhile that the bar could hide."""
        self._started = time.monotonic()
        self._bar: rich.progress.Progress | None = None
        self._task: rich.progress.TaskID | None = None
        self._wanted = sys.stderr.isatty() and (silent_stdout or not sys.stdout.isatty())

    def __call__(self, done: int, total: int | None) -> None:
        """Show the bytes that were read, and the total if known."""
        if not self._wanted or time.monotonic() - self._started < PATIENCE_S:
            return
        if self._bar is None:
            self._bar, self._task = _read_bar()
        assert self._task is not None
        self._bar.update(self._task, completed=done, total=total)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()


def _read_bar() -> tuple[rich.progress.Progress, rich.progress.TaskID]:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    task = bar.add_task("reading", total=None)
    bar.start()
    return bar, task


class SparkProgress:
    """A bar for the bytes, or else the tasks, of the current stage; none if stderr is no terminal."""

    def __init__(self) -> None:
        self._wanted = sys.stderr.isatty()
        self._bar: rich.progress.Progress | None = None
        self._task: rich.progress.TaskID | None = None
        self._size: int | None = None
        """Bytes of the current stage."""
        self._over = threading.Event()
        self._watcher: threading.Thread | None = None

    def begin(self, stage: JobStage) -> None:
        """Show the name of a stage that begins."""
        self._size = stage.size
        if self._bar is not None and self._task is not None:
            self._bar.reset(self._task, description=stage, total=None, amount="")

    def __enter__(self) -> Self:
        if self._wanted:
            self._bar, self._task = _task_bar()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        if self._watcher is not None:
            self._watcher.join()
        if self._bar is not None:
            self._bar.stop()

    def watch(self, session: SparkSession) -> None:
        """Show the progress of a session from now on."""
        if self._bar is None:
            return
        try:
            tracker = session.sparkContext.statusTracker()
        except Exception:  # noqa: BLE001  # Spark Connect has no context, and raises its own error
            with contextlib.suppress(AttributeError):
                session.registerProgressHandler(cast("Any", self._told))
            return
        self._watcher = threading.Thread(target=self._poll, args=(tracker,), daemon=True)
        self._watcher.start()

    def _poll(self, tracker: Any) -> None:
        while not self._over.wait(PERIOD_S):
            with contextlib.suppress(Exception):  # the session may end at any time
                infos = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
                active = [info for info in infos if info is not None]
                if active:
                    self._show(sum(info.numCompletedTasks for info in active), sum(info.numTasks for info in active))

    def _told(self, stages: Any, **_: Any) -> None:
        """Called by a Spark Connect client with the stages of an execution."""
        active = list(stages or ())
        if active:
            self._show(sum(each.num_completed_tasks for each in active), sum(each.num_tasks for each in active))

    def _show(self, done: int, total: int) -> None:
        assert self._bar is not None
        assert self._task is not None
        self._bar.update(self._task, completed=done, total=total, amount=amount(done, total, self._size))


def amount(done: int, total: int, size: int | None) -> str:
    """How far a stage of ``total`` tasks is; ``size``: its bytes, None if its work is not measured in bytes."""
    if size is None or not total:
        return f"{done}/{total} tasks"
    return f"about {done / total * size / 1e6:,.0f}/{size / 1e6:,.0f} MB"


def _task_bar() -> tuple[rich.progress.Progress, rich.progress.TaskID]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[amount]}"))
    bar = Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True)
    task = bar.add_task("", total=None, amount="")
    bar.start()
    return bar, task
