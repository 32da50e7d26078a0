"""``mqsniff batch IN… OUT``: archives of captures in, committed Parquet tables out, on Apache Spark.

1. If Spark, Java or a readable input is missing, one line says so.
2. The report goes to stderr, with ``--json`` to stdout; so do the lists of ``--dry-run`` and ``--list``.
3. Exit 2 for usage errors, errors of Spark, and unreadable inputs; these are named, and the others are decoded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from mqsniff.cli.filtering import filter_options, filters_of, reading
from mqsniff.cli.known import OneOf, unknown
from mqsniff.cli.options import decode_options
from mqsniff.cli.sections import SectionedCommand, all_of, option
from mqsniff.cli.talk import remark, say, tell_key_logs
from mqsniff.filters.amounts import read_duration
from mqsniff.filters.itemfilter import SHORT_NAME
from mqsniff.filters.readings import read_time
from mqsniff.tables.schemas import TABLES
from mqsniff.tables.times import SECOND_NS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from mqsniff.batch.job import JobOptions, JobReport

EPILOG: Final = """\b
Examples:
  mqsniff batch captures/ tables/                    this machine, all cores
  mqsniff batch --dry-run 'captures/**/*.pcap.zst' tables/
  mqsniff batch --append new/ tables/                what is there stays
  mqsniff batch --window 1h year/ tables/            hour by hour
  mqsniff batch --follow landing/ tables/            captures as they arrive
  mqsniff batch --master yarn --package env.tar.gz hdfs:///taps hdfs:///tables
  mqsniff batch --remote sc://spark:15002 s3://taps/2026 s3://tables/mq
  mqsniff batch --list tables/                       runs and files that count
"""

FOLDERS: Final = ("protocol", "day")

_WHERE: Final = "Where it runs"
_WHAT: Final = "What is written"
_HOW: Final = "How"


def _read_window(text: str) -> int:
    """The length of a window as nanoseconds."""
    window_ns = read_duration(text)
    if window_ns <= 0:
        raise ValueError(f"{text!r} is no length of a window, such as 1h or 1d")
    return window_ns


_batch_options: Final = all_of((
    option(_WHERE, "--master", metavar="URL",
           help="Spark master, such as local[4,4], yarn or spark://host:7077.  [default: local[*,4]: all cores, "
                "four attempts a task]"),
    option(_WHERE, "--remote", metavar="URL", help="Spark Connect server, sc://host:port."),
    option(_WHERE, "--package", metavar="FILE", help="Packed Python environment for the workers of a cluster."),
    option(_WHAT, "--table", "tables", multiple=True, type=OneOf("table", TABLES), metavar="NAME",
           help=f"Table to write, of {', '.join(TABLES)}; repeatable.  [default: all]"),
    option(_WHAT, "--no-body", is_flag=True, help="Leave the bodies of messages out."),
    option(_WHAT, "--value-bytes", metavar="N", type=click.IntRange(min=0),
           help="Keep at most this many bytes of a record's key or value.  [default: all]"),
    option(_WHAT, "--folders", metavar="NAMES", default="",
           help="Folders in a table, of protocol and day: --folders protocol,day."),
    option(_WHAT, "--overwrite", is_flag=True, help="Replace the tables in OUT."),
    option(_WHAT, "--append", is_flag=True,
           help="Add to the tables in OUT; inputs decoded before are skipped. Connections that were open at the end of "
                "the run before, with --append too, go on."),
    option(_HOW, "--domain", metavar="PATTERN", default="",
           help="folder, or a regular expression such as 'tap-[0-9]+': files in whose names it finds the same text "
                "are one capture.  [default: all are one]"),
    option(_HOW, "--cut-from", "cut_from_ns", metavar="TIME", callback=reading(read_time),
           help="Skip packets before this time, as if the captures began there; faster than --from."),
    option(_HOW, "--cut-to", "cut_to_ns", metavar="TIME", callback=reading(read_time),
           help="Skip packets from this time on."),
    option(_HOW, "--split-size", metavar="SIZE",
           help="Bytes of a capture that one task reads: 64m, 1g.  [default: by the cores, 4m to 128m]"),
    option(_HOW, "--window", "window_ns", metavar="TIME", callback=reading(_read_window),
           help="Decode captures that begin within so much time, such as 1h, in one run, those after it in the next: "
                "for archives of more than some 10^5 files or 2 TB. The rows are those of one run."),
    option(_HOW, "--follow", is_flag=True,
           help="Decode captures as they arrive in IN, a run for what is new, until Ctrl-C. Implies --append."),
    option(_HOW, "--settle", "settle_ns", metavar="TIME", default="10s", show_default=True,
           callback=reading(read_duration),
           help="With --follow: a capture has arrived when it has not changed for so long."),
    option(_HOW, "--tasks", metavar="N", type=click.IntRange(min=1),
           help="Tasks that decode.  [default: by the size of the traffic and the cores]"),
    option(_HOW, "--fail-fast", is_flag=True, help="Stop at the first input that cannot be read."),
    option(_HOW, "--dry-run", is_flag=True, help="Show files, splits, tasks and expected shuffle bytes, and stop."),
    option(_HOW, "--list", "listed", is_flag=True, help="Show the runs and files of OUT that count, and stop."),
    option(_HOW, "--json", "as_json", is_flag=True, help="Report on stdout, as JSON."),
    filter_options,
    decode_options,
))  # fmt: skip


@click.command(cls=SectionedCommand, epilog=EPILOG, no_args_is_help=True)
@click.argument("paths", nargs=-1, required=True, metavar="IN... OUT")
@_batch_options
def command(paths: tuple[str, ...], *, dry_run: bool, listed: bool, as_json: bool, **options: Any) -> int:
    """Decode archives of captures into Parquet tables with Apache Spark.

    IN is a capture, a folder (with all below it), a glob or a URI; captures given together are one capture. OUT is the
    folder of the tables. The same command again does nothing; it finishes what a crash left.
    """
    from mqsniff.batch.carried import CarriedError
    from mqsniff.batch.commit import CommitError
    from mqsniff.batch.inputs import InputError
    from mqsniff.batch.session import SessionError
    from mqsniff.batch.store import StoreError, redacted

    try:
        if listed:
            return _list(paths, as_json=as_json)
        if len(paths) < 2:
            raise click.UsageError("inputs and a folder for the tables are needed: mqsniff batch IN... OUT")
        where = {name: options.pop(name) for name in ("master", "remote", "package")}
        follows, settle_ns = options.pop("follow"), options.pop("settle_ns")
        if follows:
            _check_follow(options, dry_run=dry_run)
        wanted = _options(options)
        if follows:
            from mqsniff.cli.batchfollow import follow_landing

            return follow_landing(paths[:-1], paths[-1], wanted, where, settle_s=settle_ns / SECOND_NS, as_json=as_json)
        if dry_run:
            return _dry_run(paths[:-1], wanted, as_json=as_json)
        return _run(paths[:-1], paths[-1], wanted, where, as_json=as_json)
    except (CarriedError, CommitError, InputError, SessionError, StoreError) as error:
        say(f"mqsniff: {redacted(str(error))}")
        return 2
    except KeyboardInterrupt:
        say("mqsniff: interrupted")
        return 130


def _check_follow(given: dict[str, Any], *, dry_run: bool) -> None:
    """Refuse what ``--follow`` cannot do, and have it append."""
    others = {
        "--overwrite": given["overwrite"],
        "--window": given["window_ns"] is not None,
        "--fail-fast": given["fail_fast"],
        "--dry-run": dry_run,
    }
    for name, chosen in others.items():
        if chosen:
            raise click.UsageError(f"--follow decodes what arrives, run after run: {name} does not go with it")
    given["append"] = True


def _options(given: dict[str, Any]) -> JobOptions:
    """The JobOptions for the options of the user; click.UsageError if they contradict each other."""
    from mqsniff.batch.job import SPLIT_SIZE_MIN, JobOptions

    if given["overwrite"] and given["append"]:
        raise click.UsageError("--overwrite replaces the tables there, --append adds to them: choose one")
    folders = tuple(name.strip() for name in given.pop("folders").split(",") if name.strip())
    for name in folders:
        if name not in FOLDERS:
            raise click.UsageError(f"--folders: {unknown('folder', name, FOLDERS)}")
    chosen = given.pop("split_size")
    split_size = None if chosen is None else _size(chosen)
    if split_size is not None and split_size < SPLIT_SIZE_MIN:
        raise click.UsageError(f"--split-size must be at least {SPLIT_SIZE_MIN} bytes")
    if any(map(SHORT_NAME.fullmatch, given["connections"])):
        raise click.UsageError("--connection c1 counts the connections of one run; batch takes their connection_id")
    filters = filters_of(given)
    if any(given.pop("times")):
        raise click.UsageError(
            "--from and --to: batch knows no first and last packet before it has read them; give a date"
        )
    body = not given.pop("no_body")
    tables, tasks = given.pop("tables") or tuple(TABLES), given.pop("tasks")
    return JobOptions(
        tables=tables, body=body, folders=folders, split_size=split_size, filters=filters, partitions=tasks, **given
    )


def _size(text: str) -> int:
    units = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
    number, unit = (text[:-1], units[text[-1].lower()]) if text[-1:].lower() in units else (text, 1)
    if not number.isdecimal():
        raise click.UsageError(f"{text!r} is not a size, such as 64m or 1g")
    return int(number) * unit


def _run(inputs: tuple[str, ...], out: str, options: JobOptions, where: dict[str, Any], *, as_json: bool) -> int:
    """Run the job, with a progress bar and a report at the end."""
    from mqsniff.batch.job import JobStage
    from mqsniff.batch.session import need_pyspark, open_session
    from mqsniff.cli.progress import SparkProgress

    def opened() -> SparkSession:
        stages.begin(JobStage("starting Spark"))
        session = open_session(**where)
        stages.watch(session)
        return session

    need_pyspark()
    from mqsniff.batch.spark import run_opened

    with SparkProgress() as stages:
        report = run_opened(opened, inputs, out, options, stages.begin)
    tell_key_logs(options.tls_keys)
    show_report(report, as_json=as_json)
    return 2 if report.unreadable else 0


def show_report(report: JobReport, *, as_json: bool) -> None:
    """Say what a run did."""
    if as_json:
        _echo_json(report.plain())
    for line in report.recovered:
        say(f"mqsniff: {line}")
    for uri in report.skipped:
        say(f"mqsniff: {uri}: decoded before")
    for uri, why in report.unreadable:
        say(f"mqsniff: {uri}: {why}")
    for line in report.lines():
        remark(line)


def _dry_run(inputs: tuple[str, ...], options: JobOptions, *, as_json: bool) -> int:
    """Show the preview of a run."""
    from mqsniff.batch.preview import preview
    from mqsniff.cli.grid import show_grid

    found = preview(inputs, options)
    if as_json:
        _echo_json(found.plain())
        return 0
    show_grid("", ("file", "bytes", "format", "first packet", "domain", "status"), found.file_cells())
    click.echo()
    show_grid("", ("split", "bytes", "holds"), found.split_cells())
    remark(found.total())
    return 0


def _echo_json(plain: Any) -> None:
    """Print JSON values, with file names escaped as in the tables."""
    import orjson

    from mqsniff.tables.values import escaped

    click.echo(orjson.dumps(escaped(plain), option=orjson.OPT_INDENT_2).decode())


def _list(paths: tuple[str, ...], *, as_json: bool) -> int:
    """List the runs and files that count."""
    import orjson

    from mqsniff.batch.commit import Archive
    from mqsniff.batch.store import Store, shown_uri
    from mqsniff.cli.grid import show_grid

    if len(paths) != 1:
        raise click.UsageError("--list takes the folder of the tables and nothing else")
    archive = Archive(Store.at(paths[0]))
    runs = archive.runs()
    if not runs:
        say(f"mqsniff: no run is committed in {shown_uri(paths[0])}")
    if as_json:
        plain = [orjson.loads(manifest.encoded()) for manifest in runs]
        _echo_json(plain)
        return 0
    counting = set(archive.committed())
    parts = {manifest.run: [part for part in manifest.parts if part in counting] for manifest in runs}
    show_grid("", ("run", "inputs", "rows", "bytes", "files", "mqsniff"), [
        (
            manifest.run,
            str(len(manifest.inputs)),
            str(sum(part.rows for part in parts[manifest.run])),
            str(sum(part.size for part in parts[manifest.run])),
            str(len(parts[manifest.run])),
            manifest.version,
        )
        for manifest in runs
    ])  # fmt: skip
    click.echo()
    rows = [(part.path, str(part.rows), str(part.size)) for each in parts.values() for part in each]
    show_grid("", ("file", "rows", "bytes"), rows)
    return 0
