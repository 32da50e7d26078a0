"""Committed runs of an archive in, commits to Delta or Iceberg tables out.

1. Each run is one commit to each table for which it has rows. Its parts that no later run drops are appended; parts of
   published runs that it drops, and all that it replaces, are deleted by the same commit, a MERGE.
2. A commit holds the name of its run, in the history of the table. Since histories expire, the name of the last run is
   a property of the table too, set after the commit. The history decides; the property, where it names no run.
3. Rows can be deleted from a table, for example those of old days, and do not come back.
4. A table belongs to one archive, whose name is a property of the table: names of runs are compared with it.
5. Tables get the columns that later versions of mqsniff add. Rows have the path of their part file, and are partitioned
   by the day (UTC) of the first time column.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias, get_args
from uuid import uuid4

from pyspark.sql import functions as F  # noqa: N812  # the field's name for it

from mqsniff.batch.commit import HOME, CommitError
from mqsniff.batch.manifest import Manifest, Published
from mqsniff.batch.store import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LakeFormat: TypeAlias = Literal["delta", "iceberg"]
PartReader: TypeAlias = "Callable[[str, Sequence[Published]], DataFrame]"
"""Reads some part files of a table; with none, it gives an empty DataFrame with the columns of the table."""

RUN_PROPERTY: Final = "mqsniff.run"
ARCHIVE_PROPERTY: Final = "mqsniff.archive"
PART: Final = "part"
DAY: Final = "day"
_ARCHIVE_NAME: Final = f"{HOME}/archive"
_TABLE: Final = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
_RUN_SETTINGS: Final[Mapping[LakeFormat, str]] = {
    "delta": "spark.databricks.delta.commitInfo.userMetadata",
    "iceberg": f"spark.sql.iceberg.snapshot-property.{RUN_PROPERTY}",
}
"""Settings of a session that put a text into the history of a table, for appends and MERGE."""
_RELATIVE: Final = "([^/]+(?:/[^/=]+=[^/]*)*/[^/]+)$"
"""The path of a part file within its archive: table, folders of ``--folders``, file."""


class LakeChange(NamedTuple):
    """What a run changes in one table."""

    run: str
    parts: tuple[Published, ...]
    """Parts to append."""
    gone: tuple[str, ...]
    """Paths of parts whose rows are deleted."""
    replaces: bool
    """Whether rows of all runs before it that do not count are deleted too."""


class LakeCommit(NamedTuple):
    """A commit to a table."""

    table: str
    run: str
    rows: int
    """Rows that were appended."""
    parts_deleted: int


class DeltaVersion(NamedTuple):
    """A row of the history of a Delta table; times as Spark gives them."""

    version: int
    timestamp: Any
    operation: str
    parameters: Mapping[str, str | None]
    run: str | None


def changes(runs: Sequence[Manifest], table: str, published: str) -> list[LakeChange]:
    """What the runs that count, oldest first, change in a table in which all up to ``published`` are; '' for none."""
    dropped = {path for run in runs for path in run.drops}
    made_by = {part.path: run.run for run in runs for part in run.parts if part.table == table}
    found = []
    for run in (run for run in runs if run.run > published):
        change = LakeChange(
            run.run,
            tuple(part for part in run.parts if part.table == table and part.rows and part.path not in dropped),
            tuple(path for path in run.drops if path in made_by and made_by[path] <= published),
            replaces=bool(published and run.replaces),
        )
        if change.parts or change.gone or change.replaces:
            found.append(change)
    return found


def last_of_delta(history: Iterable[DeltaVersion]) -> str | None:
    """The last run in the history of a Delta table, newest version first, without versions that a RESTORE undid."""
    restored: Mapping[str, str | None] = {}
    for each in history:
        if _is_after(each, restored):
            continue
        if each.operation == "RESTORE":
            restored = each.parameters
        elif each.run:
            return each.run
    return None


def _is_after(each: DeltaVersion, restored: Mapping[str, str | None]) -> bool:
    """Whether a version is after the one that the table was restored to, by the parameters of RESTORE."""
    version, timestamp = restored.get("version"), restored.get("timestamp")
    if version is not None:
        return each.version > int(version)
    return timestamp is not None and str(each.timestamp) > timestamp


def archive_name(store: Store) -> str:
    """The name of an archive, which is made when it is first asked for."""
    name = store.read(_ARCHIVE_NAME)
    if name is None:
        name = uuid4().hex.encode()
        store.replace(_ARCHIVE_NAME, name)
    return name.decode()


def quoted(table: str) -> str:
    """A name for SQL; CommitError if it is none."""
    if not _TABLE.fullmatch(table):
        raise CommitError(f"{table!r} is no name of tables, such as mq or lake.mq")
    return ".".join(f"`{name}`" for name in table.split("."))


class LakeTable:
    """One Delta or Iceberg table."""

    def __init__(self, spark: SparkSession, table: str, lake: str, kind: LakeFormat, read: PartReader) -> None:
        """``table`` is one of ours, ``lake`` the name in front of it."""
        self._spark = spark
        self._table = table
        self._lake = quoted(lake)
        self._name = f"{self._lake}.`{table}`"
        self._kind = kind
        self._read = read

    def publish(self, runs: Sequence[Manifest], archive: str) -> list[LakeCommit]:
        """Commit the runs that are not in the table yet; CommitError for a table of another archive."""
        published = ""
        if self._spark.catalog.tableExists(self._name):
            published = self._published(archive)
        else:
            self._create(archive)
        todo = changes(runs, self._table, published)
        if todo:
            self._add_columns()
        done = [commit for change in todo if (commit := self._commit(change, runs)) is not None]
        if done:
            self._spark.sql(f"ALTER TABLE {self._name} SET TBLPROPERTIES ('{RUN_PROPERTY}' = '{done[-1].run}')")
        return done

    def _published(self, archive: str) -> str:
        """The last run in the table; '' if there is none."""
        rows = self._spark.sql(f"SHOW TBLPROPERTIES {self._name}").collect()
        properties = {row["key"]: row["value"] for row in rows}
        if properties.get(ARCHIVE_PROPERTY) != archive:
            raise CommitError(f"{self._name} is not a table of this archive: publish to another name")
        return self._last_in_history() or properties.get(RUN_PROPERTY) or ""

    def _last_in_history(self) -> str | None:
        if self._kind == "iceberg":
            run = f"s.summary['{RUN_PROPERTY}']"
            snapshots = f"{self._name}.snapshots s JOIN {self._name}.history h ON s.snapshot_id = h.snapshot_id"
            row = self._spark.sql(f"SELECT max({run}) FROM {snapshots} WHERE h.is_current_ancestor").first()  # noqa: S608  # quoted
            return row[0] if row else None
        columns = ("version", "timestamp", "operation", "operationParameters", "userMetadata")
        rows = self._spark.sql(f"DESCRIBE HISTORY {self._name}").select(*columns).collect()
        return last_of_delta(DeltaVersion(row[0], row[1], row[2], row[3], _run_in(row[4])) for row in rows)

    def _create(self, archive: str) -> None:
        """Create the table, empty."""
        self._spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {self._lake}")
        empty = self._rows(())
        day = F.col(DAY) if self._kind == "delta" else F.partitioning.days(_time_column(empty))
        writer = empty.writeTo(self._name).using(self._kind).tableProperty(ARCHIVE_PROPERTY, archive)
        writer.partitionedBy(day).create()

    def _add_columns(self) -> None:
        """Add the columns that the table lacks."""
        there = set(self._spark.table(self._name).columns)
        added = [
            f"`{each.name}` {each.dataType.simpleString()}" for each in self._rows(()).schema if each.name not in there
        ]
        if added:
            self._spark.sql(f"ALTER TABLE {self._name} ADD COLUMNS ({', '.join(added)})")

    def _rows(self, parts: Sequence[Published]) -> DataFrame:
        """The rows of parts, with the columns of the lake."""
        rows = self._read(self._table, parts)
        path = F.regexp_extract(F.col("_metadata.file_path"), _RELATIVE, 1) if parts else F.lit("")
        rows = rows.withColumn(PART, path)
        if self._kind == "iceberg":  # it derives the partition from the time
            return rows
        days = F.floor(F.unix_seconds(_time_column(rows)) / 86400)  # in UTC, whatever the zone of the session
        return rows.withColumn(DAY, F.date_from_unix_date(days.cast("int")))

    def _commit(self, change: LakeChange, runs: Sequence[Manifest]) -> LakeCommit | None:
        """Commit a change; None if there is nothing to change."""
        gone = {*change.gone, *(self._replaced_parts(change.run, runs) if change.replaces else ())}
        if not change.parts and not gone:
            return None
        rows = self._rows(change.parts)
        for each in self._spark.table(self._name).schema:  # columns that somebody else, or a later mqsniff, added
            if each.name not in rows.columns:
                rows = rows.withColumn(each.name, F.lit(None).cast(each.dataType))
        with self._with_run(change.run):
            if gone:
                self._merge(rows, sorted(gone))
            else:
                rows.writeTo(self._name).append()
        return LakeCommit(self._table, change.run, sum(part.rows for part in change.parts), len(gone))

    def _replaced_parts(self, run: str, runs: Sequence[Manifest]) -> list[str]:
        """Paths of the parts in the table of runs before this one that do not count any more."""
        counting = [each.run for each in runs]
        found = self._spark.table(self._name).where((F.col("run_id") < run) & ~F.col("run_id").isin(counting))
        return [row[0] for row in found.select(PART).distinct().collect()]

    def _merge(self, rows: DataFrame, gone: Sequence[str]) -> None:
        """Append rows and delete those of some parts in one commit: rows to delete are found by a row for each part."""
        names = ", ".join(f"`{name}`" for name in rows.columns)
        values = ", ".join(f"s.`{name}`" for name in rows.columns)
        deleted = self._spark.createDataFrame([(path,) for path in gone], f"{PART} string")
        source = rows.withColumn("is_new", F.lit(True)).unionByName(  # noqa: FBT003  # Spark's signature
            deleted.withColumn("is_new", F.lit(False)),  # noqa: FBT003  # as above
            allowMissingColumns=True,
        )
        view = f"mqsniff_{uuid4().hex}"
        source.createOrReplaceTempView(view)
        try:
            self._spark.sql(
                f"MERGE INTO {self._name} t USING {view} s ON t.{PART} = s.{PART} WHEN MATCHED THEN DELETE "  # noqa: S608
                f"WHEN NOT MATCHED AND s.is_new THEN INSERT ({names}) VALUES ({values})"
            )
        finally:
            self._spark.catalog.dropTempView(view)

    @contextmanager
    def _with_run(self, run: str) -> Iterator[None]:
        """Have commits hold the name of a run."""
        setting = _RUN_SETTINGS[self._kind]
        self._spark.conf.set(setting, f"{RUN_PROPERTY}={run}" if self._kind == "delta" else run)
        try:
            yield
        finally:
            self._spark.conf.unset(setting)


def check_format(kind: str) -> LakeFormat:
    """A format by its name; CommitError if there is no such format."""
    for known in get_args(LakeFormat):
        if kind == known:
            return known  # type: ignore[no-any-return]  # get_args has no better type
    raise CommitError(f"{kind!r} is no format of tables: delta or iceberg")


def _time_column(rows: DataFrame) -> Any:
    """The first column with a time."""
    return next(F.col(name) for name, kind in rows.dtypes if kind == "timestamp")


def _run_in(text: str | None) -> str | None:
    """The run that a Delta commit names."""
    name, _, run = (text or "").partition("=")
    return run if name == RUN_PROPERTY and run else None
