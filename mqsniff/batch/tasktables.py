"""Items in, part files of the tables and a result out: what a task of the batch job writes.

1. File names hold the run and the attempt. An attempt that fails deletes its files, if it can.
2. A result is plain data: it goes to the driver as JSON, and the results of tasks add up.
"""

from __future__ import annotations

import resource
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from mqsniff.batch.carried import CarriedCounts, Carry
from mqsniff.batch.filestats import RUN_ID
from mqsniff.batch.job import JobOptions
from mqsniff.batch.store import Store
from mqsniff.filters.itemfilter import FilterState, ItemFilter
from mqsniff.limits import MIB
from mqsniff.model import CaptureInfo, ClosedItem, Item, MessageItem, ProblemItem
from mqsniff.sinks.parts import PartFiles, WrittenPart
from mqsniff.tables.arrow import ArrowTables
from mqsniff.tables.hashkey import HashKey
from mqsniff.tables.values import Redaction
from mqsniff.topics import DatedTeaching, Teaching, TopicDirectory

ROW_GROUP_SIZE: Final = 8 * MIB
TABLES_BUFFER: Final = 24 * MIB
"""Bytes of rows that wait to be written in a task: tasks on all cores of a machine share its memory."""

_KIB: Final = 1024


@dataclass(frozen=True, slots=True)
class TaskOutput:
    """Where and what the tasks of a run write."""

    uri: str = field(repr=False)
    """The folder of the tables; may hold credentials."""
    folder: str
    """The folder below it that attempts write to."""
    run: str
    options: JobOptions
    history: tuple[DatedTeaching, ...] | None = None
    """Rows of a ``TopicHistory``; None where a task needs no names but those that its own flows teach."""
    key_file: str = ""
    """Where a task finds the keys of TLS; empty where there are none."""
    hash_key_file: str = ""
    """Where a task finds the key of hashes; empty on the driver, which writes no row with a hash."""
    carry: Carry | None = None
    """What becomes of connections that are open at the end; None: they end there."""
    taught: tuple[Teaching, ...] = field(default=(), repr=False)
    """Topic names that the runs before learned."""

    def shown(self) -> Redaction:
        """How a task shows secrets, undecoded bytes and record data; OSError if the key of hashes is gone."""
        hash_key = HashKey.of_file(self.hash_key_file) if self.hash_key_file else None
        return replace(self.options.shown, hash_key=hash_key)


@dataclass(slots=True)
class TaskResult:
    """The result of a task that succeeded."""

    parts: list[WrittenPart] = field(default_factory=list)
    taught: list[Teaching] = field(default_factory=list)
    connections: int = 0
    messages: Counter[str] = field(default_factory=Counter)
    problems: Counter[str] = field(default_factory=Counter)
    encrypted: Counter[str] = field(default_factory=Counter)
    """TLS connections that no key opened, by what became of keys."""
    duplicate_packets: int = 0
    """Packets that were captured twice."""
    memory: int = 0
    bundles: int = 0
    """Bundles that the task got."""
    bundle_bytes: int = 0
    segments: int = 0
    """Segments in them."""
    edge_parts: list[WrittenPart] = field(default_factory=list)
    """Parts with the rows that only the end of the run released, which the next run drops."""
    edge_taught: list[Teaching] = field(default_factory=list)
    carried: list[tuple[str, int, int]] = field(default_factory=list)
    """(path, rows, size) of files of carried rows."""
    carried_counts: CarriedCounts = field(default_factory=CarriedCounts)

    def plain(self) -> dict[str, Any]:
        """The result as JSON values."""
        return {
            "parts": [plain_part(part) for part in self.parts],
            "taught": self.taught,
            "connections": self.connections,
            "messages": self.messages,
            "problems": self.problems,
            "encrypted": self.encrypted,
            "duplicate_packets": self.duplicate_packets,
            "memory": self.memory,
            "bundles": self.bundles,
            "bundle_bytes": self.bundle_bytes,
            "segments": self.segments,
            "edge_parts": [plain_part(part) for part in self.edge_parts],
            "edge_taught": self.edge_taught,
            "carried": self.carried,
            "carried_counts": asdict(self.carried_counts),
        }

    def add(self, plain: Mapping[str, Any]) -> None:
        """Add the result of another task, as ``plain`` returned it."""
        self.parts += [part_of(part) for part in plain["parts"]]
        self.edge_parts += [part_of(part) for part in plain["edge_parts"]]
        self.taught += map(tuple, plain["taught"])
        self.edge_taught += map(tuple, plain["edge_taught"])
        self.carried += map(tuple, plain["carried"])
        self.carried_counts.add(CarriedCounts(**plain["carried_counts"]))
        self.connections += plain["connections"]
        self.messages.update(plain["messages"])
        self.problems.update(plain["problems"])
        self.encrypted.update(plain["encrypted"])
        self.duplicate_packets += plain["duplicate_packets"]
        self.memory = max(self.memory, plain["memory"])
        self.bundles += plain["bundles"]
        self.bundle_bytes += plain["bundle_bytes"]
        self.segments += plain["segments"]


def plain_part(part: WrittenPart) -> dict[str, Any]:
    """A part as JSON values."""
    ids = [[protocol, topic_id, name] for (protocol, topic_id), name in part.topic_ids.items()]
    return {"table": part.table, "path": part.path, "rows": part.rows, "bytes": part.bytes, "topic_ids": ids}


def part_of(plain: Mapping[str, Any]) -> WrittenPart:
    """A part from what ``plain_part`` returned."""
    ids = {(protocol, topic_id): name for protocol, topic_id, name in plain["topic_ids"]}
    return WrittenPart(plain["table"], plain["path"], plain["rows"], plain["bytes"], ids)


class Writer:
    """Filters and counts items, and writes them to part files."""

    def __init__(self, output: TaskOutput, captures: Sequence[CaptureInfo], attempt: str) -> None:
        options = output.options
        store = Store.at(output.uri)
        tables = [table for table in options.tables if table != "topics"]  # those are written once, at the end
        self._filters = options.filters
        self.chooser = ItemFilter(options.filters) if options.filters else None
        """What the user's filters know of open connections."""
        self._bodies = options.body
        self.topics = TopicDirectory(output.taught)
        """Topic names; the decoder of items teaches it, also for items that the filters drop."""
        self._tables = ArrowTables(captures, tables, output.shown(), self.topics)
        self._files = PartFiles(
            store.filesystem,
            store.place(output.folder),
            prefix=f"{output.run}-{attempt}",
            limits=replace(
                options.limits,
                row_group_size=min(options.limits.row_group_size, ROW_GROUP_SIZE),
                tables_buffer=min(options.limits.tables_buffer, TABLES_BUFFER),
            ),
            extra={RUN_ID.name: output.run},
            sort=True,
        )
        self.result = TaskResult()

    def take(self, item: Item) -> None:
        """Take an item."""
        for chosen in self.chosen(item):
            self._count(chosen)
            if not self._bodies and isinstance(chosen, MessageItem):
                chosen = replace(chosen, message=replace(chosen.message, body={}))  # noqa: PLW2901  # the item to write
            for block in self._tables.take(chosen):
                self._files.write(block)

    def chosen(self, item: Item) -> Iterable[Item]:
        """The part of an item that the filters choose."""
        return (item,) if self.chooser is None else self.chooser.choose(item)

    def resume(self, filtered: FilterState | None) -> None:
        """Begin a flow, of which the filters knew this when the run before ended."""
        if self._filters:
            self.chooser = ItemFilter(self._filters)
            if filtered is not None:
                self.chooser.restore(filtered)

    def write_waiting(self) -> None:
        """Write the rows that wait: only then are the records of internal topics among them decoded."""
        for block in self._tables.waiting():
            self._files.write(block)

    def close(self) -> TaskResult:
        """Close all parts; returns the result."""
        for block in self._tables.rest():
            self._files.write(block)
        self.result.parts = self._files.close()
        self.result.taught = list(self.topics.rows())
        self.result.memory = peak_memory()
        return self.result

    def discard(self) -> None:
        """Delete all files."""
        self._files.discard()

    def _count(self, item: Item) -> None:
        match item:
            case MessageItem(_, message):
                self.result.messages[message.protocol] += 1
            case ProblemItem(_, problem):
                self.result.problems[problem.severity] += 1
            case ClosedItem(connection):
                self.result.connections += 1
                self.result.duplicate_packets += connection.duplicate_packets
                if connection.tls_keys in ("missing", "wrong"):
                    self.result.encrypted[connection.tls_keys] += 1


def peak_memory() -> int:
    """Peak memory of this process, bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * _KIB
