"""How far the reading is, on stderr: only on a terminal, only where it hides no output, only after a second."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    import rich.progress

PATIENCE_S: Final = 1.0


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
            self._bar, self._task = _shown_bar()
        assert self._task is not None
        self._bar.update(self._task, completed=done, total=total)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()


def _shown_bar() -> tuple[rich.progress.Progress, rich.progress.TaskID]:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    task = bar.add_task("reading", total=None)
    bar.start()
    return bar, task
