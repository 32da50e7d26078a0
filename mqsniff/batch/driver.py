"""Inputs and somebody who runs tasks in, committed tables and a report out: the job, step by step.

1. Nothing here knows Spark. ``Steps`` runs tasks somewhere and gives back what those that succeeded have said.
2. What earlier runs left is put right first. The same command on finished work does nothing and says so.
3. A run that fails, whatever the reason, leaves nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, Protocol, TypeAlias

import orjson

from mqsniff import __version__
from mqsniff.batch.bundles import PiecePlaces
from mqsniff.batch.commit import Archive, CommitError, compare, new_run
from mqsniff.batch.filestats import FileStats
from mqsniff.batch.finalize import Rewrite, Rewriter, RunFinalizer, rewrites
from mqsniff.batch.inputs import InputError, Listed, list_inputs, why_changed
from mqsniff.batch.job import JobOptions, JobReport, counted
from mqsniff.batch.manifest import Manifest, Published, Taken, run_digest
from mqsniff.batch.plan import ScanPlan, Split, plan
from mqsniff.batch.prefix import Prefix, prefix
from mqsniff.batch.reduce import Done, TaskOutput
from mqsniff.batch.report import PieceReport
from mqsniff.batch.store import Store, shown_uri
from mqsniff.batch.taskkeys import TaskKeys
from mqsniff.decode.registry import load_dissectors
from mqsniff.limits import MIB
from mqsniff.model import Item, Problem, ProblemItem
from mqsniff.sinks.parts import WrittenPart
from mqsniff.tables.schemas import SCHEMA_VERSION
from mqsniff.tables.values import escaped
from mqsniff.topics import TopicDirectory, TopicHistory

LOST: Final = "what was scanned of it was lost with an executor"

TaskReports: TypeAlias = Callable[[str], None]
"""Is told the stage of the job that begins."""

PARTITION_MIN: Final = 32 * MIB
PARTITION_MAX: Final = 512 * MIB
"""Bytes of bundles of one reduce task."""
PARTITIONS_GOOD: Final = 64
"""Tasks that a job is divided into as long as they are neither too small nor too large."""


class Steps(Protocol):
    """Runs tasks; each method gives what the tasks that succeeded have said."""

    def check_workers(self) -> None:
        """See that tasks run what the driver runs."""

    def scan(self, work: ScanPlan, splits: Sequence[Split]) -> list[str]:
        """Scan splits, keep their bundles, give their reports."""

    def share(self, key_file: str) -> str:
        """Send a file of keys to where tasks run; it gives the name by which tasks find it."""

    def learn(self, placing: PiecePlaces, output: TaskOutput, partitions: int) -> list[str]:
        """Collect the names of topics that all bundles which were kept teach."""

    def reduce(self, placing: PiecePlaces, names: Sequence[str], output: TaskOutput, partitions: int) -> list[str]:
        """Decode all bundles that were kept, by flow; then they can go."""

    def rewrite(self, wanted: Sequence[Rewrite], rewriter: Rewriter) -> list[str]:
        """Write parts once more."""

    def forget(self) -> None:
        """Let go of everything that is kept."""


def partitions_of(shuffle_bytes: int) -> int:
    """Reduce tasks for so many bytes of bundles."""
    size = min(max(shuffle_bytes // PARTITIONS_GOOD, PARTITION_MIN), PARTITION_MAX)
    return max(1, -(-shuffle_bytes // size))


def run_job(
    steps: Steps,
    inputs: Iterable[str],
    out: str,
    options: JobOptions | None = None,
    told: TaskReports = lambda _stage: None,
) -> JobReport:
    """Do everything; raises InputError, StoreError, CommitError, or what ``steps`` raises."""
    started = time.monotonic()
    options = options or JobOptions()
    archive = Archive(Store.at(out))
    with archive.locked():
        told("looking at the inputs")
        recovered = archive.recover().lines()
        listed = list_inputs(inputs)
        runs = archive.runs()
        done = _already_done(archive, runs, listed, options)
        if done is not None and len(done) == len(listed):
            return _nothing_to_do(runs, listed, shown_uri(out), recovered)
        work = _plan(listed, options, done or ())
        told("looking at the workers")
        steps.check_workers()
        ready = time.monotonic()
        run = new_run()
        where = out if "://" in out else archive.store.where  # a worker stands in a folder of its own
        output = TaskOutput(where, archive.staging(run), run, replace(options, tls_keys=()))
        job = _Job(steps, archive, output, told, options)
        try:
            archive.begin(run)
            report = job.run(work, listed, tuple(each.run for each in runs) if options.overwrite else ())
        except BaseException:
            archive.roll_back(run)
            raise
        finally:
            steps.forget()
    report.out, report.recovered = shown_uri(out), recovered
    report.seconds, report.start_seconds = time.monotonic() - started, ready - started
    return report


def _already_done(
    archive: Archive, runs: Sequence[Manifest], listed: Sequence[Listed], options: JobOptions
) -> set[str] | None:
    """URIs of the inputs that earlier runs took; None where all are to be taken. CommitError where it is not clear."""
    where = archive.store.where
    if (foreign := archive.foreign()) and not runs:
        raise CommitError(f"{where} holds files of somebody else, such as {foreign[0]}: choose another folder")
    if not runs or options.overwrite:
        return None
    inputs = [taken_of(each) for each in listed]
    if options.append:
        found = compare(archive.ledger(), ((taken.uri, taken.size, taken.mark) for taken in inputs))
        if found.changed:
            raise CommitError(f"{found.changed[0]} has changed since it was taken: --overwrite takes all anew")
        return {each.uri for each, taken in zip(listed, inputs, strict=True) if taken.uri in set(found.done)}
    digest = run_digest(inputs, options.row_options())
    if any(run.digest == digest for run in runs):
        return {each.uri for each in listed}
    raise CommitError(
        f"{where} holds run {runs[-1].run} of other inputs or options: --append adds to it, --overwrite replaces it"
    )


def _plan(listed: Sequence[Listed], options: JobOptions, done: Collection[str]) -> ScanPlan:
    """The plan; InputError where not one of the inputs can be read."""
    work = plan(listed, options.scan_options, done)
    if all(file.status == "unreadable" for file in work.files):
        raise InputError(_unreadable([(file.uri, file.error) for file in work.files]))
    return work


def _unreadable(files: Sequence[tuple[str, str]]) -> str:
    """Why there is nothing to decode, by (URI, reason) of all inputs."""
    more = f", and {len(files) - 1} more cannot be read" if len(files) > 1 else ""
    return f"{files[0][0]}: {files[0][1]}{more}"


def _changed(work: ScanPlan) -> str:
    """Which inputs are no longer what was listed, and why; empty where all are."""
    changed = [f"{file.uri}: {reason}" for file in work.files if (reason := why_changed(file.location))]
    more = f", and {counted(len(changed) - 1, 'more input')}" if len(changed) > 1 else ""
    return changed[0] + more if changed else ""


def _nothing_to_do(runs: Sequence[Manifest], listed: Sequence[Listed], out: str, recovered: list[str]) -> JobReport:
    report = JobReport(runs[-1].run, out, "nothing to do", recovered=recovered)
    report.skipped = [each.uri for each in listed]
    for run in runs:
        for part in run.parts:
            report.tables[part.table] += part.rows
    return report


class _Job:
    """One run, from the plan to the manifest."""

    def __init__(
        self, steps: Steps, archive: Archive, output: TaskOutput, told: TaskReports, options: JobOptions
    ) -> None:
        self._steps = steps
        self._archive = archive
        self._output = output
        self._told = told
        self._report = JobReport(output.run, "")
        self._done = Done()
        self._options = options

    def run(self, work: ScanPlan, listed: Sequence[Listed], replaces: tuple[str, ...]) -> JobReport:
        """Do it; raises where it cannot."""
        settled = self._scan(work)
        closing = RunFinalizer(self._archive, self._output, settled.captures())
        if all(facts.status == "unreadable" for facts in settled.files):
            raise InputError(_unreadable([(facts.uri, facts.error) for facts in settled.files]))
        with TaskKeys(self._options.tls_keys) as keys:
            path = keys.write(secret for held in settled.secrets.values() for secret in held)
            if path is not None and settled.bundle_bytes:
                self._output = replace(self._output, key_file=self._steps.share(path))
            self._reduce(settled, work)
        told = closing.items((*_registry_problems(), *settled.problems))
        told.memory = 0  # it is the driver's, no worker's
        self._done.add(told.plain())
        topics = TopicDirectory(self._done.taught)
        parts = closing.filled(self._rewrite(topics), topics)
        self._told("publishing")
        published = [closing.published(part) for part in parts]
        published.append(closing.files([_file_row(facts) for facts in settled.files]))
        self._conclude(settled, work.done, published)
        self._archive.publish(self._manifest(listed, settled, published, replaces))
        return self._report

    def _scan(self, work: ScanPlan) -> Prefix:
        """Scan until every byte is read by a piece that is proven to begin where the one before it ended."""
        splits = work.splits
        reports: list[PieceReport] = []
        while True:
            self._told(f"scanning {work.size / 1e6:.0f} MB in {counted(len(work.files), 'file')}")
            reports += map(PieceReport.from_json, self._steps.scan(work, splits)) if splits else ()
            self._report.splits += len(splits)
            settled = prefix(work, reports)
            if isinstance(settled, Prefix):
                return settled
            work, splits = settled.plan, settled.splits
            self._report.scanned_again += len(settled.files)

    def _reduce(self, settled: Prefix, work: ScanPlan) -> None:
        if not settled.placing.places or not settled.bundle_bytes:
            return
        partitions = self._output.options.partitions or partitions_of(settled.bundle_bytes)
        self._report.partitions, self._report.shuffle_bytes = partitions, settled.bundle_bytes
        output = self._output
        if output.options.filters.topics:  # names decide what is chosen, and any flow may teach them
            self._told(f"learning the names of topics from {settled.bundle_bytes / 1e6:.0f} MB of segments")
            history = TopicHistory()
            for learned in self._steps.learn(settled.placing, output, partitions):
                history.merge(orjson.loads(learned))
            output = replace(output, history=tuple(history.rows()))
        self._told(f"decoding {settled.bundle_bytes / 1e6:.0f} MB of segments")
        names = [capture.name for capture in settled.captures()]
        try:
            told = self._steps.reduce(settled.placing, names, output, partitions)
        except Exception as error:
            if changed := _changed(work):  # an engine that compares may see it first
                raise InputError(f"{changed}; {LOST}, so nothing was committed; run it again") from error
            raise
        for done in told:
            self._done.add(orjson.loads(done))
        self._check_arrived(settled, work)

    def _check_arrived(self, settled: Prefix, work: ScanPlan) -> None:
        """InputError where the tasks that decode were not given what scan found.

        What a lost executor held is scanned again behind our back, and gives nothing where its file went or changed.
        """
        done = self._done
        given = done.bundles, done.bundle_bytes, done.segments
        if given == (settled.bundles, settled.bundle_bytes, settled.segments):
            return
        where = _changed(work) or "an input could not be scanned a second time"
        raise InputError(
            f"{where}; {LOST}: {done.segments:,} of {settled.segments:,} segments were decoded, so nothing was "
            "committed; run it again"
        )

    def _rewrite(self, topics: TopicDirectory) -> list[WrittenPart]:
        """The parts of all tasks, with the names that count, small ones put together."""
        staying, wanted = rewrites(self._done.parts, topics.names, self._output.options.folders)
        if not wanted:
            return staying
        self._told(f"finishing {counted(sum(len(each.parts) for each in wanted), 'part')}")
        again = Done()
        for done in self._steps.rewrite(wanted, Rewriter(self._output, tuple(topics.rows()))):
            again.add(orjson.loads(done))
        self._report.rewritten = sum(len(each.parts) for each in wanted)
        self._done.memory = max(self._done.memory, again.memory)
        return staying + again.parts

    def _conclude(self, settled: Prefix, skipped: Sequence[str], published: Sequence[Published]) -> None:
        report, done = self._report, self._done
        report.files = len(settled.files)
        report.bytes = sum(facts.size for facts in settled.files)
        report.unreadable = [(facts.uri, facts.error) for facts in settled.files if facts.status == "unreadable"]
        report.skipped = list(skipped)
        report.packets, report.other_packets = settled.packets, settled.other_packets
        report.dropped = sum(facts.dropped for facts in settled.files)
        report.connections, report.messages, report.problems = done.connections, done.messages, done.problems
        report.worker_memory = done.memory
        for part in published:
            report.tables[part.table] += part.rows

    def _manifest(
        self, listed: Sequence[Listed], settled: Prefix, published: Sequence[Published], replaces: tuple[str, ...]
    ) -> Manifest:
        options = self._options.row_options()
        statuses = {facts.uri: facts.status for facts in settled.files}
        every = [taken_of(each) for each in listed]
        return Manifest(
            run=self._output.run,
            digest=run_digest(every, options),
            version=__version__,
            schema_version=SCHEMA_VERSION,
            inputs=tuple(taken_of(each)._replace(status=statuses[each.uri]) for each in listed if each.uri in statuses),
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


def _file_row(facts: FileStats) -> dict[str, Any]:
    """A row of ``files``."""
    return {
        "uri": facts.uri,
        "capture": facts.name,
        "size": facts.size,
        "mark": None if facts.mtime_ns is None else str(facts.mtime_ns),
        "format": facts.format,
        "compression": facts.compression,
        "linktypes": [str(number) for number in facts.linktypes],
        "first_ts": facts.first_ns,
        "last_ts": facts.last_ns,
        "packets": facts.packets,
        "other_packets": facts.other_packets,
        "dropped": facts.dropped,
        "status": facts.status,
        "error": facts.error or None,
        "domain": facts.domain,
    }


def taken_of(listed: Listed) -> Taken:
    """An input as manifests name it."""
    return Taken(escaped(listed.uri), listed.size, "" if listed.mtime_ns is None else str(listed.mtime_ns))
