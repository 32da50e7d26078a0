"""The pcapng blocks that hold no packets in; interfaces, times, host names, comments, secrets and losses out.

Source: draft-ietf-opsawg-pcapng, sections 3.5 (options), 4.2 (interfaces), 4.5 to 4.7 (names, statistics, secrets).

1. Interfaces count from 0 in each section; a packet may name only interfaces described before it.
2. Times are integer nanoseconds for all resolutions, by integer arithmetic; a time beyond 64 bits is clamped.
3. Some writers report losses twice: as a count since the last packet (epb_dropcount) and as totals (statistics blocks,
   of which the last counts). So for each interface the larger number counts.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator
from enum import IntEnum
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np

from mqsniff.limits import SECOND_NS, Limits
from mqsniff.model import CaptureInfo, Int32s, Int64s
from mqsniff.sources.batches import report
from mqsniff.sources.parsers import NOT_COUNTED, Losses, Spent

if TYPE_CHECKING:
    from numpy.typing import NDArray

Size = TypeVar("Size", int, Int64s)


class BlockType(IntEnum):
    """The types of blocks that are read."""

    INTERFACE = 1
    OLD_PACKET = 2
    SIMPLE_PACKET = 3
    NAMES = 4
    STATISTICS = 5
    PACKET = 6
    SECRETS = 10
    SECTION = 0x0A0D0D0A


MORE_SECRETS: Final = "more decryption secrets than secrets_max; the rest is not kept"
MORE_NOTES: Final = "more comments and names than notes_max; the rest is not kept"
COMMENT: Final = 1
IF_TSRESOL: Final = 9
IF_TSOFFSET: Final = 14
ISB_LOSSES: Final = (5, 7)
"""isb_ifdrop and isb_osdrop: lost by the interface, lost by the operating system."""
NOT_KNOWN: Final = (1 << 64) - 1
UNDESCRIBED: Final = (-1, 0, 1_000_000, 0, 0)
"""Row for packets of unknown interfaces: link type, snap length, ticks per second, seconds to add, offset."""
NAME_RECORDS: Final = {1: 4, 2: 16}
"""Types of records in a name resolution block: the size of the address before the names."""
NOTE_COST: Final = 64
"""Bytes that the shortest note counts for, so that empty notes are not free."""
LOSS_MAX: Final = 1 << 40
SECONDS_MAX: Final = (1 << 63) // SECOND_NS - 1
SHIFT_MAX: Final = 1 << 61
"""A larger time offset gives no valid time with any timestamp, nor does a timestamp of twice this with any offset."""
FAST_TICKS: Final = 1 << 34
"""Up to this many ticks per second, a fraction times 10**9 fits 64 bits."""


def padded(size: Size) -> Size:
    """A size padded to 32 bits; for one size or an array of sizes."""
    return size + 3 & ~3


def read_options(data: bytes, order: str) -> Iterator[tuple[int, bytes]]:
    """(code, value) of a list of options, up to its end or the first that does not fit."""
    at = 0
    while at + 4 <= len(data):
        code, size = struct.unpack_from(order + "2H", data, at)
        value = data[at + 4 : at + 4 + size]
        if not code or len(value) < size:
            return
        yield code, value
        at += 4 + padded(size)


class Interfaces:
    """The interfaces of one section. ``first`` is the number in the capture of the section's interface 0."""

    def __init__(self, first: int) -> None:
        self.first = first
        self._rows: list[tuple[int, int, int, int, int]] = []
        self._table = np.array([UNDESCRIBED], np.int64)
        self._exact: dict[int, int] = {}  # ticks per second above FAST_TICKS; the row holds 0 then
        self._counted = np.zeros(0, np.int64)  # packets lost by interface, as packets count them
        self._totals: dict[int, int] = {}  # the same as statistics blocks count them

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, body: bytes, order: str, offset: int) -> None:
        """Add the interface of a description block at ``offset`` of the capture."""
        linktype, _reserved, snaplen = struct.unpack_from(order + "2HI", body)
        ticks, shift = 1_000_000, 0
        for code, value in read_options(body[8:], order):
            if code == IF_TSRESOL and value:
                ticks = 2 ** (value[0] & 0x7F) if value[0] & 0x80 else 10 ** value[0]
            elif code == IF_TSOFFSET and len(value) == 8:
                (shift,) = struct.unpack(order + "q", value)
        if ticks > FAST_TICKS:
            self._exact[len(self)] = ticks
            ticks = 0
        self._rows.append((linktype, snaplen, ticks, min(max(shift, -SHIFT_MAX), SHIFT_MAX), offset))

    def snaplen(self, interface: int) -> int:
        """The snap length of an interface; 0 if it has none."""
        return self._rows[interface][1] if interface < len(self) else 0

    def rows(self, interface: Int64s, offset: Int64s) -> Int64s:
        """The row of each packet's interface; the last row if it is not described before the packet's ``offset``."""
        if len(self._table) <= len(self):
            self._table = np.array([*self._rows, UNDESCRIBED], np.int64)
        row = np.minimum(interface, len(self))
        return np.where(self._table[row, 4] <= offset, row, len(self))

    def linktypes(self, row: Int64s) -> Int32s:
        """Link types by rows."""
        linktypes: Int32s = self._table[row, 0].astype(np.int32)
        return linktypes

    def numbers(self, row: Int64s) -> Int32s:
        """Numbers of interfaces in the capture, by rows; -1 if unknown."""
        return np.where(row < len(self), row + self.first, -1).astype(np.int32)

    def times(self, row: Int64s, ticks: NDArray[np.uint64]) -> tuple[Int64s, NDArray[np.bool_]]:
        """(times in nanoseconds by rows, which of them fit 64 bits)."""
        per_second = self._table[row, 2].astype(np.uint64)
        second, rest = np.divmod(ticks, np.maximum(per_second, 1))
        ns = rest * np.uint64(SECOND_NS) // np.maximum(per_second, 1)
        for index in np.flatnonzero(per_second == 0).tolist() if self._exact else ():
            exact = self._exact[int(row[index])]
            whole, part = divmod(int(ticks[index]), exact)
            second[index], ns[index] = whole, part * SECOND_NS // exact
        shifted = np.minimum(second, np.uint64(2 * SHIFT_MAX)).astype(np.int64) + self._table[row, 3]
        held = np.clip(shifted, -SECONDS_MAX, SECONDS_MAX)
        return held * SECOND_NS + ns.astype(np.int64), held == shifted

    def lose(self, row: Int64s, count: Int64s) -> None:
        """Count packets that were lost before the packets of these rows."""
        described = row < len(self)
        self._counted = _grown(self._counted, len(self))
        np.add.at(self._counted, row[described], np.clip(count[described], 0, LOSS_MAX))

    def read_statistics(self, body: bytes, order: str) -> None:
        """Read an interface statistics block; it replaces earlier ones of its interface."""
        (interface,) = struct.unpack_from(order + "I", body)
        values = [
            struct.unpack(order + "Q", value)[0]
            for code, value in read_options(body[12:], order)
            if code in ISB_LOSSES and len(value) == 8
        ]
        if values and interface < len(self):
            self._totals[interface] = sum(min(value, LOSS_MAX) for value in values if value != NOT_KNOWN)

    def losses(self) -> Losses:
        """Packets that the capturing side says it lost, by interface."""
        losses: Losses = {index: (0, total) for index, total in self._totals.items()}
        for index in np.flatnonzero(self._counted).tolist():
            losses[index] = int(self._counted[index]), self._totals.get(index, NOT_COUNTED)
        return losses


def _grown(counts: Int64s, size: int) -> Int64s:
    return counts if len(counts) == size else np.concatenate([counts, np.zeros(size - len(counts), np.int64)])


class CaptureNotes:
    """Comments, host names and secrets of a capture, kept in its CaptureInfo up to the limits."""

    def __init__(self, info: CaptureInfo, limits: Limits) -> None:
        self._info = info
        self._comment_offsets: list[int] = []
        self._size_max = limits.notes_max
        self.spent = Spent()
        self._secrets_room = limits.secrets_max

    def add_comment(self, text: bytes | bytearray, offset: int, packet: int = 0) -> bool:
        """Add a comment on the file, or on the packet with this number; comments are sorted by ``offset``.

        False if the limit is reached.
        """
        if not self._spend(len(text), offset):
            return False
        comment = text.rstrip(b"\0").decode("utf-8", "replace")
        place = bisect_right(self._comment_offsets, offset)
        self._comment_offsets.insert(place, offset)
        self._info.comments.insert(place, f"packet {packet}: {comment}" if packet else comment)
        return True

    def add_comments(self, options: bytes, order: str, offset: int) -> None:
        """Add the comments among the options of a block at this offset."""
        for code, value in read_options(options, order):
            if code == COMMENT:
                self.add_comment(value, offset)

    def read_names(self, body: bytes, order: str, offset: int) -> None:
        """Read a name resolution block: addresses and their names; the first name of each is kept."""
        for kind, value in read_options(body, order):
            size = NAME_RECORDS.get(kind, 0)
            name = value[size:].partition(b"\0")[0]
            if size and name and self._spend(len(value), offset):
                self._info.names.setdefault(str(ip_address(value[:size])), name.decode("utf-8", "replace"))

    def read_secrets(self, body: bytes, order: str, offset: int) -> None:
        """Read a decryption secrets block."""
        kind, size = struct.unpack_from(order + "2I", body)
        data = body[8 : 8 + size]
        if len(data) > self._secrets_room:
            report(self._info, MORE_SECRETS, offset, "error", "limit")
            return
        self._secrets_room -= len(data)
        self._info.secrets.append((kind, data))

    def _spend(self, size: int, offset: int) -> bool:
        if self.spent.size >= self._size_max:
            report(self._info, MORE_NOTES, offset, "info", "limit")
            return False
        cost = max(size, NOTE_COST)
        self.spent = Spent(self.spent.size + cost, cost)
        return True
