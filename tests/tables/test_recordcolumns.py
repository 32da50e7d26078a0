"""Blocks of records: row for row what ``record_rows`` makes one by one, whatever the batches are like."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import orjson
import pytest
from builds import python_only
from handmade import batch, captures, connection, frame, pub
from hypothesis import given, settings
from hypothesis import strategies as st

from mqsniff.model import HeaderSpans, RecordBatch, Side
from mqsniff.tables import recordcolumns
from mqsniff.tables.recordcolumns import RecordColumns
from mqsniff.tables.rows import record_rows
from mqsniff.tables.schemas import arrow_schema, names_of
from mqsniff.tables.values import Redaction


def json(value):
    """What is redacted, as Arrow's bytes have it."""
    return orjson.dumps(value)


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TIMES = names_of("records", "timestamp")
MESSAGE = pub(frame=frame(Side.CLIENT, 77))
TEXT, BINARY = "grün \u20ac".encode(), b"\x00\x01\xfe"


def one_by_one(batches, shown):
    """The rows of the slow twin, as Arrow says them."""
    rows = []
    for made in batches:
        for row in record_rows(connection(), MESSAGE, made, captures(), shown):
            for name in TIMES:
                row[name] = None if row[name] is None else EPOCH + timedelta(microseconds=row[name] // 1000)
            if row["headers"] is not None:
                for one in row["headers"]:
                    one["value"] = json(one["value"]) if isinstance(one["value"], dict) else one["value"]
            for name in ("decoded", "beyond_int64"):
                row[name] = None if row[name] is None else shown.json(row[name]).decode()
            rows.append(row)
    return rows


def in_blocks(batches, shown):
    columns = RecordColumns(captures(), shown)
    blocks = [block for made in batches for block in columns.add(connection(), MESSAGE, made)]
    if columns.waiting:
        blocks.append(columns.block())
    for block in blocks:
        assert block.schema == arrow_schema("records")
        block.validate(full=True)
    return [row for block in blocks for row in block.to_pylist()]


def with_headers(made, headers, *, placed=False):
    """A batch with headers as pairs, or as places after its data."""
    made.headers = headers
    if placed:
        places = []
        for key, value in [pair for own in headers for pair in own]:
            at = len(made.data)
            made.data += key.encode() + (value or b"")
            stop = at + len(key.encode())
            places += (at, stop, -1 if value is None else stop, len(made.data))
        made.header_spans = lambda: HeaderSpans([len(own) for own in headers], places)
    return made


def cut_batch():
    """Values whose ends were not captured: their size is told beside them."""
    made = batch((b"k", b"text \xe2\x82"), (None, b"\xff\x00"), (None, None), (b"", b"whole"))
    made.columns["value_size"] = [90, 90, 40, 5]
    return made


def hidden_batch():
    """A value that the dissector took out of sight, and one that it left."""
    made = batch((b"k", None), (b"k", b"shown"))
    made.columns = {"value_size": [12, None], "value_encoding": ["redacted", None]}
    return made


def columns_batch():
    made = batch((b"k", b"1"), (None, b"2"), topic="t", transactional=False, record_ts=1_999, partition=None)
    made.columns = {
        "offset": range(7, 9),
        "message_id": ["m:1", None],
        "record_index": [4, 9],
        "record_ts": [None, 5001],
    }
    return made


def decoded_batch():
    made = batch((b"k", b"v"), (b"k", b"v"), topic="__consumer_offsets")
    made.columns["decoded"] = [{"key": {"type": 1}}, None]
    return made


HEADERS = [[("trace", b"abc"), ("none", None)], [], [("\xfc", b"\xff")]]
BATCHES = {
    "text and binary": lambda: batch((b"k", b"v"), (None, TEXT), (BINARY, None), (b"", b""), (b"\xff", BINARY)),
    "nothing but nulls": lambda: batch((None, None), (None, None)),
    "neither keys nor values": lambda: RecordBatch(b"", 2, {"value_size": 99}),
    "headers as pairs": lambda: with_headers(batch((b"k", b"v"), (b"k", b"v"), (None, b"v")), HEADERS),
    "headers in their places": lambda: with_headers(
        batch((b"k", b"v"), (b"k", b"v"), (None, b"v")), HEADERS, placed=True
    ),
    "no headers": lambda: batch((b"k", b"v"), headers=[]),
    "cut": cut_batch,
    "columns": columns_batch,
    "hidden": hidden_batch,
    "decoded": decoded_batch,
    "long": lambda: batch(*((b"key-%d" % at, b"value " * at) for at in range(40)), topic="t"),
}
OPTIONS = [
    Redaction(),
    Redaction(max_bytes=0),
    Redaction(max_bytes=2),
    Redaction(max_bytes=8),
    Redaction(payload=False),
]


@pytest.mark.parametrize("shown", OPTIONS, ids=["all", "0 bytes", "2 bytes", "8 bytes", "redacted"])
@pytest.mark.parametrize("name", BATCHES)
def test_a_block_of_one_batch_has_its_rows(name, shown):
    made = [BATCHES[name]()]
    assert in_blocks(made, shown) == one_by_one(made, shown)


@pytest.mark.parametrize("shown", OPTIONS, ids=["all", "0 bytes", "2 bytes", "8 bytes", "redacted"])
def test_batches_of_all_kinds_share_a_block(shown):
    made = [make() for make in BATCHES.values()]
    assert in_blocks(made, shown) == one_by_one(made, shown)


@python_only
@pytest.mark.parametrize("name", BATCHES)
def test_a_batch_that_fills_many_blocks_has_its_rows(name, monkeypatch):
    monkeypatch.setattr(recordcolumns, "BLOCK_ROWS", 2)
    made = [BATCHES[name](), BATCHES[name]()]
    assert in_blocks(made, Redaction()) == one_by_one(made, Redaction())


@python_only
def test_text_that_all_rows_repeat_bounds_a_block(monkeypatch):
    monkeypatch.setattr(recordcolumns, "BLOCK_TEXT", 3_000)
    columns = RecordColumns(captures(), Redaction())
    made = [batch(*[(None, b"v")] * 5, topic="t" * 1_000) for _ in range(3)]
    sizes = [block.num_rows for one in made for block in columns.add(connection(), MESSAGE, one)]
    assert sum(sizes) + columns.waiting == 15
    assert max(sizes) * 1_000 <= 2 * recordcolumns.BLOCK_TEXT


def test_batches_that_share_their_data_share_them_in_the_block():
    data = b"k1v1k2v2"
    first = RecordBatch(data, 1, {"partition": 1}, {}, ([0], [2]), ([2], [4]))
    second = RecordBatch(data, 1, {"partition": 2}, {}, ([4], [6]), ([6], [8]))
    columns = RecordColumns(captures(), Redaction())
    for made in (first, second):
        assert not list(columns.add(connection(), MESSAGE, made))
    rows = columns.block().to_pylist()
    assert [(row["partition"], row["key"], row["value"]) for row in rows] == [(1, b"k1", b"v1"), (2, b"k2", b"v2")]


def test_what_a_connection_says_later_is_not_said_of_earlier_records():
    info, columns = connection(), RecordColumns(captures(), Redaction())
    info.identity.client_id = "before"
    assert not list(columns.add(info, MESSAGE, batch((b"k", b"v"))))
    info.identity.client_id = "after"
    assert columns.block().column("client_id").to_pylist() == ["before"]


PAYLOADS = st.one_of(st.none(), st.binary(max_size=5), st.text(max_size=4).map(str.encode))
KEYS = st.text(st.characters(codec="utf-8"), max_size=3)


@st.composite
def batches(draw):
    made = batch(
        *draw(st.lists(st.tuples(PAYLOADS, PAYLOADS), min_size=1, max_size=4)), partition=draw(st.integers(0, 3))
    )
    if draw(st.booleans()):
        pairs = st.lists(st.tuples(KEYS, st.one_of(st.none(), st.binary(max_size=3))), max_size=2)
        headers = draw(st.lists(pairs, min_size=made.count, max_size=made.count))
        with_headers(made, headers, placed=draw(st.booleans()))
    if draw(st.booleans()):
        times = st.one_of(st.none(), st.integers(0, 1 << 60))
        made.columns["record_ts"] = draw(st.lists(times, min_size=made.count, max_size=made.count))
    if draw(st.booleans()):
        made.columns["ordering_key"] = draw(st.lists(PAYLOADS, min_size=made.count, max_size=made.count))
    return made


@settings(max_examples=50)
@given(st.lists(batches(), min_size=1, max_size=4), st.sampled_from(OPTIONS))
def test_any_batches_have_their_rows(made, shown):
    assert in_blocks(made, shown) == one_by_one(made, shown)


def test_numbers_that_no_int64_holds_stand_beside_the_columns():
    long = batch((b"k", b"v"), (b"k", b"w"), offset=1 << 63, partition=3)
    long.columns["sequence"] = [7, (1 << 64) - 1]
    rows = in_blocks([batch((b"k", b"u"), offset=5), long], Redaction())
    assert [(row["offset"], row["partition"], row["sequence"], row["beyond_int64"]) for row in rows] == [
        (5, None, None, None),
        (None, 3, 7, '{"offset":9223372036854775808}'),
        (None, 3, None, '{"offset":9223372036854775808,"sequence":18446744073709551615}'),
    ]
    assert rows == one_by_one([batch((b"k", b"u"), offset=5), long], Redaction())


@pytest.mark.parametrize(
    ("make", "batches"),
    [
        (lambda: RecordBatch(bytes(1 << 20), 5, {}, {}, None, ([0] * 5, [1 << 20] * 5)), 4),  # 4 MiB of data
        (lambda: RecordBatch(b"", 1 << 14), 4),  # 65,536 rows
        (lambda: RecordBatch(b"", 4), 8_192),
    ],
    ids=["bytes", "rows", "batches"],
)
def test_records_wait_up_to_a_number_of_bytes_rows_and_batches(make, batches):
    columns = RecordColumns(captures(), Redaction())
    for number in range(1, batches + 1):
        made = make()
        blocks = [block.num_rows for block in columns.add(connection(), MESSAGE, made)]
        assert blocks == ([batches * made.count] if number == batches else [])
