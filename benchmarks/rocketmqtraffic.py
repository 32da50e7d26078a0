"""RocketMQ traffic of any length as a pcap, the same on every run: ``python benchmarks/rocketmqtraffic.py PATH MB``.

1. Eight pairs of a producer and a consumer talk to a broker; after ``ROUNDS`` rounds others take their place. Headers
   are JSON, Java's default; every fourth pair speaks the serialisation ROCKETMQ.
2. In a round the producer sends ``SENDS`` messages, each answered; the consumer pulls them at once, commits its offset
   and polls again, which finds nothing. Every ``HEARTBEAT_EVERY`` rounds both say a heartbeat.
3. Messages have KEYS, TAGS, UNIQ_KEY, WAIT and a property, and a JSON body of 100 to 1000 bytes, half of it noise.
4. Packets are as in ``nsqtraffic.py``. It prints how many frames it wrote.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from random import Random

from tcptraffic import Tcp, Writer

# in this order: tests/ has folders of the packages' names
sys.path.extend(str(Path(__file__).parents[1] / name) for name in ("", "tests"))

from remotingcraft import (
    BORN,
    HEARTBEAT,
    ONEWAY,
    RESPONSE,
    binary_frame,
    json_frame,
    properties,
    pull_fields,
    pull_result,
    send_fields,
    stored,
)

ROUNDS = 200
PAIRS = 8
SENDS = 16
HEARTBEAT_EVERY = 50
PORT = 10_911
HEARTBEAT_CODE, SEND, PULL, COMMIT = 34, 310, 11, 15
NOT_FOUND = 19

Fields = Mapping[str, object]
Answer = Callable[..., None]


class Connection:
    """One connection and where its two streams stand."""

    def __init__(self, out: Writer, client_port: int, *, binary: bool) -> None:
        self._tcp = Tcp(out, client_port, PORT)
        self._frame = binary_frame if binary else json_frame
        self._opaque = count(1)
        self.frames = 0

    def tell(self, code: int, ext: Fields | None, body: bytes = b"") -> None:
        """A request that is not answered."""
        self._tcp.say(0, self._frame(code, next(self._opaque), ext, body, flag=ONEWAY))
        self.frames += 1

    def ask(self, code: int, ext: Fields | None, body: bytes = b"") -> Answer:
        """A request; what it returns says the answer."""
        opaque = next(self._opaque)
        self._tcp.say(0, self._frame(code, opaque, ext, body))
        self.frames += 2

        def answered(told: Fields, found: bytes = b"", *, status: int = 0) -> None:
            self._tcp.say(1, self._frame(status, opaque, told, found, flag=RESPONSE))

        return answered

    def leave(self) -> None:
        """Both sides close."""
        self._tcp.leave()


class Queue:
    """A queue of a broker, with its producer and its consumer."""

    def __init__(self, out: Writer, number: int, ports: tuple[int, int], random: Random) -> None:
        self._random = random
        self._number = number
        self._offset = 0
        self._physical = number << 32
        self.producer, self.consumer = (Connection(out, port, binary=number % 4 == 3) for port in ports)

    def play(self, turn: int) -> None:
        """A round."""
        if turn % HEARTBEAT_EVERY == 0:
            for connection in (self.producer, self.consumer):
                connection.ask(HEARTBEAT_CODE, None, HEARTBEAT)({"IS_SUPPORT_HEART_BEAT_V2": "true"})
        place = {"queueId": self._number, "commitOffset": self._offset}
        pull = pull_fields(self._offset, **place)
        found = b"".join(self._send() for _ in range(SENDS))
        self.consumer.ask(PULL, pull)(pull_result(self._offset), found)
        place = {"queueId": self._number, "commitOffset": self._offset}
        self.consumer.tell(COMMIT, {"consumerGroup": "shop_c", "topic": "orders", **place})
        self.consumer.ask(PULL, pull_fields(self._offset, **place))(pull_result(self._offset), status=NOT_FOUND)

    def _send(self) -> bytes:
        """Send a message; as the broker stores it."""
        body, offset, physical = self._body(), self._offset, self._physical
        unique = f"{self._number:08X}{self._random.getrandbits(64):016X}{offset:08X}"
        text = properties(KEYS=f"order-{offset}", UNIQ_KEY=unique, WAIT="true", TAGS="created", source="shop")
        told: dict[str, object] = {"msgId": f"0A00000100002A9F{physical:016X}", "queueId": self._number}
        told |= {"queueOffset": offset, "MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}
        self.producer.ask(SEND, send_fields(e=self._number, g=BORN + offset, i=text), body)(told)
        kept = stored(body, text, queue=self._number, offset=offset, physical=physical)
        self._offset += 1
        self._physical += len(kept)
        return kept

    def _body(self) -> bytes:
        size = self._random.randint(100, 1000)
        noise = self._random.randbytes(size // 4).hex()
        text = f'{{"order":{size},"status":"created","token":"{noise}","note":"'
        return f'{text.ljust(size - 2, "x")}"}}'.encode()


def write(path: Path, size: int) -> int:
    """Write at least ``size`` bytes; how many frames they hold."""
    random, frames = Random(7), 0
    with path.open("wb") as file:
        out = Writer(file)
        for generation in count():
            first = 20_000 + generation * 2 * PAIRS % 40_000
            queues = [Queue(out, pair, (first + 2 * pair, first + 2 * pair + 1), random) for pair in range(PAIRS)]
            for turn in range(ROUNDS):
                for queue in queues:
                    queue.play(turn)
                if out.size >= size:
                    break
            for connection in (c for queue in queues for c in (queue.producer, queue.consumer)):
                connection.leave()
                frames += connection.frames
            if out.size >= size:
                break
    return frames


if __name__ == "__main__":
    print(write(Path(sys.argv[1]), int(sys.argv[2]) * 1_000_000))
