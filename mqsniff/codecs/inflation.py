"""Counts what compressed bytes of a connection and of the run have become, and tells what they may still become.

1. Each byte on the wire earns ``inflate_ratio`` plain bytes, and each ``record_cost`` bytes earn a record. A connection
   may owe ``inflate_free`` plain bytes and ``records_free`` records; all connections together ``inflate_run`` and
   ``records_run``.
2. Only bytes and records are counted, never time: the same packets give the same rows, however they are cut.
"""

from __future__ import annotations

from typing import Final

from mqsniff.limits import Limits

PLAIN_SPENT: Final = "the plain bytes are more than inflate_ratio, inflate_free and inflate_run allow"
RECORDS_SPENT: Final = "more records than record_cost, records_free and records_run allow"


class Inflated:
    """What was counted so far."""

    __slots__ = ("plain", "records", "wire")

    def __init__(self) -> None:
        self.wire = self.plain = self.records = 0


class InflationBudget:
    """What the compressed bytes of one connection may still become; ``run`` counts all connections of the run."""

    __slots__ = ("_own", "_run", "limits")

    def __init__(self, limits: Limits, run: Inflated | None = None) -> None:
        self.limits = limits
        self._own = Inflated()
        self._run = run or Inflated()

    def earn(self, wire: int) -> None:
        """So many bytes came on the wire."""
        self._own.wire += wire
        self._run.wire += wire

    def spend(self, plain: int, records: int = 0) -> None:
        """So many plain bytes and records were made of them."""
        for counts in (self._own, self._run):
            counts.plain += plain
            counts.records += records

    @property
    def plain_left(self) -> int:
        """Plain bytes that may still be made."""
        limits, own, run = self.limits, self._own, self._run
        of_connection = limits.inflate_free + limits.inflate_ratio * own.wire - own.plain
        return max(0, min(of_connection, limits.inflate_run + limits.inflate_ratio * run.wire - run.plain))

    @property
    def records_left(self) -> int:
        """Records that may still be made."""
        limits, own, run = self.limits, self._own, self._run
        of_connection = limits.records_free + own.wire // limits.record_cost - own.records
        return max(0, min(of_connection, limits.records_run + run.wire // limits.record_cost - run.records))
