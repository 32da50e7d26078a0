"""What all tasks have said in, the end of a run out: the parts that only the driver can write, and the manifest.

1. ``topics``, ``files`` and the problems of inputs are written once, by the driver: they are about the whole run.
2. Every table that was asked for has a file, be it without rows.
3. What is published are the parts that tasks reported, none else.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow.parquet as pq

from mqsniff.batch.commit import Archive
from mqsniff.batch.filestats import FILES, RUN_ID, file_rows
from mqsniff.batch.manifest import Published
from mqsniff.batch.reduce import Done, TaskOutput, Writer
from mqsniff.model import CaptureInfo, Item
from mqsniff.sinks.parts import PartFiles, WrittenPart
from mqsniff.tables.arrow import topics_block
from mqsniff.topics import TopicDirectory


@dataclass(frozen=True, slots=True)
class RunFinalizer:
    """The driver's part of a run."""

    archive: Archive
    output: TaskOutput
    captures: Sequence[CaptureInfo]

    def items(self, items: Iterable[Item]) -> Done:
        """Write what is to be told of the run and its inputs."""
        writer = Writer(self.output, self.captures, "inputs")
        for item in items:
            writer.take(item)
        return writer.close()

    def filled(self, parts: Sequence[WrittenPart], topics: TopicDirectory) -> list[WrittenPart]:
        """The parts of tasks, with the table ``topics``, and an empty part of every wanted table that has none."""
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
        """A part as the manifest names it."""
        store = self.archive.store
        path = part.path.removeprefix(store.root + "/").removeprefix(self.output.folder).lstrip("/")
        return Published(part.table, path, part.rows, part.bytes)
