"""Items of a run without an end in, Parquet part files out that are complete every period: ``--every``.

1. A period's parts are renamed together when it ends, and can be read at once. Names hold the run and the period:
   ``<table>/live-<run>-<period>-NNNNN.parquet``.
2. Nothing that stands in the folder is deleted or replaced, but parts of this run that no checkpoint knows.
3. Topic names are those known at the end of their period: parts are not touched after it.
4. Memory is bounded by the limits of ``parts``: of a finished part nothing is kept.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Collection
from pathlib import Path

import pyarrow as pa

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


class PeriodicParquetSink:
    """Writes the wanted tables below a local folder, period by period."""

    def __init__(
        self,
        folder: OutputFolder,
        captures: Captures,
        wanted: Collection[TableName],
        shown: Redaction,
        *,
        period_s: float | None,
        run: str,
        first: int = 0,
        limits: Limits | None = None,
    ) -> None:
        """``period_s``: None if ``end_period`` is called by others. ``first``: number of the first period."""
        self._folder = folder
        self._shown = shown
        self._wanted = tuple(table for table in TABLES if table in wanted)
        self._tables = ArrowTables(captures, self._wanted, shown)
        self._limits = limits
        self._internal = InternalTopics(Registry(load_dissectors()).dissectors)
        self.run = run
        """Stands in the names of parts."""
        self._period_s = period_s
        self.period = first
        """Number of the period that is written now."""
        self._files = self._begin()
        self._rotate_wanted = False
        self._suspended = False

    @property
    def folder(self) -> Path:
        """Where the tables are."""
        return self._folder.path

    @property
    def topics(self) -> TopicDirectory:
        """Topic names that are known so far."""
        return self._tables.topics

    def rotate(self) -> None:
        """End the period with the next tick; may be called from a signal handler."""
        self._rotate_wanted = True

    def write(self, item: Item) -> None:
        """Write the next item."""
        for block in self._tables.take(item):
            self._files.write(block)

    def tick(self) -> None:
        """End the period if it is time."""
        if self._period_s is not None and (self._rotate_wanted or time.monotonic() >= self._until):
            self.end_period()

    def write_waiting(self) -> None:
        """Write the rows that wait; more may follow."""
        for block in self._tables.waiting():
            self._files.write(block)

    def end_period(self) -> list[WrittenPart]:
        """Complete the period's parts; the first period has one for each table, the others where there are rows."""
        self.write_waiting()
        parts = self._files.close(() if self.period else self._wanted)
        done = TopicFill(self._folder.filesystem, self.topics.names, self._internal, self._shown).parts(parts)
        release_memory()
        self.period += 1
        self._files = self._begin()
        return done

    def close(self) -> None:
        """Complete the last period, with the names of topics; nothing after ``suspend``."""
        if self._suspended:
            self._files.discard()
            return
        for block in self._tables.rest():
            self._files.write(block)
        self.end_period()

    def suspend(self) -> None:
        """Let nothing more be written: the run goes on another time."""
        self._suspended = True

    def discard_unknown(self) -> int:
        """Delete parts of this run that began with this period or later: no checkpoint knows them; their number."""
        deleted = 0
        for table in TABLES:
            for part in Path(self._folder.path, table).glob(f"live-{self.run}-*"):
                if int(part.name.split("-")[2]) >= self.period:
                    part.unlink()
                    deleted += 1
        return deleted

    def _begin(self) -> PartFiles:
        self._rotate_wanted = False
        self._until = time.monotonic() + (self._period_s or 0)
        place = self._folder
        prefix = f"live-{self.run}-{self.period:08d}"
        return PartFiles(place.filesystem, place.root, prefix=prefix, limits=self._limits)


def release_memory() -> None:
    """Give the system back what Arrow and the C library hold for later: periods leave holes, and a run has many."""
    pa.default_memory_pool().release_unused()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc has it
    if trim is not None:
        trim(0)
