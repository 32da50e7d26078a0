"""NSQ traffic of any length as a pcap, the same on every run: ``python benchmarks/nsqtraffic.py PATH MB [--snappy]``.

1. A connection begins with MAGIC and IDENTIFY and leaves after ``ROUNDS`` rounds; another one takes its place. So the
   number of open connections does not depend on the length of the file.
2. In a round a producer says MPUB of ten messages (every fourth time ten PUBs), the broker answers; a consumer is given
   ten messages and finishes them. Bodies are JSON of 200 to 1000 bytes, about half of it noise.
3. Packets are what a tap sees: handshake, segments of at most 1448 bytes, acknowledgements of their own, FIN.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

from cramjam import snappy
from crc32c import crc32c
from tcptraffic import START_NS, Tcp, Writer

ROUNDS = 200
PAIRS = 8
BATCH = 10

OK = struct.pack(">ii2s", 6, 0, b"OK")
BODIES = 2000
"""Different bodies; they come again in random order, so that a large file is written in reasonable time."""


def frame(kind: int, data: bytes) -> bytes:
    """A frame of nsqd."""
    return struct.pack(">ii", len(data) + 4, kind) + data


def sized(data: bytes) -> bytes:
    """Bytes after their size."""
    return struct.pack(">i", len(data)) + data


def make_bodies(random: Random) -> list[bytes]:
    """Bodies as applications send them."""
    bodies = []
    for number in range(BODIES):
        size = random.randint(200, 1000)
        noise = random.randbytes(size // 4).hex()
        text = f'{{"order":{number},"customer":"c{number % 97}","status":"created","token":"{noise}","note":"'
        bodies.append(text.encode().ljust(size - 2, b"lorem ipsum dolor "[number % 18 :][:1])[: size - 2] + b'"}')
    return bodies


def snappy_chunks(data: bytes) -> Iterator[bytes]:
    """Data as compressed chunks of the framing format."""
    for at in range(0, len(data), 65_536):
        piece = data[at : at + 65_536]
        checksum = crc32c(piece)
        masked = ((checksum >> 15 | checksum << 17) + 0xA282EAD8) & 0xFFFFFFFF
        body = struct.pack("<I", masked) + bytes(snappy.compress_raw(piece))
        yield b"\0" + len(body).to_bytes(3, "little") + body


class Connection:
    """One connection and where its two streams stand."""

    def __init__(self, out: Writer, client_port: int, *, compressed: bool) -> None:
        self._tcp = Tcp(out, client_port, 4150)
        self._switched = False
        self._begun = [False, False]
        wish = (
            b'{"client_id":"bench","hostname":"bench","user_agent":"bench/1.0","feature_negotiation":true,"snappy":%s}'
        )
        flag = b"true" if compressed else b"false"
        self.say(0, b"  V2IDENTIFY\n" + sized(wish % flag))
        self.say(
            1, frame(0, b'{"max_rdy_count":2500,"version":"1.3.0","tls_v1":false,"deflate":false,"snappy":%s}' % flag)
        )
        if compressed:
            self._switched = True
            self.say(1, OK)

    def say(self, side: int, data: bytes) -> None:
        """Bytes that one side sends at once; the other acknowledges them."""
        if self._switched:
            begin = b"" if self._begun[side] else b"\xff\x06\0\0sNaPpY"
            self._begun[side] = True
            data = begin + b"".join(snappy_chunks(data))
        self._tcp.say(side, data)

    def leave(self) -> None:
        """Both sides close."""
        self._tcp.leave()


def write_nsq(path: Path, size: int, *, compressed: bool = False) -> int:
    """Write a capture of at least ``size`` bytes; the number of NSQ messages in it."""
    random = Random(7)
    bodies = make_bodies(random)
    messages = 0
    with path.open("wb") as file:
        out = Writer(file)
        generation = 0
        while out.size < size:
            first_port = 20_000 + generation * 2 * PAIRS % 40_000
            producers, consumers = (
                [Connection(out, first_port + 2 * pair + role, compressed=compressed) for pair in range(PAIRS)]
                for role in (0, 1)
            )
            for consumer in consumers:
                consumer.say(0, b"SUB orders billing\n")
                consumer.say(1, OK)
                consumer.say(0, b"RDY 200\n")
            for turn in range(ROUNDS):
                for producer, consumer in zip(producers, consumers, strict=True):
                    messages += play_round(producer, consumer, random.choices(bodies, k=BATCH), turn, out.size)
            for connection in producers + consumers:
                connection.leave()
            handshakes = 4 if compressed else 3
            messages += 2 * PAIRS * handshakes + 3 * PAIRS
            generation += 1
    return messages


def play_round(producer: Connection, consumer: Connection, bodies: list[bytes], turn: int, seed: int) -> int:
    """Ten messages published, delivered and finished; how many NSQ messages that took."""
    single = turn % 4 == 3
    if single:
        for body in bodies:
            producer.say(0, b"PUB orders\n" + sized(body))
            producer.say(1, OK)
    else:
        content = struct.pack(">i", len(bodies)) + b"".join(map(sized, bodies))
        producer.say(0, b"MPUB orders\n" + sized(content))
        producer.say(1, OK)
    ids = [b"%016x" % (seed * BATCH + number) for number in range(len(bodies))]
    consumer.say(
        1,
        b"".join(
            frame(2, struct.pack(">qH", START_NS + turn, 1) + message_id + body)
            for message_id, body in zip(ids, bodies, strict=True)
        ),
    )
    for at in range(0, len(ids), 2):
        consumer.say(0, b"".join(b"FIN %s\n" % message_id for message_id in ids[at : at + 2]))
    return (2 * len(bodies) if single else 2) + 2 * len(bodies)


def main() -> None:
    """Write a capture and print how many NSQ messages are in it."""
    path, mb, *options = sys.argv[1:]
    print(write_nsq(Path(path), int(mb) * 1_000_000, compressed="--snappy" in options))


if __name__ == "__main__":
    main()
