"""Durations in, their percentiles out, in memory that does not grow: a log-linear histogram.

1. A duration is counted in the bucket of its seven highest bits: a bucket is at most 1/64 of its values wide, so its
   middle is off by at most 1/128 (``ERROR``). Below 128 ns, and for the least and the greatest, values are exact.
2. Percentiles lie between ranks as ``quantile_cont`` of SQL has them.
3. Two histograms add up: the sum is that of all their durations.
"""

from __future__ import annotations

from typing import Final

ERROR: Final = 1 / 128
"""Greatest relative error of a percentile."""
_BITS: Final = 7


class LatencySketch:
    """A histogram of durations in nanoseconds."""

    __slots__ = ("_buckets", "count", "greatest", "least", "total")

    def __init__(self) -> None:
        self.count = self.total = self.greatest = 0
        self.least = -1
        self._buckets: dict[int, int] = {}

    def add(self, duration_ns: int) -> None:
        """Count a duration that is not negative. Hot: once an exchange."""
        shift = duration_ns.bit_length() - _BITS
        key = duration_ns if shift <= 0 else (shift << _BITS) + (duration_ns >> shift)
        self._buckets[key] = self._buckets.get(key, 0) + 1
        self.count += 1
        self.total += duration_ns
        self.greatest = max(self.greatest, duration_ns)
        if duration_ns < self.least or self.least < 0:
            self.least = duration_ns

    def merge(self, other: LatencySketch) -> None:
        """Count everything that another one has counted."""
        if not other.count:
            return
        for key, count in other._buckets.items():
            self._buckets[key] = self._buckets.get(key, 0) + count
        self.least = other.least if self.least < 0 else min(self.least, other.least)
        self.greatest = max(self.greatest, other.greatest)
        self.count += other.count
        self.total += other.total

    def quantiles(self, *shares: float) -> list[int | None]:
        """The durations below which these shares of all lie; the shares rise. None where nothing was counted."""
        if not self.count:
            return [None] * len(shares)
        places = [(self.count - 1) * share for share in shares]
        low = self._at([int(place) for place in places])
        high = self._at([min(int(place) + 1, self.count - 1) for place in places])
        return [
            round(below + (above - below) * (place - int(place)))
            for below, above, place in zip(low, high, places, strict=True)
        ]

    def steps(self, per_octave: int = 4) -> list[tuple[int, int]]:
        """(least duration, how many) of steps that grow: so many for each doubling, for a drawing; rising."""
        found: dict[int, int] = {}
        for key, count in self._buckets.items():
            shift = key >> _BITS
            low = key if shift == 0 else (key - (shift << _BITS)) << shift
            octave = max(low.bit_length() - 1, 0)
            part = ((low - (1 << octave)) * per_octave >> octave) if low else 0
            start = ((per_octave + part) << octave) // per_octave if low else 0
            found[start] = found.get(start, 0) + count
        return sorted(found.items())

    def _at(self, ranks: list[int]) -> list[int]:
        """The durations of some ranks, which rise."""
        found: list[int] = []
        passed = 0
        waiting = iter(ranks)
        rank = next(waiting, None)
        for key in sorted(self._buckets):
            passed += self._buckets[key]
            while rank is not None and rank < passed:
                found.append(self._exact(rank, key))
                rank = next(waiting, None)
        return found

    def _exact(self, rank: int, key: int) -> int:
        """A duration of a bucket; the ends are known exactly."""
        if rank == 0:
            return self.least
        if rank == self.count - 1:
            return self.greatest
        shift = key >> _BITS
        middle = key if shift == 0 else ((key - (shift << _BITS)) << shift) + (1 << shift) // 2
        return min(max(middle, self.least), self.greatest)
