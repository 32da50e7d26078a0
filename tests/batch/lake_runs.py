"""Jars of Delta and Iceberg in; what their tables and those of the archive do not both have, out.

A chore, no part of the tests: ``make lakes``. It needs Java and Maven, and fetches jars once.

1. A capture, cut into files, is decoded by runs that carry, so that later runs drop parts of earlier ones. After each
   run its tables are published, twice: the second time must commit nothing.
2. After each step all columns of all tables are compared with those of the archive.
3. The property of the last run is deleted (as if the publisher had died before it), a day is deleted, the history is
   expired, a version is restored, all is replaced (``--overwrite``), another archive is published to the same name.
4. The tables are read by other programs: deltalake and pyiceberg, and DuckDB through them (its own extensions are
   fetched from its host, which is not asked here). A program that is not installed is named.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
import duckdb
from batchrows import PCAPS, rotated
from inprocess import InProcess

from lab.downloads import jars
from mqsniff.batch.commit import CommitError
from mqsniff.batch.driver import run_job
from mqsniff.batch.job import JobOptions
from mqsniff.batch.session import open_session
from mqsniff.batch.spark import publish, read

DELTA, ICEBERG, SPARK = "4.4.0", "1.12.0", "4.1"
FORMATS = ("delta", "iceberg")
CAPTURE = "kafka/lab-kafka-4.4.0-cluster.pcap"
PIECES = 3
_EXTENSION = "spark.sql.extensions"


def settings(kind: str, warehouse: Path) -> dict[str, str]:
    """Settings of a session with a format."""
    if kind == "delta":
        found = jars(f"delta-{DELTA}", [("io.delta", f"delta-spark_{SPARK}_2.13", DELTA)])
        names = [*found.glob("delta-*.jar"), *found.glob("unitycatalog-*.jar")]
        return {
            "spark.jars": ",".join(map(str, names)),
            _EXTENSION: "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            "spark.sql.warehouse.dir": str(warehouse),
            "spark.databricks.delta.snapshotPartitions": "2",  # it is 50, for tables of many files
        }
    found = jars(f"iceberg-{ICEBERG}", [("org.apache.iceberg", f"iceberg-spark-runtime-{SPARK}_2.13", ICEBERG)])
    return {
        "spark.jars": ",".join(map(str, found.glob("iceberg-*.jar"))),
        _EXTENSION: "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
        "spark.sql.catalog.lake.warehouse": str(warehouse),
    }


class Trial:
    """One format, step by step; ``wrong`` gets a line for each difference."""

    def __init__(self, spark: Any, kind: str, place: Path) -> None:
        self.spark, self.kind, self.place = spark, kind, place
        self.out = str(place / "tables")
        self.lake = "mq" if kind == "delta" else "lake.mq"
        self.wrong: list[str] = []

    def decode(self, files: list[Path], out: str, **options: Any) -> None:
        run_job(InProcess(), [str(file) for file in files], out, JobOptions(partitions=2, **options))

    def publish(self, step: str, *, expected: bool) -> int:
        """Publish; the number of parts that were deleted. ``expected``: whether there have to be commits."""
        commits = publish(self.spark, self.out, table=self.lake, format=self.kind)
        deleted = sum(each.parts_deleted for each in commits)
        rows = sum(each.rows for each in commits)
        click.echo(f"{self.kind}: {step}: {len(commits)} commits, {rows} rows appended, {deleted} parts deleted")
        if bool(commits) is not expected:
            self.wrong.append(f"{step}: {len(commits)} commits")
        return deleted

    def compare(self, step: str) -> None:
        """Compare all tables with the archive."""
        for table, ours in read(self.spark, self.out).items():
            theirs = self.spark.table(f"{self.lake}.{table}").select(ours.columns)
            lost, extra = ours.exceptAll(theirs).count(), theirs.exceptAll(ours).count()
            if lost or extra:
                self.wrong.append(f"{step}: {table}: {lost} rows are lost, {extra} are too many")

    def sql(self, text: str) -> list[Any]:
        return list(self.spark.sql(text).collect())

    def rows(self, table: str, more: str = "") -> int:
        return int(self.sql(f"SELECT count(*) FROM {self.lake}.{table} {more}")[0][0])

    def versions(self) -> list[Any]:
        """Versions of ``messages`` with a run, oldest first."""
        if self.kind == "delta":
            found = self.sql(f"DESCRIBE HISTORY {self.lake}.messages")
            return sorted(row["version"] for row in found if row["userMetadata"])
        query = f"SELECT snapshot_id FROM {self.lake}.messages.snapshots WHERE summary['mqsniff.run'] IS NOT NULL"
        return [row[0] for row in self.sql(f"{query} ORDER BY committed_at")]

    def steps(self) -> None:
        (self.place / "pieces").mkdir()
        rotated(PCAPS / CAPTURE, self.place / "pieces", PIECES)
        files = sorted((self.place / "pieces").iterdir())
        first, deleted = 0, 0
        for number in range(1, len(files) + 1):
            self.decode(files[:number], self.out, append=True)
            deleted += self.publish(f"run {number}", expected=True)
            self.publish(f"run {number} again", expected=False)
            self.compare(f"run {number}")
            first = first or self.rows("messages")
        if not deleted:
            self.wrong.append("no run dropped a part: the trial does not show what it should")
        self.time_travel(first)
        self.sql(f"ALTER TABLE {self.lake}.messages UNSET TBLPROPERTIES ('mqsniff.run')")
        self.publish("the publisher died before it set the property", expected=False)
        self.other_readers()
        self.restore()
        self.retention()
        self.decode(files, self.out, overwrite=True)
        self.publish("overwrite", expected=True)
        self.compare("overwrite")
        self.other_archive(files[:1])

    def time_travel(self, first: int) -> None:
        seen = self.rows("messages", f"VERSION AS OF {self.versions()[0]}")
        click.echo(f"{self.kind}: the first version has {seen} of {self.rows('messages')} messages")
        if seen != first:
            self.wrong.append(f"the first version had {first} messages and has {seen}")

    def restore(self) -> None:
        """Go back to the version before the last: the last run has to be published again, once."""
        version = self.versions()[-2]
        if self.kind == "delta":
            self.sql(f"RESTORE TABLE {self.lake}.messages TO VERSION AS OF {version}")
        else:
            self.sql(f"CALL lake.system.rollback_to_snapshot('mq.messages', {version})")
        self.publish("a version was restored", expected=True)
        self.compare("a version was restored")
        self.publish("again", expected=False)

    def retention(self) -> None:
        """Delete the rows of a run, and of Iceberg the history: nothing comes back."""
        messages = f"{self.lake}.messages"
        [[first]] = self.sql(f"SELECT min(run_id) FROM {messages}")
        self.sql(f"DELETE FROM {messages} WHERE run_id = '{first}'")
        if self.kind == "iceberg":
            now = self.sql("SELECT current_timestamp()")[0][0]
            self.sql(
                f"CALL lake.system.expire_snapshots(table => 'mq.messages', older_than => TIMESTAMP '{now}', "
                "retain_last => 1)"
            )
            if self.versions():
                self.wrong.append("the history did not expire: the trial does not show what it should")
        self.publish("rows were deleted", expected=False)

    def other_archive(self, files: list[Path]) -> None:
        own, self.out = self.out, str(self.place / "other")
        self.decode(files, self.out)
        try:
            self.publish("another archive", expected=False)
            self.wrong.append("another archive was published to the same tables")
        except CommitError as error:
            click.echo(f"{self.kind}: another archive is refused: {error}")
        self.out = own

    def other_readers(self) -> None:
        """Count the messages by topic with DuckDB."""
        expected = self.rows("messages")
        try:
            messages = {"delta": by_deltalake, "iceberg": by_pyiceberg}[self.kind](self.place / "lake" / "mq")
        except ImportError as error:
            click.echo(f"{self.kind}: not read by another program: {error}")
            return
        [[seen]] = duckdb.from_arrow(messages).aggregate("count(*)").fetchall()
        click.echo(f"{self.kind}: DuckDB reads {seen} messages")
        if seen != expected:
            self.wrong.append(f"DuckDB reads {seen} of {expected} messages")


def by_deltalake(folder: Path) -> Any:
    """The table of messages, as an Arrow dataset."""
    from deltalake import DeltaTable

    return DeltaTable(str(next(folder.parent.glob("*mq*/messages")))).to_pyarrow_dataset()


def by_pyiceberg(folder: Path) -> Any:
    """The table of messages, as an Arrow table."""
    from pyiceberg.table import StaticTable

    newest = max((folder / "messages" / "metadata").glob("v*.metadata.json"), key=lambda path: path.stat().st_mtime_ns)
    return StaticTable.from_metadata(str(newest)).scan().to_arrow()


def tried(kind: str) -> list[str]:
    """What is wrong with a format, one line each."""
    with TemporaryDirectory(prefix=f"mqsniff-{kind}-") as place:
        chosen = settings(kind, Path(place) / "lake")
        confs = " ".join(f"--conf {name}={value}" for name, value in chosen.items())
        os.environ["PYSPARK_SUBMIT_ARGS"] = f"--conf spark.ui.enabled=false {confs} pyspark-shell"
        spark = open_session("local[2,4]")
        spark.conf.set("spark.sql.shuffle.partitions", "2")
        trial = Trial(spark, kind, Path(place))
        try:
            trial.steps()
        finally:
            spark.stop()
        return [f"{kind}: {line}" for line in trial.wrong]


@click.command()
@click.argument("kinds", nargs=-1, type=click.Choice(["delta", "iceberg"]))
def main(kinds: tuple[str, ...]) -> None:
    """Publish runs to tables of Delta and Iceberg, or of one of them, and compare."""
    if len(kinds) != 1:  # a process each: a JVM keeps the jars of its first session
        ended = [subprocess.run([sys.executable, __file__, kind], check=False).returncode for kind in FORMATS]
        sys.exit(max(ended))
    wrong = tried(kinds[0])
    for line in wrong:
        click.echo(line)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
