"""Part files of all tasks in, the files of the finished tables out.

1. A part is rewritten when its rows show another name of a topic id than the one that counts; any task may have learned
   that name.
2. Small parts of a table are put together, up to ``PART_SIZE`` bytes, where there are many of them: a rewrite takes a
   fifth of the time of the tasks, and some dozens of files harm no reader.
3. Where folders are asked for, every part is rewritten: its rows go to ``protocol=…/day=…`` by their own columns.
4. Tasks rewrite. The driver writes ``topics``, ``files`` and the problems of inputs once: they are about the whole run.
   Every wanted table has a file, be it without rows.
5. A rewrite makes new files, and what is published are the parts that tasks reported; the manifest decides which files
   count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mqsniff.batch.commit import Archive
from mqsniff.batch.filestats import FILES, RUN_ID, file_rows
from mqsniff.batch.job import Folder
from mqsniff.batch.manifest import Published
from mqsniff.batch.store import Store
from mqsniff.batch.tasktables import (
    ROW_GROUP_SIZE,
    TABLES_BUFFER,
    TaskOutput,
    TaskResult,
    Writer,
    part_of,
    peak_memory,
    plain_part,
)
from mqsniff.decode.internal import InternalTopics
from mqsniff.decode.registry import Registry, load_dissectors
from mqsniff.limits import MIB
from mqsniff.model import CaptureInfo, Item
from mqsniff.sinks.parts import PartFile, PartFiles, WrittenPart, by_time, moments
from mqsniff.sinks.topicfill import TopicFill
from mqsniff.tables.arrow import topics_block
from mqsniff.tables.schemas import TABLES, TableName
from mqsniff.topics import Names, Teaching, TopicDirectory, TopicIds, note_topic, shows_other_names

SMALL: Final = 8 * MIB
"""Smaller parts are joined, if there are many."""
SMALL_GOOD: Final = 64
"""So many small parts of a table stay as they are."""
PART_SIZE: Final = 64 * MIB
"""Bytes of a joined part at most."""
NOWHERE: Final = "__HIVE_DEFAULT_PARTITION__"
"""Folder of rows without a protocol or a time, as Hive, Spark and DuckDB name it."""


class Rewrite(NamedTuple):
    """Parts of one table that are joined into one, or one per folder."""

    table: TableName
    parts: tuple[WrittenPart, ...]

    def plain(self) -> dict[str, Any]:
        """The rewrite as JSON values."""
        return {"table": self.table, "parts": [plain_part(part) for part in self.parts]}

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> Rewrite:
        """From what ``plain`` returned."""
        return cls(plain["table"], tuple(part_of(part) for part in plain["parts"]))


def rewrites(
    parts: Iterable[WrittenPart], names: Names, folders: Sequence[Folder]
) -> tuple[list[WrittenPart], list[Rewrite]]:
    """(parts that stay as they are, parts to rewrite)."""
    staying: list[WrittenPart] = []
    wanted: list[Rewrite] = []
    by_table: dict[TableName, list[WrittenPart]] = {}
    for part in parts:
        by_table.setdefault(part.table, []).append(part)
    for table, own in by_table.items():
        too_many = sum(part.bytes < SMALL for part in own) > SMALL_GOOD
        small: list[WrittenPart] = []
        for part in own:
            stays = _stays(part, names, folders)
            if part.bytes < SMALL and (too_many or not stays):
                small.append(part)
            elif stays:
                staying.append(part)
            else:
                wanted.append(Rewrite(table, (part,)))
        lots = [tuple(together) for together in _bins(small)]
        staying += [lot[0] for lot in lots if len(lot) == 1 and _stays(lot[0], names, folders)]
        wanted += [Rewrite(table, lot) for lot in lots if len(lot) > 1 or not _stays(lot[0], names, folders)]
    return staying, wanted


def _stays(part: WrittenPart, names: Names, folders: Sequence[Folder]) -> bool:
    """Whether a part needs no rewrite for its own sake."""
    return not folders and not shows_other_names(part.topic_ids, names)


def _bins(parts: list[WrittenPart]) -> Iterator[list[WrittenPart]]:
    """Groups of parts of at most ``PART_SIZE`` bytes; the order of the tasks does not change them."""
    lot: list[WrittenPart] = []
    size = 0
    for part in sorted(parts, key=lambda part: part.path):
        if lot and size + part.bytes > PART_SIZE:
            yield lot
            lot, size = [], 0
        lot.append(part)
        size += part.bytes
    if lot:
        yield lot


@dataclass(frozen=True, slots=True)
class Rewriter:
    """Rewrites parts, in a task."""

    output: TaskOutput
    taught: tuple[Teaching, ...]

    def run(self, wanted: Rewrite, attempt: str) -> TaskResult:
        """Rewrite some parts; an exception fails the attempt."""
        pa.default_memory_pool().release_unused()  # earlier tasks of this worker left it
        store = Store.at(self.output.uri)
        options = self.output.options
        internal = InternalTopics(Registry(load_dissectors()).dissectors)
        fill = TopicFill(store.filesystem, TopicDirectory(self.taught).names, internal, self.output.shown())
        folder = store.place(f"{self.output.folder}/{wanted.table}" if self.output.folder else wanted.table)
        target = _Target(store, wanted.table, folder, f"{self.output.run}-{attempt}", options.folders)
        for number, part in enumerate(wanted.parts):
            if fill.needed(part):
                filled = fill.part(part, f"{folder}/{self.output.run}-{attempt}-{number}.filled")
                target.take(filled)
                store.filesystem.delete_file(filled.path)
            else:
                target.take(part)
        return TaskResult(parts=target.close(), memory=peak_memory())


class _Target:
    """Rows of parts in, one part out, or one per folder; row groups as large as limits allow."""

    def __init__(self, store: Store, table: TableName, folder: str, prefix: str, folders: Sequence[Folder]) -> None:
        self._store = store
        self._table = table
        self._folder = folder
        self._prefix = prefix
        self._folders = folders
        self._waiting: dict[str, list[pa.Table]] = {}
        self._sizes: dict[str, int] = {}
        self._files: dict[str, PartFile] = {}
        self._topic_ids: TopicIds = {}
        self._extra: tuple[str, ...] = ()

    def take(self, part: WrittenPart) -> None:
        """Take all rows of a part."""
        for key, name in part.topic_ids.items():
            note_topic(self._topic_ids, key, name)
        with self._store.filesystem.open_input_file(part.path) as stream, pq.ParquetFile(stream) as source:
            self._extra = tuple(source.schema_arrow.names[len(TABLES[self._table]) :])
            for index in range(source.num_row_groups):
                for name, rows in self._parted(source.read_row_group(index, use_threads=False)):
                    self._add(name, rows)

    def close(self) -> list[WrittenPart]:
        """Write what waits and close all parts."""
        for name in [*self._waiting]:
            self._write(name)
        return [file.close() for file in self._files.values()]

    def _add(self, name: str, rows: pa.Table) -> None:
        self._waiting.setdefault(name, []).append(rows)
        self._sizes[name] = self._sizes.get(name, 0) + rows.nbytes
        if self._sizes[name] >= ROW_GROUP_SIZE:
            self._write(name)
        while sum(self._sizes.values()) >= TABLES_BUFFER:
            self._write(max(self._sizes, key=self._sizes.__getitem__))

    def _write(self, name: str) -> None:
        rows = pa.concat_tables(self._waiting.pop(name))
        del self._sizes[name]
        file = self._files.get(name)
        if file is None:
            path = f"{self._folder}/{name}{self._prefix}-00000.parquet"
            file = self._files[name] = PartFile(self._store.filesystem, self._table, path, self._extra)
        file.write(by_time(self._table, rows), self._topic_ids)

    def _parted(self, rows: pa.Table) -> Iterator[tuple[str, pa.Table]]:
        """(folder, its rows); '' without folders."""
        if not self._folders:
            yield "", rows
            return
        keys = [_folder_column(rows, self._table, folder) for folder in self._folders]
        combined = pc.binary_join_element_wise(*keys, "/") if len(keys) > 1 else keys[0]
        for name in combined.unique().to_pylist():
            yield f"{name}/", rows.filter(pc.equal(combined, name))


def _folder_column(rows: pa.Table, table: TableName, folder: Folder) -> pa.ChunkedArray:
    """The name of each row's folder, without its parents."""
    values = rows["protocol"] if folder == "protocol" else pc.strftime(moments(table, rows), "%Y-%m-%d")
    return pc.binary_join_element_wise(pa.scalar(folder), pc.fill_null(values, NOWHERE), "=")


# ---- the driver's part


@dataclass(frozen=True, slots=True)
class RunFinalizer:
    """The driver's part of a run."""

    archive: Archive
    output: TaskOutput
    captures: Sequence[CaptureInfo]

    def items(self, items: Iterable[Item]) -> TaskResult:
        """Write items about the run and its inputs."""
        writer = Writer(self.output, self.captures, "inputs")
        for item in items:
            writer.take(item)
        return writer.close()

    def filled(self, parts: Sequence[WrittenPart], topics: TopicDirectory) -> list[WrittenPart]:
        """The parts of tasks, the table ``topics``, and an empty part of each wanted table that has none."""
        store, options = self.archive.store, self.output.options
        files = PartFiles(
            store.filesystem,
            store.place(self.output.folder),
            prefix=f"{self.output.run}-driver",
            limits=options.limits,
            extra={RUN_ID.name: self.output.run},
        )
        taught = list(topics.final())
        if "topics" in options.tables and taught:
            files.write(topics_block(taught))
        there = {part.table for part in parts}
        return [*parts, *files.close([table for table in options.tables if table not in there])]

    def files(self, rows: Sequence[dict[str, Any]]) -> Published:
        """Write the table ``files``."""
        store, run = self.archive.store, self.output.run
        path = f"{FILES}/{run}-files-00000.parquet"
        written = f"{self.output.folder}/{path}" if self.output.folder else path
        batch = file_rows(rows, run)
        store.filesystem.create_dir(store.place(written).rpartition("/")[0], recursive=True)
        with store.filesystem.open_output_stream(store.place(written)) as stream:
            with pq.ParquetWriter(stream, batch.schema, compression="zstd", compression_level=1) as writer:
                writer.write_batch(batch)
            size = int(stream.tell())
        return Published(FILES, path, batch.num_rows, size)

    def published(self, part: WrittenPart) -> Published:
        """A part as the manifest lists it."""
        store = self.archive.store
        path = part.path.removeprefix(store.root + "/").removeprefix(self.output.folder).lstrip("/")
        if self.output.carry is None:
            return Published(part.table, path, part.rows, part.bytes)
        ids = tuple((protocol, topic_id, name) for (protocol, topic_id), name in part.topic_ids.items())
        return Published(part.table, path, part.rows, part.bytes, ids)
