"""A plan in, one committed run out: scan, decode, finish, publish.

1. Nothing here knows Spark. ``Steps`` runs tasks and returns the results of those that succeeded.
2. A run that fails, whatever the reason, leaves nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, Protocol, TypeAlias

import orjson

from mqsniff import __version__
from mqsniff.batch.carried import CarriedCounts, CarriedIn
from mqsniff.batch.commit import Archive
from mqsniff.batch.filestats import FileStats
from mqsniff.batch.finalize import Rewrite, Rewriter, RunFinalizer, rewrites
from mqsniff.batch.handover import Handover, Window
from mqsniff.batch.inputs import InputError, Listed, NoneReadableError, why_changed
from mqsniff.batch.job import JobOptions, JobReport, JobStage, counted
from mqsniff.batch.manifest import Manifest, Published, manifest_input, run_digest
from mqsniff.batch.origins import PieceShift, shifts_of
from mqsniff.batch.plan import InputFile, ScanPlan, Split, cut, split_size_of
from mqsniff.batch.prefix import Prefix, prefix
from mqsniff.batch.report import PieceReport
from mqsniff.batch.reportrows import read_reports
from mqsniff.batch.store import shown_uri
from mqsniff.batch.taskkeys import TaskKeys
from mqsniff.batch.tasktables import TaskOutput, TaskResult
from mqsniff.decode.registry import load_dissectors
from mqsniff.limits import MIB
from mqsniff.model import Item, Problem, ProblemItem
from mqsniff.sinks.parts import WrittenPart
from mqsniff.tables.hashkey import HashKey
from mqsniff.tables.schemas import SCHEMA_VERSION
from mqsniff.topics import DatedTeaching, TopicDirectory, TopicHistory

LOST: Final = "what was scanned of it was lost with an executor"

StageReporter: TypeAlias = Callable[[JobStage], None]
"""Called with the stage of the job that begins."""

PARTITION_MIN: Final = 32 * MIB
PARTITION_MAX: Final = 512 * MIB
"""Bytes of bundles of one reduce task."""
PARTITION_SMALL: Final = 4 * MIB
"""They may be as small as this where else cores would have nothing to do."""
PARTITIONS_GOOD: Final = 64
"""Preferred number of reduce tasks, as long as each is neither too small nor too large."""
PARTITIONS_PER_CORE: Final = 2


class Steps(Protocol):
    """Runs tasks; each method returns the results of the tasks that succeeded."""

    def check_workers(self) -> int:
        """Check that workers run the same versions as the driver; returns how many tasks run at the same time."""

    def scan(self, work: ScanPlan, splits: Sequence[Split]) -> list[bytes]:
        """Scan splits and keep their bundles; returns the reports of each task (``reportrows``)."""

    def share(self, key_file: str) -> str:
        """Send a file of keys to the workers; returns the name by which tasks find it."""

    def learn(self, shifts: Sequence[PieceShift], output: TaskOutput, partitions: int, carried: CarriedIn) -> list[str]:
        """Collect the topic names that the kept and carried bundles teach."""

    def reduce(
        self, shifts: Sequence[PieceShift], output: TaskOutput, partitions: int, carried: CarriedIn
    ) -> list[str]:
        """Decode the kept and carried bundles, flow by flow."""

    def rewrite(self, wanted: Sequence[Rewrite], rewriter: Rewriter) -> list[str]:
        """Rewrite part files."""

    def show(self, report: JobReport) -> None:
        """Show the figures of a committed run to operators of the engine; never raises."""

    def clean_up(self) -> None:
        """Free the kept bundles."""


def partitions_of(shuffle_bytes: int, cores: int) -> int:
    """Number of reduce tasks for this many bytes of bundles."""
    size = min(max(shuffle_bytes // PARTITIONS_GOOD, PARTITION_MIN), PARTITION_MAX)
    size = min(size, max(-(-shuffle_bytes // (cores * PARTITIONS_PER_CORE)), PARTITION_SMALL))
    return max(1, -(-shuffle_bytes // size))


def for_cores(work: ScanPlan, options: JobOptions, cores: int) -> ScanPlan:
    """The plan with splits of a good size for so many tasks at a time, unless the user chose their size."""
    return work if options.split_size is not None else cut(work, split_size_of(work.size, cores))


def need_one_readable(files: Sequence[InputFile] | Sequence[FileStats]) -> None:
    """NoneReadableError where not one of the inputs can be read; it says why, of the first."""
    if all(file.status == "unreadable" for file in files):
        more = f", and {len(files) - 1} more cannot be read" if len(files) > 1 else ""
        raise NoneReadableError(f"{files[0].uri}: {files[0].error}{more}")


def _changed(work: ScanPlan) -> str:
    """Which inputs changed since they were listed, and how; empty if none."""
    changed = [f"{file.uri}: {reason}" for file in work.files if (reason := why_changed(file.location))]
    more = f", and {counted(len(changed) - 1, 'more input')}" if len(changed) > 1 else ""
    return changed[0] + more if changed else ""


class Runs:
    """The runs of a job, one for each window."""

    def __init__(
        self,
        steps: Steps,
        archive: Archive,
        out: str,
        on_stage: StageReporter,
        options: JobOptions,
        *,
        cores: int,
        started: float,
    ) -> None:
        """``started``: when the job began, by ``time.monotonic``."""
        self._steps = steps
        self._archive = archive
        self._out = out
        self._tell = on_stage
        self._options = options
        self._hash_key = options.hash_key or HashKey.random()
        """One for all windows."""
        self._secrets: list[tuple[int, bytes]] = []
        """Decryption secrets in the captures of all windows so far."""
        self._cores = cores
        self._begun = started
        """When this run began."""
        self.window = ""
        """Which one this is, in words."""

    def run(self, window: Window, listed: Sequence[Listed], replaces: tuple[str, ...]) -> JobReport:
        """One run; a run that fails leaves nothing."""
        archive, options, run = self._archive, self._options, self._archive.new_run()
        where = self._out if "://" in self._out else archive.store.where  # the folder of a worker is another one
        self._output = TaskOutput(where, archive.staging(run), run, replace(options, tls_keys=(), hash_key=None))
        self._report = JobReport(run, shown_uri(self._out), windows=1)
        self._report.start_seconds = time.monotonic() - self._begun
        self._result = TaskResult()
        self._shifts: list[PieceShift] = []
        self._reports: list[PieceReport] = []
        self._history: tuple[DatedTeaching, ...] = ()
        self._handover: Handover | None = None
        if options.carries:
            self._handover = Handover(archive, options.row_options(), window.until_ns, anew=bool(replaces))
        try:
            archive.begin(run)
            self._run(window.work, listed, replaces)
        except BaseException:
            archive.roll_back(run)
            raise
        finally:
            self._steps.clean_up()
        self._steps.show(self._report)
        self._begun = time.monotonic()
        return self._report

    def _on_stage(self, stage: str, size: int | None = None) -> None:
        self._tell(JobStage(stage + self.window, size))

    def _run(self, work: ScanPlan, listed: Sequence[Listed], replaces: tuple[str, ...]) -> None:
        """Scan, decode and publish; raises where it cannot."""
        handover = self._handover
        if handover is not None:
            work = handover.placed(work)
            self._report.anew, self._report.late = handover.anew, handover.late(work)
        work = for_cores(work, self._options, self._cores)
        proven = self._scan(work)
        if self._options.window_ns is None:
            need_one_readable(proven.files)
        if handover is not None:
            self._output = replace(self._output, carry=handover.carry(self._reports), taught=handover.taught)
        finalizer = RunFinalizer(self._archive, self._output, proven.captures())
        with TaskKeys(self._options.tls_keys, self._hash_key) as keys:
            self._share(keys, proven)
            self._reduce(proven, work)
            written = finalizer.items((*_registry_problems(), *proven.problems))
            written.memory = 0  # that is the driver's memory, not a worker's
            self._result.add(written.plain())
            topics = TopicDirectory((*self._output.taught, *self._result.taught, *self._result.edge_taught))
            place = self._archive.store.place
            outdated = handover.outdated(topics.names, place) if handover is not None else []
            rewritten = self._rewrite(self._result.parts, topics, outdated)
            edge = self._rewrite(self._result.edge_parts, topics)
        parts = [finalizer.published(part) for part in finalizer.filled(rewritten, topics)]
        edge_parts = [finalizer.published(part) for part in edge]
        self._on_stage("publishing")
        carried: tuple[Published, ...] = ()
        if handover is not None:
            drops = [part.path for part in (*edge_parts, *parts) if part in edge_parts or part.table == "topics"]
            carried = handover.leave(
                *(self._output, self._result, self._reports),
                drops=drops,
                history=self._history,
                files=len(proven.files),
            )
        published = [*parts, *edge_parts, finalizer.files([_file_row(file) for file in proven.files])]
        self._conclude(proven, work.done, published)
        manifest = self._manifest(listed, proven, published, replaces)
        self._archive.publish(replace(manifest, carried=carried, drops=handover.drops if handover is not None else ()))

    def _scan(self, work: ScanPlan) -> Prefix:
        """Scan until each piece is proven to begin where the one before it ended."""
        splits = work.splits
        reports: list[PieceReport] = []
        while True:
            text = f"scanning {work.size / 1e6:.0f} MB in {counted(len(work.files), 'file')}"
            self._on_stage(text, sum(split.size for split in splits))
            for block in self._steps.scan(work, splits) if splits else ():
                reports += read_reports(block)
            self._reports = reports
            self._report.splits += len(splits)
            proven = prefix(work, reports)
            if isinstance(proven, Prefix):
                self._shifts = shifts_of(proven.placing, ((each.piece, work.files[each.file]) for each in reports))
                return proven
            work, splits = proven.plan, proven.splits
            self._report.scanned_again += len(proven.files)

    def _share(self, keys: TaskKeys, proven: Prefix) -> None:
        """Send the keys to the tasks that decode, if there will be some."""
        self._secrets += [secret for held in proven.secrets.values() for secret in held]
        if not self._bytes_to_decode(proven):
            return
        share = self._steps.share
        self._output = replace(self._output, hash_key_file=share(keys.write_hash_key()))
        path = keys.write_key_logs(self._secrets)
        if path is not None:
            self._output = replace(self._output, key_file=share(path))

    def _reduce(self, proven: Prefix, work: ScanPlan) -> None:
        size = self._bytes_to_decode(proven)
        if not size:
            return
        partitions = self._output.options.partitions or partitions_of(size, self._cores)
        self._report.partitions, self._report.shuffle_bytes = partitions, size
        output = self._output
        carried = CarriedIn() if self._handover is None else self._handover.carried
        if output.options.filters.topics:  # names decide what is chosen, and any flow may teach them
            self._on_stage(f"learning the names of topics from {size / 1e6:.0f} MB of segments", size)
            history = TopicHistory(() if self._handover is None else self._handover.history)
            for learned in self._steps.learn(self._shifts, output, partitions, carried):
                history.merge(tuple(row) for row in orjson.loads(learned))
            self._history = tuple(history.rows())
            output = replace(output, history=self._history)
        self._on_stage(f"decoding {size / 1e6:.0f} MB of segments from {counted(proven.packets, 'packet')}", size)
        try:
            results = self._steps.reduce(self._shifts, output, partitions, carried)
        except Exception as error:
            if changed := _changed(work):  # Spark may notice it before us
                raise InputError(f"{changed}; {LOST}, so nothing was committed; run it again") from error
            raise
        for each in results:
            self._result.add(orjson.loads(each))
        self._check_arrived(proven, work)

    def _bytes_to_decode(self, proven: Prefix) -> int:
        """Bytes of bundles that the reduce tasks get."""
        return proven.bundle_bytes + (0 if self._handover is None else self._handover.counts.bytes)

    def _check_arrived(self, proven: Prefix, work: ScanPlan) -> None:
        """InputError where the reduce tasks did not get all that scan found.

        Spark scans again what a lost executor held, and gets nothing if the file is gone or changed meanwhile.
        """
        result = self._result
        arrived = result.bundles, result.bundle_bytes, result.segments
        known = CarriedCounts() if self._handover is None else self._handover.counts
        sent = proven.bundles + known.bundles, proven.bundle_bytes + known.bytes, proven.segments + known.segments
        if arrived == sent:
            return
        where = _changed(work) or "an input could not be scanned a second time"
        raise InputError(
            f"{where}; {LOST}: {result.segments:,} of {sent[2]:,} segments were decoded, so nothing was "
            "committed; run it again"
        )

    def _rewrite(
        self, parts: Sequence[WrittenPart], topics: TopicDirectory, outdated: Sequence[WrittenPart] = ()
    ) -> list[WrittenPart]:
        """Parts of tasks with the topic names that count, small ones joined, and those of earlier runs made anew."""
        staying, wanted = rewrites(parts, topics.names, self._output.options.folders)
        wanted += [Rewrite(part.table, (part,)) for part in outdated]
        if not wanted:
            return staying
        self._on_stage(f"finishing {counted(sum(len(each.parts) for each in wanted), 'part')}")
        again = TaskResult()
        for each in self._steps.rewrite(wanted, Rewriter(self._output, tuple(topics.rows()))):
            again.add(orjson.loads(each))
        self._report.rewritten += sum(len(each.parts) for each in wanted)
        self._result.memory = max(self._result.memory, again.memory)
        return staying + again.parts

    def _conclude(self, proven: Prefix, skipped: Sequence[str], published: Sequence[Published]) -> None:
        report, result = self._report, self._result
        report.files = len(proven.files)
        report.bytes = sum(file.size for file in proven.files)
        report.unreadable = [(file.uri, file.error) for file in proven.files if file.status == "unreadable"]
        report.skipped = list(skipped)
        report.packets, report.other_packets = proven.packets, proven.other_packets
        report.dropped = sum(file.dropped for file in proven.files)
        report.connections, report.messages, report.problems = result.connections, result.messages, result.problems
        report.encrypted, report.duplicate_packets = result.encrypted, result.duplicate_packets
        report.worker_memory = result.memory
        report.carried, report.carried_bytes = result.carried_counts.connections, result.carried_counts.bytes
        report.seconds = time.monotonic() - self._begun  # all but publishing
        for part in published:
            report.tables[part.table] += part.rows

    def _manifest(
        self, listed: Sequence[Listed], proven: Prefix, published: Sequence[Published], replaces: tuple[str, ...]
    ) -> Manifest:
        options = self._options.row_options()
        statuses = {file.uri: file.status for file in proven.files}
        inputs = [(each.uri, manifest_input(each)) for each in listed]
        if self._options.window_ns is not None:
            inputs = [(uri, given) for uri, given in inputs if uri in statuses]
        return Manifest(
            run=self._output.run,
            digest=run_digest([given for _, given in inputs], options),
            version=__version__,
            schema_version=SCHEMA_VERSION,
            inputs=tuple(given._replace(status=statuses[uri]) for uri, given in inputs if uri in statuses),
            parts=tuple(published),
            replaces=replaces,
            options=options,
            report=self._report.plain(),
        )


def _registry_problems() -> Iterator[Item]:
    """Dissectors that cannot be imported."""
    for entry in load_dissectors():
        if entry.problem:
            yield ProblemItem(None, Problem("internal", "error", entry.problem), None, None)


def _file_row(file: FileStats) -> dict[str, Any]:
    """A row of ``files``."""
    return {
        "uri": file.uri,
        "capture": file.name,
        "size": file.size,
        "mark": None if file.mtime_ns is None else str(file.mtime_ns),
        "format": file.format,
        "compression": file.compression,
        "linktypes": [str(number) for number in file.linktypes],
        "first_ts": file.first_ns,
        "last_ts": file.last_ns,
        "packets": file.packets,
        "other_packets": file.other_packets,
        "dropped": file.dropped,
        "status": file.status,
        "error": file.error or None,
        "domain": file.domain,
    }
