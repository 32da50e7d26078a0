"""Items of a run in, a folder of Parquet tables out: one folder per table, written as the items come.

1. Parts that earlier runs left in the folder are deleted before the first new row is written (``outputfolder``).
2. Whatever ends the run, ``close`` leaves complete parts only, at least one for each wanted table. A run that could
   read nothing leaves no table.
3. Topic names are those known at the end: parts that show others are rewritten then (``topicfill``).
4. Memory is bounded by the limits of ``parts``, whatever the length of the input.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from mqsniff.decode.internal import InternalTopics
from mqsniff.decode.registry import Registry, load_dissectors
from mqsniff.limits import Limits
from mqsniff.model import Item
from mqsniff.sinks.outputfolder import OutputFolder
from mqsniff.sinks.parts import PartFiles, WrittenPart
from mqsniff.sinks.topicfill import TopicFill
from mqsniff.tables.arrow import ArrowTables
from mqsniff.tables.rows import Captures
from mqsniff.tables.schemas import TABLES, TableName
from mqsniff.tables.values import Redaction
from mqsniff.topics import TopicDirectory


class ParquetSink:
    """Writes the wanted tables below a local folder."""

    def __init__(
        self,
        folder: str | OutputFolder,
        captures: Captures,
        wanted: Collection[TableName],
        shown: Redaction,
        *,
        prefix: str = "part",
        limits: Limits | None = None,
        extra: Mapping[str, str] | None = None,
    ) -> None:
        """``extra``: more columns of text, the same in all rows."""
        self._folder = OutputFolder(folder) if isinstance(folder, str) else folder
        self._begun = False
        self._captures = captures
        self._shown = shown
        self._wanted = tuple(table for table in TABLES if table in wanted)
        self._tables = ArrowTables(captures, self._wanted, shown)
        place = self._folder
        self._files = PartFiles(place.filesystem, place.root, prefix=prefix, limits=limits, extra=extra)

    @property
    def topics(self) -> TopicDirectory:
        """Topic names that are known so far."""
        return self._tables.topics

    def write(self, item: Item) -> None:
        """Write the next item."""
        for block in self._tables.take(item):
            self._begin()
            self._files.write(block)

    def tick(self) -> None:
        """Nothing: a part can be read only when it is complete."""

    def write_waiting(self) -> None:
        """Write the rows that wait; more may follow."""
        for block in self._tables.waiting():
            self._begin()
            self._files.write(block)

    def close(self) -> list[WrittenPart]:
        """Write the waiting rows and fill in final topic names; returns the parts, at least one for each table.

        There are none if no capture could be read.
        """
        if all(capture.unreadable for capture in self._captures):
            self.discard()
            self._folder.abandon()
            return []
        parts = self.close_parts(self._wanted)
        internal = InternalTopics(Registry(load_dissectors()).dissectors)
        return TopicFill(self._folder.filesystem, self.topics.names, internal, self._shown).parts(parts)

    def close_parts(self, tables: Collection[TableName] = ()) -> list[WrittenPart]:
        """Write the waiting rows; returns the parts, without final topic names. Each of ``tables`` has at least one."""
        self._begin()
        for block in self._tables.rest():
            self._files.write(block)
        return self._files.close(tables)

    def discard(self) -> None:
        """Delete all parts."""
        self._files.discard()

    def _begin(self) -> None:
        """Delete the parts of earlier runs before the first row is written."""
        if not self._begun:
            self._folder.clear()
            self._begun = True
