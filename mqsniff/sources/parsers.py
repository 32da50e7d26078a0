"""The contract of parsers of capture formats: bytes in, packets and the number of used bytes out; no I/O.

1. A parser gets bytes again from where it stopped, with more bytes after them, until the end.
2. The packets do not depend on how many bytes it gets at once.
3. It never raises: oddities become problems of the capture, and what ends the reading sets ``over``.
4. It can begin inside a capture: of the bytes before, it needs only ``heads`` and the last time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol, TypeAlias

import numpy as np

from mqsniff.limits import MIB
from mqsniff.model import Int64s, PacketBatch

HEADS_MAX: Final = MIB


class Parsed(NamedTuple):
    """The result of parsing some bytes.

    ``position`` is the index of the first unused byte; it is beyond the bytes if further bytes have to be skipped.
    Parsing continues when ``need`` bytes follow it (0: any). ``over``: nothing more can be read.
    """

    batch: PacketBatch | None
    position: int
    need: int
    over: bool = False


class Head(NamedTuple):
    """A part of a capture that later packets depend on: a file head, a section header, an interface description."""

    offset: int
    data: bytes


class Heads:
    """The heads of a capture so far, in file order; ``whole`` until there are more than ``HEADS_MAX`` bytes."""

    def __init__(self) -> None:
        self.found: list[Head] = []
        self.whole = True
        self._room = HEADS_MAX

    def add(self, offset: int, data: bytes) -> None:
        """Add a head."""
        self._room -= len(data)
        self.whole &= self._room >= 0
        if self.whole:
            self.found.append(Head(offset, data))


Losses: TypeAlias = dict[int, tuple[int, int]]
"""Interface of a section -> packets it lost, (as its packets count, as its last statistics block counts)."""
NOT_COUNTED: Final = -1
"""Stands for the second count if there is no statistics block."""


class SectionLosses(NamedTuple):
    """Packets that the capturing side lost, by its own count, since an offset in a capture."""

    first: Losses
    """In the section of that offset."""
    between: int
    """In later sections that have ended."""
    last: Losses | None
    """In the current section; None if that is still the first."""


class Spent(NamedTuple):
    """The size of some notes, in the bytes that ``notes_max`` counts."""

    size: int = 0
    last: int = 0
    """The size of the last note."""


def lost(losses: Losses) -> int:
    """The number of lost packets; the same losses may be counted both ways."""
    return sum(max(loss) for loss in losses.values())


class RecordHeadLayout(NamedTuple):
    """How to compute the size of a record: ``extra`` plus the 32-bit word at ``size_place``.

    No record is smaller than ``least`` bytes.
    """

    size_place: int
    extra: int
    least: int


class Parser(Protocol):
    """The parser of one capture."""

    heads: Heads
    last_ns: int
    """Time of the last packet, used for packets without a time; 0 at the start."""
    begins_untimed: bool
    """Whether the first packet had no time of its own."""

    def resume(self, heads: Sequence[Head], last_ns: int) -> None:
        """Set the state to that after reading up to some offset; ``heads`` (at least one) are those before it.

        ``last_ns`` is the time of the packet before it.
        """
        ...

    def losses(self) -> SectionLosses:
        """What was lost since the start, or since ``resume``."""
        ...

    def notes(self) -> Spent:
        """The size of comments and host names since then."""
        ...

    def parse(self, buffer: bytearray, start: int, stop: int, offset: int) -> Parsed:
        """Parse ``buffer[start:stop]``, whose first byte is at ``offset`` of the capture."""
        ...

    def finish(self, left: int, offset: int) -> None:
        """The capture ended at byte ``offset + left``; the last ``left`` bytes were not used.

        ``left`` is negative if the capture ended inside bytes that had to be skipped.
        """
        ...


def walk(buffer: bytearray, order: str, at: int, stop: int, layout: RecordHeadLayout) -> tuple[Int64s, int]:
    """(indices of adjacent complete records from ``at`` on, the next index), if their sizes are true.

    The last may have an impossible size. This is the only loop per packet: 0.1 µs, half of which is reading a word by
    ``item`` from an array with a stride of one byte (``Struct.unpack_from`` takes twice as long).
    """
    size_place, extra, least = layout
    if stop - at < least:
        return np.zeros(0, np.int64), at
    size_at = np.ndarray((stop - 3,), order + "u4", buffer, 0, (1,)).item
    found: list[int] = []
    add = found.append
    last = stop + size_place - least
    before = at
    at += size_place
    while before < at <= last:
        add(at)
        before = at
        at += extra + size_at(at)
    if at > stop + size_place:
        at = found.pop()
    return np.array(found, np.int64) - size_place, at - size_place


def gather(buffer: bytearray, at: Int64s, count: int, word: str) -> Int64s:
    """The ``count`` words (a NumPy type with byte order, at most 32 bits) at each index in ``at``: shape (n, count)."""
    if not len(at):
        return np.zeros((0, count), np.int64)
    size = np.dtype(word).itemsize * count
    rows = np.lib.stride_tricks.sliding_window_view(np.frombuffer(buffer, np.uint8), size)[at]
    return rows.view(word).astype(np.int64)
