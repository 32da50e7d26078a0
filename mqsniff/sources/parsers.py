"""What the readers of capture formats promise: a stretch of bytes in, packets and how far they got out; no I/O.

1. A parser is given bytes again from where it stopped, with more behind them, until they end.
2. What the bytes say does not depend on how many of them it is given at once.
3. It never raises: what is odd becomes a problem of the capture, and what ends the reading sets ``over``.
4. It can begin in the middle: all that it has to know of what stands before is ``heads`` and the last time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol, TypeAlias

import numpy as np

from mqsniff.limits import MIB
from mqsniff.model import Int64s, PacketBatch

HEADS_MAX: Final = MIB


class Parsed(NamedTuple):
    """What was made of a stretch.

    ``position`` is the index of the first byte not used; it may lie behind the stretch, where bytes are to be passed
    over. More can be told once ``need`` bytes stand from there on (0: at once). ``over``: nothing more can be read.
    """

    batch: PacketBatch | None
    position: int
    need: int
    over: bool = False


class Head(NamedTuple):
    """A part of a capture that says how what is behind it is to be read: a file head, a section, an interface."""

    offset: int
    data: bytes


class Heads:
    """The heads of a capture so far, in file order; ``whole`` until there are more than ``HEADS_MAX`` bytes."""

    def __init__(self) -> None:
        self.found: list[Head] = []
        self.whole = True
        self._room = HEADS_MAX

    def add(self, offset: int, data: bytes) -> None:
        """One more."""
        self._room -= len(data)
        self.whole &= self._room >= 0
        if self.whole:
            self.found.append(Head(offset, data))


Losses: TypeAlias = dict[int, tuple[int, int]]
"""Interface of a section -> packets it lost, as its packets tell it and as its last statistics block does."""
NOT_TOLD: Final = -1
"""Packets lost where no statistics block stands."""


class SectionLosses(NamedTuple):
    """Packets that the capturing side says it lost since a place in a capture."""

    first: Losses
    """In the section of that place."""
    between: int
    """In the sections behind it that are over."""
    last: Losses | None
    """In the section that is read now; None where that is still the first."""


class Spent(NamedTuple):
    """What some notes come to, in the bytes that ``notes_max`` counts."""

    size: int = 0
    last: int = 0
    """The last note's share."""


def lost(losses: Losses) -> int:
    """How many packets; the same losses may be told both ways."""
    return sum(max(loss) for loss in losses.values())


class RecordHeadLayout(NamedTuple):
    """How the records of a format tell their size: ``extra`` plus the 32-bit word at ``size_place``.

    No record is smaller than ``least`` bytes.
    """

    size_place: int
    extra: int
    least: int


class Parser(Protocol):
    """The reader of one capture."""

    heads: Heads
    last_ns: int
    """Time of the last packet, which one without a time takes over; 0 at the start."""
    begins_untimed: bool
    """Whether the first packet had no time of its own."""

    def resume(self, heads: Sequence[Head], last_ns: int) -> None:
        """Be as if everything up to a place had been read, where these heads (at least one) stand before it.

        ``last_ns`` is the time of the packet before it.
        """
        ...

    def losses(self) -> SectionLosses:
        """What was lost since the start, or since the place of ``resume``."""
        ...

    def notes(self) -> Spent:
        """The comments and host names since then."""
        ...

    def parse(self, buffer: bytearray, start: int, stop: int, offset: int) -> Parsed:
        """Read ``buffer[start:stop]``, which stands at byte ``offset`` of the capture."""
        ...

    def finish(self, left: int, offset: int) -> None:
        """The capture ended at byte ``offset + left``, of which ``left`` bytes could not be used.

        It is negative where the end came inside bytes that were to be passed over.
        """
        ...


def walk(buffer: bytearray, order: str, at: int, stop: int, layout: RecordHeadLayout) -> tuple[Int64s, int]:
    """Indices of the records that follow each other from ``at`` on, whole if their sizes are true, and the next index.

    The last may have a size that cannot be. This loop is the only one that runs once a packet: 0.1 µs, half of which
    is reading a word by ``item`` from an array with a stride of one byte (``Struct.unpack_from`` takes twice as long).
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
