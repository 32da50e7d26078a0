"""The nouns of a trace: its steps, the waits between them, and what the capture does not show."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

from mqsniff.model import ConnectionInfo, Frame, Message, Pending, Value

TracedKind: TypeAlias = Literal["record", "group", "connection", "transaction"]
StepKind: TypeAlias = Literal[
    "produced",
    "stored",
    "delivered",
    "followed",
    "committed",
    "acked",
    "nacked",
    "extended",
    "timed out",
    "copied",
    "member",
    "transaction",
    "end",
    "marker",
    "request",
    "answer",
    "tcp",
]
"""``followed``: a follower or mirror fetched it; ``copied``: sent to a retry or dead letter topic."""


class MessageKey(NamedTuple):
    """What names a message in all tables."""

    connection_id: str
    side: int
    offset: int

    @classmethod
    def of(cls, connection: ConnectionInfo, frame: Frame) -> MessageKey:
        """The key of a frame's message."""
        return cls(connection.connection_id, frame.side, frame.offset)


@dataclass(slots=True, eq=False)
class TraceStep:
    """One thing that happened, and where the capture shows it."""

    ts_ns: int
    kind: StepKind
    what: str
    """In words."""
    connection: ConnectionInfo | None = None
    packet: int | None = None
    name: str | None = None
    """The message, with its version."""
    client_id: str | None = None
    group: str | None = None
    topic: str | None = None
    """Where it is another one than that of the trace."""
    details: list[tuple[str, Value]] = field(default_factory=list)
    error: str | None = None
    wait_ns: int | None = None
    """Time since the step before."""
    key: MessageKey | None = None
    member: str | None = None
    generation: int | None = None
    place: tuple[str | None, str | None, int | None] | None = None
    """(topic, its id, partition) that the answer may speak of apart from others."""
    told: list[tuple[str, Value]] = field(default_factory=list)
    """Details of the answer to it."""
    pending: tuple[Pending, ...] = ()
    """Requests, or deliveries, whose end tells more of the step; emptied when the trace is finished."""

    @property
    def reader(self) -> str:
        """Who reads: the group, or a client without one."""
        return self.group or self.client_id or (self.connection.client if self.connection is not None else "")


class TraceWait(NamedTuple):
    """Time between two steps, and what it was spent on."""

    what: str
    ns: int
    start: int
    """Index of the step that it began with."""
    stop: int


@dataclass(slots=True)
class Trace:
    """All that is known of what was asked for."""

    kind: TracedKind
    about: dict[str, Any]
    """What it is, as columns of the tables."""
    steps: list[TraceStep] = field(default_factory=list)
    left_out: int = 0
    """Steps beyond the limit."""
    waits: list[TraceWait] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)
    """What the capture cannot show, in sentences."""

    @property
    def total_ns(self) -> int:
        """From the first step to the last."""
        return self.steps[-1].ts_ns - self.steps[0].ts_ns if self.steps else 0


def step_of(connection: ConnectionInfo, message: Message, kind: StepKind, what: str, **more: Any) -> TraceStep:
    """A step that a message shows: its time, place and who it is from."""
    frame = message.frame
    return TraceStep(
        frame.first_ts_ns,
        kind,
        what,
        connection,
        frame.first_packet,
        message.name if message.version is None else f"{message.name} v{message.version}",
        message.client_id or connection.identity.client_id,
        message.group,
        key=MessageKey.of(connection, frame),
        **more,
    )


def time_order(step: TraceStep) -> tuple[int, int, bool]:
    """Sort key of steps: what follows from others of the same packet comes after them."""
    return step.ts_ns, step.packet or 0, step.kind in ("stored", "marker")


def error_of(message: Message) -> str | None:
    """The error that a message carries, by name where it has one."""
    if not message.failed:
        return None
    return message.error_name or f"error {message.error_code}"


def duration(span_ns: int) -> str:
    """A time as people say it: "0.078 ms", "12.3 ms", "1.704 s", "3 min 20.0 s"."""
    sign, ns = ("-" if span_ns < 0 else ""), abs(span_ns)
    if ns < 10_000_000:
        return f"{sign}{ns / 1e6:.3f} ms"
    if ns < 1_000_000_000:
        return f"{sign}{ns / 1e6:.1f} ms"
    if ns < 120_000_000_000:
        return f"{sign}{ns / 1e9:.3f} s"
    minutes, rest = divmod(ns, 60_000_000_000)
    if minutes < 120:
        return f"{sign}{minutes} min {rest / 1e9:.1f} s"
    return f"{sign}{minutes // 60} h {minutes % 60} min"
