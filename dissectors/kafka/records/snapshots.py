"""Pieces of snapshots of the metadata log in, one connection's; the bytes that batches can be read from, out.

1. A piece ends where the follower's limit is, perhaps inside a batch, whose beginning waits for the next pieces. They
   are joined once, when the batch has ended.
2. Of a piece whose predecessor was not seen nobody knows where its first batch begins: it is told by its size.
3. A follower fetches one snapshot after the other: one is remembered, and ``BEGUN_MAX`` bytes of it at most.

Source: KIP-630; ``KafkaRaftClient`` and ``FileRawSnapshotReader`` of Apache Kafka.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from mqsniff.limits import MIB

BEGUN_MAX: Final = 8 * MIB
"""The largest batch of a metadata log (``KafkaRaftClient.MAX_BATCH_SIZE_BYTES``)."""
OVERHEAD: Final = 12
"""Bytes of a batch up to its length, which counts those behind."""


@dataclass(slots=True)
class _Begun:
    """A snapshot that pieces are still to come of."""

    snapshot: Any
    position: int
    """Where the next piece begins."""
    parts: list[bytes]
    """The beginning of a batch, which ends at ``position``."""
    size: int
    wants: int
    """Bytes that have to be there before it is worth looking again."""


class Snapshots:
    """The snapshot that one connection is in the middle of."""

    def __init__(self) -> None:
        self._begun: _Begun | None = None

    def join(self, snapshot: Any, position: int, piece: bytes) -> bytes | None:
        """The bytes from the beginning of a batch on that end with a piece.

        Empty while that batch goes on; None where what came before ``position`` was not seen.
        """
        begun, self._begun = self._begun, None
        if position == 0:
            return piece
        if begun is None or (begun.snapshot, begun.position) != (snapshot, position):
            return None
        begun.parts.append(piece)
        begun.size += len(piece)
        begun.position += len(piece)
        if begun.size >= begun.wants:
            return b"".join(begun.parts)
        self._begun = begun
        return b""

    def keep(self, snapshot: Any, position: int, rest: bytes) -> None:
        """Remember where the next piece begins, and the beginning of a batch that goes before it."""
        wants = OVERHEAD
        if len(rest) >= OVERHEAD:
            wants += int.from_bytes(rest[8:OVERHEAD], "big", signed=True)
        if wants <= BEGUN_MAX:
            self._begun = _Begun(snapshot, position, [rest], len(rest), wants)

    @property
    def waiting(self) -> int:
        """Bytes that wait for the end of their batch."""
        return self._begun.size if self._begun is not None else 0
