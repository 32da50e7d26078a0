"""Items of a run in, a folder of Parquet tables out: one folder a table, written as the items come.

1. A folder that holds something is refused, unless it is to be overwritten: then the tables in it go, nothing else.
2. Whatever ends the run, ``close`` makes what was done readable: parts are whole, or not there.
3. Topic names are those that are known at the end: parts that show others are rewritten then (``topicfill``).
4. Memory is bounded by the limits of ``parts``, whatever the length of the input.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

import pyarrow.fs as pafs

from mqsniff.decode.internal import InternalTopics
from mqsniff.decode.registry import Registry, load_dissectors
from mqsniff.limits import Limits
from mqsniff.model import Item
from mqsniff.sinks.parts import UNFINISHED, Part, PartFiles
from mqsniff.sinks.topicfill import TopicFill
from mqsniff.tables.arrow import ArrowTables
from mqsniff.tables.rows import Captures
from mqsniff.tables.schemas import TABLES, TableName
from mqsniff.tables.topics import Teachings
from mqsniff.tables.values import Shown

_OURS: Final = (".parquet", ".parquet" + UNFINISHED)


class OutputFolderError(Exception):
    """The folder cannot be written to; the text says why, in one line."""


class ParquetSink:
    """Writes the wanted tables below a folder of a file system."""

    def __init__(
        self,
        folder: str,
        captures: Captures,
        wanted: Collection[TableName],
        shown: Shown,
        *,
        filesystem: pafs.FileSystem | None = None,
        prefix: str = "part",
        limits: Limits | None = None,
        extra: Mapping[str, str] | None = None,
    ) -> None:
        """Without a file system ``folder`` is a local path. ``extra``: more columns of text, the same in all rows."""
        self._filesystem = filesystem or pafs.LocalFileSystem()
        self._shown = shown
        self._wanted = tuple(table for table in TABLES if table in wanted)
        path = str(Path(folder).absolute()) if filesystem is None else folder
        self._tables = ArrowTables(captures, self._wanted, shown)
        self._files = PartFiles(self._filesystem, path, prefix=prefix, limits=limits, extra=extra)

    @property
    def teachings(self) -> Teachings:
        """What the traffic taught of topic ids so far."""
        return self._tables.teachings

    def write(self, item: Item) -> None:
        """Take the next item."""
        for block in self._tables.take(item):
            self._files.write(block)

    def tick(self) -> None:
        """Nothing to show before a part is whole."""

    def close(self) -> list[Part]:
        """Write what waits, fill the names that are known now, and tell the parts; every table has one at least."""
        parts = self.close_parts(self._wanted)
        internal = InternalTopics(Registry(load_dissectors()).dissectors)
        return TopicFill(self._filesystem, self.teachings.names, internal, self._shown).parts(parts)

    def close_parts(self, tables: Collection[TableName] = ()) -> list[Part]:
        """Write what waits and tell the parts, for who fills names later; ``tables`` get a part even without rows."""
        for block in self._tables.rest():
            self._files.write(block)
        return self._files.close(tables)

    def discard(self) -> None:
        """Leave nothing behind."""
        self._files.discard()


def prepare_folder(folder: str, *, overwrite: bool, filesystem: pafs.FileSystem | None = None) -> None:
    """Make sure that a folder can take tables (rule 1); OutputFolderError where it cannot."""
    path = str(Path(folder).absolute()) if filesystem is None else folder
    filesystem = filesystem or pafs.LocalFileSystem()
    try:
        if filesystem.get_file_info(path).type is pafs.FileType.File:
            raise OutputFolderError(f"{folder} is a file, not a folder")
        filesystem.create_dir(path, recursive=True)
        there = filesystem.get_file_info(pafs.FileSelector(path))
        if there and not overwrite:
            raise OutputFolderError(f"{folder} is not empty: choose another folder, or say --overwrite")
        for table in TABLES:
            _remove_parts(filesystem, f"{path}/{table}")
    except OSError as error:
        raise OutputFolderError(f"{folder} cannot be written to: {error.strerror or error}") from None


def _remove_parts(filesystem: pafs.FileSystem, folder: str) -> None:
    for info in filesystem.get_file_info(pafs.FileSelector(folder, allow_not_found=True)):
        if info.type is pafs.FileType.File and info.path.endswith(_OURS):
            filesystem.delete_file(info.path)
