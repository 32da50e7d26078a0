"""Captures, their packets and the TCP segments in them, as columns.

1. Packets are named as ``model.streams`` says.
2. ``ordinal`` gives the order: the position of a packet in the merged input, counted from 0.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from mqsniff.model.values import Problem

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Int64s: TypeAlias = "NDArray[np.int64]"
Int32s: TypeAlias = "NDArray[np.int32]"
Bytes8: TypeAlias = "NDArray[np.uint8]"
Buffer: TypeAlias = "bytes | bytearray | memoryview"


@dataclass(slots=True)
class CaptureInfo:
    """One input; filled while it is read."""

    index: int
    name: str
    format: str = "unknown"
    compression: str = ""
    taken: int = 0
    """Bytes of the file read so far, as they are there: compressed or not."""
    packets: int = 0
    dropped: int = 0
    """Packets that the capturing program lost, by its own count (pcapng, kernel)."""
    drops_told: bool = False
    """Whether it says how many; where it does not, 0 above means nothing."""
    linktypes: set[int] = field(default_factory=set)
    first_ts_ns: int | None = None
    last_ts_ns: int | None = None
    comments: list[str] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    """Address -> host name, from name-resolution blocks."""
    secrets: list[tuple[int, bytes]] = field(default_factory=list, repr=False)
    """(secrets type, data) of decryption-secrets blocks, kept for the TLS layer."""
    problems: list[Problem] = field(default_factory=list)
    scope: str = ""
    """What part of the traffic is captured, in words, where it was narrowed down for speed: every summary says it."""
    unreadable: str = ""
    """Why it could not be read at all (the command exits with 2); empty if it could."""


@dataclass(slots=True)
class PacketBatch:
    """Packets of one window, as columns of equal length n over one buffer; valid until the next batch is read."""

    buffer: Buffer
    ts_ns: Int64s
    start: Int64s
    """Index of a packet's first byte in ``buffer``."""
    caplen: Int64s
    """Bytes of the packet in the buffer."""
    wirelen: Int64s
    """Bytes it had on the wire."""
    linktype: Int32s
    packet: Int64s
    """``packet_id`` of each."""
    interface: Int32s
    """Interface inside its capture (pcapng), else 0."""
    ordinal: int
    """Ordinal of the first packet; the others follow one by one."""

    def __len__(self) -> int:
        return len(self.ts_ns)


class FlowKey(NamedTuple):
    """Two endpoints in byte order (low <= high) and the tunnel they were seen in ('' for none)."""

    tunnel: str
    low_ip: bytes
    low_port: int
    high_ip: bytes
    high_port: int


@dataclass(slots=True)
class SegmentBatch:
    """TCP segments of one batch in packet order, as columns of equal length over one buffer; valid as long as it is."""

    buffer: Buffer
    flows: list[FlowKey]
    flow: Int32s
    """Index into ``flows``."""
    direction: Int32s
    """0: sent by the low endpoint, 1: by the high one."""
    seq: Int64s
    ack: Int64s
    flags: Int32s
    """FIN 1, SYN 2, RST 4, PSH 8, ACK 16, URG 32; and 64 where the segment announces a window of zero."""
    start: Int64s
    """Index of the first payload byte in ``buffer``."""
    stop: Int64s
    """Index after the last captured payload byte."""
    size: Int64s
    """Payload bytes on the wire: more than ``stop - start`` where the snap length cut the packet."""
    ip_id: Int64s
    """Identification of IPv4; -1: none."""
    ts_ns: Int64s
    packet: Int64s
    ordinal: Int64s
    interface: Int32s
    problems: list[PacketProblem] = field(default_factory=list)
    """Packets that could not be parsed, and why."""
    skipped_packets: int = 0
    """Packets that are no TCP (ARP, UDP, …): counted, no problem."""

    def __len__(self) -> int:
        return len(self.seq)


class PacketProblem(NamedTuple):
    """A packet that could not be parsed."""

    ordinal: int
    ts_ns: int
    packet: int
    size: int
    problem: Problem
