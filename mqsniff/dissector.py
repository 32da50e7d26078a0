"""The plugin contract: bytes of one connection in, Messages, Problems, Skipped and Upgrades out.

1. A dissector does no I/O and reads no clock; one instance serves one connection.
2. Traffic never raises out of ``feed``, ``gap`` and ``close``. They may return any iterable: ``now`` tells which packet
   released an event when the event is taken from it.
3. Strict to find, lenient to follow: ``probe`` accepts only what must be a frame; ``frame_size`` follows a connection
   that is in step through unknown keys, versions and commands.
4. Results are final: what ``probe`` and ``frame_size`` return, other than NEED, must not change when more bytes of the
   same side arrive and the state is the same.
5. Each byte fed is claimed once: by a message, as Skipped, or by the gap it lies in.
6. What stands in a column of text is ``str``: ``as_name`` (mqsniff.plugin) makes it of bytes that are no UTF-8. Bodies
   may hold bytes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import Any, ClassVar, Final, Literal, NamedTuple, TypeAlias

from mqsniff.limits import Limits
from mqsniff.model import (
    Act,
    Chunk,
    Event,
    Frame,
    Gap,
    Identity,
    Message,
    MessageKind,
    News,
    OffsetMeaning,
    Pending,
    RecordOrigin,
    Side,
    Span,
    TopicRole,
    Value,
)


class Verdict(IntEnum):
    """How well a connection of unknown protocol fits a dissector."""

    NO = 0
    MORE = 1
    """Cannot tell from these bytes."""
    MAYBE = 2
    """Fits, but so could other protocols: claimed only with the hint of a port."""
    YES = 3


class FrameAnswer(Enum):
    """Result of ``frame_size`` or ``probe`` that is no size."""

    NEED = "need more bytes"
    WAIT_PEER = "wait for the peer"
    NO_FRAME = "no frame starts here"


NEED: Final = FrameAnswer.NEED
WAIT_PEER: Final = FrameAnswer.WAIT_PEER
NO_FRAME: Final = FrameAnswer.NO_FRAME


class IncrementalSize(NamedTuple):
    """A frame whose end is found element by element: it has at least ``size`` bytes, ``walk`` finds more."""

    size: int
    promised: int
    """Size to use if the walk has to stop: the elements are lost, or larger than ``frame_max``."""
    state: Any = None
    """What ``walk`` has to remember."""


class WalkAborted(NamedTuple):
    """The walk cannot go on, as the first ``needed`` bytes of its data show: the promised size is used."""

    needed: int


class LayerChange(NamedTuple):
    """No frame starts here: from this byte on the side uses another layer, which no reply of the peer announced."""

    to: Any
    """As ``Upgrade`` has it."""
    needed: int
    """Number of bytes, from there on, that were needed to know it."""


Probed: TypeAlias = int | Literal[FrameAnswer.NEED, FrameAnswer.NO_FRAME]
Walked: TypeAlias = int | IncrementalSize | WalkAborted | Literal[FrameAnswer.NEED]
Sized: TypeAlias = int | FrameAnswer | IncrementalSize | LayerChange
"""Size of the frame in bytes with its head, or why it is not known."""

Table: TypeAlias = "list[dict[str, Value]]"


class DroppedVersions(NamedTuple):
    """Versions of a message that newer servers no longer take."""

    before: int
    """The first version that they take."""
    release: str
    """The first release that refuses the others: "Kafka 4.0"."""


class Sample(NamedTuple):
    """The first bytes of a side that wait for a verdict."""

    data: bytes = b""
    starts: tuple[int, ...] = (0,)
    """Offsets in ``data`` where captured segments begin: where a frame may start when the beginning was not seen."""
    from_start: bool = True
    """Whether ``data`` begins with the first byte of the stream."""


Wanted: TypeAlias = Literal["records", "amounts", "partitions", "exchanges", "notes", "spans"]
"""``records``: record batches, opened; ``amounts``: of these the number and the sizes of values are enough, so that a
dissector may leave out what costs more; ``partitions``: rows of that table; ``exchanges``: what became of requests, and
how long it took; ``notes``: what lines of text show; ``spans``: fields beside their bytes, for which a dissector has to
remember how it read its answers."""
USUAL: Final[frozenset[Wanted]] = frozenset(("partitions", "exchanges", "notes"))
WITH_RECORDS: Final[frozenset[Wanted]] = USUAL | {"records"}


HEADS_PER_ROW: Final = 6
"""Refused heads that cost as much as a row: 4 µs each (Kafka's), and a row 25."""
PLAIN_PER_ROW: Final = 384
"""Plain bytes that cost as much as a row: they are framed and searched too, some 60 ns each."""
SLOW_SEGMENT_ROWS: Final = 2
"""Rows that cost as much as a segment that is processed one by one: 35 to 60 µs."""
ELEMENTS_PER_ROW: Final = 8
"""Elements of large bodies that cost as much as a row: 2 to 3 µs each, read and written."""


class WorkCount:
    """Work of a run that makes no rows, counted as the rows that would cost as much (decision 017)."""

    __slots__ = ("elements", "odd_packets", "plain_bytes", "refused_heads", "slow_segments")

    def __init__(self) -> None:
        self.refused_heads = 0
        """Places where a search found the head of a frame that is none."""
        self.plain_bytes = 0
        """Bytes that compressed bytes inside connections became."""
        self.slow_segments = 0
        """Segments that were processed one by one: late, sent again, after a hole."""
        self.odd_packets = 0
        """Fragments, and packets opened inside each other: each costs as much as a row."""
        self.elements = 0
        """Elements of large messages, and records: unknown tags, fields, entries."""

    @property
    def rows(self) -> int:
        """Rows that would cost as much."""
        return (
            self.refused_heads // HEADS_PER_ROW
            + self.plain_bytes // PLAIN_PER_ROW
            + self.slow_segments * SLOW_SEGMENT_ROWS
            + self.odd_packets
            + self.elements // ELEMENTS_PER_ROW
        )


@dataclass(frozen=True, slots=True)
class Settings:
    """What a run wants of every dissector."""

    limits: Limits = field(default_factory=Limits)
    wanted: frozenset[Wanted] = USUAL
    """What the run needs of messages besides their rows; a dissector may leave out the rest."""
    show_secrets: bool = False
    """Whether values of records that hold secrets are kept; Secrets in bodies are redacted by the sinks."""
    work: WorkCount = field(default_factory=WorkCount, compare=False, repr=False)
    """Counts what costs time and makes no rows; of one run."""


class Candidate(NamedTuple):
    """A frame that a search accepts by its head and by the bytes after it."""

    data: bytes
    """Bytes of the side."""
    start: int
    """Where it begins in them."""
    stop: int
    """How far they may be looked at."""
    size: int
    """Its size; it may continue after them."""
    begins_packet: bool
    """Whether a captured packet begins with it."""
    ends_packet: bool
    """Whether a captured packet ends with it."""
    release: int
    """Ordinal of the packet that has the last byte of it that is there."""
    final: bool
    """Whether no more bytes will come: then MORE counts as YES."""

    @property
    def frame(self) -> bytes:
        """The captured bytes of the frame."""
        return self.data[self.start : min(self.start + self.size, self.stop)]


class Dissector(ABC):
    """One protocol on one connection."""

    names: ClassVar[tuple[str, ...]]
    """Values of the ``protocol`` column that this dissector gives."""
    ports: ClassVar[frozenset[int]] = frozenset()
    """Well-known server ports: hints, never proof."""
    makers: ClassVar[frozenset[str]] = frozenset()
    """Tables and columns of ``describe`` for developers (how it was tested), not for users."""

    offset_meanings: ClassVar[Mapping[tuple[str, MessageKind], OffsetMeaning]] = {}
    """(name, kind) of messages -> what offsets in their rows of ``partitions`` are, where they tell of lag."""
    telling: ClassVar[frozenset[str]] = frozenset()
    """Names of requests and pushes of which ``news`` is asked; it is asked of every exchange that failed, too."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.identity = Identity()
        self.now = 0
        """Ordinal of the packet that released the event just taken; never falls."""

    @classmethod
    @abstractmethod
    def detect(cls, client: Sample, server: Sample) -> Verdict:
        """Tell whether the connection speaks this protocol; either side may be empty."""

    @abstractmethod
    def start(self, side: Side, *, in_step: bool) -> None:
        """Say before the first byte of a side whether the stream was seen from its beginning."""

    @abstractmethod
    def feed(self, chunk: Chunk) -> Iterable[Event]:
        """Take the next bytes of a side."""

    @abstractmethod
    def gap(self, gap: Gap) -> Iterable[Event]:
        """Take note of lost bytes of a side."""

    @abstractmethod
    def close(self, side: Side) -> Iterable[Event]:
        """No more bytes of a side will come: give what still waits."""

    def hand_back(self, side: Side, offset: int) -> list[Chunk | Gap]:  # noqa: ARG002  # part of the contract
        """Hand back what was fed of a side from this offset on and not decoded yet, for another layer to read.

        Asked once for each side of an ``Upgrade``; what waits of both sides may be given at once.
        """
        return []

    @property
    def state_size(self) -> int:
        """Bytes of state that it holds, nearly, beyond what each of its connections has: a function of its packets."""
        return 0

    def unanswered(self) -> Iterator[Pending]:
        """Requests that got no reply, oldest first; called once, at the end of the connection."""
        return iter(())

    def spans(self, frame: Frame) -> Iterator[Span]:  # noqa: ARG002  # part of the contract
        """Every field of a frame beside its bytes; soon after it was decoded, and where ``spans`` are wanted only."""
        return iter(())

    @classmethod
    def internal_topic(cls, topic: str) -> bool:  # noqa: ARG003  # contract
        """Whether ``decode_record`` knows a format for the records of a topic; called once for each topic."""
        return False

    @classmethod
    def decode_record(cls, topic: str, key: bytes | None, value: bytes | None) -> Value | None:  # noqa: ARG003  # contract
        """The content of a record of an internal topic; None for another topic, and for bytes that do not fit."""
        return None

    @classmethod
    def code_name(cls, message: Message, field: str, code: int) -> str | None:  # noqa: ARG003  # contract
        """What the specification calls a number in a field of a message's body; None where it has no name for it."""
        return None

    @classmethod
    def acts(cls, message: Message) -> Iterable[Act]:  # noqa: ARG003  # contract
        """What a message does to records, members of groups and transactions, beside its rows; for ``trace`` alone."""
        return ()

    @classmethod
    def origin(cls, headers: Mapping[str, bytes | None]) -> RecordOrigin | None:  # noqa: ARG003  # contract
        """Which record one of a retry or dead letter topic is a copy of, by its headers; None where they tell none."""
        return None

    @classmethod
    def message_names(cls) -> Collection[str] | None:
        """Names that its messages may have, without names like ``unknown(77)``; None: not known."""
        return None

    @classmethod
    def topic_role(cls, topic: str) -> TopicRole | None:  # noqa: ARG003  # contract
        """What a topic is for, by its name; None for users' data."""
        return None

    @classmethod
    def news(cls, request: Message | None, answer: Message | None) -> Iterator[News]:  # noqa: ARG003  # contract
        """What an exchange tells of groups and of where to connect to; a push is an answer without a request."""
        return iter(())

    @classmethod
    def dropped_versions(cls) -> Mapping[str, DroppedVersions]:
        """Messages, by name, of which newer servers no longer take all versions; asked for by statistics."""
        return {}

    @classmethod
    def describe(cls) -> dict[str, Table]:
        """What is known of the protocol, as tables: name of a table (commands, errors, …) -> its rows."""
        return {}
