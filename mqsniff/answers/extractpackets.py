"""What is wanted of connections in, the packets that carry it out.

1. The packets of chosen connections are listed once, with their places in the streams: some 40 bytes a packet.
2. A packet is wanted if its bytes stand in a wanted message, however often they were sent; SYN, FIN and RST, the end of
   the handshake and the first packet of each connection come along.
3. Of a connection that is wanted whole, every packet is.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from mqsniff.answers.extractchoice import ChosenConnection
from mqsniff.answers.packetfinder import side_of
from mqsniff.limits import Limits
from mqsniff.model import FlowKey, Int64s, SegmentBatch, Side
from mqsniff.pipeline import SLICE_PACKETS, Source
from mqsniff.sources.batches import slice_batch
from mqsniff.streams.connection import Connection
from mqsniff.streams.flows import FlowTable
from mqsniff.streams.packets import PacketDecoder
from mqsniff.streams.segment import FIN, RST, SYN

_HANDSHAKE_PACKETS: Final = 3
_NOWHERE: Final = -1


class ListedPacket(NamedTuple):
    """A packet of a chosen connection; ``start`` is its first byte's stream offset, -1 where that cannot be told."""

    packet: int
    side: Side
    start: int
    size: int
    flags: int


@dataclass(slots=True)
class PacketList:
    """The packets of one chosen connection, in order."""

    chosen: ChosenConnection
    key: FlowKey
    packets: array[int] = field(default_factory=lambda: array("q"))
    starts: array[int] = field(default_factory=lambda: array("q"))
    sizes: array[int] = field(default_factory=lambda: array("q"))
    ways: array[int] = field(default_factory=lambda: array("q"))
    """Direction and flags: ``direction << 8 | flags``."""
    _sides: tuple[Side, Side] | None = None

    def __len__(self) -> int:
        return len(self.packets)

    def at(self, index: int) -> ListedPacket:
        """The packet at a place of the list."""
        way = self.ways[index]
        if self._sides is None:
            self._sides = side_of(self.key, 0, self.chosen.info), side_of(self.key, 1, self.chosen.info)
        return ListedPacket(
            self.packets[index], self._sides[way >> 8], self.starts[index], self.sizes[index], way & 0xFF
        )

    def wanted(self) -> Iterator[int]:
        """Places in the list of the packets that the extract holds."""
        if self.chosen.whole:
            yield from range(len(self))
            return
        ranges = [Ranges(self._places(side)) for side in Side]
        begun: set[Side] = set()
        for index in range(len(self)):
            listed = self.at(index)
            first = listed.side not in begun
            begun.add(listed.side)
            if first or listed.flags & (SYN | FIN | RST) or listed.packet in self.chosen.packets:
                yield index
            elif not listed.size:
                if index < _HANDSHAKE_PACKETS:
                    yield index
            elif listed.start == _NOWHERE or ranges[listed.side].meet(listed.start, listed.start + listed.size):
                yield index

    def _places(self, side: Side) -> list[tuple[int, int]]:
        """Where the bytes of wanted messages stand in the stream of a side: in records of TLS, if it was opened."""
        frames = [(frame.start, frame.stop) for frame in self.chosen.frames.values() if frame.side is side]
        start, records = self.chosen.info.tls_start, self.chosen.records
        if records is None or start is None:
            return frames
        at = start.at.get(side, 0)
        return [(first, stop) for first, stop in frames if start.upgraded and first < at] + records[side]


class Ranges:
    """Ranges of a stream, joined where they touch."""

    def __init__(self, ranges: Iterator[tuple[int, int]] | Sequence[tuple[int, int]] = ()) -> None:
        self._starts: list[int] = []
        self._stops: list[int] = []
        for start, stop in sorted(ranges):
            if self._stops and start <= self._stops[-1]:
                self._stops[-1] = max(self._stops[-1], stop)
            else:
                self._starts.append(start)
                self._stops.append(stop)

    def meet(self, start: int, stop: int) -> bool:
        """Whether any byte of a range is in them."""
        at = bisect_right(self._starts, start) - 1
        if at >= 0 and self._stops[at] > start:
            return True
        return at + 1 < len(self._starts) and self._starts[at + 1] < stop

    def outside(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """The parts of a range that are not in them."""
        at = max(bisect_right(self._starts, start) - 1, 0)
        while start < stop and at < len(self._starts):
            if self._starts[at] >= stop:
                break
            if self._starts[at] > start:
                yield start, self._starts[at]
            start = max(start, self._stops[at])
            at += 1
        if start < stop:
            yield start, stop


def list_packets(source: Source, chosen: dict[str, ChosenConnection], limits: Limits) -> dict[str, PacketList]:
    """The packets of chosen connections, by connection."""
    decoder, flows = PacketDecoder(limits), FlowTable(limits)
    lists: dict[str, PacketList] = {}
    owners: dict[FlowKey, list[Connection]] = {}
    for batch in source.batches():
        for start in range(0, len(batch), SLICE_PACKETS):
            segments = decoder.decode(slice_batch(batch, start, min(start + SLICE_PACKETS, len(batch))))
            for events in flows.feed(segments):
                for _, connection, _ in events:
                    if connection.id in chosen or connection.key in owners:
                        _add_owner(owners.setdefault(connection.key, []), connection)
                        if connection.id in chosen and connection.id not in lists:
                            lists[connection.id] = PacketList(chosen[connection.id], connection.key)
            _list_segments(segments, owners, lists)
    return lists


def _add_owner(owners: list[Connection], connection: Connection) -> None:
    """Add the next connection of a flow."""
    if not owners or owners[-1] is not connection:
        owners.append(connection)


def _list_segments(
    segments: SegmentBatch, owners: dict[FlowKey, list[Connection]], lists: dict[str, PacketList]
) -> None:
    flows = [index for index, key in enumerate(segments.flows) if key in owners]
    if not flows:
        return
    for row in np.flatnonzero(np.isin(segments.flow, flows)).tolist():
        ordinal, direction = int(segments.ordinal[row]), int(segments.direction[row])
        found = [each for each in owners[segments.flows[int(segments.flow[row])]] if each.first_ordinal <= ordinal]
        if not found:
            continue
        seq, flags, size = int(segments.seq[row]), int(segments.flags[row]), int(segments.size[row])
        place = found[-1].place_of(direction, seq + (flags >> 1 & 1))
        if found[-1].id not in lists:
            continue  # the ports are in use again, by a connection that nobody chose
        listed = lists[found[-1].id]
        listed.packets.append(int(segments.packet[row]))
        listed.starts.append(_NOWHERE if place is None or place < 0 else place)
        listed.sizes.append(size)
        listed.ways.append(direction << 8 | flags & 0xFF)


@dataclass(frozen=True, slots=True)
class WantedPackets:
    """Packets of lists, by their ids in order."""

    ids: Int64s
    lists: tuple[PacketList, ...]
    owner: Int64s
    """Of each packet: its list, by its place in ``lists``."""
    row: Int64s
    """Its place in that list."""

    @classmethod
    def of(cls, lists: Iterable[PacketList], *, every: bool = False) -> WantedPackets:
        """The packets that the extract holds, or every one of the lists."""
        kept = tuple(lists)
        owners, rows, ids = array("q"), array("q"), array("q")
        for index, each in enumerate(kept):
            for row in range(len(each)) if every else each.wanted():
                owners.append(index)
                rows.append(row)
                ids.append(each.packets[row])
        order = np.argsort(np.array(ids, np.int64), kind="stable")
        columns = [np.array(column, np.int64)[order] for column in (ids, owners, rows)]
        return cls(columns[0], kept, columns[1], columns[2])

    def find(self, packet: int) -> tuple[PacketList, ListedPacket]:
        """A packet by its id, which is one of them, and its list."""
        at = int(np.searchsorted(self.ids, packet))
        owner = self.lists[int(self.owner[at])]
        return owner, owner.at(int(self.row[at]))
