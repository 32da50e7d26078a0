"""Bytes of packets -> PacketBatch as a source would give it, and SegmentBatch -> rows that tests can compare."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from mqsniff.limits import Limits
from mqsniff.model import FlowKey, PacketBatch, PacketProblem, SegmentBatch
from mqsniff.streams.packets import PacketDecoder

ETHERNET = 1
MACS = {"src": "02:00:00:00:00:01", "dst": "02:00:00:00:00:02"}
"""For scapy's Ethernet headers, which would ask the network for what they are not given."""


class Captured(NamedTuple):
    """A packet as it stands in a capture; ``wire_size`` is what it had before the snap length cut it."""

    data: bytes
    linktype: int = ETHERNET
    wire_size: int | None = None
    ts_ns: int = 0
    packet: int = 1
    interface: int = 0


class Segment(NamedTuple):
    """What one packet says of its TCP segment, in words."""

    tunnel: str
    source: tuple[bytes, int]
    destination: tuple[bytes, int]
    seq: int
    ack: int
    flags: int
    payload: bytes
    size: int
    ip_id: int


def batch_of(packets: Iterable[Captured | bytes], ordinal: int = 0, kind: type = bytes) -> PacketBatch:
    """One window; 0xEE stands between packets (never after the last), so that a byte read too far shows."""
    rows = [packet if isinstance(packet, Captured) else Captured(packet) for packet in packets]
    buffer, starts = b"", []
    for row in rows:
        buffer += b"\xee" * 16
        starts.append(len(buffer))
        buffer += row.data
    return PacketBatch(
        buffer=kind(buffer),
        ts_ns=np.array([row.ts_ns for row in rows], np.int64),
        start=np.array(starts, np.int64),
        caplen=np.array([len(row.data) for row in rows], np.int64),
        wirelen=np.array([len(row.data) if row.wire_size is None else row.wire_size for row in rows], np.int64),
        linktype=np.array([row.linktype for row in rows], np.int32),
        packet=np.array([row.packet for row in rows], np.int64),
        interface=np.array([row.interface for row in rows], np.int32),
        ordinal=ordinal,
    )


def decode(*packets: Captured | bytes, limits: Limits | None = None) -> SegmentBatch:
    """All packets in one batch, by a fresh decoder."""
    return PacketDecoder(limits or Limits()).decode(batch_of(packets))


def segments(batch: SegmentBatch) -> list[Segment]:
    """The rows of a batch in words."""
    view = memoryview(batch.buffer)
    rows = []
    for i, number in enumerate(batch.flow.tolist()):
        ends = endpoints(batch.flows[number])
        sent_by_high = int(batch.direction[i])
        rows.append(
            Segment(
                batch.flows[number].tunnel,
                ends[sent_by_high],
                ends[1 - sent_by_high],
                int(batch.seq[i]),
                int(batch.ack[i]),
                int(batch.flags[i]),
                bytes(view[int(batch.start[i]) : int(batch.stop[i])]),
                int(batch.size[i]),
                int(batch.ip_id[i]),
            )
        )
    return rows


def endpoints(key: FlowKey) -> tuple[tuple[bytes, int], tuple[bytes, int]]:
    """(low, high)."""
    return (key.low_ip, key.low_port), (key.high_ip, key.high_port)


def kinds(problems: Sequence[PacketProblem]) -> list[str]:
    """What kinds of problems, in their order."""
    return [problem.problem.kind for problem in problems]
