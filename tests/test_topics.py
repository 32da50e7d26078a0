"""Names of topic ids: one rule for streams, finished tables and batch tasks, whatever was read or filled before."""

from __future__ import annotations

from dataclasses import replace

import pytest
from handmade import batch, frame, pub
from hypothesis import given, settings
from hypothesis import strategies as st

from mqsniff.topics import (
    MANY,
    NAMES_MAX,
    NOTED_MAX,
    FlowTopics,
    TopicDirectory,
    TopicHistory,
    final_topic,
    final_topics,
    note_topic,
    shows_other_names,
)

A, B, C = ("kafka", "A"), ("kafka", "B"), ("kafka", "C")
NAMES = {A: ("orders",), B: ("bills", "old-bills")}


def told(*rows):
    return [("kafka", topic_id, name, ts_ns) for topic_id, name, ts_ns in rows]


def test_the_name_with_the_smallest_time_counts_then_the_smallest_name():
    directory = TopicDirectory(told(("A", "late", 9), ("A", "b", 5), ("A", "a", 5), ("B", "x", 1)))
    assert directory.names[A][0] == "a"
    assert [(row.topic_id, row.name, row.ts_ns) for row in directory.final()] == [("A", "a", 5), ("B", "x", 1)]


def test_a_message_teaches_at_its_first_byte():
    directory = TopicDirectory()
    directory.learn(pub(teaches=(("A", "orders"),), frame=frame(at=500)))
    directory.learn(pub(teaches=(("A", "orders"),), frame=frame(at=200)))
    ((protocol, topic_id, name, ts_ns),) = directory.rows()
    assert (protocol, topic_id, name, ts_ns - frame().first_ts_ns) == ("nsq", "A", "orders", 200)


ROWS = st.tuples(st.sampled_from("AB"), st.text("abcdefghijklm", min_size=1, max_size=2), st.integers(0, 5))


@settings(max_examples=50)
@given(st.lists(ROWS, max_size=30), st.randoms())
def test_neither_order_nor_pieces_change_what_counts(rows, random):
    whole = TopicDirectory(told(*rows))
    shuffled = told(*rows)
    random.shuffle(shuffled)
    cut = random.randint(0, len(shuffled))
    pieces = TopicDirectory(shuffled[:cut])
    pieces.merge(TopicDirectory(shuffled[cut:]).rows())
    assert pieces.names == whole.names
    assert list(pieces.final()) == list(whole.final())


def test_names_of_one_id_are_limited():
    directory = TopicDirectory(told(*(("A", f"name-{at:03d}", 100 - at) for at in range(50))))
    assert len(directory.names[A]) == NAMES_MAX
    assert directory.names[A][0] == "name-049"


def test_ids_are_limited():
    directory = TopicDirectory(told(("A", "a", 1), ("B", "b", 2), ("C", "c", 3), ("A", "earlier", 0)), limit=2)
    assert directory.names == {A: ("earlier", "a"), B: ("b",)}


@pytest.mark.parametrize(
    ("topic", "key", "expected"),
    [
        (None, A, "orders"),
        ("orders", A, "orders"),
        ("old-bills", B, "bills"),
        ("written otherwise", B, "written otherwise"),
        (None, C, None),
        ("kept", C, "kept"),
    ],
)
def test_a_topic_gets_the_name_that_counts(topic, key, expected):
    assert final_topic(topic, key, NAMES) == expected
    assert final_topic(expected, key, NAMES) == expected


@pytest.mark.parametrize(
    ("topics", "keys", "expected"),
    [
        ((), (A, B), ("orders", "bills")),
        (("orders", "bills"), (A, B), ("orders", "bills")),
        (("own",), (A,), ("own", "orders")),
        (("old-bills", "own"), (B,), ("bills", "own")),
        ((), (C,), None),
        (("own",), (C,), ("own",)),
        (("orders",), (), ("orders",)),
    ],
)
def test_topics_get_the_names_that_count_behind_their_own(topics, keys, expected):
    assert final_topics(topics, keys, NAMES) == expected
    assert final_topics(expected or (), keys, NAMES) == expected


@settings(max_examples=50)
@given(
    st.dictionaries(st.sampled_from([A, B, C]), st.lists(st.sampled_from("xyz"), min_size=1, unique=True).map(tuple)),
    st.lists(st.sampled_from(["x", "y", "own"]), unique=True).map(tuple),
    st.lists(st.sampled_from([A, B, C]), unique=True).map(tuple),
)
def test_filling_again_changes_nothing(names, topics, keys):
    once = final_topics(topics, keys, names)
    assert final_topics(once or (), keys, names) == once


@settings(max_examples=50)
@given(
    st.dictionaries(st.sampled_from([A, B, C]), st.lists(st.sampled_from("xyz"), min_size=1, max_size=1).map(tuple)),
    st.sets(st.sampled_from([A, B, C])),
    st.lists(st.sampled_from(["own", "other"]), unique=True).map(tuple),
    st.permutations([A, B, C]),
)
def test_topics_have_the_same_order_whenever_their_names_were_learned(names, known_first, topics, keys):
    early = final_topics(topics, keys, {key: name for key, name in names.items() if key in known_first})
    assert final_topics(early or (), keys, names) == final_topics(topics, keys, names)


# ---- streams


def taught(names, *pairs, at=0):
    return [row.name for row in names.learn(pub(teaches=pairs, frame=frame(at=at)))]


def test_what_a_message_teaches_is_told_when_it_changes_what_counts():
    names = TopicDirectory()
    assert taught(names, ("a", "orders"), ("b", "bills"), ("a", "other"), at=50) == ["orders", "bills"]
    assert taught(names, ("a", "orders"), ("b", "later"), at=60) == []
    assert taught(names, ("a", "orders"), ("b", "earlier"), at=40) == ["earlier"]
    message = pub(topics=(), topic_ids=("a", "b"))
    names.fill_message(message)
    assert message.topics == ("orders", "earlier")
    assert names.known("nsq", "b") == "earlier"
    assert names.known("nsq", "c") is None


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_in_the_end_a_stream_knows_what_finished_tables_show(order):
    rows = [("orders", 5), ("bills", 5), ("old", 9)]
    names = TopicDirectory()
    for index in order:
        name, at = rows[index]
        taught(names, ("a", name), at=at)
    assert [row.name for row in names.final()] == [names.known("nsq", "a")] == ["bills"]


@pytest.mark.parametrize(
    ("topics", "topic_ids", "expected", "filled"),
    [
        ((), ("a",), ("orders",), 1),
        (("orders",), ("a",), ("orders",), 0),
        (("own",), ("a", "b"), ("own", "orders", "bills"), 2),
        (("own",), ("unknown", "b"), ("own", "bills"), 1),
        (("own",), (), ("own",), 0),
    ],
)
def test_a_message_tells_how_many_of_its_topics_were_filled(topics, topic_ids, expected, filled):
    names = TopicDirectory()
    taught(names, ("a", "orders"), ("b", "bills"))
    message = pub(topics=topics, topic_ids=topic_ids)
    names.fill_message(message)
    assert (message.topics, message.filled) == (expected, filled)


def test_partitions_and_records_keep_a_topic_that_they_have():
    names = TopicDirectory()
    taught(names, ("a", "orders"))
    rows = ({"topic_id": "a"}, {"topic": "own", "topic_id": "a"}, {"topic": None})
    records = (batch((None, b"v"), topic=None, topic_id="a"),)
    names.fill_message(pub(topic_ids=("a",), partitions=rows, records=records))
    assert [row["topic"] for row in rows] == ["orders", "own", None]
    assert records[0].constant["topic"] == "orders"


def test_records_that_leave_later_get_what_was_taught_meanwhile():
    names, records = TopicDirectory(), batch((None, b"v"), topic=None, topic_id="a")
    names.fill_records("nsq", records)
    assert records.constant["topic"] is None
    taught(names, ("a", "orders"))
    names.fill_records("kafka", records)
    assert records.constant["topic"] is None
    names.fill_records("nsq", records)
    assert records.constant["topic"] == "orders"


def test_no_more_ids_are_remembered_than_the_limit():
    names = TopicDirectory(limit=2)
    assert taught(names, ("a", "x"), ("b", "y"), ("c", "z"), ("a", "x"), ("d", "z")) == ["x", "y"]
    assert names.refused == 2


# ---- part files


def test_a_part_remembers_which_name_its_rows_show_for_an_id():
    noted = {}
    for topic in ("orders", "orders", None):
        note_topic(noted, A, topic)
    note_topic(noted, B, "bills")
    assert noted == {A: None, B: "bills"}
    assert shows_other_names(noted, NAMES)
    assert not shows_other_names({A: "orders", B: "bills", C: None}, NAMES)
    assert shows_other_names({B: "old-bills"}, NAMES)


def test_a_part_with_too_many_ids_may_show_any_name():
    noted = {("kafka", str(number)): "x" for number in range(NOTED_MAX)}
    note_topic(noted, A, "orders")
    note_topic(noted, ("kafka", "7"), "x")
    assert len(noted) == NOTED_MAX + 1
    assert shows_other_names(noted, {})
    assert MANY in noted


# ---- batch tasks

HISTORY = [
    ("kafka", "id", "late", 70, 70, 1),
    ("kafka", "id", "second", 60, 50, 9),
    ("kafka", "id", "first", 40, 60, 3),
    ("kafka", "other", "name", 60, 60, 2),
]


def known_at(history, when, topic_id="id", protocol="kafka"):
    return FlowTopics(history).at(when, protocol, [topic_id]).known(protocol, topic_id)


@pytest.mark.parametrize("rows", [HISTORY, HISTORY[::-1]])
@pytest.mark.parametrize(
    ("when", "expected"),
    [
        ((50, 8), None),
        ((50, 9), None),
        ((50, 10), "second"),
        ((60, 3), "second"),
        ((60, 4), "first"),
        ((99, 0), "first"),
    ],
)
def test_what_others_taught_is_known_behind_the_packet_that_taught_it(rows, when, expected):
    history = TopicHistory(TopicHistory(rows).rows())
    assert known_at(history, when) == expected
    assert known_at(history, when, protocol="pulsar") is None


def test_what_a_flow_taught_itself_is_known_at_once():
    history = TopicHistory(HISTORY)
    flow = FlowTopics(history)
    flow.learn(replace(pub(teaches=(("id", "own"), ("new", "mine"))), protocol="kafka"))
    found = flow.at((50, 9), "kafka", ["id", "new", "other"])
    assert [found.known("kafka", each) for each in ("id", "new", "other")] == ["own", "mine", None]


TAUGHT = st.lists(
    st.tuples(st.sampled_from("AB"), st.sampled_from("xyz"), st.integers(0, 5), st.integers(0, 9)),
    max_size=12,
    unique_by=lambda row: row[3],
)


@settings(max_examples=100)
@given(TAUGHT, st.integers(0, 10), st.integers(0, 12))
def test_a_task_knows_at_a_packet_what_one_process_knows_there(rows, packet, cut):
    dated = [("kafka", topic_id, name, ts_ns, 0, number) for topic_id, name, ts_ns, number in rows]
    history = TopicHistory(dated[:cut])
    history.merge(TopicHistory(dated[cut:]).rows())
    directory = TopicDirectory(row[:4] for row in dated if row[5] < packet)
    for topic_id in "AB":
        assert known_at(history, (0, packet), topic_id) == directory.known("kafka", topic_id)
