"""Percentiles out of a histogram."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqsniff.answers.stats.sketch import ERROR, LatencySketch

DURATIONS = st.lists(st.integers(0, 1 << 50), min_size=1, max_size=200)


def sketch_of(durations):
    made = LatencySketch()
    for duration in durations:
        made.add(duration)
    return made


@given(DURATIONS)
def test_percentiles_are_those_of_sql_within_the_error(durations):
    shares = (0.0, 0.5, 0.95, 0.99, 1.0)
    exact = np.quantile(np.array(durations, float), shares)
    for found, true in zip(sketch_of(durations).quantiles(*shares), exact, strict=True):
        assert found == pytest.approx(true, rel=ERROR * 1.01, abs=1)


@given(DURATIONS, DURATIONS)
def test_two_add_up(one, other):
    merged = sketch_of(one)
    merged.merge(sketch_of(other))
    together = sketch_of(one + other)
    assert (merged.count, merged.total, merged.least, merged.greatest) == (
        together.count,
        together.total,
        together.least,
        together.greatest,
    )
    assert merged.quantiles(0.5, 0.9) == together.quantiles(0.5, 0.9)


def test_nothing_has_no_percentiles():
    assert LatencySketch().quantiles(0.5, 0.99) == [None, None]
    made = sketch_of([7])
    made.merge(LatencySketch())
    assert made.quantiles(0.5) == [7]


def test_memory_does_not_grow_with_what_is_counted():
    made = sketch_of(range(0, 10_000_000, 97))
    assert len(made._buckets) < 1_300
