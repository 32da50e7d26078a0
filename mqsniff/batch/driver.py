"""Inputs and an engine that runs tasks in, the runs that decode them and a report out: the job.

1. Earlier runs that were interrupted are completed or rolled back first. The same command on finished work does nothing
   and says so.
2. A window is a run (``jobruns``).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from typing import TypeAlias

from mqsniff.batch.commit import Archive, CommitError, compare
from mqsniff.batch.handover import windows_of
from mqsniff.batch.inputs import Listed, list_inputs
from mqsniff.batch.job import JobOptions, JobReport, JobStage
from mqsniff.batch.jobruns import Runs, StageReporter, Steps, need_one_readable
from mqsniff.batch.manifest import Manifest, manifest_input, run_digest
from mqsniff.batch.plan import ScanPlan, plan
from mqsniff.batch.store import Store, shown_uri

IsReady: TypeAlias = Callable[[Listed], bool]
"""Whether a file can be read."""


def run_job(
    steps: Steps,
    inputs: Iterable[str],
    out: str,
    options: JobOptions | None = None,
    on_stage: StageReporter = lambda _stage: None,
    *,
    ready: IsReady = lambda _file: True,
) -> JobReport:
    """Run the whole job; raises InputError, StoreError, CommitError, or what ``steps`` raises.

    Files that are not ``ready`` are left alone, but count for the common folder of names.
    """
    started = time.monotonic()
    options = options or JobOptions()
    archive = Archive(Store.at(out))
    with archive.locked():
        on_stage(JobStage("listing inputs"))
        recovered = archive.recover().lines()
        every = list_inputs(inputs)
        listed = [each for each in every if ready(each)]
        runs = archive.runs()
        done = _already_done(archive, runs, listed, options)
        if done is not None and len(done) == len(listed):
            return _nothing_to_do(runs, listed, shown_uri(out), recovered)
        left = {each.uri for each in every} - {each.uri for each in listed}
        work = replace(_plan(every, options, left | (done or set())), done=tuple(sorted(done or ())))
        on_stage(JobStage("checking workers"))
        cores = steps.check_workers()
        job = Runs(steps, archive, out, on_stage, options, cores=cores, started=started)
        windows = windows_of(work, options.window_ns)
        report = JobReport("", shown_uri(out), recovered=recovered)
        replaces = tuple(each.run for each in runs) if options.overwrite else ()
        for number, window in enumerate(windows, 1):
            job.window = f" (window {number} of {len(windows)})" if len(windows) > 1 else ""
            report.add(job.run(window, listed, replaces))
            replaces = ()
    report.seconds = time.monotonic() - started
    return report


def _already_done(
    archive: Archive, runs: Sequence[Manifest], listed: Sequence[Listed], options: JobOptions
) -> set[str] | None:
    """URIs of the inputs that earlier runs decoded; None to decode all. CommitError where the user has to choose."""
    where = archive.store.where
    if (foreign := archive.foreign()) and not runs:
        raise CommitError(f"{where} holds files of another program, such as {foreign[0]}: choose another folder")
    if not runs or options.overwrite:
        return None
    inputs = [manifest_input(each) for each in listed]
    if options.carries:
        found = compare(archive.ledger(), ((given.uri, given.size, given.mark) for given in inputs))
        if found.changed:
            raise CommitError(f"{found.changed[0]} has changed since it was decoded: --overwrite decodes all again")
        if not options.append and (others := archive.ledger().keys() - {given.uri for given in inputs}):
            raise CommitError(f"{where} holds other inputs, such as {min(others)}: --append adds to it")
        return {each.uri for each, given in zip(listed, inputs, strict=True) if given.uri in set(found.done)}
    digest = run_digest(inputs, options.row_options())
    if any(run.digest == digest for run in runs):
        return {each.uri for each in listed}
    raise CommitError(
        f"{where} holds run {runs[-1].run} of other inputs or options: --append adds to it, --overwrite replaces it"
    )


def _plan(listed: Sequence[Listed], options: JobOptions, done: Collection[str]) -> ScanPlan:
    """The plan; NoneReadableError where not one of the inputs can be read."""
    work = plan(listed, options.scan_options, done)
    need_one_readable(work.files)
    return work


def _nothing_to_do(runs: Sequence[Manifest], listed: Sequence[Listed], out: str, recovered: list[str]) -> JobReport:
    report = JobReport(runs[-1].run, out, "nothing to do", recovered=recovered)
    report.skipped = [each.uri for each in listed]
    for run in runs:
        for part in run.parts:
            report.tables[part.table] += part.rows
    return report
