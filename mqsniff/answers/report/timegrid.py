"""Times of a run in, buckets of equal width out, at most ``BUCKETS`` of them however long the run is.

1. A bucket is ``1 ms * 2**level`` wide and begins at a multiple of that. When the run outgrows the grid, the level
   rises, and two neighbours become one.
2. Series fold themselves when they are used next, so that a rise costs nothing at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar

from mqsniff.answers.stats.sketch import LatencySketch
from mqsniff.limits import MILLISECOND_NS

BUCKETS: Final = 240
"""Buckets at most; a grid that has grown has half of them at least."""

CellT = TypeVar("CellT")


class TimeGrid:
    """The buckets of a run: how wide they are, and which exist."""

    __slots__ = ("first", "last", "level")

    def __init__(self) -> None:
        self.level = 0
        self.first = self.last = -1

    @property
    def width_ns(self) -> int:
        """The width of a bucket."""
        return MILLISECOND_NS << self.level

    @property
    def count(self) -> int:
        """Number of buckets from the first to the last one."""
        return 0 if self.first < 0 else self.last - self.first + 1

    def bucket(self, ts_ns: int) -> int:
        """The bucket of a time, which the grid reaches from now on."""
        number = ts_ns // MILLISECOND_NS >> self.level
        if self.first <= number <= self.last:
            return number
        if self.first < 0:
            self.first = self.last = number
            return number
        self.first, self.last = min(self.first, number), max(self.last, number)
        while self.last - self.first >= BUCKETS:
            self.level += 1
            self.first >>= 1
            self.last >>= 1
        return ts_ns // MILLISECOND_NS >> self.level


class TimedSeries(Generic[CellT]):
    """A cell for each bucket in which something was seen."""

    __slots__ = ("_make", "_merge", "cells", "level")

    def __init__(self, make: Callable[[], CellT], merge: Callable[[CellT, CellT], CellT]) -> None:
        """``merge``: the cell of an earlier and of a later bucket as one."""
        self._make, self._merge = make, merge
        self.cells: dict[int, CellT] = {}
        self.level = 0

    def at(self, grid: TimeGrid, ts_ns: int) -> CellT:
        """The cell of a time. Hot."""
        bucket = grid.bucket(ts_ns)
        if self.level != grid.level:
            self.fold(grid.level)
        cell = self.cells.get(bucket)
        if cell is None:
            cell = self.cells[bucket] = self._make()
        return cell

    def fold(self, level: int) -> None:
        """Make the buckets as wide as those of this level."""
        if self.level == level:
            return
        cells: dict[int, CellT] = {}
        for bucket in sorted(self.cells):
            to = bucket >> (level - self.level)
            cell = self.cells[bucket]
            cells[to] = self._merge(cells[to], cell) if to in cells else cell
        self.cells, self.level = cells, level

    def add(self, other: TimedSeries[CellT], level: int) -> None:
        """Merge another series into this one, which gives its cells away."""
        self.fold(level)
        other.fold(level)
        for bucket, cell in other.cells.items():
            self.cells[bucket] = self._merge(self.cells[bucket], cell) if bucket in self.cells else cell

    def of(self, grid: TimeGrid) -> list[CellT | None]:
        """The cells of all buckets of the grid."""
        self.fold(grid.level)
        return [self.cells.get(bucket) for bucket in range(grid.first, grid.last + 1)] if grid.count else []


def amount_series() -> TimedSeries[list[int]]:
    """Cells of [how many, bytes]."""
    return TimedSeries(lambda: [0, 0], _summed)


def duration_series() -> TimedSeries[tuple[LatencySketch, LatencySketch]]:
    """Cells of (how long brokers worked, how long they waited)."""
    return TimedSeries(lambda: (LatencySketch(), LatencySketch()), _joined)


def level_series() -> TimedSeries[list[int | None]]:
    """Cells of [lag, commit lag] as they were last."""
    return TimedSeries(lambda: [None, None], lambda _, later: later)


def _summed(one: list[int], two: list[int]) -> list[int]:
    return [one[0] + two[0], one[1] + two[1]]


def _joined(
    one: tuple[LatencySketch, LatencySketch], two: tuple[LatencySketch, LatencySketch]
) -> tuple[LatencySketch, LatencySketch]:
    one[0].merge(two[0])
    one[1].merge(two[1])
    return one
