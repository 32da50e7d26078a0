"""Whether a broker let a request wait that allowed it: told of every answered one, by its time and what it says."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import Any

import kafkacraft as craft
import pytest
from kafkacraft import FETCH, JOIN_GROUP, SYNC_GROUP, TOPIC_ID, fetch, fetched, record_batch, request, response

from mqsniff.limits import MILLISECOND_NS, Limits
from mqsniff.model import Chunk, Mark, Side
from mqsniff.testing.driver import Driver
from mqsniff_kafka import Kafka

START_MS = 1_700_000_000_000
NOW = record_batch(b"v", base=5).replace((1000).to_bytes(8, "big"), (START_MS - 300).to_bytes(8, "big"))
OLD = record_batch(b"v", base=5)

Step = tuple[int, Side, bytes]
"""When (ms), who, what."""
CLIENT, SERVER = Side.CLIENT, Side.SERVER


def last_held(*steps: Step) -> bool | None:
    """``held`` of the question that the last step answers."""
    ends, numbers, chunks = [0, 0], count(), []
    for at, side, data in steps:
        number = next(numbers)
        mark = Mark(ends[side], (START_MS + at) * MILLISECOND_NS, number, number)
        chunks.append(Chunk(side, ends[side], data, [mark]))
        ends[side] += len(data)
    return Driver(Kafka).run(chunks).messages[-1].resolved[0].held


def asks(correlation: int = 1, version: int = 12, **given: Any) -> bytes:
    return fetch(correlation, version, topics=craft.ASKED, **{"min_bytes": 1} | given)


def answers(correlation: int = 1, records: bytes | None = OLD, watermark: int = 9, **given: Any) -> bytes:
    return fetched(correlation, records, high_watermark=watermark, **given)


@pytest.mark.parametrize(
    ("after", "answer", "held"),
    [
        (0, answers(), False),
        (20, answers(records=None), False),
        (21, answers(records=None), True),
        (501, answers(records=None), True),
        (21, answers(records=b""), True),
        (21, answers(records=NOW), True),
        (499, answers(records=NOW), True),
        (21, answers(records=OLD), False),
        (900, answers(records=OLD), False),
        (21, answers(records=b"", error_code=6), False),
        (100, answers(records=b"", error_code=6), False),
        (101, answers(records=b"", error_code=6), True),
    ],
)
def test_a_fetch_was_held_where_it_came_late_with_nothing_that_was_there(after: int, answer: bytes, held: bool) -> None:
    assert last_held((0, CLIENT, asks()), (after, SERVER, answer)) is held


@pytest.mark.parametrize(
    ("watermark", "given", "held"),
    [
        (5, {}, True),  # nothing after the offset that was asked for, as far as anybody knew
        (6, {}, False),
        (6, {"min_bytes": 2}, True),
        (6, {"isolation_level": 1}, True),
    ],
)
def test_what_the_answer_before_told_of_the_partition_counts_before_times(
    watermark: int, given: dict[str, Any], held: bool
) -> None:
    before: list[Step] = [(0, CLIENT, asks(1)), (1, SERVER, answers(1, b"", watermark))]
    for records in (OLD, NOW):
        assert last_held(*before, (2, CLIENT, asks(2, **given)), (99, SERVER, answers(2, records))) is held


def test_the_time_behind_another_answer_is_not_counted() -> None:
    steps: list[Step] = [(0, CLIENT, asks(1) + asks(2)), (400, SERVER, answers(1, b""))]
    assert last_held(*steps, (410, SERVER, answers(2, b""))) is False
    assert last_held(*steps, (430, SERVER, answers(2, b""))) is True


def test_a_short_limit_that_has_passed_was_waited_for() -> None:
    assert last_held((0, CLIENT, asks(max_wait_ms=10)), (8, SERVER, answers(records=b""))) is False
    assert last_held((0, CLIENT, asks(max_wait_ms=10)), (10, SERVER, answers(records=b""))) is True


def test_records_by_topic_id_are_known_by_their_partition_too() -> None:
    pending = [{"topic_id": TOPIC_ID, "partitions": [{"partition": 0, "fetch_offset": 5}]}]

    def says(correlation: int, records: bytes) -> bytes:
        partition = {"partition_index": 0, "high_watermark": 6, "records": records}
        return response(FETCH, 16, correlation, {"responses": [{"topic_id": TOPIC_ID, "partitions": [partition]}]})

    steps = [(at, CLIENT, fetch(at, 16, topics=pending, min_bytes=1)) for at in (0, 2)]
    assert last_held(steps[0], (1, SERVER, says(0, b"")), steps[1], (90, SERVER, says(2, NOW))) is False


@pytest.mark.parametrize(
    ("after", "error", "held"),
    [
        (10, 0, False),
        (30, 0, True),
        (30, 79, False),
        (3000, 79, False),
        (10, 27, False),
        (30, 27, True),
        (3000, 16, False),
    ],
)
@pytest.mark.parametrize("key", [JOIN_GROUP, SYNC_GROUP])
def test_a_member_waits_for_others_but_not_for_being_refused(key: int, after: int, error: int, held: bool) -> None:
    joining = {"group_id": "g", "rebalance_timeout_ms": 60_000}
    steps: list[Step] = [(0, CLIENT, request(JOIN_GROUP, 5, 1, joining))]
    if key == SYNC_GROUP:
        steps += [(0, SERVER, response(JOIN_GROUP, 5, 1)), (0, CLIENT, request(SYNC_GROUP, 3, 1, {"group_id": "g"}))]
    answer = response(key, 5 if key == JOIN_GROUP else 3, 1, {"error_code": error})
    assert last_held(*steps, (after, SERVER, answer)) is held


def test_an_answer_that_cannot_be_read_was_held_or_not_too() -> None:
    broken = craft.sized(bytes((0, 0, 0, 1)) + b"\xff" * 9)
    assert last_held((0, CLIENT, asks()), (10, SERVER, broken)) is False
    assert last_held((0, CLIENT, asks()), (30, SERVER, broken)) is True


def test_watermarks_are_kept_for_so_many_partitions() -> None:
    driver = Driver(Kafka, replace(Limits(), handles_max=3))
    sessions = driver.dissector._session._responses._shared.sessions
    said = [{"topic": f"t{number}", "partitions": [{"partition_index": 0, "high_watermark": 1}]} for number in range(9)]
    chunks = [
        Chunk(CLIENT, 0, fetch(1), [Mark(0, 0, 0, 0)]),
        Chunk(SERVER, 0, response(FETCH, 12, 1, {"responses": said}), [Mark(0, 1, 1, 1)]),
    ]
    assert len(driver.run(chunks).messages[-1].partitions) == 9
    assert len(sessions._watermarks) <= 3
