"""Captures as a Spark data source, ``spark.read.format("mqsniff")``: options in, rows of one table out.

1. ``packets`` are read file by file. Other tables need whole connections: ``scope=connection`` decodes all files in one
   task, as ``decode`` does; ``scope=file`` sees the part of each connection that is in one file. To divide whole
   connections among tasks, Spark has to move bytes, which a data source cannot: ``mqsniff.batch.spark.frames`` does it.
2. One task per file. A file that cannot be read is a row of ``problems`` only, unless ``mode`` is FAILFAST. If no file
   of a path can be read, a path or glob matches none, or a file is gone or changed since it was listed, the read fails
   as with any Spark source.
3. Workers return Arrow batches of bounded size, with the columns that were asked for: Spark tells Python sources of
   filters, but not of columns, so these come by ``option("columns", …)`` or ``schema(…)``.
4. With ``pushFilters``, a filter of Spark on ``capture``, ``protocol`` or the time of packets makes tasks read less;
   Spark still applies it.
5. Options name files of keys and of storage settings, never keys: Spark shows options. A task finds a file of keys at
   its path, or by its name among the files of the session (``share_keys``). Hashes need ``hashKey``: a random key could
   only travel in a plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, Final, cast

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)

from mqsniff.batch.inputs import ByteRange, ChangedError, InputError, Listed, Location, list_inputs, names_of, why
from mqsniff.batch.sourceoptions import PACKETS, SourceRequest, kept_columns
from mqsniff.limits import MIB, Limits
from mqsniff.model import PACKET_MASK, CaptureInfo, PacketBatch, Problem, ProblemItem, packet_id
from mqsniff.sources.capture import CaptureReader
from mqsniff.tables.schemas import TableName, arrow_schema
from mqsniff.tables.values import escaped

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from mqsniff.pipeline import Source

NAME: Final = "mqsniff"
BATCH_BYTES: Final = 8 * MIB
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


class CaptureDataSource(DataSource):
    """``spark.read.format("mqsniff").option("table", "packets").load("captures/")``."""

    @classmethod
    def name(cls) -> str:
        """The name for ``format``."""
        return NAME

    def schema(self) -> StructType:
        """The columns of the table.

        ValueError for options that cannot be meant, InputError if a path names nothing that can be read.
        """
        from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415  # it needs pandas

        request = SourceRequest.of(self.options)
        if not request.log:  # a stream may begin with an empty folder
            _listed(request.paths)
        return from_arrow_schema(_schema(request.table, request.columns))

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader of the files, with the columns of a schema."""
        request = SourceRequest.of(self.options)
        reader = _FilteringReader if request.pushes_filters else TableReader
        return reader(replace(request, columns=tuple(schema.fieldNames()) or request.columns))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  # Spark's name
        """A reader of what arrives."""
        from mqsniff.batch.streamsource import LandingReader  # noqa: PLC0415  # it uses this module

        request = replace(SourceRequest.of(self.options), columns=tuple(schema.fieldNames()))
        request.check_stream()
        return LandingReader(request)


def register(spark: SparkSession) -> None:
    """Register the format with a session."""
    spark.dataSource.register(CaptureDataSource)


@dataclass
class FilePartition(InputPartition):
    """What one task reads: a file, or all of them."""

    files: tuple[tuple[Location, str], ...]
    """Places and names."""


@dataclass
class _PushedFilters:
    """What filters of Spark leave to read; nothing that Spark would keep is left out."""

    captures: frozenset[str] | None = None
    """None: all."""
    protocols: frozenset[str] | None = None
    from_ns: int = -(1 << 63)
    to_ns: int = (1 << 63) - 1
    """The last time."""

    def push(self, given: Filter, *, packets: bool) -> None:
        """Take note of a filter, if it is one that saves work."""
        match given:
            case EqualTo(("capture",), str(value)):
                self.captures = _both(self.captures, {value})
            case In(("capture",), values):
                self.captures = _both(self.captures, values)
            case EqualTo(("protocol",), str(value)) if not packets:
                self.protocols = _both(self.protocols, {value})
            case GreaterThan((column,), value) | GreaterThanOrEqual((column,), value) if packets:
                self.from_ns = max(self.from_ns, _bound_ns(column, value, self.from_ns))
            case LessThan((column,), value) | LessThanOrEqual((column,), value) if packets:
                self.to_ns = min(self.to_ns, _bound_ns(column, value, self.to_ns, microsecond=999))
            case _:
                pass


def _both(known: frozenset[str] | None, values: Iterable[str]) -> frozenset[str]:
    return frozenset(values) if known is None else known & frozenset(values)


def _bound_ns(column: str, value: Any, otherwise: int, microsecond: int = 0) -> int:
    """A bound of time as nanoseconds since 1970; ``ts`` has microseconds, which begin or end later."""
    if column == "ts_ns" and isinstance(value, int):
        return value
    if column == "ts" and isinstance(value, datetime):
        moment = value if value.tzinfo is not None else value.astimezone(UTC)
        return (moment - _EPOCH) // _MICROSECOND * 1000 + microsecond
    return otherwise


class _OneFile:
    """A source of the packets of one file."""

    def __init__(self, location: Location, name: str, limits: Limits, *, fails_fast: bool) -> None:
        self.captures = [CaptureInfo(0, name)]
        self._location = location
        self._limits = limits
        self._fails_fast = fails_fast

    def batches(self) -> Iterator[PacketBatch]:
        """The packets in file order; none if the file cannot be read: its CaptureInfo says why."""
        info, ordinal = self.captures[0], 0
        try:
            raw = ByteRange(self._location)
        except (ChangedError, FileNotFoundError) as error:
            raise InputError(f"{info.name}: {why(error)}") from None
        except OSError as error:
            info.unreadable = why(error)
            self._check()
            return
        reader = CaptureReader(raw, info, self._limits, self._limits.window)
        try:
            while (batch := reader.next_batch()) is not None:
                batch.ordinal = ordinal
                ordinal += len(batch)
                yield batch
        finally:
            reader.close()
        self._check()

    def _check(self) -> None:
        info = self.captures[0]
        if self._fails_fast and info.unreadable:
            raise InputError(f"{info.name}: {info.unreadable}")


class _AllFiles:
    """A source of the packets of all files, merged by time as ``decode`` does it."""

    def __init__(self, files: Sequence[tuple[Location, str]], limits: Limits, *, fails_fast: bool) -> None:
        from mqsniff.sources.files import FileSource  # noqa: PLC0415  # only workers read

        for location, name in files:
            if location.store:
                raise InputError(f"{name}: scope=connection reads files of a file system; use frames(spark, inputs)")
        self._names = {location.path: name for location, name in files}
        self._source = FileSource(self._names, limits)
        self._files = files
        self._fails_fast = fails_fast
        self.captures = self._source.captures

    def batches(self) -> Iterator[PacketBatch]:
        """The packets of all files."""
        for location, name in self._files:
            try:
                ByteRange(location).close()
            except (ChangedError, FileNotFoundError) as error:
                raise InputError(f"{name}: {why(error)}") from None
            except OSError:
                continue  # its row of problems says why
        for batch in self._source.batches():
            self._name()
            yield batch
        self._name()

    def _name(self) -> None:
        for info in self.captures:
            info.name = self._names.get(info.name, info.name)
            if self._fails_fast and info.unreadable:
                raise InputError(f"{info.name}: {info.unreadable}")


class TableReader(DataSourceReader):
    """Reads one table of every file."""

    def __init__(self, request: SourceRequest) -> None:
        self._request = request
        self._pushed = _PushedFilters()

    def partitions(self) -> Sequence[InputPartition]:
        """A task for each file, or one for all; InputError as in ``schema``."""
        files = _listed(self._request.paths)
        named = [(file.location, name) for file, name in zip(files, names_of(f.uri for f in files), strict=True)]
        if self._request.scope == "connection":
            return [FilePartition(tuple(named))]
        chosen = self._pushed.captures
        kept = [(place, name) for place, name in named if chosen is None or escaped(name) in chosen]
        return [FilePartition((each,)) for each in kept] or [FilePartition(())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a task."""
        files, request = cast("FilePartition", partition).files, self._request
        source: Source
        if not files:
            return
        if request.scope == "connection" and request.table != PACKETS:
            source = _AllFiles(files, request.limits, fails_fast=request.fails_fast)
        else:
            source = _OneFile(*files[0], request.limits, fails_fast=request.fails_fast)
        if request.table == PACKETS:
            yield from _packets(source, request.columns, self._pushed)
        else:
            yield from _rows(source, request, self._pushed)


class _FilteringReader(TableReader):
    """A reader that gets the filters of a query: Spark refuses one as long as its configuration has this disabled."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802  # Spark's name
        """Take note of filters that save work; Spark applies all of them."""
        for given in filters:
            self._pushed.push(given, packets=self._request.table == PACKETS)
        return filters


def _listed(paths: Sequence[str]) -> list[Listed]:
    """The files that paths name; InputError if none of those of a path can be read."""
    found = {file.uri: file for path in paths for file in _readable(path)}
    return [found[uri] for uri in sorted(found)]


def _readable(path: str) -> list[Listed]:
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
def _schema(table: str, columns: tuple[str, ...] = ()) -> pa.Schema:
    """The columns that are wanted, all if none are named."""
    import pyarrow as pa  # noqa: PLC0415  # workers import it when they have work

    whole = _packet_schema() if table == PACKETS else arrow_schema(cast("TableName", table)).remove_metadata()
    return pa.schema([whole.field(name) for name in kept_columns(whole.names, columns)])


def _packet_schema() -> pa.Schema:
    import pyarrow as pa  # noqa: PLC0415  # as above

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


def _packets(source: Source, columns: tuple[str, ...], pushed: _PushedFilters) -> Iterator[pa.RecordBatch]:
    """The packets of a capture in file order; ``packet`` is 1-based, as Wireshark counts frames."""
    from mqsniff.sources.batches import slice_batch  # noqa: PLC0415  # only workers read

    schema = _schema(PACKETS, columns)
    has_data = "data" in schema.names
    for batch in source.batches():
        for first, stop in pairwise(_cuts(batch) if has_data else (0, len(batch))):
            rows = _packet_rows(source.captures[0].name, slice_batch(batch, first, stop), schema, pushed)
            if len(rows):
                yield rows


def _cuts(batch: PacketBatch) -> list[int]:
    """Indexes that split a window so that no batch of rows is much larger than ``BATCH_BYTES``."""
    cuts, size = [0], 0
    for row, captured in enumerate(batch.caplen.tolist()):
        if size > BATCH_BYTES:
            cuts.append(row)
            size = 0
        size += captured
    return [*cuts, len(batch)]


def _packet_rows(name: str, batch: PacketBatch, schema: pa.Schema, pushed: _PushedFilters) -> pa.RecordBatch:
    """The rows of some packets; bytes are copied only if they are wanted, and only of packets that are."""
    import numpy as np  # noqa: PLC0415  # workers import it when they have work
    import pyarrow as pa  # noqa: PLC0415  # as above

    kept = np.flatnonzero((batch.ts_ns >= pushed.from_ns) & (batch.ts_ns <= pushed.to_ns))
    view = memoryview(batch.buffer)

    def bytes_of() -> pa.Array:
        starts, captured = batch.start[kept].tolist(), batch.caplen[kept].tolist()
        return pa.array([bytes(view[at : at + size]) for at, size in zip(starts, captured, strict=True)], pa.binary())

    makers = {
        "capture": lambda: pa.repeat(escaped(name), len(kept)),
        "packet": lambda: pa.array(batch.packet[kept] & PACKET_MASK),
        "ts": lambda: pa.array(batch.ts_ns[kept] // 1000).cast(pa.timestamp("us", tz="UTC")),
        "ts_ns": lambda: pa.array(batch.ts_ns[kept]),
        "captured": lambda: pa.array(batch.caplen[kept]),
        "size": lambda: pa.array(batch.wirelen[kept]),
        "linktype": lambda: pa.array(batch.linktype[kept]).cast(pa.int64()),
        "interface": lambda: pa.array(batch.interface[kept]).cast(pa.int64()),
        "data": bytes_of,
    }
    return pa.RecordBatch.from_arrays([makers[column]() for column in schema.names], schema=schema)


def _rows(source: Source, request: SourceRequest, pushed: _PushedFilters) -> Iterator[pa.RecordBatch]:
    """The rows of a table, decoded from the captures of one task."""
    from mqsniff.filters.chain import FilterChain  # noqa: PLC0415  # only workers decode
    from mqsniff.filters.counting import CountingFilter  # noqa: PLC0415  # as above
    from mqsniff.filters.moments import at_times  # noqa: PLC0415  # as above
    from mqsniff.pipeline import Pipeline  # noqa: PLC0415  # as above
    from mqsniff.tables.arrow import ArrowTables  # noqa: PLC0415  # as above

    table = cast("TableName", request.table)
    asked, times = request.filters
    captures = source.captures
    try:
        source, filters = at_times(source, asked, times, None)
    except ValueError as error:
        raise InputError(f"option from, to: {error}") from None
    keys = request.keys
    pipeline = Pipeline(source, request.settings(), decode_as=request.decode_as, keys=keys.key_logs())
    tables = ArrowTables(pipeline.captures, (table,), request.shown(keys.hash_key()))
    schema = _schema(table, request.columns)
    items = FilterChain(CountingFilter(filters) if filters else None, None, None).of(pipeline.items())
    for item in chain(items, _unreadable(captures)):
        if item is not None:
            for block in tables.take(item):
                yield _shaped(block.rows, schema, pushed)
    for block in tables.rest():
        yield _shaped(block.rows, schema, pushed)


def _shaped(rows: pa.RecordBatch, schema: pa.Schema, pushed: _PushedFilters) -> pa.RecordBatch:
    """The rows that Spark's filters may keep, with the columns that are wanted."""
    import pyarrow as pa  # noqa: PLC0415  # as above
    import pyarrow.compute as pc  # noqa: PLC0415  # as above

    if pushed.protocols is not None and "protocol" in rows.schema.names:
        rows = rows.filter(pc.is_in(rows["protocol"], pa.array(sorted(pushed.protocols), pa.string())))
    return rows.select(schema.names).cast(schema)


def _unreadable(captures: Sequence[CaptureInfo]) -> Iterator[ProblemItem]:
    """The problems of files that cannot be read."""
    for info in captures:
        if info.unreadable:
            yield ProblemItem(None, Problem("input", "error", info.unreadable), None, packet_id(info.index, 0))
