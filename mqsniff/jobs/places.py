"""How far each worker is, in memory that all of them share.

1. A place says where an item stands in the run: (stage, release, first packet of its connection). Stages are slices of
   packets, and what follows the last; every worker has the same. The last two are as in ``Pipeline``.
2. A worker publishes a place when all its items before it are complete, and what they taught can be read.
3. One worker writes an entry, the others read it: two equal reads with an even count are one state.
"""

from __future__ import annotations

import mmap
import struct
from typing import Final, TypeAlias

Place: TypeAlias = tuple[int, int, int]

BEFORE: Final[Place] = (-1, -1, -1)
"""Before all items."""
AFTER: Final[Place] = ((1 << 62), 0, 0)
"""After all items."""
_ENTRY: Final = struct.Struct("=4q")


class SharedPlaces:
    """The place of each worker; to be made before they are."""

    def __init__(self, jobs: int) -> None:
        self._memory = mmap.mmap(-1, _ENTRY.size * jobs)
        self._counts = [0] * jobs
        for job in range(jobs):
            self.publish(job, BEFORE)

    def publish(self, job: int, place: Place) -> None:
        """All items of a worker before this place are complete; only this worker may say so."""
        count = self._counts[job] = self._counts[job] + 2
        at = _ENTRY.size * job
        self._memory[at : at + 8] = struct.pack("=q", count - 1)
        self._memory[at + 8 : at + _ENTRY.size] = struct.pack("=3q", *place)
        self._memory[at : at + 8] = struct.pack("=q", count)

    def of(self, job: int) -> Place:
        """The last place that a worker published."""
        at = _ENTRY.size * job
        while True:
            entry = self._memory[at : at + _ENTRY.size]
            count, *place = _ENTRY.unpack(entry)
            if not count % 2 and self._memory[at : at + _ENTRY.size] == entry:
                return place[0], place[1], place[2]
