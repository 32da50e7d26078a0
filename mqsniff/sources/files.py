"""Names of captures in (files, pipes, ``-`` for standard input); the packets of all of them, in order, out.

1. The order of the names never matters: captures are numbered by the time of their first packet, those without one
   last, ties by name. A name given twice is one capture.
2. Of a regular file only the head is read to learn that time; it is opened again when its turn comes, and closed at its
   end, so that thousands of rotated files cost no more than one at a time.
3. An input that cannot be read is named in its CaptureInfo, and the others go on.
4. Where many captures overlap their windows share ``limits.windows_total``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeAlias

from mqsniff.codecs.files import STDIN, RawFile
from mqsniff.limits import KIB, Limits
from mqsniff.model import CaptureInfo, PacketBatch, packet_id
from mqsniff.sources.capture import CaptureReader
from mqsniff.sources.merge import Lane, merge

HEAD_WINDOW: Final = 16 * KIB
WINDOW_MIN: Final = 256 * KIB
NEVER_NS: Final = (1 << 63) - 1
"""First time of a capture without packets."""

ReadProgress: TypeAlias = Callable[[int, int | None], None]
"""Is told the bytes read so far, and how many there are in all (None with pipes among the inputs)."""


def capture_order(first_ns: Sequence[int], names: Sequence[str]) -> list[int]:
    """The places of captures in the order in which they are numbered; ``NEVER_NS`` for one without packets."""
    return sorted(range(len(names)), key=lambda place: (first_ns[place], names[place]))


class FileSource:
    """Captures given together, which are one capture.

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
        """All packets in order, each batch valid until the next is asked for; to be called once."""
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
        """Learn the time of an input's first packet; what can be read once only stays open."""
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
        if batch is None:
            item.close()
            self._open -= 1
        return batch

    def _window(self) -> int:
        """Size of the window of the capture that was opened last."""
        share = self._limits.windows_total // self._open
        return min(max(share, WINDOW_MIN), self._limits.window)

    def _count(self, size: int) -> None:
        self._taken += size
        if self._on_progress:
            self._on_progress(self._taken, self._total)


class _Input:
    """One name that was given, its place among all of them, and what is known of it."""

    def __init__(self, rank: int, name: str) -> None:
        self.rank = rank
        self.info = CaptureInfo(0, name)
        self.first_ns = NEVER_NS
        self.reader: CaptureReader | None = None
        self.held: PacketBatch | None = None

    def open(self) -> RawFile | None:
        """Open the file; None, with the reason in ``info``, if that cannot be."""
        try:
            return RawFile(self.info.name)
        except OSError as error:
            self.info.unreadable = (error.strerror or "cannot be opened").lower()
            return None

    def number(self, index: int) -> None:
        """Give the capture its number, the packets that were read already included."""
        self.info.index = index
        if self.held:
            self.held.packet += packet_id(index, 0)

    def close(self) -> None:
        """Close the file, forget what was read."""
        if self.reader:
            self.reader.close()
        self.reader = self.held = None


def _ignore(_size: int) -> None:
    """Reading heads is no progress: the same bytes are read again."""
