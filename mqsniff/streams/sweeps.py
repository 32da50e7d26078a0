"""Batches in, the packets out before which connections are swept: where capture time passes another ten seconds.

1. The clock is the largest time that sixteen packets in a row have reached: a packet with a damaged time moves nothing.
2. A step of more than ``STEP_NS`` ahead is doubted: a clock may have been set, and set back. It counts once
   ``SURE_PACKETS`` packets in a row or ``STEP_NS`` more of capture time lie behind it, and it never was where a packet
   goes back before it.
3. The same packets give the same sweeps, wherever batches end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from mqsniff.limits import SECOND_NS
from mqsniff.model import SegmentBatch

if TYPE_CHECKING:
    from mqsniff.model import Int64s

SWEEP_NS: Final = 10 * SECOND_NS
"""Capture time between two sweeps, and the disorder of packet times that a sweep tolerates."""
STEP_NS: Final = 60 * SECOND_NS
SURE_PACKETS: Final = 1024
_AGREEING = 16


class ExpiryTick(NamedTuple):
    """A sweep before a row of the batch, which is the packet with this ordinal, at this capture time."""

    row: int
    ordinal: int
    now_ns: int


class ExpiryClock:
    """Capture time as far as several packets agree on it."""

    def __init__(self) -> None:
        self._tail = np.empty(0, np.int64)
        self._begun = False
        self._next_ns = 0
        """Time of the next sweep, once it has begun."""
        self._now_ns = 0
        """The clock before what is doubted."""
        self._doubted_ns: int | None = None
        """Time behind a step that is not believed yet."""
        self._behind = 0
        """Packets behind that step."""

    def advance(self, batch: SegmentBatch) -> list[ExpiryTick]:
        """The sweeps that fall into a batch, in order."""
        times = np.concatenate((self._tail, batch.ts_ns))
        before = len(self._tail)
        self._tail = times[-(_AGREEING - 1) :]
        if len(times) < _AGREEING:
            return []
        if self._begun and self._doubted_ns is None and int(times.max()) < self._next_ns:
            return []
        agreed = np.lib.stride_tricks.sliding_window_view(times, _AGREEING).min(axis=1)
        if not self._begun:
            self._begun, self._now_ns = True, int(agreed[0])
            self._next_ns = _next_sweep(self._now_ns)
        turns: list[ExpiryTick] = []
        place = 0
        while (found := self._find(agreed, place)) is not None:
            place, swept = found
            if swept:
                row, now_ns = place + _AGREEING - 1 - before, int(agreed[place])
                turns.append(ExpiryTick(row, int(batch.ordinal[row]), now_ns))
                self._now_ns, self._next_ns = now_ns, _next_sweep(now_ns)
        return turns

    def _find(self, agreed: Int64s, place: int) -> tuple[int, bool] | None:
        """(where to go on, whether there is a sweep) from a place on; None where the batch has no more of either."""
        if self._doubted_ns is not None:
            return self._weigh(agreed, place, self._doubted_ns)
        hit = _first(agreed[place:] >= self._next_ns)
        if hit is None:
            self._now_ns = max(self._now_ns, int(agreed[place:].max(initial=self._now_ns)))
            return None
        stop = place + hit
        now_ns = max(self._now_ns, int(agreed[place:stop].max(initial=self._now_ns)))
        step = int(agreed[stop]) - now_ns
        self._now_ns = now_ns
        if step > STEP_NS:
            self._doubted_ns, self._behind = int(agreed[stop]), 0
            return stop + 1, False
        return stop, True

    def _weigh(self, agreed: Int64s, place: int, doubted_ns: int) -> tuple[int, bool] | None:
        """As ``_find``, behind a step that is doubted."""
        ahead = agreed[place:]
        back = _first(ahead < doubted_ns - SWEEP_NS)
        sure = _first(ahead >= doubted_ns + STEP_NS)
        enough = SURE_PACKETS - self._behind - 1
        if enough < len(ahead) and (sure is None or enough < sure):
            sure = enough
        if sure is not None and (back is None or sure < back):
            self._doubted_ns = None
            return place + sure, True
        if back is not None:
            self._doubted_ns = None
            return place + back, False
        self._behind += len(ahead)
        return None


def _first(marked: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> int | None:
    """Index of the first that is true."""
    if not marked.any():
        return None
    return int(marked.argmax())


def _next_sweep(now_ns: int) -> int:
    return (now_ns // SWEEP_NS + 1) * SWEEP_NS
