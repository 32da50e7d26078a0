"""Sizes, durations and limits as text."""

from __future__ import annotations

import pytest

from mqsniff.filters.amounts import read_limits


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("tables_buffer=64MiB", "tables_buffer", 64 << 20),
        ("tables_buffer=100mb", "tables_buffer", 100_000_000),
        ("replay_max=64m", "replay_max", 64 << 20),
        ("frame_max=70000", "frame_max", 70_000),
        ("idle_ns=10m", "idle_ns", 600_000_000_000),
        ("idle_ns=5000000000", "idle_ns", 5_000_000_000),
        ("topics_max=12", "topics_max", 12),
    ],
)
def test_a_limit_takes_the_unit_of_its_kind(text, name, value):
    assert getattr(read_limits([text]), name) == value


def test_the_last_of_two_values_counts():
    assert read_limits(["topics_max=12", "topics_max=13"]).topics_max == 13


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("topics_max=12MB", "topics_max='12MB' is no whole number"),
        ("topics_max=-1", "topics_max='-1' is no whole number"),
        ("tables_buffer=5s", "tables_buffer='5s' is not a size"),
        ("idle_ns=5MB", "idle_ns='5MB' is not a duration"),
        ("frame_max=1k", "frame_max=1024 is too small"),
    ],
)
def test_what_is_no_value_of_its_kind_is_refused(text, told):
    with pytest.raises(ValueError, match=told):
        read_limits([text])
