"""The time column."""

from __future__ import annotations

import time

import pytest
from handmade import START

from mqsniff.sinks.clock import Clock

SECOND = 1_000_000_000


@pytest.mark.parametrize(
    ("mode", "stamps"),
    [
        ("utc", ["09:38:50.702681Z", "09:38:51.702681Z", "09:38:50.702680Z"]),
        ("relative", ["     0.000000", "     1.000000", "    -0.000001"]),
        ("delta", ["     0.000000", "     1.000000", "    -1.000001"]),
        ("epoch", ["1795253930.702681", "1795253931.702681", "1795253930.702680"]),
    ],
)
def test_each_mode_has_its_form(mode, stamps):
    clock = Clock(mode)
    assert [clock.stamp(ts_ns) for ts_ns in (START, START + SECOND, START - 1000)] == stamps


def test_local_time_shows_its_zone(monkeypatch):
    monkeypatch.setenv("TZ", "IST-5:30")
    time.tzset()
    try:
        clock = Clock("local")
        assert clock.stamp(START) == "15:08:50.702681+05:30"
        assert clock.day(START + 9 * 3600 * SECOND) == "2026-11-22"
    finally:
        monkeypatch.undo()
        time.tzset()


def test_the_date_comes_when_it_changes():
    clock = Clock("utc")
    day = 86_400 * SECOND
    assert [clock.day(START + offset) for offset in (0, 1, day, 0)] == ["2026-11-21", None, "2026-11-22", "2026-11-21"]
    assert Clock("relative").day(START) is None


@pytest.mark.parametrize("mode", ["utc", "local", "relative", "delta", "epoch"])
def test_no_time_is_too_odd(mode):
    for ts_ns in (1 << 90, -(1 << 90)):
        clock = Clock(mode)
        clock.day(ts_ns)
        assert clock.stamp(ts_ns)
