"""What compressed bytes may become: by connection, and by what came on the wire."""

from __future__ import annotations

from mqsniff.codecs.inflation import EARLY_PLAIN, InflationBudget
from mqsniff.limits import KIB, MIB, Limits

LIMITS = Limits(
    inflate_ratio=3,
    inflate_start=64 * KIB,
    inflate_free=100 * KIB,
    record_cost=2,
    records_start=1000,
    records_free=1500,
)


def test_bytes_on_the_wire_earn_plain_bytes_and_records():
    budget = InflationBudget(LIMITS)
    assert (budget.plain_left, budget.records_left) == (64 * KIB, 1000)
    budget.earn(10)
    assert (budget.plain_left, budget.records_left) == (64 * KIB + 10 * EARLY_PLAIN + 30, 1000 + 10 + 5)


def test_what_may_be_owed_ends_at_the_free_amounts():
    budget = InflationBudget(LIMITS)
    budget.earn(10_000)
    assert (budget.plain_left, budget.records_left) == (100 * KIB + 30_000, 1500 + 5_000)


def test_what_was_made_is_spent_and_never_owed_below_nothing():
    budget = InflationBudget(LIMITS)
    budget.earn(10_000)
    budget.spend(100 * KIB + 30_007, 6_499)
    assert (budget.plain_left, budget.records_left) == (0, 1)
    budget.earn(3)
    assert (budget.plain_left, budget.records_left) == (2, 2)


def test_a_connection_knows_nothing_of_another():
    first, second = InflationBudget(LIMITS), InflationBudget(LIMITS)
    first.spend(60 * KIB, 900)
    assert (second.plain_left, second.records_left) == (64 * KIB, 1000)


def test_many_small_connections_together_are_bounded_by_their_bytes():
    """Of 5 MB of capture: 24,000 connections of one packet, or a single one."""
    for connections, wire in ((24_000, 150), (1, 5_000_000)):
        budget = InflationBudget(Limits())
        budget.earn(wire)
        assert connections * budget.plain_left < 40_000 * MIB
        assert connections * budget.records_left < 12_000_000
