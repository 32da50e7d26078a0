"""``mqsniff live --follow``: captures that grow in, rows out; with --state across runs.

1. Without --state, Ctrl-C and SIGTERM end the run as they end ``live -i``: connections are closed.
2. With it they suspend the run: a last checkpoint is made, and what is open stays open for the next run. --idle,
   --duration and --count end it.
"""

from __future__ import annotations

import os
import stat
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from mqsniff.answers.checkpoint import (
    Checkpoint,
    CheckpointError,
    OutputPlace,
    checkpoint_of,
    restore_connections,
)
from mqsniff.cli.captureoptions import CaptureChoice
from mqsniff.cli.liverun import LiveKeeper, new_run, with_periods
from mqsniff.cli.options import ParquetPeriod, RunOptions
from mqsniff.cli.outputs import output_of
from mqsniff.cli.talk import say
from mqsniff.limits import SECOND_NS
from mqsniff.model import Item
from mqsniff.sinks.parquetperiods import PeriodicParquetSink
from mqsniff.sources.following import FollowSource, FollowWishes

if TYPE_CHECKING:
    from mqsniff.cli.outputs import SinkOutput
    from mqsniff.cli.run import Watcher
    from mqsniff.pipeline import Pipeline

STREAM_EVERY_S: Final = 1.0
PARQUET_EVERY_S: Final = 60.0
_STDOUT: Final = 1


class FollowKeeper:
    """Makes checkpoints of a run, and leaves out what the run before has written."""

    def __init__(self, state: Path, choice: CaptureChoice, source: FollowSource, before: Checkpoint | None) -> None:
        self._state = state
        self._choice = choice
        self._source = source
        self._before = before
        self._pipeline: Pipeline | None = None
        self._periods: PeriodicParquetSink | None = None
        self._every_s = STREAM_EVERY_S
        self._due = 0.0
        self._rotate_wanted = False

    def begin(self, pipeline: Pipeline, output: SinkOutput) -> None:
        """See RunKeeper."""
        self._pipeline = pipeline
        if isinstance(output.sink, PeriodicParquetSink):
            self._periods = output.sink
            every_ns = self._choice.every_ns
            self._every_s = PARQUET_EVERY_S if every_ns is None else every_ns / SECOND_NS
            self._periods.discard_unknown()
        if self._before is not None:
            for topics in (pipeline.topics, None if self._periods is None else self._periods.topics):
                if topics is not None:
                    topics.merge((row[0], row[1], row[2], row[3]) for row in self._before.topics)

    def rotate(self) -> None:
        """Make a checkpoint with the next batch; called from a signal handler."""
        self._rotate_wanted = True

    def kept(self, items: Iterable[Item | None]) -> Iterator[Item | None]:
        """See RunKeeper: the items that the run before did not write."""
        source = self._source
        if not source.replaying:
            self._write_state()
        for item in items:
            if source.replaying:
                if item is None and source.caught_up:
                    self._restore()
                continue
            yield item
            if item is not None:
                continue
            if source.suspending:
                self._save(suspended=True)
                return
            if self._rotate_wanted or time.monotonic() >= self._due:
                self._save()
        if source.replaying:
            self._keep_state()

    def finish(self) -> None:
        """Make the checkpoint of a run that has ended: nothing is open."""
        if not self._source.suspending and not self._source.replaying:
            self._write_state()

    def _restore(self) -> None:
        assert self._pipeline is not None
        assert self._before is not None
        lost = restore_connections(self._pipeline, self._before)
        if lost:
            say(f"mqsniff: {lost} connections began in files that are gone; they go on from their middle")
        self._source.replaying = False
        self._due = time.monotonic() + self._every_s

    def _keep_state(self) -> None:
        """A run that ended before it had caught up leaves the checkpoint as it was."""
        if self._periods is not None:
            self._periods.suspend()

    def _save(self, *, suspended: bool = False) -> None:
        """Make a checkpoint: first the output, then the state."""
        if self._periods is not None:
            self._periods.end_period()
            if suspended:
                self._periods.suspend()
        self._write_state()

    def _write_state(self) -> None:
        self._checkpoint().write(self._state)
        self._rotate_wanted = False
        self._due = time.monotonic() + self._every_s

    def _checkpoint(self) -> Checkpoint:
        assert self._pipeline is not None
        return checkpoint_of(self._pipeline, self._choice.follow, self._output(), self._source.place)

    def _output(self) -> OutputPlace:
        if self._periods is not None:
            where = str(self._periods.folder)
            return OutputPlace(kind="parquet", where=where, period=self._periods.period, run=self._periods.run)
        sys.stdout.flush()
        os.fsync(_STDOUT)
        return stdout_place()


def follow(choice: CaptureChoice, wanted: RunOptions, watcher: Watcher | None = None) -> int:
    """Follow captures; the exit code."""
    from mqsniff.cli.live import stopped_by_signal
    from mqsniff.cli.run import run

    wishes = FollowWishes(count=choice.packet_count, duration_ns=choice.duration_ns, idle_ns=choice.idle_ns)
    try:
        before = None if choice.state is None else Checkpoint.read(choice.state)
        wanted = with_periods(wanted, choice) if choice.state is None else resumed(wanted, choice, before)
        resume = None if before is None else before.resume
        source = FollowSource(choice.follow, wanted.limits, wishes, lambda text: say(f"mqsniff: {text}"), resume)
    except CheckpointError as error:
        say(f"mqsniff: --state {error}")
        return 2
    except OSError as error:
        say(f"mqsniff: --follow {error.filename}: {error.strerror}")
        return 2
    if choice.state is None:
        plain = LiveKeeper()
        with stopped_by_signal(source, [plain.rotate] if choice.every_ns is not None else []):
            return run(source, wanted, keeper=plain, watcher=watcher)
    keeper = FollowKeeper(choice.state, choice, source, before)
    try:
        with stopped_by_signal(source, [keeper.rotate]):
            code = run(source, wanted, keeper=keeper, watcher=watcher)
        keeper.finish()
    except OSError as error:
        say(f"mqsniff: --state {choice.state}: {error.strerror or error}")
        return 2
    return code


def resumed(wanted: RunOptions, choice: CaptureChoice, before: Checkpoint | None) -> RunOptions:
    """The options that go on with the output of a checkpoint, from which is taken back what came after it.

    CheckpointError if it is another output.
    """
    if before is not None and before.paths != list(choice.follow):
        raise CheckpointError(f"{choice.state}: it belongs to --follow {' --follow '.join(before.paths)}")
    match output_of(wanted):
        case "parquet":
            folder = str(wanted.out.absolute()) if wanted.out is not None else ""
            known = OutputPlace(kind="parquet", where=folder, run=new_run()) if before is None else before.output
            if (known.kind, known.where) != ("parquet", folder):
                raise CheckpointError(f"{choice.state}: it belongs to another output ({known.kind} {known.where})")
            return replace(wanted, period=ParquetPeriod(seconds=None, run=known.run, first=known.period))
        case "ndjson":
            take_back(choice, before)
            return replace(wanted, output="ndjson")
    raise click.UsageError("--state belongs to -o parquet and -o ndjson, whose rows stand for themselves")


def take_back(choice: CaptureChoice, before: Checkpoint | None) -> None:
    """Cut stdout to what the checkpoint knows of it."""
    if not stat.S_ISREG(os.fstat(_STDOUT).st_mode):
        raise click.UsageError("--state needs a file to write to: append to one (>> rows.ndjson), or use -o parquet")
    now = stdout_place()
    if before is None:
        return
    known = before.output
    if (known.kind, known.where) != (now.kind, now.where) or now.size < known.size:
        raise CheckpointError(
            f"{choice.state}: it belongs to another output; append (>>) to the file of before, or delete the state"
        )
    os.ftruncate(_STDOUT, known.size)
    os.lseek(_STDOUT, 0, os.SEEK_END)


def stdout_place() -> OutputPlace:
    """How far stdout, a file, is written."""
    status = os.fstat(_STDOUT)
    return OutputPlace(kind="ndjson", where=f"{status.st_dev}:{status.st_ino}", size=status.st_size)
