"""Joins the chunks of large messages, and reports missing ones.

1. Chunks of a message have the same uuid on their producer or consumer; their ids count from 0. Chunks of several
   messages may alternate. If a chunk comes again (resent, redelivered), the first one starts the message again; any
   other is ignored.
2. The payloads of all chunks have ``total_chunk_msg_size`` bytes together, unless they are encrypted. They are joined
   as on the wire: the caller decompresses the whole message.
3. A message that cannot be joined has one problem that says why: at the chunk that shows it, or at the end. Encrypted
   chunks are encrypted one by one and are never joined.
4. Of each side, at most ``handles_max`` messages are followed and ``chunks_wait_size`` bytes kept; beyond that the
   message that has waited longest for its next chunk is dropped.

Sources: PIP 37; ``ConsumerImpl.processMessageChunk`` of Apache Pulsar.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from mqsniff.limits import Limits
from mqsniff.model import Frame, Problem

UUID_MAX: Final = 4_096
"""Characters of a uuid that are kept."""
CHUNK_COST: Final = 64
"""Bytes of memory that a chunk costs besides its payload."""
_CHUNK_ID: Final = "metadata.chunk_id"


class Piece(NamedTuple):
    """One chunk."""

    metadata: Mapping[str, Any]
    size: int
    """Bytes of its payload."""
    data: bytes | None
    """The payload; None if the frame is not whole."""
    checksum_ok: bool | None
    frame: Frame


class JoinedChunks(NamedTuple):
    """The payload of a whole message."""

    data: bytes
    checksum_ok: bool | None
    """Whether the checksums of all chunks are right; None if one has none."""


class ChunkResult(NamedTuple):
    """The result of adding a chunk."""

    problem: Problem | None
    joined: JoinedChunks | None
    """The whole message, if this was its last chunk."""


@dataclass(slots=True)
class _ChunkedMessage:
    """The chunks of a message so far."""

    frame: Frame
    """Place of its latest chunk, without bytes."""
    following: int = 0
    size: int = 0
    complete: bool = True
    """Whether no chunk is missing."""
    parts: list[bytes] | None = field(default_factory=list)
    """Payloads of its chunks; None: it will not be joined."""
    cost: int = 0
    checksum_ok: bool | None = True
    given_up: bool = False
    """Whether it was dropped for lack of room and this was not reported yet."""


class Chunks:
    """The chunked messages of one side; ``keeps``: whether payloads are kept to be joined."""

    def __init__(self, limits: Limits, *, keeps: bool) -> None:
        self._limits = limits
        self._keeps = keeps
        self._seen: dict[Hashable, _ChunkedMessage] = {}
        self._kept: dict[Hashable, _ChunkedMessage] = {}
        """The messages whose payloads are kept, the one with the oldest latest chunk first."""
        self._waiting = 0

    def add(self, owner: Hashable, piece: Piece) -> ChunkResult:
        """Add a chunk of a message of this producer or consumer."""
        uuid, number, count = (piece.metadata.get(name) for name in ("uuid", "chunk_id", "num_chunks_from_msg"))
        if not (isinstance(uuid, str) and isinstance(number, int) and isinstance(count, int)) or len(uuid) > UUID_MAX:
            return ChunkResult(Problem("missing_field", "warning", "a chunk without uuid or count", "metadata"), None)
        if not 0 <= number < count:
            return ChunkResult(
                Problem("out_of_range", "warning", "a chunk beyond the count of chunks", _CHUNK_ID), None
            )
        key = (owner, uuid)
        seen = self._seen.get(key)
        if seen is not None and 0 < number < seen.following:
            return ChunkResult(None, None)
        self._take_out(key)
        if seen is None or number == 0:
            seen = _ChunkedMessage(piece.frame, parts=[] if self._keeps else None)
        problem = _missing(seen, number) or self._keep(seen, piece)
        seen.frame, seen.following, seen.size = _place(piece.frame), number + 1, seen.size + piece.size
        if number + 1 < count:
            self._put_in(key, seen)
            return ChunkResult(problem, None)
        return ChunkResult(problem or _unfit(seen, piece.metadata), self._join(seen))

    @property
    def state_size(self) -> int:
        """Bytes of payloads that are kept."""
        return self._waiting

    def unfinished(self) -> Iterator[Problem]:
        """Problems of the messages whose last chunk never came."""
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

    # ---- kept payloads

    def _keep(self, seen: _ChunkedMessage, piece: Piece) -> Problem | None:
        """Keep a chunk's payload; returns a problem if it cannot be kept and this was not reported yet."""
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
        """Remove a message from those that wait: it is dropped, or its next chunk has come."""
        self._seen.pop(key, None)
        kept = self._kept.pop(key, None)
        if kept is not None:
            self._waiting -= kept.cost

    def _put_in(self, key: Hashable, seen: _ChunkedMessage) -> None:
        """Keep a message until its next chunk; drops the oldest ones beyond the limits (rule 4)."""
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
    def _join(seen: _ChunkedMessage) -> JoinedChunks | None:
        return None if seen.parts is None else JoinedChunks(b"".join(seen.parts), seen.checksum_ok)


def _place(frame: Frame) -> Frame:
    """A frame without its bytes."""
    where = (frame.first_ts_ns, frame.last_ts_ns, frame.first_packet, frame.last_packet, frame.release)
    return Frame(frame.side, frame.offset, frame.size, b"", *where)


def _missing(seen: _ChunkedMessage, number: int) -> Problem | None:
    """The problem of missing chunks before this one: the message cannot be joined."""
    missing = number - seen.following
    if not missing:
        return None
    first = not seen.following
    seen.complete, seen.parts, seen.given_up = False, None, False
    if first:
        return _unmatched("info", "the first chunks of the message were not seen")
    return _unmatched("warning", f"{missing} chunks are missing before this one")


def _unfit(seen: _ChunkedMessage, metadata: Mapping[str, Any]) -> Problem | None:
    """The problem of chunks whose size is not ``total_chunk_msg_size``."""
    total = metadata.get("total_chunk_msg_size")
    if not seen.complete or metadata.get("encryption_keys") or total in (None, seen.size):
        return None
    return Problem("out_of_range", "warning", "the chunks together are not total_chunk_msg_size", "metadata")


def _unmatched(severity: Any, what: str) -> Problem:
    return Problem("unmatched", severity, f"{what}: it is not joined", _CHUNK_ID)


def _no_room() -> Problem:
    detail = "chunks of more than chunks_wait_size bytes would wait: the message is not joined"
    return Problem("limit", "warning", detail, "payload")
