"""Records of TLS and ranges of decompressed bytes of a connection in, the records that a message came from out.

1. Offsets above a layer are followed down: decompressed bytes to those that they came out of, these to records.
2. Memory is bounded: what lies before the last message is forgotten, and of what is left the oldest.
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

from mqsniff.model import Frame, Side
from mqsniff.tls.output import SeenRecord

KEPT: Final = 16_384
"""Records of a side that are remembered: 256 MB of full ones."""
RECORD_KINDS: Final = {20: "change of ciphers", 21: "alert", 22: "handshake", 23: "application data"}
"""What records hold (RFC 8446 section 5.1)."""


class OpenedRange(NamedTuple):
    """Bytes below a transform, and those that came out of them."""

    below: tuple[int, int]
    above: tuple[int, int]


class RecordPlaces:
    """Where the plain bytes of one connection came from."""

    def __init__(self) -> None:
        self._records: tuple[deque[SeenRecord], deque[SeenRecord]] = (deque(maxlen=KEPT), deque(maxlen=KEPT))
        self._opened: tuple[deque[OpenedRange], deque[OpenedRange]] = (deque(maxlen=KEPT), deque(maxlen=KEPT))

    def add_record(self, record: SeenRecord) -> None:
        """Take note of the next record, if it has data."""
        if record.plain[0] < record.plain[1]:
            self._records[record.side].append(record)

    def add_opened(self, side: Side, opened: OpenedRange) -> None:
        """Take note of the next decompressed bytes."""
        self._opened[side].append(opened)

    def records_of(self, frame: Frame) -> list[SeenRecord]:
        """The records that the bytes of a frame came from, in order; none without TLS."""
        start, stop = self._below(frame.side, frame.offset, frame.offset + max(frame.size, 1))
        return [each for each in self._records[frame.side] if each.plain[0] < stop and start < each.plain[1]]

    def _below(self, side: Side, start: int, stop: int) -> tuple[int, int]:
        """The range below a transform that a range above it came from; itself where there is none."""
        ranges = [each.below for each in self._opened[side] if each.above[0] < stop and start < each.above[1]]
        return (ranges[0][0], ranges[-1][1]) if ranges else (start, stop)

    def forget_before(self, side: Side, offset: int) -> None:
        """No message of a side will begin before this offset."""
        opened, records = self._opened[side], self._records[side]
        while opened and opened[0].above[1] <= offset:
            opened.popleft()
        below = min(opened[0].below[0], offset) if opened else offset
        while records and records[0].plain[1] <= below:
            records.popleft()
