"""Records of NSQ: what was produced and what was delivered, as columns over the frame's bytes."""

from __future__ import annotations

import pytest
from nsqcraft import MAGIC, OK, dpub, line, message, mpub, pub

from mqsniff.model import RecordBatch
from mqsniff.testing.conversations import START_NS, STEP_NS, chunks, client, server
from mqsniff.testing.driver import Driver
from mqsniff_nsq import Nsq
from mqsniff_nsq.publishing import Messages, deliver_at

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
