"""Answers that end before their end: ok only where all error codes were read, and the capture lost what is missing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import kafkacraft as craft
import pytest
from click.testing import CliRunner
from kafkacraft import FETCH, fetch, record_batch, request, response
from tinycapture import conversation, pcap

from mqsniff.cli import main
from mqsniff.decode.exchanges import Exchanges
from mqsniff.limits import Limits
from mqsniff.testing.conversations import chunks, client, server
from mqsniff.testing.driver import Driver
from mqsniff_kafka import Kafka

HELLO = [
    ("c", request(craft.API_VERSIONS, 3, 0)),
    ("s", response(craft.API_VERSIONS, 3, 0)),
]
CLOSE = 3


def answer(version: int, *partitions: dict[str, Any]) -> bytes:
    held = [{"partition_index": number} | one for number, one in enumerate(partitions)]
    return response(FETCH, version, 1, {"responses": [{"topic": "orders", "partitions": held}]})


def statuses(folder: Path, said: bytes, *, closed: bool) -> list[str]:
    """Of a fetch whose answer ends there, with its connection or with the capture."""
    packets = list(conversation([*HELLO, ("c", fetch(1)), ("s", said)], server=9092))
    path = folder / "one.pcap"
    path.write_bytes(pcap(packets if closed else packets[:-CLOSE]))
    result = CliRunner().invoke(main, ["decode", str(path), "-o", "ndjson", "--table", "exchanges"])
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    return [row["status"] for row in rows if row["name"] == "Fetch"]


@pytest.mark.parametrize(("closed", "status"), [(True, "unanswered"), (False, "pending")])
@pytest.mark.parametrize("size", [8, 60])
def test_an_answer_that_did_not_come_to_its_end_is_none(tmp_path: Path, closed: bool, status: str, size: int) -> None:
    whole = answer(12, {"records": record_batch(b"v" * 99)})
    assert statuses(tmp_path, whole, closed=closed) == ["ok"]
    assert statuses(tmp_path, whole[:size], closed=closed) == [status]


def lost_behind(whole: bytes, there: int, version: int) -> tuple[str, int | None]:
    """(status, error code) of a fetch of whose answer the capture has so many bytes."""
    said = [client(fetch(1, version)), server(whole, response(craft.HEARTBEAT, 4, 9))]
    driver = Driver(Kafka).run(chunks(said, holes=([], [(there, len(whole))])))
    message = next(one for one in driver.messages if one.kind == "response" and one.name == "Fetch")
    (done,) = Exchanges(Limits()).of(message)
    return done.status, message.error_code


@pytest.mark.parametrize("version", [1, 4, 7, 11, 12])
def test_what_the_capture_lost_is_missed_only_where_it_held_error_codes(version: int) -> None:
    records = {"records": record_batch(b"v" * 99)}
    one, two = answer(version, records), answer(version, records, {"error_code": 6})
    end = one.index(b"v" * 9)
    assert lost_behind(one, end, version) == ("ok", 0)
    assert lost_behind(one, one.index(b"orders") + 7, version)[0] == "lost"
    assert lost_behind(one, 8, version)[0] == "lost"
    assert lost_behind(two, end, version) == ("lost", 0)
    assert lost_behind(two, len(two) - 4, version) == ("partial", 6)


def test_an_answer_that_nobody_can_read_is_unseen() -> None:
    said = [
        client(craft.raw_request(10_001, 0, 1, b"vendor"), fetch(2)),
        server(craft.sized(bytes((0, 0, 0, 1)) + b"answer"), craft.sized(bytes((0, 0, 0, 2)) + b"\xff" * 9)),
    ]
    messages = Driver(Kafka).run(chunks(said)).messages
    assert [Exchanges(Limits()).of(message)[0].status for message in messages[2:]] == ["unseen", "unseen"]
