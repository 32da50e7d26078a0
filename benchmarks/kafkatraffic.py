"""Kafka traffic as a pcap, the same on every run: ``python benchmarks/kafkatraffic.py MODE PATH …``.

1. ``small PATH REQUESTS SEED``: 20 connections take turns with heartbeats and produced single records, each answered;
   ``single`` is the same without heartbeats, ``even`` the same with a batch of 100 records of 100 bytes a request.
2. ``records PATH MB RECORDS SEED [CODEC]``: 10 producers and 10 consumers, a topic of three partitions a pair, the
   five codecs in turn (or one). In a round the producer has two requests with a full batch a partition on their way,
   then the consumer fetches all of it, so that every record is there twice. Rounds begin until there are so many MB and
   rows; the segments of the connections stand between each other, in bursts.
3. In ``records`` one segment in a hundred is lost and comes again (``tcptraffic.LossyTcp``). Nothing is missing then:
   a capture that itself lost one in a hundred would leave hardly a whole response, and nothing to compare.

All print how many Kafka messages and how many rows of records (produced and delivered) they wrote.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from itertools import islice
from pathlib import Path
from random import Random
from typing import TextIO

from kafkarecords import CODECS, Batch, Records, record, text
from tcptraffic import LossyTcp, Tcp, Writer
from tlstraffic import SealedLossyTcp

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from crc32c import crc32c  # noqa: E402
from kafkacraft import (  # noqa: E402  # the path is set above
    API_VERSIONS,
    FETCH,
    HEARTBEAT,
    METADATA,
    PRODUCE,
    request,
    response,
)

PORT = 9092
CLIENTS = 20
PAIRS = CLIENTS // 2
PARTITIONS = 3
REQUESTS = 2
"""Produce requests that a producer has on their way."""
NOW_MS = 1_795_253_930_000
LOSS = 0.01
EVEN = 100
"""Records of a batch in the mode ``even``."""
BURST = 16
"""Segments that a connection sends before others do."""
VERSIONS = {API_VERSIONS: 3, METADATA: 8, PRODUCE: 7, FETCH: 11, HEARTBEAT: 3}
"""Those before the flexible ones, which tshark 4.0 decodes too."""

Part = tuple[int, bytes]
"""Who says what."""


def ask(key: int, correlation: int, client: str, **given: object) -> bytes:
    """A request."""
    return request(key, VERSIONS[key], correlation, given, client)


def tell(key: int, correlation: int, **given: object) -> bytes:
    """A response."""
    return response(key, VERSIONS[key], correlation, given)


def greeting(client: str, topic: str) -> Iterator[Part]:
    """What a client asks first."""
    yield 0, ask(API_VERSIONS, 0, client, client_software_name="bench", client_software_version="1.0")
    offered = [{"api_key": key, "max_version": version} for key, version in sorted(VERSIONS.items())]
    yield 1, tell(API_VERSIONS, 0, api_keys=offered)
    yield 0, ask(METADATA, 1, client, topics=[{"name": topic}])
    led = [{"partition_index": n, "leader_id": 1, "replica_nodes": [1], "isr_nodes": [1]} for n in range(PARTITIONS)]
    brokers = [{"node_id": 1, "host": "broker-1", "port": PORT}]
    yield 1, tell(METADATA, 1, brokers=brokers, controller_id=1, topics=[{"name": topic, "partitions": led}])


def produce_request(correlation: int, client: str, topic: str, batches: Sequence[bytes]) -> bytes:
    """A batch for each partition, from 0 on."""
    told = [{"index": index, "records": batch} for index, batch in enumerate(batches)]
    topics = [{"name": topic, "partition_data": told}]
    return ask(PRODUCE, correlation, client, acks=-1, timeout_ms=30_000, topic_data=topics)


def produce_response(correlation: int, topic: str, offsets: Sequence[int]) -> bytes:
    """Where they went."""
    told = [{"index": index, "base_offset": at, "log_append_time_ms": -1} for index, at in enumerate(offsets)]
    return tell(PRODUCE, correlation, responses=[{"name": topic, "partition_responses": told}])


# ---- many small messages


def template(frame: bytes, correlation_at: int, hole: bytes = b"") -> Callable[[int, bytes], bytes]:
    """A frame as a function of its correlation id and of what stands in the place of ``hole``."""
    start, stop = correlation_at, correlation_at + 4
    before, _, behind = frame[stop:].partition(hole) if hole else (frame[stop:], b"", b"")
    return lambda correlation, inner: b"".join((frame[:start], struct.pack(">i", correlation), before, inner, behind))


def one_record(number: int) -> bytes:
    """A batch of one record, always of the same size."""
    value = b'{"order":"%07d","status":"created"}' % number
    body = record(0, 0, b"customer-%05d" % (number % 20_000), value, b"\0")
    checked = struct.pack(">hiqqqhii", 0, 0, NOW_MS, NOW_MS, -1, -1, -1, 1) + body
    return struct.pack(">qiibI", 0, len(checked) + 9, -1, 2, crc32c(checked)) + checked


def even_batch(number: int) -> bytes:
    """A batch of 100 records with values of 100 bytes, always of the same size."""
    value = b'{"order":"%07d","status":"created","customer":"Example St 1, Exampletown","amount":"%08d.00"}'
    body = b"".join(
        record(0, index, b"customer-%05d" % ((number + index) % 20_000), value % (number, index), b"\0")
        for index in range(EVEN)
    )
    checked = struct.pack(">hiqqqhii", 0, EVEN - 1, NOW_MS, NOW_MS, -1, -1, -1, EVEN) + body
    return struct.pack(">qiibI", 0, len(checked) + 9, -1, 2, crc32c(checked)) + checked


def small_client(tcp: Tcp, name: str, count: int, batch: Callable[[int], bytes], each: int) -> Iterator[None]:
    """A client that asks so many times; a step is a question and its answer. Every ``each``-th is a produced batch."""
    for side, data in greeting(name, "orders"):
        tcp.say(side, data)
    member = {"group_id": "billing", "generation_id": 7, "member_id": f"{name}-550e8400-e29b-41d4-a716-446655440000"}
    hole = (b"HOLE" * 5000)[: len(batch(0))]
    beat = template(ask(HEARTBEAT, 0, name, **member), 8)
    alive = template(tell(HEARTBEAT, 0), 4)
    put = template(produce_request(0, name, "orders", [hole]), 8, hole)
    done = template(produce_response(0, "orders", [struct.unpack(">q", hole[:8])[0]]), 4, hole[:8])
    for number in range(count):
        correlation = number + 2
        if number % each == each - 1:
            tcp.say(0, put(correlation, batch(number)))
            tcp.say(1, done(correlation, struct.pack(">q", number)))
        else:
            tcp.say(0, beat(correlation, b""))
            tcp.say(1, alive(correlation, b""))
        tcp.acknowledge(0)  # real captures of Kafka hold 0.6 such packets for each with payload
        yield
    tcp.leave()


def write_small(path: Path, requests: int, seed: int, mode: str) -> tuple[int, int]:
    """Write so many requests and their answers; (messages, rows of records)."""
    random = Random(seed)
    batch, count, step = (even_batch, EVEN, 1) if mode == "even" else (one_record, 1, 2 if mode == "small" else 1)
    with path.open("wb") as file:
        out = Writer(file)
        each = requests // CLIENTS
        clients = [small_client(Tcp(out, 40_000 + n, PORT), f"client-{n}", each, batch, step) for n in range(CLIENTS)]
        play(random, clients, 1)
    return CLIENTS * (2 * each + 4), CLIENTS * (each // step) * count


# ---- records


class Partition:
    """A partition's log, as far as its consumer has not read it."""

    def __init__(self, records: Records) -> None:
        self._records = records
        self.fetched = 0
        self.end = 0
        self._unread: list[bytes] = []

    def append(self, now_ms: int) -> tuple[Batch, int]:
        """The next batch of its producer, and where it begins."""
        batch, offset = self._records.batch(now_ms), self.end
        self._unread.append(batch.stored(offset))
        self.end += batch.records
        return batch, offset

    def fetch(self) -> bytes:
        """All that was not read yet."""
        data, self._unread, self.fetched = b"".join(self._unread), [], self.end
        return data


class Pair:
    """A producer and a consumer of one topic."""

    def __init__(
        self, out: Writer, number: int, codec: str, seed: int, words: bytes, *, keys: TextIO | None = None
    ) -> None:
        """``keys``: where the keys go that TLS has; None: no TLS."""
        random = Random(seed * 1000 + number)
        self._out = out
        self._topic = f"orders-{number}-{codec}"
        self._names = f"producer-{number}", f"consumer-{number}"
        ports = 40_000 + number, 50_000 + number
        tcp = LossyTcp if keys is None else partial(SealedLossyTcp, keys=keys)
        self._producer, self._consumer = (tcp(out, port, PORT, random, LOSS) for port in ports)
        made = (Records(random, words, codec, 1000 + number * PARTITIONS + n) for n in range(PARTITIONS))
        self._partitions = [Partition(records) for records in made]
        self._correlation = 2
        self.messages = 0
        self.records = 0

    def play(self, enough: Callable[[], bool]) -> Iterator[None]:
        """Everything that the two say, segment by segment."""
        for tcp, name in zip((self._producer, self._consumer), self._names, strict=True):
            yield from self._say(tcp, greeting(name, self._topic))
        while not enough():
            yield from self._say(self._producer, self._produce())
            yield from self._say(self._consumer, self._fetch())
            self._correlation += REQUESTS
        self._producer.leave()
        self._consumer.leave()

    def _say(self, tcp: LossyTcp, parts: Iterator[Part]) -> Iterator[None]:
        for side, data in parts:
            self.messages += 1
            yield from tcp.flight(side, data)

    def _produce(self) -> Iterator[Part]:
        answers = []
        for correlation in range(self._correlation, self._correlation + REQUESTS):
            taken = [partition.append(self._out.ts_ns // 1_000_000) for partition in self._partitions]
            self.records += 2 * sum(batch.records for batch, _ in taken)
            yield 0, produce_request(correlation, self._names[0], self._topic, [batch.data for batch, _ in taken])
            answers.append((correlation, [offset for _, offset in taken]))
        for correlation, offsets in answers:
            yield 1, produce_response(correlation, self._topic, offsets)

    def _fetch(self) -> Iterator[Part]:
        numbered = list(enumerate(self._partitions))
        places = [{"partition": n, "fetch_offset": p.fetched, "partition_max_bytes": 1 << 20} for n, p in numbered]
        wants = {"max_wait_ms": 500, "min_bytes": 1, "max_bytes": 50 << 20, "session_epoch": -1}
        topics = [{"topic": self._topic, "partitions": places}]
        yield 0, ask(FETCH, self._correlation, self._names[1], replica_id=-1, **wants, rack_id="", topics=topics)
        found = [{"partition_index": n, "high_watermark": p.end, "records": p.fetch()} for n, p in numbered]
        told = [one | {"last_stable_offset": -1, "preferred_read_replica": -1} for one in found]
        yield 1, tell(FETCH, self._correlation, responses=[{"topic": self._topic, "partitions": told}])


def write_records(
    path: Path, size: int, records: int, seed: int, codecs: Sequence[str], *, keys: TextIO | None = None
) -> tuple[int, int]:
    """Write at least so many bytes and rows of records; (messages, rows of records)."""
    random = Random(seed)
    words = text(random)
    with path.open("wb") as file:
        out = Writer(file)
        pairs = [Pair(out, number, codecs[number % len(codecs)], seed, words, keys=keys) for number in range(PAIRS)]

        def enough() -> bool:
            return out.size >= size and sum(pair.records for pair in pairs) >= records

        play(random, [pair.play(enough) for pair in pairs], BURST)
    return sum(pair.messages for pair in pairs), sum(pair.records for pair in pairs)


def play(random: Random, talks: list[Iterator[None]], burst: int) -> None:
    """Let talks that go step by step take turns."""
    while talks:
        talk = random.choice(talks)
        if sum(1 for _ in islice(talk, random.randint(1, burst))) == 0:
            talks.remove(talk)


def main() -> None:
    """Write what the command line asks for."""
    kind, path, *numbers = sys.argv[1:]
    if kind != "records":
        requests, seed = map(int, numbers)
        counts = write_small(Path(path), requests, seed, kind)
    else:
        mb, records, seed = map(int, numbers[:3])
        codecs = [each for each in numbers[3:] if each != "--tls"] or CODECS
        with Path(path).with_suffix(".keys").open("w") if "--tls" in numbers else nullcontext() as keys:
            counts = write_records(Path(path), mb * 1_000_000, records, seed, codecs, keys=keys)
    print(*counts)


if __name__ == "__main__":
    main()
