"""Pulsar traffic of any length as a pcap, the same on every run: ``python benchmarks/pulsartraffic.py PATH MB``.

1. A connection opens a producer and a consumer and leaves after ``ROUNDS`` rounds; another one takes its place.
2. In a round the producer sends a batch of 50 messages (every fourth time ten messages one by one, every other batch
   compressed by LZ4); the broker tells where they are and delivers them; the consumer acknowledges and asks for more.
   Messages have a key, a property and a value of 100 to 1000 bytes, about half of it noise.
3. Packets are what a tap sees: handshake, segments of at most 1448 bytes, acknowledgements of their own, FIN.

It prints how many commands it wrote.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

import lz4.block
from tcptraffic import Tcp, Writer

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from pulsarcraft import (  # noqa: E402  # the path is set above
    TOPIC,
    batch,
    command,
    connect,
    connected,
    encoded,
    frame,
    framed,
    payload,
)

__all__ = ["batch", "encoded", "write"]

ROUNDS = 200
PAIRS = 8
BATCH = 50
SINGLES = 10
PAYLOADS = 200
"""Different payloads; they come again in random order, so that a large file is written in reasonable time."""


Fields = dict[str, object]


def make_value(random: Random) -> bytes:
    """A value as applications send them."""
    size = random.randint(100, 1000)
    noise = random.randbytes(size // 4).hex()
    return f'{{"order":{size},"status":"created","token":"{noise}","note":"'.encode().ljust(size - 2, b".") + b'"}'


def make_slot(random: Random, number: int) -> tuple[bytes, Fields]:
    """A message of a batch."""
    properties = [{"key": "source", "value": "orders"}]
    return make_value(random), {"partition_key": f"key-{number % 97}", "properties": properties, "sequence_id": number}


def make_payloads(random: Random) -> list[tuple[bytes, Fields]]:
    """Batches, every other one compressed, with what their metadata tell."""
    made = []
    for number in range(PAYLOADS):
        plain = batch(*(make_slot(random, n) for n in range(BATCH)))
        told: Fields = {
            "num_messages_in_batch": BATCH,
            "uncompressed_size": len(plain),
            "highest_sequence_id": BATCH - 1,
        }
        if number % 2:
            made.append((lz4.block.compress(plain, store_size=False), told | {"compression": "LZ4"}))
        else:
            made.append((plain, told))
    return made


class Connection:
    """One connection and where its two streams stand."""

    def __init__(self, out: Writer, client_port: int) -> None:
        self._tcp = Tcp(out, client_port, 6650)
        self._entry = 0
        self.say(0, connect())
        self.say(1, connected())
        self.say(0, frame("PRODUCER", topic=TOPIC, producer_id=1, request_id=1))
        self.say(1, frame("PRODUCER_SUCCESS", request_id=1, producer_name="standalone-0-1"))
        told = {"subscription": "billing", "sub_type": "Shared", "consumer_id": 1, "request_id": 2}
        self.say(0, frame("SUBSCRIBE", topic=TOPIC, **told))
        self.say(1, frame("SUCCESS", request_id=2))
        self.say(0, frame("FLOW", consumer_id=1, message_permits=1000))
        self.commands = 7

    def exchange(self, bodies: list[tuple[bytes, Fields]], metadata: Fields) -> None:
        """Some SENDs, and all that follows of them."""
        sends, answers, ids = [], [], []
        for data, told in bodies:
            count = told.get("num_messages_in_batch", 1)
            place = {"ledger_id": 7, "entry_id": self._entry}
            behind = payload(data, **metadata | told | {"sequence_id": self._entry})
            sent = command("SEND", producer_id=1, sequence_id=self._entry, **({"num_messages": count} if count else {}))
            sends.append(framed(sent, behind))
            answers.append(frame("SEND_RECEIPT", producer_id=1, sequence_id=self._entry, message_id=place))
            answers.append(framed(command("MESSAGE", consumer_id=1, message_id=place | {"partition": -1}), behind))
            ids.append(place)
            self._entry += 1
        self.say(0, b"".join(sends))
        self.say(1, b"".join(answers))
        acknowledged = frame("ACK", consumer_id=1, ack_type="Individual", message_id=ids)
        self.say(0, acknowledged + frame("FLOW", consumer_id=1, message_permits=BATCH))
        self.commands += 3 * len(bodies) + 2

    def say(self, side: int, data: bytes) -> None:
        """Bytes that one side sends at once; the other acknowledges them."""
        self._tcp.say(side, data)

    def leave(self) -> None:
        """Both sides close."""
        self._tcp.leave()


def write(path: Path, size: int) -> int:
    """Write at least ``size`` bytes; how many commands they hold."""
    random = Random(7)
    payloads, values = make_payloads(random), [(make_value(random), Fields()) for _ in range(PAYLOADS)]
    metadata: Fields = {"producer_name": "standalone-0-1", "publish_time": 1_795_253_930_000}
    commands = 0
    with path.open("wb") as file:
        out = Writer(file)
        ports = iter(range(20_000, 60_000))
        talking = [(Connection(out, next(ports)), ROUNDS) for _ in range(PAIRS)]
        for turn in _forever():
            connection, left = talking.pop(0)
            some = random.sample(values, SINGLES) if turn % 4 == 3 else [random.choice(payloads)]
            connection.exchange(some, metadata)
            if out.size < size and left:
                talking.append((connection, left - 1))
                continue
            connection.leave()
            commands += connection.commands
            if out.size < size:
                talking.append((Connection(out, next(ports)), ROUNDS))
            elif not talking:
                return commands
    return commands


def _forever() -> Iterator[int]:
    turn = 0
    while True:
        yield turn
        turn += 1


if __name__ == "__main__":
    print(write(Path(sys.argv[1]), int(sys.argv[2]) * 1_000_000))
