"""Values of columns as Arrow arrays: whatever traffic wrote, there is an array of the column's type."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqsniff.tables.cells import array_of
from mqsniff.tables.schemas import arrow_type

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
        ("payload", [b"\x00\xff", None], [b"\x00\xff", None]),
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
@given(
    st.sampled_from(["text", "texts", "int64", "bool", "timestamp", "json", "payload"]), st.lists(ANYTHING, max_size=4)
)
def test_no_value_raises(kind, values):
    assert array_of(values, kind).type == arrow_type(kind)
