"""Bundles sorted by flow in, part files of the tables and a result out: the reduce task.

1. Flows are decoded as in one process (``flowitems``, ``tables.arrow``, ``sinks.parts``).
2. Topic names that a task learns fill its rows; those of all tasks are filled in at the end (``finalize``).
3. A task counts its input, so that the driver notices what was lost between scan and reduce.
4. A run that carries hands connections that are open to the next run (``carried``, ``edge``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby
from operator import attrgetter

from mqsniff.batch.bundles import Bundle, bundle_size, problems_of
from mqsniff.batch.edge import CarriedFlows, TaskEdge
from mqsniff.batch.flowitems import ReleaseCursor, items_of
from mqsniff.batch.origins import Origins
from mqsniff.batch.taskkeys import ring_of
from mqsniff.batch.tasktables import TaskOutput, TaskResult, Writer
from mqsniff.decode.conversation import RunContext
from mqsniff.decode.internal import InternalTopics
from mqsniff.decode.registry import Registry, load_dissectors
from mqsniff.dissector import USUAL, WITH_RECORDS, Settings
from mqsniff.model import Item, MessageItem, Problem, ProblemItem, RecordItem
from mqsniff.topics import FlowTopics, TopicDirectory, TopicHistory


class Reducer:
    """One task: decodes the flows of a partition, one after the other."""

    def __init__(self, output: TaskOutput, origins: Origins, attempt: str) -> None:
        """``origins`` knows the pieces and captures of the bundles that ``run`` has got so far."""
        options = output.options
        settings = Settings(options.limits, WITH_RECORDS if options.needs_records else USUAL)
        registry = Registry(load_dissectors(), options.decode_as)
        self._context = RunContext(registry, settings, keys=ring_of(output.key_file))
        self._internal = InternalTopics(self._context.registry.dissectors)
        self._history = None if output.history is None else TopicHistory(output.history)
        self._cursor = ReleaseCursor()
        self._flow_topics: FlowTopics | None = None
        self._placing = origins.placing
        self._writer = Writer(output, origins.captures, attempt)
        self._edge = None if output.carry is None else TaskEdge(output, output.carry, origins, self._context, attempt)

    def run(self, bundles: Iterable[Bundle]) -> TaskResult:
        """Decode and write all bundles; an exception fails the attempt, and no file stays."""
        try:
            for _, flow in groupby(self._counted(bundles), key=attrgetter("flow")):
                self._flow(flow)
            return self._finished()
        except BaseException:
            self._writer.discard()
            if self._edge is not None:
                self._edge.discard()
            raise

    def _finished(self) -> TaskResult:
        """Write what waits, and close all files."""
        edge, writer = self._edge, self._writer
        writer.write_waiting()
        if edge is not None:
            edge.writer.write_waiting()
        while self._internal.faults:
            writer.take(ProblemItem(None, Problem("internal", "error", self._internal.faults.pop()), None, None))
        result = writer.close()
        if edge is not None:
            edge.close(result)
        return result

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
        if self._edge is not None:
            self._carrying_flow(self._edge, first, flow)
            return
        for item in items_of(chain((first,), flow), self._placing, self._context, self._cursor):
            self._name(item)
            self._writer.take(item)

    def _carrying_flow(self, edge: TaskEdge, first: Bundle, flow: Iterator[Bundle]) -> None:
        """A flow between two runs: what is known of it, new segments, and what is known then."""
        known = edge.begun(first, flow)
        decoder = known.decoder
        decoder.use(self._placing, self._context, self._cursor)
        self._writer.resume(known.filtered)
        for item in decoder.read(known.again):
            self._name(item)
            for _ in self._writer.chosen(item):
                pass
        for item in decoder.read(edge.before(known)):
            self._name(item)
            self._writer.take(item)
        writer = edge.writer if edge.carried(known, self._writer.chooser) else self._writer
        writer.chooser = self._writer.chooser
        for item in decoder.end():
            self._name(item, writer.topics)
            writer.take(item)

    def _packet_problems(self, bundle: Bundle) -> None:
        for odd in problems_of(bundle, self._placing):
            self._writer.take(ProblemItem(None, odd.problem, odd.ts_ns, odd.packet))

    def _name(self, item: Item, topics: TopicDirectory | None = None) -> None:
        """Fill known topic names, and decode records of internal topics; ``topics`` learns what the item teaches."""
        if isinstance(item, MessageItem):
            message = item.message
            if message.teaches:
                (topics or self._writer.topics).learn(message)
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

    def __init__(self, origins: Origins, output: TaskOutput) -> None:
        options = output.options
        settings = Settings(options.limits, frozenset(("partitions", "notes")))
        registry = Registry(load_dissectors(), options.decode_as)
        self._context = RunContext(registry, settings, keys=ring_of(output.key_file))
        self._placing = origins.placing
        self._carried = None if output.carry is None else CarriedFlows(output.carry, origins, self._context)

    def run(self, bundles: Iterable[Bundle]) -> TopicHistory:
        """What the flows teach; an exception fails the attempt."""
        history = TopicHistory()
        for _, flow in groupby(bundles, key=attrgetter("flow")):
            first = next(flow)
            if not first.key:
                continue
            cursor = ReleaseCursor()
            for item in self._items(first, flow, cursor):
                if isinstance(item, MessageItem) and item.message.teaches:
                    history.learn(item.message, cursor.now)
        return history

    def _items(self, first: Bundle, flow: Iterator[Bundle], cursor: ReleaseCursor) -> Iterator[Item]:
        """The items that the new segments of a flow release."""
        if self._carried is None:
            yield from items_of(chain((first,), flow), self._placing, self._context, cursor)
            return
        known = self._carried.begun(first, flow)
        known.decoder.use(self._placing, self._context, cursor)
        for _ in known.decoder.read(known.again):
            pass
        yield from known.decoder.read(self._carried.before(known))
        yield from known.decoder.end()
