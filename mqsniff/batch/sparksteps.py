"""The steps of a batch job as DataFrames of a Spark session: work in, the results of the tasks that succeeded out.

1. Only the DataFrame API is used, so that the job runs over Spark Connect too; the tasks are functions without Spark.
2. Bundles stay on the executors' disks between scan and shuffle; those of a lost executor are made again.
3. File names hold the attempt of their task. Only files in the results of successful tasks are published.
4. What a task gets does not grow with the number of files: splits and rewrites are rows, and bundles carry the names
   and places of their files. Neither these rows nor closures are text in a query plan.
5. Keys, those of TLS and that of hashes, are files of the session; closures hold their names.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pyspark import StorageLevel
from pyspark.sql import functions as F  # noqa: N812  # the field's name for it

from mqsniff.batch.bundles import BUNDLE_DDL
from mqsniff.batch.carried import CarriedIn
from mqsniff.batch.filesystems import Setting, takes_settings, with_settings
from mqsniff.batch.finalize import Rewrite, Rewriter
from mqsniff.batch.job import JobReport, counted
from mqsniff.batch.origins import PieceShift
from mqsniff.batch.plan import ScanPlan, Split
from mqsniff.batch.session import SessionError, described, job_settings, payload_folder
from mqsniff.batch.splitrows import split_rows, stores_of, table_of
from mqsniff.batch.tasks import difference, rewrite_rows, shift_table
from mqsniff.batch.tasktables import TaskOutput

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
TASKS_END_S: Final = 20.0
"""How long to wait for the tasks of a query that failed. Spark kills their workers after two seconds."""


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
            from mqsniff.batch.tasks import (  # noqa: PLC0415  # on the worker
                reduce_task,
                task_name,
                text_rows,
                with_keys,
            )

            yield from text_rows(reduce_task(batches, with_keys(output), task_name()))

        flows = self._flows(shifts, output, partitions, carried)
        return self._values(flows.mapInArrow(task, TEXT_DDL), counted(partitions, "task"))

    def learn(self, shifts: Sequence[PieceShift], output: TaskOutput, partitions: int, carried: CarriedIn) -> list[str]:
        """Sort the bundles as ``reduce`` does; collect topic names."""

        def task(batches: ArrowBatches) -> ArrowBatches:
            from mqsniff.batch.tasks import learn_task, text_rows, with_keys  # noqa: PLC0415  # on the worker

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
            from mqsniff.batch.tasks import (  # noqa: PLC0415  # on the worker
                rewrite_task,
                task_name,
                text_rows,
                with_keys,
            )

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
            try:
                return [row[0] for row in frame.collect()]
            except Exception:
                self._wait_for_tasks()
                raise

    def _wait_for_tasks(self) -> None:
        """After a query that failed: wait until no task runs, as each may write a file until it ends."""
        until = time.monotonic() + TASKS_END_S
        with contextlib.suppress(Exception):  # Spark Connect has no JVM here, and the one here may be gone
            store = self._spark.sparkContext._jsc.sc().statusStore()  # noqa: SLF001  # no public call tells it
            while time.monotonic() < until:
                executors = store.executorList(True)  # noqa: FBT003  # Java has no names
                if not any(executors.apply(number).activeTasks() for number in range(executors.size())):
                    return
                time.sleep(0.1)


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
