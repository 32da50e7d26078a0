"""TCP conversations as short scripts: packets written by hand in, SegmentBatches and plain comparable events out."""

from __future__ import annotations

import heapq
import itertools
from dataclasses import dataclass, field, replace

import numpy as np

from mqsniff.limits import MILLISECOND_NS, Limits
from mqsniff.model import FlowKey, SegmentBatch
from mqsniff.streams.events import (
    ConnectionClosed,
    ConnectionOpened,
    ConnectionStats,
    StreamChunk,
    StreamClosed,
    StreamGap,
    StreamProblem,
)
from mqsniff.streams.flows import FlowTable

FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16
A, B = 0, 1
START_NS = 1_700_000_000 * 1_000_000_000
ISN = {A: 1_000, B: 5_000}


@dataclass(frozen=True)
class Packet:
    """A segment; ``seq`` and ``ack`` are offsets into the streams, whose byte 0 follows the numbers of ISN."""

    direction: int
    seq: int = 0
    data: bytes = b""
    ack: int | None = 0
    flags: int = 0
    size: int | None = None
    ip_id: int = -1
    ms: float | None = None
    interface: int = 0
    flow: int = 0
    isn: int | None = None
    raw_ack: int | None = None
    """The number that stands in the packet, whatever ``ack`` says."""

    def but(self, **changes: object) -> Packet:
        """The same packet with other fields."""
        return replace(self, **changes)

    def numbers(self) -> tuple[int, int, int]:
        """(sequence number, acknowledgement, flags) as they stand in the packet."""
        syn = bool(self.flags & SYN)
        isn = ISN[self.direction] if self.isn is None else self.isn
        seq = isn + (0 if syn else 1 + self.seq)
        ack = 0 if self.ack is None else ISN[1 - self.direction] + 1 + self.ack
        ack = ack if self.raw_ack is None else self.raw_ack
        return seq & 0xFFFFFFFF, ack & 0xFFFFFFFF, self.flags | (0 if self.ack is None else ACK)


def a(seq: int, data: bytes = b"", ack: int | None = 0, flags: int = 0, **more: object) -> Packet:
    """A packet of the low endpoint."""
    return Packet(A, seq, data, ack, flags, **more)


def b(seq: int, data: bytes = b"", ack: int | None = 0, flags: int = 0, **more: object) -> Packet:
    """A packet of the high endpoint."""
    return Packet(B, seq, data, ack, flags, **more)


def handshake(**more: object) -> list[Packet]:
    """Three packets; A is the client."""
    return [a(0, ack=None, flags=SYN, **more), b(0, flags=SYN, **more), a(0, **more)]


def goodbye(sent_a: int = 0, sent_b: int = 0, **more: object) -> list[Packet]:
    """Both sides close in order."""
    return [
        a(sent_a, ack=sent_b, flags=FIN, **more),
        b(sent_b, ack=sent_a + 1, flags=FIN, **more),
        a(sent_a + 1, ack=sent_b + 1, **more),
    ]


def chatter(count: int, seq: int, ack: int, *, direction: int = B) -> list[Packet]:
    """Pure acknowledgements: packets that let the grace of a hole pass."""
    return [Packet(direction, seq, b"", ack)] * count


def flow_key(number: int) -> FlowKey:
    """The endpoints of a flow: its number is the low port."""
    return FlowKey("", b"\x0a\0\0\1", number, b"\x0a\0\0\2", 4150)


def to_batch(packets: list[Packet], ordinal: int = 0, step_ms: float = 1.0) -> SegmentBatch:
    """Packets as one batch; those without a time of their own are ``step_ms`` apart, by ordinal."""
    numbers = [packet.numbers() for packet in packets]
    stops = np.cumsum([len(packet.data) for packet in packets], dtype=np.int64)
    flows = list(dict.fromkeys(packet.flow for packet in packets))
    times = [
        START_NS + int((step_ms * (ordinal + place) if packet.ms is None else packet.ms) * MILLISECOND_NS)
        for place, packet in enumerate(packets)
    ]

    def column(values: object, kind: type = np.int64) -> np.ndarray:
        return np.array(list(values), kind)

    return SegmentBatch(
        buffer=bytearray(b"".join(packet.data for packet in packets)),
        flows=[flow_key(flow) for flow in flows],
        flow=column((flows.index(packet.flow) for packet in packets), np.int32),
        direction=column((packet.direction for packet in packets), np.int32),
        seq=column(seq for seq, _, _ in numbers),
        ack=column(ack for _, ack, _ in numbers),
        flags=column((flags for _, _, flags in numbers), np.int32),
        start=stops - column(len(packet.data) for packet in packets),
        stop=stops,
        size=column(len(packet.data) if packet.size is None else packet.size for packet in packets),
        ip_id=column(packet.ip_id for packet in packets),
        ts_ns=column(times),
        packet=np.arange(ordinal + 1, ordinal + 1 + len(packets), dtype=np.int64),
        ordinal=np.arange(ordinal, ordinal + len(packets), dtype=np.int64),
        interface=column((packet.interface for packet in packets), np.int32),
    )


@dataclass
class Tale:
    """All that was told of one connection, in order; ``told`` does not depend on how bytes were cut into chunks."""

    id: str
    client: int | None
    told: list[tuple] = field(default_factory=list)
    streams: dict[int, dict[int, bytes]] = field(default_factory=lambda: {A: {}, B: {}})
    gaps: list[tuple[int, int, int]] = field(default_factory=list)
    """(direction, offset, length)."""
    problems: list[tuple[str, int | None, int | None]] = field(default_factory=list)
    """(kind, offset, size) of those that are odd."""
    notes: list[tuple[str, int | None, int | None]] = field(default_factory=list)
    """(kind, offset, size) of what the network did."""
    closed: list[tuple[int, str]] = field(default_factory=list)
    facts: ConnectionStats | None = None
    chunks: list[StreamChunk] = field(default_factory=list)
    identity: tuple[int | None, bool] | None = None
    """(client, seen from its start), as they were when the first bytes came."""

    def data(self, direction: int) -> bytes:
        """The bytes of a direction without its gaps."""
        return b"".join(self.streams[direction].values())

    def identify(self, identity: tuple[int | None, bool]) -> None:
        """Who takes bytes asks for the client; the answer must never change."""
        if self.identity is None:
            self.identity = identity
            self.told.append(("identity", *identity))
        assert self.identity == identity

    def add(self, release: int, event: object) -> None:
        """Take the next event."""
        match event:
            case StreamChunk():
                self._add_chunk(event)
            case StreamGap():
                assert event.mark.release == release
                self.gaps.append((event.direction, event.offset, event.length))
                self.told.append(("gap", event.direction, event.offset, event.length, event.known, event.mark))
            case StreamProblem(problem, mark, direction):
                assert problem.side is None, "which side it is, is not known yet"
                odd = self.notes if problem.severity == "info" else self.problems
                odd.append((problem.kind, problem.offset, problem.size))
                self.told.append(("problem", direction, str(problem), mark))
            case StreamClosed(direction, reason, mark):
                self.closed.append((direction, reason))
                self.told.append(("side closed", direction, reason, mark))
            case ConnectionClosed(facts, mark):
                self.facts = facts
                self.told.append(("closed", str(facts), mark))
            case ConnectionOpened(mark, client):
                self.told.append(("opened", client, mark))

    def _add_chunk(self, chunk: StreamChunk) -> None:
        self.chunks.append(chunk)
        self.streams[chunk.direction][chunk.offset] = chunk.data
        stops = [mark.offset for mark in chunk.marks[1:]] + [chunk.offset + len(chunk.data)]
        start = chunk.offset
        for mark, stop in zip(chunk.marks, stops, strict=True):
            assert mark.offset <= start < stop
            self._add_piece(chunk.direction, start, chunk.data[start - chunk.offset : stop - chunk.offset], mark[1:])
            start = stop

    def _add_piece(self, side: int, offset: int, data: bytes, place: tuple) -> None:
        last = self.told[-1]
        if last[:2] == ("bytes", side) and last[4] == place and last[2] + len(last[3]) == offset:
            self.told[-1] = ("bytes", side, last[2], last[3] + data, place)
        else:
            self.told.append(("bytes", side, offset, data, place))


def play(
    packets: list[Packet],
    limits: Limits | None = None,
    *,
    cuts: tuple[int, ...] = (),
    find_runs: bool = True,
    lone_syns: bool = False,
    step_ms: float = 1.0,
    end: bool = True,
) -> list[Tale]:
    """Feed packets, in batches that end at ``cuts``; one Tale a connection, in order of opening.

    Where runs are found, the slow twin must tell the same; so must, to the end, a table that keeps lone SYNs small
    and parks what it can after each batch.
    """
    flows = FlowTable(limits or Limits(), find_runs=find_runs, lone_syns=lone_syns)
    tales: dict[int, Tale] = {}
    bounds = [0, *sorted(cuts), len(packets)]
    for start, stop in itertools.pairwise(bounds):
        part = to_batch(packets[start:stop], start, step_ms)
        merged = heapq.merge(*flows.feed(part), key=lambda told: told[0])
        _tell(tales, merged)
        part.buffer[:] = bytes(len(part.buffer))  # as the reader does that fills its window again
        if lone_syns:
            for connection in flows.connections():
                connection.park()
    if end:
        for events in flows.end():
            _tell(tales, events)
        assert len(flows) == 0
    told = list(tales.values())
    if find_runs:
        slow = play(packets, limits, cuts=cuts, find_runs=False, step_ms=step_ms, end=end)
        assert [(tale.id, tale.told) for tale in told] == [(tale.id, tale.told) for tale in slow]
    if find_runs and end and not lone_syns:
        often = cuts or tuple(range(1, min(len(packets), 40)))
        small = play(packets, limits, cuts=often, lone_syns=True, step_ms=step_ms)
        assert sorted((tale.id, tale.told) for tale in told) == sorted((tale.id, tale.told) for tale in small)
    return told


def _tell(tales: dict[int, Tale], events: object) -> None:
    last: dict[int, int] = {}
    for release, connection, event in events:
        assert release >= last.get(id(connection), -1), "a connection's events went back"
        last[id(connection)] = release
        tale = tales.setdefault(id(connection), Tale(connection.id, None))
        tale.connection = connection  # keeps it alive, so that its id stays its own
        tale.client = connection.client_direction
        if isinstance(event, StreamChunk | StreamGap | StreamClosed):
            tale.identify((connection.client_direction, connection.seen_from_start))
        tale.add(release, event)


def play_one(packets: list[Packet], limits: Limits | None = None, **more: object) -> Tale:
    """The tale of packets that are one connection."""
    (tale,) = play(packets, limits, **more)
    return tale
