"""Blocks of tables in, Parquet part files of a folder out: ``<folder>/<table>/<prefix>-NNNNN.parquet``.

1. A part is named ``….tmp`` until it is complete, and renamed then. File systems that do not show incomplete files
   (object stores) get the final name at once.
2. A part that cannot be completed (a full disk) is deleted; the others are completed.
3. A new part begins after ``part_size`` bytes, a new row group after ``row_group_size`` bytes of Arrow; the rows that
   wait for their row groups stay below ``tables_buffer`` in total.
4. zstd level 1; dictionaries for columns whose values repeat, differences for numbers that rise from row to row,
   statistics of groups and pages for columns by which readers may skip, Bloom filters for ``connection_id`` (where
   pyarrow can).
5. Tasks of a batch job decode one flow after the other: their row groups are sorted by time, so that a page holds a
   short time and readers may skip pages.
6. The footer holds the table's name and the version of its schema.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from inspect import signature
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from mqsniff.limits import Limits
from mqsniff.sinks.outputfolder import UNFINISHED
from mqsniff.tables.arrow import Block
from mqsniff.tables.cells import repeated
from mqsniff.tables.schemas import TABLES, TableName, arrow_schema, names_of
from mqsniff.topics import TopicIds, note_topic

_DIVERSE: Final = frozenset(
    (
        *(
            "stream_offset",
            "request_stream_offset",
            "response_stream_offset",
            "correlation",
            "message_id",
            "unique_key",
        ),
        *("packet", "first_packet", "last_packet", "request_packet", "response_packet", "ts_ns", "latency_ns"),
        *("total_ns", "queue_ns", "client_rtt_ns", "server_rtt_ns", "offset", "client_offset", "sequence"),
        *("record_index", "community_id", "client_port", "detail"),
    )
)
"""Columns whose values rarely repeat, besides times and JSON: a dictionary would be made and discarded."""
_PAYLOAD: Final = {table: [column.name for column in TABLES[table] if column.type == "payload"] for table in TABLES}
_MOMENTS: Final[Mapping[TableName, tuple[str, ...]]] = {
    "connections": ("first_ts",),
    "messages": ("ts",),
    "exchanges": ("request_ts", "response_ts"),
    "partitions": ("ts",),
    "records": ("ts",),
    "topics": ("first_ts",),
    "problems": ("ts",),
}
"""The moment of a row is the first of these times that is not null."""
DICTIONARY_MAX: Final = 16 << 20
"""Bytes of a dictionary; enough for the values of a row group."""
_FILTERED: Final = "connection_id"
"""The column that gets Bloom filters: readers look for single values of it, and they have no order."""
_FILTERED_MIN: Final = 1024
"""Different values for which a filter is made at least: two kilobytes."""
_HAS_BLOOM_FILTERS: Final = "bloom_filter_options" in signature(pq.ParquetWriter).parameters
_RENAMING: Final = frozenset(("local", "hdfs"))
"""File systems that show a file while it is written, and rename atomically."""


@dataclass(slots=True)
class WrittenPart:
    """A complete part file."""

    table: TableName
    path: str
    """Its path on the file system."""
    rows: int
    bytes: int
    topic_ids: TopicIds = field(default_factory=dict)
    """Topic ids of its rows, and the names that they show: see ``mqsniff.topics.TopicIds``."""


class PartFile:
    """A part file that is being written."""

    def __init__(self, filesystem: pafs.FileSystem, table: TableName, path: str, extra: Iterable[str] = ()) -> None:
        self.table: TableName = table
        self.path = path
        self.topic_ids: TopicIds = {}
        self._filesystem = filesystem
        self._written = path + UNFINISHED if _base_of(filesystem).type_name in _RENAMING else path
        self._extra = tuple(extra)
        self._rows = 0
        filesystem.create_dir(path.rpartition("/")[0], recursive=True)
        self._stream = filesystem.open_output_stream(self._written)
        self._writer: pq.ParquetWriter | None = None

    def _begun(self, rows: pa.Table) -> pq.ParquetWriter:
        """The writer of the part, by its first rows."""
        return pq.ParquetWriter(
            self._stream,
            table_schema(self.table, self._extra),
            compression="zstd",
            compression_level=1,
            use_dictionary=[*_dictionaries(self.table, self._extra), *_repeating(self.table, rows)],
            column_encoding=_differences(self.table),
            dictionary_pagesize_limit=DICTIONARY_MAX,
            write_statistics=_ordered(self.table, self._extra),
            write_page_index=True,
            **_bloom_filters(self.table, rows),
        )

    def write(self, rows: pa.Table, topic_ids: TopicIds) -> None:
        """Write a row group."""
        if self._writer is None:
            self._writer = self._begun(rows)
        self._writer.write_table(rows, row_group_size=max(1, rows.num_rows))
        self._rows += rows.num_rows
        for key, name in topic_ids.items():
            note_topic(self.topic_ids, key, name)

    @property
    def size(self) -> int:
        """Bytes so far."""
        return int(self._stream.tell())

    def close(self) -> WrittenPart:
        """Complete the file; it is deleted if that fails."""
        try:
            if self._writer is None:
                self._writer = self._begun(pa.Table.from_batches([], table_schema(self.table, self._extra)))
            self._writer.close()
            size = self.size
            self._stream.close()
            if self._written != self.path:
                self._filesystem.move(self._written, self.path)
        except OSError:
            self.discard()
            raise
        return WrittenPart(self.table, self.path, self._rows, size, self.topic_ids)

    def discard(self) -> None:
        """Delete the file, also on a full disk."""
        closes = (self._writer.close,) if self._writer is not None else ()
        for end in (*closes, self._stream.close, lambda: self._filesystem.delete_file(self._written)):
            with suppress(OSError):
                end()
        if self._writer is not None:
            self._writer.is_open = False  # else the garbage collector closes it again, and that warns


class PartFiles:
    """The part files of one run, or of one task of a batch job."""

    def __init__(
        self,
        filesystem: pafs.FileSystem,
        folder: str,
        *,
        prefix: str = "part",
        limits: Limits | None = None,
        extra: Mapping[str, str] | None = None,
        sort: bool = False,
    ) -> None:
        """``extra``: further columns of text after those of each table, with one value for all rows.

        ``sort``: row groups are sorted by time.
        """
        self._filesystem = filesystem
        self._folder = folder.rstrip("/")
        self._prefix = prefix
        self._limits = limits or Limits()
        self._extra = dict(extra or {})
        self._sort = sort
        self._waiting: dict[TableName, list[Block]] = {}
        self._sizes: dict[TableName, int] = {}
        self._open: dict[TableName, PartFile] = {}
        self._begun: dict[TableName, int] = {}
        self._parts: list[WrittenPart] = []

    def write(self, block: Block) -> None:
        """Add a block of a table."""
        table = block.table
        self._waiting.setdefault(table, []).append(block)
        self._sizes[table] = self._sizes.get(table, 0) + block.rows.nbytes
        if self._sizes[table] >= self._limits.row_group_size:
            self._write_group(table)
        while self.waiting > self._limits.tables_buffer:
            self._write_group(max(self._sizes, key=self._sizes.__getitem__))

    @property
    def waiting(self) -> int:
        """Bytes of rows that wait for their row groups."""
        return sum(self._sizes.values())

    def close(self, tables: Collection[TableName] = ()) -> list[WrittenPart]:
        """Complete all parts and return them; each of ``tables`` gets a part, even without rows.

        If one fails (a full disk), the others are completed; then the first OSError is raised.
        """
        failed: OSError | None = None
        for table in [*self._waiting, *(table for table in tables if not self._begun.get(table)), *self._open]:
            try:
                self._complete(table)
            except OSError as error:
                failed = failed or error
        if failed is not None:
            raise failed
        return self._parts

    def _complete(self, table: TableName) -> None:
        """Write the waiting rows of a table, and complete its part."""
        if table in self._waiting:
            self._write_group(table)
        if table not in self._open and not self._begun.get(table):
            self._begin(table)
        if table in self._open:
            self._finish(table)

    def discard(self) -> None:
        """Delete all parts."""
        for part in self._open.values():
            part.discard()
        for whole in self._parts:
            self._filesystem.delete_file(whole.path)
        self._open, self._parts, self._waiting = {}, [], {}

    def _begin(self, table: TableName) -> PartFile:
        number = self._begun.get(table, 0)
        self._begun[table] = number + 1
        path = f"{self._folder}/{table}/{self._prefix}-{number:05d}.parquet"
        part = self._open[table] = PartFile(self._filesystem, table, path, self._extra)
        return part

    def _write_group(self, table: TableName) -> None:
        blocks = self._waiting.pop(table)
        del self._sizes[table]
        part = self._open.get(table) or self._begin(table)
        rows = pa.Table.from_batches([block.rows for block in blocks])
        for name, value in self._extra.items():
            rows = rows.append_column(pa.field(name, pa.string()), repeated(value, "text", rows.num_rows))
        if self._sort:
            rows = by_time(table, rows)
        topic_ids: TopicIds = {}
        for block in blocks:
            for key, topic in block.topic_ids.items():
                note_topic(topic_ids, key, topic)
        try:
            part.write(rows, topic_ids)
        except OSError:  # the part is damaged as a whole
            self._open.pop(table).discard()
            raise
        del rows, blocks
        pa.default_memory_pool().release_unused()  # a tenth of the peak, for 2 % of the time
        if part.size >= self._limits.part_size:
            self._finish(table)

    def _finish(self, table: TableName) -> None:
        self._parts.append(self._open.pop(table).close())


def table_schema(table: TableName, extra: Iterable[str] = ()) -> pa.Schema:
    """The schema of a table with further columns of text."""
    schema = arrow_schema(table)
    for name in extra:
        schema = schema.append(pa.field(name, pa.string()))
    return schema


def _dictionaries(table: TableName, extra: Iterable[str]) -> list[str]:
    """Paths of the columns that get a dictionary."""
    paths = [*extra]
    for column in TABLES[table]:
        if column.name not in _DIVERSE and column.type in ("text", "int64"):
            paths.append(column.name)
        elif column.type == "texts":
            paths.append(f"{column.name}.list.element")
        elif column.type == "headers":
            paths.append(f"{column.name}.list.element.key")
    return paths


def _differences(table: TableName) -> dict[str, str]:
    """Encodings of the columns whose numbers are stored as differences.

    Most count or rise. 80,000 records of 100 bytes took 0.10 MB, not 0.37, and a fifteenth less time to write.
    """
    numbers = [column.name for column in TABLES[table] if column.type == "int64"]
    return {name: "DELTA_BINARY_PACKED" for name in numbers if name in _DIVERSE}


def _repeating(table: TableName, rows: pa.Table) -> list[str]:
    """Payload columns that get a dictionary: those with a quarter of repeated values or more among the first rows.

    A record is produced, then delivered to followers and consumers: a capture at a broker holds it at least twice. Half
    a million such records took 67 MB, not 114, and a third less time to write.
    """
    return [name for name in _PAYLOAD[table] if 4 * pc.count_distinct(rows[name]).as_py() <= 3 * rows.num_rows]


def _bloom_filters(table: TableName, rows: pa.Table) -> dict[str, Any]:
    """Options for the Bloom filters of a part, by its first rows."""
    if not _HAS_BLOOM_FILTERS or _FILTERED not in names_of(table, "text"):
        return {}
    distinct = pc.count_distinct(rows[_FILTERED]).as_py()
    return {"bloom_filter_options": {_FILTERED: {"ndv": max(2 * distinct, _FILTERED_MIN), "fpp": 0.01}}}


def moments(table: TableName, rows: pa.Table) -> pa.ChunkedArray:
    """The moment of each row."""
    return pc.coalesce(*(rows[name] for name in _MOMENTS[table]))


def by_time(table: TableName, rows: pa.Table) -> pa.Table:
    """Rows in the order of their moments, those without one last; equal ones stay in their order."""
    when = moments(table, rows)
    if rows.num_rows < 2 or pc.all(pc.less_equal(when[:-1], when[1:]), skip_nulls=False).as_py():
        return rows
    return rows.take(pc.sort_indices(pa.table({"moment": when}), [("moment", "ascending")]))


def _ordered(table: TableName, extra: Iterable[str]) -> list[str]:
    """Paths of the columns that get statistics."""
    return [*extra, *(c.name for c in TABLES[table] if c.type in ("text", "int64", "bool", "timestamp"))]


def _base_of(filesystem: pafs.FileSystem) -> pafs.FileSystem:
    return _base_of(filesystem.base_fs) if isinstance(filesystem, pafs.SubTreeFileSystem) else filesystem
