"""Items in, transactions out: begin, partitions, records, offsets, commit or abort, and the deliveries of its records.

1. A transactional id that is used again and again makes a trace of each transaction: what ends one begins the next.
   So does a ``renew`` that was granted: the broker has given up what was open. A transaction is open from its first
   other step on.
2. Records of a transaction are known by their names when they are delivered; a delivery is one step for each message.
3. Followers get records before the producer gets the answer that names them: deliveries and markers are looked for in a
   second reading (``again``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final

from mqsniff.answers.trace.acting import Acts
from mqsniff.answers.trace.identities import column_of, value_at
from mqsniff.answers.trace.steps import StepKind, Trace, TraceStep, TraceWait, error_of, step_of, time_order
from mqsniff.limits import Limits
from mqsniff.model import Act, ConnectionInfo, Item, Message, MessageItem, RecordBatch, RecordItem

NAMES_MAX: Final = 1000


class TransactionTracer:
    """Gathers the steps of transactions whose ids fit."""

    def __init__(self, fits: Callable[[str], bool], acts: Acts, limits: Limits) -> None:
        self._fits = fits
        self._acts = acts
        self._steps_max = limits.trace_steps_max
        self._records_max = limits.trace_records_max
        self.overflow = False
        """Whether there are more transactions than are followed."""
        self._open: dict[tuple[str, str], Trace] = {}
        self._ordinals: Counter[tuple[str, str]] = Counter()
        self._traces: list[Trace] = []
        self._names: dict[tuple[Any, ...], Trace] = {}
        """Records of the transactions."""
        self._opened_ns: dict[int, int] = {}
        """When a transaction began, by the ``id`` of its trace; none that has steps of ``renew`` alone."""
        self._renewing: dict[tuple[str, str], list[TraceStep]] = {}
        """Steps of ``renew`` while a transaction is open, until it is granted."""
        self._places: dict[tuple[str, str, int | None, Any], list[tuple[int, int, Trace]]] = {}
        """(last offset, time, transaction) of what was produced, by protocol, topic, partition and producer."""
        self.seen: Counter[str] = Counter()

    def take(self, item: Item) -> None:
        """Look at an item, in the first reading."""
        if isinstance(item, MessageItem):
            for act in self._acts.of(item.message):
                self._act(item.connection, item.message, act)
        elif isinstance(item, RecordItem) and item.batch.constant.get("direction") == "produce":
            self._produced(item)

    def again(self, item: Item) -> None:
        """Look at an item, in the second reading."""
        if isinstance(item, RecordItem) and item.batch.constant.get("direction") != "produce":
            self._delivered(item)
        elif isinstance(item, MessageItem) and self._places:
            for act in self._acts.of(item.message):
                if act.kind == "marker":
                    self._marker(item.connection, item.message, act)

    def finished(self) -> list[Trace]:
        """The traces, the oldest first."""
        for place, steps in self._renewing.items():
            for step in steps:  # never granted
                self._add(self._open[place], step)
        self._renewing.clear()
        for trace in self._traces:
            trace.steps.sort(key=time_order)
            trace.waits = list(_waits(trace.steps, self._opened_ns.get(id(trace), 0)))
            if _end_of(trace.steps) is None:
                trace.unseen.append("its end")
        return self._traces

    def _act(self, connection: ConnectionInfo, message: Message, act: Act) -> None:
        transaction = act.transaction
        if transaction is None or act.kind not in ("renew", "begin", "transaction", "end"):
            return
        if transaction in self.seen or len(self.seen) < NAMES_MAX:
            self.seen[transaction] += 1
        if not self._fits(transaction):
            return
        place = message.protocol, transaction
        trace = self._trace(place)
        if trace is None:
            self.overflow = True
            return
        kind: StepKind = "end" if act.kind == "end" else "transaction"
        step = step_of(connection, message, kind, act.what, details=list(act.details))
        step.error = error_of(message)
        asked = next((each for each in message.answered if each.link == "answer"), None)
        if asked is not None:
            step.details.append(("answered_after_ns", message.frame.first_ts_ns - asked.frame.last_ts_ns))
        else:
            step.pending = tuple(pending for pending in message.pending if pending.link == "answer")
        if act.kind == "renew" and id(trace) in self._opened_ns:
            self._renew(place, step, granted=bool(message.answered) and not message.failed)
            return
        self._add(trace, step)
        if act.kind != "renew":
            self._opened_ns.setdefault(id(trace), step.ts_ns)
        if act.kind == "end":
            self._close(place)

    def _renew(self, place: tuple[str, str], step: TraceStep, *, granted: bool) -> None:
        """Somebody asks for the id of an open transaction: that is over once the broker grants it."""
        steps = self._renewing.setdefault(place, [])
        if len(steps) < self._steps_max:
            steps.append(step)
        if not granted:
            return
        del self._renewing[place]
        self._close(place)
        if (trace := self._trace(place)) is None:
            self.overflow = True
            return
        for each in steps:
            self._add(trace, each)

    def _close(self, place: tuple[str, str]) -> None:
        """The open transaction is over; what asked for another in vain stays with it."""
        trace = self._open.pop(place)
        for step in self._renewing.pop(place, ()):
            self._add(trace, step)

    def _trace(self, place: tuple[str, str]) -> Trace | None:
        """The trace of the open transaction; None where too many are followed already."""
        trace = self._open.get(place)
        if trace is None and len(self._traces) < self._records_max:
            self._ordinals[place] += 1
            about = {"protocol": place[0], "transaction": place[1], "number": self._ordinals[place]}
            trace = self._open[place] = Trace("transaction", about)
            self._traces.append(trace)
        return trace

    def _produced(self, item: RecordItem) -> None:
        for act in self._acts.of(item.message):
            place = item.message.protocol, act.transaction or ""
            trace = self._open.get(place)
            if trace is None:
                continue
            for name in _names_of(item.message, item.batch):
                if len(self._names) < self._records_max:
                    self._names[name] = trace

            self._place(item.message, item.batch, trace)

    def _place(self, message: Message, batch: RecordBatch, trace: Trace) -> None:
        """Remember where records of a transaction lie: its marker comes after them."""
        offsets, producer = column_of(batch, "offset"), batch.constant.get("producer_id")
        if not offsets or offsets[-1] is None or len(self._places) >= self._records_max:
            return
        for topic in filter(None, (batch.constant.get("topic"), batch.constant.get("topic_id"))):
            place = message.protocol, topic, batch.constant.get("partition"), producer
            self._places.setdefault(place, []).append((offsets[-1], message.frame.first_ts_ns, trace))

    def _marker(self, connection: ConnectionInfo, message: Message, act: Act) -> None:
        """A marker was read: it belongs to the last transaction of its producer before it."""
        producer = dict(act.details).get("producer_id")
        for topic in filter(None, (act.topic, act.topic_id)):
            placed = self._places.get((message.protocol, topic, act.partition, producer), ())
            before = [
                (offset, trace)
                for offset, ts_ns, trace in placed
                if (ts_ns <= message.frame.first_ts_ns if act.last is None else offset < act.last)
            ]
            if before:
                _, trace = max(before, key=lambda each: each[0])
                place = [("topic", topic), ("partition", act.partition), ("offset", act.last)]
                details = [(name, value) for name, value in place if value is not None]
                self._add(trace, step_of(connection, message, "marker", act.what, details=[*details, *act.details]))
                return

    def _delivered(self, item: RecordItem) -> None:
        message, batch = item.message, item.batch
        found: dict[int, tuple[Trace, list[int]]] = {}
        for index, name in enumerate(_names_of(message, batch)):
            if (trace := self._names.get(name)) is not None:
                found.setdefault(id(trace), (trace, []))[1].append(index)
        for trace, indexes in found.values():
            self._add(trace, _delivery(item.connection, message, batch, indexes))

    def _add(self, trace: Trace, step: TraceStep) -> None:
        if len(trace.steps) >= self._steps_max:
            trace.left_out += 1
        else:
            trace.steps.append(step)


def _names_of(message: Message, batch: RecordBatch) -> list[tuple[Any, ...]]:
    """A name for each record of a batch: its message id, else its place."""
    ids = column_of(batch, "message_id")
    constant = batch.constant.get("message_id")
    if ids is not None or constant is not None:
        return [(message.protocol, constant if ids is None else ids[index]) for index in range(batch.count)]
    offsets = column_of(batch, "offset")
    topic = batch.constant.get("topic_id") or batch.constant.get("topic")
    if offsets is None:
        return [(None, None)] * batch.count
    return [
        (message.protocol, topic, value_at(batch, "partition", index), offsets[index]) for index in range(batch.count)
    ]


def _delivery(connection: ConnectionInfo, message: Message, batch: RecordBatch, indexes: list[int]) -> TraceStep:
    reader = batch.constant.get("reader")
    if reader in (None, "consumer"):
        step = step_of(connection, message, "delivered", "delivered")
    else:
        step = step_of(connection, message, "followed", "fetched by a follower")
    place = value_at(batch, "topic", indexes[0]) or value_at(batch, "topic_id", indexes[0])
    partition = value_at(batch, "partition", indexes[0])
    step.details = [("records", len(indexes)), ("topic", place)]
    if partition is not None:
        step.details.append(("partition", partition))
    offsets = column_of(batch, "offset")
    if offsets is not None:
        step.details.append(("offsets", f"{offsets[indexes[0]]} to {offsets[indexes[-1]]}"))
    if value_at(batch, "aborted", indexes[0]):
        step.details.append(("aborted", True))
    return step


def _end_of(steps: list[TraceStep]) -> int | None:
    """The step that ended a transaction; where no answer says so (the broker gave it up), its first marker."""
    for kind in ("end", "marker"):
        for index, step in enumerate(steps):
            if step.kind == kind:
                return index
    return None


def _waits(steps: list[TraceStep], opened_ns: int) -> Iterator[TraceWait]:
    """How long it was open, and how long each reader then waited for its records."""
    end = _end_of(steps)
    if end is None:
        return
    first = next((index for index, step in enumerate(steps[:end]) if step.ts_ns >= opened_ns), 0)
    yield TraceWait("it was open", steps[end].ts_ns - steps[first].ts_ns, first, end)
    readers = set()
    for index, step in enumerate(steps[end:], end):
        if step.kind == "delivered" and step.reader not in readers:
            readers.add(step.reader)
            yield TraceWait("from its end to the delivery", step.ts_ns - steps[end].ts_ns, end, index)
