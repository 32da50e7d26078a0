"""What dissectors make of streams: frames, messages, records, questions and their answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

from mqsniff.model.values import Problem, ProblemKind, Side, Value


@dataclass(slots=True)
class Frame:
    """One protocol unit of one side.

    ``data`` is what can be read from its start: all ``size`` bytes, or fewer when the frame has a hole, was cut by the
    end of the capture or by a limit. ``holes`` are the (start, stop) ranges, relative to the frame, that the capture
    lost; ``unread`` bytes of it were captured and stand behind the first hole or the limit: nobody decodes them.
    """

    side: Side
    offset: int
    size: int
    data: bytes
    first_ts_ns: int
    last_ts_ns: int
    first_packet: int
    last_packet: int
    release: int
    holes: tuple[tuple[int, int], ...] = ()
    unread: int = 0

    @property
    def captured(self) -> int:
        """Bytes of it that were captured: those that can be read, and those that stand behind a hole."""
        return len(self.data) + self.unread

    @property
    def whole(self) -> bool:
        """Whether every byte is there."""
        return len(self.data) == self.size

    @property
    def cut_short(self) -> bool:
        """Whether its side ended before its last byte; what the capture lost is a hole, of known length or not."""
        lost = 0
        for start, stop in self.holes:
            if start == stop:
                return False
            lost += stop - start
        return self.captured + lost < self.size


class Span(NamedTuple):
    """One field of a frame beside its bytes: ``start`` and ``stop`` count from the frame's first byte."""

    path: str
    start: int
    stop: int
    value: Value
    meaning: str = ""


@dataclass(slots=True)
class Skipped:
    """Bytes that no frame claimed: undecoded, and why.

    ``length`` is how far they reach in the stream, ``lost`` how many of these were not captured: they belong to gaps,
    or stand behind the end.
    """

    side: Side
    offset: int
    length: int
    why: str
    kind: ProblemKind = "undecoded"
    first_ts_ns: int = 0
    first_packet: int = 0
    lost: int = 0


@dataclass(slots=True)
class Upgrade:
    """From these offsets on the bytes of a side mean something else.

    ``at`` maps a side to the stream offset of its first byte in the new layer; ``to`` is "tls", the name of a transform
    of ``mqsniff.codecs.transforms``, or a ``Maker`` of one.
    """

    at: dict[Side, int]
    to: Any
    settings: dict[str, Any] = field(default_factory=dict)
    """What the transform is made with, besides the limits."""


class HeaderSpans(NamedTuple):
    """Headers of all records of a batch as places in its data.

    ``places`` holds four numbers for each header, one record's after the other's: where its key starts and stops, where
    its value starts (-1: null) and stops.
    """

    counts: Sequence[int]
    """Headers of each record."""
    places: Sequence[int]


@dataclass(slots=True)
class RecordBatch:
    """Records of one message as columns: constants once, spans and arrays for the rest.

    ``constant`` holds columns of the ``records`` table that are the same for each record; ``columns`` holds those that
    differ (sequences of length ``count``), and always ``ordering_key``, as bytes. ``keys`` and ``values`` are (starts,
    stops) into ``data``, a start of -1 is null. ``headers`` gives (key, value) pairs of record i, decoded when asked
    for; ``header_spans`` tells where all of them stand, for who wants no object per record: None where the dissector
    has no such places, or none for this data.
    A value that holds a secret is null here, with its length and "redacted" in the columns ``value_size`` and
    ``value_encoding``, unless ``Settings.show_secrets``.
    """

    data: bytes
    count: int
    constant: dict[str, Any] = field(default_factory=dict)
    columns: dict[str, Sequence[Any]] = field(default_factory=dict)
    keys: tuple[Sequence[int], Sequence[int]] | None = None
    values: tuple[Sequence[int], Sequence[int]] | None = None
    headers: Sequence[list[tuple[str, bytes | None]]] | None = None
    header_spans: Callable[[], HeaderSpans | None] | None = None


MessageKind: TypeAlias = Literal["request", "response", "oneway", "push"]
LineNotes: TypeAlias = tuple[tuple[str, Value], ...]
"""(label, value) pairs."""
PartitionRow: TypeAlias = dict[str, Any]
"""Columns of the ``partitions`` table by name."""


@dataclass(slots=True)
class Message:
    """A decoded protocol unit. The dissector fills what it knows; place and time are the frame's."""

    frame: Frame
    protocol: str
    name: str
    kind: MessageKind
    body: dict[str, Value] = field(default_factory=dict)
    version: int | None = None
    correlation: str | None = None
    topics: tuple[str, ...] = ()
    topic_ids: tuple[str, ...] = ()
    filled: int = 0
    """How many of the last ``topics`` did not stand in it: names that the traffic taught for its topic ids."""
    group: str | None = None
    client_id: str | None = None
    error_code: int | None = None
    error_name: str | None = None
    error_count: int | None = None
    judged: bool | None = None
    """Whether all that tells success or failure was read; None: where the frame is whole or has an error count."""
    notes: LineNotes = ()
    """(label, value) pairs that matter to a reader of one line and stand in no column."""
    records: tuple[RecordBatch, ...] = ()
    partitions: tuple[PartitionRow, ...] = ()
    """Rows of the ``partitions`` table, without key and who."""
    teaches: tuple[tuple[str, str], ...] = ()
    """(topic id, name) pairs."""
    problems: list[Problem] = field(default_factory=list)
    finite: bool = False
    """Whether the dissector knows that no number of the body is NaN or infinite; sinks have to look otherwise."""
    pending: tuple[Pending, ...] = ()
    """Questions that this message opened. Filled by the framing layer."""
    resolved: tuple[Pending, ...] = ()
    """Questions that ended with this message: answered by it, or known now to stay without answer. Filled by it too."""
    answers: int = 0
    """How many questions it answered. Filled by it too."""
    answered: tuple[Pending, ...] = ()
    """These questions: some may get further answers, or wait for their refusal, and end later. Filled by it too."""

    @property
    def failed(self) -> bool:
        """Whether it carries an error of its protocol; an answer of the normal course (``ordinary``) carries none."""
        if self.error_count is not None:
            return self.error_count > 0
        return bool(self.error_code) or (self.error_code is None and self.error_name is not None)

    @property
    def own_topics(self) -> tuple[str, ...]:
        """The topics without the names that the traffic taught for its topic ids."""
        return self.topics[: len(self.topics) - self.filled] if self.filled else self.topics


Link: TypeAlias = Literal["answer", "settlement"]
ExchangeStatus: TypeAlias = Literal[
    "ok", "partial", "error", "oneway", "unanswered", "pending", "lost", "unseen", "unasked"
]


@dataclass(slots=True, eq=False)
class Pending:
    """A question (a request, or a delivered message that wants settling) and, in time, its answer."""

    key: Any
    link: Link
    frame: Frame
    context: Any = None
    expects: int = 1
    """Answers still to come; 0 for a command that has none unless it fails."""
    wait_limit_ns: int | None = None
    in_order: bool = True
    """Answers leave in the order of the questions, so that one can stand behind another."""
    message: Message | None = None
    answer: Message | None = None
    last_answer: Message | None = None
    status: ExchangeStatus | None = None
    held: bool | None = None
    throttle_ns: int | None = None
    gaps_before: int = 0
    """Gaps of the answering side when it was asked: more at the end mean that the answer may be lost."""
    losses_before: int = 0
    """As ``gaps_before``, without the gaps that lie inside a frame of known size: those lose no answer."""
    extra: dict[str, Any] = field(default_factory=dict)
    """Further columns of its row in ``exchanges``."""
    open: bool = True
    """Whether it still stands among the open questions, or waits for ``awaits``."""
    awaits: Pending | None = None
    """The question of the command that settled this delivery: its own answer may refuse what it did."""
    awaited_by: list[Pending] | None = None
    """Deliveries whose settlement ends with this command."""


@dataclass(slots=True)
class Identity:
    """What a connection said of its two ends; a dissector fills it as it learns."""

    client_software: str | None = None
    server_software: str | None = None
    client_id: str | None = None
    group: str | None = None
    user: str | None = None
    mechanism: str | None = None
    close_reason: str | None = None
    """The cause of the close where the protocol shows it (keepalive missed, authentication, …)."""
    several_clients: bool = False
    several_groups: bool = False

    def name_client(self, client_id: str) -> None:
        """Take note of a client that a message names: the connection is this client's while it is the only one."""
        if self.client_id is None and not self.several_clients:
            self.client_id = client_id
        elif self.client_id != client_id:
            self.client_id, self.several_clients = None, True

    def name_group(self, group: str) -> None:
        """Take note of a group that a message names: the connection is this group's while it is the only one."""
        if self.group is None and not self.several_groups:
            self.group = group
        elif self.group != group:
            self.group, self.several_groups = None, True


Event: TypeAlias = Message | Problem | Skipped | Upgrade
"""The only things that a dissector emits."""
