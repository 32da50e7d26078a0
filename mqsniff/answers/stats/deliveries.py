"""Settlements in; of each group and topic what became of deliveries, and how many are still open, out.

A settlement is a row of ``exchanges`` with ``link`` settlement: a delivered message and what its consumer made of it.
"""

from __future__ import annotations

from mqsniff.answers.stats.keeping import StatRow, counted
from mqsniff.answers.stats.sketch import LatencySketch
from mqsniff.model import Exchange

OPEN_STATUSES = ("pending", "unanswered")
"""Deliveries that nobody settled: the capture ended before, or their consumer went away."""


class DeliveryTally:
    """Deliveries of one topic to one group."""

    __slots__ = ("count", "in_flight", "redelivered", "settled_by", "statuses", "timed_out", "times")

    def __init__(self) -> None:
        self.count = self.redelivered = self.timed_out = self.in_flight = 0
        self.settled_by: dict[str, int] = {}
        self.statuses: dict[str, int] = {}
        self.times = LatencySketch()

    def take(self, exchange: Exchange) -> None:
        """Count a delivery. Hot: once a delivery."""
        pending = exchange.pending
        assert pending is not None
        extra, status = pending.extra, exchange.status
        self.count += 1
        self.statuses[status] = self.statuses.get(status, 0) + 1
        if (by := extra.get("settled_by")) is not None:
            self.settled_by[by] = self.settled_by.get(by, 0) + 1
        self.redelivered += (extra.get("attempts") or 1) > 1
        self.timed_out += extra.get("timed_out") is True
        self.in_flight = max(self.in_flight, extra.get("in_flight") or 0)
        if exchange.latency_ns is not None:
            self.times.add(exchange.latency_ns)

    def row(self) -> StatRow:
        """The figures as columns."""
        p50, p95 = self.times.quantiles(0.5, 0.95)
        return {
            "deliveries": self.count,
            "settled_by": counted(self.settled_by),
            "refused": self.statuses.get("error", 0),
            "redelivered": self.redelivered,
            "timed_out": self.timed_out,
            "unacknowledged": sum(self.statuses.get(status, 0) for status in OPEN_STATUSES),
            "in_flight_max": self.in_flight or None,
            "settle_p50_ns": p50,
            "settle_p95_ns": p95,
            "settle_max_ns": self.times.greatest if self.times.count else None,
        }
