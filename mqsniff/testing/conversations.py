"""TCP conversations as plain data: written to pcap packet by packet, or handed to a dissector as chunks.

1. A conversation is a list of Say: who says what, and how much of the peer's stream was known by then (``knows``).
2. ``segments`` makes packets with correct sequence numbers and acknowledgements; ``lost``, ``swapped`` and ``doubled``
   spoil them, as capturing does; ``write_pcap`` writes them, cut at a snap length where asked.
3. ``chunks`` is what reassembly gives to a dissector: pieces of a conversation, cut and with gaps as asked.
"""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
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
    """What the client sends at once."""
    return Say(Side.CLIENT, b"".join(parts), knows)


def server(*parts: bytes, knows: int | None = None) -> Say:
    """What the server sends at once."""
    return Say(Side.SERVER, b"".join(parts), knows)


def streams(dialogue: Iterable[Say]) -> tuple[bytes, bytes]:
    """All that the client and the server say."""
    said = list(dialogue)
    return tuple(b"".join(say.data for say in said if say.side is side) for side in Side)  # type: ignore[return-value]


def known(dialogue: Sequence[Say]) -> list[Say]:
    """The conversation with every ``knows`` filled in."""
    totals = [0, 0]
    out: list[Say] = []
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
class SentSegment:
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
) -> list[SentSegment]:
    """The conversation as packets, one millisecond apart, in the order in which it was said."""
    seq = [isn, isn * 5]
    out: list[SentSegment] = []

    def put(side: Side, flags: int, data: bytes = b"", ack: int | None = None) -> None:
        known_ack = seq[side.peer] if ack is None else ack
        size = len(data)
        ts_ns = START_NS + len(out) * STEP_NS
        out.append(SentSegment(side, seq[side] & 0xFFFFFFFF, known_ack & 0xFFFFFFFF, flags, data, ts_ns, size))
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


def lost(packets: Sequence[SentSegment], *indexes: int) -> list[SentSegment]:
    """Without these packets."""
    return [packet for index, packet in enumerate(packets) if index not in indexes]


def swapped(packets: Sequence[SentSegment], first: int, second: int) -> list[SentSegment]:
    """Two packets in each other's place; times stay in order."""
    out = list(packets)
    out[first], out[second] = (
        replace(packets[second], ts_ns=packets[first].ts_ns),
        replace(packets[first], ts_ns=packets[second].ts_ns),
    )
    return out


def doubled(packets: Sequence[SentSegment], index: int, later_ns: int = 1000) -> list[SentSegment]:
    """One packet twice."""
    copy = replace(packets[index], ts_ns=packets[index].ts_ns + later_ns)
    return [*packets[: index + 1], copy, *packets[index + 1 :]]


def write_pcap(
    path: Path,
    packets: Iterable[SentSegment],
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


def _ethernet(packet: SentSegment, number: int, ports: tuple[int, int], addresses: tuple[str, str]) -> bytes:
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
