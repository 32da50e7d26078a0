"""Names of topic ids: the order in which the traffic was read changes nothing, nor does what was filled before."""

from __future__ import annotations

import pytest
from handmade import frame, pub
from hypothesis import given, settings
from hypothesis import strategies as st

from mqsniff.tables.topics import NAMES_MAX, Teachings, final_topic, final_topics

A, B, C = ("kafka", "A"), ("kafka", "B"), ("kafka", "C")
NAMES = {A: ("orders",), B: ("bills", "old-bills")}


def told(*rows):
    return [("kafka", topic_id, name, ts_ns) for topic_id, name, ts_ns in rows]


def test_the_name_with_the_smallest_time_counts_then_the_smallest_name():
    teachings = Teachings(told(("A", "late", 9), ("A", "b", 5), ("A", "a", 5), ("B", "x", 1)))
    assert teachings.names[A][0] == "a"
    assert [(row.topic_id, row.name, row.ts_ns) for row in teachings.final()] == [("A", "a", 5), ("B", "x", 1)]


def test_a_message_teaches_at_its_first_byte():
    teachings = Teachings()
    teachings.learn(pub(teaches=(("A", "orders"),), frame=frame(at=500)))
    teachings.learn(pub(teaches=(("A", "orders"),), frame=frame(at=200)))
    ((protocol, topic_id, name, ts_ns),) = teachings.rows()
    assert (protocol, topic_id, name, ts_ns - frame().first_ts_ns) == ("nsq", "A", "orders", 200)


ROWS = st.tuples(st.sampled_from("AB"), st.text("abcdefghijklm", min_size=1, max_size=2), st.integers(0, 5))


@settings(max_examples=50)
@given(st.lists(ROWS, max_size=30), st.randoms())
def test_neither_order_nor_pieces_change_what_counts(rows, random):
    whole = Teachings(told(*rows))
    shuffled = told(*rows)
    random.shuffle(shuffled)
    cut = random.randint(0, len(shuffled))
    pieces = Teachings(shuffled[:cut])
    pieces.merge(Teachings(shuffled[cut:]).rows())
    assert pieces.names == whole.names
    assert list(pieces.final()) == list(whole.final())


def test_names_of_one_id_are_limited():
    teachings = Teachings(told(*(("A", f"name-{at:03d}", 100 - at) for at in range(50))))
    assert len(teachings.names[A]) == NAMES_MAX
    assert teachings.names[A][0] == "name-049"


def test_ids_are_limited():
    teachings = Teachings(told(("A", "a", 1), ("B", "b", 2), ("C", "c", 3), ("A", "earlier", 0)), limit=2)
    assert teachings.names == {A: ("earlier", "a"), B: ("b",)}


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
