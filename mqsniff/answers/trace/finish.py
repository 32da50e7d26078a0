"""Traces whose items have all been seen in, complete ones out: answers, outcomes, order, waits, what is missing.

1. A request's answer is a step of its own where it tells of a record (stored, refused), else details of its request,
   unless it is a step too.
2. Steps stand in the order of time; where clocks disagree, the trace says so.
3. A wait ends with a step and says what it was spent on: in the broker, held by a consumer, waiting for another try.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from mqsniff.answers.trace.steps import MessageKey, Trace, TraceStep, TraceWait, duration, error_of, step_of, time_order
from mqsniff.model import ConnectionInfo, Message, Pending, Value

_SETTLING: Final = ("committed", "acked", "nacked")
_TOPIC_ID: Final = re.compile(r"[A-Za-z0-9_-]{22}")
"""UUIDs as Kafka prints them."""
_UNANSWERED: Final = {
    "unanswered": "no answer",
    "pending": "no answer before the capture ended",
    "lost": "its answer is lost in a gap of the capture",
    "unseen": "the side that answers was not captured",
}


def finish(trace: Trace, topics: Mapping[str, str]) -> Trace:
    """Complete a trace in place; ``topics`` are the names of topic ids that the captures taught."""
    told = {step.key for step in trace.steps}
    for step in list(trace.steps):
        _resolve(trace, step, told)
    trace.steps.sort(key=time_order)
    for index, step in enumerate(trace.steps[1:], 1):
        step.wait_ns = step.ts_ns - trace.steps[index - 1].ts_ns
    if topics:
        for step in trace.steps:
            step.details = [(name, _named(value, topics)) for name, value in step.details]
    if trace.kind == "record":
        trace.waits = list(_waits(trace.steps))
        trace.unseen += _missing(trace.steps)
    trace.unseen += _partial(trace.steps)
    return trace


def _named(value: Value, topics: Mapping[str, str]) -> Value:
    """A text with the names of the topic ids in it."""
    if not isinstance(value, str):
        return value
    return _TOPIC_ID.sub(lambda found: topics.get(found[0], found[0]), value)


# ---- what became of requests and deliveries


def _resolve(trace: Trace, step: TraceStep, told: set[MessageKey | None]) -> None:
    pending, step.pending = step.pending, ()
    if not pending or step.connection is None:
        return
    if step.kind in ("produced", "copied"):
        _answer_of_send(trace, step, step.connection, pending[0])
    elif step.kind == "delivered":
        _outcome(step, pending[0])
    elif (
        pending[0].answer is None
        or trace.kind == "record"
        or MessageKey.of(step.connection, pending[0].answer.frame) not in told
    ):
        _answer(step, pending[0])


def _answer_of_send(trace: Trace, step: TraceStep, connection: ConnectionInfo, pending: Pending) -> None:
    answer = pending.answer
    if answer is None:
        told = _UNANSWERED.get(pending.status or "unanswered")
        if pending.expects == 0 or pending.status == "oneway":
            step.details.append(("answer", "none asked for"))
        elif told is not None:
            step.error = told
        return
    error = _error_at(answer, step)
    stored = step_of(connection, answer, "stored", "stored" if error is None else "refused")
    stored.client_id, stored.group = step.client_id, step.group
    stored.error, stored.topic = error, step.topic
    stored.details = step.told if error is None else []
    trace.steps.append(stored)


def _outcome(step: TraceStep, pending: Pending) -> None:
    """What became of a delivery, where no command tells it."""
    if pending.extra.get("timed_out"):
        step.error = "timed out: not settled in time"
    elif pending.answer is None and pending.status in _UNANSWERED:
        word = "the connection" if pending.status == "unanswered" else "the capture"
        step.details.append(("settled", f"not before {word} ended"))


def _answer(step: TraceStep, pending: Pending) -> None:
    answer = pending.answer
    if answer is not None:
        if (error := _error_at(answer, step)) is not None:
            step.error = error
            step.what += ", refused"
        step.details.append(("answered_after_ns", answer.frame.first_ts_ns - pending.frame.last_ts_ns))
    elif pending.expects > 0 and (told := _UNANSWERED.get(pending.status or "")) is not None:
        step.error = told


def _error_at(answer: Message, step: TraceStep) -> str | None:
    """The error of an answer; of one about several partitions that of the step's own."""
    if step.place is not None:
        topic, topic_id, partition = step.place
        for row in answer.partitions:
            names = {row.get("topic"), row.get("topic_id")} - {None}
            if "error_code" in row and row.get("partition") == partition and names & {topic, topic_id}:
                return row.get("error_name") or (f"error {row['error_code']}" if row["error_code"] else None)
    return error_of(answer)


# ---- waits


def _waits(steps: list[TraceStep]) -> Iterator[TraceWait]:
    clock = _WaitClock(steps)
    for index in range(len(steps)):
        yield from clock.at(index)


class _WaitClock:
    """Remembers the steps that later ones are measured from."""

    def __init__(self, steps: list[TraceStep]) -> None:
        self._steps = steps
        self._ready: int | None = None
        """The step from which on the broker had it."""
        self._sent: int | None = None
        self._delivered: dict[str, int] = {}
        self._nacked: dict[str, int] = {}

    def at(self, index: int) -> Iterator[TraceWait]:
        """The waits that end with a step."""
        step = self._steps[index]
        match step.kind:
            case "produced" | "copied":
                yield from self._sending(index, step)
            case "stored":
                if self._sent is not None:
                    yield self._since(self._sent, index, "until the broker answered")
                    self._ready = index if step.error is None else self._ready
            case "delivered":
                yield from self._delivering(index, step)
            case "committed" | "acked" | "nacked":
                if (since := self._delivered.get(step.reader)) is not None:
                    yield self._since(since, index, f"held by {_consumer(step)} before {_command(step)}")
                if step.kind == "nacked":
                    self._nacked[step.reader] = index
            case "end":
                if self._sent is not None:
                    yield self._since(self._sent, index, "until its transaction ended")

    def _sending(self, index: int, step: TraceStep) -> Iterator[TraceWait]:
        if step.kind == "produced" and self._sent is not None:
            yield self._since(self._sent, index, "until it was sent again")
        self._sent = self._ready = index
        if step.kind == "copied":
            self._delivered.clear()
            self._nacked.clear()

    def _delivering(self, index: int, step: TraceStep) -> Iterator[TraceWait]:
        reader = step.reader
        if reader in self._nacked:
            yield self._since(self._nacked.pop(reader), index, "until it was delivered again")
        elif reader in self._delivered:
            yield self._since(self._delivered[reader], index, "since the delivery before")
        elif self._ready is not None:
            yield self._since(self._ready, index, f"in the broker before it was delivered to {_consumer(step)}")
        self._delivered[reader] = index

    def _since(self, start: int, stop: int, what: str) -> TraceWait:
        return TraceWait(what, self._steps[stop].ts_ns - self._steps[start].ts_ns, start, stop)


def _consumer(step: TraceStep) -> str:
    return f"group {step.group}" if step.group else f"client {step.reader}"


def _command(step: TraceStep) -> str:
    """The command that settles."""
    return (step.name or step.kind).partition(" v")[0]


# ---- what is not there


def _missing(steps: list[TraceStep]) -> Iterator[str]:
    kinds = {step.kind for step in steps}
    if not kinds & {"produced"}:
        yield "how it was produced (before the capture began, or on a connection that was not captured)"
    if "delivered" not in kinds:
        yield "a delivery to a consumer"
        return
    settling = [step for step in steps if step.kind in _SETTLING]
    settled, clients = {step.reader for step in settling}, {step.client_id for step in settling}
    delivered = {step.reader: step for step in reversed(steps) if step.kind == "delivered"}
    for reader, step in reversed(delivered.items()):
        by_client = step.group is None and step.client_id in clients  # of several groups, it is not known for which
        if reader not in settled and not by_client:
            yield f"a commit or acknowledgement by {_consumer(step)}"


def _partial(steps: list[TraceStep]) -> Iterator[str]:
    """What connections lack, and clocks that disagree."""
    lacks: dict[str, dict[str, str]] = {}
    for step in steps:
        connection = step.connection
        if connection is not None:
            for lack in _lacks(connection):
                lacks.setdefault(lack, {})[connection.connection_id] = f"{connection.client} - {connection.server}"
    for lack, ends in lacks.items():
        first, *more = ends.values()
        others = f" and {len(more)} more connection{'' if len(more) == 1 else 's'}" if more else ""
        yield lack.format(f"{first}{others}")
    order = [step.kind for step in steps]
    if "produced" in order and "delivered" in order and order.index("delivered") < order.index("produced"):
        yield "the true order: it was delivered before it was produced, so the clocks of the captures disagree"


def _lacks(connection: ConnectionInfo) -> Iterator[str]:
    """What the capture lacks of a connection; {} stands for its name."""
    if connection.sides_seen != "both":
        yield f"the {'server' if connection.sides_seen == 'client' else 'client'}'s side of {{}}"
    elif connection.outcome == "mid-stream":
        yield "the beginning of {} (the capture joined in the middle)"
    if connection.gap_bytes:
        yield "all bytes of {} (the capture lost some)"


def sentence_of(wait: TraceWait) -> str:
    """A wait in words."""
    return f"{duration(wait.ns)} {wait.what}"
