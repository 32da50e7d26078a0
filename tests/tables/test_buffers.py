"""Arrays of NumPy as Arrow's, and back: what pyarrow itself makes of them is the oracle."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqsniff.tables.buffers import (
    bool_array,
    bools_in,
    bytes_array,
    number_array,
    numbers_in,
    offsets_of,
    repeated_bytes,
)

QUICK = settings(max_examples=50)
INT64S = st.lists(st.one_of(st.none(), st.integers(-(1 << 63), (1 << 63) - 1)), max_size=20)
FLAGS = st.lists(st.one_of(st.none(), st.booleans()), max_size=20)


def nulls(values):
    return np.array([value is None for value in values], np.bool_)


@QUICK
@given(INT64S)
def test_integers_are_those_that_pyarrow_makes(values):
    made = number_array(np.array([value or 0 for value in values], np.int64), nulls(values))
    made.validate(full=True)
    assert made.equals(pa.array(values, pa.int64()))
    assert numbers_in(made).tolist() == [value or 0 for value in values]


@pytest.mark.parametrize(("width", "kind"), [(np.int8, pa.int8()), (np.int32, pa.int32()), (np.int64, pa.int64())])
def test_integers_keep_their_width_also_where_they_lie_apart(width, kind):
    made = number_array(np.arange(9, dtype=width)[::2])
    assert made.type == kind
    assert made.to_pylist() == [0, 2, 4, 6, 8]


@QUICK
@given(FLAGS)
def test_truth_values_are_those_that_pyarrow_makes(values):
    made = bool_array(np.array(values, np.bool_), nulls(values))
    made.validate(full=True)
    assert made.equals(pa.array(values, pa.bool_()))
    assert bools_in(made).tolist() == [bool(value) for value in values]


@QUICK
@given(st.lists(st.one_of(st.none(), st.binary(max_size=5)), max_size=20))
def test_bytes_are_those_that_pyarrow_makes(values):
    made = bytes_array(values, pa.binary())
    made.validate(full=True)
    assert made.equals(pa.array(values, pa.binary()))


@pytest.mark.parametrize("count", [0, 1, 7])
@pytest.mark.parametrize("value", ["", "grün"])
def test_a_value_stands_as_often_as_it_is_to(value, count):
    made = repeated_bytes(value.encode(), count, pa.string())
    made.validate(full=True)
    assert made.to_pylist() == [value] * count


@QUICK
@given(INT64S, st.integers(0, 20), st.integers(0, 20))
def test_a_slice_is_read_from_its_own_start(values, start, size):
    part = pa.array(values, pa.int64()).slice(min(start, len(values)), size)
    assert numbers_in(part).tolist() == [value or 0 for value in part.to_pylist()]
    flags = pa.array([None if value is None else value > 0 for value in values], pa.bool_())
    part = flags.slice(min(start, len(values)), size)
    assert bools_in(part).tolist() == [bool(value) for value in part.to_pylist()]


def test_offsets_begin_at_0_and_end_behind_the_last_value():
    assert offsets_of(np.array([2, 0, 3], np.int64)).tolist() == [0, 2, 2, 5]
    assert offsets_of(np.array([], np.int64)).tolist() == [0]


def test_more_bytes_than_an_array_can_hold_are_an_error():
    with pytest.raises(OverflowError, match="2147483648 bytes"):
        offsets_of(np.array([1 << 30, 1 << 30], np.int64))
    with pytest.raises(OverflowError, match="too many for one array"):
        repeated_bytes(b"x" * 1024, 1 << 21, pa.string())
