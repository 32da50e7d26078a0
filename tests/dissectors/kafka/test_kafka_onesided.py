"""Captures of requests alone: no answer ever comes, and what waits for one stays small (DESIGN, promise 4)."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterable, Iterator
from typing import Any

import kafkacraft as craft
import pytest

from mqsniff.decode.session import ProtocolSession
from mqsniff.dissector import WITH_RECORDS, Settings
from mqsniff.limits import MIB, Limits
from mqsniff.model import Chunk, ConnectionInfo, Item, Mark, Side
from mqsniff_kafka import Kafka


def talked(talk: ProtocolSession, requests: Iterable[bytes]) -> Iterator[Item]:
    offset = 0
    for number, request in enumerate(requests):
        yield from talk.take(Chunk(Side.CLIENT, offset, request, [Mark(offset, number, number, number)]))
        offset += len(request)


def held(requests: Iterable[bytes], **limits: int) -> int:
    """Bytes that a connection holds after so many requests."""
    settings = Settings(Limits(**limits), wanted=WITH_RECORDS)
    talk = ProtocolSession(Kafka(settings), settings, ConnectionInfo("id", "", "10.0.0.1", 1, "10.0.0.2", 9092, 0, 0))
    talk.begin(in_step=True)
    tracemalloc.start()
    try:
        for _ in talked(talk, requests):
            pass
        gc.collect()
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


def topics(number: int, partitions: int) -> list[dict[str, Any]]:
    pending = [{"partition": partition, "fetch_offset": 5} for partition in range(partitions)]
    return [{"topic": f"topic-{at}", "partitions": pending} for at in range(number)]


def fetches_of_a_session(count: int) -> Iterator[bytes]:
    yield craft.fetch(1, session=77, epoch=1, topics=topics(20, 100))
    for number in range(2, count):
        yield craft.fetch(number, session=77, epoch=number, topics=topics(1, 1))


def fetches_without_session(count: int) -> Iterator[bytes]:
    request = craft.fetch(1, session=0, epoch=-1, topics=topics(20, 20))
    return (request for _ in range(count))


def test_records_that_nobody_acknowledges_are_let_go():
    assert held((craft.produce(number, bytes(100_000)) for number in range(200)), records_wait_size=MIB) < 4 * MIB


@pytest.mark.parametrize("fetches", [fetches_of_a_session, fetches_without_session])
def test_fetches_that_nobody_answers_share_a_bounded_memory_of_their_partitions(fetches):
    few, many = (held(list(fetches(count)), handles_max=4000) for count in (50, 250))
    assert many < few + 200 * 6_000
