"""A condition in SQL: which rows stay, and what is said of one that cannot be asked."""

from __future__ import annotations

import os
import signal
from threading import Timer

import pytest
from handmade import START, answer_to, batch, captures, connection, noticed, pub

from mqsniff.filters.where import WhereFilter
from mqsniff.lockedsql import QueryError
from mqsniff.model import ClosedItem, Exchange, ExchangeItem, MessageItem, OpenedItem, PartitionItem, RecordItem
from mqsniff.tables.schemas import STREAM_TABLES, TABLES
from mqsniff.tables.values import Redaction

CONNECTION = connection()
QUESTION = pub(partitions=({"topic": "retry", "partition": 0}, {"topic": "retry", "partition": 1}))
ANSWER, ASKED = answer_to(QUESTION)


def staying(condition, *items, wanted=STREAM_TABLES, **shown):
    return list(WhereFilter(condition, wanted, captures(), Redaction(**shown)).of(items))


def test_items_stay_by_their_rows_in_their_order():
    items = [MessageItem(CONNECTION, pub(topics=(str(number),))) for number in range(5)]
    assert staying("topics[1] in ('1', '3')", *items) == [items[1], items[3]]


def test_what_is_learned_while_an_item_waits_is_not_said_of_it():
    info = connection()

    def learning():
        yield MessageItem(info, pub(version=1))
        info.identity.client_id = "late"
        yield MessageItem(info, pub(version=2))

    out = list(WhereFilter("name = 'PUB'", ("messages",), captures(), Redaction()).of(learning()))
    assert [item.connection.identity.client_id for item in out] == [None, "late"]


def test_a_table_without_the_columns_is_left_out():
    where = WhereFilter("size > 1", STREAM_TABLES, captures(), Redaction())
    assert where.left_out == ("connections",)
    items = [MessageItem(CONNECTION, pub()), noticed(connection=CONNECTION), ClosedItem(CONNECTION)]
    assert list(where.of(items)) == [items[0]]
    assert (where.rows, where.met) == (2, 1)


def test_the_opening_comes_with_the_first_that_stays():
    other = connection("c2")
    items = [
        OpenedItem(CONNECTION, START),
        OpenedItem(other, START),
        MessageItem(other, pub()),
        ClosedItem(CONNECTION),
        ClosedItem(other),
    ]
    assert staying("connection_id = 'c2'", *items) == [items[1], items[2], items[4]]


def test_conditions_see_what_goes_out():
    recorded = RecordItem(CONNECTION, pub(), batch((b"k", b"hello"), (b"l", b"world")))
    (kept,) = staying("value = 'world'", recorded, wanted=("records",))
    assert (kept.batch.count, kept.batch.columns["record_index"]) == (1, [1])
    assert staying("value = 'world'", recorded, wanted=("records",), payload=False) == []
    assert staying("value_encoding = 'redacted'", recorded, wanted=("records",), payload=False) == [recorded]


def test_bodies_can_be_asked():
    items = [MessageItem(CONNECTION, pub(body={"size": number})) for number in (1, 2)]
    assert staying("(body ->> '$.size')::int = 2", *items) == items[1:]


def test_times_are_utc():
    item = MessageItem(CONNECTION, pub())
    assert staying("ts = '2026-11-21T09:38:50.702681Z' and ts_ns % 1000 = 250 and hour(ts) = 9", item) == [item]


def test_a_message_and_its_partitions_are_asked_each_for_itself():
    item = MessageItem(CONNECTION, QUESTION)
    (kept,) = staying("name = 'PUB'", item, wanted=TABLES)
    assert kept.message is item.message
    (kept,) = staying("partition = 1 or false", item, wanted=("partitions",))
    assert kept == PartitionItem(CONNECTION, kept.message)
    assert kept.message.partitions == QUESTION.partitions[1:]
    assert staying("partition = 7", item, wanted=("partitions",)) == []


def test_exchanges_stay_by_their_row():
    slow = ExchangeItem(CONNECTION, Exchange(ASKED, ANSWER, "ok", latency_ns=9_000_000))
    fast = ExchangeItem(CONNECTION, Exchange(ASKED, ANSWER, "ok", latency_ns=1_000))
    assert staying("latency_ns > 5e6", slow, fast, wanted=("exchanges",)) == [slow]


def test_rows_are_asked_at_each_pause_and_none_is_held_back():
    where = WhereFilter("name = 'PUB'", ("messages",), captures(), Redaction())
    item = MessageItem(CONNECTION, pub())
    waiting = where.of(iter([item, None, item]))
    assert [next(waiting), next(waiting)] == [item, None]
    assert list(waiting) == [item]


def test_what_waits_at_an_interrupt_still_goes_out():
    def interrupted():
        yield MessageItem(CONNECTION, pub())
        raise KeyboardInterrupt

    out = []
    with pytest.raises(KeyboardInterrupt):
        out.extend(WhereFilter("name = 'PUB'", ("messages",), captures(), Redaction()).of(interrupted()))
    assert [item.message.name for item in out] == ["PUB"]


def test_what_went_out_does_not_go_out_again_at_an_interrupt():
    items = iter(
        WhereFilter("name = 'PUB'", ("messages",), captures(), Redaction()).of([MessageItem(CONNECTION, pub()), None])
    )
    assert next(items).message.name == "PUB"
    with pytest.raises(KeyboardInterrupt):
        items.throw(KeyboardInterrupt())


def test_a_signal_ends_a_condition_that_never_would():
    condition = "size < (select count(*) from range(10_000_000_000_000) t(i) where i % 7 = 3)"
    watchdog = Timer(1.0, os.kill, (os.getpid(), signal.SIGINT))
    where = WhereFilter(condition, ("messages",), captures(), Redaction())
    watchdog.start()
    with pytest.raises(KeyboardInterrupt):
        list(where.of([MessageItem(CONNECTION, pub()), None]))


def test_many_rows_are_asked_in_portions():
    items = [MessageItem(CONNECTION, pub(version=number)) for number in range(10_000)]
    assert [item.message.version for item in staying("version % 1000 = 7", *items)] == list(range(7, 10_000, 1000))


@pytest.mark.parametrize(
    ("condition", "told"),
    [
        ("latency_ns > 5", ("--where 'latency_ns > 5' does not fit connections, messages, problems; "
                           "it fits --table exchanges")),
        ("nme = 1", ('--where: Referenced column "nme" not found in FROM clause (near nme = 1); '
                    "asked: connections, messages, problems")),
        ("size >", '--where: syntax error at or near ">" (near >); asked: connections, messages, problems'),
        ("size > (select 1 from messages)", "is no condition on one row"),
        ("size > 1); select (1", "--where: "),
        ("size in (select count(*) from read_text('/etc/passwd'))", "--where: Cannot access file"),
        ("max(size) > 1", "--where: "),
    ],
)  # fmt: skip
def test_a_condition_that_cannot_be_asked_is_refused_in_one_line(condition, told):
    with pytest.raises(QueryError) as failed:
        staying(condition)
    assert told in str(failed.value)
    assert "\n" not in str(failed.value)


def test_a_condition_that_fails_on_a_row_says_so():
    with pytest.raises(QueryError, match="--where: Could not convert string 'PUB' to INT32"):
        staying("name::int = 1", MessageItem(CONNECTION, pub()))


def test_a_comment_does_not_swallow_the_rest():
    item = MessageItem(CONNECTION, pub())
    assert staying("name = 'PUB' -- only these", item) == [item]
