"""Captures as a Spark data source, ``spark.read.format("mqsniff")``: options in, rows of one table out.

1. ``packets`` are read file by file. Other tables need whole connections, but this reader sees only the part that is in
   one file: the user has to ask for that (``scope=file``). ``mqsniff.batch.spark.frames`` decodes whole connections.
2. One task per file. A file that cannot be read is a row of ``problems`` only. If no file can be read, a path or glob
   matches none, or a file is gone or changed since it was listed, the read fails as with any Spark source.
3. Workers return Arrow batches of bounded size.
4. Options name files of keys, never keys: Spark shows options. A task finds such a file at its path, or by its name
   among the files of the session (``share_keys``). Hashes need ``hashKey``: a random key could only travel in a plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast, get_args

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from mqsniff.batch.inputs import ByteRange, ChangedError, InputError, Listed, Location, list_inputs, names_of, why
from mqsniff.limits import MIB, Limits
from mqsniff.model import PACKET_MASK, CaptureInfo, PacketBatch, Problem, ProblemItem, packet_id
from mqsniff.sources.capture import CaptureReader
from mqsniff.tables.schemas import TableName, arrow_schema
from mqsniff.tables.values import escaped

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from mqsniff.tables.hashkey import HashKey
    from mqsniff.tls.keylog import KeyLog

NAME: Final = "mqsniff"
PACKETS: Final = "packets"
TABLE_NAMES: Final = get_args(TableName)
BATCH_BYTES: Final = 8 * MIB


class CaptureDataSource(DataSource):
    """``spark.read.format("mqsniff").option("table", "packets").load("captures/")``."""

    @classmethod
    def name(cls) -> str:
        """The name for ``format``."""
        return NAME

    def schema(self) -> StructType:
        """The columns of the table.

        ValueError for an unknown table or scope, InputError if the path names nothing that can be read.
        """
        from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415  # it needs pandas

        table = self._table()
        _listed(self.options["path"])
        return from_arrow_schema(_schema(table))

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002  # Spark's signature
        """A reader of the files."""
        return _TableReader(self._table(), self.options.get("path", ""), self._keys())

    def _keys(self) -> KeyFiles:
        names = self.options.get("tlsKeys", "").split(",")
        return KeyFiles(tuple(name.strip() for name in names if name.strip()), self.options.get("hashKey", ""))

    def _table(self) -> str:
        table, scope = self.options.get("table", PACKETS), self.options.get("scope", "")
        if not self.options.get("path"):
            raise ValueError('format("mqsniff") needs .load(path): a capture, a folder, a glob or a URI')
        if table not in (PACKETS, *TABLE_NAMES):
            raise ValueError(f"no table {table!r}; tables: {PACKETS}, {', '.join(TABLE_NAMES)}")
        if table != PACKETS and scope != "file":
            raise ValueError(
                f"{table} need whole connections, which may span files: use "
                "mqsniff.batch.spark.frames(spark, inputs), or option('scope', 'file') for each file by itself"
            )
        return table


def register(spark: SparkSession) -> None:
    """Register the format with a session."""
    spark.dataSource.register(CaptureDataSource)


@dataclass(frozen=True)
class KeyFiles:
    """Names of files of keys, as the user gave them."""

    tls: tuple[str, ...] = ()
    hashes: str = ""

    def key_logs(self) -> list[KeyLog]:
        """The key logs of TLS, in a task; InputError for a file that cannot be read."""
        from mqsniff.tls.keylog import KeyLog  # noqa: PLC0415  # only workers decode

        logs = []
        for name in self.tls:
            try:
                logs.append(KeyLog(_place_of("tlsKeys", name)))
            except OSError as error:
                raise InputError(f"tlsKeys: {name}: {why(error)}") from None
        return logs

    def hash_key(self) -> HashKey | None:
        """The key of hashes, in a task; InputError for a file that cannot be it."""
        from mqsniff.tables.hashkey import HashKey, HashKeyError  # noqa: PLC0415  # only workers decode

        if not self.hashes:
            return None
        try:
            return HashKey.of_file(_place_of("hashKey", self.hashes))
        except (OSError, HashKeyError) as error:
            raise InputError(f"hashKey: {self.hashes}: {why(error) if isinstance(error, OSError) else error}") from None


def _place_of(option: str, name: str) -> str:
    """Where a task finds a file: at its path, or among the files of the session."""
    from pyspark import SparkFiles  # noqa: PLC0415  # on the worker

    sent = SparkFiles.get(Path(name).name)
    if not Path(name).exists() and Path(sent).exists():
        return sent
    if not Path(name).exists():
        raise InputError(
            f"{option}: {name}: no such file where Spark reads; mqsniff.batch.spark.share_keys sends one there"
        )
    return name


@dataclass
class _FilePartition(InputPartition):
    location: Location
    name: str


class _OneFile:
    """A source of the packets of one file."""

    def __init__(self, file: _FilePartition, limits: Limits) -> None:
        self.captures = [CaptureInfo(0, file.name)]
        self._location = file.location
        self._limits = limits

    def batches(self) -> Iterator[PacketBatch]:
        """The packets in file order; none if the file cannot be read: its CaptureInfo says why."""
        info, ordinal = self.captures[0], 0
        try:
            raw = ByteRange(self._location)
        except (ChangedError, FileNotFoundError) as error:
            raise InputError(f"{info.name}: {why(error)}") from None
        except OSError as error:
            info.unreadable = why(error)
            return
        reader = CaptureReader(raw, info, self._limits, self._limits.window)
        try:
            while (batch := reader.next_batch()) is not None:
                batch.ordinal = ordinal
                ordinal += len(batch)
                yield batch
        finally:
            reader.close()


class _TableReader(DataSourceReader):
    """Reads one table of every file."""

    def __init__(self, table: str, path: str, keys: KeyFiles) -> None:
        self._table = table
        self._path = path
        self._keys = keys

    def partitions(self) -> Sequence[InputPartition]:
        """One task per file; InputError as in ``schema``, which is not called if the user gives a schema."""
        files = _listed(self._path)
        return [
            _FilePartition(file.location, name)
            for file, name in zip(files, names_of(f.uri for f in files), strict=True)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one file."""
        file = cast("_FilePartition", partition)
        return _packets(file) if self._table == PACKETS else _rows(file, cast("TableName", self._table), self._keys)


def _listed(path: str) -> list[Listed]:
    """The files that a path names; InputError if none of them can be read."""
    from mqsniff.batch.plan import inspect_head  # noqa: PLC0415  # only the driver lists

    files = list_inputs([path])
    first = None
    for file in files:
        inspected = inspect_head(file, Limits())
        if inspected.status != "unreadable":
            return files
        first = first or inspected
    assert first is not None
    more = f", and {len(files) - 1} more cannot be read" if len(files) > 1 else ""
    raise InputError(f"{first.uri}: {first.error}{more}")


@cache
def _schema(table: str) -> pa.Schema:
    import pyarrow as pa  # noqa: PLC0415  # workers import it when they have work

    if table != PACKETS:
        return arrow_schema(cast("TableName", table)).remove_metadata()
    return pa.schema([
        ("capture", pa.string()),
        ("packet", pa.int64()),
        ("ts", pa.timestamp("us", tz="UTC")),
        ("ts_ns", pa.int64()),
        ("captured", pa.int64()),
        ("size", pa.int64()),
        ("linktype", pa.int64()),
        ("interface", pa.int64()),
        ("data", pa.binary()),
    ])  # fmt: skip


def _packets(file: _FilePartition) -> Iterator[pa.RecordBatch]:
    """The packets of a capture in file order; ``packet`` is 1-based, as Wireshark counts frames."""
    from mqsniff.sources.batches import slice_batch  # noqa: PLC0415  # only workers read

    for batch in _OneFile(file, Limits()).batches():
        for first, stop in pairwise(_cuts(batch)):
            yield _packet_rows(file.name, slice_batch(batch, first, stop))


def _cuts(batch: PacketBatch) -> list[int]:
    """Indexes that split a window so that no batch of rows is much larger than ``BATCH_BYTES``."""
    cuts, size = [0], 0
    for row, captured in enumerate(batch.caplen.tolist()):
        if size > BATCH_BYTES:
            cuts.append(row)
            size = 0
        size += captured
    return [*cuts, len(batch)]


def _packet_rows(name: str, batch: PacketBatch) -> pa.RecordBatch:
    import pyarrow as pa  # noqa: PLC0415  # workers import it when they have work

    view = memoryview(batch.buffer)
    starts, captured = batch.start.tolist(), batch.caplen.tolist()
    columns = [
        pa.repeat(escaped(name), len(batch)),
        pa.array(batch.packet & PACKET_MASK),
        pa.array(batch.ts_ns // 1000).cast(pa.timestamp("us", tz="UTC")),
        pa.array(batch.ts_ns),
        pa.array(batch.caplen),
        pa.array(batch.wirelen),
        pa.array(batch.linktype).cast(pa.int64()),
        pa.array(batch.interface).cast(pa.int64()),
        pa.array([bytes(view[at : at + size]) for at, size in zip(starts, captured, strict=True)], pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_schema(PACKETS))


def _rows(file: _FilePartition, table: TableName, keys: KeyFiles) -> Iterator[pa.RecordBatch]:
    """The rows of a table, decoded from one capture alone."""
    from mqsniff.dissector import USUAL, WITH_RECORDS, Settings  # noqa: PLC0415  # only workers decode
    from mqsniff.pipeline import Pipeline  # noqa: PLC0415  # as above
    from mqsniff.tables.arrow import ArrowTables  # noqa: PLC0415  # as above
    from mqsniff.tables.values import Redaction  # noqa: PLC0415  # as above

    limits = Limits()
    source = _OneFile(file, limits)
    settings = Settings(limits, WITH_RECORDS if table == "records" else USUAL)
    pipeline = Pipeline(source, settings, keys=keys.key_logs())
    tables = ArrowTables(pipeline.captures, (table,), Redaction(hash_key=keys.hash_key()))
    schema = _schema(table)
    for item in chain(pipeline.items(), _unreadable(source.captures[0])):
        if item is not None:
            for block in tables.take(item):
                yield block.rows.cast(schema)
    for block in tables.rest():
        yield block.rows.cast(schema)


def _unreadable(info: CaptureInfo) -> Iterator[ProblemItem]:
    """The problem of a file that cannot be read."""
    if info.unreadable:
        yield ProblemItem(None, Problem("input", "error", info.unreadable), None, packet_id(info.index, 0))
