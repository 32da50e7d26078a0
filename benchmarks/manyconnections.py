"""A capture of many connections that say next to nothing: ``python benchmarks/manyconnections.py KIND FILE COUNT``.

1. syn: a SYN each, without an answer.
2. handshake: a handshake each, and silence.
3. request: one packet each, with a Kafka request (ApiVersions).
4. asked: a handshake each, then the request, without an answer.

Prints how many Kafka messages it wrote.
What `mqsniff decode` needs for them: ``/usr/bin/time -v mqsniff decode -o ndjson FILE > /dev/null``.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Final

REQUEST: Final = struct.pack(">ihhih3s", 13, 18, 0, 1, 3, b"one")
SERVER: Final = 0x0A000002
START_NS: Final = 1_795_253_930_000_000_000
STEP_NS: Final = 20_000
PORTS: Final = 60_000
SYN, PSH, ACK = 2, 8, 16


def packet(client: int, port: int, flags: int, *, answers: bool = False, sent: int = 0, data: bytes = b"") -> bytes:
    """A raw IPv4 packet of a client, or of the server to it."""
    ports = (9092, port) if answers else (port, 9092)
    ends = (SERVER, client) if answers else (client, SERVER)
    acked = (1000 + sent if answers else 5001) if flags & ACK else 0
    seq = (5000 if flags & SYN else 5001) if answers else (999 if flags & SYN else 1000)
    tcp = struct.pack(">HHIIBBHHH", *ports, seq, acked, 0x50, flags, 65535, 0, 0) + data
    return struct.pack(">BBHHHBBHII", 0x45, 0, 20 + len(tcp), 0, 0, 64, 6, 0, *ends) + tcp


def opening(client: int, port: int) -> list[bytes]:
    """A handshake."""
    return [
        packet(client, port, SYN),
        packet(client, port, SYN | ACK, answers=True),
        packet(client, port, ACK),
    ]


KINDS: Final[dict[str, Callable[[int, int], list[bytes]]]] = {
    "syn": lambda client, port: [packet(client, port, SYN)],
    "handshake": opening,
    "request": lambda client, port: [packet(client, port, PSH | ACK, data=REQUEST)],
    "asked": lambda client, port: [*opening(client, port), packet(client, port, PSH | ACK, data=REQUEST)],
}


def packets(kind: str, count: int) -> Iterator[bytes]:
    """The packets of all connections, one connection after the other."""
    for number in range(count):
        yield from KINDS[kind](0x0B000000 + number // PORTS, 1024 + number % PORTS)


def write(out: BinaryIO, kind: str, count: int) -> None:
    """Write the capture: nanosecond pcap of raw IP packets, 20 microseconds apart."""
    out.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 101))
    now_ns = START_NS
    for data in packets(kind, count):
        now_ns += STEP_NS
        seconds, rest = divmod(now_ns, 1_000_000_000)
        out.write(struct.pack("<IIII", seconds, rest, len(data), len(data)) + data)


if __name__ == "__main__":
    with Path(sys.argv[2]).open("wb") as made:
        write(made, sys.argv[1], int(sys.argv[3]))
    print(int(sys.argv[3]) if sys.argv[1] in ("request", "asked") else 0)
