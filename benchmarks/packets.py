"""How many packets a second become segments, on one core: ``OPENBLAS_NUM_THREADS=1 python benchmarks/packets.py``.

A million packets of 200 bytes of a few hundred connections in windows of 8 MiB, as records of a capture lie in them
(16 bytes of record header before each); the best of five passes is printed for each kind of packet. Kinds are
measured one after the other in one process: the first one also pays for pages that the allocator gives back and asks
for again, until it has learned how much is needed; name one kind alone to see it cold.
"""

from __future__ import annotations

import struct
import sys
import time
from collections.abc import Iterator

import numpy as np

from mqsniff.limits import MIB, Limits
from mqsniff.model import PacketBatch
from mqsniff.streams.packets import PacketDecoder

PACKETS = 1_000_000
SIZE = 200
RECORD_HEADER = 16
WINDOW = 8 * MIB
CONNECTIONS = 500
PASSES = 5
KINDS = ("ethernet-ipv4", "ethernet-ipv6", "sll2-ipv4", "vxlan")

ETHERNET = bytes(12) + b"\x08\x00"
ETHERNET_IPV6 = bytes(12) + b"\x86\xdd"
SLL2 = b"\x08\x00" + bytes(18)
OUTER = 14 + 20 + 8 + 8


def ipv4(size: int, protocol: int, payload: bytes, host: int) -> bytes:
    """A packet that says it is ``size`` bytes long."""
    addresses = struct.pack("!4s4s", struct.pack("!I", 0x0A000000 + host), b"\x0a\x01\x00\x01")
    return struct.pack("!BBHHHBBH", 0x45, 0, size, host, 0x4000, 64, protocol, 0) + addresses + payload


def ipv6(size: int, payload: bytes, host: int) -> bytes:
    """As ``ipv4``."""
    addresses = struct.pack("!12xI", host) + struct.pack("!12xI", 0xFFFFFFFF)
    return struct.pack("!IHBB", 0x60000000, size - 40, 6, 64) + addresses + payload


def tcp(connection: int) -> bytes:
    """A header without options."""
    return struct.pack("!HHIIBBHHH", 40_000 + connection, 9092, connection, 0, 0x50, 0x10, 512, 0, 0)


def packet(kind: str, connection: int) -> tuple[int, bytes]:
    """(link type, bytes) of a packet of this connection."""
    segment = tcp(connection)
    match kind:
        case "ethernet-ipv4":
            return 1, ETHERNET + ipv4(SIZE - 14, 6, segment, connection)
        case "ethernet-ipv6":
            return 1, ETHERNET_IPV6 + ipv6(SIZE - 14, segment, connection)
        case "sll2-ipv4":
            return 276, SLL2 + ipv4(SIZE - 20, 6, segment, connection)
        case _:
            inner = ETHERNET + ipv4(SIZE - OUTER - 14, 6, segment, connection)
            vxlan = struct.pack("!HHHHII", 50_000, 4789, SIZE - 34, 0, 0x08000000, 42 << 8)
            return 1, ETHERNET + ipv4(SIZE - 14, 17, vxlan, connection) + inner


def batches(kind: str) -> Iterator[PacketBatch]:
    """Windows of one kind of packet; the connections take turns at random."""
    count = WINDOW // (SIZE + RECORD_HEADER)
    linktype = packet(kind, 0)[0]
    variants = [bytes(RECORD_HEADER) + packet(kind, number)[1].ljust(SIZE, b"x") for number in range(CONNECTIONS)]
    turns = np.random.default_rng(1).integers(0, CONNECTIONS, count)
    window = b"".join(variants[turn] for turn in turns.tolist())
    for first in range(0, PACKETS, count):
        n = min(count, PACKETS - first)
        rows = np.arange(n, dtype=np.int64)
        yield PacketBatch(
            buffer=window,
            ts_ns=(first + rows) * 1000,
            start=rows * (SIZE + RECORD_HEADER) + RECORD_HEADER,
            caplen=np.full(n, SIZE, np.int64),
            wirelen=np.full(n, SIZE, np.int64),
            linktype=np.full(n, linktype, np.int32),
            packet=first + rows + 1,
            interface=np.zeros(n, np.int32),
            ordinal=first,
        )


def rate(kind: str) -> float:
    """Packets a second of one kind: the best of ``PASSES``."""
    windows = list(batches(kind))
    best = float("inf")
    for _ in range(PASSES):
        decoder = PacketDecoder(Limits())
        started = time.process_time()
        segments = sum(len(decoder.decode(window)) for window in windows)
        best = min(best, time.process_time() - started)
    assert segments == PACKETS, f"{segments} segments of {PACKETS} packets"
    return PACKETS / best


def main() -> None:
    """Print a line for each kind of packet, or for those named on the command line."""
    for kind in sys.argv[1:] or KINDS:
        print(f"{kind:16} {rate(kind) / 1e6:6.2f} M packets/s")


if __name__ == "__main__":
    main()
