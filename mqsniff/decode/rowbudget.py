"""Items of a run in, whether its compressed captures became too much out (``capture_row_cost``, decision 017).

1. Rows count, and work that makes none as the rows that would cost as much (``WorkCount``).
2. Captures without compression pay a row with each byte, which is more than they can become: they are not bounded.
3. The state of open connections counts too, at its largest: a connection that stays open costs memory, and few rows.
4. This protects the process: where a run ends depends on how much is read at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from mqsniff.dissector import WorkCount
from mqsniff.limits import Limits
from mqsniff.model import (
    PACKET_BITS,
    CaptureInfo,
    PacketBatch,
    RecordBatch,
    Value,
)

CONNECTION_ROWS: Final = 4
"""Rows that opening or closing a connection costs, nearly."""
STATE_ROW: Final = 256
"""Bytes of state of open connections that count as a row: what 5 MB of compressed capture pay is 390 MB of state, and
openings of connections cost rows beside it."""
LARGE: Final = 256
"""Bytes of a message whose elements count: they may cost more than its row."""
ROWS_SPENT: Final = (
    "the compressed captures become more rows, or as much work, than capture_row_cost and capture_rows_free allow"
)


class RowBudget:
    """What a run made so far, and what its compressed captures pay for."""

    __slots__ = ("_limits", "_paid", "_parts", "_state", "_work", "bounded", "rows")

    def __init__(self, limits: Limits, work: WorkCount, parts: int = 1) -> None:
        """``work`` counts as rows too. ``parts``: the workers that share it; each may spend an equal part."""
        self._limits = limits
        self._work = work
        self._parts = parts
        self._paid = limits.capture_rows_free
        self._state = 0
        """Most bytes of state of open connections so far."""
        self.bounded = False
        """Whether a compressed capture was read: nothing is bounded before."""
        self.rows = 0
        """Rows so far; a connection counts as several, which is what it costs."""

    def look_at(self, captures: Sequence[CaptureInfo], batch: PacketBatch) -> None:
        """Take note of the captures of the next packets."""
        if not self.bounded and len(batch):
            indexes = np.unique(batch.packet >> PACKET_BITS).tolist()
            self.bounded = any(captures[index].compression for index in indexes)

    def count_body(self, body: Value) -> None:
        """Count what is in the body of a large message: the entries of maps and lists at any depth."""
        inner = [body]
        while inner:
            value = inner.pop()
            if isinstance(value, dict):
                self._work.elements += len(value)
                inner += value.values()
            elif isinstance(value, list):
                self._work.elements += len(value)
                inner += value

    def count_records(self, batch: RecordBatch) -> None:
        """Count the records of a batch, whose rows are made together."""
        self._work.elements += batch.count

    def count_state(self, size: int) -> None:
        """Take note of the state of all open connections."""
        self._state = max(self._state, size)

    @property
    def spent(self) -> int:
        """Rows so far, and what counts as rows."""
        return self.rows + self._work.rows + self._state // STATE_ROW

    def is_spent(self, captures: Sequence[CaptureInfo]) -> bool:
        """Whether there are more rows than the bytes read so far pay."""
        spent = self.spent * self._parts
        if self.bounded and spent > self._paid:
            cost, free = self._limits.capture_row_cost, self._limits.capture_rows_free
            self._paid = free + sum(capture.taken // (cost if capture.compression else 1) for capture in captures)
        return self.bounded and spent > self._paid
