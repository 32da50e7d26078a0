"""Pieces of one direction that cannot be delivered yet, in order of their offset and without overlap.

1. The bytes that come first count; bytes that come again are compared with them.
2. Bytes that the snap length cut off are a piece without data, until another packet brings them.
"""

from __future__ import annotations

from bisect import bisect_right
from operator import attrgetter
from typing import NamedTuple

_offset = attrgetter("offset")


class StreamPiece(NamedTuple):
    """Bytes ``offset`` to ``stop`` of a direction; ``data`` is None if the snap length cut them off."""

    offset: int
    stop: int
    data: bytes | None
    ack: int
    """Offset in the peer's stream up to which the segment acknowledged bytes."""
    ts_ns: int
    packet: int
    ordinal: int

    def part(self, start: int, stop: int) -> StreamPiece:
        """The part of the piece between two offsets inside it."""
        if start == self.offset and stop == self.stop:
            return self
        data = self.data
        if data is not None:
            data = data[start - self.offset : stop - self.offset]
        return StreamPiece(start, stop, data, self.ack, self.ts_ns, self.packet, self.ordinal)


class Added(NamedTuple):
    """The result of adding a piece: how many of its bytes are new, and where it first differs from known bytes."""

    fresh: int
    clash: int | None


class WaitingPieces:
    """The waiting pieces of a direction; falsy when there are none."""

    __slots__ = ("pieces", "size")

    def __init__(self) -> None:
        self.pieces: list[StreamPiece] = []
        self.size = 0
        """Bytes of the stream in the pieces, including those that were cut off."""

    def __len__(self) -> int:
        return len(self.pieces)

    @property
    def head(self) -> StreamPiece:
        """The piece with the lowest offset."""
        return self.pieces[0]

    def pop(self) -> StreamPiece:
        """Remove the head and return it."""
        piece = self.pieces.pop(0)
        self.size -= piece.stop - piece.offset
        return piece

    def add(self, new: StreamPiece) -> Added:
        """Add the bytes of ``new`` that are not known yet."""
        pieces = self.pieces
        if not pieces or pieces[-1].stop <= new.offset:
            pieces.append(new)
            self.size += new.stop - new.offset
            return Added(new.stop - new.offset, None)
        low = bisect_right(pieces, new.offset, key=_offset)
        if low and pieces[low - 1].stop > new.offset:
            low -= 1
        high = low
        while high < len(pieces) and pieces[high].offset < new.stop:
            high += 1
        laid, fresh, clash = _overlay(pieces[low:high], new)
        self.size += _size(laid) - _size(pieces[low:high])
        pieces[low:high] = laid
        return Added(fresh, clash)

    def cut(self, end: int) -> int:
        """Drop bytes at or after ``end``; returns how many."""
        dropped = 0
        while self.pieces and self.pieces[-1].stop > end:
            last = self.pieces.pop()
            dropped += last.stop - max(last.offset, end)
            self.size -= last.stop - last.offset
            if last.offset < end:
                self.add(last.part(last.offset, end))
        return dropped


def _size(pieces: list[StreamPiece]) -> int:
    return sum(piece.stop - piece.offset for piece in pieces)


def _overlay(old: list[StreamPiece], new: StreamPiece) -> tuple[list[StreamPiece], int, int | None]:
    """(joined pieces, number of new bytes, first disagreement) of ``new`` and the pieces that it touches."""
    laid: list[StreamPiece] = []
    fresh, clash, at = 0, None, new.offset
    for piece in old:
        if at < piece.offset:
            laid.append(new.part(at, piece.offset))
            fresh += piece.offset - at
        start, stop = max(piece.offset, new.offset), min(piece.stop, new.stop)
        if piece.data is None and new.data is not None:
            edges = ((piece, piece.offset, start), (new, start, stop), (piece, stop, piece.stop))
            laid += [source.part(first, last) for source, first, last in edges if first < last]
            fresh += stop - start
        else:
            laid.append(piece)
            clash = disagreement(piece, new) if clash is None else clash
        at = max(at, piece.stop)
    if at < new.stop:
        laid.append(new.part(at, new.stop))
        fresh += new.stop - at
    return laid, fresh, clash


def disagreement(known: StreamPiece, new: StreamPiece) -> int | None:
    """Offset of the first byte in which two pieces differ, if both have data; else None."""
    if known.data is None or new.data is None:
        return None
    start, stop = max(known.offset, new.offset), min(known.stop, new.stop)
    first = known.data[start - known.offset : stop - known.offset]
    again = new.data[start - new.offset : stop - new.offset]
    return None if first == again else start + first_difference(first, again)


def first_difference(left: bytes, right: bytes) -> int:
    """Index of the first byte in which two strings of the same length differ; their length if they are equal."""
    low, high = 0, len(left)
    while low < high:
        middle = (low + high + 1) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
