"""The batch job on Spark: captures and a session in, committed tables and a report out.

1. A session that was given stays open; ``run_opened`` opens one when the first task runs, and stops it.
2. Errors of Spark become one line: SessionError.
3. ``read`` and ``publish`` use the files that the manifests name, and no others.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from mqsniff.batch.commit import Archive, CommitError
from mqsniff.batch.driver import IsReady, run_job
from mqsniff.batch.failures import failure
from mqsniff.batch.filestats import run_schema
from mqsniff.batch.filesystems import AZURE, takes_settings, with_settings
from mqsniff.batch.job import JobOptions, JobReport, JobStage
from mqsniff.batch.jobruns import StageReporter
from mqsniff.batch.lakes import LakeCommit, LakeTable, PartReader, archive_name, check_format, quoted
from mqsniff.batch.manifest import Published
from mqsniff.batch.session import SessionError, without_pandas_warning
from mqsniff.batch.sparksteps import SparkSteps, hadoop_setting, share_keys
from mqsniff.batch.store import Store, shown_uri
from mqsniff.sinks.outputfolder import is_unicode

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["frames", "publish", "read", "run", "run_opened", "run_ready", "share_keys"]

_SPARKS_NAMES: Final = {"s3": "s3a"}
"""URI schemes for which Spark has another name than pyarrow."""


def run(
    spark: SparkSession,
    inputs: Iterable[str],
    out: str,
    options: JobOptions | None = None,
    on_stage: StageReporter = lambda _stage: None,
    **more: Any,
) -> JobReport:
    """Decode captures into the folder ``out``; ``more`` are fields of ``JobOptions``.

    Raises InputError, StoreError, CommitError and SessionError, each with one line of text; nothing is committed then.
    """
    return _run(SparkSteps(lambda: spark), inputs, out, options or JobOptions(**more), on_stage)


def run_opened(
    opened: Callable[[], SparkSession], inputs: Iterable[str], out: str, options: JobOptions, on_stage: StageReporter
) -> JobReport:
    """As ``run``; the session is opened when the first task runs, and stopped at the end."""
    steps = SparkSteps(opened)
    try:
        return _run(steps, inputs, out, options, on_stage)
    finally:
        steps.stop()


def run_ready(
    opened: Callable[[], SparkSession],
    inputs: Iterable[str],
    out: str,
    options: JobOptions,
    *,
    on_stage: StageReporter,
    ready: IsReady,
) -> JobReport:
    """As ``run``, for the captures that are ready; the session is opened when the first task runs, and stays."""
    return _run(SparkSteps(opened), inputs, out, options, on_stage, ready=ready)


def _run(
    steps: SparkSteps,
    inputs: Iterable[str],
    out: str,
    options: JobOptions,
    on_stage: StageReporter,
    *,
    ready: IsReady = lambda _file: True,
) -> JobReport:
    def begin(stage: JobStage) -> None:
        steps.stage = stage
        on_stage(stage)

    with without_pandas_warning(), _in_one_line(steps, out):
        *some, folder = steps.opened_by_hadoops_settings([*inputs, out])
        return run_job(steps, some, folder, options, begin, ready=ready)


def frames(spark: SparkSession, inputs: Iterable[str], staging: str | None = None, **more: Any) -> dict[str, DataFrame]:
    """The tables of some captures as DataFrames, by name.

    The rows are written below ``staging``, a folder that driver and workers share; the default is a temporary folder,
    which works for sessions on this machine. The caller deletes it.
    """
    folder = staging or tempfile.mkdtemp(prefix="mqsniff-")
    run(spark, inputs, folder, **more)
    return read(spark, folder)


def read(spark: SparkSession, out: str) -> dict[str, DataFrame]:
    """The tables in the output folder of batch runs as DataFrames, by name; committed files only."""
    archive = _archive(spark, out)
    parts: dict[str, list[Published]] = {}
    for part in archive.committed():
        parts.setdefault(part.table, []).append(part)
    if not parts:
        raise CommitError(f"{out}: no run is committed there")
    read_parts = _part_reader(spark, out, archive)
    return {table: read_parts(table, parts[table]) for table in sorted(parts)}


def publish(spark: SparkSession, out: str, *, table: str, format: str) -> list[LakeCommit]:  # noqa: A002  # as in Spark
    """Commit the runs in ``out`` that are not published yet to Delta or Iceberg tables (``lakes``).

    ``table`` is the name in front of ours: ``lake.mq`` gives ``lake.mq.messages``. ``format`` is ``delta`` or
    ``iceberg``; the session needs its jars. Returns the commits. Raises StoreError, CommitError and SessionError; what
    is committed stays then, and the next call goes on.
    """
    kind, _ = check_format(format), quoted(table)
    archive = _archive(spark, out)
    if not archive.runs():
        raise CommitError(f"{out}: no run is committed there")
    commits: list[LakeCommit] = []
    with archive.locked(), without_pandas_warning(), _in_one_line(SparkSteps(lambda: spark), out):
        runs = archive.runs()
        name = archive_name(archive.store)
        for each in sorted({part.table for run in runs for part in run.parts}):
            commits += LakeTable(spark, each, table, kind, _part_reader(spark, out, archive)).publish(runs, name)
    return commits


def _archive(spark: SparkSession, out: str) -> Archive:
    return Archive(Store.at(with_settings(out, hadoop_setting(spark)) if takes_settings(out) else out))


def _part_reader(spark: SparkSession, out: str, archive: Archive) -> PartReader:
    """What reads part files of the archive in ``out``."""

    def read_parts(table: str, parts: Sequence[Published]) -> DataFrame:
        if not parts:
            return spark.createDataFrame([], _spark_schema(table))
        paths = [_sparks_uri(out, archive.store, part.path) for part in parts]
        return spark.read.schema(_spark_schema(table)).parquet(*paths)

    return read_parts


@contextlib.contextmanager
def _in_one_line(steps: SparkSteps, out: str) -> Iterator[None]:
    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise SessionError(f"Spark: {failure(error, steps.session, shown_uri(out))}") from error
    except ConnectionError as error:  # py4j's, when the JVM is gone
        raise SessionError(f"Spark: {failure(error)}") from error
    except OSError as error:
        raise SessionError(failure(error, out=shown_uri(out))) from error


def _sparks_uri(out: str, store: Store, path: str) -> str:
    """Where Spark finds a file of the folder."""
    if "://" not in out:
        if not is_unicode(store.where):
            raise CommitError(f"{out}: Spark cannot read a folder whose name is not UTF-8")
        return f"file://{store.place(path)}"
    scheme, _, rest = out.partition("?")[0].partition("://")
    place = rest if scheme in AZURE else rest.rpartition("@")[2]
    return f"{_SPARKS_NAMES.get(scheme, scheme)}://{place.rstrip('/')}/{path}"


def _spark_schema(table: str) -> Any:
    from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415  # it needs pandas

    return from_arrow_schema(run_schema(table).remove_metadata())
