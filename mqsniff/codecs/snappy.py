"""A Snappy stream in framing format in; its plain bytes out, see transforms.py.

1. Plain bytes are handed on when the checksum of their chunk is right, and only then.
2. A hole inside a chunk whose head was seen loses this chunk only; how many plain bytes that are is known from the
   head (uncompressed) or from the length that opens the block (compressed).
3. A hole over a head, a head that cannot be, and a start without the stream identifier lose the step. It is found
   again at the chunk that *ends* first among all places where a data chunk with a right checksum, or a whole stream
   identifier, stands: the answer needs no byte behind that chunk and does not depend on how the input was cut.
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
"""Where a data chunk may begin: no allowed length needs the upper seven bits of its third byte."""
SEARCH_WORK: Final = 4 * MIB
SEARCH_WORK_PER_BYTE: Final = KIB
"""Plain bytes that searches may checksum at all and for each byte of input: any byte may open a candidate of 64 KiB,
and without a bound one crafted megabyte would buy a minute."""

HOLE_OVER_HEAD: Final = Unreadable("undecoded", "bytes were lost, a chunk's head among them")
HOLE_IN_CHUNK: Final = Unreadable("undecoded", "bytes inside a chunk were lost")
NO_HEAD: Final = Unreadable("codec", "no head of a Snappy chunk")
NO_START: Final = Unreadable("undecoded", "the stream does not begin with the Snappy identifier")


class Snappy:
    """A transform: in step while chunk follows chunk, searching when the step is lost."""

    def __init__(self, limits: Limits) -> None:
        self._piece = limits.layer_piece
        self._input = bytearray()
        self._offset = 0  # of the first byte in _input
        self._started = False
        self._passing = 0  # bytes of the current chunk that are to be passed over; _input is empty then
        self._spoilt: Lost | None = None  # those of them that arrived behind a hole in a data chunk
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
        """A hole of ``length`` bytes: it spoils one chunk, or loses the step."""
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
        """The stream ended: what waited for its rest is accounted for."""
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
        """Use up one chunk; whether there may be more to do."""
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
        """A hole while a chunk is passed over."""
        if length < self._passing:
            self._passing -= length
            return
        over_head = length > self._passing
        yield from self._account_passed()
        if over_head:
            yield from self._lose_step(HOLE_OVER_HEAD, hole=length)

    def _account_passed(self) -> Iterator[TransformOutput]:
        """The end of a chunk that was passed over: name the bytes of it that a hole made useless."""
        if self._spoilt and self._spoilt.size:
            yield self._spoilt
        self._spoilt = None
        self._passing = 0

    def _hole_in_chunk(self, length: int) -> Iterator[TransformOutput]:
        """A hole while ``_input`` holds the beginning of a chunk, or nothing."""
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
        """Search behind the next ``useless`` bytes of the input and the hole that follows them."""
        yield Lost(self._offset, useless, None, *reason)
        self._search = _Search(self._offset + useless + hole, reason, told=True)

    def _seek(self, search: _Search) -> Generator[TransformOutput, None, bool]:
        """Search in the input; whether the step was found, so that there may be more to do."""
        for start, end in search.candidates(self._input, self._offset):
            at = start - self._offset
            if not may_be_chunk(self._input[at : at + 16], end - start):
                continue
            chunk = bytes(self._input[at : end - self._offset])
            self._work += plain_size(chunk) or 0
            if self._work > SEARCH_WORK + SEARCH_WORK_PER_BYTE * end:
                search.give_up(end - self._offset)
                yield from search.account()
                yield Dark(end, "limit", "the search for a Snappy chunk takes too much work")
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
    """The places behind a lost step where a chunk may stand.

    ``offset`` is where the search began; ``told``: that plain bytes are missing at this place was said then.
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
        """(start, end) of places that are whole by now, by their end; ``data`` begins at offset ``base``."""
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
        """So many bytes were searched in vain."""
        self._useless += size

    def give_up(self, size: int) -> None:
        """Count the last ``size`` bytes, and forget the places that wait for what a hole or the end took."""
        self._useless += size
        self._waiting.clear()

    def account(self) -> Iterator[TransformOutput]:
        """Name the bytes that were searched in vain."""
        if self._useless:
            yield Lost(self.offset, self._useless, 0 if self._told else None, *self._reason)
