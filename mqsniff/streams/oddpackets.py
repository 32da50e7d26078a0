"""Fragments and tunnels: packets that cannot be decoded as columns in, the packets inside them out.

1. Packets are read one by one, one layer at a time: the inner packet goes back to the columns as a packet that starts
   later in the same buffer. Only reassembled datagrams are new bytes, appended to it.
2. Packets that turn out to be no tunnel are skipped; an incomplete tunnel header is a problem.
3. A datagram has the row, time and number of the fragment that completed it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

import dpkt
import numpy as np

from mqsniff.limits import Limits
from mqsniff.model import Buffer, PacketBatch, PacketProblem
from mqsniff.streams.columns import Odd, OddGroup, Packets, SetAside
from mqsniff.streams.flowkeys import Tunnels
from mqsniff.streams.fragments import UNIT, Datagram, Fragment, FragmentPacket, Fragments
from mqsniff.streams.linklayers import ETHERTYPE_IPV4, ETHERTYPE_IPV6
from mqsniff.streams.tunnels import HEAD_MAX, HEAD_READERS, read_header


@dataclass(slots=True)
class _Inner:
    """The packets found inside others, to become columns."""

    size: int
    """Size of the buffer with the appended datagrams."""
    row: list[int] = field(default_factory=list)
    at: list[int] = field(default_factory=list)
    stop: list[int] = field(default_factory=list)
    end: list[int] = field(default_factory=list)
    ethertype: list[int] = field(default_factory=list)
    datagrams: list[bytes] = field(default_factory=list)

    def add(self, row: int, at: int, stop: int, end: int, ethertype: int) -> None:
        self.row.append(row)
        self.at.append(at)
        self.stop.append(stop)
        self.end.append(end)
        self.ethertype.append(ethertype)

    def add_datagram(self, row: int, datagram: Datagram, ethertype: int) -> None:
        at = self.size
        self.datagrams += (datagram.header, datagram.data)
        self.size += len(datagram.header) + len(datagram.data)
        self.add(row, at, self.size, at + len(datagram.header) + datagram.size, ethertype)

    def packets(self) -> Packets:
        return Packets(
            row=np.array(self.row, np.int64),
            at=np.array(self.at, np.int64),
            stop=np.array(self.stop, np.int64),
            end=np.array(self.end, np.int64),
            protocol=np.array(self.ethertype, np.int64),
        )


class OddPackets:
    """Unwraps tunnels and reassembles fragments; one for a run, as fragments wait for later batches."""

    def __init__(self, limits: Limits) -> None:
        self._fragments = Fragments(limits)

    def unwrap(
        self, batch: PacketBatch, buffer: Buffer, groups: list[OddGroup], tunnels: Tunnels, outcome: SetAside
    ) -> tuple[Packets, Buffer]:
        """(the packets inside these, with their EtherTypes; the buffer that holds them)."""
        inner = _Inner(len(buffer))
        with memoryview(buffer) as view:
            for odd, packets in groups:
                match odd:
                    case Odd.IPV4_FRAGMENT:
                        fragments = _ipv4_fragments(view, packets, tunnels)
                        self._reassemble(batch, fragments, ETHERTYPE_IPV4, inner)
                    case Odd.IPV6_FRAGMENT:
                        fragments = _ipv6_fragments(view, packets, tunnels)
                        self._reassemble(batch, fragments, ETHERTYPE_IPV6, inner)
                    case _:
                        _open_tunnels(view, OddGroup(odd, packets), tunnels, outcome, inner)
        outcome.late += self._fragments.take_problems()
        return inner.packets(), b"".join((buffer, *inner.datagrams)) if inner.datagrams else buffer

    def close(self) -> list[PacketProblem]:
        """Problems of incomplete datagrams at the end of the input."""
        return self._fragments.close()

    def _reassemble(
        self, batch: PacketBatch, fragments: Iterator[tuple[int, Fragment]], ethertype: int, inner: _Inner
    ) -> None:
        for row, fragment in fragments:
            place = FragmentPacket(batch.ordinal + row, int(batch.ts_ns[row]), int(batch.packet[row]))
            datagram = self._fragments.add(fragment, place)
            if datagram is not None:
                inner.add_datagram(row, datagram, ethertype)


def _spans(packets: Packets) -> Iterator[tuple[int, int, int, int]]:
    """(row, at, stop, end) of each packet."""
    columns = (packets.row, packets.at, packets.stop, packets.end)
    return zip(*(column.tolist() for column in columns), strict=True)


def _headers(packets: Packets) -> Iterator[bytes]:
    """The IP header of each packet, without options."""
    assert packets.network is not None
    return (header.tobytes() for header in packets.network)


def _ipv4_fragments(view: memoryview, packets: Packets, tunnels: Tunnels) -> Iterator[tuple[int, Fragment]]:
    """(row, fragment); the header of the datagram has length 0, which means up to its end."""
    for (row, at, stop, end), header in zip(_spans(packets), _headers(packets), strict=True):
        ip = read_header(dpkt.ip.IP, header)
        key = (tunnels.text(row), ip.src, ip.dst, ip.p, ip.id)
        whole = b""
        if ip.offset == 0:
            whole = dpkt.ip.IP(len=0, id=ip.id, p=ip.p, src=ip.src, dst=ip.dst).pack_hdr()
        yield row, Fragment(key, whole, ip.offset * UNIT, end - at, bool(ip.mf), bytes(view[at:stop]))


def _ipv6_fragments(view: memoryview, packets: Packets, tunnels: Tunnels) -> Iterator[tuple[int, Fragment]]:
    """(row, fragment); as ``_ipv4_fragments``, without the extension headers before the fragment header."""
    for (row, at, stop, end), header in zip(_spans(packets), _headers(packets), strict=True):
        ip = read_header(dpkt.ip6.IP6, header)
        part = read_header(dpkt.ip6.IP6FragmentHeader, bytes(view[at:stop]))
        key = (tunnels.text(row), ip.src, ip.dst, part.id)
        whole = b""
        if part.frag_off == 0:
            whole = dpkt.ip6.IP6(plen=0, nxt=part.nxt, src=ip.src, dst=ip.dst).pack_hdr()
        size = end - at - part.__hdr_len__
        yield row, Fragment(key, whole, part.frag_off * UNIT, size, bool(part.m_flag), part.data)


def _open_tunnels(view: memoryview, group: OddGroup, tunnels: Tunnels, outcome: SetAside, inner: _Inner) -> None:
    odd, packets = group
    read_head = HEAD_READERS[odd]
    cut: list[int] = []
    short: list[int] = []
    for row, at, stop, end in _spans(packets):
        try:
            inside = read_head(bytes(view[at : min(stop, at + HEAD_MAX)]))
        except (struct.error, dpkt.UnpackError):
            (cut if stop < end else short).append(row)
            continue
        if inside is None:
            outcome.skipped += 1
            continue
        tunnels.enter(row, inside.tunnel)
        inner.add(row, at + inside.size, stop, end, inside.ethertype)
    outcome.refuse(np.array(cut, np.int64), "truncated", f"the capture cut the packet inside its {odd.value} header")
    outcome.refuse(np.array(short, np.int64), "malformed", f"the packet ends inside its {odd.value} header")
