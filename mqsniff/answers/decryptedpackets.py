"""Packets of connections whose TLS can be opened in, the same connections as plain TCP out: a source of packets.

1. Each captured packet that completes records becomes one packet with their data, with its number, time, addresses and
   ports. Packets with a SYN, a FIN or a RST, and the end of the handshake, become packets without data. What TLS itself
   says (hellos, alerts, changes of keys) is left out, as are retransmissions, and acknowledgements without data.
2. Sequence numbers start as captured and count plain bytes; each packet acknowledges all plain bytes of the peer that
   came before. Where plain bytes are missing and unknown number, one sequence number is left out.
3. Bytes before an upgrade stay as they are. Other connections are passed on as they were captured.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

import numpy as np

from mqsniff.answers.madepackets import LINKTYPE_RAW, TcpHead, ip_packet
from mqsniff.answers.packetfinder import side_of
from mqsniff.decode.layers import TlsLayer, pieces
from mqsniff.limits import Limits
from mqsniff.model import (
    CaptureInfo,
    Chunk,
    ConnectionInfo,
    FlowKey,
    Gap,
    Mark,
    PacketBatch,
    SegmentBatch,
    Side,
    TlsStart,
)
from mqsniff.pipeline import SLICE_PACKETS
from mqsniff.sources.batches import COLUMNS, slice_batch
from mqsniff.sources.files import FileSource
from mqsniff.streams.connection import Connection
from mqsniff.streams.events import ConnectionClosed, ConnectionOpened, StreamChunk, StreamClosed, StreamEvent, StreamGap
from mqsniff.streams.flows import FlowEvents, FlowTable
from mqsniff.streams.packets import PacketDecoder
from mqsniff.streams.segment import ACK, FIN, RST, SYN
from mqsniff.tls.decoder import TlsDecoder
from mqsniff.tls.keylog import TLS_KEY_LOG, KeyLog, KeyRing
from mqsniff.tls.output import SeenRecord

_PUSH: Final = 8

_TOLD: Final = ("ts_ns", "wirelen", "linktype", "packet", "interface")
PacketRow: TypeAlias = tuple[int, tuple[int, ...], bytes]
"""Ordinal of a packet, what ``_TOLD`` names of it, its bytes."""


@dataclass(slots=True)
class MadePacket:
    """A packet that was never captured."""

    release: int
    ts_ns: int
    packet: int
    """That of the packet which completed its data."""
    side: Side
    seq: int
    ack: int
    flags: int
    payload: bytearray = field(default_factory=bytearray)


class DecryptedStream:
    """One connection: its events in, packets of plain TCP out."""

    def __init__(self, connection: Connection, start: TlsStart, client: int, keys: KeyRing, limits: Limits) -> None:
        """``client``: the direction that the client sends in."""
        self._connection = connection
        self._client = client
        self._start = start
        self._decoder = TlsDecoder(keys, limits, from_start=start.from_start, watch=self._see_record)
        both: dict[Side, TlsLayer] = {}
        self._layers = [TlsLayer(side, start.at.get(side, 0), self._decoder, both) for side in Side]
        self._sent = [0, 0]
        """Plain bytes of each side, and what is missing of them."""
        self._shaken = 0
        self._closed: set[Side] = set()
        self._resets: list[tuple[Side, Mark, int]] = []
        """Segments with a RST whose side may have bytes that were not released yet."""
        self._last: MadePacket | None = None
        self.made: list[MadePacket] = []
        self.made_from: dict[int, int] = {}
        """Packet that completed records -> the one in which the first of them begins."""
        self.holed = False
        """Whether plain bytes are missing."""

    @property
    def connection_id(self) -> str:
        """The id of its connection."""
        return self._connection.id

    # ---- packets without data

    def pass_segment(self, segments: SegmentBatch, row: int) -> None:
        """Make what a captured segment without bytes of a stream becomes, if anything."""
        flags, size, direction = int(segments.flags[row]), int(segments.size[row]), int(segments.direction[row])
        first = int(segments.ordinal[row]) == self._connection.first_ordinal
        bare = flags & (SYN | FIN | RST) == 0 and not size
        third = bare and self._shaken == (1 << Side.CLIENT | 1 << Side.SERVER)
        side = Side(direction ^ self._client)
        place = Mark(0, int(segments.ts_ns[row]), int(segments.packet[row]), int(segments.ordinal[row]))
        if flags & RST:
            self._resets.append((side, place, flags & (RST | ACK)))
            if side in self._closed:
                self._put_resets()
            return
        if flags & SYN:
            self._shaken |= 1 << side
            self._put(side, place, int(segments.seq[row]), flags & (SYN | ACK), ack=int(segments.ack[row]))
        elif third or first:
            self._shaken = 0
            self._put(side, place, self._origin(side), ACK, ack=self._origin(side.peer))

    # ---- events

    def take(self, event: StreamEvent) -> None:
        """Make the packets that an event gives."""
        match event:
            case StreamChunk():
                self._chunk(event)
            case StreamGap():
                side = self._side(event.direction)
                if event.offset < self._plain_until(side):
                    self._skip(side, event.length)
                else:
                    self._pass(side, Gap(side, event.offset, event.length, event.mark, event.known))
            case StreamClosed():
                self._close(event)
            case ConnectionClosed():
                self._end()

    def _close(self, event: StreamClosed) -> None:
        side = self._side(event.direction)
        for above in self._layers[side].close():
            self._take_plain(above)
        self._closed.add(side)
        if event.reason == "rst":
            self._put_resets()
            return
        last = self._last
        if last is not None and (last.packet, last.side) == (event.mark.packet, side):
            last.flags |= FIN
        else:
            self._put(side, event.mark, self._next(side), FIN | ACK)
        self._sent[side] += 1

    def _end(self) -> None:
        """The connection is over."""
        for layer in self._layers:
            for above in layer.close():
                self._take_plain(above)
        self._put_resets()

    def _put_resets(self) -> None:
        """Make the packets of resets, after the bytes that were released before them."""
        for side, place, flags in self._resets:
            release = max(place.release, max((each.release for each in self.made), default=0))
            self._put(side, place._replace(release=release), self._next(side), flags)
        self._resets.clear()

    def _chunk(self, chunk: StreamChunk) -> None:
        side = self._side(chunk.direction)
        until = self._plain_until(side)
        for mark, data in pieces(chunk):
            start = max(mark.offset, chunk.offset)
            plain = max(0, min(until - start, len(data)))
            if plain:
                self._data(side, data[:plain], mark)
            if plain < len(data):
                at = start + plain
                self._pass(side, Chunk(side, at, data[plain:], [mark._replace(offset=at)]))

    def _pass(self, side: Side, event: Chunk | Gap) -> None:
        """Send an event through TLS."""
        layer = self._layers[side]
        for above in layer.feed(event) if isinstance(event, Chunk) else layer.gap(event):
            self._take_plain(above)

    def _take_plain(self, above: Chunk | Gap) -> None:
        """What came out of TLS; clear text before the first record is none of it, unless it was agreed on."""
        if not (self._start.upgraded or self._decoder.opened):
            return
        if isinstance(above, Gap):
            self._skip(above.side, above.length)
            return
        for mark, data in pieces(above):
            self._data(above.side, data, mark)

    def _see_record(self, record: SeenRecord) -> None:
        if record.plain[0] < record.plain[1]:
            first = record.first.packet
            self.made_from[record.last.packet] = min(first, self.made_from.get(record.last.packet, first))

    # ---- packets

    def _side(self, direction: int) -> Side:
        return Side(direction ^ self._client)

    def _plain_until(self, side: Side) -> int:
        """Where TLS begins in the stream of a side: bytes before it are plain."""
        return self._start.at.get(side, 1 << 62)

    def _next(self, side: Side) -> int:
        """The next sequence number of a side."""
        return self._origin(side) + self._sent[side] & 0xFFFFFFFF

    def _origin(self, side: Side) -> int:
        """The sequence number of the first byte of a side; 0 where it was never captured."""
        place = self._connection.place_of(side ^ self._client, 0)
        return 0 if place is None else -place & 0xFFFFFFFF

    def _skip(self, side: Side, length: int) -> None:
        self._sent[side] += length or 1
        self.holed, self._last = True, None

    def _data(self, side: Side, data: bytes, mark: Mark) -> None:
        last = self._last
        if last is not None and (last.packet, last.side) == (mark.packet, side):
            last.payload += data
            last.release = max(last.release, mark.release)
        else:
            self._put(side, mark, self._next(side), _PUSH | ACK, data)
        self._sent[side] += len(data)

    def _put(self, side: Side, place: Mark, seq: int, flags: int, data: bytes = b"", *, ack: int | None = None) -> None:
        known = self._next(side.peer) if ack is None else ack
        self._last = MadePacket(place.release, place.ts_ns, place.packet, side, seq, known, flags, bytearray(data))
        self.made.append(self._last)

    def take_made(self) -> Iterator[tuple[MadePacket, TcpHead]]:
        """The packets that were made since the last call, each with its header."""
        made, self.made, self._last = self.made, [], None
        key = self._connection.key
        ends = (key.low_ip, key.low_port), (key.high_ip, key.high_port)
        for each in made:
            direction = each.side ^ self._client
            yield each, TcpHead(ends[direction], ends[1 - direction], each.seq, each.ack, each.flags)


class DecryptedPackets:
    """A source (``pipeline.Source``): what another source holds, some of its connections decrypted."""

    def __init__(
        self,
        source: FileSource,
        starts: Mapping[str, tuple[TlsStart, ConnectionInfo]],
        keys: tuple[KeyLog, ...],
        limits: Limits,
    ) -> None:
        """``starts``: where TLS begins in the connections that are decrypted, by their ids."""
        self._source = source
        self._starts = starts
        self._keys = KeyRing(keys, self._secrets)
        self._limits = limits
        self.captures: list[CaptureInfo] = source.captures
        self.made_from: dict[int, int] = {}
        """Of the last batch: packet that was made -> the packet in which its data begins."""
        self.holed: set[str] = set()
        """Connections of which plain bytes are missing."""
        self._streams: dict[Connection, DecryptedStream] = {}
        self._owners: dict[FlowKey, list[Connection]] = {}
        self._ordinal = 0

    def _secrets(self) -> list[bytes]:
        return [data for capture in self.captures for kind, data in capture.secrets if kind == TLS_KEY_LOG]

    def batches(self) -> Iterator[PacketBatch]:
        """Packets in order."""
        decoder, flows = PacketDecoder(self._limits), FlowTable(self._limits)
        last: PacketBatch | None = None
        for batch in self._source.batches():
            for start in range(0, len(batch), SLICE_PACKETS):
                last = slice_batch(batch, start, min(start + SLICE_PACKETS, len(batch)))
                segments = decoder.decode(last)
                self.made_from.clear()
                touched = self._feed(flows.feed(segments))
                kept = self._pass_segments(segments, touched)
                yield from self._batch(last, kept, touched)
        touched = self._feed(flows.end())
        if last is not None:
            yield from self._batch(last, set(), touched)

    def _feed(self, flows: Iterator[FlowEvents] | list[FlowEvents]) -> set[DecryptedStream]:
        """Hand events to their connections; those that got some."""
        touched: set[DecryptedStream] = set()
        for events in flows:
            for _, connection, event in events:
                if isinstance(event, ConnectionOpened):
                    self._begin(connection)
                if (stream := self._streams.get(connection)) is not None:
                    stream.take(event)
                    touched.add(stream)
        return touched

    def _begin(self, connection: Connection) -> None:
        """Take note of a connection that is decrypted, and of those that take over its ports."""
        known = self._starts.get(connection.id)
        if known is None and connection.key not in self._owners:
            return
        self._owners.setdefault(connection.key, []).append(connection)
        if known is None:
            return
        start, info = known
        client = 0 if side_of(connection.key, 0, info) is Side.CLIENT else 1
        self._streams[connection] = DecryptedStream(connection, start, client, self._keys, self._limits)

    def _pass_segments(self, segments: SegmentBatch, touched: set[DecryptedStream]) -> set[int]:
        """Hand segments to the connections that are decrypted; the ordinals of those of other connections."""
        kept: set[int] = set()
        for row, (flow, ordinal) in enumerate(zip(segments.flow.tolist(), segments.ordinal.tolist(), strict=True)):
            owners = self._owners.get(segments.flows[flow], ())
            owner = next((each for each in reversed(owners) if each.first_ordinal <= ordinal), None)
            stream = None if owner is None else self._streams.get(owner)
            if stream is None:
                kept.add(ordinal)
            else:
                stream.pass_segment(segments, row)
                touched.add(stream)
        return kept

    def _batch(self, batch: PacketBatch, kept: set[int], touched: set[DecryptedStream]) -> Iterator[PacketBatch]:
        """The packets of some connections as they are in ``batch``, and those that were made, in order."""
        made = [each for stream in touched for each in self._made(stream)]
        if not made and len(kept) == len(batch):
            yield self._numbered(batch)
            return
        view = memoryview(batch.buffer)
        interfaces = dict(zip(batch.packet.tolist(), batch.interface.tolist(), strict=True))
        rows: list[PacketRow] = []
        for index in (ordinal - batch.ordinal for ordinal in kept):
            start, size = int(batch.start[index]), int(batch.caplen[index])
            told = [int(getattr(batch, name)[index]) for name in _TOLD]
            rows.append((batch.ordinal + index, tuple(told), bytes(view[start : start + size])))
        for each, data in made:
            interface = interfaces.get(each.packet, 0)
            rows.append((each.release, (each.ts_ns, len(data), LINKTYPE_RAW, each.packet, interface), data))
        if rows:
            rows.sort(key=_release)
            yield self._numbered(_batch_of(batch, rows))

    def _made(self, stream: DecryptedStream) -> Iterator[tuple[MadePacket, bytes]]:
        if stream.holed:
            self.holed.add(stream.connection_id)
        for each, head in stream.take_made():
            self.made_from[each.packet] = stream.made_from.pop(each.packet, each.packet)
            yield each, ip_packet(head, bytes(each.payload))

    def _numbered(self, batch: PacketBatch) -> PacketBatch:
        made = replace(batch, ordinal=self._ordinal)
        self._ordinal += len(batch)
        return made


def _release(row: PacketRow) -> int:
    return row[0]


def _batch_of(batch: PacketBatch, rows: list[PacketRow]) -> PacketBatch:
    """A batch with a buffer of its own."""
    sizes = np.array([len(data) for _, _, data in rows], np.int64)
    numbers = np.array([told for _, told, _ in rows], np.int64)
    columns: dict[str, Any] = dict(zip(_TOLD, numbers.T, strict=True))
    columns |= {"caplen": sizes, "start": np.cumsum(sizes) - sizes}
    columns = {name: columns[name].astype(getattr(batch, name).dtype) for name in COLUMNS}
    return replace(batch, **columns, buffer=b"".join(data for _, _, data in rows))
