"""Files and options in, a run over as many processes as pay out: rows, talk and exit code are those of one.

1. Workers decode (``jobwork``); this process puts their lines in order, or their part files in place, and talks.
2. Part files are written to a folder of their own below the output, which goes whatever happens; they are moved when
   all workers are done. So tables are complete or not there.
3. What depends on all connections together (two names of one topic id, ``connections_max``, ``state_max``) is noticed,
   and one process does the run then; bytes that are out already are not written again.
4. A worker that is lost ends the run with exit code 2; a signal ends all workers.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import click

from mqsniff.cli.choice import filter_chain
from mqsniff.cli.options import RunOptions
from mqsniff.cli.outputs import output_of, stdout_of_rows, stream_sink
from mqsniff.cli.progress import Progress
from mqsniff.cli.run import OutputError, announce, announces, conclude, run
from mqsniff.cli.signals import code_of, ended_by_sigterm, undivided
from mqsniff.filters.itemfilter import SHORT_NAME
from mqsniff.limits import MIB, Limits
from mqsniff.model import CaptureInfo

if TYPE_CHECKING:
    from mqsniff.jobs.lines import LineMerge
    from mqsniff.jobs.workers import Workers
    from mqsniff.model import FlowKey
    from mqsniff.pipeline import Totals

PAYS: Final = 32 * MIB
"""Bytes of files from which on workers are worth their start."""
_PACKED: Final = (".gz", ".zst", ".lz4", ".xz", ".bz2")
_PACKED_RATIO: Final = 5
_SLOW: Final = ".bz2"
"""Decompressing it takes longer than decoding what comes out, and every worker would do it."""
_LOOK_S: Final = 0.2
_LAST_WORDS_S: Final = 0.5
"""How long workers may take after a signal until their lines are out; those that write files complete them."""
_LAST_FILES_S: Final = 20.0


def run_files(files: tuple[str, ...], options: RunOptions, progress: Progress) -> tuple[int, list[CaptureInfo]]:
    """Decode files; the exit code, and what became of each. Raises as ``run``."""
    from mqsniff.sources.files import FileSource

    jobs = jobs_of(files, options)
    if jobs > 1:
        return _JobRun(files, options, progress, jobs).result()
    source = FileSource(files, options.limits, progress)
    code = run(source, options, progress)
    return code, source.captures


def jobs_of(files: tuple[str, ...], options: RunOptions) -> int:
    """How many processes decode."""
    if options.jobs == 1 or not _is_divisible(files, options):
        return 1
    if options.jobs is not None:
        return options.jobs
    if any(file.endswith(_SLOW) for file in files):
        return 1
    limits, usual = options.limits, Limits()
    if limits.connections_max < usual.connections_max or limits.state_max < usual.state_max:
        return 1  # they may be met, and then one process has to do the run
    return len(os.sched_getaffinity(0)) if _size(files) >= PAYS else 1


def _is_divisible(files: tuple[str, ...], options: RunOptions) -> bool:
    """Whether workers give what one process gives."""
    if options.live or options.count is not None or options.where is not None or any(options.times):
        return False
    if any(SHORT_NAME.fullmatch(name) for name in options.filters.connections):
        return False
    return output_of(options) in ("ndjson", "csv", "parquet") and all(Path(file).is_file() for file in files)


def _size(files: tuple[str, ...]) -> int:
    """Bytes of packets, nearly."""
    sizes = (Path(file).stat().st_size * (_PACKED_RATIO if file.endswith(_PACKED) else 1) for file in files)
    with suppress(OSError):
        return sum(sizes)
    return 0


@dataclass(slots=True)
class JobTotals:
    """What workers came to: what ``conclude`` tells of."""

    captures: list[CaptureInfo]
    totals: Totals


class _JobRun:
    """A run over several processes."""

    def __init__(self, files: tuple[str, ...], options: RunOptions, progress: Progress, jobs: int) -> None:
        from mqsniff.jobs.lines import LineMerge

        self._files = files
        self._options = options
        self._progress = progress
        self._jobs = jobs
        self._tables = _StagedTables(options) if output_of(options) == "parquet" else None
        self._announces = announces(options)
        self._header = 0
        self._is_torn = False
        stream: BinaryIO | None = None
        if self._tables is None:
            stream = stdout_of_rows()
            self._header = _write_header(options, stream)
        self._stream = stream
        self._merge: LineMerge = LineMerge(jobs, stream, options.limits.topics_max)
        self._choice = filter_chain(options, [])

    def result(self) -> tuple[int, list[CaptureInfo]]:
        """Do it."""
        from mqsniff.jobs.lines import RunTogether

        started = time.monotonic()
        try:
            with ended_by_sigterm(), self._progress:
                ended = self._decoded()
                done = self._finished()
        except RunTogether:
            return self._together()
        finally:
            if self._tables is not None:
                self._tables.clear()
        code = conclude(done, self._choice, self._options, time.monotonic() - started)
        return ended or code, done.captures

    def _decoded(self) -> int:
        """Let workers decode everything; the exit code if a signal ended it."""
        from mqsniff.cli.jobwork import JobTask
        from mqsniff.decode.registry import load_dissectors
        from mqsniff.jobs.share import CommonState, Share
        from mqsniff.jobs.workers import WorkerLost, Workers

        load_dissectors()
        if self._tables is not None:
            self._tables.begin()
        limits = self._options.limits
        common = CommonState(self._jobs, self._divided() if _size(self._files) >= PAYS else None)
        task = JobTask(
            self._files,
            self._options,
            lambda job: Share(job, common, limits),
            None if self._tables is None else self._tables.staging,
        )
        try:
            with Workers(self._jobs, task) as workers:
                return self._until_end(workers)
        except WorkerLost as error:
            rest = "no tables were written" if self._tables is not None else "the rows are not complete"
            raise OutputError(f"{error}; {rest}") from None
        finally:
            common.close()

    def _divided(self) -> dict[FlowKey, int]:
        """Which worker gets which connections, by the first packets."""
        from mqsniff.jobs.affinity import FlowAffinity
        from mqsniff.jobs.shares import divided
        from mqsniff.sources.files import FileSource

        limits = self._options.limits
        affinity = FlowAffinity.of(FileSource(self._files, limits).batches(), limits)
        return divided(affinity, self._jobs)

    def _until_end(self, workers: Workers) -> int:
        """Take everything; after a signal what is there, and its exit code."""
        try:
            self._collect(workers, None)
        except KeyboardInterrupt as interrupt:
            if self._is_torn:
                return code_of(interrupt)
            workers.interrupt()
            patience = _LAST_WORDS_S if self._tables is None else _LAST_FILES_S
            self._collect(workers, time.monotonic() + patience)
            return code_of(interrupt)
        return 0

    def _collect(self, workers: Workers, until: float | None) -> None:
        """Take what workers send, until all have reported or a time has come."""
        merge = self._merge
        while jobs := merge.wants():
            if until is not None and time.monotonic() > until:
                return
            for job in workers.readable(jobs, _LOOK_S):
                try:
                    with self._undivided():
                        merge.lanes[job].receive(workers.channels[job])
                except (EOFError, OSError):  # also in the middle of a message
                    if until is not None:
                        return
                    raise workers.lost(job) from None
                self._check(merge.lanes[job].report)
            self._write()
        workers.join()

    def _write(self) -> None:
        merge = self._merge
        with self._undivided():
            is_more = merge.write_ready()
        if is_more and self._announces:
            self._announces = False
            announce()
        done, total = min((lane.progress for lane in merge.lanes), key=lambda each: each[0])
        if done:
            self._progress(done, total)

    @contextmanager
    def _undivided(self) -> Iterator[None]:
        """Do a step to its end, also after a signal: a message or a line would be cut.

        After the second signal it is cut, and nothing is taken or written any more.
        """
        with undivided():
            self._is_torn = True
            yield
            self._is_torn = False

    def _check(self, report: dict[str, Any] | None) -> None:
        """Raise what a worker reports."""
        from mqsniff.jobs.lines import RunTogether

        match report:
            case {"kind": "together"}:
                raise RunTogether
            case {"kind": "failed", "said": said, "number": number}:
                if self._options.out is None:
                    raise OSError(number, said)
                raise OutputError(f"{self._options.out}: {said}")
            case {"kind": "foreign", "said": said}:
                raise OutputError(said)

    def _finished(self) -> JobTotals:
        """Put tables in place, and add up what workers counted."""
        from mqsniff.pipeline import Totals

        if self._stream is not None:
            self._stream.flush()
        reports = [report for lane in self._merge.lanes if (report := lane.report) and report["kind"] == "done"]
        if not reports:  # a signal came before anything was read
            if self._tables is not None:
                self._tables.publish([], [])
            return JobTotals([], Totals())
        captures = _captures(reports[0]["captures"])
        for report in reports:
            self._choice.add(report["choice"])
        if self._tables is not None:
            self._tables.publish(reports if len(reports) == self._jobs else [], captures)
        return JobTotals(captures, _added([report["totals"] for report in reports]))

    def _together(self) -> tuple[int, list[CaptureInfo]]:
        """Do the run in one process; what was written stays."""
        from mqsniff.sources.files import FileSource

        if self._tables is not None:
            self._tables.clear()
        source = FileSource(self._files, self._options.limits, self._progress)
        code = run(source, self._options, self._progress, skip=self._header + self._merge.written)
        return code, source.captures


def _write_header(options: RunOptions, stream: BinaryIO) -> int:
    """Write what stands before the rows; its size."""
    from mqsniff.jobs.lines import LineCollector

    header = LineCollector()
    stream_sink(options, [], header)
    return stream.write(header.getvalue())


def _captures(plain: list[Any]) -> list[CaptureInfo]:
    return [
        CaptureInfo(index, name, dropped=dropped, scope=scope, unreadable=unreadable)
        for index, (name, dropped, scope, unreadable) in enumerate(plain)
    ]


_OF_CONNECTIONS: Final = ("connections", "messages")
"""Totals of which each worker has a part; the others are the same in all of them."""


def _added(plain: list[dict[str, Any]]) -> Totals:
    """The totals of a run, from those of its workers."""
    from mqsniff.pipeline import Totals

    added = Totals(**plain[0])
    for other in plain[1:]:
        for name in _OF_CONNECTIONS:
            setattr(added, name, getattr(added, name) + other[name])
        for mine, theirs in ((added.by_protocol, other["by_protocol"]), (added.problems, other["problems"])):
            for name, count in theirs.items():
                mine[name] = mine.get(name, 0) + count
    return added


class _StagedTables:
    """Part files of workers, which become tables when all are done."""

    def __init__(self, options: RunOptions) -> None:
        from mqsniff.sinks.outputfolder import OutputFolder, OutputFolderError

        self._options = options
        self._folder = OutputFolder(str(options.out))
        try:
            self._folder.prepare(overwrite=options.overwrite)
        except OutputFolderError as error:
            raise click.UsageError(str(error)) from None
        self.staging = self._folder.path / f".mqsniff-{os.getpid()}"

    def begin(self) -> None:
        """Make the folder of the workers."""
        self.staging.mkdir()

    def clear(self) -> None:
        """Remove it; that of a run that wrote nothing too."""
        shutil.rmtree(self.staging, ignore_errors=True)

    def publish(self, reports: list[dict[str, Any]], captures: list[CaptureInfo]) -> None:
        """Fill in topic names, and move the parts into the tables, each of which gets one at least.

        Nothing is written without reports, or if no capture could be read.
        """
        from mqsniff.sinks.stagedparts import publish_parts

        if not reports or all(capture.unreadable for capture in captures):
            self.clear()
            self._folder.abandon()
            return
        options = self._options
        parts = {self.staging / str(job): report["parts"] for job, report in enumerate(reports)}
        taught = [each for report in reports for each in report["taught"]]
        publish_parts(
            self._folder, parts, taught, options.wanted("parquet"), shown=options.shown, limits=options.limits
        )
