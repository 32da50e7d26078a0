"""Counts at one moment: made by the thread that decodes, read by threads that export them.

1. Nothing in a snapshot changes any more, so that sums within it fit each other.
2. Label values that come to be the same text when they are escaped and cut are one label set: their counts add up.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections.abc import Callable
from typing import Final, TypeAlias

from mqsniff.answers.metrics.families import BOUNDS_NS, MetricFamily
from mqsniff.tables.escape import safe

LABEL_MAX: Final = 128
"""Characters of a label value."""
WAIT_S: Final = 5.0
"""How long a thread waits for new counts before it gets those of before: Prometheus gives up after 10 s."""

LabelValues: TypeAlias = tuple[str, ...]


class DurationCounts:
    """A histogram of durations with fixed buckets."""

    __slots__ = ("counts", "total_ns")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_NS) + 1)
        """By bucket, not added up; the last one is above all bounds."""
        self.total_ns = 0

    def add(self, duration_ns: int) -> None:
        """Count a duration. Hot: once an exchange."""
        self.counts[bisect_left(BOUNDS_NS, duration_ns)] += 1
        self.total_ns += duration_ns

    def merge(self, other: DurationCounts) -> None:
        """Count everything that another one has counted."""
        self.counts = [mine + its for mine, its in zip(self.counts, other.counts, strict=True)]
        self.total_ns += other.total_ns

    @property
    def count(self) -> int:
        """All durations."""
        return sum(self.counts)


MetricValue: TypeAlias = int | float | DurationCounts


class MetricsSnapshot:
    """Values of metrics by family and label values."""

    def __init__(self) -> None:
        self.values: dict[str, dict[LabelValues, MetricValue]] = {}
        """Name of the family -> label values, in the family's order -> value."""

    def add(self, family: MetricFamily, labels: LabelValues, value: MetricValue) -> None:
        """Add a value to that of its labels."""
        values = self.values.setdefault(family.name, {})
        labels = tuple(map(label_text, labels))
        before = values.get(labels)
        if isinstance(value, DurationCounts):
            merged = before if isinstance(before, DurationCounts) else DurationCounts()
            merged.merge(value)
            values[labels] = merged
        else:
            values[labels] = value if before is None or isinstance(before, DurationCounts) else before + value

    def of(self, family: MetricFamily) -> dict[LabelValues, MetricValue]:
        """All values of a family."""
        return self.values.get(family.name, {})


def label_text(text: str) -> str:
    """A name from the wire as a label value: printable, valid Unicode, not too long."""
    shown = safe(text)
    return shown if len(shown) <= LABEL_MAX else shown[: LABEL_MAX - 1] + "…"


class SnapshotDesk:
    """Hands snapshots from the thread that counts to those that export.

    A snapshot is made only where one was asked for, between two items: nothing on the way of an item takes a lock.
    """

    def __init__(self, make: Callable[[], MetricsSnapshot]) -> None:
        self._make = make
        self._latest = make()
        self._asked = 0
        self._answered = 0
        self._closed = False
        self._ready = threading.Condition()

    def answer(self) -> None:
        """Make a snapshot if somebody waits for one; called by the thread that counts, often."""
        if self._asked != self._answered:
            asked = self._asked
            self._hand_over(asked)

    def close(self) -> None:
        """Make the last snapshot: nothing is counted any more."""
        self._closed = True
        self._hand_over(self._asked)

    def _hand_over(self, asked: int) -> None:
        snapshot = self._make()
        with self._ready:
            self._latest, self._answered = snapshot, asked
            self._ready.notify_all()

    def ask(self, wait_s: float = WAIT_S) -> MetricsSnapshot:
        """Counts of now, from any thread; those of before where the thread that counts does not come to it."""
        with self._ready:
            if self._closed:
                return self._latest
            self._asked += 1
            mine, until = self._asked, time.monotonic() + wait_s
            while self._answered < mine and not self._closed:
                left = until - time.monotonic()
                if left <= 0 or not self._ready.wait(left):
                    break
            return self._latest
