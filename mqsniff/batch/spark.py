"""The batch job on Spark: captures and a session in, committed tables and a report out.

1. Only the DataFrame API is used, so that the job runs over Spark Connect too; the tasks are functions without Spark.
2. Bundles stay on the executors' disks between scan and shuffle; those of a lost executor are made again.
3. File names hold the attempt of their task. Only files in the results of successful tasks are published.
4. What a task gets does not grow with the number of files: splits and rewrites are rows, and bundles carry the names
   and places of their files. Neither these rows nor closures are text in a query plan.
5. Keys, those of TLS and that of hashes, are files of the session; closures hold their names.
6. Errors of Spark become one line: SessionError.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from py4j.protocol import Py4JError
from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812  # the field's name for it

from mqsniff.batch.bundles import BUNDLE_DDL
from mqsniff.batch.carried import CarriedIn
from mqsniff.batch.commit import Archive, CommitError
from mqsniff.batch.driver import IsReady, StageReporter, run_job
from mqsniff.batch.failures import failure
from mqsniff.batch.filestats import run_schema
from mqsniff.batch.filesystems import AZURE, Setting, takes_settings, with_settings
from mqsniff.batch.finalize import Rewrite, Rewriter
from mqsniff.batch.job import JobOptions, JobReport, JobStage, counted
from mqsniff.batch.lakes import LakeCommit, LakeTable, PartReader, archive_name, check_format, quoted
from mqsniff.batch.manifest import Published
from mqsniff.batch.origins import PieceShift
from mqsniff.batch.plan import ScanPlan, Split
from mqsniff.batch.session import SessionError, described, job_settings, payload_folder, without_pandas_warning
from mqsniff.batch.splitrows import split_rows, stores_of, table_of
from mqsniff.batch.store import Store, shown_uri
from mqsniff.batch.tasks import difference, rewrite_rows, shift_table
from mqsniff.batch.tasktables import TaskOutput
from mqsniff.sinks.outputfolder import is_unicode

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

ArrowBatches: TypeAlias = "Iterator[pa.RecordBatch]"

_FILE_DDL: Final = f"{BUNDLE_DDL}, place bigint, packet bigint, capture binary"
SCAN_DDL: Final = f"{_FILE_DDL}, stored binary, report binary"
CARRIED_DDL: Final = f"{_FILE_DDL}, floor_ns bigint, before bigint"
CORES_MAX: Final = 100_000
"""More tasks at the same time make no difference."""
TEXT_DDL: Final = "text string"
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


class SparkSteps:
    """The steps of one job as DataFrames of one session, which is opened at the first step."""

    def __init__(self, opened: Callable[[], SparkSession]) -> None:
        self._opened = opened
        self.session: SparkSession | None = None
        self._settings = contextlib.ExitStack()
        self._set = False
        """Whether our settings apply."""
        self._scanned: list[DataFrame] = []
        self._payload_folder = ""
        """Where scans store payloads; empty: in their rows."""
        self.stage = ""

    @property
    def _spark(self) -> SparkSession:
        if self.session is None:
            self.session = self._opened()
        if not self._set:
            self._settings.enter_context(job_settings(self.session))
            self._set = True
        return self.session

    def opened_by_hadoops_settings(self, uris: Sequence[str]) -> list[str]:
        """Paths and URIs with the settings of the session's Hadoop configuration, for those that take some."""
        if not any(map(takes_settings, uris)):
            return list(uris)
        setting = hadoop_setting(self._spark)
        return [with_settings(uri, setting) for uri in uris]

    def stop(self) -> None:
        """Stop the session, if it was opened."""
        if self.session is not None:
            with contextlib.suppress(Exception):  # its JVM may be gone
                self.session.stop()

    def check_workers(self) -> int:
        """Check that workers run the same versions as the driver; SessionError if not.

        Spark cuts a range into as many tasks as run at the same time: their number is returned, and each is checked.
        """

        def task(batches: ArrowBatches) -> ArrowBatches:
            import json  # noqa: PLC0415  # on the worker, where mqsniff may be missing

            import pyarrow as pa  # noqa: PLC0415  # as above

            try:
                from mqsniff.batch.tasks import versions  # noqa: PLC0415  # as above

                said = versions()
            except ImportError as error:
                said = {"missing": str(error)}
            if [batch.num_rows for batch in batches]:  # Spark does not reuse a worker that leaves input unread
                yield pa.RecordBatch.from_arrays([pa.array([json.dumps(said)])], names=["text"])

        said = self._values(self._spark.range(CORES_MAX).mapInArrow(task, TEXT_DDL))
        for theirs in map(json.loads, sorted(set(said))):
            if "missing" in theirs:
                raise SessionError(
                    f"workers have no mqsniff ({theirs['missing']}): install it there, or give --package"
                )
            if (differing := difference(theirs)) is not None:
                raise SessionError(f"workers have {differing}: install the same there, or give --package")
        return len(said)

    def scan(self, work: ScanPlan, splits: Sequence[Split]) -> list[bytes]:
        """Scan splits, one task each; their bundles stay on disk."""
        stores, options = stores_of(work.files), work.options
        folder = self._payload_folder = self._payload_folder or payload_folder(self._spark)

        def task(batches: ArrowBatches) -> ArrowBatches:
            from mqsniff.batch.payloads import PayloadWriter  # noqa: PLC0415  # on the worker
            from mqsniff.batch.tasks import scan_task, task_name  # noqa: PLC0415  # as above

            with PayloadWriter(folder, task_name()) as writer:
                for batch in batches:
                    for row in batch.column(0).to_pylist():
                        yield from scan_task(row, stores, options, writer)

        rows = self._spread(split_rows(splits, work.files, stores))
        scanned = rows.mapInArrow(task, SCAN_DDL).persist(StorageLevel.DISK_ONLY)
        self._scanned.append(scanned)
        blocks = scanned.where(F.col("report").isNotNull()).select("report")
        return [bytes(block) for block in self._values(blocks, counted(len(splits), "split"))]

    def share(self, key_file: str) -> str:
        """Send a file of keys to the workers, as a file of the session; returns the name by which tasks find it."""
        return share_keys(self._spark, key_file)

    def reduce(
        self, shifts: Sequence[PieceShift], output: TaskOutput, partitions: int, carried: CarriedIn
    ) -> list[str]:
        """Sort the bundles of all scans by flow and merge order; decode and write them."""

        def task(batches: ArrowBatches) -> ArrowBatches:
            from mqsniff.batch.spark import with_keys  # noqa: PLC0415  # on the worker
            from mqsniff.batch.tasks import reduce_task, task_name, text_rows  # noqa: PLC0415  # as above

            yield from text_rows(reduce_task(batches, with_keys(output), task_name()))

        flows = self._flows(shifts, output, partitions, carried)
        return self._values(flows.mapInArrow(task, TEXT_DDL), counted(partitions, "task"))

    def learn(self, shifts: Sequence[PieceShift], output: TaskOutput, partitions: int, carried: CarriedIn) -> list[str]:
        """Sort the bundles as ``reduce`` does; collect topic names."""

        def task(batches: ArrowBatches) -> ArrowBatches:
            from mqsniff.batch.spark import with_keys  # noqa: PLC0415  # on the worker
            from mqsniff.batch.tasks import learn_task, text_rows  # noqa: PLC0415  # as above

            yield from text_rows(learn_task(batches, with_keys(output)))

        flows = self._flows(shifts, output, partitions, carried)
        return self._values(flows.mapInArrow(task, TEXT_DDL), counted(partitions, "task"))

    def _flows(
        self, shifts: Sequence[PieceShift], output: TaskOutput, partitions: int, carried: CarriedIn
    ) -> DataFrame:
        """The bundles of all scans that count and those of the run before, with their origins, by flow and order."""
        sources = [
            self._shifted(scanned.where(F.col("report").isNull()).drop("report"), shifts, carried.floor_ns)
            for scanned in self._scanned
        ]
        if carried.parts:
            sources.append(self._carried(carried.parts, output.uri))
        bundles = sources[0]
        for more in sources[1:]:
            bundles = bundles.unionByName(more, allowMissingColumns=True)  # carried payloads are in their rows
        return (
            bundles.withColumn("t_star", F.greatest("floor_ns", "first_ns"))
            .withColumn("order", F.col("place") + F.col("before") + F.col("position"))
            .repartition(partitions, "flow")
            .sortWithinPartitions("flow", "t_star", "order")
            .drop("t_star", "order")
        )

    def _carried(self, parts: Sequence[str], uri: str) -> DataFrame:
        """The carried rows in some files of OUT."""

        def task(batches: ArrowBatches) -> ArrowBatches:
            from mqsniff.batch.tasks import carried_task  # noqa: PLC0415  # on the worker

            for batch in batches:
                for path in batch.column(0).to_pylist():
                    yield from carried_task(path, uri)

        return self._spread(parts).mapInArrow(task, CARRIED_DDL)

    def _shifted(self, bundles: DataFrame, shifts: Sequence[PieceShift], least_ns: int) -> DataFrame:
        """The bundles of pieces that count, with what precedes their pieces; none is before ``least_ns``."""
        if not shifts:
            return bundles.withColumns({"floor_ns": F.lit(least_ns), "before": F.lit(0).cast("bigint")})
        table = self._spark.createDataFrame(shift_table(shifts))  # made of rows, it would need Python workers
        return (
            bundles.join(F.broadcast(table), "piece", "left")
            .where(F.coalesce("counts", F.lit(True)))  # noqa: FBT003  # a literal of SQL
            .withColumns(
                {
                    "floor_ns": F.greatest(F.coalesce("floor_ns", F.lit(least_ns)), F.lit(least_ns)),
                    "before": F.coalesce("before", F.lit(0)),
                }
            )
            .drop("counts")
        )

    def rewrite(self, wanted: Sequence[Rewrite], rewriter: Rewriter) -> list[str]:
        """Rewrite part files, one task each."""

        def task(batches: ArrowBatches) -> ArrowBatches:
            from mqsniff.batch.spark import with_keys  # noqa: PLC0415  # on the worker
            from mqsniff.batch.tasks import rewrite_task, task_name, text_rows  # noqa: PLC0415  # as above

            own = replace(rewriter, output=with_keys(rewriter.output))
            for batch in batches:
                for row in batch.column(0).to_pylist():
                    yield from text_rows(rewrite_task(row, own, task_name()))

        return self._values(self._spread(rewrite_rows(wanted)).mapInArrow(task, TEXT_DDL), counted(len(wanted), "task"))

    def show(self, report: JobReport) -> None:
        """Show a run's figures on Spark's page: as the description of a query, and as names and values in its plan."""
        if self.session is None:
            return
        figures = [F.lit(number).alias(name) for name, number in report.figures().items()]
        with contextlib.suppress(Exception), described(self.session, report.headline()):  # the run is committed
            self.session.range(0, 1, 1, 1).select(*figures).collect()

    def clean_up(self) -> None:
        """Free the executors' disks and restore settings; errors of a closed session are ignored."""
        for scanned in self._scanned:
            with contextlib.suppress(Exception):
                scanned.unpersist()
        self._scanned = []
        if self._payload_folder:
            shutil.rmtree(self._payload_folder, ignore_errors=True)
            self._payload_folder = ""
        with contextlib.suppress(Exception):
            self._settings.close()
        self._set = False

    def _spread(self, rows: Sequence[str]) -> DataFrame:
        """Texts, one row and one task each."""
        frame = self._spark.createDataFrame(table_of(rows))
        return frame.coalesce(1).repartition(len(rows)) if len(rows) > 1 else frame  # one after the other, in turn

    def _values(self, frame: DataFrame, tasks: str = "") -> list[Any]:
        """The values in the only column of a DataFrame; ``tasks``: how many make it, for Spark's page."""
        with described(self._spark, f"{self.stage}, {tasks}" if tasks else self.stage):
            return [row[0] for row in frame.collect()]


def hadoop_setting(spark: SparkSession) -> Setting:
    """The settings of a session's Hadoop configuration; over Spark Connect, those that Spark was given."""
    try:
        configuration = spark._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001  # Python has no other way
    except Exception:  # noqa: BLE001  # Spark Connect has no JVM, and says so with an error of its own
        return lambda name: spark.conf.get(f"spark.hadoop.{name}", None)
    get: Setting = configuration.get
    return get


def share_keys(spark: SparkSession, path: str) -> str:
    """Send a file of keys to all workers, as a file of the session; returns the name by which tasks find it.

    That is what the options ``tlsKeys`` and ``hashKey`` of ``spark.read.format("mqsniff")`` take.
    """
    try:
        spark.sparkContext.addFile(path)
    except Exception:  # noqa: BLE001  # Spark Connect has no context, and says so with an error of its own
        spark.addArtifacts(path, file=True)
    return Path(path).name


def with_keys(output: TaskOutput) -> TaskOutput:
    """With the paths of the files of keys, in a task."""
    from pyspark import SparkFiles  # noqa: PLC0415  # on the worker

    paths = [name and SparkFiles.get(name) for name in (output.key_file, output.hash_key_file)]
    return replace(output, key_file=paths[0], hash_key_file=paths[1])


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
