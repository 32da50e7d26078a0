"""The chunks of large messages as they pass, in; whole messages, and what is missing between their chunks, out.

1. Chunks of a message share a uuid on their producer or consumer; ids count from 0. Chunks of several messages may
   alternate, and one may come again (resent, redelivered): the first one then begins anew, another is passed over.
2. The payloads of all chunks together are ``total_chunk_msg_size`` bytes, where they are not encrypted. They are joined
   as they were sent: a compressed message is decompressed as a whole, by who asks.
3. What is not joined says once why not: with the chunk that shows it, or at the end. Encrypted chunks are sealed one by
   one, so that nothing but their senders' keys could join them.
4. At most ``handles_max`` messages are followed and ``chunks_wait_size`` bytes wait, of one side; beyond that the
   message that waited longest for its next chunk is given up.

Sources: PIP 37; ``ConsumerImpl.processMessageChunk`` of Apache Pulsar.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from mqsniff.limits import Limits
from mqsniff.model import Frame, Problem

UUID_MAX: Final = 4_096
"""Characters of a uuid that is remembered."""
CHUNK_COST: Final = 64
"""Bytes that a chunk costs besides its own: chunks of one byte must not buy memory."""
_CHUNK_ID: Final = "metadata.chunk_id"


class Piece(NamedTuple):
    """A chunk that passed."""

    metadata: Mapping[str, Any]
    size: int
    """Of its payload."""
    data: bytes | None
    """The payload; None where the frame is not whole."""
    checksum_ok: bool | None
    frame: Frame


class JoinedChunks(NamedTuple):
    """The payload of a whole message."""

    data: bytes
    checksum_ok: bool | None
    """Whether the checksums of all chunks fit; None where one has none."""


class Followed(NamedTuple):
    """What a chunk showed."""

    problem: Problem | None
    joined: JoinedChunks | None
    """The message that it was the last chunk of."""


@dataclass(slots=True)
class _Seen:
    """What passed of a message."""

    frame: Frame
    """Of its last chunk so far, without bytes."""
    following: int = 0
    size: int = 0
    complete: bool = True
    """Whether no chunk is missing."""
    parts: list[bytes] | None = field(default_factory=list)
    """None: it will not be joined."""
    cost: int = 0
    checksum_ok: bool | None = True
    given_up: bool = False
    """Whether it is still to be said that there was no room for it."""


class Chunks:
    """The chunked messages of one side of a connection; ``keeps``: their payloads are wanted."""

    def __init__(self, limits: Limits, *, keeps: bool) -> None:
        self._limits = limits
        self._keeps = keeps
        self._seen: dict[Hashable, _Seen] = {}
        self._kept: dict[Hashable, _Seen] = {}
        """Those of them whose parts wait, the one whose last chunk is oldest first."""
        self._waiting = 0

    def add(self, owner: Hashable, piece: Piece) -> Followed:
        """A chunk of one of the owner's messages passed."""
        uuid, number, count = (piece.metadata.get(name) for name in ("uuid", "chunk_id", "num_chunks_from_msg"))
        if not (isinstance(uuid, str) and isinstance(number, int) and isinstance(count, int)) or len(uuid) > UUID_MAX:
            return Followed(Problem("missing_field", "warning", "a chunk without uuid or count", "metadata"), None)
        if not 0 <= number < count:
            return Followed(Problem("out_of_range", "warning", "a chunk beyond the count of chunks", _CHUNK_ID), None)
        key = (owner, uuid)
        seen = self._seen.get(key)
        if seen is not None and 0 < number < seen.following:
            return Followed(None, None)
        self._take_out(key)
        if seen is None or number == 0:
            seen = _Seen(piece.frame, parts=[] if self._keeps else None)
        problem = _missing(seen, number) or self._keep(seen, piece)
        seen.frame, seen.following, seen.size = _place(piece.frame), number + 1, seen.size + piece.size
        if number + 1 < count:
            self._put_in(key, seen)
            return Followed(problem, None)
        return Followed(problem or _unfit(seen, piece.metadata), self._join(seen))

    def rest(self) -> Iterator[Problem]:
        """The messages whose last chunks never came."""
        left = [seen for seen in self._seen.values() if seen.complete and (seen.parts is not None or not self._keeps)]
        left += [seen for seen in self._seen.values() if seen.given_up]
        self._seen, self._kept, self._waiting = {}, {}, 0
        most = self._limits.message_problems_max
        for seen in left[:most]:
            problem = (
                _no_room() if seen.given_up else _unmatched("info", "the last chunks of the message were not seen")
            )
            frame = seen.frame
            problem.side, problem.offset = frame.side, frame.offset
            problem.ts_ns, problem.packet = frame.first_ts_ns, frame.first_packet
            yield problem
        if len(left) > most:
            detail = f"{len(left) - most} more messages whose last chunks were not seen"
            yield Problem("limit", "info", detail, _CHUNK_ID, left[0].frame.side)

    # ---- what waits

    def _keep(self, seen: _Seen, piece: Piece) -> Problem | None:
        """Keep a chunk's payload; why not, where that is to be said now."""
        if seen.given_up:
            seen.given_up = False
            return _no_room()
        if seen.parts is None:
            return None
        if piece.metadata.get("encryption_keys"):
            seen.parts = None
            return Problem("undecoded", "info", "the chunks are encrypted: the message is not joined", "payload")
        if piece.data is None:
            seen.parts = None
            return Problem("truncated", "info", "the chunk is not whole: its message is not joined", "payload")
        cost = len(piece.data) + CHUNK_COST
        total = piece.metadata.get("total_chunk_msg_size")
        if max(total if isinstance(total, int) else 0, seen.cost + cost) > self._limits.chunks_wait_size:
            seen.parts = None
            return _no_room()
        seen.parts.append(piece.data)
        seen.cost += cost
        if seen.checksum_ok is not False:
            seen.checksum_ok = piece.checksum_ok and seen.checksum_ok
        return None

    def _take_out(self, key: Hashable) -> None:
        """A message is not followed any more, or its next chunk is here."""
        self._seen.pop(key, None)
        kept = self._kept.pop(key, None)
        if kept is not None:
            self._waiting -= kept.cost

    def _put_in(self, key: Hashable, seen: _Seen) -> None:
        """Keep a message until its next chunk; beyond the limits the oldest one is given up (rule 4)."""
        self._seen[key] = seen
        if len(self._seen) > self._limits.handles_max:
            self._take_out(next(iter(self._seen)))
        if seen.parts is None:
            return
        self._kept[key] = seen
        self._waiting += seen.cost
        while self._waiting > self._limits.chunks_wait_size:
            oldest = self._kept.pop(next(iter(self._kept)))
            self._waiting -= oldest.cost
            oldest.parts, oldest.given_up = None, True

    @staticmethod
    def _join(seen: _Seen) -> JoinedChunks | None:
        return None if seen.parts is None else JoinedChunks(b"".join(seen.parts), seen.checksum_ok)


def _place(frame: Frame) -> Frame:
    """A frame as its place alone: its bytes are not kept."""
    where = (frame.first_ts_ns, frame.last_ts_ns, frame.first_packet, frame.last_packet, frame.release)
    return Frame(frame.side, frame.offset, frame.size, b"", *where)


def _missing(seen: _Seen, number: int) -> Problem | None:
    """Chunks that should stand before this one and were not seen: there is nothing to join any more."""
    missing = number - seen.following
    if not missing:
        return None
    first = not seen.following
    seen.complete, seen.parts, seen.given_up = False, None, False
    if first:
        return _unmatched("info", "the first chunks of the message were not seen")
    return _unmatched("warning", f"{missing} chunks are missing before this one")


def _unfit(seen: _Seen, metadata: Mapping[str, Any]) -> Problem | None:
    """The chunks together are not what they should be."""
    total = metadata.get("total_chunk_msg_size")
    if not seen.complete or metadata.get("encryption_keys") or total in (None, seen.size):
        return None
    return Problem("out_of_range", "warning", "the chunks together are not total_chunk_msg_size", "metadata")


def _unmatched(severity: Any, what: str) -> Problem:
    return Problem("unmatched", severity, f"{what}: it is not joined", _CHUNK_ID)


def _no_room() -> Problem:
    detail = "chunks of more than chunks_wait_size bytes would wait: the message is not joined"
    return Problem("limit", "warning", detail, "payload")
