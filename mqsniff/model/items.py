"""What the pipeline hands to tables and sinks, each item with the connection it belongs to."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, Literal, TypeAlias

from mqsniff.model.messages import ExchangeStatus, Identity, Message, Pending, RecordBatch, Span
from mqsniff.model.values import Problem, Side

ConnectionOutcome: TypeAlias = Literal["established", "refused", "no answer", "mid-stream"]
UNMET: Final[tuple[ConnectionOutcome, ...]] = ("refused", "no answer")
"""Outcomes without an established connection."""


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
    outcome: ConnectionOutcome = "mid-stream"
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
    """sides with packets in the capture: both, client or server."""
    handshake_seen: bool = False
    close_reason: str | None = None
    open_at_end: bool = False
    forgotten: bool = False
    """Whether it was forgotten, after silence or by a limit; no column."""
    layer_starts: dict[Side, int] = field(default_factory=dict)
    """By side: the stream offset from which on its bytes pass a layer (TLS, compression); offsets after it are those
    of plain bytes. No column."""
    unread_at: dict[Side, int] = field(default_factory=dict)
    """By side: the stream offset from which on a layer may have given nothing for its bytes; no column."""
    number: int = 0
    """Its place among the connections of the run, in the order in which they first show, from 1; 0 where nobody counts
    (batch). No column: text calls it c1, c2, …"""
    client_rtt_ns: int | None = None
    server_rtt_ns: int | None = None
    proxy_client: str | None = None
    """Source address of a PROXY protocol head, "ip:port"."""
    proxy_server: str | None = None
    tls_version: str | None = None
    tls_cipher: str | None = None
    tls_alpn: str | None = None
    tls_server_name: str | None = None
    proxy_bytes: int | None = None
    client_plain_bytes: int | None = None
    """Bytes of the client after TLS and decompression; None where its stream passed neither."""
    server_plain_bytes: int | None = None
    closed_by: str | None = None
    """client or server: the side that sent the first FIN or RST."""
    client_zero_windows: int = 0
    server_zero_windows: int = 0
    client_longest_stall_ns: int | None = None
    server_longest_stall_ns: int | None = None
    tls_certificate_subject: str | None = None
    tls_certificate_issuer: str | None = None
    tls_client_certificate_subject: str | None = None
    tls_client_certificate_issuer: str | None = None
    tls_resumed: bool | None = None
    tls_keys: str | None = None
    """used, missing or wrong; None where nothing was encrypted."""
    identity: Identity = field(default_factory=Identity)

    @property
    def layered(self) -> bool:
        """Whether bytes of it pass a layer."""
        return bool(self.layer_starts)

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
    """A request and its reply, or one of the two, with its times; a row of ``exchanges``.

    ``pending`` is None for a reply without a request (status unasked); ``answer`` is None if there was no reply.
    """

    pending: Pending | None
    answer: Message | None
    status: ExchangeStatus
    latency_ns: int | None = None
    total_ns: int | None = None
    queue_ns: int | None = None
    work_ns: int | None = None
    ended_ns: int | None = None
    """When it was known that no reply would come: the time of a later reply, or of the connection's end."""
    ended_by: Side | None = None
    """The side whose FIN or RST ended the connection that a request waited on."""
    was_reset: bool = False
    """Whether it was a RST."""


@dataclass(slots=True)
class OpenedItem:
    """A connection is open: its handshake has ended, or it sends without one. Refused connections never open."""

    connection: ConnectionInfo
    ts_ns: int
    """When the handshake ended, else the first packet's time."""


@dataclass(slots=True)
class MessageItem:
    """A message, with its latency if it is the reply to a request."""

    connection: ConnectionInfo
    message: Message
    latency_ns: int | None = None
    spans: tuple[Span, ...] | None = None
    """Its fields beside their bytes; None where nobody asked for them (``Pipeline``)."""


@dataclass(slots=True)
class PartitionItem:
    """Partitions of a message that a filter left out; only filters make it."""

    connection: ConnectionInfo
    message: Message


@dataclass(slots=True)
class ExchangeItem:
    """A request ended: with a reply, or without."""

    connection: ConnectionInfo
    exchange: Exchange


@dataclass(slots=True)
class RecordItem:
    """A record batch whose columns are complete, as far as its connection can fill them."""

    connection: ConnectionInfo
    message: Message
    batch: RecordBatch


@dataclass(slots=True)
class ProblemItem:
    """A problem with its place; ``connection`` is None if it is about an input or a packet."""

    connection: ConnectionInfo | None
    problem: Problem
    ts_ns: int | None
    packet: int | None
    message: Message | None = None
    """The message that has this problem, if one has."""


@dataclass(slots=True)
class TopicItem:
    """The name of a topic id was learned for the first time."""

    protocol: str
    topic_id: str
    name: str
    ts_ns: int


@dataclass(slots=True)
class ClosedItem:
    """A connection has ended, or the input has: its row is complete."""

    connection: ConnectionInfo


Item: TypeAlias = (
    OpenedItem | MessageItem | PartitionItem | ExchangeItem | RecordItem | ProblemItem | TopicItem | ClosedItem
)
"""What the pipeline yields."""
