"""Segments in, which of them are a worker's own out: every worker decides alike, since all see the same packets.

1. All packets of a flow belong to one worker, its connections after each other too.
2. Flows of which the first packets show how much they carry, and which carry the same bytes, are divided before the
   run (``divided``). Any other goes to the worker with the fewest bytes so far when its first packets come.
3. Memory is bounded: flows beyond ``PLACED_MAX`` go by a checksum of their endpoints; there are then enough of them for
   shares to be equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final
from zlib import crc32

import numpy as np

from mqsniff.jobs.affinity import FlowAffinity
from mqsniff.model import FlowKey, SegmentBatch

if TYPE_CHECKING:
    from numpy.typing import NDArray

PLACED_MAX: Final = 16_384
"""Flows whose worker is remembered."""
LARGEST: Final = 1.25
"""Of a worker's share: groups of flows that are larger are taken apart."""
SEGMENT_COST: Final = 256
"""A segment costs as much as so many bytes of payload, nearly: heads, small messages."""


def divided(affinity: FlowAffinity, jobs: int) -> dict[FlowKey, int]:
    """Which worker gets which flow: groups stay together unless they are larger than a share."""
    loads = [0] * jobs
    owners: dict[FlowKey, int] = {}
    groups = affinity.groups()
    share = sum(map(affinity.cost_of, groups)) / jobs
    if groups and affinity.cost_of(groups[0]) > LARGEST * share:
        groups = sorted(([key] for keys in groups for key in keys), key=lambda keys: (-affinity.cost_of(keys), keys))
    for keys in groups:
        owner = loads.index(min(loads))
        loads[owner] += affinity.cost_of(keys) + SEGMENT_COST * len(keys)
        owners |= dict.fromkeys(keys, owner)
    return owners


class ConnectionShares:
    """The worker of each flow."""

    def __init__(self, jobs: int, job: int, owners: Mapping[FlowKey, int] | None = None) -> None:
        """``owners``: the workers of flows that are divided already."""
        self._job = job
        self._owners = dict(owners or {})
        self._loads = [0] * jobs

    def own(self, segments: SegmentBatch) -> NDArray[np.bool_]:
        """Which segments belong to this worker."""
        count = len(segments.flows)
        costs = np.bincount(segments.flow, segments.size + SEGMENT_COST, count).astype(np.int64).tolist()
        owners = np.empty(count, np.int64)
        for place, key in enumerate(segments.flows):
            owner = self._owners.get(key)
            if owner is None:
                owner = self._new_owner(key)
            owners[place] = owner
            self._loads[owner] += costs[place]
        own: NDArray[np.bool_] = (owners == self._job)[segments.flow]
        return own

    def _new_owner(self, key: FlowKey) -> int:
        if len(self._owners) >= PLACED_MAX:
            return crc32(repr(key).encode()) % len(self._loads)
        owner = self._owners[key] = self._loads.index(min(self._loads))
        return owner
