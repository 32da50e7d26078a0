"""Snapshots of the metadata log, fetched piece by piece: the same records wherever they were cut."""

from __future__ import annotations

import base64
import random
from itertools import pairwise
from typing import Any

import kafkacraft as craft
import pytest
from kafkacraft import record_batch
from test_kafka_formats import SAMPLES

from mqsniff.model import Message, Secret, Undecoded
from mqsniff.testing.conversations import Say, chunks, client, server
from mqsniff.testing.driver import Driver
from mqsniff_kafka import Kafka

FETCH_SNAPSHOT = 59
LOG = "__cluster_metadata"
RECORDS = [bytes.fromhex(one["value"]) for one in SAMPLES["records"] if one["topic"] == LOG]
SNAPSHOT = b"".join(record_batch(*RECORDS[at : at + 2], base=at) for at in range(0, len(RECORDS), 2))
SNAPSHOT_ID = {"end_offset": 293, "epoch": 3}


def pending(correlation: int, position: int) -> bytes:
    partition = {"snapshot_id": SNAPSHOT_ID, "position": position}
    body = {"replica_id": 4, "topics": [{"name": LOG, "partitions": [partition]}]}
    return craft.request(FETCH_SNAPSHOT, 0, correlation, body)


def piece(correlation: int, start: int, stop: int, size: int = len(SNAPSHOT)) -> bytes:
    partition = {
        "snapshot_id": SNAPSHOT_ID,
        "size": size,
        "position": start,
        "unaligned_records": SNAPSHOT[start:stop],
    }
    return craft.response(FETCH_SNAPSHOT, 0, correlation, {"topics": [{"name": LOG, "partitions": [partition]}]})


def dialogue(cuts: list[int]) -> list[Say]:
    said: list[Say] = []
    for number, (start, stop) in enumerate(pairwise([0, *cuts, len(SNAPSHOT)])):
        said += [client(pending(number, start)), server(piece(number, start, stop))]
    return said


def answers(said: list[Say]) -> list[Message]:
    return [message for message in Driver(Kafka).run(chunks(said)).messages if message.kind == "response"]


def records(messages: list[Message]) -> list[tuple[int, bytes]]:
    found = []
    for message in messages:
        for batch in message.records:
            assert batch.values is not None
            spans = zip(*batch.values, strict=True)
            found += zip(batch.columns["offset"], [batch.data[start:stop] for start, stop in spans], strict=True)
    return found


def held(message: Message) -> Any:
    body: Any = message.body
    return body["topics"][0]["partitions"][0]["unaligned_records"]


@pytest.mark.parametrize("seed", range(20))
def test_records_are_the_same_wherever_a_snapshot_was_cut(seed: int) -> None:
    dice = random.Random(seed)
    cuts = sorted(dice.sample(range(1, len(SNAPSHOT)), dice.randint(0, 6)))
    found = records(answers(dialogue(cuts)))
    assert found == list(enumerate(RECORDS))


def test_a_piece_tells_its_batches_and_what_it_begins() -> None:
    first, second = answers(dialogue([len(SNAPSHOT) - 5]))
    assert held(first)["size"] == len(SNAPSHOT) - 5
    assert held(first)["begun"] > 0
    assert (held(second)["size"], len(held(second)["batches"]), held(second)["begun"]) == (5, 1, 0)
    (row,) = second.partitions
    assert (row["wire_bytes"], row["batches"]) == (5, 1)


def test_records_of_a_snapshot_were_read_by_a_follower_of_its_partition() -> None:
    for message in answers(dialogue([len(SNAPSHOT) // 2])):
        assert message.records
        for batch in message.records:
            told = {"topic": LOG, "partition": 0, "reader": "follower", "direction": "deliver"}
            assert batch.constant.items() >= told.items()


def test_topic_records_of_a_snapshot_teach_their_names() -> None:
    (record,) = [value for value in RECORDS if value[1] == 2]  # frame version | type | version | name | id | tags
    name, topic_id = record[4:8].decode(), base64.urlsafe_b64encode(record[8:24]).decode().rstrip("=")
    taught = [pair for message in answers(dialogue([len(SNAPSHOT) // 2])) for pair in message.teaches]
    assert taught == [(topic_id, name)]


def test_a_piece_whose_predecessor_was_not_seen_is_read_from_its_first_whole_batch_on() -> None:
    said = dialogue([50, 120])
    found = answers(said[:2] + said[4:])[1]
    assert held(found)["unread"] > 0
    first = held(found)["batches"][0]["base_offset"]
    assert first > 0
    assert records([found]) == list(enumerate(RECORDS))[first:]


def test_a_piece_without_a_whole_batch_and_a_predecessor_is_told_by_its_size() -> None:
    found = answers([client(pending(0, 50)), server(piece(0, 50, 90))])[0]
    assert held(found) == {"size": 40}
    assert found.records == ()


def test_records_are_given_as_far_as_a_piece_goes() -> None:
    given = []
    for cut in range(1, len(SNAPSHOT), 3):
        (first,) = answers([client(pending(0, 0)), server(piece(0, 0, cut))])
        assert records([first]) == list(enumerate(RECORDS))[: len(records([first]))]
        given.append(len(records([first])))
        (last,) = answers([client(pending(0, 0)), server(piece(0, 0, cut, cut))])
        assert records([last]) == records([first])
    assert given == sorted(given)
    assert set(given) >= set(range(len(RECORDS)))


def test_records_are_given_with_the_piece_in_which_they_end() -> None:
    big = record_batch(*RECORDS, base=0)
    ends, at = [], len(big)
    for value in reversed(RECORDS):
        ends.append(at)
        at -= len(record_batch(value)) - len(record_batch())
    pieces = []
    for number, start in enumerate(range(0, len(big), 30)):
        partition = {"snapshot_id": SNAPSHOT_ID, "size": len(big), "position": start}
        topics = [{"name": LOG, "partitions": [partition | {"unaligned_records": big[start : start + 30]}]}]
        answer = craft.response(FETCH_SNAPSHOT, 0, number, {"topics": topics})
        pieces += [client(pending(number, start)), server(answer)]
    found = answers(pieces)
    assert records(found) == list(enumerate(RECORDS))
    indexes = [index for message in found for batch in message.records for index in batch.columns["record_index"]]
    assert indexes == list(range(len(RECORDS)))
    told = [sum(batch.count for batch in message.records) for message in found]
    assert max(told[:-1]) > 0
    for number in range(len(found)):
        assert sum(told[: number + 1]) == sum(end <= 30 * (number + 1) for end in ends)


def test_records_of_a_piece_that_the_capture_cut_are_given_as_far_as_they_go() -> None:
    said = [client(pending(0, 0)), server(piece(0, 0, len(SNAPSHOT) - 5))]
    size = len(said[1].data)
    driver = Driver(Kafka).run(chunks(said, holes=((), ((size - 20, size),))))
    (message,) = [message for message in driver.messages if message.kind == "response"]
    assert len(records([message])) >= len(RECORDS) - 2
    assert [problem.kind for problem in message.problems][-1] == "truncated"


@pytest.mark.parametrize("lost", [False, True])
def test_the_bytes_of_a_piece_that_cannot_be_read_are_secret_where_they_might_be(lost: bool) -> None:
    driver = Driver(Kafka)
    start = len(SNAPSHOT) // 2 + 5 if lost else 0
    driver.run(chunks([client(pending(0, start)), server(piece(0, start, len(SNAPSHOT) - 3))]))
    (message,) = [one for one in driver.messages if one.kind == "response"]
    spans = [span for span in driver.dissector.spans(message.frame) if ".unaligned_records" in span.path]
    assert any(isinstance(span.value, Secret) for span in spans)
    assert not any(isinstance(span.value, Undecoded) for span in spans)


def test_a_snapshot_that_ends_inside_a_batch_is_malformed() -> None:
    cut = len(SNAPSHOT) - 1
    (whole,) = answers([client(pending(0, 0)), server(piece(0, 0, cut, cut))])
    assert [(problem.kind, problem.detail) for problem in whole.problems] == [("malformed", "a batch without its end")]
    (begun,) = answers([client(pending(0, 0)), server(piece(0, 0, cut))])
    assert not begun.problems


def test_a_batch_may_go_on_over_many_pieces() -> None:
    cuts = list(range(7, len(SNAPSHOT), 7))
    found = answers(dialogue(cuts))
    assert records(found) == list(enumerate(RECORDS))
    assert [held(message)["begun"] for message in found][-1] == 0
    assert not any(message.problems for message in found)


def test_the_last_piece_of_a_batch_that_never_ends_says_so() -> None:
    said = [client(pending(0, 0)), server(piece(0, 0, 20, 40)), client(pending(1, 20)), server(piece(1, 20, 40, 40))]
    assert [problem.detail for message in answers(said) for problem in message.problems] == ["a batch without its end"]
