"""Compressed batches of a connection become no more plain bytes and records than its bytes and the free ones allow."""

from __future__ import annotations

import gzip
import struct

import kafkacraft as craft
import pytest
from crc32c import crc32c

from mqsniff.limits import KIB, Limits
from mqsniff.testing.conversations import chunks, client
from mqsniff.testing.driver import Driver
from mqsniff_kafka import Kafka

RECORD = bytes([12, 0, 0, 0, 1, 1, 0])


def counted(records: int) -> bytes:
    """Records of a producer, equal but for their offset deltas, which count up."""
    made = b""
    for delta in range(records):
        low, high = delta * 2 & 127, delta * 2 >> 7  # zigzag varint
        inside = b"\0\0" + (bytes([low | 128, high]) if high else bytes([low])) + b"\1\x10same one\0"
        made += bytes([2 * len(inside)]) + inside
    return made


def produce(correlation: int, records: int, plain: bytes | None = None) -> bytes:
    """A request with a batch of records; without ``plain`` they are empty and compress to nearly nothing."""
    packed = gzip.compress(RECORD * records if plain is None else plain, 9)
    checked = struct.pack(">hiqqqhii", 1, records - 1, 0, 0, -1, -1, -1, records) + packed
    batch = struct.pack(">qiibI", 0, 9 + len(checked), 0, 2, crc32c(checked)) + checked
    partition = {"index": 0, "records": batch}
    body = {"acks": 1, "timeout_ms": 1, "topic_data": [{"name": "t", "partition_data": [partition]}]}
    return craft.request(craft.PRODUCE, 3, correlation, body)


def driven(limits: Limits, requests: int, plain: bytes | None = None) -> tuple[int, list[str], int]:
    """(records, texts of limit problems, bytes on the wire) of so many requests of 3,000 records each."""
    said = [client(produce(number, 3_000, plain)) for number in range(requests)]
    driver = Driver(Kafka, limits)
    driver.run(chunks(said))
    texts = [problem.detail for message in driver.messages for problem in message.problems if problem.kind == "limit"]
    records = sum(batch.count for message in driver.messages for batch in message.records)
    return records, texts, sum(message.frame.size for message in driver.messages)


@pytest.mark.parametrize("requests", [4, 40])
def test_records_are_bounded_by_the_bytes_that_carry_them(requests):
    records, texts, wire = driven(Limits(records_free=5_000), requests)
    assert records <= 5_000 + wire
    assert texts
    assert all("record_cost" in text for text in texts)


@pytest.mark.parametrize("requests", [8, 40])
def test_plain_bytes_are_bounded_by_the_bytes_that_carry_them(requests):
    records, texts, wire = driven(
        Limits(inflate_free=64 * KIB, inflate_ratio=2, records_start=1 << 20, records_free=1 << 20), requests
    )
    assert records * len(RECORD) <= 64 * KIB + 2 * wire
    assert texts
    assert all("inflate_ratio" in text for text in texts)


def test_a_batch_of_many_equal_records_is_no_attack():
    assert driven(Limits(), 4, counted(3_000))[:2] == (12_000, [])
