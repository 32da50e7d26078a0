"""The events of a connection: bytes, gaps, problems, and the ends of directions and of the connection.

1. Each event carries the ordinal of the packet that released it: its ``mark.release``; for a chunk, that of its first
   mark. The ordinals of a connection's events never decrease.
2. A direction is 0 (sent by the low endpoint) or 1 (sent by the high one). Which of them is the client is known later,
   by the handshake, by content or by port: mqsniff.decode makes a ``Chunk`` or ``Gap`` with a ``Side`` then.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from mqsniff.model import ConnectionOutcome, Mark, Problem

CloseReason: TypeAlias = Literal["fin", "rst"]


@dataclass(slots=True)
class ConnectionStats:
    """A connection's figures at its end; pairs are indexed by direction (0: sent by the low endpoint)."""

    outcome: ConnectionOutcome
    first_ts_ns: int
    last_ts_ns: int
    packets: tuple[int, int]
    sizes: tuple[int, int]
    """Bytes of each stream from its first to its last known byte: gaps count, retransmissions do not."""
    gap_bytes: tuple[int, int]
    retransmitted_segments: int
    """Segments that repeated bytes, a SYN or a FIN, without keep-alive probes and duplicates by the tap."""
    out_of_order_segments: int
    """Segments with new bytes that came after later ones of their direction."""
    duplicate_packets: int
    """Segments that the tap captured more than once."""
    ignored_segments: int
    """Segments with implausible numbers, and bytes after the end of a stream."""
    handshake_seen: bool
    """Whether both SYN and SYN/ACK were captured."""
    close_reason: CloseReason | None
    open_at_end: bool
    """Whether no captured packet ended it: true at the end of the input, and for a connection that expired.

    Its own packets do not tell these apart: whether the input continues depends on packets of other connections, but
    the same connection has the same row in any capture.
    """
    forgotten: bool
    """Whether it expired, or a limit closed it, before it was closed and before the end of the input. No column has
    this, as it depends on other connections."""
    client_rtt_ns: int | None
    """From SYN/ACK to the client's first ACK; None if not captured or negative."""
    server_rtt_ns: int | None
    """From SYN to SYN/ACK; None if not captured or negative."""
    closed_by: int | None
    """Direction of the first FIN or RST."""
    zero_windows: tuple[int, int]
    """How often each direction announced a zero window."""
    longest_stall_ns: tuple[int | None, int | None]
    """The longest stall of each direction, as ``troubles`` measures it."""
    resets: tuple[bool, bool] = (False, False)
    """Which directions sent a RST."""

    @property
    def seen(self) -> tuple[bool, bool]:
        """Whether a packet of each direction was captured."""
        return self.packets[0] > 0, self.packets[1] > 0


@dataclass(slots=True)
class StreamChunk:
    """Contiguous bytes of one direction at a stream offset; as ``Chunk``, before sides are known."""

    direction: int
    offset: int
    data: bytes
    marks: list[Mark]


@dataclass(slots=True)
class StreamGap:
    """Bytes of one direction that the capture lost; as ``Gap``, before sides are known."""

    direction: int
    offset: int
    length: int
    mark: Mark
    known: bool = True


@dataclass(slots=True)
class ConnectionOpened:
    """The first packet of a connection; its first event."""

    mark: Mark
    client_direction: int | None
    """Direction of the client, if the first packet tells it."""


@dataclass(slots=True)
class ConnectionEstablished:
    """The handshake succeeded; only if the first packet told who the client is."""

    mark: Mark


@dataclass(slots=True)
class StreamClosed:
    """All bytes that a direction sent before its FIN or RST are delivered; no more will come."""

    direction: int
    reason: CloseReason
    mark: Mark
    peer_reset: bool = False
    """Whether the other direction had sent a RST before."""


@dataclass(slots=True)
class StreamProblem:
    """A problem of segments; ``mark.offset`` is its stream offset."""

    problem: Problem
    """The problem, without a side."""
    mark: Mark
    direction: int | None = None
    """Direction of the problem; None: the whole connection."""


@dataclass(slots=True)
class ConnectionClosed:
    """The last event of a connection, with its final statistics."""

    stats: ConnectionStats
    mark: Mark


OtherStreamEvent: TypeAlias = (
    ConnectionOpened | ConnectionEstablished | StreamGap | StreamProblem | StreamClosed | ConnectionClosed
)
"""An event that is not bytes."""
StreamEvent: TypeAlias = StreamChunk | OtherStreamEvent


class Outbox:
    """Collects a connection's events in order, and joins adjacent bytes of one direction to chunks."""

    __slots__ = ("_chunk", "_chunk_max", "_events", "_parts", "_size")

    def __init__(self, chunk_max: int) -> None:
        self._chunk_max = chunk_max
        self._events: list[tuple[int, StreamEvent]] | None = None
        self._chunk: StreamChunk | None = None
        """The last chunk, which may grow: by ``_parts``, to ``_size`` bytes."""
        self._parts: list[bytes] | None = None
        self._size = 0

    @property
    def filled(self) -> bool:
        """Whether there are events that nobody took."""
        return self._events is not None or self._chunk is not None

    def take(self) -> list[tuple[int, StreamEvent]]:
        """(release, event) of all events so far, in order; each is returned once."""
        self._flush()
        events, self._events = self._events, None
        return [] if events is None else events

    def put(self, event: OtherStreamEvent) -> None:
        """Add an event that is not bytes; it ends the chunk before it."""
        self._flush()
        if self._events is None:
            self._events = []
        self._events.append((event.mark.release, event))

    def put_bytes(self, direction: int, offset: int, data: bytes, marks: list[Mark]) -> None:
        """Add bytes at a stream offset; ``marks`` are inside them, the first at ``offset``."""
        size, chunk = len(data), self._chunk
        if chunk is not None:
            fits = chunk.offset + self._size == offset and self._size + size <= self._chunk_max
            if fits and chunk.direction == direction:
                if self._parts is None:
                    self._parts = []
                self._parts.append(data)
                chunk.marks += marks
                self._size += size
                return
            self._flush()
        if size > self._chunk_max:
            self._put_cut(direction, offset, data, marks)
        else:
            self._chunk, self._size = StreamChunk(direction, offset, data, marks), size

    def _put_cut(self, direction: int, offset: int, data: bytes, marks: list[Mark]) -> None:
        stops = [*(mark.offset for mark in marks[1:]), offset + len(data)]
        if self._events is None:
            self._events = []
        for mark, stop in zip(marks, stops, strict=True):
            for at in range(mark.offset, stop, self._chunk_max):
                piece = data[at - offset : min(at + self._chunk_max, stop) - offset]
                self._events.append((mark.release, StreamChunk(direction, at, piece, [mark])))

    def _flush(self) -> None:
        chunk = self._chunk
        if chunk is None:
            return
        if self._parts is not None:
            chunk.data = b"".join((chunk.data, *self._parts))
            self._parts = None
        if self._events is None:
            self._events = []
        self._events.append((chunk.marks[0].release, chunk))
        self._chunk = None
