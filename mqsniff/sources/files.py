"""Names of captures in (files, pipes, ``-`` for standard input); the packets of all of them, in order, out.

1. The order of the names does not matter: captures are numbered by the time of their first packet, those without
   packets last, ties by name. A name given twice is one capture.
2. To learn that time, only the head of a regular file is read; the file is opened again when the merge needs it, and
   closed at its end, so that thousands of rotated files cost no more than one at a time.
3. If an input cannot be read, its CaptureInfo says so, and the others are read.
4. Captures that overlap in time share ``limits.windows_total`` for their windows.
5. Packets are merged by t* (the largest time so far in a packet's own capture), then by the rank of the capture, then
   by their order in the capture. This does not depend on windows, nor on the order of the names.
6. Each open file that is read in parts needs a descriptor. A small one is closed once its bytes are in the window.
7. A capture is read when the merge reaches its first packet. So captures that do not overlap are read one after the
   other, and their batches pass unchanged. If captures overlap, all packets up to the least t* at which a batch ends
   are sorted together.
"""

from __future__ import annotations

import resource
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from errno import EMFILE
from heapq import heappop, heappush
from typing import Final, TypeAlias

import numpy as np

from mqsniff.codecs.files import STDIN, RawFile
from mqsniff.limits import KIB, Limits
from mqsniff.model import CaptureInfo, Int64s, PacketBatch, packet_id
from mqsniff.sources.batches import merge_batches, slice_batch
from mqsniff.sources.capture import CaptureReader

# ---- the merge of captures


class Lane:
    """One capture in the merge. ``first_ns`` is the time of its first packet; ranks are unique."""

    def __init__(self, rank: int, first_ns: int, next_batch: Callable[[], PacketBatch | None]) -> None:
        self.rank = rank
        self.key = first_ns, rank
        self._next_batch = next_batch
        self._batch: PacketBatch | None = None
        self._keys: Int64s = np.array([first_ns], np.int64)  # t* of the batch's packets
        self._at = 0  # index of the next packet

    @property
    def horizon(self) -> tuple[int, int]:
        """(t*, rank) of the last packet of the current batch."""
        return int(self._keys[-1]), self.rank

    @property
    def next_key(self) -> tuple[int, int]:
        """(t*, rank) of the next packet, which the current batch has."""
        return int(self._keys[self._at]), self.rank

    def refill(self) -> bool:
        """Get the next batch, the current one is used up; False at the end of the capture."""
        self._batch = self._next_batch()
        self._at = 0
        if self._batch is None:
            return False
        self._keys = np.maximum.accumulate(np.maximum(self._batch.ts_ns, self._keys[-1]))
        return True

    def take(self, horizon: tuple[int, int]) -> tuple[PacketBatch, Int64s]:
        """The next packets up to a horizon, at least one, and their t*."""
        assert self._batch is not None
        last_ns, rank = horizon
        first = self._at
        self._at = int(np.searchsorted(self._keys, last_ns, side="right" if self.rank <= rank else "left"))
        if self._at - first == len(self._batch):
            return self._batch, self._keys
        return slice_batch(self._batch, first, self._at), self._keys[first : self._at]


class RunningLanes:
    """Lanes that have packets now: by the last packet of their batches, and by the next one.

    A step looks only at the lanes that give packets: of a hundred thousand that overlap, most wait.
    """

    def __init__(self) -> None:
        self._ends: list[tuple[tuple[int, int], Lane]] = []
        self._nexts: list[tuple[tuple[int, int], Lane]] = []

    def start(self, lane: Lane) -> None:
        """Get the next batch of a lane, and let it run unless it has ended."""
        if lane.refill():
            heappush(self._ends, (lane.horizon, lane))  # ranks are unique: lanes are never compared
            heappush(self._nexts, (lane.next_key, lane))

    @property
    def horizon(self) -> tuple[int, int] | None:
        """The least horizon; None if no lane runs."""
        return self._ends[0][0] if self._ends else None

    def taken(self, horizon: tuple[int, int]) -> list[Lane]:
        """The lanes with packets up to a horizon, by rank; each gets ``put_back`` or ``start`` once it gave them."""
        found = []
        while self._nexts and self._nexts[0][0] <= horizon:
            found.append(heappop(self._nexts)[1])
        return sorted(found, key=lambda lane: lane.rank)

    def put_back(self, lanes: Iterable[Lane], horizon: tuple[int, int]) -> None:
        """Go on with lanes that gave their packets up to the least horizon: the one that it belongs to is used up."""
        for lane in lanes:
            if lane.horizon == horizon:
                heappop(self._ends)
                self.start(lane)
            else:
                heappush(self._nexts, (lane.next_key, lane))


def merge(lanes: Iterable[Lane]) -> Iterator[PacketBatch]:
    """All packets of the lanes in order; ordinals count them from 0."""
    waiting = deque(sorted(lanes, key=lambda lane: lane.key))
    running = RunningLanes()
    ordinal = 0
    while True:
        while waiting and ((end := running.horizon) is None or waiting[0].key < end):
            running.start(waiting.popleft())
        horizon = running.horizon
        if horizon is None:
            return
        taking = running.taken(horizon)
        parts = [lane.take(horizon) for lane in taking]
        batch = parts[0][0] if len(parts) == 1 else merge_batches(*zip(*parts, strict=True))
        batch.ordinal = ordinal
        ordinal += len(batch)
        yield batch
        running.put_back(taking, horizon)


# ---- files

HEAD_WINDOW: Final = 16 * KIB
WINDOW_MIN: Final = 16 * KIB
NEVER_NS: Final = (1 << 63) - 1
"""First time of a capture without packets."""

ReadProgress: TypeAlias = Callable[[int, int | None], None]
"""Called with the bytes read so far, and the total (None if an input is a pipe)."""


def capture_order(first_ns: Sequence[int], names: Sequence[str]) -> list[int]:
    """The indexes of captures in the order of their numbers; ``first_ns`` is ``NEVER_NS`` for one without packets."""
    return sorted(range(len(names)), key=lambda place: (first_ns[place], names[place]))


class FileSource:
    """Several captures, read as one.

    ``captures`` has an entry for each input in the order of their numbers. It is complete when the first batch comes,
    and its entries are filled in until the last.
    """

    def __init__(
        self, names: Iterable[str], limits: Limits | None = None, on_progress: ReadProgress | None = None
    ) -> None:
        self.captures: list[CaptureInfo] = []
        self._names = sorted(set(names))
        self._limits = limits or Limits()
        self._on_progress = on_progress
        self._taken = 0
        self._total: int | None = 0
        self._open = 0

    def batches(self) -> Iterator[PacketBatch]:
        """All packets in order; each batch is valid until the next is read. To be called once."""
        inputs = [_Input(rank, name) for rank, name in enumerate(self._names)]
        try:
            for item in inputs:
                self._look(item)
            order = capture_order([item.first_ns for item in inputs], [item.info.name for item in inputs])
            inputs = [inputs[place] for place in order]
            for index, item in enumerate(inputs):
                item.number(index)
                self.captures.append(item.info)
            yield from merge(self._lane(item) for item in inputs if not item.info.unreadable)
        finally:
            for item in inputs:
                item.close()

    def _look(self, item: _Input) -> None:
        """Read the time of an input's first packet; an input that can be read only once stays open."""
        raw = item.open()
        if raw is None:
            return
        self._total = None if raw.size is None or self._total is None else self._total + raw.size
        once = raw.size is None or item.info.name == STDIN
        info = item.info if once else CaptureInfo(0, item.info.name)
        on_read = self._count if once else _ignore
        item.reader = CaptureReader(raw, info, self._limits, self._limits.window if once else HEAD_WINDOW, on_read)
        item.held = item.reader.next_batch()
        if item.held:
            item.first_ns = int(item.held.ts_ns[0])
        item.info.unreadable = info.unreadable
        if once:
            self._open += 1
        else:
            item.close()

    def _lane(self, item: _Input) -> Lane:
        return Lane(item.rank, item.first_ns, lambda: self._next_batch(item))

    def _next_batch(self, item: _Input) -> PacketBatch | None:
        if item.held:
            held, item.held = item.held, None
            return held
        if not item.reader:
            raw = item.open()
            if raw is None:
                return None
            self._open += 1
            item.reader = CaptureReader(raw, item.info, self._limits, self._window(), self._count)
        batch = item.reader.next_batch()
        if (batch is None or item.reader.has_all) and not item.released:
            item.released = True
            item.reader.close()
            self._open -= 1
        if batch is None:
            item.close()
        return batch

    def _window(self) -> int:
        """Size of the window for a capture that is opened now."""
        share = self._limits.windows_total // self._open
        return min(max(share, WINDOW_MIN), self._limits.window)

    def _count(self, size: int) -> None:
        self._taken += size
        if self._on_progress:
            self._on_progress(self._taken, self._total)


class _Input:
    """One input: its name, its rank among all names, and its CaptureInfo."""

    def __init__(self, rank: int, name: str) -> None:
        self.rank = rank
        self.info = CaptureInfo(0, name)
        self.first_ns = NEVER_NS
        self.reader: CaptureReader | None = None
        self.held: PacketBatch | None = None
        self.released = False
        """Whether it was closed since all its bytes were read; of a small file, it has packets then."""

    def open(self) -> RawFile | None:
        """Open the file; None, with the reason in ``info``, if that fails."""
        try:
            return RawFile(self.info.name)
        except OSError as error:
            if error.errno == EMFILE and _more_descriptors():
                return self.open()
            self.info.unreadable = (error.strerror or "cannot be opened").lower()
            return None

    def number(self, index: int) -> None:
        """Set the number of the capture, also in packets that were read already."""
        self.info.index = index
        if self.held:
            self.held.packet += packet_id(index, 0)

    def close(self) -> None:
        """Close the file, and drop what was read."""
        if self.reader:
            self.reader.close()
        self.reader = self.held = None


def _more_descriptors() -> bool:
    """Take as many descriptors as the system allows; False if the process has them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        return False
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return True


def _ignore(_size: int) -> None:
    """The ReadProgress of heads: their bytes are read again later."""
