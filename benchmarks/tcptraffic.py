"""TCP as a tap sees it, for the traffic of the benchmarks: what two sides say in, packets of a pcap file out.

1. A connection begins with a handshake and ends with FINs; what is said goes in segments of at most 1448 bytes.
2. The client has the higher port; a packet comes every 20 microseconds.
3. ``LossyTcp`` loses segments on their way and sends them again, as a tap at the server sees it: what the client sends
   was lost before the tap (a hole, later filled), what the server sends after it (the same segment twice).
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterator
from random import Random
from typing import BinaryIO

MSS = 1448
FIN, SYN, PSH, ACK = 1, 2, 8, 16
START_NS = 1_795_253_930_000_000_000
STEP_NS = 20_000
REPAIR_AFTER = 12
"""Segments that a sender has on their way until the third duplicate acknowledgement makes it send again."""


class Writer:
    """A pcap file with a packet every 20 microseconds."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.ts_ns = START_NS
        self.size = 24
        self._ids = 0
        file.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262_144, 1))

    def packet(self, ports: tuple[int, int], seq: int, ack: int, flags: int, payload: bytes) -> None:
        """One Ethernet packet."""
        self.ts_ns += STEP_NS
        self._ids = self._ids + 1 & 0xFFFF
        size = 54 + len(payload)
        hosts = (b"\x0a\0\0\x01", b"\x0a\0\0\x02") if ports[1] < ports[0] else (b"\x0a\0\0\x02", b"\x0a\0\0\x01")
        head = struct.pack(
            "<IIII12sH",
            *divmod(self.ts_ns, 1_000_000_000),
            size,
            size,
            bytes(12),
            0x0008,
        )
        ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, size - 14, self._ids, 0x4000, 64, 6, 0, *hosts)
        tcp = struct.pack(">HHIIBBHHH", *ports, seq & 0xFFFFFFFF, ack & 0xFFFFFFFF, 0x50, flags, 502, 0, 0)
        self._file.write(head + ip + tcp + payload)
        self.size += 16 + size


class Tcp:
    """A connection and where its two streams stand: side 0 is the client, 1 the server."""

    def __init__(self, out: Writer, client_port: int, server_port: int) -> None:
        self._out = out
        self._ports = ((client_port, server_port), (server_port, client_port))
        self._seq = [client_port * 1000, client_port * 2000]
        for side, flags in ((0, SYN), (1, SYN | ACK), (0, ACK)):
            self._packet(side, flags, b"")

    def say(self, side: int, data: bytes) -> None:
        """Bytes that one side sends at once; the other acknowledges them."""
        for at in range(0, len(data), MSS):
            self._packet(side, PSH | ACK, data[at : at + MSS])
        if len(data) > MSS:
            self._packet(1 - side, ACK, b"")

    def acknowledge(self, side: int) -> None:
        """One side has nothing to say for a while, and acknowledges what it was told."""
        self._packet(side, ACK, b"")

    def leave(self) -> None:
        """Both sides close."""
        for side, flags in ((0, FIN | ACK), (1, FIN | ACK), (0, ACK)):
            self._packet(side, flags, b"")

    def _packet(self, side: int, flags: int, payload: bytes) -> None:
        ack = self._seq[1 - side] if flags & ACK else 0
        self._out.packet(self._ports[side], self._seq[side], ack, flags, payload)
        self._seq[side] = self._seq[side] + len(payload) + bool(flags & (SYN | FIN)) & 0xFFFFFFFF


class LossyTcp(Tcp):
    """A connection that loses some of its segments and repairs that, told step by step."""

    def __init__(self, out: Writer, client_port: int, server_port: int, random: Random, loss: float) -> None:
        super().__init__(out, client_port, server_port)
        self._random = random
        self._loss = loss

    def flight(self, side: int, data: bytes) -> Iterator[None]:
        """Bytes that one side sends at once; a step is a segment and what the other side says to it."""
        first, peer = self._seq[side], self._seq[1 - side]
        pieces = [(first + at, data[at : at + MSS]) for at in range(0, len(data), MSS)]
        heard = first
        repairs: deque[tuple[int, int, bytes]] = deque()
        waiting = deque(enumerate(pieces))
        while waiting or repairs:
            if repairs and (not waiting or repairs[0][0] <= waiting[0][0]):
                _, seq, piece = repairs.popleft()
                lost = False
            else:
                number, (seq, piece) = waiting.popleft()
                lost = self._random.random() < self._loss
                if lost:
                    repairs.append((number + REPAIR_AFTER, seq, piece))
            if side == 1 or not lost:
                self._out.packet(self._ports[side], seq, peer, PSH | ACK, piece)
            if lost:
                continue
            sent = waiting[0][1][0] if waiting else first + len(data)
            heard = min((repair[1] for repair in repairs), default=sent)
            if repairs or (seq - first) // MSS % 2:
                self._out.packet(self._ports[1 - side], peer, heard, ACK, b"")
            yield
        self._seq[side] = first + len(data) & 0xFFFFFFFF
