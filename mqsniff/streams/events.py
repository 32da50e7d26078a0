"""What a connection's streams tell their reader: bytes, losses, oddities, and the ends of sides and of the connection.

1. Every event has one place in the input: the ordinal of the packet that released it; a connection's events never go
   back in it.
2. ``Chunk`` and ``Gap`` (mqsniff.model) carry the stream; the types here carry everything else.
3. A ``Side`` in them is a direction yet (0: sent by the low endpoint, 1: by the high one): who of the two is the client
   is known later, by the handshake, by content or by port.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple, TypeAlias

from mqsniff.model import Chunk, Gap, Mark, Problem, Side

Outcome: TypeAlias = Literal["established", "refused", "no answer", "mid-stream"]
CloseReason: TypeAlias = Literal["fin", "rst"]


@dataclass(slots=True)
class Facts:
    """A connection's figures at its end; pairs are indexed by direction (0: sent by the low endpoint)."""

    outcome: Outcome
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
    """Segments whose numbers could not be believed, and bytes after the end of a stream."""
    handshake_seen: bool
    """Whether both SYN and SYN/ACK were captured."""
    close_reason: CloseReason | None
    open_at_end: bool
    """Whether nothing that was captured ended it."""
    client_rtt_ns: int | None
    """From SYN/ACK to the client's first ACK; None where it was not seen or is negative."""
    server_rtt_ns: int | None
    """From SYN to SYN/ACK; None where it was not seen or is negative."""

    @property
    def seen(self) -> tuple[bool, bool]:
        """Whether each direction showed a packet."""
        return self.packets[0] > 0, self.packets[1] > 0


@dataclass(slots=True)
class ConnectionOpened:
    """The first packet of a connection; comes before everything else of it."""

    mark: Mark


@dataclass(slots=True)
class SideClosed:
    """All bytes that a direction sent before its FIN or RST are delivered: nothing more of it will come."""

    side: Side
    reason: CloseReason
    mark: Mark


@dataclass(slots=True)
class StreamProblem:
    """Something odd about segments, with its place; ``mark.offset`` is the stream offset it is about."""

    problem: Problem
    mark: Mark


@dataclass(slots=True)
class ConnectionClosed:
    """The last event of a connection: its figures are complete, no later packet will be counted to it."""

    facts: Facts
    mark: Mark


StreamEvent: TypeAlias = ConnectionOpened | Chunk | Gap | StreamProblem | SideClosed | ConnectionClosed


class Place(NamedTuple):
    """The packet that is looked at: its time, its name, and the ordinal that what it lets through is released at."""

    ts_ns: int
    packet: int
    release: int


class Outbox:
    """Collects a connection's events in order and joins neighbouring bytes of one side to chunks."""

    __slots__ = ("_chunk_max", "_marks", "_offset", "_parts", "_side", "_size", "ready")

    def __init__(self, chunk_max: int) -> None:
        self.ready: list[tuple[int, StreamEvent]] = []
        """(release, event) pairs that can be taken."""
        self._chunk_max = chunk_max
        self._side = Side.CLIENT
        self._offset = 0
        self._size = 0
        self._parts: list[bytes] = []
        self._marks: list[Mark] = []

    def take(self) -> list[tuple[int, StreamEvent]]:
        """The events that are ready, in order; each is handed out once."""
        ready, self.ready = self.ready, []
        return ready

    def put(self, release: int, event: StreamEvent) -> None:
        """Add an event that is not bytes; it ends the chunk before it."""
        self.flush()
        self.ready.append((release, event))

    def put_bytes(self, side: Side, offset: int, data: bytes, marks: Sequence[Mark]) -> None:
        """Add bytes at a stream offset; ``marks`` lie inside them, the first at ``offset``."""
        size = len(data)
        if size > self._chunk_max:
            self._put_cut(side, offset, data, marks)
            return
        joins = self._side is side and self._offset + self._size == offset and self._size + size <= self._chunk_max
        if self._parts and not joins:
            self.flush()
        if not self._parts:
            self._side, self._offset = side, offset
        self._parts.append(data)
        self._marks += marks
        self._size += size

    def _put_cut(self, side: Side, offset: int, data: bytes, marks: Sequence[Mark]) -> None:
        bounds = sorted({offset, offset + len(data), *(mark.offset for mark in marks)})
        current = marks[0]
        by_offset = {mark.offset: mark for mark in marks}
        for start, stop in pairwise(bounds):
            current = by_offset.get(start, current)
            for at in range(start, stop, self._chunk_max):
                piece = data[at - offset : min(at + self._chunk_max, stop) - offset]
                self.put_bytes(side, at, piece, (current,))

    def flush(self) -> None:
        """End the chunk that is being joined."""
        if not self._parts:
            return
        data = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self.ready.append((self._marks[0].release, Chunk(self._side, self._offset, data, self._marks)))
        self._parts, self._marks, self._size = [], [], 0
