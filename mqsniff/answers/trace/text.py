"""Finished traces in, lines for people out: a timeline, the waits in it, and what the capture does not show.

1. A step is one line: time, wait since the step before, what happened (an error in red), waits that end with it, the
   message and its packet, who, details. A terminal gets the same, wrapped under the third column: nothing is cut.
2. Everything that traffic can write goes through ``escape``; keys and values stand as the user wants them shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from mqsniff.answers.trace.finish import sentence_of
from mqsniff.answers.trace.steps import StepKind, Trace, TracedKind, TraceStep, duration
from mqsniff.model import Side, Value, packet_capture, packet_number
from mqsniff.sinks.clock import Clock, TimeMode
from mqsniff.sinks.lines import data_text
from mqsniff.sinks.paint import Paint, Role, TextPart
from mqsniff.sinks.tree import brief
from mqsniff.tables.escape import safe
from mqsniff.tables.rows import Captures
from mqsniff.tables.times import rfc3339
from mqsniff.tables.values import Redaction

_WAIT_WIDTH: Final = 11
_ROOM_MIN: Final = 20
_ROLES: Final[dict[StepKind, Role]] = {
    "produced": "sent",
    "copied": "warning",
    "stored": "answered",
    "delivered": "answered",
    "followed": "info",
    "committed": "sent",
    "acked": "sent",
    "nacked": "warning",
    "timed out": "error",
    "transaction": "info",
    "end": "info",
    "marker": "info",
    "member": "name",
    "request": "sent",
    "answer": "answered",
    "tcp": "tcp",
}
_UUID: Final = re.compile(r"([0-9a-f]{8})-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_ARROWS: Final = {Side.CLIENT: ">", Side.SERVER: "<", None: "-"}
_ABOUT_ORDER: Final = ("topic", "partition", "offset", "message_id", "unique_key", "record_ts", "store_ts")


@dataclass(frozen=True, slots=True)
class TraceLook:
    """How a trace looks."""

    time: TimeMode = "utc"
    color: bool = False
    width: int | None = None
    shown: Redaction = field(default_factory=Redaction)


class TraceText:
    """Writes traces as lines."""

    def __init__(self, captures: Captures, look: TraceLook) -> None:
        self._captures = captures
        self._look = look
        self._paint = Paint(color=look.color)
        self._several = len(captures) > 1

    def lines(self, trace: Trace, number: int = 1, of: int = 1) -> Iterator[str]:
        """A trace."""
        clock = Clock(self._look.time)
        yield from self._wrapped([("name", self._title(trace, number, of))], indent=2)
        waits = {index: [wait for wait in trace.waits if wait.stop == index] for index in {w.stop for w in trace.waits}}
        for index, step in enumerate(trace.steps):
            if (day := clock.day(step.ts_ns)) is not None:
                yield day
            told = [_short(sentence_of(wait)) for wait in waits.get(index, ())]
            yield from self._step(trace.kind, clock.stamp(step.ts_ns), step, told)
        yield from self._end(trace)

    def _title(self, trace: Trace, number: int, of: int) -> str:
        which = f" {number} of {of}" if of > 1 else ""
        about = trace.about
        parts = [f"{trace.kind}{which}:", safe(str(about.get("protocol") or ""))]
        if trace.kind != "record":
            parts += [self._pair(name, value, whole=True) for name, value in about.items() if name != "protocol"]
            return "  ".join(part for part in parts if part)
        for name in _ABOUT_ORDER:
            value = about.get(name)
            if value is not None:
                text = rfc3339(value) if name.endswith("_ts") else brief(value, self._look.shown)
                parts.append(f"{name}={text}")
        for name in ("key", "value"):
            if (encoding := about.get(f"{name}_encoding")) is not None:
                parts.append(f"{name}={data_text(about[name], encoding)}")
        if about.get("value_size") is not None:
            parts.append(f"{about['value_size']} B")
        return "  ".join(parts)

    def _step(self, kind: TracedKind, stamp: str, step: TraceStep, waits: Sequence[str]) -> Iterator[str]:
        wait = (
            ""
            if step.wait_ns is None
            else f"+{duration(step.wait_ns)}"
            if step.wait_ns >= 0
            else duration(step.wait_ns)
        )
        head: list[TextPart] = [("time", stamp), ("latency", f"  {wait:>{_WAIT_WIDTH}}  ")]
        what = f"{_arrow(step)} {step.what}" if kind == "connection" else step.what
        parts: list[TextPart] = [("error" if step.error else _ROLES.get(step.kind, "name"), safe(what))]
        if step.error:
            parts.append(("error", safe(step.error)))
        parts += [("latency", text) for text in map(safe, waits)]
        parts += [("name", text) for text in self._where(step)]
        parts += [("connection", text) for text in self._who(kind, step)]
        parts += [("detail", text) for text in self._details(step)]
        yield from self._wrapped([head[0], head[1]], parts, indent=sum(len(text) for _, text in head))

    def _where(self, step: TraceStep) -> Iterator[str]:
        place = ""
        if step.packet is not None:
            place = f"packet {packet_number(step.packet)}"
            if self._several:
                place += f" of {safe(self._captures[packet_capture(step.packet)].name)}"
        if step.name is not None or place:
            named = "" if step.name is None or step.name == step.what else safe(step.name)
            yield " ".join(part for part in (named, place) if part)

    def _who(self, kind: TracedKind, step: TraceStep) -> Iterator[str]:
        """Who it was, but for what the title says."""
        if step.group is not None and kind != "group":
            yield f"group={brief(step.group, self._look.shown)}"
        if step.client_id is not None:
            yield f"client_id={brief(step.client_id, self._look.shown)}"
        if step.connection is not None and kind != "connection":
            yield f"{step.connection.client} {_arrow(step)} {step.connection.server}"

    def _details(self, step: TraceStep) -> Iterator[str]:
        if step.topic is not None:
            yield f"topic={brief(step.topic, self._look.shown)}"
        if step.member is not None and step.member != step.client_id:
            yield self._pair("member", step.member)
        if step.generation is not None:
            yield f"generation={step.generation}"
        for name, value in step.details:
            yield self._pair(name, value)

    def _pair(self, name: str, value: Value, *, whole: bool = False) -> str:
        """A name and its value; ``whole``: members are not told by the beginning of their UUID."""
        if name.endswith("_ns") and isinstance(value, int):
            return f"{safe(name.removesuffix('_ns'))}={duration(value)}"
        if not whole:
            name, value = _short(name), _short(value) if isinstance(value, str) else value
        return f"{safe(name)}={brief(value, self._look.shown)}"

    def _end(self, trace: Trace) -> Iterator[str]:
        if trace.left_out:
            yield f"  and {trace.left_out:,} more steps (--limit trace_steps_max=N keeps more)"
        if len(trace.steps) > 1:
            yield self._paint.line([("latency", f"  total {duration(trace.total_ns)}")])
        for sentence in trace.unseen:
            yield from self._wrapped([("warning", f"  not seen: {safe(sentence)}")], indent=4)

    def _wrapped(self, head: Sequence[TextPart], parts: Sequence[TextPart] = (), *, indent: int) -> Iterator[str]:
        """A line; on a terminal as many as it takes, the later ones indented."""
        width = self._look.width
        if width is None:
            yield self._paint.line([*head, *_spaced(parts)])
            return
        room = max(width - indent, _ROOM_MIN)
        if not parts:
            role, text = head[0]
            parts, head = [(role, piece) for piece in _broken(text, room)], ()
        line: list[TextPart] = list(head)
        used = 0
        for role, word in ((role, word) for role, text in parts for word in _broken(text, room)):
            if used and used + 2 + len(word) > room:
                yield self._paint.line(line)
                line, used = [("", " " * indent)], 0
            if used:
                line.append(("", "  "))
                used += 2
            line.append((role, word))
            used += len(word)
        yield self._paint.line(line)


def _spaced(parts: Sequence[TextPart]) -> Iterator[TextPart]:
    """Parts with blanks between them."""
    for index, part in enumerate(parts):
        if index:
            yield "", "  "
        yield part


def _arrow(step: TraceStep) -> str:
    """Who sent it: the client stands left of the arrow."""
    return _ARROWS[Side(step.key.side) if step.key is not None else None]


def _short(text: str) -> str:
    """A member's name, whose UUID is reported by its beginning."""
    return _UUID.sub(r"\1…", text)


def _broken(text: str, width: int) -> list[str]:
    """A text in pieces of at most this width, divided at blanks where it has some."""
    pieces = []
    while len(text) > width:
        at = text.rfind(" ", 1, width + 1)
        at = width if at <= 0 else at
        pieces.append(text[:at])
        text = text[at:].lstrip()
    return [*pieces, text]
