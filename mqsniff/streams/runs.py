"""The segments of a batch, sorted by flow, and the runs in them that can be processed at once.

1. A run is contiguous plain segments of one flow and direction (no SYN, FIN or RST, no zero window, nothing cut off),
   with the pure acknowledgements between and after them.
2. Inside a run, each acknowledgement by the peer is for bytes of the run that came before it. The connection checks
   that the run begins at the expected sequence number, and that its own acknowledgements are for captured bytes.
3. All other rows are in runs that are not ``fast``: they are processed one by one.
4. No run spans a sweep, or a pause after which a connection expires.

Hot: in long runs 1.1 M segments per second, 1.0 GB/s of payload; one by one 0.15 M (one core, benchmarks/flows.py). The
slow twin processes each row by itself (``find_runs`` false); tests/streams/test_runs.py checks that both give the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from mqsniff.limits import Limits
from mqsniff.model import SegmentBatch
from mqsniff.streams.segment import ACK, HALF, IDENTITY_FIELDS, MASK, PLAIN_FLAGS, Segment, SegmentRow

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from mqsniff.model import Int64s

    Bools: TypeAlias = NDArray[np.bool_]
    Rows: TypeAlias = slice | Int64s

_AT = {name: row for row, name in enumerate(Segment._fields)}
_SEQ, _SIZE, _FLAGS, _ACK, _TS = _AT["seq"], _AT["size"], _AT["flags"], _AT["ack"], _AT["ts_ns"]
_DIRECTION, _START, _STOP, _PACKET, _ORDINAL = (
    _AT[name] for name in ("direction", "start", "stop", "packet", "ordinal")
)
_BLOCK = 1024
_RUN_MIN = 4


class SegmentRun(NamedTuple):
    """Rows ``first`` to ``stop`` of a FlowSortedBatch; ``direction`` to ``stop_payload`` are of fast runs."""

    first: int
    stop: int
    fast: int
    direction: int
    seq: int
    ack: int
    """The highest acknowledgement number of its own direction."""
    ack_spread: int
    """How far the lowest one is below it."""
    first_ns: int
    last_ns: int
    """The largest time, not necessarily that of the last row."""
    last_packet: int
    replies: int
    """Number of rows that the peer sent."""
    first_payload: int
    stop_payload: int
    """Its rows with payload, as indexes among all such rows."""
    place: int
    """Its first row, as an index among the rows of all runs that are short and not fast; -1 for others."""


class Payloads(NamedTuple):
    """Columns of a run's rows with payload; ``starts`` and ``stops`` are indexes in the batch's buffer."""

    starts: list[int]
    stops: list[int]
    ts_ns: list[int]
    packets: list[int]
    ordinals: list[int]


class FlowGroup(NamedTuple):
    """The rows of one flow: its index in the batch's ``flows``, and the range of its runs."""

    flow: int
    first_run: int
    stop_run: int


class FlowSortedBatch:
    """A batch sorted by flow, in packet order inside each flow."""

    def __init__(self, batch: SegmentBatch, ticks: Sequence[int], limits: Limits, *, find_runs: bool = True) -> None:
        """``ticks`` are the rows of the batch that follow an expiry tick."""
        self.view = memoryview(batch.buffer)
        order = np.argsort(batch.flow, kind="stable")
        self._columns = np.empty((len(Segment._fields), len(order)), np.int64)
        for row, name in enumerate(Segment._fields):
            self._columns[row] = getattr(batch, name)[order]
        flow = batch.flow[order]
        heads = np.ones(len(order), np.bool_)
        heads[1:] = flow[1:] != flow[:-1]
        ticked = np.zeros(len(order), np.bool_)
        if len(ticks):  # the first row of each flow after a sweep
            sweep = np.searchsorted(ticks, order, "right")
            ticked[1:] = sweep[1:] != sweep[:-1]
        odd, solid = _classify(self._columns, heads, ticked, limits)
        self._payload_rows = np.flatnonzero(solid & ~odd)
        starts = _starts(self._columns, heads, odd, solid, limits) if find_runs else np.flatnonzero(heads | ticked)
        fast = _fast(starts, self._payload_rows) if find_runs else np.zeros(len(starts), np.bool_)
        keep = fast | (heads | ticked)[starts]
        keep[1:] |= fast[:-1]
        starts, fast = starts[keep], fast[keep]
        self._runs = _describe(self._columns, starts, self._payload_rows, fast).tolist()
        self._sizes = np.diff(starts, append=len(order))
        self._is_short = _are_short(fast, self._sizes)
        self._short_rows: list[SegmentRow] | None = None
        """The rows of all short runs, made together: a connection of one packet has one row."""
        self.groups = _groups(flow, order, heads, starts)

    def runs(self, group: FlowGroup) -> list[SegmentRun]:
        """The runs of a flow, in packet order."""
        return list(map(SegmentRun._make, self._runs[group.first_run : group.stop_run]))

    def rows(self, run: SegmentRun) -> Iterator[tuple[int, SegmentRow]]:
        """(row, fields of its segment) of each row of a run."""
        if run.place >= 0:
            rows = self._short_rows or self._rows_of_short()
            return enumerate(rows[run.place : run.place + run.stop - run.first], run.first)
        return self._rows_in_blocks(run)

    def _rows_in_blocks(self, run: SegmentRun) -> Iterator[tuple[int, SegmentRow]]:
        for first in range(run.first, run.stop, _BLOCK):
            columns = self._columns[:, first : min(first + _BLOCK, run.stop)].tolist()
            yield from enumerate(zip(*columns, strict=True), first)

    def _rows_of_short(self) -> list[SegmentRow]:
        short = np.repeat(self._is_short, self._sizes)
        self._short_rows = list(zip(*self._columns[:, short].tolist(), strict=True))
        return self._short_rows

    def rest(self, run: SegmentRun, row: int) -> SegmentRun:
        """The rest of a fast run, from a row with payload on."""
        part = self._columns[:, row : run.stop]
        own = part[_DIRECTION] == run.direction
        ahead = _signed(part[_ACK][own] - part[_ACK, 0])
        first_payload = int(np.searchsorted(self._payload_rows, row))
        return run._replace(
            first=row,
            seq=int(part[_SEQ, 0]),
            ack=int(part[_ACK, 0] + ahead.max()) & MASK,
            ack_spread=int(ahead.max() - ahead.min()),
            first_ns=int(part[_TS, 0]),
            last_ns=int(part[_TS].max()),
            replies=int(len(own) - own.sum()),
            first_payload=first_payload,
        )

    def first_ordinal(self, run: SegmentRun) -> int:
        """Ordinal of a run's first packet."""
        return int(self._columns[_ORDINAL, run.first])

    def payloads(self, run: SegmentRun) -> Payloads:
        """The rows of a fast run that have payload."""
        rows = self._rows(run.first_payload, run.stop_payload)
        return Payloads(*(self._columns[field, rows].tolist() for field in (_START, _STOP, _TS, _PACKET, _ORDINAL)))

    def identities(self, run: SegmentRun, count: int) -> bytes:
        """The identities of the last ``count`` payload rows of a fast run, packed for ``segment.remember_packed``."""
        rows = self._rows(max(run.first_payload, run.stop_payload - count), run.stop_payload)
        return self._columns[:IDENTITY_FIELDS, rows].T.tobytes()

    def join(self, starts: list[int], stops: list[int]) -> bytes:
        """The payloads at these indexes of the buffer, concatenated."""
        if len(starts) == 1:
            return bytes(self.view[starts[0] : stops[0]])
        return b"".join(map(self.view.__getitem__, map(slice, starts, stops)))

    def _rows(self, first: int, stop: int) -> Rows:
        rows = self._payload_rows[first:stop]
        low, high = int(rows[0]), int(rows[-1]) + 1
        return slice(low, high) if high - low == stop - first else rows


def _signed(difference: Int64s) -> Int64s:
    """``segment.distance`` of whole columns."""
    return ((difference + HALF) & MASK) - HALF


def _last(marked: Bools) -> Int64s:
    """For each row the last marked row up to it, -1 if there is none."""
    rows = np.arange(len(marked))
    return np.maximum.accumulate(np.where(marked, rows, -1))


def _classify(columns: Int64s, heads: Bools, ticked: Bools, limits: Limits) -> tuple[Bools, Bools]:
    """(odd, solid): rows to process one by one; and these with all rows that have payload."""
    size, direction = columns[_SIZE], columns[_DIRECTION]
    plain = columns[_FLAGS] & PLAIN_FLAGS == ACK
    pure = plain & (size == 0)
    odd = ~plain | (columns[_STOP] - columns[_START] != size) | ticked
    odd[1:] |= np.diff(columns[_TS]) > limits.idle_ns
    # A pure acknowledgement after payload of the peer must be for bytes that came before it.
    lead = _last(~pure | odd)
    follows = pure & ~odd & (lead >= _last(heads)) & (direction != direction[lead])
    ahead = _signed(columns[_ACK] - (columns[_SEQ] + size)[lead])
    odd |= follows & ((ahead > 0) | (ahead < -limits.jump_max))
    return odd, ~pure | odd


def _starts(columns: Int64s, heads: Bools, odd: Bools, solid: Bools, limits: Limits) -> Int64s:
    """The first row of each run."""
    rows = np.flatnonzero(solid)
    before, row = rows[:-1], rows[1:]
    seq, ack, direction = columns[_SEQ], columns[_ACK], columns[_DIRECTION]
    joins = (
        ~(odd[before] | odd[row])
        & (_last(heads)[before] == _last(heads)[row])
        & (direction[before] == direction[row])
        & ((seq[before] + columns[_SIZE][before]) & MASK == seq[row])
        & (np.abs(_signed(ack[row] - ack[before])) <= limits.jump_max)
    )
    first = heads | solid
    first[row[joins]] = False
    return np.flatnonzero(first)


def _fast(starts: Int64s, payload_rows: Int64s) -> Bools:
    """Whether each run has enough payload rows for the fast path; a row that is not plain counts none."""
    bounds = np.searchsorted(payload_rows, starts)
    return np.diff(bounds, append=len(payload_rows)) >= _RUN_MIN


def _are_short(fast: Bools, sizes: Int64s) -> Bools:
    """Which runs are processed one by one, and have few rows."""
    return ~fast & (sizes <= _BLOCK)


def _describe(columns: Int64s, starts: Int64s, payload_rows: Int64s, fast: Bools) -> Int64s:
    """One row of ``SegmentRun`` fields for each run."""
    if not len(starts):
        return np.empty((0, len(SegmentRun._fields)), np.int64)
    rows = columns.shape[1]
    stops = np.append(starts[1:], rows)
    run_of_row = np.repeat(np.arange(len(starts)), stops - starts)
    head = starts[run_of_row]
    replies = columns[_DIRECTION] != columns[_DIRECTION][head]
    ahead = np.where(replies, 0, _signed(columns[_ACK] - columns[_ACK][head]))
    highest, lowest = np.maximum.reduceat(ahead, starts), np.minimum.reduceat(ahead, starts)
    short = _are_short(fast, stops - starts)
    own = np.where(short, stops - starts, 0)
    fields = {
        "first": starts,
        "stop": stops,
        "fast": fast,
        "direction": columns[_DIRECTION][starts],
        "seq": columns[_SEQ][starts],
        "ack": columns[_ACK][starts] + highest & MASK,
        "ack_spread": highest - lowest,
        "first_ns": columns[_TS][starts],
        "last_ns": np.maximum.reduceat(columns[_TS], starts),
        "last_packet": columns[_PACKET][stops - 1],
        "replies": np.add.reduceat(replies, starts, dtype=np.int64),
        "first_payload": np.searchsorted(payload_rows, starts),
        "stop_payload": np.searchsorted(payload_rows, stops),
        "place": np.where(short, np.cumsum(own) - own, -1),
    }
    return np.stack([np.asarray(fields[name], np.int64) for name in SegmentRun._fields], axis=1)


def _groups(flow: NDArray[np.int32], order: Int64s, heads: Bools, starts: Int64s) -> list[FlowGroup]:
    """The flows, in order of their first packet."""
    first_rows = np.flatnonzero(heads)
    first_runs = np.searchsorted(starts, first_rows)
    stop_runs = np.append(first_runs[1:], len(starts))
    by_packet = np.argsort(order[first_rows])
    columns = (column[by_packet].tolist() for column in (flow[first_rows], first_runs, stop_runs))
    return [FlowGroup(*group) for group in zip(*columns, strict=True)]
