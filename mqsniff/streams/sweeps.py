"""Batches in, the packets out before which connections are swept: where capture time passes another ten seconds.

1. The clock is the largest time that sixteen packets in a row have reached: a packet with a damaged time moves nothing.
2. The same packets give the same sweeps, wherever batches end.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from mqsniff.limits import SECOND_NS
from mqsniff.model import SegmentBatch

SWEEP_NS: Final = 10 * SECOND_NS
"""Capture time between two sweeps, and the disorder of packet times that a sweep tolerates."""
_AGREEING = 16


class Turn(NamedTuple):
    """A sweep before a row of the batch, which is the packet with this ordinal, at this capture time."""

    row: int
    ordinal: int
    now_ns: int


class SweepClock:
    """Capture time as far as several packets agree on it."""

    def __init__(self) -> None:
        self._tail = np.empty(0, np.int64)
        self._next_ns: int | None = None

    def advance(self, batch: SegmentBatch) -> list[Turn]:
        """The sweeps that fall into a batch, in order."""
        times = np.concatenate((self._tail, batch.ts_ns))
        before = len(self._tail)
        self._tail = times[-(_AGREEING - 1) :]
        if len(times) < _AGREEING or (self._next_ns is not None and int(times.max()) < self._next_ns):
            return []
        agreed = np.lib.stride_tricks.sliding_window_view(times, _AGREEING).min(axis=1)
        clock = np.maximum.accumulate(agreed)
        if self._next_ns is None:
            self._next_ns = _next_sweep(int(clock[0]))
        turns: list[Turn] = []
        while (place := int(np.searchsorted(clock, self._next_ns))) < len(clock):
            row, now_ns = place + _AGREEING - 1 - before, int(clock[place])
            turns.append(Turn(row, int(batch.ordinal[row]), now_ns))
            self._next_ns = _next_sweep(now_ns)
        return turns


def _next_sweep(now_ns: int) -> int:
    return (now_ns // SWEEP_NS + 1) * SWEEP_NS
