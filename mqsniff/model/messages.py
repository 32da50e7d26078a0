"""Frames, messages, records and pending requests: what dissectors work with and give."""

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
    lost; ``unread`` bytes of it were captured after the first hole or the limit: they are not decoded.
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
        """Number of captured bytes: the readable ones, and those after a hole."""
        return len(self.data) + self.unread

    @property
    def whole(self) -> bool:
        """Whether every byte was captured."""
        return len(self.data) == self.size

    @property
    def cut_short(self) -> bool:
        """Whether its side ended before its last byte; bytes that the capture lost are holes and do not count."""
        lost = 0
        for start, stop in self.holes:
            if start == stop:
                return False
            lost += stop - start
        return self.captured + lost < self.size


class Span(NamedTuple):
    """One field and the place of its bytes: ``start`` and ``stop`` count from the frame's first byte."""

    path: str
    start: int
    stop: int
    value: Value
    meaning: str = ""
    inside: OpenedBytes | None = None
    """What its bytes hold once they are decompressed."""


class OpenedBytes(NamedTuple):
    """Decompressed bytes of a field; the places of ``spans`` count from their first byte."""

    codec: str
    data: bytes
    spans: tuple[Span, ...]


@dataclass(slots=True)
class Skipped:
    """Bytes that belong to no frame: undecoded, and why.

    ``length`` is their extent in the stream. ``lost`` of these were not captured: they lie in gaps or after the end.
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
    stops) into ``data``, a start of -1 is null. ``headers`` gives (key, value) pairs of record i, decoded on
    demand; ``header_spans`` gives the places of all of them, without an object per record: None if the dissector knows
    no places, or none for this data.
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
    """How many of the last ``topics`` are not in the message itself: names learned for its topic ids."""
    group: str | None = None
    client_id: str | None = None
    error_code: int | None = None
    error_name: str | None = None
    error_count: int | None = None
    judged: bool | None = None
    """Whether every field that tells success or failure was read; None: if the frame is whole or has an error count."""
    notes: LineNotes = ()
    """(label, value) pairs for lines of text, of which no column has the value."""
    records: tuple[RecordBatch, ...] = ()
    partitions: tuple[PartitionRow, ...] = ()
    """Rows of the ``partitions`` table, without the columns that the message fills."""
    teaches: tuple[tuple[str, str], ...] = ()
    """(topic id, name) pairs."""
    problems: list[Problem] = field(default_factory=list)
    finite: bool = False
    """Whether no number of the body is NaN or infinite; if false, sinks check it."""
    pending: tuple[Pending, ...] = ()
    """Requests that this message opened. Filled by the framing layer."""
    resolved: tuple[Pending, ...] = ()
    """Requests that ended with this message: answered by it, or now known to get no reply. Filled by it too."""
    answers: int = 0
    """Number of requests that it answered. Filled by it too."""
    answered: tuple[Pending, ...] = ()
    """These requests: some may get further replies, or may still be refused, and end later. Filled by it too."""

    @property
    def failed(self) -> bool:
        """Whether it carries an error of its protocol; codes of normal operation (``ordinary``) are no errors."""
        if self.error_count is not None:
            return self.error_count > 0
        return bool(self.error_code) or (self.error_code is None and self.error_name is not None)

    @property
    def own_topics(self) -> tuple[str, ...]:
        """The topics in the message itself, without names learned for its topic ids."""
        return self.topics[: len(self.topics) - self.filled] if self.filled else self.topics


Link: TypeAlias = Literal["answer", "settlement"]
ExchangeStatus: TypeAlias = Literal[
    "ok", "partial", "error", "oneway", "unanswered", "pending", "lost", "unseen", "unasked"
]


@dataclass(slots=True, eq=False)
class Pending:
    """A request, or a delivered message that waits for its settlement, and its reply once there is one."""

    key: Any
    link: Link
    frame: Frame
    context: Any = None
    expects: int = 1
    """Replies still to come; 0 for a command that gets a reply only if it fails."""
    wait_limit_ns: int | None = None
    in_order: bool = True
    """Whether replies come in the order of the requests, so that one may queue behind another."""
    message: Message | None = None
    answer: Message | None = None
    last_answer: Message | None = None
    status: ExchangeStatus | None = None
    held: bool | None = None
    throttle_ns: int | None = None
    gaps_before: int = 0
    """Gaps of the replying side when the request was sent: if there are more at the end, the reply may be lost."""
    losses_before: int = 0
    """As ``gaps_before``, without the gaps that lie inside a frame of known size: these lose no reply."""
    extra: dict[str, Any] = field(default_factory=dict)
    """Further columns of its row in ``exchanges``."""
    open: bool = True
    """Whether it is still pending, or waits for ``awaits``."""
    awaits: Pending | None = None
    """The request of the command that settled this delivery: the reply to it may refuse the settlement."""
    awaited_by: list[Pending] | None = None
    """Deliveries whose settlement ends with this command."""


@dataclass(slots=True)
class Identity:
    """Client and server of a connection, filled in by the dissector."""

    client_software: str | None = None
    server_software: str | None = None
    client_id: str | None = None
    group: str | None = None
    user: str | None = None
    mechanism: str | None = None
    close_reason: str | None = None
    """Why the connection was closed, if the protocol shows it (keepalive missed, authentication, …)."""
    several_clients: bool = False
    several_groups: bool = False

    def name_client(self, client_id: str) -> None:
        """Note a client id in a message: it is the connection's while there is only one."""
        if self.client_id is None and not self.several_clients:
            self.client_id = client_id
        elif self.client_id != client_id:
            self.client_id, self.several_clients = None, True

    def name_group(self, group: str) -> None:
        """Note a group in a message: it is the connection's while there is only one."""
        if self.group is None and not self.several_groups:
            self.group = group
        elif self.group != group:
            self.group, self.several_groups = None, True


Event: TypeAlias = Message | Problem | Skipped | Upgrade
"""All that a dissector gives."""
