"""The nouns that flow through mqsniff, from packets to problems; plain data, no behaviour of their own.

1. Times are integer nanoseconds since 1970 (UTC), taken from packets; sizes and offsets are bytes.
2. A packet is named by one integer: ``capture index << 40 | number``, number 1-based as Wireshark counts frames.
3. Order is told by ``ordinal``: the position of a packet in the merged input, counted from 0.
4. Traffic never raises: what is odd becomes a Problem, and bytes that nobody claimed become Skipped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Int64s: TypeAlias = "NDArray[np.int64]"
Int32s: TypeAlias = "NDArray[np.int32]"
Bytes8: TypeAlias = "NDArray[np.uint8]"
Buffer: TypeAlias = "bytes | bytearray | memoryview"

PACKET_BITS: Final = 40
PACKET_MASK: Final = (1 << PACKET_BITS) - 1


def packet_id(capture: int, number: int) -> int:
    """The one-integer name of packet ``number`` (1-based) of the capture with this index."""
    return capture << PACKET_BITS | number


def packet_number(packet: int) -> int:
    """The 1-based number inside its capture of a packet named by ``packet_id``."""
    return packet & PACKET_MASK


def packet_capture(packet: int) -> int:
    """The index of the capture of a packet named by ``packet_id``."""
    return packet >> PACKET_BITS


class Side(IntEnum):
    """Who sent it."""

    CLIENT = 0
    SERVER = 1

    @property
    def peer(self) -> Side:
        """The other one."""
        return _PEERS[self]

    @property
    def text(self) -> str:
        """As it stands in tables."""
        return ("client", "server")[self]


_PEERS: Final = (Side.SERVER, Side.CLIENT)


class Secret:
    """Bytes that are shown as their length only, unless the user asks for secrets."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data

    def __len__(self) -> int:
        return len(self.data)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other.data == self.data

    def __hash__(self) -> int:
        return hash(self.data)

    def __repr__(self) -> str:
        return f"Secret({len(self.data)})"


class Undecoded:
    """Bytes inside a message that nobody decoded: shown as size and hash, unless the user asks for raw bytes."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data

    def __len__(self) -> int:
        return len(self.data)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Undecoded) and other.data == self.data

    def __hash__(self) -> int:
        return hash(self.data)

    def __repr__(self) -> str:
        return f"Undecoded({len(self.data)})"


Value: TypeAlias = "bool | int | float | str | bytes | Secret | Undecoded | list[Value] | dict[str, Value] | None"

Severity: TypeAlias = Literal["error", "warning", "info"]

ProblemKind: TypeAlias = Literal[
    "malformed",
    "truncated",
    "gap",
    "overlap",
    "checksum",
    "limit",
    "unknown_code",
    "unknown_version",
    "trailing_bytes",
    "missing_field",
    "out_of_range",
    "unmatched",
    "codec",
    "format",
    "tls",
    "clock",
    "undecoded",
    "input",
    "internal",
]


class Mark(NamedTuple):
    """From this stream offset on, bytes came with this packet and were released by that one.

    ``release`` is the ordinal of the packet that let the bytes through: their own for bytes in order, the one that
    filled (or gave up) a hole for bytes that had to wait.
    """

    offset: int
    ts_ns: int
    packet: int
    release: int


# ---- captures -> packets


@dataclass(slots=True)
class CaptureInfo:
    """One input and what its reader learned about it; filled while it is read."""

    index: int
    name: str
    format: str = "unknown"
    compression: str = ""
    packets: int = 0
    dropped: int = 0
    """Packets that the capturing side says it lost (pcapng statistics and options, the kernel's counter)."""
    linktypes: set[int] = field(default_factory=set)
    first_ts_ns: int | None = None
    last_ts_ns: int | None = None
    comments: list[str] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    """Address -> host name, from name-resolution blocks."""
    secrets: list[tuple[int, bytes]] = field(default_factory=list)
    """(secrets type, data) of decryption-secrets blocks, kept for the TLS layer."""
    problems: list[Problem] = field(default_factory=list)
    unreadable: str = ""
    """Why nothing of it could be read (then the command exits 2); empty when it could."""


@dataclass(slots=True)
class PacketBatch:
    """Packets of one window, as columns of equal length n over one buffer; valid until the next batch is asked for."""

    buffer: Buffer
    ts_ns: Int64s
    start: Int64s
    """Index of a packet's first byte in ``buffer``."""
    caplen: Int64s
    """Bytes of the packet in the buffer."""
    wirelen: Int64s
    """Bytes it had on the wire."""
    linktype: Int32s
    packet: Int64s
    """``packet_id`` of each."""
    interface: Int32s
    """Interface inside its capture (pcapng), else 0."""
    ordinal: int
    """Ordinal of the first packet; the others follow one by one."""

    def __len__(self) -> int:
        return len(self.ts_ns)


# ---- packets -> segments


class FlowKey(NamedTuple):
    """Two endpoints in byte order (low <= high) and the tunnel they were seen in ('' for none)."""

    tunnel: str
    low_ip: bytes
    low_port: int
    high_ip: bytes
    high_port: int


@dataclass(slots=True)
class SegmentBatch:
    """TCP segments of one batch in packet order, as columns of equal length over one buffer; as short-lived as it."""

    buffer: Buffer
    flows: list[FlowKey]
    flow: Int32s
    """Index into ``flows``."""
    direction: Int32s
    """0: sent by the low endpoint, 1: by the high one."""
    seq: Int64s
    ack: Int64s
    flags: Int32s
    """FIN 1, SYN 2, RST 4, PSH 8, ACK 16, URG 32."""
    start: Int64s
    """Payload's first byte in ``buffer``."""
    stop: Int64s
    """One past the last payload byte that was captured."""
    size: Int64s
    """Payload bytes on the wire: more than ``stop - start`` where the snap length cut the packet."""
    ip_id: Int64s
    """Identification of IPv4, -1 where there is none."""
    ts_ns: Int64s
    packet: Int64s
    ordinal: Int64s
    interface: Int32s
    problems: list[PacketProblem] = field(default_factory=list)
    """Packets that could not be taken apart, and why."""
    skipped_packets: int = 0
    """Packets that are no TCP (ARP, UDP, …): counted, no problem."""

    def __len__(self) -> int:
        return len(self.seq)


class PacketProblem(NamedTuple):
    """A packet that could not be taken apart."""

    ordinal: int
    ts_ns: int
    packet: int
    size: int
    problem: Problem


# ---- segments -> streams


@dataclass(slots=True)
class Chunk:
    """Contiguous bytes of one side at an absolute stream offset. ``marks`` is not empty and starts at or before it."""

    side: Side
    offset: int
    data: bytes
    marks: list[Mark]


@dataclass(slots=True)
class Gap:
    """Bytes of one side that the capture lost. ``known`` is false where a layer cannot tell how many they were."""

    side: Side
    offset: int
    length: int
    mark: Mark
    """Time and packet at which the loss was noticed; ``mark.offset`` is ``offset``."""
    known: bool = True


# ---- streams -> messages


@dataclass(slots=True)
class Frame:
    """One protocol unit of one side.

    ``data`` is what can be read from its start: all ``size`` bytes, or fewer when the frame has a hole, was cut by the
    end of the capture or by a limit. ``holes`` are the (start, stop) ranges, relative to the frame, that the capture
    lost; bytes behind the first hole are counted as truncated.
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

    @property
    def whole(self) -> bool:
        """Whether every byte is there."""
        return len(self.data) == self.size


@dataclass(slots=True)
class Problem:
    """Anything odd. ``detail`` is fixed text and numbers, never payload bytes.

    Its place (``side`` and all that follows) is filled by the framing layer where the dissector leaves it out.
    """

    kind: ProblemKind
    severity: Severity
    detail: str
    path: str = ""
    side: Side | None = None
    offset: int | None = None
    size: int | None = None
    ts_ns: int | None = None
    packet: int | None = None


class Span(NamedTuple):
    """One field of a frame beside its bytes: ``start`` and ``stop`` count from the frame's first byte."""

    path: str
    start: int
    stop: int
    value: Value
    meaning: str = ""


@dataclass(slots=True)
class Skipped:
    """Bytes that no frame claimed: undecoded, and why."""

    side: Side
    offset: int
    length: int
    why: str
    kind: ProblemKind = "undecoded"
    first_ts_ns: int = 0
    first_packet: int = 0


@dataclass(slots=True)
class Upgrade:
    """From these offsets on the bytes of a side mean something else.

    ``at`` maps a side to the stream offset of its first byte in the new layer; ``to`` is "tls", the name of a transform
    of ``mqsniff.codecs.transforms``, or a ``Maker`` of one.
    """

    at: dict[Side, int]
    to: Any


@dataclass(slots=True)
class RecordBatch:
    """Records of one message as columns: constants once, spans and arrays for the rest.

    ``constant`` holds columns of the ``records`` table that are the same for each record; ``columns`` holds those that
    differ (sequences of length ``count``). ``keys`` and ``values`` are (starts, stops) into ``data``, a start of -1 is
    null. ``headers`` gives (key, value) pairs of record i, decoded when asked for.
    """

    data: bytes
    count: int
    constant: dict[str, Any] = field(default_factory=dict)
    columns: dict[str, Sequence[Any]] = field(default_factory=dict)
    keys: tuple[Sequence[int], Sequence[int]] | None = None
    values: tuple[Sequence[int], Sequence[int]] | None = None
    headers: Sequence[list[tuple[str, bytes | None]]] | None = None


Kind: TypeAlias = Literal["request", "response", "oneway", "push"]


@dataclass(slots=True)
class Message:
    """A decoded protocol unit. The dissector fills what it knows; place and time are the frame's."""

    frame: Frame
    protocol: str
    name: str
    kind: Kind
    body: dict[str, Value] = field(default_factory=dict)
    version: int | None = None
    correlation: str | None = None
    topics: tuple[str, ...] = ()
    topic_ids: tuple[str, ...] = ()
    group: str | None = None
    client_id: str | None = None
    error_code: int | None = None
    error_name: str | None = None
    error_count: int | None = None
    notes: tuple[tuple[str, Value], ...] = ()
    """(label, value) pairs that matter to a reader of one line and stand in no column."""
    records: tuple[RecordBatch, ...] = ()
    partitions: tuple[dict[str, Any], ...] = ()
    """Rows of the ``partitions`` table, without key and who."""
    teaches: tuple[tuple[str, str], ...] = ()
    """(topic id, name) pairs."""
    problems: list[Problem] = field(default_factory=list)
    asked: tuple[Asked, ...] = ()
    """Questions that this message opened. Filled by the framing layer."""
    closed: tuple[Asked, ...] = ()
    """Questions that ended with this message: answered by it, or known now to stay without answer. Filled by it too."""
    answers: int = 0
    """How many questions it answered. Filled by it too."""


Link: TypeAlias = Literal["answer", "settlement"]
Status: TypeAlias = Literal["ok", "partial", "error", "oneway", "unanswered", "pending", "lost", "unseen", "unasked"]


@dataclass(slots=True, eq=False)
class Asked:
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
    status: Status | None = None
    held: bool | None = None
    throttle_ns: int | None = None
    gaps_before: int = 0
    """Gaps of the answering side when it was asked: more at the end mean that the answer may be lost."""
    extra: dict[str, Any] = field(default_factory=dict)
    """Further columns of its row in ``exchanges``."""


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


Event: TypeAlias = Message | Problem | Skipped | Upgrade
"""The only things that a dissector emits."""


# ---- messages -> rows: what the pipeline hands to tables and sinks, each with the connection it belongs to


Outcome: TypeAlias = Literal["established", "refused", "no answer", "mid-stream"]


@dataclass(slots=True)
class ConnectionInfo:
    """A connection as the ``connections`` table shows it; filled while it lives, complete when it has closed."""

    connection_id: str
    tunnel: str
    client_ip: str
    client_port: int
    server_ip: str
    server_port: int
    first_ts_ns: int
    first_packet: int
    protocol: str = "unknown"
    detected_by: str | None = None
    """content, port or user; None for an unknown connection."""
    outcome: Outcome = "mid-stream"
    last_ts_ns: int = 0
    client_packets: int = 0
    server_packets: int = 0
    client_bytes: int = 0
    server_bytes: int = 0
    gap_bytes: int = 0
    undecoded_bytes: int = 0
    retransmitted_segments: int = 0
    out_of_order_segments: int = 0
    duplicate_packets: int = 0
    sides_seen: str = "both"
    """both, client or server: whose packets are in the capture."""
    handshake_seen: bool = False
    close_reason: str | None = None
    open_at_end: bool = False
    client_rtt_ns: int | None = None
    server_rtt_ns: int | None = None
    proxy_client: str | None = None
    """Source address of a PROXY protocol head, "ip:port"."""
    proxy_server: str | None = None
    tls_version: str | None = None
    tls_cipher: str | None = None
    tls_alpn: str | None = None
    tls_server_name: str | None = None
    tls_certificate_subject: str | None = None
    identity: Identity = field(default_factory=Identity)

    @property
    def client(self) -> str:
        """Client as "ip:port" (IPv6 in brackets)."""
        return endpoint(self.client_ip, self.client_port)

    @property
    def server(self) -> str:
        """Server as "ip:port" (IPv6 in brackets)."""
        return endpoint(self.server_ip, self.server_port)


@lru_cache(maxsize=4096)
def endpoint(ip: str, port: int) -> str:
    """An address and a port as text: "10.0.0.1:4150", "[fe80::1]:4150"."""
    return f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}"


@dataclass(slots=True)
class Exchange:
    """A question and its answer, or half of one, with its times; a row of ``exchanges``.

    ``asked`` is None for an answer that nobody asked for (status unasked); ``answer`` is None where none came.
    """

    asked: Asked | None
    answer: Message | None
    status: Status
    latency_ns: int | None = None
    total_ns: int | None = None
    queue_ns: int | None = None


@dataclass(slots=True)
class Opened:
    """A connection was seen for the first time."""

    connection: ConnectionInfo
    ts_ns: int


@dataclass(slots=True)
class Decoded:
    """A message, with the answer's latency where it answers one question."""

    connection: ConnectionInfo
    message: Message
    latency_ns: int | None = None


@dataclass(slots=True)
class Exchanged:
    """A question ended."""

    connection: ConnectionInfo
    exchange: Exchange


@dataclass(slots=True)
class Recorded:
    """A record batch whose rows can go out: all that the connection will tell of it is filled in."""

    connection: ConnectionInfo
    message: Message
    batch: RecordBatch


@dataclass(slots=True)
class Noticed:
    """A problem with its place; ``connection`` is None for one of an input or a packet."""

    connection: ConnectionInfo | None
    problem: Problem
    ts_ns: int | None
    packet: int | None
    message: Message | None = None
    """The message it belongs to, if it belongs to one."""


@dataclass(slots=True)
class Taught:
    """The name of a topic id was learned for the first time."""

    protocol: str
    topic_id: str
    name: str
    ts_ns: int


@dataclass(slots=True)
class Closed:
    """A connection has ended, or the input has: its row is complete."""

    connection: ConnectionInfo


Item: TypeAlias = Opened | Decoded | Exchanged | Recorded | Noticed | Taught | Closed
"""What the pipeline yields."""
