"""The segments of a run in, one packet of it found: its TCP segment, its connection, and its bytes in the stream."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from dataclasses import dataclass

from mqsniff.model import ConnectionInfo, FlowKey, Frame, PacketProblem, SegmentBatch, Side, packet_capture, packet_id
from mqsniff.streams.connection import Connection
from mqsniff.streams.segment import ACK, FIN, RST, SYN, ZERO_WINDOW


@dataclass(frozen=True, slots=True)
class FoundSegment:
    """The TCP segment of a packet."""

    key: FlowKey
    direction: int
    seq: int
    size: int
    flags: int
    ordinal: int

    @property
    def text(self) -> str:
        """What a segment without bytes is."""
        names = [(SYN, "SYN"), (FIN, "FIN"), (RST, "RST")]
        told = [name for bit, name in names if self.flags & bit]
        window = ", which announces a zero window" if self.flags & ZERO_WINDOW else ""
        if not told:
            return f"a pure TCP ACK{window}"
        return f"a TCP {', '.join(told + ['ACK'] * bool(self.flags & ACK))}{window}"


def side_of(key: FlowKey, direction: int, info: ConnectionInfo) -> Side:
    """Who sends in a direction of a flow."""
    low = str(ipaddress.ip_address(key.low_ip)), key.low_port
    client = 0 if low == (info.client_ip, info.client_port) else 1
    return Side.CLIENT if direction == client else Side.SERVER


class PacketFinder:
    """Watches a run for one packet (a ``RunObserver``), and wants the spans of the messages that touch it."""

    def __init__(self) -> None:
        self.packet: int | None = None
        """The packet by its id; known once the inputs have their numbers."""
        self._capture: Callable[[], int | None] = _no_capture
        self._number = 0
        self.segment: FoundSegment | None = None
        self.problem: PacketProblem | None = None
        """Why the packet could not be taken apart."""
        self._open: dict[FlowKey, tuple[Connection, ConnectionInfo]] = {}
        self._keys: dict[str, FlowKey] = {}
        self._owner: tuple[Connection, ConnectionInfo] | None = None
        self._start: int | None = None

    def look_for(self, capture: Callable[[], int | None], number: int) -> None:
        """Say which packet: ``capture`` gives the index of its capture, once the inputs have one."""
        self._capture, self._number = capture, number

    # ---- what the run shows

    def see_segments(self, batch: SegmentBatch) -> None:
        """Look for the packet among the next ones."""
        if self.packet is None and (index := self._capture()) is not None:
            self.packet = packet_id(index, self._number)
        if self.packet is None or self.segment is not None:
            return
        for problem in batch.problems:
            if problem.packet == self.packet:
                self.problem = problem
        rows = (batch.packet == self.packet).nonzero()[0]
        if len(rows):
            row = int(rows[0])
            key = batch.flows[int(batch.flow[row])]
            seq, flags = int(batch.seq[row]), int(batch.flags[row])
            self.segment = FoundSegment(
                key,
                int(batch.direction[row]),
                seq + (flags >> 1 & 1),
                int(batch.size[row]),
                flags,
                int(batch.ordinal[row]),
            )
            self._owner = self._open.get(key)

    def see_connection(self, connection: Connection, info: ConnectionInfo) -> None:
        """Remember the open connections; one that begins before the packet on its ports takes the packet over."""
        if self.segment is None:
            self._open[connection.key] = connection, info
            self._keys[info.connection_id] = connection.key
        elif connection.key == self.segment.key and connection.first_ordinal <= self.segment.ordinal:
            self._owner, self._start = (connection, info), None

    def forget(self, info: ConnectionInfo) -> None:
        """Take note that a connection has ended."""
        key = self._keys.pop(info.connection_id, None)
        if key is not None and self._open[key][1] is info:
            del self._open[key]

    def wants_spans(self, info: ConnectionInfo, frame: Frame) -> bool:
        """Whether a frame touches the packet."""
        return self._owner is not None and info is self._owner[1] and self.touches(frame)

    # ---- what is known of the packet

    @property
    def connection(self) -> ConnectionInfo | None:
        """The connection of the packet."""
        return self._owner[1] if self._owner is not None else None

    @property
    def side(self) -> Side | None:
        """Who sent the packet."""
        if self._owner is None or self.segment is None:
            return None
        return side_of(self.segment.key, self.segment.direction, self._owner[1])

    @property
    def place(self) -> tuple[int, int] | None:
        """(start, stop) of the packet's bytes in the stream of its side; None where that cannot be told."""
        if self._owner is None or self.segment is None:
            return None
        if self._start is None:
            self._start = self._owner[0].place_of(self.segment.direction, self.segment.seq)
        return None if self._start is None else (self._start, self._start + self.segment.size)

    def touches(self, frame: Frame) -> bool:
        """Whether a frame of the packet's connection has bytes of it."""
        if self.segment is None or not self.segment.size or frame.side is not self.side:
            return False
        if self.packet in (frame.first_packet, frame.last_packet):
            return True
        assert self.packet is not None
        captures = {packet_capture(frame.first_packet), packet_capture(frame.last_packet)}
        if captures == {packet_capture(self.packet)} and not frame.first_packet < self.packet < frame.last_packet:
            return False
        return self.covers(frame)

    def covers(self, frame: Frame) -> bool:
        """Whether bytes of a frame stand where those of the packet do; inside a layer only packets tell."""
        assert self._owner is not None
        place = self.place
        if self._owner[1].layered or place is None:
            return True
        return frame.offset < place[1] and place[0] < frame.offset + max(frame.size, 1)


def _no_capture() -> int | None:
    return None
