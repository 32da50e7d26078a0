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
from mqsniff_kafka.records.batches import read_batches
from mqsniff_kafka.records.snapshots import (
    BegunRecords,
    JoinedSnapshot,
    Snapshots,
    drop_records,
    find_batch,
    is_metadata_log,
)

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


# ---- the first whole batch of a piece

ONE = record_batch(b"one", base=7)


@pytest.mark.parametrize(
    ("piece_", "start"),
    [
        (ONE, 0),
        (b"?" * 9 + ONE, 9),
        (bytes(40) + ONE + ONE, 40),
        (ONE[1:], None),
        (ONE[1:] + ONE, len(ONE) - 1),
        (ONE[:-1], None),
        (ONE[:-1] + b"?" + ONE, len(ONE)),
        (ONE[:16] + b"\1" + ONE[17:], None),
        (b"", None),
        (ONE[:61], None),
    ],
)
def test_the_first_whole_batch_is_the_first_with_a_right_checksum(piece_: bytes, start: int | None) -> None:
    assert find_batch(piece_) == start


def test_places_that_look_like_batches_are_tried_up_to_a_limit() -> None:
    false = bytearray(ONE)
    false[17] ^= 1
    for count, found in ((255, True), (256, False)):
        data = bytes(false) * count + ONE
        assert (find_batch(data) is not None) is found


def test_a_batch_that_is_smaller_than_its_head_is_none() -> None:
    head = bytes(8) + (48).to_bytes(4, "big") + ONE[12:61]
    assert find_batch(head[:60]) is None


def test_the_record_with_the_name_of_a_topic_is_known_by_its_type() -> None:
    assert [is_metadata_log(topic) for topic in ("__cluster_metadata", "@metadata", "orders", None)] == [
        *(True, True, False, False),
    ]


# ---- pieces of a snapshot


def reading_of(data: bytes, start: int = 0, **more: Any) -> Any:
    return read_batches(data, start, len(data), decompress_max=0, open_records=True, **more)


def test_the_first_piece_is_read_from_its_start_and_one_without_its_predecessor_from_its_first_batch() -> None:
    assert Snapshots().join("s", 0, ONE) == JoinedSnapshot(ONE)
    assert Snapshots().join("s", 50, b"?" * 9 + ONE) == JoinedSnapshot(b"?" * 9 + ONE, 9, 9)
    assert Snapshots().join("s", 50, b"?" * 9) is None


@pytest.mark.parametrize(("snapshot", "position", "joins"), [("s", 30, True), ("s", 31, False), ("t", 30, False)])
def test_a_piece_continues_the_one_before_it_if_it_is_the_next_of_the_same_snapshot(
    snapshot: str, position: int, *, joins: bool
) -> None:
    snapshots = Snapshots()
    first = snapshots.join("s", 0, ONE[:30])
    assert first is not None
    assert snapshots.follow("s", 30, first, reading_of(first.data)) == 30
    second = snapshots.join(snapshot, position, ONE[30:])
    assert (second is not None) is joins
    if second is not None:
        assert (second.data, second.start, second.unread) == (ONE, 0, 0)
        assert snapshots.follow("s", None, second, reading_of(second.data)) == 0


def test_pieces_wait_until_their_batch_is_whole() -> None:
    snapshots = Snapshots()
    first = snapshots.join("s", 0, ONE[:20])
    assert first is not None
    assert snapshots.follow("s", 20, first, reading_of(first.data)) == 20
    for at in range(20, len(ONE) - 1):
        joined = snapshots.join("s", at, ONE[at : at + 1])
        assert joined is not None
        assert (joined.data, joined.inside) == (b"", ONE[at : at + 1])
        assert snapshots.follow("s", at + 1, joined, reading_of(b"")) == at + 1
    last = snapshots.join("s", len(ONE) - 1, ONE[-1:])
    assert last is not None
    assert (last.data, last.inside) == (ONE, None)


def test_what_the_capture_cut_or_nothing_follows_is_not_waited_for() -> None:
    for position, lost in ((30, True), (None, False)):
        snapshots = Snapshots()
        first = snapshots.join("s", 0, ONE[:30])
        assert first is not None
        waiting = snapshots.follow("s", position, first, reading_of(ONE[:30], lost=lost))
        assert waiting == (0 if lost else 30)
        assert snapshots.join("s", 30, ONE[30:]) is None


@pytest.mark.parametrize(("size", "kept"), [(8 << 20, True), ((8 << 20) + 1, False)])
def test_a_batch_of_more_than_8_mib_is_not_waited_for(size: int, *, kept: bool) -> None:
    snapshots, begun = Snapshots(), bytes(8) + (size - 12).to_bytes(4, "big") + ONE[12:40]
    first = snapshots.join("s", 0, begun)
    assert first is not None
    snapshots.follow("s", 40, first, reading_of(begun))
    assert (snapshots.join("s", 40, b"more") is not None) is kept


TWO = record_batch(b"a" * 20, b"b" * 20, b"c" * 20, base=5)
"""Records of 27 bytes behind a head of 61."""


@pytest.mark.parametrize(("cut", "given"), [(61, 0), (87, 0), (88, 1), (114, 1), (115, 2), (141, 2)])
def test_records_of_a_batch_that_is_not_whole_are_those_that_end_in_its_bytes(cut: int, given: int) -> None:
    for step in (cut, 7, 1):
        records, count, found = BegunRecords(), 0, []
        for at in range(0, cut, step):
            reading = reading_of(TWO[:cut], lost=False)
            reading.begun, reading.batches = None, []
            left = reading.records_left
            records.add(reading, TWO[at : min(at + step, cut)])
            if reading.begun is not None:
                (batch,) = reading.records
                found += list(zip(batch.columns["record_index"], batch.columns["offset"], strict=True))
                assert reading.records_left == left - batch.count
                count += batch.count
        assert (count, records.given) == (given, given)
        assert found == [(index, 5 + index) for index in range(given)]


def test_no_more_records_of_such_a_batch_are_given_than_may_be() -> None:
    records, reading = BegunRecords(), reading_of(TWO[:141], lost=False)
    reading.begun, reading.batches, reading.records_left = None, [], 1
    records.add(reading, TWO[:141])
    assert (records.given, reading.records_left) == (1, 0)


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_records_that_were_given_before_are_left_out_of_the_whole_batch(count: int) -> None:
    reading = reading_of(TWO + TWO)
    drop_records(reading, count)
    first, second = (batch.records for batch in reading.batches)
    assert (first.count, second.count) == (3 - count, 3)
    assert list(first.columns["offset"]) == [5, 6, 7][count:]
    spans = zip(*first.values, strict=True)
    assert [first.data[start:stop] for start, stop in spans] == [b"a" * 20, b"b" * 20, b"c" * 20][count:]
    assert len(first.keys[0]) == 3 - count
    assert list(first.columns.get("record_index", [])) == ([0, 1, 2][count:] if count else [])
