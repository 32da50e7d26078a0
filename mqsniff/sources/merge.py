"""PacketBatches of several captures in, one stream of batches in the order of the merged capture out.

1. The order is that of t*, the largest time so far in a packet's own capture, then the capture's rank, then its place.
   It depends on nothing else: not on windows, nor on the order in which captures are given.
2. A capture is asked for its first batch when the others have come to its first packet. Captures that do not overlap
   are so read one after the other, and their batches pass as they are.
3. Where captures overlap, all packets up to the least t* at which one of them ends its batch are put in order at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator

import numpy as np

from mqsniff.model import Int64s, PacketBatch
from mqsniff.sources.batches import merge_batches, slice_batch


class Lane:
    """One capture on its way through the merge. ``first_ns`` is the time of its first packet; ranks differ."""

    def __init__(self, rank: int, first_ns: int, next_batch: Callable[[], PacketBatch | None]) -> None:
        self.rank = rank
        self.key = first_ns, rank
        self._next_batch = next_batch
        self._batch: PacketBatch | None = None
        self._keys: Int64s = np.array([first_ns], np.int64)  # t* of the batch's packets
        self._at = 0  # the first that was not taken yet

    @property
    def horizon(self) -> tuple[int, int]:
        """(t*, rank) of the last packet that is at hand."""
        return int(self._keys[-1]), self.rank

    def refill(self) -> bool:
        """See that there is a packet at hand; False at the end of the capture."""
        if self._batch is not None and self._at < len(self._batch):
            return True
        self._batch = self._next_batch()
        self._at = 0
        if self._batch is None:
            return False
        self._keys = np.maximum.accumulate(np.maximum(self._batch.ts_ns, self._keys[-1]))
        return True

    def take(self, horizon: tuple[int, int]) -> tuple[PacketBatch, Int64s] | None:
        """The packets up to a horizon, and their t*."""
        last_ns, rank = horizon
        first = self._at
        self._at = int(np.searchsorted(self._keys, last_ns, side="right" if self.rank <= rank else "left"))
        if self._batch is None or self._at <= first:
            self._at = first
            return None
        if self._at - first == len(self._batch):
            return self._batch, self._keys
        return slice_batch(self._batch, first, self._at), self._keys[first : self._at]


def merge(lanes: Iterable[Lane]) -> Iterator[PacketBatch]:
    """All packets of the lanes in order; ordinals count them from 0."""
    waiting = deque(sorted(lanes, key=lambda lane: lane.key))
    running: list[Lane] = []
    ordinal = 0
    while waiting or running:
        running = [lane for lane in running if lane.refill()]
        while waiting and (not running or waiting[0].key < min(lane.horizon for lane in running)):
            lane = waiting.popleft()
            if lane.refill():
                running.append(lane)
        if not running:
            return
        running.sort(key=lambda lane: lane.rank)
        horizon = min(lane.horizon for lane in running)
        parts = [part for lane in running if (part := lane.take(horizon))]
        batch = parts[0][0] if len(parts) == 1 else merge_batches(*zip(*parts, strict=True))
        batch.ordinal = ordinal
        ordinal += len(batch)
        yield batch
