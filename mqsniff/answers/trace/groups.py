"""Items in, the life of groups out: joins, generations, assignments, commits, refused heartbeats, who waited for whom.

1. A commit that says what the one before it of the same member said is counted, not told again.
2. Acknowledgements of single messages are counted; those that ask for another delivery are steps.
3. In a rebalance everybody waits for the last one that asks to join: that is told at each answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import groupby
from typing import Any, Final

from mqsniff.answers.trace.acting import Acts
from mqsniff.answers.trace.steps import Trace, TraceStep, TraceWait, error_of, step_of
from mqsniff.limits import Limits
from mqsniff.model import Act, ConnectionInfo, Item, Message, MessageItem

NAMES_MAX: Final = 1000
_NAMES_SHOWN: Final = 5
_COUNTED: Final = {"ack": "acknowledged", "extend": "extended"}


class GroupTracer:
    """Gathers the steps of groups whose names fit."""

    def __init__(self, fits: Callable[[str], bool], acts: Acts, limits: Limits) -> None:
        self._fits = fits
        self._acts = acts
        self._most = limits.trace_steps_max
        self._traces: dict[tuple[str, str], Trace] = {}
        self._counts: dict[tuple[str, str], Counter[str]] = {}
        self._committed: dict[tuple[str, str | None, str | None], Any] = {}
        self.seen: Counter[str] = Counter()
        """Messages of each group."""

    def take(self, item: Item) -> None:
        """Look at an item."""
        if not isinstance(item, MessageItem) or item.message.group is None:
            return
        message = item.message
        group: str = item.message.group
        if group in self.seen or len(self.seen) < NAMES_MAX:
            self.seen[group] += 1
        if not self._fits(group):
            return
        place = message.protocol, group
        if place not in self._traces:
            self._traces[place] = Trace("group", {"protocol": message.protocol, "group": group})
            self._counts[place] = Counter()
        self._take(item.connection, message, place, self._acts.of(message))

    def finished(self) -> list[Trace]:
        """The traces, with what was counted."""
        for place, counts in self._counts.items():
            trace = self._traces[place]
            trace.about |= dict(counts)
            trace.steps.sort(key=lambda step: (step.ts_ns, step.packet or 0))
            trace.waits += _rebalances(trace.steps)
        return list(self._traces.values())

    def _take(self, connection: ConnectionInfo, message: Message, place: tuple[str, str], acts: list[Act]) -> None:
        counts = self._counts[place]
        if message.kind != "response" and message.records:
            counts["delivered"] += sum(batch.count for batch in message.records)
        commits = [act for act in acts if act.kind == "commit"]
        if commits:
            self._commit(connection, message, place, commits)
        for act in acts:
            if act.kind == "member":
                self._add(place, _step(connection, message, act))
            elif act.kind in _COUNTED:
                counts[_COUNTED[act.kind]] += 1
        for what, again in groupby((act for act in acts if act.kind == "nack"), key=lambda act: act.what):
            self._add(place, _nack(connection, message, what, list(again)))

    def _commit(self, connection: ConnectionInfo, message: Message, place: tuple[str, str], commits: list[Act]) -> None:
        told = {
            f"{act.topic or act.topic_id}/{act.partition}": (act.last or 0) + 1 if act.last is not None else None
            for act in commits
        }
        who = place[1], message.client_id or connection.client, ",".join(told)
        if self._committed.get(who) == told:
            self._counts[place]["commits_repeated"] += 1
            return
        self._committed[who] = told
        self._counts[place]["commits"] += 1
        offsets = ", ".join(f"{name}: {offset}" for name, offset in told.items())
        step = step_of(connection, message, "committed", "commits", details=[("offsets", offsets)])
        step.member = commits[0].member or None
        step.pending = tuple(pending for pending in message.pending if pending.link == "answer")
        self._add(place, step)

    def _add(self, place: tuple[str, str], step: TraceStep) -> None:
        trace = self._traces[place]
        if len(trace.steps) >= self._most:
            trace.left_out += 1
        else:
            trace.steps.append(step)


def _step(connection: ConnectionInfo, message: Message, act: Act) -> TraceStep:
    step = step_of(connection, message, "member", act.what)
    step.member, step.generation, step.details = act.member, act.generation, list(act.details)
    step.error = error_of(message) or (message.error_name if message.error_code else None)
    asked = next((each for each in message.answered if each.link == "answer"), None)
    if asked is not None:
        step.details.append(("waited_ns", message.frame.first_ts_ns - asked.frame.last_ts_ns))
    elif message.kind == "request":
        step.pending = tuple(pending for pending in message.pending if pending.link == "answer")
    return step


def _nack(connection: ConnectionInfo, message: Message, what: str, acts: list[Act]) -> TraceStep:
    """A message that asks for deliveries again, of one record or many."""
    step = step_of(connection, message, "nacked", what)
    names = [act.message_id or f"{act.topic or act.topic_id}/{act.partition}: {act.last}" for act in acts]
    more = len(names) - _NAMES_SHOWN
    step.details = [("records", len(names)), ("named", ", ".join(names[:_NAMES_SHOWN]) + (" …" if more > 0 else ""))]
    step.pending = tuple(pending for pending in message.pending if pending.link == "answer")
    return step


def _rebalances(steps: list[TraceStep]) -> list[TraceWait]:
    """Who waited for whom, at the answers that begin a generation."""
    rounds: dict[int, list[tuple[int, TraceStep, int]]] = {}
    for index, step in enumerate(steps):
        waited = dict(step.details).get("waited_ns")
        if step.generation is not None and isinstance(waited, int) and step.what.startswith("joined"):
            rounds.setdefault(step.generation, []).append((index, step, step.ts_ns - waited))
    waits = []
    for joined in rounds.values():
        for index, step, asked in joined:
            _, last, last_asked = max((each for each in joined if each[2] <= step.ts_ns), key=lambda each: each[2])
            if asked < last_asked:
                told = last.member or last.client_id or "?"
                waits.append(TraceWait(f"waited for {told}, the last to ask", last_asked - asked, index, index))
    return waits
