"""NumPy arrays, and values at places in bytes, as Arrow arrays: pyarrow, slices and ``text_of`` are the oracles."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqsniff.tables.buffers import (
    as_text,
    bool_array,
    bools_in,
    bytes_array,
    gathered,
    is_text,
    number_array,
    numbers_in,
    offsets_of,
    repeated_bytes,
)
from mqsniff.tables.values import text_of

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


# ---- values at places in bytes

DATA = b"key-0value-0key-1value-1"


def places(*spans):
    starts, stops = zip(*spans, strict=True) if spans else ((), ())
    return np.array(starts, np.int64), np.array(stops, np.int64)


def sliced(data, spans):
    return [None if start < 0 else data[start:stop] for start, stop in spans]


@pytest.mark.parametrize(
    "spans",
    [
        [],
        [(-1, -1)],
        [(0, 5), (12, 17)],
        [(0, 5), (-1, -1), (12, 17), (-1, 0)],
        [(-1, -1), (5, 12), (-1, -1)],
        [(0, 0), (0, 5), (5, 5), (24, 24)],
        [(12, 17), (0, 5), (-1, -1), (5, 12)],
        [(0, 12), (5, 17), (-1, -1), (5, 5)],
    ],
    ids=["none", "null", "rising", "nulls between", "nulls around", "empty", "any order", "overlapping"],
)
def test_values_are_what_slices_are(spans):
    values = gathered(DATA, *places(*spans))
    assert values.to_pylist() == sliced(DATA, spans)
    values.validate(full=True)


@settings(max_examples=50)
@given(
    st.binary(max_size=40).flatmap(
        lambda data: st.tuples(
            st.just(data),
            st.lists(
                st.one_of(
                    st.just((-1, -1)),
                    st.tuples(st.integers(0, len(data)), st.integers(0, len(data))).map(sorted).map(tuple),
                ),
                max_size=8,
            ),
        )
    )
)
def test_any_places_give_what_slices_give(made):
    data, spans = made
    assert gathered(data, *places(*spans)).to_pylist() == sliced(data, spans)


def joined(values):
    spans, at = [], 0
    for value in values:
        spans.append((-1, -1) if value is None else (at, at + len(value)))
        at += len(value or b"")
    return gathered(b"".join(filter(None, values)), *places(*spans))


EDGES = [
    *(bytes((code,)) for code in range(256)),
    *(b"\xc2" + bytes((code,)) for code in (0x20, 0x7F, 0x80, 0x9F, 0xA0, 0xBF, 0xC0)),
    *(b"\xe0\x9f\xbf", b"\xe0\xa0\x80", b"\xed\x9f\xbf", b"\xed\xa0\x80", b"\xef\xbf\xbf"),
    *(b"\xf0\x8f\xbf\xbf", b"\xf0\x90\x80\x80", b"\xf4\x8f\xbf\xbf", b"\xf4\x90\x80\x80", b"\xf5\x80\x80\x80"),
    *(b"\xc0\x80", b"\xc1\xbf", b"\xe2\x82", b"\xf0\x9f\x98", b"", b"a\tb\r\n", b"a\x00b", "fin \u20ac".encode()),
    None,
]


def test_what_is_text_is_what_text_of_takes_for_text():
    expected = [value is not None and text_of(value) is not None for value in EDGES]
    assert is_text(joined(EDGES)).tolist() == expected
    for value, text in zip(EDGES, expected, strict=True):
        assert is_text(joined([value])).tolist() == [text], value


@settings(max_examples=50)
@given(st.lists(st.one_of(st.none(), st.binary(max_size=6), st.text(max_size=6).map(str.encode)), max_size=6))
def test_any_bytes_are_text_where_text_of_says_so(values):
    assert is_text(joined(values)).tolist() == [value is not None and text_of(value) is not None for value in values]


def test_keys_of_headers_that_are_no_unicode_stand_with_escapes():
    assert as_text(joined([b"trace", None, b"\xff-id"])).to_pylist() == ["trace", None, "\\xff-id"]
