"""Packets to write and what of them is hidden in, a pcapng file out, a comment on each packet; and what came of it.

A packet whose payload cannot be found in its own bytes (IP fragments) is left out, unless nothing is to be hidden.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import BinaryIO, Final, NamedTuple

from mqsniff.answers.extractchoice import ChosenFrame
from mqsniff.answers.extractmasks import MaskedBytes, MaskObserver, MaskWhy
from mqsniff.answers.extractpackets import ListedPacket, PacketList, WantedPackets
from mqsniff.answers.selectedpackets import SelectedPackets
from mqsniff.answers.tcppatch import patched
from mqsniff.dissector import Settings
from mqsniff.model import PacketBatch, SegmentBatch, Side, packet_capture, packet_number
from mqsniff.sinks.pcapng import PcapngWriter
from mqsniff.sources.files import ReadProgress
from mqsniff.streams.packets import PacketDecoder
from mqsniff.tables.values import Redaction

_SAID: Final[dict[MaskWhy, str]] = {
    "secret": "secrets overwritten",
    "payload": "keys and values overwritten",
    "compressed": "compressed data blanked",
    "undecoded": "undecoded bytes blanked",
    "layer": "a compressed or encrypted stream blanked",
}
_CHECKED: Final = frozenset(("payload", "compressed"))


@dataclass(slots=True)
class ExtractReport:
    """What came of an extract."""

    messages: int = 0
    connections: int = 0
    packets: int = 0
    size: int = 0
    places: dict[MaskWhy, set[tuple[str, int, int]]] = field(default_factory=dict)
    """(connection, side, stream offset) of what was overwritten, by reason."""
    sizes: Counter[MaskWhy] = field(default_factory=Counter)
    """Bytes that were overwritten."""
    left_out: int = 0
    """Packets whose payload could not be found in them."""
    whole: int = 0
    """Connections that were taken whole so that their messages decode."""
    unlike: int = 0
    """Rows of what was chosen to which the extract does not decode."""

    def add(self, connection: str, side: int, found: Iterable[MaskedBytes]) -> None:
        """Count what is overwritten in a packet."""
        for each in found:
            self.places.setdefault(each.why, set()).add((connection, side, each.place))
            self.sizes[each.why] += each.patch.stop - each.patch.start

    def count(self, why: MaskWhy) -> int:
        """How many places were overwritten for a reason."""
        return len(self.places.get(why, ()))


@dataclass(frozen=True, slots=True)
class ExtractInput:
    """How the captures are read."""

    names: tuple[str, ...]
    settings: Settings
    decode_as: Mapping[int, str]
    on_progress: ReadProgress | None = None


class _PacketLines:
    """The lines about the messages that a connection's packets carry."""

    def __init__(self, owner: PacketList) -> None:
        self._layered = owner.chosen.info.layered
        frames = [frame for frame in owner.chosen.frames.values() if frame.line]
        self._frames = [sorted(frame for frame in frames if frame.side is side) for side in Side]
        self._longest = max((frame.stop - frame.start for frame in frames), default=0)

    def of(self, listed: ListedPacket) -> Iterator[str]:
        """Lines about one packet."""
        frames = self._frames[listed.side]
        if not listed.size:
            return
        near = frames
        if not self._layered:
            low = bisect_left(frames, listed.start - self._longest, key=_start)
            near = frames[low : bisect_left(frames, listed.start + listed.size, key=_start)]
        for frame in near:
            if self._layered:
                carries = frame.first_packet <= listed.packet <= frame.last_packet
            else:
                carries = frame.stop > listed.start
            if carries:
                several = frame.first_packet != frame.last_packet
                span = f"  packets {packet_number(frame.first_packet)} to {packet_number(frame.last_packet)}"
                yield frame.line + (span if several else "")


def _start(frame: ChosenFrame) -> int:
    return frame.start


class _Payload(NamedTuple):
    """Where the payload of a packet stands in it, and its sequence number."""

    start: int
    stop: int
    seq: int

    @classmethod
    def of(cls, segments: SegmentBatch, row: int, packet_start: int) -> _Payload:
        """That of a segment whose packet starts there in the buffer."""
        start, stop = int(segments.start[row]) - packet_start, int(segments.stop[row]) - packet_start
        return cls(start, stop, int(segments.seq[row]))


class PacketCopy:
    """Copies the wanted packets, their hidden bytes overwritten."""

    def __init__(
        self,
        source: ExtractInput,
        wanted: WantedPackets,
        masks: MaskObserver | None,
        shown: Redaction,
        report: ExtractReport,
    ) -> None:
        self._source = source
        self._wanted = wanted
        self._masks = masks
        self._shown = shown
        self._report = report
        self._lines: dict[str, _PacketLines] = {}
        self._names: list[str] = []

    def write(self, stream: BinaryIO) -> None:
        """Write all of them."""
        limits = self._source.settings.limits
        packets = SelectedPackets(self._source.names, self._wanted.ids, limits, self._source.on_progress)
        decoder = PacketDecoder(limits)
        writer = PcapngWriter(stream, application="mqsniff extract", comments=[self._told()])
        for batch in packets.batches():
            self._names = [PurePath(capture.name).name for capture in packets.captures]
            self._copy(writer, batch, decoder.decode(batch))
        writer.flush()
        self._report.packets, self._report.size = writer.packets, writer.size

    def _told(self) -> str:
        if self._masks is None:
            return "mqsniff extract --raw: nothing is hidden; secrets may be in these packets"
        return "mqsniff extract: what is hidden is overwritten in place, by * or zeros; checksums of TCP are repaired"

    def _copy(self, writer: PcapngWriter, batch: PacketBatch, segments: SegmentBatch) -> None:
        """Write the packets of a batch."""
        rows = {int(packet): row for row, packet in enumerate(segments.packet)}
        view = memoryview(batch.buffer)
        for index in range(len(batch)):
            packet, start, size = int(batch.packet[index]), int(batch.start[index]), int(batch.caplen[index])
            row = rows.get(packet)
            owner, listed = self._wanted.find(packet)
            data = bytearray(view[start : start + size])
            notes = list(self._line_of(owner).of(listed))
            if self._masks is not None:
                place = _Payload.of(segments, row, start) if row is not None else _Payload(0, 0, 0)
                found = self._hide(data, place, packet)
                if found is None:
                    self._report.left_out += 1
                    continue
                notes += self._notes(found)
            linktype, interface = int(batch.linktype[index]), int(batch.interface[index])
            capture = packet_capture(packet)
            number = writer.interface(
                (capture, interface, linktype), linktype, name=f"{self._names[capture]}:{interface}"
            )
            notes.append(f"packet {packet_number(packet)} of {self._names[capture]}")
            comment = "\n".join(notes)
            writer.packet(number, int(batch.ts_ns[index]), bytes(data), int(batch.wirelen[index]), [comment])

    def _line_of(self, owner: PacketList) -> _PacketLines:
        name = owner.chosen.info.connection_id
        if name not in self._lines:
            self._lines[name] = _PacketLines(owner)
        return self._lines[name]

    def _hide(self, data: bytearray, payload: _Payload, packet: int) -> list[MaskedBytes] | None:
        """Overwrite what is hidden in a packet; None where its payload cannot be found in it."""
        assert self._masks is not None
        owner, listed = self._wanted.find(packet)
        start, stop = payload.start, payload.stop
        if not 0 < start <= stop <= len(data):
            return None
        if not self._shown.raw:
            data[stop:] = bytes(len(data) - stop)  # padding of the link layer may hold anything
        if not listed.size:
            return []
        name = owner.chosen.info.connection_id
        mask = self._masks.masks.get(name)
        if mask is None:
            return None
        captured = listed._replace(size=min(listed.size, stop - start))
        found = list(mask.of_packet(captured, raw=self._shown.raw))
        if found:
            ports = frozenset((owner.key.low_port, owner.key.high_port))
            if not patched(data, (start, stop), ports, payload.seq, [each.patch for each in found]):
                return None
            self._report.add(name, listed.side, found)
        return found

    @staticmethod
    def _notes(found: list[MaskedBytes]) -> Iterator[str]:
        """What was overwritten in a packet."""
        sizes: Counter[MaskWhy] = Counter()
        for each in found:
            sizes[each.why] += each.patch.stop - each.patch.start
        for why, size in sizes.items():
            crc = "; a CRC over them no longer matches" if why in _CHECKED else ""
            yield f"[{_SAID[why]}: {size} bytes{crc}]"
