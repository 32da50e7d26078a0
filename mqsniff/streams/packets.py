"""Captured packets in, TCP segments out: ``PacketBatch`` -> ``SegmentBatch``, as NumPy columns over whole batches.

1. Every packet becomes one thing: a segment, a problem, one of ``skipped_packets``, or (a fragment) part of a datagram
   that waits or has become a segment. Nothing raises, whatever a packet claims.
2. All packets are decoded together, layer by layer; no Python code runs per packet. Fragments and tunnels are decoded
   one by one by ``oddpackets``, which is imported when the first of them comes.
3. Packets found inside others become columns again, so that Ethernet, IP and TCP are read by the same code at any
   depth.
4. Segments are in packet order over one buffer: that of the batch, or a copy with the reassembled datagrams appended.

Hot. Million packets per second on one core (AMD EPYC; a million packets of 200 bytes, windows of 8 MiB), cold / warm:
Ethernet with IPv4 5.0 / 13, with IPv6 3.9 / 8.9, SLL2 5.9 / 13; VXLAN, one by one, 0.6. To measure again, and what warm
means: ``benchmarks/packets.py``. The slow twin is ``tests/streams/dpkt_oracle.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from mqsniff.limits import Limits
from mqsniff.model import PACKET_BITS, Buffer, FlowKey, PacketBatch, PacketProblem, Problem, SegmentBatch
from mqsniff.streams.columns import Odd, Packets, SetAside, packet_problem
from mqsniff.streams.flowkeys import SegmentFlows, Tunnels, ipv4_flows, ipv6_flows
from mqsniff.streams.internet import identification, read_ipv4, read_ipv6
from mqsniff.streams.linklayers import (
    ETHERTYPE_BRIDGED,
    ETHERTYPE_IPV4,
    ETHERTYPE_IPV6,
    ETHERTYPE_PPPOE,
    ETHERTYPES_MPLS,
    LINK_LAYERS,
    read_ethernet,
)
from mqsniff.streams.transport import read_transport

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

    from mqsniff.model import Bytes8
    from mqsniff.streams.oddpackets import OddPackets

_IP_VERSIONS: Final = ((ETHERTYPE_IPV4, read_ipv4, ipv4_flows), (ETHERTYPE_IPV6, read_ipv6, ipv6_flows))
_ODD_ETHERTYPES: Final = {ETHERTYPE_PPPOE: Odd.PPPOE} | dict.fromkeys(ETHERTYPES_MPLS, Odd.MPLS)


class _VersionPart(NamedTuple):
    """Segments of one IP version from one pass; ``at`` is the start of their payload."""

    packets: Packets
    flows: SegmentFlows


class PacketDecoder:
    """Decodes packets; one for a run, as it holds waiting fragments and the link types that were reported."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._odd_packets: OddPackets | None = None
        self.odd_count = 0
        """Packets that were decoded one by one so far; a tunnel inside another counts again."""
        self._reported_links: set[tuple[int, int]] = set()

    def decode(self, batch: PacketBatch) -> SegmentBatch:
        """The segments of these packets; valid as long as the batch."""
        outcome = SetAside()
        if not len(batch):
            return _segments(batch, batch.buffer, [], outcome)
        raw = np.frombuffer(batch.buffer, np.uint8)
        parts = _read_parts(raw, self._read_links(raw, batch, outcome), None, outcome)
        buffer = self._decode_odd(batch, parts, outcome) if outcome.odd else batch.buffer
        return _segments(batch, buffer, parts, outcome)

    def close(self) -> list[PacketProblem]:
        """Problems of incomplete datagrams at the end of the input."""
        return [] if self._odd_packets is None else self._odd_packets.close()

    def _read_links(self, raw: Bytes8, batch: PacketBatch, outcome: SetAside) -> Packets:
        """The packets at their network headers."""
        stop = batch.start + batch.caplen
        end = batch.start + np.maximum(batch.caplen, batch.wirelen)
        packets = Packets(
            np.arange(len(batch), dtype=np.int64), batch.start, stop, end, batch.linktype.astype(np.int64)
        )
        parts = []
        for linktype in _different(packets.protocol):
            captured = packets.where(packets.protocol == linktype)
            read_link = LINK_LAYERS.get(linktype)
            if read_link is None:
                self._report_link(linktype, captured, batch, outcome)
            else:
                parts.append(read_link(raw, captured, outcome))
        return Packets.joined(parts) if parts else packets.where(np.zeros(len(packets), np.bool_))

    def _report_link(self, linktype: int, packets: Packets, batch: PacketBatch, outcome: SetAside) -> None:
        """One problem for each capture that has this link type, at its first packet."""
        outcome.skipped += len(packets)
        captures, first = np.unique(batch.packet[packets.row] >> PACKET_BITS, return_index=True)
        for capture, row in zip(captures.tolist(), packets.row[first].tolist(), strict=True):
            if (capture, linktype) not in self._reported_links:
                self._reported_links.add((capture, linktype))
                problem = Problem("input", "error", f"packets of link type {linktype} are not decoded")
                outcome.late.append(packet_problem(batch, row, problem))

    def _decode_odd(self, batch: PacketBatch, parts: list[_VersionPart], outcome: SetAside) -> Buffer:
        """Add the segments inside fragments and tunnels; returns the buffer that holds all segments."""
        if self._odd_packets is None:
            from mqsniff.streams.oddpackets import OddPackets  # noqa: PLC0415 - dpkt is needed by few captures

            self._odd_packets = OddPackets(self._limits)
        buffer = batch.buffer
        tunnels = Tunnels(len(batch))
        for _ in range(self._limits.tunnel_depth):
            groups, outcome.odd = outcome.odd, []
            self.odd_count += sum(len(packets) for _, packets in groups)
            packets, buffer = self._odd_packets.unwrap(batch, buffer, groups, tunnels, outcome)
            raw = np.frombuffer(buffer, np.uint8)
            parts += _read_parts(raw, _read_bridged(raw, packets, outcome), tunnels, outcome)
            if not outcome.odd:
                return buffer
        for _, packets in outcome.odd:
            outcome.refuse(packets.row, "limit", f"more than {self._limits.tunnel_depth} tunnels inside each other")
        return buffer


def _different(numbers: NDArray[np.int64]) -> list[int]:
    """The distinct numbers of a column that mostly has only one."""
    if (numbers == numbers[0]).all():
        return [int(numbers[0])]
    return [int(number) for number in np.unique(numbers)]


def _read_bridged(raw: Bytes8, packets: Packets, outcome: SetAside) -> Packets:
    """Skip the Ethernet headers of frames inside a tunnel."""
    bridged = packets.protocol == ETHERTYPE_BRIDGED
    return Packets.joined([packets.where(~bridged), read_ethernet(raw, packets.where(bridged), outcome)])


def _read_parts(raw: Bytes8, packets: Packets, tunnels: Tunnels | None, outcome: SetAside) -> list[_VersionPart]:
    """The segments among packets at their network headers."""
    parts = []
    known = 0
    for ethertype, read_ip, find_flows in _IP_VERSIONS:
        found = packets.where(packets.protocol == ethertype)
        known += len(found)
        if len(found):
            found = read_ip(raw, found, outcome, tunnelled=tunnels is not None)
            found = read_transport(raw, found, outcome)
        if len(found):
            parts.append(_VersionPart(found, find_flows(found, tunnels)))
        if known == len(packets):
            return parts
    for ethertype, odd in _ODD_ETHERTYPES.items():
        found = packets.where(packets.protocol == ethertype)
        known += len(found)
        outcome.leave(odd, found)
    outcome.skipped += len(packets) - known
    return parts


def _segments(batch: PacketBatch, buffer: Buffer, parts: list[_VersionPart], outcome: SetAside) -> SegmentBatch:
    """All parts in packet order."""
    row = _joined([part.packets.row for part in parts])
    order = None if (row[1:] > row[:-1]).all() else np.argsort(row)
    rows = row if order is None else row[order]

    def column(values: list[NDArray[Any]], kind: type[np.integer]) -> NDArray[Any]:
        whole = _joined(values)
        return (whole if order is None else whole[order]).astype(kind, copy=False)

    flows, flow = _merged([part.flows for part in parts])
    every = [part.packets for part in parts]
    return SegmentBatch(
        buffer=buffer,
        flows=flows,
        flow=column(flow, np.int32),
        direction=column([part.flows.direction for part in parts], np.int32),
        seq=column([packets.tcp("sequence") for packets in every], np.int64),
        ack=column([packets.tcp("acknowledgment") for packets in every], np.int64),
        flags=column([packets.tcp("flags") for packets in every], np.int32),
        start=column([np.minimum(packets.at, packets.stop) for packets in every], np.int64),
        stop=column([packets.stop for packets in every], np.int64),
        size=column([np.maximum(packets.end - packets.at, 0) for packets in every], np.int64),
        ip_id=column([identification(packets) for packets in every], np.int64),
        ts_ns=batch.ts_ns[rows],
        packet=batch.packet[rows],
        ordinal=batch.ordinal + rows,
        interface=batch.interface[rows],
        problems=outcome.problems(batch),
        skipped_packets=outcome.skipped,
    )


def _joined(values: list[NDArray[Any]]) -> NDArray[Any]:
    if not values:
        return np.empty(0, np.int64)
    return values[0] if len(values) == 1 else np.concatenate(values)


def _merged(parts: list[SegmentFlows]) -> tuple[list[FlowKey], list[NDArray[Any]]]:
    """One list of flows for all parts, and the flow column of each part."""
    if len(parts) == 1:
        return parts[0].keys, [parts[0].flow]
    numbers: dict[FlowKey, int] = {}
    columns = []
    for part in parts:
        number = np.array([numbers.setdefault(key, len(numbers)) for key in part.keys], np.int64)
        columns.append(number[part.flow])
    return list(numbers), columns
