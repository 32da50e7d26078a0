"""Captures that grow by one thing: ``python benchmarks/growthtraffic.py KIND PATH COUNT``.

1. ``packets``: acknowledgements of 20 connections, which say nothing.
2. ``topics``: produced records, each to a topic of its own, and their answers, on 20 connections.

Prints how many Kafka messages and rows of records it wrote. Messages, records and connections grow in captures of
``kafkatraffic.py`` and ``manyconnections.py``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from kafkatraffic import CLIENTS, PORT, one_record, produce_request, produce_response, template
from tcptraffic import Tcp, Writer

_NUMBER = b"HHHHHHHH"
"""Where the number of a topic stands in its name."""


def write_packets(tcps: list[Tcp], count: int) -> tuple[int, int]:
    """Packets without payload."""
    for number in range(count):
        tcps[number % CLIENTS].acknowledge(number // CLIENTS % 2)
    return 0, 0


def write_topics(tcps: list[Tcp], count: int) -> tuple[int, int]:
    """A record for each topic."""
    topic = f"topic-{_NUMBER.decode()}"
    put = template(produce_request(0, "client", topic, [one_record(0)]), 8, _NUMBER)
    done = template(produce_response(0, topic, [0]), 4, _NUMBER)
    for number in range(count):
        tcp, name = tcps[number % CLIENTS], b"%08d" % number
        tcp.say(0, put(number // CLIENTS, name))
        tcp.say(1, done(number // CLIENTS, name))
    return 2 * count, count


KINDS: dict[str, Callable[[list[Tcp], int], tuple[int, int]]] = {"packets": write_packets, "topics": write_topics}


def main() -> None:
    """Write what the command line asks for."""
    kind, path, count = sys.argv[1:]
    with Path(path).open("wb") as file:
        out = Writer(file)
        print(*KINDS[kind]([Tcp(out, 40_000 + number, PORT) for number in range(CLIENTS)], int(count)))


if __name__ == "__main__":
    main()
