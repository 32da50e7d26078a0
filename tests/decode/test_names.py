"""Topic names of a stream: what was taught fills what comes later, wherever a row names the id."""

from __future__ import annotations

import pytest
from handmade import batch, pub

from mqsniff.decode.names import TopicNames


def taught(names, *pairs):
    return [row.name for row in names.learn(pub(teaches=pairs))]


def test_the_first_name_taught_stays():
    names = TopicNames(10)
    assert taught(names, ("a", "orders"), ("b", "bills"), ("a", "other")) == ["orders", "bills"]
    assert taught(names, ("b", "later")) == []
    message = pub(topics=(), topic_ids=("a", "b"))
    names.resolve(message)
    assert message.topics == ("orders", "bills")


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
    names = TopicNames(10)
    taught(names, ("a", "orders"), ("b", "bills"))
    message = pub(topics=topics, topic_ids=topic_ids)
    names.resolve(message)
    assert (message.topics, message.filled) == (expected, filled)


def test_partitions_and_records_keep_a_topic_that_they_have():
    names = TopicNames(10)
    taught(names, ("a", "orders"))
    rows = ({"topic_id": "a"}, {"topic": "own", "topic_id": "a"}, {"topic": None})
    records = (batch((None, b"v"), topic=None, topic_id="a"),)
    names.resolve(pub(topic_ids=("a",), partitions=rows, records=records))
    assert [row["topic"] for row in rows] == ["orders", "own", None]
    assert records[0].constant["topic"] == "orders"


def test_records_that_leave_later_get_what_was_taught_meanwhile():
    names, records = TopicNames(10), batch((None, b"v"), topic=None, topic_id="a")
    names.resolve_records("nsq", records)
    assert records.constant["topic"] is None
    taught(names, ("a", "orders"))
    names.resolve_records("kafka", records)
    assert records.constant["topic"] is None
    names.resolve_records("nsq", records)
    assert records.constant["topic"] == "orders"


def test_no_more_ids_are_remembered_than_the_limit():
    names = TopicNames(2)
    assert taught(names, ("a", "x"), ("b", "y"), ("c", "z"), ("a", "x"), ("d", "z")) == ["x", "y"]
    assert names.refused == 2
