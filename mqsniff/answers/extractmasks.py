"""Messages of chosen connections with their fields in; for each packet, what of its bytes is overwritten, and why, out.

1. What ``tables.masking`` hides of a message is overwritten: secrets and payload by ``*``, which leaves text text; what
   is compressed, and what nobody decoded, by zeros.
2. Bytes that stand in no decoded message may hold anything: they are overwritten, as a packet's place in the stream
   tells, so that what was sent twice is hidden twice; as a whole where it differs from what was decoded.
3. Inside a layer (TLS, compression) places tell nothing: if anything has to be hidden there, all bytes of that side
   from the beginning of the layer on are overwritten; else those from which on the layer gave nothing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from mqsniff.answers.extractpackets import ListedPacket, Ranges
from mqsniff.answers.tcppatch import PayloadPatch
from mqsniff.model import ConnectionInfo, Frame, Item, MessageItem, Problem, ProblemItem, SegmentBatch, Side
from mqsniff.streams.connection import Connection
from mqsniff.tables.masking import HiddenRange, hidden_ranges
from mqsniff.tables.values import Redaction

_FILL: Final = {"secret": 0x2A, "payload": 0x2A, "compressed": 0, "undecoded": 0}
MaskWhy: TypeAlias = str
"""A reason of ``HiddenRange``, or "layer": what passed a layer is hidden as a whole."""


class MaskedBytes(NamedTuple):
    """Bytes of a payload that are overwritten, why, and where in the stream the place begins that they belong to."""

    patch: PayloadPatch
    why: MaskWhy
    place: int


@dataclass(slots=True)
class _SideMask:
    """What is known of the bytes of one side."""

    decoded: list[tuple[int, int]] = field(default_factory=list)
    hidden: list[HiddenRange] = field(default_factory=list)
    sorted_ranges: Ranges | None = None
    starts: list[int] = field(default_factory=list)
    longest: int = 0

    def close(self) -> None:
        """Everything is known: make it searchable."""
        self.sorted_ranges = Ranges(self.decoded)
        self.decoded = []
        self.hidden.sort()
        self.starts = [each.start for each in self.hidden]
        self.longest = max((each.stop - each.start for each in self.hidden), default=0)

    def cover(self, frame: Frame) -> None:
        """A message was decoded from the bytes of a frame that can be read."""
        start, stop = frame.offset, frame.offset + len(frame.data)
        if self.decoded and self.decoded[-1][1] == start:
            self.decoded[-1] = self.decoded[-1][0], stop
        elif stop > start:
            self.decoded.append((start, stop))


class ConnectionMask:
    """What of a connection's bytes is hidden."""

    def __init__(self, info: ConnectionInfo) -> None:
        self.info = info
        self._sides = (_SideMask(), _SideMask())
        self._differs = False
        """Whether bytes were sent again that differ from the first ones, which were decoded."""
        self._high = [0, 0]
        """How far the packets asked for reach, by side."""

    def take_problem(self, problem: Problem) -> None:
        """Note what is odd about its segments."""
        self._differs = self._differs or problem.kind == "overlap"

    def take(self, item: MessageItem, shown: Redaction) -> None:
        """Note the hidden bytes of a message."""
        frame = item.message.frame
        side = self._sides[frame.side]
        side.cover(frame)
        for hidden in hidden_ranges(item.spans or (), frame.data, shown):
            moved = HiddenRange(hidden.start + frame.offset, hidden.stop + frame.offset, hidden.why)
            side.hidden.append(moved)

    def close(self) -> None:
        """The connection is over."""
        if self.info.proxy_bytes:
            self._sides[Side.CLIENT].decoded.append((0, self.info.proxy_bytes))
        for side in self._sides:
            side.close()

    def of_packet(self, listed: ListedPacket, *, raw: bool) -> Iterator[MaskedBytes]:
        """What is overwritten in a packet, to be asked in their order; ``raw``: bytes that were not decoded stay."""
        if listed.start < 0:
            if not raw:
                yield MaskedBytes(PayloadPatch(0, listed.size, 0), "undecoded", -1)
            return
        start, stop = listed.start, listed.start + listed.size
        high = self._high[listed.side]
        self._high[listed.side] = max(high, stop)
        if self._differs and start < high and not raw:
            yield MaskedBytes(PayloadPatch(0, min(high - start, listed.size), 0), "undecoded", start)
        layer = self.info.layer_starts.get(listed.side)
        if layer is not None and stop > layer:
            hidden_from = self._layer_hidden_from(listed.side, layer, raw=raw)
            if hidden_from is not None and hidden_from < stop:
                yield MaskedBytes(PayloadPatch(max(hidden_from - start, 0), listed.size, 0), "layer", layer)
            stop = max(start, layer)
        side = self._sides[listed.side]
        assert side.sorted_ranges is not None
        if not raw:
            for first, last in side.sorted_ranges.outside(start, stop):
                yield MaskedBytes(PayloadPatch(first - start, last - start, 0), "undecoded", first)
        near = slice(bisect_left(side.starts, start - side.longest), bisect_left(side.starts, stop))
        for hidden in side.hidden[near]:
            if hidden.stop > start:
                first, last = max(hidden.start, start), min(hidden.stop, stop)
                patch = PayloadPatch(first - start, last - start, _FILL[hidden.why])
                yield MaskedBytes(patch, hidden.why, hidden.start)

    def _layer_hidden_from(self, side: Side, layer: int, *, raw: bool) -> int | None:
        """The stream offset from which on bytes inside a layer are hidden (rule 3); None: they are shown."""
        mask = self._sides[side]
        assert mask.sorted_ranges is not None
        if any(hidden.stop > layer for hidden in mask.hidden):
            return layer
        if raw:
            return None
        plain = self.info.client_plain_bytes if side is Side.CLIENT else self.info.server_plain_bytes
        if plain is not None and any(True for _ in mask.sorted_ranges.outside(layer, plain)):
            return layer  # plain bytes that stand in no message
        return self.info.unread_at.get(side)


class MaskObserver:
    """Wants the spans of all messages of a run (a ``RunObserver``), and keeps what of them is hidden."""

    def __init__(self, shown: Redaction) -> None:
        self._shown = shown
        self.masks: dict[str, ConnectionMask] = {}

    def see_segments(self, batch: SegmentBatch) -> None:
        """Places of packets are known already."""

    def see_connection(self, connection: Connection, info: ConnectionInfo) -> None:
        """Begin the mask of a connection."""
        self.masks.setdefault(connection.id, ConnectionMask(info))

    def wants_spans(self, info: ConnectionInfo, frame: Frame) -> bool:  # noqa: ARG002  # part of the contract
        """All of them."""
        return True

    def take(self, item: Item | None) -> None:
        """Note the hidden bytes of a message, and what is odd about segments."""
        match item:
            case MessageItem(connection):
                self.masks[connection.connection_id].take(item, self._shown)
            case ProblemItem(connection, problem) if connection is not None:
                self.masks[connection.connection_id].take_problem(problem)

    def close(self) -> None:
        """The run is over."""
        for mask in self.masks.values():
            mask.close()
