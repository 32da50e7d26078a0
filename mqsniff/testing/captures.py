"""The TCP connections of a capture as conversations, read with dpkt: slow and plain, to compare the engine with.

Loss, reordering, duplicates and cut packets are taken into account.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import dpkt

from mqsniff.model import Chunk, Gap, Mark, Side
from mqsniff.testing.conversations import ACK, FIN, RST, SYN, Say, SentSegment


@dataclass
class CapturedConversation:
    """One connection of a capture: what arrived, in order, and what never did."""

    client_port: int
    server_port: int
    events: list[Chunk | Gap] = field(default_factory=list)
    says: list[Say] = field(default_factory=list)
    in_step: tuple[bool, bool] = (False, False)
    closed: list[Side] = field(default_factory=list)

    @property
    def whole(self) -> bool:
        """Whether every byte is there from the beginning."""
        return all(self.in_step) and not any(isinstance(event, Gap) for event in self.events)


def read_pcap(path: Path) -> list[CapturedConversation]:
    """The TCP connections of a capture that hold data, in the order of their first packets."""
    flows: dict[tuple[bytes, int, bytes, int], list[tuple[int, int, SentSegment]]] = defaultdict(list)
    firsts: dict[frozenset[tuple[bytes, int]], tuple[bytes, int, bytes, int]] = {}
    for number, ts_ns, source, target, tcp, size in _tcp_packets(path):
        ends = (source, tcp.sport), (target, tcp.dport)
        name = frozenset(ends)
        fresh = tcp.flags & (SYN | ACK) == SYN
        if name not in firsts or (fresh and firsts[name][:2] != (*ends[0],)):
            firsts[name] = (*ends[0], *ends[1])
        key = firsts[name]
        side = Side.CLIENT if key[:2] == ends[0] else Side.SERVER
        segment = SentSegment(side, tcp.seq, tcp.ack, tcp.flags, bytes(tcp.data), ts_ns, size)
        flows[key].append((number, ts_ns, segment))
    found = [_conversation(key, packets) for key, packets in flows.items()]
    return [conversation for conversation in found if conversation.events]


def _tcp_packets(path: Path) -> Iterator[tuple[int, int, bytes, bytes, dpkt.tcp.TCP, int]]:
    with path.open("rb") as file:
        reader = dpkt.pcapng.Reader(file) if path.suffix == ".pcapng" else dpkt.pcap.Reader(file)
        for number, (ts, raw) in enumerate(reader, 1):
            ip = dpkt.ethernet.Ethernet(raw).data
            if isinstance(ip, (dpkt.ip.IP, dpkt.ip6.IP6)) and isinstance(ip.data, dpkt.tcp.TCP):
                tcp = ip.data
                length = ip.len - 4 * ip.hl if isinstance(ip, dpkt.ip.IP) else ip.plen
                yield number, round(ts * 1_000_000) * 1000, ip.src, ip.dst, tcp, length - 4 * tcp.off


def _conversation(
    key: tuple[bytes, int, bytes, int], packets: list[tuple[int, int, SentSegment]]
) -> CapturedConversation:
    sides = [_Stream([p for _, _, p in packets if p.side is side]) for side in Side]
    out = CapturedConversation(key[1], key[3], in_step=(sides[0].from_start, sides[1].from_start))
    for order, (number, ts_ns, packet) in enumerate(packets):
        stream = sides[packet.side]
        knows = sides[packet.side.peer].offset_of(packet.ack) if packet.flags & ACK else 0
        for event in stream.take(packet, Mark(0, ts_ns, number, order)):
            out.events.append(event)
            if isinstance(event, Chunk):
                out.says.append(Say(packet.side, event.data, knows))
        if packet.flags & (FIN | RST) and packet.side not in out.closed:
            out.closed.append(packet.side)
    return out


class _Stream:
    """One direction: knows from the start which bytes the capture holds at all."""

    def __init__(self, packets: list[SentSegment]) -> None:
        syn = next((packet for packet in packets if packet.flags & SYN), None)
        self.from_start = syn is not None
        data = [packet for packet in packets if packet.data]
        self._origin = syn.seq + 1 if syn else min((p.seq for p in data), default=0)
        self._there: dict[int, int] = {}
        for packet in data:
            at = self.offset_of(packet.seq)
            for offset, byte in enumerate(packet.data, at):
                self._there.setdefault(offset, byte)
        self._end = max(self._there, default=-1) + 1
        self._arrived: set[int] = set()
        self._next = 0

    def offset_of(self, seq: int) -> int:
        """The stream offset of a sequence number."""
        return (seq - self._origin + 0x8000_0000 & 0xFFFFFFFF) - 0x8000_0000

    def take(self, packet: SentSegment, mark: Mark) -> Iterator[Chunk | Gap]:
        """What this packet lets through."""
        at = self.offset_of(packet.seq)
        self._arrived.update(range(at, at + len(packet.data)))
        data = bytearray()
        while self._next < self._end:
            if self._next in self._there and self._next in self._arrived:
                data.append(self._there[self._next])
                self._next += 1
            elif self._next not in self._there:
                if data:
                    yield self._chunk(packet.side, bytes(data), mark)
                    data.clear()
                start = self._next
                while self._next not in self._there:
                    self._next += 1
                yield Gap(packet.side, start, self._next - start, mark._replace(offset=start))
            else:
                break
        if data:
            yield self._chunk(packet.side, bytes(data), mark)

    def _chunk(self, side: Side, data: bytes, mark: Mark) -> Chunk:
        start = self._next - len(data)
        return Chunk(side, start, data, [mark._replace(offset=start)])
