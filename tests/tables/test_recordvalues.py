"""Rows of batches with few records: what ``record_rows`` makes; ``test_recordcolumns`` compares their blocks."""

from __future__ import annotations

import pytest
from builds import python_only
from handmade import batch, captures, connection, pub

from mqsniff.tables import recordvalues
from mqsniff.tables.recordcolumns import RecordColumns
from mqsniff.tables.recordvalues import FEW, FewRecords, record_values
from mqsniff.tables.rows import record_rows
from mqsniff.tables.values import Redaction

FEWER = batch((b"k", b"v"))
MANY = batch(*[(b"k", b"v")] * FEW)


def sizes(batches):
    """Rows of each block."""
    columns = RecordColumns(captures(), Redaction())
    blocks = [block.num_rows for made in batches for block in columns.add(connection(), pub(), made)]
    return [*blocks, columns.block().num_rows] if columns.waiting else blocks


@pytest.mark.parametrize("max_bytes", [None, 1])
def test_values_are_those_of_rows(max_bytes):
    made = batch((b"key", b"v\x00"), (None, None), (b"", b"value"), topic="t", offset=7, unheard_of=1)
    made.columns |= {"sequence": [1, 2, 3], "value_size": [9, 8, None], "unheard_of": [4, 5, 6]}
    made.headers = [[("a", b"b")], [], [("c", None)]]
    shown = Redaction(max_bytes=max_bytes)
    rows = [list(row.values()) for row in record_rows(connection(), pub(), made, captures(), shown)]
    assert record_values(connection(), pub(), made, captures(), shown) == rows


@pytest.mark.parametrize(
    ("own", "connections", "told"),
    [("a", "b", "a"), (None, "b", "b"), ("", "b", "b"), ("a", None, "a"), (None, None, None)],
)
def test_a_record_has_the_client_id_of_its_message_else_that_of_its_connection(own, connections, told):
    message, talking = pub(), connection()
    message.client_id, talking.identity.client_id = own, connections
    made = batch((b"k", b"v"))
    (values,) = record_values(talking, message, made, captures(), Redaction())
    (row,) = record_rows(talking, message, made, captures(), Redaction())
    assert (values, row["client_id"]) == (list(row.values()), told)


@pytest.mark.parametrize(
    ("made", "shown"),
    [
        (batch((b"k", b"v")), Redaction(payload=False)),
        (batch((b"k", b"v"), offset=1 << 63), Redaction()),
        (batch((b"k", b"v"), record_ts=-(1 << 63) - 1), Redaction()),
    ],
)
def test_what_is_unusual_is_left_to_the_slow_twin(made, shown):
    assert record_values(connection(), pub(), made, captures(), shown) is None


def test_batches_of_few_records_share_a_block_up_to_a_large_one():
    assert sizes([FEWER, FEWER, MANY, FEWER, MANY]) == [2, 2 * FEW + 1]


@python_only
def test_rows_come_again_after_a_block_of_few(monkeypatch):
    monkeypatch.setattr("mqsniff.tables.recordcolumns.BLOCK_BATCHES", 3)
    assert sizes([MANY, FEWER, FEWER, FEWER, MANY]) == [FEW + 2, 1, FEW]


@python_only
def test_bytes_bound_a_block(monkeypatch):
    monkeypatch.setattr(recordvalues, "BYTES", 1_000)
    few = FewRecords(captures(), Redaction())
    assert not few.add(connection(), pub(), batch((b"k", b"v")))
    assert few.add(connection(), pub(), batch((b"k", b"v"), topic="t" * 1_000))
    assert few.block().num_rows == 2
    assert not few.add(connection(), pub(), batch((b"k", b"v")))
    assert few.add(connection(), pub(), batch((b"k", b"v" * 1_000)))


def test_objects_of_records_stand_in_a_block_as_json_and_count_as_its_bytes(monkeypatch):
    made, large = batch((b"k", b"v"), (b"k", b"v")), batch((b"k", b"v"), decoded={"a": "b" * 1_000})
    made.columns |= {"decoded": [{"a": 1}, None], "sequence": [1, 1 << 63]}
    few = FewRecords(captures(), Redaction())
    few.add(connection(), pub(), made)
    block = few.block()
    assert block.column("decoded").to_pylist() == ['{"a":1}', None]
    assert block.column("beyond_int64").to_pylist() == [None, '{"sequence":9223372036854775808}']
    monkeypatch.setattr(recordvalues, "BYTES", 1_000)
    assert few.add(connection(), pub(), large)
