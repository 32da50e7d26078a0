"""What a connection's streams tell their reader: bytes, losses, oddities, and the ends of sides and of the connection.

1. Every event has one place in the input, the ordinal of the packet that released it: its ``mark.release``, of a chunk
   that of its first mark. A connection's events never go back in it.
2. A direction is 0 (sent by the low endpoint) or 1 (sent by the high one). Which of the two is the client is known
   later, by the handshake, by content or by port: mqsniff.decode makes a ``Chunk`` or ``Gap`` with a ``Side`` then.
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
    """Bytes of each stream from its first to its last known one: gaps count, retransmissions do not."""
    gap_bytes: tuple[int, int]
    retransmitted_segments: int
    """Segments that brought bytes (or a SYN or FIN) once more; keep-alive probes and copies are none."""
    out_of_order_segments: int
    """Segments with new bytes that came after later ones of their direction."""
    duplicate_packets: int
    """Segments that the tap showed more than once."""
    ignored_segments: int
    """Segments with implausible numbers, and bytes after the end of a stream."""
    handshake_seen: bool
    """Whether both SYN and SYN/ACK were captured."""
    close_reason: CloseReason | None
    open_at_end: bool
    """Whether nothing that was captured ended it: true at the end of the input, and of one that was forgotten.

    The two cannot be told apart by its own packets: whether the input went on depends on packets of others, and the
    same connection has the same row in any capture.
    """
    forgotten: bool
    """Whether it was given up, for its silence or for a limit, rather than closed or ended with the input. No column
    shows it: what others sent decides."""
    client_rtt_ns: int | None
    """From SYN/ACK to the client's first ACK; None where it was not seen or is negative."""
    server_rtt_ns: int | None
    """From SYN to SYN/ACK; None where it was not seen or is negative."""
    closed_by: int | None
    """Direction of the first FIN or RST."""
    zero_windows: tuple[int, int]
    """How often each direction announced that it takes no more bytes."""
    longest_stall_ns: tuple[int | None, int | None]
    """The longest time for which bytes of a direction were held up, as ``troubles`` measures it."""
    resets: tuple[bool, bool] = (False, False)
    """Which directions sent a RST."""

    @property
    def seen(self) -> tuple[bool, bool]:
        """Whether each direction showed a packet."""
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
    """The first packet of a connection; comes before everything else of it."""

    mark: Mark
    client_direction: int | None
    """Who the client is, if the first packet tells it."""


@dataclass(slots=True)
class ConnectionEstablished:
    """The handshake has ended well; comes only where the first packet told who the client is."""

    mark: Mark


@dataclass(slots=True)
class StreamClosed:
    """All bytes that a direction sent before its FIN or RST are delivered: nothing more of it will come."""

    direction: int
    reason: CloseReason
    mark: Mark
    peer_reset: bool = False
    """Whether the other direction had sent a RST by then."""


@dataclass(slots=True)
class StreamProblem:
    """Something odd about segments, with its place; ``mark.offset`` is the stream offset it is about."""

    problem: Problem
    """Without its side."""
    mark: Mark
    direction: int | None = None
    """Direction that it is about; None: the whole connection."""


@dataclass(slots=True)
class ConnectionClosed:
    """The last event of a connection: its figures are complete, no later packet will be counted to it."""

    facts: ConnectionStats
    mark: Mark


Happening: TypeAlias = (
    ConnectionOpened | ConnectionEstablished | StreamGap | StreamProblem | StreamClosed | ConnectionClosed
)
"""An event that is not bytes."""
StreamEvent: TypeAlias = StreamChunk | Happening


class Outbox:
    """Collects a connection's events in order and joins neighbouring bytes of one direction to chunks."""

    __slots__ = ("_chunk", "_chunk_max", "_events", "_parts", "_size")

    def __init__(self, chunk_max: int) -> None:
        self._chunk_max = chunk_max
        self._events: list[tuple[int, StreamEvent]] = []
        self._chunk: StreamChunk | None = None
        """The last chunk, which may still grow: by ``_parts``, to ``_size`` bytes."""
        self._parts: list[bytes] = []
        self._size = 0

    def take(self) -> list[tuple[int, StreamEvent]]:
        """(release, event) of everything so far, in order; each event is handed out once."""
        self._flush()
        events, self._events = self._events, []
        return events

    def put(self, event: Happening) -> None:
        """Add an event that is not bytes; it ends the chunk before it."""
        self._flush()
        self._events.append((event.mark.release, event))

    def put_bytes(self, direction: int, offset: int, data: bytes, marks: list[Mark]) -> None:
        """Add bytes at a stream offset; ``marks`` lie inside them, the first at ``offset``."""
        size, chunk = len(data), self._chunk
        if chunk is not None:
            fits = chunk.offset + self._size == offset and self._size + size <= self._chunk_max
            if fits and chunk.direction == direction:
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
        for mark, stop in zip(marks, stops, strict=True):
            for at in range(mark.offset, stop, self._chunk_max):
                piece = data[at - offset : min(at + self._chunk_max, stop) - offset]
                self._events.append((mark.release, StreamChunk(direction, at, piece, [mark])))

    def _flush(self) -> None:
        chunk = self._chunk
        if chunk is None:
            return
        if self._parts:
            chunk.data = b"".join((chunk.data, *self._parts))
            self._parts = []
        self._events.append((chunk.marks[0].release, chunk))
        self._chunk = None
