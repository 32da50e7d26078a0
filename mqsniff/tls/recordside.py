"""Stream bytes of one side in, whole records out, each with the packet that completed it.

Source: RFC 8446 section 5.1, RFC 5246 section 6.2.

1. Records are followed by the lengths in their heads. Bytes that can be no record are clear text where that may be: at
   the start, where a peer that was to begin TLS did not, and after an alert, since a server may say in clear text why
   it refused.
2. A loss inside a record costs that record. Inside one that hides where records begin, heads are searched; a candidate
   is right if it opens.
3. Records that nobody reads are passed over without being kept.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import deque
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple, TypeAlias

from mqsniff.model import Chunk, Gap, Mark, Side
from mqsniff.tls.hello import MESSAGE_KINDS
from mqsniff.tls.opener import Opener

HEAD_SIZE: Final = 5
RECORD_MAX: Final = 16_384 + 2_048
"""Largest record body: TLSCiphertext of RFC 5246 section 6.2.3."""
CHANGE_CIPHER: Final = 20
ALERT: Final = 21
HANDSHAKE_RECORD: Final = 22
APPLICATION: Final = 23
_TAIL: Final = 96
"""Bytes at the end of a record that hold the last block of CBC and its MAC."""
_HEAD: Final = re.compile(rb"[\x14-\x17]\x03[\x00-\x04]")

RecordMode: TypeAlias = Literal["step", "search", "clear", "lost"]


class TlsRecord(NamedTuple):
    """A whole record."""

    kind: int
    head: bytes
    body: bytes
    mark: Mark
    """Of the packet that completed it."""
    offset: int
    """Stream offset of its head."""
    first: Mark
    """Of the packet in which it begins; only where records are watched, else as ``mark``."""


def may_be_head(begun: bytes) -> bool:
    """Whether a record can begin with these bytes, one at least."""
    return CHANGE_CIPHER <= begun[0] <= APPLICATION and begun[1:2] in (b"", b"\x03")


def is_message(record: TlsRecord) -> bool:
    """Whether a record holds a handshake message in clear, which it begins with."""
    body = record.body
    known = record.kind == HANDSHAKE_RECORD and len(body) >= 4 and body[0] in MESSAGE_KINDS
    return known and int.from_bytes(body[1:4], "big") <= RECORD_MAX


def is_head(head: bytes) -> bool:
    """Whether five bytes can be the head of a record."""
    return (
        len(head) == HEAD_SIZE
        and may_be_head(head)
        and head[2] <= 4
        and 0 < int.from_bytes(head[3:5], "big") <= RECORD_MAX
    )


class RecordSide:
    """One side: its bytes that wait for the rest of their record, and what became of the others."""

    def __init__(self, side: Side, trials_max: int) -> None:
        self.side = side
        self.mode: RecordMode = "step"
        self.opener = Opener(trials_max)
        self.waiting: deque[Chunk | Gap] = deque()
        """Events that wait for the peer."""
        self.waiting_size = 0
        self.sealed = False
        """Whether records are protected since a ChangeCipherSpec (up to TLS 1.2)."""
        self.sealed_seen = False
        """Whether there was a protected record."""
        self.handshake = bytearray()
        """Handshake bytes of an incomplete message."""
        self.size = 0
        """Bytes that TLS had, plain bytes after it apart."""
        self.used = 0
        """Bytes of these in records that were read."""
        self.skip = 0
        """Bytes that are left of a record that nobody reads."""
        self.may_be_clear = True
        self.first: Mark | None = None
        self.hole: Mark | None = None
        """Where plain bytes may be missing since the last that came out."""
        self.generation = -1
        """Of the key log, when it was asked last."""
        self.passed_over = 0
        """Protected records that nobody read, since there were no keys."""
        self.guesses = 0
        """Records that were tried with all its secrets since then."""
        self.watched = False
        """Whether anybody wants to know where records begin."""
        self.rest_edges: list[int] = []
        """Where packets begin in the bytes that a search has kept."""
        self._rest = b""
        self._rest_mark: Mark | None = None
        self._tail = b""

    # ---- bytes

    def enter(self, chunk: Chunk) -> RecordCursor:
        """A cursor over what waits and the next bytes."""
        self.first = self.first or chunk.marks[0]
        self.size += len(chunk.data)
        rest, self._rest = self._rest, b""
        return RecordCursor(self, rest, chunk, self._rest_mark if rest else None)

    def keep(self, rest: bytes, mark: Mark | None) -> None:
        """Keep the beginning of a record; ``mark``: of its first byte, where records are watched."""
        self._rest, self._rest_mark = rest, mark

    def pass_body(self, part: bytes) -> None:
        """Pass over bytes of a record that nobody reads."""
        self.skip -= len(part)
        self._tail = (self._tail + part)[-_TAIL:]
        if not self.skip and self.opener.ready:
            self.opener.skip(self._tail)

    def lose(self, length: int | None, *, searched: bool) -> None:
        """Lost bytes (rule 2); ``searched``: records are searched after them."""
        rest, self._rest, self._tail = self._rest, b"", b""
        self.handshake.clear()
        self.may_be_clear = False
        left = self.skip
        if not left and len(rest) >= HEAD_SIZE:
            left = HEAD_SIZE + int.from_bytes(rest[3:5], "big") - len(rest)
        if length is not None and length <= left and self.mode == "step":
            self.skip = left - length
            self.opener.lose(0)
        else:
            self.skip = 0
            self.mode = "search" if searched else "lost"
            self.opener.lose(length)


class RecordCursor:
    """Walks over the bytes of a side, record by record."""

    def __init__(self, owner: RecordSide, rest: bytes, chunk: Chunk, rest_mark: Mark | None = None) -> None:
        """``rest``: bytes that were kept, which come before those of the chunk."""
        self._owner = owner
        self._rest_mark = rest_mark
        self.data = rest + chunk.data if rest else chunk.data
        self._start = chunk.offset - len(rest)
        self._marks = chunk.marks
        self._mark = 0
        self._chunk = chunk
        self._edge_list: list[int] | None = None
        self.at = 0

    @property
    def left(self) -> int:
        """Bytes that were not walked over yet."""
        return len(self.data) - self.at

    @property
    def offset(self) -> int:
        """Stream offset of the cursor."""
        return self._start + self.at

    @property
    def head(self) -> bytes:
        """The next five bytes, or what there is of them."""
        return self.data[self.at : self.at + HEAD_SIZE]

    @property
    def size(self) -> int:
        """Size of the record that begins here, its head included."""
        return HEAD_SIZE + int.from_bytes(self.data[self.at + 3 : self.at + 5], "big")

    def mark_at(self, index: int) -> Mark:
        """The mark of a byte; never before that of an earlier call."""
        offset, marks = self._start + index, self._marks
        while self._mark + 1 < len(marks) and marks[self._mark + 1].offset <= offset:
            self._mark += 1
        return marks[self._mark]

    def first_mark(self) -> Mark | None:
        """The mark of the byte at the cursor, which may have been kept; None where nobody watches."""
        if not self._owner.watched:
            return None
        if self._rest_mark is not None and self.offset < self._chunk.offset:
            return self._rest_mark
        return self.mark_at(self.at)

    def record(self) -> TlsRecord:
        """The whole record that begins here, and step past it."""
        first = self.first_mark()
        start, stop = self.at, self.at + self.size
        self.at = stop
        head, body = self.data[start : start + HEAD_SIZE], self.data[start + HEAD_SIZE : stop]
        mark = self.mark_at(stop - 1)
        return TlsRecord(head[0], head, body, mark, self._start + start, first or mark)

    def skip(self) -> None:
        """Step over what is left of a record that nobody reads."""
        owner = self._owner
        part = self.data[self.at : self.at + owner.skip]
        self.at += len(part)
        owner.pass_body(part)

    def keep(self) -> None:
        """Leave the rest for later."""
        self._owner.keep(self.data[self.at :], self.first_mark())
        self.at = len(self.data)

    def back(self) -> Chunk:
        """The rest as a chunk, to come once more."""
        offset = self.offset
        mark = self.mark_at(self.at)
        later = [each for each in self._marks if each.offset > offset]
        data = self.data[self.at :]
        self.at = len(self.data)
        self._owner.size -= len(data)
        return Chunk(self._owner.side, offset, data, [mark._replace(offset=offset), *later])

    def clear(self) -> Iterator[Chunk]:
        """The rest as chunks of one packet each; it is no part of TLS."""
        rest = self.back()
        stops = [*(mark.offset for mark in rest.marks[1:]), rest.offset + len(rest.data)]
        for mark, stop in zip(rest.marks, stops, strict=True):
            yield Chunk(rest.side, mark.offset, rest.data[mark.offset - rest.offset : stop - rest.offset], [mark])

    def _behind(self, stop: int) -> bytes:
        """The next three bytes, as far as the packet has them: the packets after it may come in another chunk."""
        edges = self._edges()
        later = bisect_left(edges, self._start + stop)
        end = edges[later] - self._start if later < len(edges) else len(self.data)
        return self.data[stop : min(stop + 3, end)]

    def _edges(self) -> list[int]:
        """Stream offsets at which packets begin, those of kept bytes too; found once."""
        if self._edge_list is None:
            own = (mark.offset for mark in self._marks[1:])
            self._edge_list = [*self._owner.rest_edges, self._chunk.offset, *own]
        return self._edge_list

    def search(self, *, final: bool) -> bool:
        """Step to the next candidate of a record (rule 2); False where there is none yet: what may be one is kept."""
        while True:
            match = _HEAD.search(self.data, self.at)
            if match is None:
                self.at = max(self.at, len(self.data) - 2)
                self._keep_searched()
                return False
            self.at = match.start()
            if self.left >= HEAD_SIZE:
                behind = self._behind(self.at + self.size)
                if not is_head(self.head) or (len(behind) == 3 and not _HEAD.match(behind)):
                    self.at += 1
                    continue
                if self.left >= self.size:
                    return True
                if final:
                    self.at += 1
                    continue
            self._keep_searched()
            return False

    def _keep_searched(self) -> None:
        """Leave the rest for later, with the edges of its packets."""
        self._owner.rest_edges = [edge for edge in self._edges() if edge > self.offset]
        self.keep()


def _offset(mark: Mark) -> int:
    return mark.offset
