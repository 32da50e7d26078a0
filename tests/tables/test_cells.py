"""Values of columns as Arrow arrays: whatever traffic wrote, there is an array of the column's type."""

from __future__ import annotations

from array import array
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqsniff.tables.cells import _packed, array_of, numbers_array, numbers_of, repeated
from mqsniff.tables.schemas import arrow_type

KINDS = ["text", "texts", "int64", "bool", "timestamp", "json", "payload", "headers"]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        ("text", ["a", None, "lone \ud800"], ["a", None, "lone \\ud800"]),
        ("text", ["a", b"\xffraw"], ["a", "\\xffraw"]),
        ("text", ["a", 7], ["a", None]),
        ("texts", [("a", "b"), None, ()], [["a", "b"], None, []]),
        ("texts", [("lone \udfff",)], [["lone \\udfff"]]),
        ("int64", [1, None, -(1 << 63), (1 << 63) - 1], [1, None, -(1 << 63), (1 << 63) - 1]),
        ("int64", [1, 1 << 63, -(1 << 70)], [1, None, None]),
        ("int64", [1, "2"], [1, None]),
        ("bool", [True, None, False], [True, None, False]),
        ("bool", [True, "yes"], [True, None]),
        ("json", [b'{"a":1}', None], ['{"a":1}', None]),
        ("json", [b'{"a":"\xff"}'], ['{"a":"\\xff"}']),
        ("payload", [b"\x00\xff", None], [b"\x00\xff", None]),
        ("payload", [b"\x00", "text"], [b"\x00", None]),
        ("headers", [[{"key": "k", "value": None}], None, []], [[{"key": "k", "value": None}], None, []]),
    ],
)
def test_what_no_column_can_hold_is_escaped_or_null(kind, values, expected):
    made = array_of(values, kind)
    assert made.type == arrow_type(kind)
    assert made.to_pylist() == expected


@pytest.mark.parametrize("nanoseconds", [0, 999, 1000, 1_795_253_930_702_681_250, -1, -1000, -1001])
def test_times_are_rounded_down(nanoseconds):
    made = array_of([nanoseconds, None], "timestamp")
    assert made.to_pylist() == [EPOCH + timedelta(microseconds=nanoseconds // 1000), None]


ANYTHING = st.one_of(st.none(), st.booleans(), st.integers(), st.text(), st.binary(), st.floats(), st.just(("a",)))


@settings(max_examples=50)
@given(st.sampled_from(KINDS[:-1]), st.lists(ANYTHING, max_size=4))
def test_no_value_raises(kind, values):
    assert array_of(values, kind).type == arrow_type(kind)


@pytest.mark.parametrize("kind", KINDS)
def test_a_column_may_consist_of_nothing_or_of_nulls(kind):
    assert array_of([], kind).to_pylist() == []
    assert array_of([None, None], kind).to_pylist() == [None, None]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("text", "gr\xfcn"),
        ("text", None),
        ("text", 7),
        ("int64", -1),
        ("bool", False),
        ("timestamp", 1_999),
        ("texts", ()),
    ],
)
def test_a_repeated_value_stands_in_every_row_as_it_would_alone(kind, value):
    made = repeated(value, kind, 3)
    made.validate(full=True)
    assert made.to_pylist() == 3 * array_of([value], kind).to_pylist()


PARTS = [array("q", [1, -2]), range(5, 8), range(3, 3), [4], np.array([6, 7])]


def test_integers_of_many_parts_follow_each_other_whatever_holds_them():
    assert numbers_of(PARTS).tolist() == [1, -2, 5, 6, 7, 4, 6, 7]
    assert numbers_array(PARTS, "int64").to_pylist() == [1, -2, 5, 6, 7, 4, 6, 7]


def test_parts_may_have_holes():
    made = numbers_array([range(2), [None, None], [7, None, 1 << 63], array("q", [9])], "int64")
    made.validate(full=True)
    assert made.to_pylist() == [0, 1, None, None, 7, None, None, 9]


@settings(max_examples=50)
@given(st.sampled_from(["text", "texts", "int64", "timestamp"]), st.lists(ANYTHING, min_size=1, max_size=4))
def test_a_long_column_holds_what_each_value_alone_would_be(kind, values):
    alone = [array_of([value], kind)[0].as_py() for value in values]
    assert array_of(values * 100, kind).to_pylist() == alone * 100


@pytest.mark.parametrize("odd", [None, "gr\xfcn", "lone \ud800", b"raw", 7, ["list"], 0, True])
def test_diverse_text_with_something_odd_in_it(odd):
    texts = [*map(str, range(300)), odd]
    assert array_of(texts, "text").to_pylist() == [*map(str, range(300)), array_of([odd], "text")[0].as_py()]


@pytest.mark.parametrize("last", [[], [7], [None], [1 << 63], list(range(100)), range(3), array("q", [5])])
def test_many_short_parts_are_one_column(last):
    parts = [*([number] for number in range(50)), range(2), last]
    numbers = [number for part in parts for number in part]
    assert numbers_array(iter(parts), "int64").to_pylist() == array_of(numbers, "int64").to_pylist()
    if None not in numbers and 1 << 63 not in numbers:
        assert numbers_of(iter(parts)).tolist() == numbers


@pytest.mark.parametrize("numbers", [[1, -2], (3,), range(5), array("q", (7, 8)), []])
def test_integers_that_fit_are_packed_at_once(numbers):
    assert _packed(numbers).tolist() == list(numbers)
