"""A Snappy stream in framing format in; its plain bytes out, see transforms.py.

1. Plain bytes are passed on only if the checksum of their chunk is right.
2. A gap inside a chunk whose header was captured loses this chunk only; its number of plain bytes is known from the
   header (uncompressed) or from the length at the start of the block (compressed).
3. A gap over a header, an impossible header, and a start without the stream identifier lose synchronisation. It is
   regained at the chunk that *ends* first among all data chunks with a right checksum and complete stream identifiers:
   this needs no byte after that chunk, and does not depend on how the input was cut.
4. The work of searching is bounded by the input.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Generator, Iterator
from typing import Final

from mqsniff.codecs.snappy_chunks import (
    CHUNK_MAX,
    HEAD,
    IDENTIFIER,
    SKIPPABLE,
    Unreadable,
    chunk_size,
    may_be_chunk,
    plain_size,
    read_chunk,
)
from mqsniff.codecs.transforms import Dark, Lost, TransformOutput, pieces
from mqsniff.limits import KIB, MIB, Limits

DATA_HEAD: Final = re.compile(rb"(?=[\x00\x01][\x00-\xff]{2}[\x00\x01])")
"""Candidates for data chunks: no allowed length uses the upper seven bits of its third byte."""
SEARCH_WORK: Final = 4 * MIB
SEARCH_WORK_PER_BYTE: Final = KIB
"""Plain bytes that searches may checksum in total and per byte of input: each byte may begin a candidate of 64 KiB, and
without a limit one crafted megabyte would take a minute."""

HOLE_OVER_HEAD: Final = Unreadable("undecoded", "bytes were lost, a chunk's head among them")
HOLE_IN_CHUNK: Final = Unreadable("undecoded", "bytes inside a chunk were lost")
NO_HEAD: Final = Unreadable("codec", "not the header of a Snappy chunk")
NO_START: Final = Unreadable("undecoded", "the stream does not begin with the Snappy identifier")


class Snappy:
    """A transform: reads chunk after chunk, and searches for a chunk when synchronisation is lost."""

    def __init__(self, limits: Limits) -> None:
        self._piece = limits.layer_piece
        self._input = bytearray()
        self._offset = 0  # of the first byte in _input
        self._started = False
        self._passing = 0  # bytes of the current chunk to skip; _input is empty then
        self._spoilt: Lost | None = None  # those of them that came after a gap in a data chunk
        self._search: _Search | None = None
        self._work = 0
        self._dark = False

    def feed(self, data: bytes) -> Iterator[TransformOutput]:
        """The next captured bytes."""
        if self._dark:
            return
        self._input += data
        more = True
        while more:
            if self._search:
                more = yield from self._seek(self._search)
            elif self._passing:
                more = yield from self._pass_over()
            else:
                more = yield from self._next_chunk()

    def gap(self, length: int) -> Iterator[TransformOutput]:
        """A gap of ``length`` bytes: it spoils one chunk, or loses synchronisation."""
        if self._dark or not length:
            return
        if self._search:
            self._search.give_up(len(self._input))
        elif self._passing:
            yield from self._pass_hole(length)
        else:
            yield from self._hole_in_chunk(length)
        self._drop(len(self._input))
        self._offset += length

    def close(self) -> Iterator[TransformOutput]:
        """The stream ended: report the bytes of an incomplete chunk."""
        if self._dark:
            return
        if self._search:
            self._search.give_up(len(self._input))
            yield from self._search.account()
        elif self._passing:
            yield from self._account_passed()
        elif self._input:
            yield Lost(self._offset, len(self._input), plain_size(self._input), "truncated", "the last chunk is cut")
        self._dark = True

    def _next_chunk(self) -> Generator[TransformOutput, None, bool]:
        """Read one chunk; returns whether more input may be used."""
        if not self._started and not IDENTIFIER.startswith(self._input[: len(IDENTIFIER)]):
            self._search = _Search(self._offset, NO_START, told=False)
            return True
        size = chunk_size(self._input)
        if size is None:
            return False
        if not size:
            yield from self._lose_step(NO_HEAD)
            return True
        if self._input[0] in SKIPPABLE:
            self._passing = size
            return True
        if size > len(self._input):
            return False
        chunk = bytes(self._input[:size])
        plain = read_chunk(chunk)
        if isinstance(plain, Unreadable):
            yield Lost(self._offset, size, plain_size(chunk), *plain)
        else:
            yield from pieces(plain, self._piece)
        self._drop(size)
        self._started = True
        return True

    def _pass_over(self) -> Generator[TransformOutput, None, bool]:
        size = min(self._passing, len(self._input))
        if self._spoilt:
            first = self._spoilt.offset if self._spoilt.size else self._offset
            self._spoilt = self._spoilt._replace(offset=first, size=self._spoilt.size + size)
        self._drop(size)
        self._passing -= size
        if self._passing:
            return False
        yield from self._account_passed()
        return True

    def _pass_hole(self, length: int) -> Iterator[TransformOutput]:
        """A gap while a chunk is skipped."""
        if length < self._passing:
            self._passing -= length
            return
        over_head = length > self._passing
        yield from self._account_passed()
        if over_head:
            yield from self._lose_step(HOLE_OVER_HEAD, hole=length)

    def _account_passed(self) -> Iterator[TransformOutput]:
        """The end of a chunk that was skipped: report its bytes that a gap made useless."""
        if self._spoilt and self._spoilt.size:
            yield self._spoilt
        self._spoilt = None
        self._passing = 0

    def _hole_in_chunk(self, length: int) -> Iterator[TransformOutput]:
        """A gap while ``_input`` holds the beginning of a chunk, or nothing."""
        have = len(self._input)
        size = chunk_size(self._input)
        if not size or length > size - have:
            yield from self._lose_step(HOLE_OVER_HEAD, useless=have, hole=length)
            return
        yield Lost(self._offset, have, plain_size(self._input), *HOLE_IN_CHUNK)
        self._started = True
        self._passing = size - have - length
        self._spoilt = Lost(self._offset, 0, 0, *HOLE_IN_CHUNK) if self._passing else None

    def _lose_step(self, reason: Unreadable, useless: int = 0, hole: int = 0) -> Iterator[TransformOutput]:
        """Search after the next ``useless`` bytes of the input and the gap that follows them."""
        yield Lost(self._offset, useless, None, *reason)
        self._search = _Search(self._offset + useless + hole, reason, told=True)

    def _seek(self, search: _Search) -> Generator[TransformOutput, None, bool]:
        """Search in the input; returns whether a chunk was found, so that more input may be used."""
        for start, end in search.candidates(self._input, self._offset):
            at = start - self._offset
            if not may_be_chunk(self._input[at : at + 16], end - start):
                continue
            chunk = bytes(self._input[at : end - self._offset])
            self._work += plain_size(chunk) or 0
            if self._work > SEARCH_WORK + SEARCH_WORK_PER_BYTE * end:
                search.give_up(end - self._offset)
                yield from search.account()
                yield Dark(end, "limit", "the search for a Snappy chunk was given up: too much work")
                self._dark = True
                self._input.clear()
                return False
            if not isinstance(read_chunk(chunk), Unreadable):
                search.give_up(at)
                self._drop(at)
                yield from search.account()
                self._search = None
                self._started = True
                return True
        excess = len(self._input) - CHUNK_MAX
        if excess > CHUNK_MAX:
            search.count(excess)
            self._drop(excess)
        return False

    def _drop(self, size: int) -> None:
        del self._input[:size]
        self._offset += size


class _Search:
    """The candidates for a chunk after a loss of synchronisation.

    ``offset`` is where the search began; ``told``: missing plain bytes were reported there.
    """

    def __init__(self, offset: int, reason: Unreadable, *, told: bool) -> None:
        self.offset = offset
        self._reason = reason
        self._told = told
        self._useless = 0
        self._heads_to = offset
        self._identifiers_to = offset
        self._waiting: list[tuple[int, int]] = []  # a heap of (end, start)

    def candidates(self, data: bytearray, base: int) -> Iterator[tuple[int, int]]:
        """(start, end) of candidates that are complete, by their end; ``data`` begins at offset ``base``."""
        self._collect(data, base)
        stop = base + len(data)
        while self._waiting and self._waiting[0][0] <= stop:
            end, start = heapq.heappop(self._waiting)
            yield start, end

    def _collect(self, data: bytearray, base: int) -> None:
        for match in DATA_HEAD.finditer(data, max(self._heads_to - base, 0)):
            at = match.start()
            if size := chunk_size(data[at : at + HEAD]):
                heapq.heappush(self._waiting, (base + at + size, base + at))
        self._heads_to = max(self._heads_to, base + len(data) - HEAD + 1)
        at = data.find(IDENTIFIER, max(self._identifiers_to - base, 0))
        if at >= 0:
            heapq.heappush(self._waiting, (base + at + len(IDENTIFIER), base + at))
        self._identifiers_to = max(self._identifiers_to, base + len(data) - len(IDENTIFIER) + 1)

    def count(self, size: int) -> None:
        """Count bytes that were searched without result."""
        self._useless += size

    def give_up(self, size: int) -> None:
        """Count the last ``size`` bytes, and drop candidates that a gap or the end has made incomplete."""
        self._useless += size
        self._waiting.clear()

    def account(self) -> Iterator[TransformOutput]:
        """Report the bytes that were searched without result."""
        if self._useless:
            yield Lost(self.offset, self._useless, 0 if self._told else None, *self._reason)
