"""What compressed bytes may become: by connection, by run, and by what came on the wire."""

from __future__ import annotations

from mqsniff.codecs.inflation import Inflated, InflationBudget
from mqsniff.limits import KIB, Limits

LIMITS = Limits(
    inflate_ratio=3, inflate_free=64 * KIB, inflate_run=100 * KIB, record_cost=2, records_free=1000, records_run=1500
)


def test_bytes_on_the_wire_earn_plain_bytes_and_records():
    budget = InflationBudget(LIMITS)
    assert (budget.plain_left, budget.records_left) == (64 * KIB, 1000)
    budget.earn(10)
    assert (budget.plain_left, budget.records_left) == (64 * KIB + 30, 1005)


def test_what_was_made_is_spent_and_never_owed_below_nothing():
    budget = InflationBudget(LIMITS)
    budget.spend(64 * KIB + 7, 999)
    assert (budget.plain_left, budget.records_left) == (0, 1)
    budget.earn(3)
    assert (budget.plain_left, budget.records_left) == (2, 2)


def test_all_connections_together_have_a_bound_too():
    run = Inflated()
    first, second = (InflationBudget(LIMITS, run) for _ in range(2))
    first.spend(60 * KIB, 900)
    assert (second.plain_left, second.records_left) == (40 * KIB, 600)
    second.earn(100)
    assert (second.plain_left, second.records_left) == (40 * KIB + 300, 650)
