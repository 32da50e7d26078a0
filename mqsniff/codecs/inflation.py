"""Counts what compressed bytes of a connection have become, and tells what they may still become.

1. Each byte on the wire earns ``inflate_ratio`` plain bytes, and each ``record_cost`` bytes earn a record.
2. A connection may owe ``inflate_start`` plain bytes and ``records_start`` records from its first byte on. For each
   byte on the wire it may owe ``EARLY_PLAIN`` plain bytes and ``EARLY_RECORDS`` records more, until it owes
   ``inflate_free`` plain bytes and ``records_free`` records.
3. A budget knows its own connection only, so that rows do not depend on the connections that one process decodes
   (decision 017). All connections together are bounded, since each byte and each connection costs bytes on the wire.
4. Only bytes and records are counted, never time: the same packets give the same rows, however they are cut.
"""

from __future__ import annotations

from typing import Final, Protocol

from mqsniff.limits import Limits

PLAIN_SPENT: Final = "the plain bytes are more than inflate_ratio, inflate_start and inflate_free allow"
RECORDS_SPENT: Final = "more records than record_cost, records_start and records_free allow"

EARLY_PLAIN: Final = 1_024
"""What DEFLATE can make of a byte at most, nearly: what zlib or gzip made passes until ``inflate_free`` is owed."""
EARLY_RECORDS: Final = 1
"""An offset that counts up leaves no less of a record, however well the rest compresses."""


class PlainCount(Protocol):
    """Where the plain bytes of a run are counted."""

    plain_bytes: int


class InflationBudget:
    """What the compressed bytes of one connection may still become."""

    __slots__ = ("_plain", "_records", "_wire", "_work", "limits")

    def __init__(self, limits: Limits, work: PlainCount | None = None) -> None:
        """``work`` counts the plain bytes of all connections."""
        self.limits = limits
        self._work = work
        self._wire = self._plain = self._records = 0

    def earn(self, wire: int) -> None:
        """So many bytes came on the wire."""
        self._wire += wire

    def spend(self, plain: int, records: int = 0) -> None:
        """So many plain bytes and records were made of them."""
        self._plain += plain
        self._records += records
        if self._work is not None:
            self._work.plain_bytes += plain

    @property
    def plain_left(self) -> int:
        """Plain bytes that may still be made."""
        limits, wire = self.limits, self._wire
        owed = min(limits.inflate_free, limits.inflate_start + EARLY_PLAIN * wire)
        return max(0, owed + limits.inflate_ratio * wire - self._plain)

    @property
    def records_left(self) -> int:
        """Records that may still be made."""
        limits, wire = self.limits, self._wire
        owed = min(limits.records_free, limits.records_start + EARLY_RECORDS * wire)
        return max(0, owed + wire // limits.record_cost - self._records)
