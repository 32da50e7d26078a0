"""Bundles sorted by flow in, part files of the tables and a result out: the reduce task.

1. Flows are decoded as in one process (``flowitems``, ``tables.arrow``, ``sinks.parts``).
2. Topic names that a task learns fill its rows; those of all tasks are filled in at the end (``finalize``).
3. File names hold the run and the attempt. An attempt that fails deletes its files, if it can.
4. A task counts its input, so that the driver notices what was lost between scan and reduce.
"""

from __future__ import annotations

import resource
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, groupby
from operator import attrgetter
from typing import Any, Final

from mqsniff.batch.bundles import Bundle, PiecePlaces, bundle_size, problems_of
from mqsniff.batch.filestats import RUN_ID
from mqsniff.batch.flowitems import ReleaseCursor, items_of
from mqsniff.batch.job import JobOptions
from mqsniff.batch.store import Store
from mqsniff.batch.taskkeys import ring_of
from mqsniff.decode.conversation import RunContext
from mqsniff.decode.internal import InternalTopics
from mqsniff.decode.registry import Registry, load_dissectors
from mqsniff.dissector import USUAL, WITH_RECORDS, Settings
from mqsniff.filters.itemfilter import ItemFilter
from mqsniff.limits import MIB
from mqsniff.model import CaptureInfo, ClosedItem, Item, MessageItem, Problem, ProblemItem, RecordItem
from mqsniff.sinks.parts import PartFiles, WrittenPart
from mqsniff.tables.arrow import ArrowTables
from mqsniff.tables.hashkey import HashKey
from mqsniff.tables.values import Redaction
from mqsniff.topics import DatedTeaching, FlowTopics, Teaching, TopicDirectory, TopicHistory

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
    memory: int = 0
    bundles: int = 0
    """Bundles that the task got."""
    bundle_bytes: int = 0
    segments: int = 0
    """Segments in them."""

    def plain(self) -> dict[str, Any]:
        """The result as JSON values."""
        return {
            "parts": [plain_part(part) for part in self.parts],
            "taught": self.taught,
            "connections": self.connections,
            "messages": self.messages,
            "problems": self.problems,
            "encrypted": self.encrypted,
            "memory": self.memory,
            "bundles": self.bundles,
            "bundle_bytes": self.bundle_bytes,
            "segments": self.segments,
        }

    def add(self, plain: Mapping[str, Any]) -> None:
        """Add the result of another task, as ``plain`` returned it."""
        self.parts += [part_of(part) for part in plain["parts"]]
        self.taught += [(protocol, topic_id, name, ts_ns) for protocol, topic_id, name, ts_ns in plain["taught"]]
        self.connections += plain["connections"]
        self.messages.update(plain["messages"])
        self.problems.update(plain["problems"])
        self.encrypted.update(plain["encrypted"])
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
        self._chooser = ItemFilter(options.filters) if options.filters else None
        self._bodies = options.body
        self.topics = TopicDirectory()
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
        )
        self.result = TaskResult()

    def take(self, item: Item) -> None:
        """Take an item."""
        for chosen in (item,) if self._chooser is None else self._chooser.choose(item):
            self._count(chosen)
            if not self._bodies and isinstance(chosen, MessageItem):
                chosen = replace(chosen, message=replace(chosen.message, body={}))  # noqa: PLW2901  # the item to write
            for block in self._tables.take(chosen):
                self._files.write(block)

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
                if connection.tls_keys in ("missing", "wrong"):
                    self.result.encrypted[connection.tls_keys] += 1


class Reducer:
    """One task: decodes the flows of a partition, one after the other."""

    def __init__(self, output: TaskOutput, placing: PiecePlaces, captures: Sequence[CaptureInfo], attempt: str) -> None:
        """``placing`` and ``captures`` know the pieces and captures of the bundles that ``run`` has got so far."""
        options = output.options
        settings = Settings(options.limits, WITH_RECORDS if options.needs_records else USUAL)
        registry = Registry(load_dissectors(), options.decode_as)
        self._context = RunContext(registry, settings, keys=ring_of(output.key_file))
        self._internal = InternalTopics(self._context.registry.dissectors)
        self._history = None if output.history is None else TopicHistory(output.history)
        self._cursor = ReleaseCursor()
        self._flow_topics: FlowTopics | None = None
        self._placing = placing
        self._writer = Writer(output, captures, attempt)

    def run(self, bundles: Iterable[Bundle]) -> TaskResult:
        """Decode and write all bundles; an exception fails the attempt, and no file stays."""
        try:
            for _, flow in groupby(self._counted(bundles), key=attrgetter("flow")):
                self._flow(flow)
            self._writer.write_waiting()
            while self._internal.faults:
                self._writer.take(
                    ProblemItem(None, Problem("internal", "error", self._internal.faults.pop()), None, None)
                )
            return self._writer.close()
        except BaseException:
            self._writer.discard()
            raise

    def _counted(self, bundles: Iterable[Bundle]) -> Iterator[Bundle]:
        """The bundles, counted as scan counts them."""
        result = self._writer.result
        for bundle in bundles:
            result.bundles += 1
            result.bundle_bytes += bundle_size(bundle)
            result.segments += bundle.segments if bundle.key else 0
            yield bundle

    def _flow(self, flow: Iterator[Bundle]) -> None:
        first = next(flow)
        if not first.key:
            for bundle in (first, *flow):
                self._packet_problems(bundle)
            return
        if self._history is not None:
            self._flow_topics = FlowTopics(self._history)
        for item in items_of(chain((first,), flow), self._placing, self._context, self._cursor):
            self._name(item)
            self._writer.take(item)

    def _packet_problems(self, bundle: Bundle) -> None:
        for odd in problems_of(bundle, self._placing):
            self._writer.take(ProblemItem(None, odd.problem, odd.ts_ns, odd.packet))

    def _name(self, item: Item) -> None:
        """Fill known topic names, and decode records of internal topics."""
        if isinstance(item, MessageItem):
            message = item.message
            if message.teaches:
                self._writer.topics.learn(message)
                if self._flow_topics is not None:
                    self._flow_topics.learn(message)
            if message.topic_ids:
                self._known(message.protocol, message.topic_ids).fill_message(message)
        elif isinstance(item, RecordItem):
            topic_id = item.batch.constant.get("topic_id")
            if topic_id is not None:
                self._known(item.message.protocol, (topic_id,)).fill_records(item.message.protocol, item.batch)
            item.batch = self._internal.decoded(item.message.protocol, item.batch)

    def _known(self, protocol: str, topic_ids: Sequence[str]) -> TopicDirectory:
        """What is known of topic ids now."""
        if self._flow_topics is None:
            return self._writer.topics
        return self._flow_topics.at(self._cursor.now, protocol, topic_ids)


class TopicLearner:
    """The first pass of a task, if ``--topic`` is used: which names its flows teach, and at which packet.

    That is the packet that released the message, by its time and number. One process orders packets by the largest time
    so far in their file: the same order, unless clocks step back.
    """

    def __init__(self, placing: PiecePlaces, output: TaskOutput) -> None:
        options = output.options
        settings = Settings(options.limits, frozenset(("partitions", "notes")))
        registry = Registry(load_dissectors(), options.decode_as)
        self._context = RunContext(registry, settings, keys=ring_of(output.key_file))
        self._placing = placing

    def run(self, bundles: Iterable[Bundle]) -> TopicHistory:
        """What the flows teach; an exception fails the attempt."""
        history = TopicHistory()
        for _, flow in groupby(bundles, key=attrgetter("flow")):
            first = next(flow)
            if not first.key:
                continue
            cursor = ReleaseCursor()
            for item in items_of(chain((first,), flow), self._placing, self._context, cursor):
                if isinstance(item, MessageItem) and item.message.teaches:
                    history.learn(item.message, cursor.now)
        return history


def peak_memory() -> int:
    """Peak memory of this process, bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * _KIB
