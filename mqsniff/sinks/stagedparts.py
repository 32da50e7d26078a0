"""Part files of several workers and what they learned in, the tables of a folder out.

1. Topic names are those known at the end, as in ``ParquetSink``; parts that show others are rewritten where they are.
2. Then the parts of earlier runs are deleted, and the new ones moved: a run that fails before leaves the old ones.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from mqsniff.decode.internal import InternalTopics
from mqsniff.decode.registry import Registry, load_dissectors
from mqsniff.limits import Limits
from mqsniff.sinks.outputfolder import OutputFolder, local_folder
from mqsniff.sinks.parts import PartFiles, WrittenPart
from mqsniff.sinks.topicfill import TopicFill
from mqsniff.tables.arrow import topics_block
from mqsniff.tables.schemas import TableName
from mqsniff.tables.values import Redaction
from mqsniff.topics import Teaching, TopicDirectory


def publish_parts(
    folder: OutputFolder,
    staged: Mapping[Path, Iterable[Mapping[str, Any]]],
    taught: Iterable[Teaching],
    wanted: Collection[TableName],
    *,
    shown: Redaction,
    limits: Limits,
) -> None:
    """Make tables of the parts that were written below some folders."""
    topics = TopicDirectory(taught, limits.topics_max)
    internal = InternalTopics(Registry(load_dissectors()).dissectors)
    filled: list[tuple[TableName, Path]] = []
    for place, parts in staged.items():
        fill = TopicFill(local_folder(place)[0], topics.names, internal, shown)
        done = fill.parts(WrittenPart(**part) for part in parts)
        filled += [(part.table, place / part.table / Path(part.path).name) for part in done]
    folder.clear()
    numbers: dict[TableName, int] = {}
    for table, path in filled:
        target = folder.path / table
        target.mkdir(exist_ok=True)
        number = numbers[table] = numbers.get(table, -1) + 1
        path.rename(target / f"part-{number:05d}.parquet")
    rest = PartFiles(folder.filesystem, folder.root, limits=limits)
    if "topics" in wanted and (rows := list(topics.final())):
        rest.write(topics_block(rows))
    rest.close([table for table in wanted if table not in numbers])
