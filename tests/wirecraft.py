"""TCP conversations as plain data: written to pcap packet by packet, read back, or handed to a dissector as chunks.

1. A conversation is a list of Say: who says what, and how much of the peer's stream was known by then (``knows``).
2. ``segments`` makes packets with correct sequence numbers and acknowledgements; ``lost``, ``swapped`` and ``doubled``
   spoil them, as capturing does; ``write_pcap`` writes them, cut at a snap length where asked.
3. ``read_pcap`` takes loss, reordering, duplicates and cut packets into account, slowly and plainly: an oracle.
4. ``chunks`` is what a reassembler gives to a dissector: pieces of a conversation, cut and holed as asked.
"""

from __future__ import annotations

import ipaddress
import struct
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import dpkt

from mqsniff.model import Chunk, Gap, Mark, Side

START_NS = 1_700_000_000_000_000_000
STEP_NS = 1_000_000

FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16


class Say(NamedTuple):
    """Bytes that one side sends at once. ``knows``: bytes of the peer that it had seen; None: all said before."""

    side: Side
    data: bytes
    knows: int | None = None


def client(*parts: bytes, knows: int | None = None) -> Say:
    return Say(Side.CLIENT, b"".join(parts), knows)


def server(*parts: bytes, knows: int | None = None) -> Say:
    return Say(Side.SERVER, b"".join(parts), knows)


def streams(dialogue: Iterable[Say]) -> tuple[bytes, bytes]:
    """All that the client and the server say."""
    said = list(dialogue)
    return tuple(b"".join(say.data for say in said if say.side is side) for side in Side)  # type: ignore[return-value]


def known(dialogue: Sequence[Say]) -> list[Say]:
    """The conversation with every ``knows`` filled in."""
    totals, out = [0, 0], []
    for say in dialogue:
        out.append(say._replace(knows=totals[say.side.peer] if say.knows is None else say.knows))
        totals[say.side] += len(say.data)
    return out


def acknowledged(*steps: tuple[Say, int]) -> list[Say]:
    """A conversation in which each Say comes with how many Says of the peer had been heard by then."""
    out: list[Say] = []
    for say, heard in steps:
        peers = [other for other in out if other.side is not say.side]
        assert heard <= len(peers)
        out.append(say._replace(knows=sum(len(other.data) for other in peers[:heard])))
    return out


# ---- packets


@dataclass(frozen=True)
class Segment:
    """One TCP segment; ``size`` is its payload on the wire, more than ``data`` where a capture cut it."""

    side: Side
    seq: int
    ack: int
    flags: int
    data: bytes
    ts_ns: int
    size: int
    window: int = 65_535


def segments(
    dialogue: Sequence[Say], *, mss: int = 1448, handshake: bool = True, fin: Side | None = Side.CLIENT, isn: int = 1000
) -> list[Segment]:
    """The conversation as packets, one millisecond apart, in the order in which it was said."""
    seq = [isn, isn * 5]
    out: list[Segment] = []

    def put(side: Side, flags: int, data: bytes = b"", ack: int | None = None) -> None:
        known_ack = seq[side.peer] if ack is None else ack
        size = len(data)
        ts_ns = START_NS + len(out) * STEP_NS
        out.append(Segment(side, seq[side] & 0xFFFFFFFF, known_ack & 0xFFFFFFFF, flags, data, ts_ns, size))
        seq[side] += size + bool(flags & (SYN | FIN))

    if handshake:
        put(Side.CLIENT, SYN, ack=0)
        put(Side.SERVER, SYN | ACK)
        put(Side.CLIENT, ACK)
    base = list(seq)
    for say in known(dialogue):
        for at in range(0, len(say.data), mss):
            put(say.side, PSH | ACK, say.data[at : at + mss], base[say.side.peer] + (say.knows or 0))
    if fin is not None:
        put(fin, FIN | ACK)
        put(fin.peer, FIN | ACK)
        put(fin, ACK)
    return out


def lost(packets: Sequence[Segment], *indexes: int) -> list[Segment]:
    """Without these packets."""
    return [packet for index, packet in enumerate(packets) if index not in indexes]


def swapped(packets: Sequence[Segment], first: int, second: int) -> list[Segment]:
    """Two packets in each other's place; times stay in order."""
    out = list(packets)
    out[first], out[second] = (
        replace(packets[second], ts_ns=packets[first].ts_ns),
        replace(packets[first], ts_ns=packets[second].ts_ns),
    )
    return out


def doubled(packets: Sequence[Segment], index: int, later_ns: int = 1000) -> list[Segment]:
    """One packet twice."""
    copy = replace(packets[index], ts_ns=packets[index].ts_ns + later_ns)
    return [*packets[: index + 1], copy, *packets[index + 1 :]]


def write_pcap(
    path: Path,
    packets: Iterable[Segment],
    *,
    snaplen: int = 262_144,
    ports: tuple[int, int] = (40_000, 4150),
    addresses: tuple[str, str] = ("10.0.0.1", "10.0.0.2"),
) -> None:
    """A capture (nanoseconds, Ethernet) of one connection; IPv6 where the addresses are."""
    with path.open("wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, snaplen, 1))
        for number, packet in enumerate(packets):
            frame = _ethernet(packet, number, ports, addresses)
            wire = len(frame) + packet.size - len(packet.data)
            seconds, nanoseconds = divmod(packet.ts_ns, 1_000_000_000)
            file.write(struct.pack("<IIII", seconds, nanoseconds, min(len(frame), snaplen), wire) + frame[:snaplen])


def _ethernet(packet: Segment, number: int, ports: tuple[int, int], addresses: tuple[str, str]) -> bytes:
    source, target = (ipaddress.ip_address(addresses[side]) for side in (packet.side, packet.side.peer))
    tcp = dpkt.tcp.TCP(
        sport=ports[packet.side],
        dport=ports[packet.side.peer],
        seq=packet.seq,
        ack=packet.ack,
        flags=packet.flags,
        win=packet.window,
        data=packet.data,
    )
    if source.version == 4:
        ip = dpkt.ip.IP(src=source.packed, dst=target.packed, p=6, id=number & 0xFFFF, data=tcp)
        return bytes(dpkt.ethernet.Ethernet(type=0x0800, data=ip))
    ip6 = dpkt.ip6.IP6(src=source.packed, dst=target.packed, nxt=6, hlim=64, data=tcp)
    ip6.extension_hdrs = {}
    ip6.plen = len(bytes(tcp))
    return bytes(dpkt.ethernet.Ethernet(type=0x86DD, data=ip6))


# ---- captures back to conversations


@dataclass
class Conversation:
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


def read_pcap(path: Path) -> list[Conversation]:
    """The TCP connections of a capture that hold data, in the order of their first packets."""
    flows: dict[tuple[bytes, int, bytes, int], list[tuple[int, int, Segment]]] = defaultdict(list)
    firsts: dict[frozenset[tuple[bytes, int]], tuple[bytes, int, bytes, int]] = {}
    for number, ts_ns, source, target, tcp, size in _tcp_packets(path):
        ends = (source, tcp.sport), (target, tcp.dport)
        name = frozenset(ends)
        fresh = tcp.flags & (SYN | ACK) == SYN
        if name not in firsts or (fresh and firsts[name][:2] != (*ends[0],)):
            firsts[name] = (*ends[0], *ends[1])
        key = firsts[name]
        side = Side.CLIENT if key[:2] == ends[0] else Side.SERVER
        segment = Segment(side, tcp.seq, tcp.ack, tcp.flags, bytes(tcp.data), ts_ns, size)
        flows[key].append((number, ts_ns, segment))
    found = [_conversation(key, packets) for key, packets in flows.items()]
    return [conversation for conversation in found if conversation.events]


def _tcp_packets(path: Path) -> Iterable[tuple[int, int, bytes, bytes, dpkt.tcp.TCP, int]]:
    with path.open("rb") as file:
        reader = dpkt.pcapng.Reader(file) if path.suffix == ".pcapng" else dpkt.pcap.Reader(file)
        for number, (ts, raw) in enumerate(reader, 1):
            ip = dpkt.ethernet.Ethernet(raw).data
            if isinstance(ip, (dpkt.ip.IP, dpkt.ip6.IP6)) and isinstance(ip.data, dpkt.tcp.TCP):
                tcp = ip.data
                length = ip.len - 4 * ip.hl if isinstance(ip, dpkt.ip.IP) else ip.plen
                yield number, round(ts * 1_000_000) * 1000, ip.src, ip.dst, tcp, length - 4 * tcp.off


def _conversation(key: tuple[bytes, int, bytes, int], packets: list[tuple[int, int, Segment]]) -> Conversation:
    sides = [_Stream([p for _, _, p in packets if p.side is side]) for side in Side]
    out = Conversation(key[1], key[3], in_step=(sides[0].from_start, sides[1].from_start))
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

    def __init__(self, packets: list[Segment]) -> None:
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
        return (seq - self._origin + 0x8000_0000 & 0xFFFFFFFF) - 0x8000_0000

    def take(self, packet: Segment, mark: Mark) -> Iterable[Chunk | Gap]:
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


# ---- what a dissector is fed


def chunks(
    dialogue: Sequence[Say],
    *,
    cuts: tuple[Iterable[int], Iterable[int]] = ((), ()),
    holes: tuple[Iterable[tuple[int, int]], Iterable[tuple[int, int]]] = ((), ()),
    every: int = 0,
) -> list[Chunk | Gap]:
    """A conversation as chunks and gaps, a packet for each Say; cut at stream offsets, or after ``every`` bytes.

    ``holes`` are (start, stop) ranges of a side's stream that the capture lost.
    """
    missing = [{offset for start, stop in side for offset in range(start, stop)} for side in holes]
    wanted = [set(side) for side in cuts]
    at = [0, 0]
    out: list[Chunk | Gap] = []
    for number, say in enumerate(dialogue, 1):
        side, start = say.side, at[say.side]
        stop = start + len(say.data)
        mark = Mark(start, START_NS + number * STEP_NS, number, number)
        edges = {start, stop} | {cut for cut in wanted[side] if start < cut < stop}
        edges |= set(range(start, stop, every)) if every else set()
        edges |= {n for n in range(start + 1, stop) if (n in missing[side]) != (n - 1 in missing[side])}
        ordered = sorted(edges)
        for first, last in pairwise(ordered):
            here = mark._replace(offset=first)
            if first not in missing[side]:
                out.append(Chunk(side, first, say.data[first - start : last - start], [here]))
            elif out and isinstance(out[-1], Gap) and out[-1].side is side:
                out[-1].length += last - first
            else:
                out.append(Gap(side, first, last - first, here))
        at[side] = stop
    return out
