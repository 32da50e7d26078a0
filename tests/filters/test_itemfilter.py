"""Which items the filters choose, and which part of them."""

from __future__ import annotations

from ipaddress import ip_network

import numpy as np
import pytest
from handmade import MILLISECOND, START, answer_to, batch, connection, frame, noticed, pub

from mqsniff.filters.itemfilter import NO_FILTERS, Filters, ItemFilter
from mqsniff.filters.recordfilter import OffsetRange
from mqsniff.model import (
    ClosedItem,
    Exchange,
    ExchangeItem,
    Message,
    MessageItem,
    OpenedItem,
    PartitionItem,
    Pending,
    Problem,
    ProblemItem,
    RecordItem,
    Side,
    TopicItem,
    packet_id,
)


def chosen(items, **options):
    chooser = ItemFilter(Filters(**options))
    return [out for item in items for out in chooser.choose(item)]


def fits(item, **options):
    return any(type(out) is type(item) for out in chosen([item], **options))


def failed_answer(question, **fields):
    response, pending = answer_to(question, error_name="E_BAD", **fields)
    response.error_code, response.error_count = None, 1
    return response, pending


CONNECTION = connection()
CONNECTION.identity.client_id, CONNECTION.identity.group = "gonsq", "ch"
PUB = MessageItem(CONNECTION, pub())
ANSWER, ASKED = answer_to(PUB.message)
FAILED, FAILED_ASKED = failed_answer(PUB.message)


def test_no_filters_choose_everything():
    assert not NO_FILTERS
    assert not Filters()
    assert Filters(errors=True)
    items = [OpenedItem(CONNECTION, START), PUB, noticed(), noticed(connection=None), ClosedItem(CONNECTION)]
    assert chosen(items) == items


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"protocols": ("nsq",)}, True),
        ({"protocols": ("kafka", "n*")}, True),
        ({"protocols": ("kafka",)}, False),
        ({"names": ("pub",)}, True),
        ({"names": ("MPUB",)}, False),
        ({"topics": ("retry",)}, True),
        ({"topics": ("ret*",)}, True),
        ({"topics": ("RETRY",)}, False),
        ({"groups": ("ch",)}, False),  # the connection's, which the message does not name
        ({"groups": ("x",)}, False),
        ({"clients": ("gonsq",)}, True),
        ({"clients": ("127.0.0.1",)}, True),
        ({"clients": ("127.0.0.1:57938",)}, True),
        ({"clients": ("127.0.0.1:4150",)}, False),
        ({"hosts": (ip_network("127.0.0.1/32"),)}, True),
        ({"hosts": (ip_network("127.0.0.0/8"),)}, True),
        ({"hosts": (ip_network("::1/128"), ip_network("10.0.0.0/8"))}, False),
        ({"ports": (4150,)}, True),
        ({"ports": (57938,)}, True),
        ({"ports": (9092,)}, False),
        ({"connections": ("c1",)}, True),
        ({"connections": ("x", "c")}, True),
        ({"connections": ("1",)}, False),
        ({"errors": True}, False),
        ({"from_ns": START}, True),
        ({"from_ns": START + 1}, False),
        ({"to_ns": START + 1}, True),
        ({"to_ns": START}, False),
        ({"from_ns": START - 5, "to_ns": START + 5, "topics": ("retry",), "ports": (4150,)}, True),
        ({"topics": ("retry",), "ports": (9092,)}, False),
        ({"partitions": (0,)}, False),
        ({"keys": (b"k",)}, False),
    ],
)
def test_a_message_meets_an_option_or_not(options, expected):
    assert fits(PUB, **options) is expected


@pytest.mark.parametrize(
    "message",
    [
        pub(error_code=3),
        pub(error_code=0, error_count=2),
        pub(error_name="E_BAD"),
        pub(problems=[Problem("malformed", "error", "cut")]),
    ],
)
def test_errors_are_codes_counts_names_and_what_could_not_be_decoded(message):
    assert fits(MessageItem(CONNECTION, message), errors=True)


@pytest.mark.parametrize(
    "message", [pub(error_code=0, error_name="NONE"), pub(problems=[Problem("clock", "warning", "odd")])]
)
def test_no_error_is_no_error(message):
    assert not fits(MessageItem(CONNECTION, message), errors=True)


def test_what_a_message_says_of_who_it_is_comes_before_what_the_connection_said():
    message = MessageItem(CONNECTION, pub(group="other", client_id="me"))
    assert fits(message, groups=("other",))
    assert not fits(message, groups=("ch",))
    assert fits(message, clients=("me",))


def test_an_answer_goes_by_the_name_and_topic_of_its_request_too():
    answer = MessageItem(CONNECTION, ANSWER)
    assert fits(answer, names=("PUB",), topics=("retry",))
    assert fits(answer, names=("RESPONSE",))
    assert not fits(answer, topics=("other",))
    assert not fits(answer, to_ns=START + 79_000)


def test_a_settlement_does_not_go_by_what_it_settles():
    pushed = pub()
    settled = Pending("m", "settlement", pushed.frame, message=pushed)
    fin = Message(frame(offset=99), "nsq", "FIN", "oneway", resolved=(settled,), answered=(settled,))
    settled.answer = fin
    assert not fits(MessageItem(CONNECTION, fin), names=("PUB",))


def test_an_exchange_meets_each_option_by_either_half():
    exchange = ExchangeItem(CONNECTION, Exchange(FAILED_ASKED, FAILED, "error"))
    assert fits(exchange, names=("PUB",), errors=True)
    assert fits(exchange, names=("RESPONSE",), topics=("retry",))
    assert fits(exchange, from_ns=START + 79_000)
    assert not fits(exchange, names=("SUB",))


@pytest.mark.parametrize(
    ("status", "expected"), [("unanswered", True), ("lost", True), ("ok", False), ("oneway", False)]
)
def test_an_exchange_without_answer_is_an_error_where_one_was_due(status, expected):
    assert fits(ExchangeItem(CONNECTION, Exchange(ASKED, None, status)), errors=True) is expected


def test_an_exchange_whose_question_nobody_decoded_goes_by_its_connection():
    exchange = ExchangeItem(CONNECTION, Exchange(Pending("q", "answer", frame()), None, "pending"))
    assert fits(exchange, protocols=("nsq",), ports=(4150,))
    assert not fits(exchange, topics=("retry",))


# ---- partitions and records

FETCH = Message(
    frame(Side.SERVER),
    "kafka",
    "Fetch",
    "response",
    topics=("orders", "payments"),
    partitions=(
        {"topic": "orders", "partition": 0, "offset": 10, "error_code": 0},
        {"topic": "orders", "partition": 1, "offset": 20, "error_code": 6},
        {"topic": "payments", "partition": 0, "offset": 30, "error_code": 0},
    ),
)


def fetched(topic, partition, *offsets):
    made = batch(*((b"k%d" % offset, b"v") for offset in offsets), topic=topic, partition=partition)
    made.columns["offset"] = np.array(offsets)
    made.headers = [[("n", b"%d" % offset)] for offset in offsets]
    return made


BATCHES = (fetched("orders", 0, 10, 11, 12), fetched("orders", 1, 20), fetched("payments", 0, 30, 31))
FETCH.records = BATCHES


def places(message):
    return [(row["topic"], row["partition"]) for row in message.partitions]


@pytest.mark.parametrize(
    ("options", "partitions", "records"),
    [
        ({"topics": ("orders",)}, [("orders", 0), ("orders", 1)], [10, 11, 12, 20]),
        ({"topics": ("orders", "pay*")}, [("orders", 0), ("orders", 1), ("payments", 0)], [10, 11, 12, 20, 30, 31]),
        ({"partitions": (0,)}, [("orders", 0), ("payments", 0)], [10, 11, 12, 30, 31]),
        ({"topics": ("orders",), "partitions": (0,)}, [("orders", 0)], [10, 11, 12]),
        ({"offsets": (OffsetRange(11, 20),)}, [("orders", 0), ("orders", 1)], [11, 12, 20]),
        ({"offsets": (OffsetRange(10, 10), OffsetRange(31, 31))}, [("orders", 0), ("payments", 0)], [10, 31]),
        ({"keys": (b"k12", b"k31")}, [("orders", 0), ("payments", 0)], [12, 31]),
        ({"keys": (b"k12",), "topics": ("orders",), "offsets": (OffsetRange(12, 99),)}, [("orders", 0)], [12]),
        ({"errors": True}, [("orders", 1)], [10, 11, 12, 20, 30, 31]),
    ],
)
def test_rows_of_other_topics_partitions_and_offsets_stay_behind(options, partitions, records):
    message = FETCH if "errors" not in options else pub_with_errors()
    items = [MessageItem(CONNECTION, message), *(RecordItem(CONNECTION, message, one) for one in message.records)]
    out = chosen(items, **options)
    assert places(out[0].message) == partitions
    recorded = [item.batch for item in out[1:]]
    assert [int(offset) for one in recorded for offset in one.columns["offset"]] == records
    assert [int(offset) for one in out[0].message.records for offset in one.columns["offset"]] == records


def pub_with_errors():
    message = Message(frame(Side.SERVER), "kafka", "Fetch", "response", error_code=6, error_count=1)
    message.partitions, message.records = FETCH.partitions, BATCHES
    return message


@pytest.mark.parametrize(
    "options",
    [
        {"topics": ("orders",), "partitions": (7,)},
        {"topics": ("payments",), "partitions": (1,)},
        {"topics": ("payments",), "offsets": (OffsetRange(10, 20),)},
        {"keys": (b"k30",), "partitions": (1,)},
        {"keys": (b"k3",)},
    ],
)
def test_topic_partition_offset_and_key_are_met_by_one_place_together(options):
    items = [MessageItem(CONNECTION, FETCH), *(RecordItem(CONNECTION, FETCH, one) for one in BATCHES)]
    assert chosen(items, **options) == []


def test_what_is_cut_away_stays_in_the_message_that_others_hold():
    (out,) = chosen([MessageItem(CONNECTION, FETCH)], topics=("payments",))
    assert out.message is not FETCH
    assert len(FETCH.partitions) == 3
    assert out.message.frame is FETCH.frame
    (whole,) = chosen([MessageItem(CONNECTION, FETCH)], topics=("orders", "payments"))
    assert whole.message is FETCH


def test_records_that_are_taken_out_keep_their_place_their_value_and_their_headers():
    (out,) = chosen([RecordItem(CONNECTION, FETCH, BATCHES[0])], keys=(b"k11",))
    taken = out.batch
    assert (taken.count, taken.columns["record_index"], taken.headers) == (1, [1], [[("n", b"11")]])
    assert type(taken.columns["offset"][0]) is int
    assert [taken.data[a:b] for a, b in zip(*taken.keys, strict=True)] == [b"k11"]
    assert [taken.data[a:b] for a, b in zip(*taken.values, strict=True)] == [b"v"]
    (again,) = chosen([out], offsets=(OffsetRange(11, 11),))
    assert again.batch is taken


def test_topics_and_partitions_may_be_columns_of_a_batch():
    pulled = batch((b"a", b"1"), (b"b", b"2"))
    pulled.columns = {"topic": ["orders", "retries"], "partition": [0, 1]}
    message = Message(frame(Side.SERVER), "rocketmq", "PULL_MESSAGE", "response", topics=("orders",), records=(pulled,))
    (out,) = chosen([RecordItem(CONNECTION, message, pulled)], topics=("orders",))
    assert out.batch.columns["topic"] == ["orders"]
    assert chosen([RecordItem(CONNECTION, message, pulled)], topics=("retries",), partitions=(0,)) == []


def test_a_batch_without_a_topic_goes_by_its_message():
    message = pub()
    assert fits(RecordItem(CONNECTION, message, batch((None, b"v"))), topics=("retry",))
    assert not fits(RecordItem(CONNECTION, message, batch((None, b"v"))), topics=("other",))


def test_a_topic_id_stands_for_a_name_that_nobody_taught():
    message = pub(
        topics=(), topic_ids=("AAAAAAAAAAAAAAAAAAAAAQ",), partitions=({"topic_id": "AAAAAAAAAAAAAAAAAAAAAQ"},)
    )
    assert fits(MessageItem(CONNECTION, message), topics=("AAAAAAAAAAAAAAAAAAAAAQ",))
    assert not fits(MessageItem(CONNECTION, message), topics=("orders",))


@pytest.mark.parametrize("pattern", ["orders", "orders-partition-3", "persistent://public/default/orders", "ord*"])
def test_a_pulsar_topic_is_found_by_its_last_part(pattern):
    message = pub(topics=("persistent://public/default/orders-partition-3",))
    assert fits(MessageItem(CONNECTION, message), topics=(pattern,))


def test_produced_records_come_with_errors_when_the_answer_refused_them():
    refused, taken = batch((b"k", b"v"), ack="failed"), batch((b"k", b"v"), ack="acked")
    assert fits(RecordItem(CONNECTION, pub(), refused), errors=True, topics=("retry",))
    assert not fits(RecordItem(CONNECTION, pub(), taken), errors=True)


# ---- connections, problems, topics

OTHER = connection("c2", 50000)


def test_a_connection_comes_with_its_first_message_and_only_then():
    items = [
        OpenedItem(CONNECTION, START),
        OpenedItem(OTHER, START),
        PUB,
        PUB,
        ClosedItem(OTHER),
        ClosedItem(CONNECTION),
    ]
    assert chosen(items, topics=("retry",), ports=(57938,)) == [items[0], PUB, PUB, items[5]]


def test_a_connection_comes_without_messages_where_it_meets_all_options_itself():
    items = [OpenedItem(CONNECTION, START), ClosedItem(CONNECTION)]
    assert chosen(items, protocols=("nsq",), clients=("gonsq",)) == items
    assert chosen(items, protocols=("kafka",)) == []
    assert chosen(items, protocols=("nsq",), names=("PUB",)) == []


@pytest.mark.parametrize(
    ("from_ms", "to_ms", "expected"), [(0, 1, True), (1500, 2000, True), (1501, 2000, False), (-9, 0, False)]
)
def test_a_connection_comes_when_it_lived_in_the_time(from_ms, to_ms, expected):
    times = {"from_ns": START + from_ms * MILLISECOND, "to_ns": START + to_ms * MILLISECOND}
    assert fits(ClosedItem(CONNECTION), **times) is expected


def test_refused_connections_are_errors():
    assert fits(ClosedItem(connection(outcome="refused")), errors=True)
    assert not fits(ClosedItem(CONNECTION), errors=True)


def test_what_a_connection_left_behind_is_forgotten_at_its_end():
    chooser = ItemFilter(Filters(names=("PUB",)))
    first = [
        out for item in (OpenedItem(CONNECTION, START), PUB, ClosedItem(CONNECTION)) for out in chooser.choose(item)
    ]
    assert len(first) == 3
    assert list(chooser.choose(ClosedItem(CONNECTION))) == []


def test_problems_come_with_their_message():
    problem = noticed(connection=CONNECTION, message=PUB.message)
    assert fits(problem, topics=("retry",))
    assert not fits(problem, topics=("other",))


def test_a_problem_without_message_goes_by_its_connection_its_severity_and_its_time():
    gap = noticed("gap", "error", connection=CONNECTION)
    assert fits(gap, ports=(4150,), errors=True)
    assert not fits(gap, topics=("retry",))
    assert not fits(noticed("clock", "info", connection=CONNECTION), errors=True)
    assert not fits(gap, from_ns=START + 1)


def test_a_problem_of_a_whole_input_always_comes():
    cut = ProblemItem(None, Problem("input", "error", "cut"), None, packet_id(0, 0))
    assert fits(cut, topics=("x",), ports=(1,))
    one_packet = ProblemItem(None, Problem("malformed", "error", "no IP"), START, packet_id(0, 7))
    assert not fits(one_packet, ports=(1,))
    assert fits(one_packet, errors=True)


def test_topic_names_go_by_name_id_and_protocol():
    taught = TopicItem("kafka", "AAAAAAAAAAAAAAAAAAAAAQ", "orders", START)
    assert fits(taught, topics=("orders",), ports=(1,))
    assert fits(taught, topics=("AAAA*",))
    assert not fits(taught, topics=("payments",))
    assert not fits(taught, protocols=("nsq",))


def test_what_a_condition_left_of_a_message_passes():
    assert fits(PartitionItem(CONNECTION, FETCH), topics=("elsewhere",))
