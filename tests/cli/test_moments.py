"""Times that a capture decides."""

from __future__ import annotations

import re

import pytest

from mqsniff.filters.amounts import read_duration
from mqsniff.filters.itemfilter import Filters
from mqsniff.filters.moments import AskedTimes, RelativeTime, read_moment, resolved
from mqsniff.filters.readings import read_time

SECOND = 1_000_000_000
DAY = 86_400 * SECOND
FIRST = 20_778 * DAY + 9 * 3600 * SECOND
"""Nine o'clock."""
LAST = FIRST + 600 * SECOND


def read(text):
    return read_moment(text, read_time, read_duration)


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("10:00", RelativeTime("midnight", 36_000 * SECOND)),
        ("9:05:30.5", RelativeTime("midnight", 32_730 * SECOND + SECOND // 2)),
        ("+30s", RelativeTime("start", 30 * SECOND)),
        ("+1.5ms", RelativeTime("start", 1_500_000)),
        ("-5m", RelativeTime("end", -300 * SECOND)),
        ("-5", -5 * SECOND),
        ("1795253930", 1_795_253_930 * SECOND),
    ],
)
def test_a_moment_is_exact_or_relative(text, time):
    assert read(text) == time


@pytest.mark.parametrize("text", ["25:00", "10:60", "+5x", "noon", "-m"])
def test_what_is_no_moment_is_refused(text):
    with pytest.raises(ValueError, match=re.escape(text)[-1]):
        read(text)


@pytest.mark.parametrize(
    ("start", "stop", "times"),
    [
        ("9:01", "9:02", (FIRST + 60 * SECOND, FIRST + 120 * SECOND)),
        ("+30s", None, (FIRST + 30 * SECOND, None)),
        ("-5m", None, (LAST - 300 * SECOND, None)),
        (None, "-5m", (None, LAST - 300 * SECOND)),
        ("23:00", "1:00", (FIRST + 14 * 3600 * SECOND, FIRST + 16 * 3600 * SECOND)),
    ],
)
def test_the_capture_decides_them(start, stop, times):
    asked = AskedTimes(*(text and read(text) for text in (start, stop)))
    made = resolved(Filters(), asked, FIRST, LAST)
    assert (made.from_ns, made.to_ns) == times


def test_times_without_anything_between_them_are_refused():
    with pytest.raises(ValueError, match="not after"):
        resolved(Filters(), AskedTimes(read("+30s"), read("+10s")), FIRST, LAST)


def test_nothing_is_decided_by_an_empty_capture():
    assert resolved(Filters(), AskedTimes(read("+30s")), None, None) == Filters()
