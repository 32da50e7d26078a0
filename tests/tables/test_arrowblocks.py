"""Items to blocks of columns: the same as rows one by one, and bounded by text."""

from __future__ import annotations

import orjson
import pytest
from handmade import answer_to, captures, connection, noticed, pub

from mqsniff.model import ClosedItem, Exchange, ExchangeItem, MessageItem, PartitionItem
from mqsniff.tables import arrow
from mqsniff.tables.arrow import ArrowTables
from mqsniff.tables.cells import array_of
from mqsniff.tables.rows import rows_of
from mqsniff.tables.schemas import TABLES
from mqsniff.tables.values import Redaction

SHOWN = Redaction()
BEYOND = 1 << 63
NAMED = pub(partitions=({"topic": "retry", "partition": 3}, {"topic": "retry", "offset": BEYOND, "group": "own"}))
ANSWER, ASKED = answer_to(NAMED)
BIG_ANSWER, BIG_ASKED = answer_to(pub(version=BEYOND))
BIG_ANSWER.error_code = -BEYOND - 1
ITEMS = [
    MessageItem(connection(), NAMED),
    MessageItem(connection(), pub(error_code=BEYOND, version=-BEYOND - 1)),
    MessageItem(connection(), pub(body={"number": float("nan"), "none": None})),
    PartitionItem(connection(), NAMED),
    ExchangeItem(connection(), Exchange(ASKED, ANSWER, "ok")),
    ExchangeItem(connection(), Exchange(None, ANSWER, "unasked")),
    ExchangeItem(connection(), Exchange(BIG_ASKED, BIG_ANSWER, "ok")),
    noticed(),
    ClosedItem(connection()),
]


def blocks_of(items, wanted=tuple(TABLES)):
    tables = ArrowTables(captures(), wanted, SHOWN)
    made = [block for item in items for block in tables.take(item)]
    return made + list(tables.rest())


@pytest.mark.parametrize("times", [1, 100])
def test_columns_hold_what_rows_hold(times):
    rows = [each for item in ITEMS * times for each in rows_of(item, captures(), TABLES, SHOWN)]
    found = {block.table: block.rows for block in blocks_of(ITEMS * times)}
    for table, columns in TABLES.items():
        own = [row for name, row in rows if name == table]
        for column in columns if own else ():
            values = [row[column.name] for row in own]
            if column.type == "json":
                values = [None if value is None else SHOWN.json(value) for value in values]
            slowly = [array_of([value], column.type)[0].as_py() for value in values]
            assert found[table].column(column.name).to_pylist() == slowly, (table, column.name)


def test_a_body_is_the_json_of_its_message():
    (block,) = blocks_of(ITEMS[:3], ["messages"])
    assert [orjson.loads(body) for body in block.rows.column("body").to_pylist()] == [
        NAMED.body,
        pub().body,
        {"number": "NaN", "none": None},
    ]


@pytest.mark.parametrize("table", ["messages", "exchanges", "partitions"])
def test_rows_that_repeat_a_long_text_make_small_blocks(table, monkeypatch):
    monkeypatch.setattr(arrow, "BLOCK_TEXT", 10_000)
    long = pub(client_id="c" * 1_000, partitions=({"topic": "t"},))
    items = [MessageItem(connection(), long), ExchangeItem(connection(), Exchange(None, long, "unasked"))] * 40
    sizes = [block.rows.num_rows for block in blocks_of(items, [table])]
    assert sum(sizes) == 40
    assert max(sizes) <= 10


def test_bodies_end_a_block(monkeypatch):
    monkeypatch.setattr(arrow, "JSON_BYTES", 1_000)
    item = MessageItem(connection(), pub(body={"text": "x" * 300}))
    assert [block.rows.num_rows for block in blocks_of([item] * 9)] == [4, 4, 1]
    assert [len(text) for block in blocks_of([item] * 9) for text in block.rows.column("body").to_pylist()] == [311] * 9


@pytest.mark.parametrize(
    ("item", "table", "rows"),
    [
        (MessageItem(connection(), pub(body={"text": "x" * (1 << 20)})), "messages", 4),  # 4 MiB of bodies
        (MessageItem(connection(), pub(body={})), "messages", 4_096),
        (noticed(), "problems", 4_096),
        (MessageItem(connection(), pub(body={}, client_id="x" * (16 << 20))), "messages", 4),  # 64 MiB of text
    ],
    ids=["bodies", "messages", "problems", "text"],
)
def test_rows_wait_up_to_a_number_and_up_to_bytes_of_bodies_and_text(item, table, rows):
    tables = ArrowTables(captures(), [table], SHOWN)
    for number in range(1, rows + 1):
        made = [block.rows.num_rows for block in tables.take(item)]
        assert made == ([rows] if number == rows else [])
