"""Places in bytes as Arrow arrays: what Python's slices and ``text_of`` say, in whatever order the places stand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqsniff.tables.spans import as_text, gathered, is_text
from mqsniff.tables.values import text_of

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
