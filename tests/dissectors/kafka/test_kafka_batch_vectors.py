"""Record data that Kafka's own builder wrote, every magic, codec and kind of time, and what its cleaner left of it."""

from __future__ import annotations

from typing import Any

import pytest
from kafka_vectors import lines
from record_reading import read, rows

Line = dict[str, Any]

VECTORS = list(lines("batches-4.4.0"))


def name_of(line: Line) -> str:
    return str(line["what"])


def records_of(line: Line) -> list[tuple[Any, ...]]:
    return [
        (
            record["offset"],
            record["timestamp"] if record["timestamp"] >= 0 else None,
            raw(record["key"]),
            raw(record["value"]),
            [(key, raw(value)) for key, value in record["headers"]],
        )
        for batch in line["told"]
        for record in batch["records"]
    ]


def raw(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)


@pytest.mark.parametrize("line", VECTORS, ids=name_of)
def test_records_are_read_as_kafka_reads_them(line: Line) -> None:
    reading = read(bytes.fromhex(line["bytes"]))
    assert not reading.problems
    assert rows(reading) == records_of(line)


SAME = (
    "codec",
    "base_offset",
    "partition_leader_epoch",
    "max_timestamp",
    "producer_id",
    "producer_epoch",
    "base_sequence",
)
"""Fields of a head that have the same name for Kafka."""


@pytest.mark.parametrize("line", [line for line in VECTORS if line["told"][0]["magic"] == 2], ids=name_of)
def test_heads_of_batches_are_read_as_kafka_reads_them(line: Line) -> None:
    heads = [batch.head for batch in read(bytes.fromhex(line["bytes"])).batches]
    assert [{field: head[field] for field in SAME} for head in heads] == [
        {field: told[field] for field in SAME} for told in line["told"]
    ]
    for head, told in zip(heads, line["told"], strict=True):
        assert head["checksum_ok"] is True
        assert head["base_offset"] + head["last_offset_delta"] == told["last_offset"]
        assert bool(head["attributes"] & 0x08) == (told["timestamp_type"] == "LOG_APPEND_TIME")
        assert bool(head["attributes"] & 0x10) == told["transactional"]
        assert bool(head["attributes"] & 0x40) == ("delete_horizon" in told)
        assert head["base_timestamp"] == told.get("delete_horizon", head["base_timestamp"])


@pytest.mark.parametrize("line", VECTORS, ids=name_of)
def test_sequences_wrap_as_kafka_counts_them(line: Line) -> None:
    found: list[int] = []
    for records in read(bytes.fromhex(line["bytes"])).records:
        found += records.columns.get("sequence", [-1] * records.count)
    assert found == [record["sequence"] for told in line["told"] for record in told["records"]]
