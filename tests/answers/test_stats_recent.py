"""Figures of the last seconds of a live run."""

from __future__ import annotations

from dataclasses import replace

import pytest
from handmade import answer_to, batch, connection, pub

from mqsniff.answers.stats.commands import ERROR_NAMES_MAX
from mqsniff.answers.stats.keeping import OTHERS
from mqsniff.answers.stats.recent import CaptureCounts, RecentStats
from mqsniff.limits import Limits
from mqsniff.model import ClosedItem, Exchange, ExchangeItem, MessageItem, RecordItem

MILLISECOND = 1_000_000


class Clock:
    """A clock that stands."""

    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def recent(clock, slices=3, limits=None):
    return RecentStats([], limits or Limits(), 1.0, slices, clock)


def say(stats, count, name="PUB"):
    for _ in range(count):
        stats.write(MessageItem(connection(), replace(pub(), name=name)))


def answered(work_ns, error=None):
    answer, pending = answer_to(pub())
    answer.error_name = error
    status = "error" if error else "ok"
    return ExchangeItem(connection(), Exchange(pending, answer, status, latency_ns=work_ns, work_ns=work_ns))


def turn(stats, clock, **counts):
    clock.now += 1
    assert stats.is_due()
    stats.turn(CaptureCounts(**counts))


def test_rates_are_of_the_window_and_counts_of_the_run(clock):
    stats = recent(clock)
    for number in range(5):
        say(stats, 10 if number == 0 else 2)
        turn(stats, clock, packets=100 * (number + 1), dropped=number)
    figures = stats.figures()
    assert (figures.messages, figures.messages_per_s) == (18, 2)
    assert (figures.packets, figures.packets_per_s) == (500, 100)
    assert (figures.dropped, figures.dropped_now) == (4, 3)
    (row,) = figures.commands
    assert (row["count"], row["per_s"], row["bytes_per_s"]) == (18, 2, 100)
    assert stats.figures(whole=True).messages_per_s == 18 / 5


def test_latency_and_errors_that_leave_the_window_are_in_the_totals_only(clock):
    stats = recent(clock, slices=1)
    stats.write(answered(MILLISECOND, "E_INVALID"))
    turn(stats, clock)
    (row,) = stats.figures().commands
    assert (row["p50_ns"], row["errors_now"], stats.figures().failures[0]["now"]) == (MILLISECOND, 1, 1)
    stats.write(answered(5 * MILLISECOND))
    turn(stats, clock)
    figures = stats.figures()
    (row,) = figures.commands
    assert (row["p50_ns"], row["errors_now"], row["errors"]) == (5 * MILLISECOND, 0, 1)
    assert [(each["error"], each["now"], each["count"]) for each in figures.failures] == [("E_INVALID", 0, 1)]
    assert stats.figures(whole=True).commands[0]["max_ns"] == 5 * MILLISECOND


def test_topics_have_rates_of_the_window(clock):
    stats = recent(clock, slices=1)
    records = batch((b"k", b"value"), topic="orders", direction="produce")
    for _ in range(3):
        stats.write(RecordItem(connection(), pub(), records))
        turn(stats, clock)
    (row,) = stats.figures().topics
    assert (row["topic"], row["produced"], row["produced_per_s"], row["bytes_per_s"]) == ("orders", 3, 1, 5)


def test_open_connections_are_those_that_began_and_did_not_end(clock):
    stats = recent(clock)
    stats.write(ClosedItem(connection()))
    turn(stats, clock, connections=3)
    assert stats.figures().open_connections == 2


def test_commands_are_capped_and_the_rest_is_counted_together(clock):
    stats = recent(clock, limits=Limits().with_value("metrics_rows_max", 2))
    for name in ("A", "B", "C", "D"):
        say(stats, 1, name)
    turn(stats, clock)
    figures = stats.figures()
    assert {row["name"]: row["count"] for row in figures.commands} == {"A": 1, "B": 1, OTHERS: 2}
    assert figures.capped
    assert figures.messages_per_s == 4


def test_a_window_has_no_more_slices_than_it_shall(clock):
    stats = recent(clock, slices=3)
    for _ in range(50):
        say(stats, 1)
        turn(stats, clock)
    assert len(stats._window) == 4
    assert stats.figures().messages == 50


def test_a_server_that_makes_up_errors_for_days_does_not_fill_the_memory(clock):
    stats = recent(clock)
    for slice_number in range(5):
        for number in range(100):
            stats.write(answered(1, f"E_{slice_number}_{number}"))
        turn(stats, clock)
    rows = stats.figures().failures
    assert len(rows) == ERROR_NAMES_MAX + 1
    assert sum(row["count"] for row in rows) == 500
    assert next(row["count"] for row in rows if row["error"] == OTHERS) == 250
