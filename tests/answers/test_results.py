"""Values of a result as JSON has them."""

from __future__ import annotations

import json

import duckdb
import pyarrow as pa
import pytest

from mqsniff.answers.results import cell, json_line, json_text, result_rows, unique_names


def value_of(expression):
    table = duckdb.sql(f"SET TimeZone = 'UTC'; SELECT {expression} AS value").to_arrow_table()
    ((value,),) = result_rows(table.to_batches())
    return value


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("null", None),
        ("true", True),
        ("-5", -5),
        ("1.5::double", 1.5),
        ("'nan'::double", "NaN"),
        ("'-inf'::double", "-Infinity"),
        ("sum(5)", 5),
        ("12345678901234567890::hugeint", 12345678901234567890),
        ("(12345678901234567890 * 10::hugeint)", "123456789012345678900"),
        ("1.25::decimal(9,2)", 1.25),
        ("'text'", "text"),
        ("'hi'::blob", "hi"),
        (r"'\x00\xff'::blob", {"base64": "AP8="}),
        ("timestamptz '2026-11-21 09:38:50.702681Z'", "2026-11-21T09:38:50.702681000Z"),
        ("timestamp '2026-11-21 09:38:50.7'", "2026-11-21T09:38:50.700000000"),
        ("timestamp_ns '2026-11-21 09:38:50.702681250'", "2026-11-21T09:38:50.702681250"),
        ("date '2026-11-21'", "2026-11-21"),
        ("time '09:38:50'", "09:38:50"),
        ("[1, null]", [1, None]),
        ("{'a': 1, 'b': [date '2026-11-21']}", {"a": 1, "b": ["2026-11-21"]}),
        ("[timestamptz '2026-11-21 09:38:50Z', null]", ["2026-11-21T09:38:50.000000000Z", None]),
        ("{'at': timestamp_ns '2026-11-21 09:38:50.000000001'}", {"at": "2026-11-21T09:38:50.000000001"}),
        ("[[], null, [{'a': 'x'::blob}]]", [[], None, [{"a": "x"}]]),
        ("[1, 2]::int[2]", [1, 2]),
        ("null::struct(a int)", None),
        ("map {'a': [date '2026-11-21'], 'b': null}", {"a": ["2026-11-21"], "b": None}),
        ("map {1: 'x'}", {"1": "x"}),
        ("null::map(int, int)", None),
        ("timestamp '2026-11-21 09:38:51.5' - timestamp '2026-11-21 09:38:50'", "00:00:01.500000"),
        ("interval '1 month 2 days 03:04:05.000006'", "1 month 2 days 03:04:05.000006"),
        ("interval '-1 days -01:00:00'", "-1 day -01:00:00.000000"),
        ("interval 25 months", "25 months"),
        ("interval 0 days", "00:00:00.000000"),
    ],
)
def test_a_value_is_what_json_can_hold(expression, value):
    assert value_of(expression) == value
    assert json.loads(json_text(value_of(expression))) == value


@pytest.mark.parametrize("expression", ["uuid()", "'1'::bit", "union_value(n := 1)", "'x'::enum('x')", "9::bignum"])
def test_any_type_has_a_form(expression):
    json.loads(json_text(value_of(expression)))


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("'infinity'::date", None),
        ("date '0044-01-01 (BC)'", None),
        ("'290000-01-01'::timestamp", None),
        ("'-infinity'::timestamptz", None),
        ("['290000-01-01'::timestamptz, '9999-12-31'::timestamptz]", [None, "9999-12-31T00:00:00.000000000Z"]),
        ("{'a': 'infinity'::date, 'b': 1}", {"a": None, "b": 1}),
        ("union_value(a := 'infinity'::date)", None),
    ],
)
def test_a_time_outside_of_the_calendar_is_null_wherever_it_stands(expression, value):
    assert value_of(expression) == value


def test_a_piece_of_a_batch_has_its_own_lists_objects_and_maps():
    table = duckdb.sql("""SELECT [i, i] AS l, {'i': i} AS s, map {'i': i} AS m FROM range(5) t(i)""").to_arrow_table()
    (batch,) = table.combine_chunks().to_batches()
    assert list(result_rows([batch.slice(3, 1)])) == [([3, 3], {"i": 3}, {"i": 3})]


def test_times_that_no_text_can_name_are_null():
    column = pa.array([2**62], pa.timestamp("us", tz="UTC"))
    assert list(result_rows([pa.record_batch([column], ["ts"])])) == [(None,)]


@pytest.mark.parametrize(
    ("names", "unique"),
    [
        (["a", "b"], ["a", "b"]),
        (["a", "a", "a"], ["a", "a_1", "a_2"]),
        (["a", "a_1", "a"], ["a", "a_1", "a_2"]),
        (["a", "a", "a_1"], ["a", "a_2", "a_1"]),
        ([], []),
    ],
)
def test_names_of_columns_are_made_unique(names, unique):
    assert unique_names(names) == unique
    assert len(set(unique)) == len(names)


def test_a_line_and_its_cells():
    assert json_line(["a", "b"], (1, ["x"])) == b'{"a":1,"b":["x"]}'
    assert [cell(value) for value in (None, 1, "x", ["x"], {"a": 1})] == [None, 1, "x", '["x"]', '{"a":1}']
