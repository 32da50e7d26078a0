"""How far a run is, on stderr, where that is a terminal: bytes that were read, or tasks of a Spark job.

1. ``Progress`` shows itself after a second, and only where it hides no output.
2. ``SparkProgress`` asks Spark beside the job, twice a second; a session that does not answer costs the bar, not the
   job. A cluster is asked through its status tracker, a Spark Connect server tells by itself.
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

PATIENCE_S: Final = 1.0
PERIOD_S: Final = 0.5


class Progress:
    """A bar that shows itself when the wait has become long."""

    def __init__(self, *, silent_stdout: bool = False) -> None:
        """``silent_stdout``: nothing is written to stdout meanwhile, so that a bar hides nothing there."""
        self._started = time.monotonic()
        self._bar: rich.progress.Progress | None = None
        self._task: rich.progress.TaskID | None = None
        self._wanted = sys.stderr.isatty() and (silent_stdout or not sys.stdout.isatty())

    def __call__(self, done: int, total: int | None) -> None:
        """Take note of how many bytes of the input were read, out of how many where that is known."""
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
    """A bar for the stage that runs; nothing where nobody looks."""

    def __init__(self) -> None:
        self._wanted = sys.stderr.isatty()
        self._bar: rich.progress.Progress | None = None
        self._task: rich.progress.TaskID | None = None
        self._over = threading.Event()
        self._watcher: threading.Thread | None = None

    def begin(self, stage: str) -> None:
        """Tell that a stage of the job begins, in words."""
        if self._bar is not None and self._task is not None:
            self._bar.reset(self._task, description=stage, total=None)

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
        """Ask a session from now on."""
        if self._bar is None:
            return
        try:
            tracker = session.sparkContext.statusTracker()
        except Exception:  # noqa: BLE001  # Spark Connect has no context, and says so with an error of its own
            with contextlib.suppress(AttributeError):
                session.registerProgressHandler(cast("Any", self._told))
            return
        self._watcher = threading.Thread(target=self._poll, args=(tracker,), daemon=True)
        self._watcher.start()

    def _poll(self, tracker: Any) -> None:
        while not self._over.wait(PERIOD_S):
            with contextlib.suppress(Exception):  # the session may go at any moment
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
        self._bar.update(self._task, completed=done, total=total)


def _task_bar() -> tuple[rich.progress.Progress, rich.progress.TaskID]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("tasks"))
    bar = Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True)
    task = bar.add_task("", total=None)
    bar.start()
    return bar, task
