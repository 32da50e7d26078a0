"""Records of NSQ: what was produced and what was delivered, as columns over the frame's bytes."""

from __future__ import annotations

import struct

import pytest
from nsqcraft import MAGIC, OK, dpub, line, message, mpub, pub

from mqsniff.model import Problem, RecordBatch
from mqsniff.testing.conversations import START_NS, STEP_NS, chunks, client, server
from mqsniff.testing.driver import Driver
from mqsniff_nsq import Nsq
from mqsniff_nsq.publishing import Messages, batch_of, deliver_at, read_messages

ID = "18a2f48040acf000"


def batches(*dialogue) -> list[RecordBatch]:
    return [batch for message in Driver(Nsq).run(chunks(dialogue)).messages for batch in message.records]


def values(batch: RecordBatch) -> list[bytes]:
    assert batch.values is not None
    return [batch.data[start:stop] for start, stop in zip(*batch.values, strict=True)]


def test_each_message_of_an_mpub_is_a_record():
    (batch,) = batches(client(MAGIC), client(mpub("orders", b"a", b"", b"ccc")), server(OK))
    assert values(batch) == [b"a"]
    (batch,) = batches(client(MAGIC), client(mpub("orders", b"a", b"bb", b"ccc")), server(OK))
    assert (batch.count, values(batch)) == (3, [b"a", b"bb", b"ccc"])
    assert batch.columns == {"value_size": [1, 2, 3]}
    assert batch.constant == {"direction": "produce", "topic": "orders", "deliver_at_ts": None}


def test_a_deferred_record_is_due_when_its_time_is_over():
    (batch,) = batches(client(MAGIC), client(dpub("orders", 1500, b"later")))
    assert batch.constant["deliver_at_ts"] == START_NS + 2 * STEP_NS + 1_500_000_000
    assert values(batch) == [b"later"]


def test_a_time_to_defer_that_is_none_is_left_out():
    for time in ("soon", "-1", "9" * 18):
        (batch,) = batches(client(MAGIC), client(line("DPUB", "t", time) + b"\x00\x00\x00\x01x"))
        assert batch.constant["deliver_at_ts"] is None


def test_a_delivered_record_has_what_the_server_says_of_it():
    opening = client(MAGIC, line("SUB", "orders", "billing"))
    (batch,) = batches(opening, server(OK, message(ID, b"body\x00", 4, 1_700_000_000_000_000_001)))
    assert values(batch) == [b"body\x00"]
    assert batch.constant == {
        "direction": "deliver",
        "topic": "orders",
        "record_ts": 1_700_000_000_000_000_001,
        "attempts": 4,
        "message_id": ID,
    }


def test_the_records_of_a_question_can_be_reached_from_its_answer():
    driver = Driver(Nsq).run(chunks([client(MAGIC), client(pub("orders", b"x")), server(OK)]))
    (pending,) = [pending for pending in driver.messages[-1].resolved if pending.answer is not None]
    assert values(pending.message.records[0]) == [b"x"]


def test_partitions_count_what_was_carried():
    driver = Driver(Nsq).run(chunks([client(MAGIC), client(pub("a", b"12"), mpub("b", b"1", b"22", b"333"))]))
    assert [message.partitions for message in driver.messages[1:]] == [
        ({"topic": "a", "records": 1, "wire_bytes": 2},),
        ({"topic": "b", "records": 3, "wire_bytes": 6},),
    ]


def test_of_several_messages_of_a_wrong_size_the_first_is_named():
    sizes = [1, 1 << 21, 1 << 21]
    problems = list(Messages(3, sizes=sizes, starts=[0] * 3, stop=9).check(9, whole=True))
    assert [problem.path for problem in problems] == ["messages[1]"]


@pytest.mark.parametrize(
    ("defer_ms", "after_ns"),
    [(0, 0), (1, 1_000_000), ((1 << 40) - 1, ((1 << 40) - 1) * 1_000_000), (1 << 40, None), (-1, None), (None, None)],
)
def test_a_deferred_message_is_due_after_its_time_unless_nobody_can_mean_it(defer_ms, after_ns):
    assert deliver_at(START_NS, defer_ms) == (None if after_ns is None else START_NS + after_ns)


# ---- the body of an MPUB

BODY = b"head" + struct.pack(">i", 3) + struct.pack(">i", 1) + b"a" + struct.pack(">i", 2) + b"bb"
BODY += struct.pack(">i", 3) + b"ccc"
AT = 4
"""Where the body of the messages stands in it."""


@pytest.mark.parametrize("kept", range(AT, len(BODY) + 1))
def test_messages_of_a_body_are_read_as_far_as_their_sizes_are_there(kept):
    found = read_messages(BODY[:kept], AT, len(BODY), 9)
    if kept < AT + 4:
        assert found == Messages(None)
        return
    there = sum(kept >= stop for stop in (12, 17, 23))
    starts, sizes, stops = [12, 17, 23][:there], [1, 2, 3][:there], [4, 9, 15, 22]
    assert found == Messages(3, sizes, starts, stops[there])


@pytest.mark.parametrize(("most", "sizes", "limited"), [(3, [1, 2, 3], False), (2, [1, 2], True), (1, [1], True)])
def test_messages_are_read_up_to_a_limit(most, sizes, limited):
    found = read_messages(BODY, AT, len(BODY), most)
    assert (found.sizes, found.limited, found.refused, found.count) == (sizes, limited, False, 3)
    problems = [*found.check(22, whole=True)]
    told = [Problem("limit", "error", f"the first {most} messages are shown", "messages")] if limited else []
    assert problems == told


@pytest.mark.parametrize(("size", "refused"), [(0, True), (-1, True), (1, False), (2, True)])
def test_a_message_of_no_size_or_beyond_its_body_is_refused(size, refused):
    data = struct.pack(">ii", 1, size) + b"a"
    found = read_messages(data, 0, len(data), 9)
    assert found == Messages(1, [] if refused else [size], [] if refused else [8], 4 if refused else 9, refused)
    detail = "a message size that points past the end of the body"
    told = [Problem("out_of_range", "info", detail, "messages[0]")] if refused else []
    assert [*found.check(9, whole=True)] == told


COUNT_MAX = 1_048_575
"""A body of 5 MiB, the number, and messages of a byte with their sizes."""
MAX_MSG_SIZE = 1_048_576


@pytest.mark.parametrize(
    ("count", "odd"), [(0, True), (-1, True), (1, False), (COUNT_MAX, False), (COUNT_MAX + 1, True)]
)
def test_a_count_is_odd_where_no_body_can_hold_so_many(count, odd):
    told = [Problem("out_of_range", "info", f"a count of {count} messages", "num_messages")] if odd else []
    assert [*Messages(count, stop=4).check(9, whole=False)] == told


@pytest.mark.parametrize(
    ("body_size", "whole", "odd"), [(22, True, False), (23, True, True), (21, True, True), (23, False, False)]
)
def test_a_body_of_another_size_than_its_messages_is_odd_where_all_of_it_is_there(body_size, whole, odd):
    detail = "the size of the body differs from the sum of its messages; the messages are used"
    told = [Problem("format", "info", detail, "body_size")] if odd else []
    assert [*read_messages(BODY, AT, len(BODY), 9).check(body_size, whole=whole)] == told
    assert [*Messages(4, [1], [8], 9).check(22, whole=True)] == [], "some of its messages were not read"


def test_a_message_of_the_largest_size_is_none_too_many():
    detail = f"a size of {MAX_MSG_SIZE + 1}: {MAX_MSG_SIZE} are allowed by default"
    for size, told in (
        (MAX_MSG_SIZE, []),
        (MAX_MSG_SIZE + 1, [Problem("out_of_range", "info", detail, "messages[0]")]),
    ):
        assert [*Messages(1, [size], [8], 9).check(9, whole=True)] == told


def test_messages_of_equal_size_are_one_value_of_a_body():
    shown = Messages(3, [5, 7, 5]).body
    assert shown == [{"size": 5}, {"size": 7}, {"size": 5}]
    assert shown[0] is shown[2]


def test_of_messages_that_are_cut_the_captured_bytes_are_values():
    batch = batch_of(b"aabbb", [0, 2, 9], [2, 5, 4], {"topic": "t"})
    assert batch == RecordBatch(b"aabbb", 3, {"topic": "t"}, {"value_size": [2, 5, 4]}, None, ([0, 2, 5], [2, 5, 5]))
