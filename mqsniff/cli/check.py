"""``mqsniff check DIR…``: compares every capture below folders with its golden, or with expectations, for CI.

1. Captures are checked in processes of their own (``--jobs``), with ``--hash-key`` too; results are shown in the
   order of their names.
2. ``--update`` writes no golden of a capture whose expectations fail, so that it cannot bless a wrong decode.
3. Exit codes: 0 all passed; 1 a row differs, a golden lacks or an expectation fails; 2 a file cannot be read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from mqsniff.cli.options import golden_key_option, tls_option
from mqsniff.cli.sections import SectionedCommand, option
from mqsniff.cli.talk import say, tell_key_logs

if TYPE_CHECKING:
    from mqsniff.answers.check.expectations import Outcome
    from mqsniff.answers.check.goldens import Checked, Decoding
    from mqsniff.tables.hashkey import HashKey
    from mqsniff.tls.keylog import KeyLog

EPILOG: Final = """The golden of x.pcap is x.pcap.golden.ndjson beside it: the rows of all tables.
Expectations about x.pcap are in x.pcap.expect.toml beside it, or in a file for
all captures (--expect). TLS of x.pcap is decrypted with the key log x.keys, if
that lies beside it. docs/ci.md shows all of it.

\b
Examples:
  mqsniff check pcaps              exit 1 if a row differs or a golden lacks
  mqsniff check --update pcaps     write the goldens; read git diff then
  mqsniff check --ignore exchanges.latency_ns --ignore 'body.*_epoch' pcaps
  mqsniff check --expect ci.toml test-run.pcap     no golden: statements hold
  mqsniff check --junit report.xml pcaps           for a CI system
"""

DIFFERENCES_SHOWN: Final = 10
SMALL: Final = 64 << 20
"""Bytes of captures for which several processes do not pay."""


@click.command(cls=SectionedCommand, epilog=EPILOG, no_args_is_help=True)
@click.argument("paths", nargs=-1, required=True, metavar="DIR...", type=click.Path(exists=True, path_type=Path))
@option("Goldens", "--update", is_flag=True, help="Write the goldens of captures that have none or differ.")
@option("Goldens", "--ignore", multiple=True, metavar="FIELD",
        help="Do not compare this field: a column (ts), one of a table (exchanges.latency_ns), or a field of a body "
             "(body.throttle_time_ms) and all inside it; * matches any text; repeatable.")  # fmt: skip
@option("Expectations", "--expect", multiple=True, metavar="FILE",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="Check that the statements of this TOML file hold for each capture, and compare no goldens; "
             "repeatable.")  # fmt: skip
@tls_option
@golden_key_option
@option("Output", "-v", "--verbose", is_flag=True, help=f"Show all differences, not {DIFFERENCES_SHOWN} a capture.")
@option("Output", "--json", "as_json", is_flag=True, help="Print the results as one JSON object.")
@option("Output", "--junit", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path),
        help="Also write the results as JUnit XML.")  # fmt: skip
@option(
    "Running",
    "--jobs",
    type=click.IntRange(1),
    metavar="N",
    help="Processes.  [default: the cores; 1 for less than 64 MiB]",
)
def command(
    paths: tuple[Path, ...],
    *,
    update: bool,
    ignore: tuple[str, ...],
    expect: tuple[Path, ...],
    tls_keys: tuple[KeyLog, ...],
    hash_key: HashKey | None,
    verbose: bool,
    as_json: bool,
    junit: Path | None,
    jobs: int | None,
) -> int:
    """Compare captures with their goldens, or check statements about them.

    Decodes every capture under DIR and compares all rows with its golden, field by field. DIR may also be a capture.
    Hashes of undecoded bytes are made with a published key, so that they are the same everywhere; goldens of captures
    with secrets want a --hash-key.
    """
    if update and expect:
        raise click.UsageError("--update writes goldens, --expect compares none: choose one")
    from mqsniff.answers.captures import captures_under
    from mqsniff.answers.check.checksettings import SettingsError
    from mqsniff.answers.check.expectations import ExpectationError
    from mqsniff.answers.check.goldens import Checked, stale_goldens
    from mqsniff.cli.checkpage import CheckPage

    captures = captures_under(paths)
    if not captures:
        say(f"mqsniff: no captures under {', '.join(map(str, paths))}")
        return 2
    page = CheckPage(paths, shown=None if verbose else DIFFERENCES_SHOWN, silent=as_json)
    try:
        tasks = [task_of(capture, paths, ignore, expect, tls_keys, update=update) for capture in captures]
        jobs = jobs or _jobs_for(captures)
        results = []
        for checked in page.watched(run_tasks(tasks, jobs, hash_key), len(tasks)):
            page.show(checked)
            results.append(checked)
    except (SettingsError, ExpectationError) as error:
        say(f"mqsniff: {error}")
        return 2
    tell_key_logs(tls_keys)
    if not expect:
        results += [Checked(golden, "no capture") for golden in stale_goldens(captures, paths)]
    page.conclude(results, as_json=as_json)
    if junit is not None:
        _write_junit(junit, results)
    if any(checked.status == "unreadable" for checked in results):
        return 2
    return 0 if all(checked.passed for checked in results) else 1


def _jobs_for(captures: Sequence[Path]) -> int:
    """How many processes pay."""
    size = sum(capture.stat().st_size for capture in captures)
    return 1 if size < SMALL else os.cpu_count() or 1


class CheckTask(NamedTuple):
    """What a process does for one capture; it can be pickled."""

    capture: Path
    ignored: tuple[str, ...]
    decode_as: tuple[tuple[int, str], ...]
    key_logs: tuple[str, ...]
    """Their paths: a key log itself is never pickled."""
    expected: tuple[Path, ...]
    """Files of expectations."""
    goldens: bool
    """Whether the golden is compared too."""
    update: bool


def task_of(
    capture: Path,
    paths: Sequence[Path],
    ignore: tuple[str, ...],
    expect: tuple[Path, ...],
    keys: Sequence[KeyLog],
    *,
    update: bool,
) -> CheckTask:
    """The task for a capture; raises SettingsError and ExpectationError."""
    from mqsniff.answers.check.checksettings import settings_of
    from mqsniff.answers.check.expectations import expected_beside, read_expectations

    top = next((path for path in paths if path.is_dir() and capture.is_relative_to(path)), capture.parent)
    settings = settings_of(capture, top)
    beside = expected_beside(capture)
    expected = expect or ((beside,) if beside is not None else ())
    for file in expected:
        read_expectations(file)
    return CheckTask(
        capture,
        (*ignore, *settings.ignore),
        tuple(settings.decode_as.items()),
        tuple(log.name for log in keys),
        expected,
        not expect,
        update,
    )


def run_tasks(tasks: Sequence[CheckTask], jobs: int, hash_key: HashKey | None = None) -> Iterator[Checked]:
    """The results of tasks, in their order; processes read the key from a private file, as it is never pickled."""
    if jobs == 1 or len(tasks) == 1:
        for task in tasks:
            yield run_task(task, hash_key)
        return
    from concurrent.futures import ProcessPoolExecutor
    from functools import partial
    from multiprocessing import get_context

    from mqsniff.batch.taskkeys import TaskKeys

    keys = TaskKeys([], hash_key)
    work = partial(_run_with_key_file, key_file=keys.write_hash_key() if hash_key is not None else "")
    with keys, ProcessPoolExecutor(min(jobs, len(tasks)), mp_context=get_context("spawn")) as pool:
        try:
            yield from pool.map(work, tasks)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _run_with_key_file(task: CheckTask, key_file: str) -> Checked:
    from mqsniff.tables.hashkey import HashKey

    return run_task(task, HashKey.of_file(key_file) if key_file else None)


def run_task(task: CheckTask, hash_key: HashKey | None = None) -> Checked:
    """Check one capture; what cannot be read is a result too."""
    from mqsniff.answers.check.differences import IgnoredFields
    from mqsniff.answers.check.goldens import Checked, Decoding, GoldenError, check_capture
    from mqsniff.lockedsql.database import QueryError
    from mqsniff.tables.hashkey import PUBLISHED
    from mqsniff.tls.keylog import KeyLog

    keys = [KeyLog(name) for name in task.key_logs]
    decoding = Decoding(keys, dict(task.decode_as), IgnoredFields(task.ignored), hash_key or PUBLISHED)
    try:
        outcomes = _outcomes(task, decoding)
        failed = not all(outcome.passed for outcome in outcomes)
        if task.goldens:
            checked = check_capture(task.capture, decoding, update=task.update and not failed)
        else:
            checked = Checked(task.capture, "same")
    except (GoldenError, QueryError, OSError) as error:
        return Checked(task.capture, "unreadable", remark=str(error))
    checked.outcomes = outcomes
    if failed:
        if task.update and not checked.passed:
            checked.remark = "not updated: its expectations fail"
        checked.status = "failed"
    return checked


def _outcomes(task: CheckTask, decoding: Decoding) -> list[Outcome]:
    if not task.expected:
        return []
    from mqsniff.answers.check.asking import outcomes_of
    from mqsniff.answers.check.expectations import read_expectations

    expectations = [each for file in task.expected for each in read_expectations(file)]
    return outcomes_of(task.capture, expectations, decoding)


def _write_junit(path: Path, results: Sequence[Checked]) -> None:
    from mqsniff.answers.check.junit import write_junit
    from mqsniff.cli.checkpage import difference_lines
    from mqsniff.cli.run import OutputError

    try:
        write_junit(path, results, lambda checked: difference_lines(checked, DIFFERENCES_SHOWN))
    except OSError as error:
        raise OutputError(f"{path}: {error.strerror or error}") from None
