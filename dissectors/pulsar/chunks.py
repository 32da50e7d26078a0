"""The chunks of large messages as they pass, in; what is missing between them, out.

1. Chunks of a message share a uuid on their producer or consumer; ids count from 0. Chunks of several messages may
   alternate, and one may come again (resent, redelivered).
2. The payloads of all chunks together are ``total_chunk_msg_size`` bytes, where they are not encrypted.
3. At most ``room`` messages are followed; a message whose first chunks were before the capture is followed from there.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

from mqsniff.model import Problem

UUID_MAX = 4_096
"""Characters of a uuid that is remembered."""


@dataclass(slots=True)
class _Seen:
    """What passed of a message."""

    following: int
    size: int


class Chunks:
    """The chunked messages of one connection."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._seen: dict[Hashable, _Seen] = {}

    def add(self, owner: Hashable, metadata: Mapping[str, Any], size: int) -> Problem | None:
        """A chunk with a payload of ``size`` bytes passed; what is odd about it."""
        uuid, number, count = metadata.get("uuid"), metadata.get("chunk_id"), metadata.get("num_chunks_from_msg")
        if not (isinstance(uuid, str) and isinstance(number, int) and isinstance(count, int)) or len(uuid) > UUID_MAX:
            return Problem("missing_field", "warning", "a chunk without uuid or count", "metadata")
        if not 0 <= number < count:
            return Problem("out_of_range", "warning", "a chunk beyond the count of chunks", "metadata.chunk_id")
        key = (owner, uuid)
        seen = self._seen.pop(key, None)
        if seen is None or number == 0:
            return self._begin(key, number, count, size)
        if number < seen.following:
            self._seen[key] = seen
            return None
        missing = number - seen.following
        seen.following, seen.size = number + 1, seen.size + size
        if number + 1 < count:
            self._seen[key] = seen
        if missing:
            return Problem("unmatched", "warning", f"{missing} chunks are missing before this one", "metadata.chunk_id")
        total = metadata.get("total_chunk_msg_size")
        if number + 1 == count and total not in (None, seen.size) and not metadata.get("encryption_keys"):
            return Problem("out_of_range", "warning", "the chunks together are not total_chunk_msg_size", "metadata")
        return None

    def _begin(self, key: Hashable, number: int, count: int, size: int) -> Problem | None:
        if number + 1 < count:
            self._seen[key] = _Seen(number + 1, size)
            if len(self._seen) > self._room:
                del self._seen[next(iter(self._seen))]
        if number:
            return Problem("unmatched", "info", "the first chunks of the message were not seen", "metadata.chunk_id")
        return None
