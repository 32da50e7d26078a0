"""Tables as blocks of Arrow: which tables, when, and the topics at the end."""

from __future__ import annotations

import pytest
from handmade import captures, connection, pub

from mqsniff.model import MessageItem, RecordBatch, RecordItem
from mqsniff.tables.arrow import ArrowTables
from mqsniff.tables.values import Redaction


@pytest.mark.parametrize(
    ("wanted", "tables"),
    [
        (("messages", "topics"), ["messages", "topics"]),
        (("messages",), ["messages"]),
        (("topics",), ["topics"]),
        (("records",), []),
    ],
)
def test_the_tables_that_are_wanted_get_the_rows_that_wait(wanted, tables):
    made = ArrowTables(captures(), wanted, Redaction())
    assert list(made.take(MessageItem(connection(), pub(teaches=(("id", "retry"),))))) == []
    blocks = list(made.rest())
    assert [block.table for block in blocks] == tables
    assert all(block.rows.num_rows == 1 for block in blocks)


def test_topics_come_once_at_the_end_and_not_with_the_rows_that_wait():
    made = ArrowTables(captures(), ("messages", "topics"), Redaction())
    list(made.take(MessageItem(connection(), pub(teaches=(("id", "retry"),)))))
    assert [block.table for block in made.waiting()] == ["messages"]
    (topics,) = made.rest()
    assert [(row["topic_id"], row["name"]) for row in topics.rows.to_pylist()] == [("id", "retry")]


@pytest.mark.parametrize("columns", [{"topic_id": ["one", "two"]}, {"topic_id": ["one", "two"], "topic": ["a", "b"]}])
def test_a_block_of_records_knows_the_topic_ids_of_each_record(columns):
    records = RecordBatch(b"", 2, {} if "topic" in columns else {"topic": "a"}, columns)
    made = ArrowTables(captures(), ("records",), Redaction())
    assert list(made.take(RecordItem(connection(), pub(), records))) == []
    (block,) = made.rest()
    assert block.topic_ids == {("nsq", "one"): "a", ("nsq", "two"): columns.get("topic", "aa")[1]}
