"""How fast captures become PacketBatches: ``python benchmarks/sources.py [PACKETS]``.

Writes a pcap and a pcapng of 200-byte packets (and compressed copies) into a temporary folder, reads each three times,
and prints the best: packets a second, microseconds a packet, MB a second of the file as it lies on disk.
"""

from __future__ import annotations

import gzip
import struct
import sys
import tempfile
from pathlib import Path
from random import Random
from time import perf_counter

import lz4.frame
import zstandard

from mqsniff.sources.files import FileSource

PACKET_SIZE = 200
BODIES = Random(1).randbytes(1 << 16)


def packet(number: int) -> bytes:
    """Half constant, half noise, so that codecs have something to do."""
    at = number * 13 % (len(BODIES) - 100)
    return bytes(100) + BODIES[at : at + 100]


def write_pcap(path: Path, packets: int) -> None:
    """Microsecond pcap, little endian."""
    with path.open("wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262_144, 1))
        for number in range(packets):
            second, micro = divmod(number * 3, 1_000_000)
            file.write(struct.pack("<4I", 1_700_000_000 + second, micro, PACKET_SIZE, PACKET_SIZE) + packet(number))


def write_pcapng(path: Path, packets: int) -> None:
    """One section, one interface, nanoseconds, enhanced packet blocks with flags."""
    size = 32 + PACKET_SIZE + 12
    options = struct.pack("<HHIHH", 2, 4, 1, 0, 0)
    with path.open("wb") as file:
        file.write(struct.pack("<IIIHHqI", 0x0A0D0D0A, 28, 0x1A2B3C4D, 1, 0, -1, 28))
        file.write(struct.pack("<IIHHIHHB3xHHI", 1, 32, 1, 0, 262_144, 9, 1, 9, 0, 0, 32))
        for number in range(packets):
            ticks = 1_700_000_000_000_000_000 + number * 3000
            head = struct.pack("<7I", 6, size, 0, ticks >> 32, ticks & 0xFFFFFFFF, PACKET_SIZE, PACKET_SIZE)
            file.write(head + packet(number) + options + struct.pack("<I", size))


def measure(path: Path, packets: int) -> None:
    """Read a file three times and print the best."""
    best = float("inf")
    for _ in range(3):
        begin = perf_counter()
        count = sum(len(batch) for batch in FileSource([str(path)]).batches())
        best = min(best, perf_counter() - begin)
        assert count == packets, (path, count)
    rate, cost, size = packets / best / 1e6, best / packets * 1e6, path.stat().st_size / best / 1e6
    print(f"{path.name:16} {rate:6.2f} M packets/s {cost:6.3f} us {size:7.0f} MB/s")


def main() -> None:
    """Write, read, print."""
    packets = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        pcap, pcapng = Path(folder, "packets.pcap"), Path(folder, "packets.pcapng")
        write_pcap(pcap, packets)
        write_pcapng(pcapng, packets)
        plain = pcap.read_bytes()
        Path(folder, "packets.pcap.gz").write_bytes(gzip.compress(plain, 1))
        Path(folder, "packets.pcap.zst").write_bytes(zstandard.ZstdCompressor(1).compress(plain))
        Path(folder, "packets.pcap.lz4").write_bytes(lz4.frame.compress(plain))
        for path in sorted(Path(folder).iterdir()):
            measure(path, packets)


if __name__ == "__main__":
    main()
