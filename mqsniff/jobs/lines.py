"""Lines of all workers in, the lines of one process out: workers send them with their places, and here they are sorted.

1. A frame holds lines and, for each item, its place and the size of its lines. ``upto`` says that all items before that
   place were sent. What lies before the lowest ``upto`` of all workers is written.
2. Lines of one place stay as their worker wrote them; no two workers have items at one place.
3. A worker is read from as long as little of it waits, and always the one that is furthest behind: memory is bounded,
   and nobody waits for a worker that cannot write.
"""

from __future__ import annotations

import io
import marshal
from array import array
from collections import deque
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any, BinaryIO, Final, NamedTuple

import numpy as np

from mqsniff.jobs.places import AFTER, BEFORE, Place
from mqsniff.jobs.teachinglog import PlacedTeaching
from mqsniff.limits import MIB
from mqsniff.topics import TopicDirectory

FRAME: Final = MIB
"""Bytes of lines after which a worker sends them."""
HELD: Final = 16 * MIB
"""Bytes of a worker's lines that wait for those of others."""
_NEWLINE: Final = 10
_COLUMNS: Final = 4
"""Numbers of an item: its place, and where its lines end."""


class RunTogether(Exception):  # noqa: N818  # it says what has to be done
    """One process has to do the run: something depends on all connections."""


class LineCollector(io.BytesIO):
    """Where a worker's sink writes to: lines, each with one newline."""

    def __init__(self) -> None:
        super().__init__()
        self._items = array("q")
        self._marked = 0
        self._owed: deque[tuple[Place, int]] = deque()
        """(place of an item, number of its lines that its sink has not written yet), in order."""
        self._owing = 0
        """All these lines."""

    def mark(self, place: Place, waiting: int = 0) -> int:
        """What was written since the last call are the lines of an item at this place; returns the bytes that wait.

        ``waiting``: how many lines of this item and of those before it the sink writes later.
        """
        at = self.tell()
        if waiting or self._owing:
            self._mark_lines(place, at, waiting)
        elif at > self._marked:
            self._items.extend((*place, at))
        self._marked = at
        return at

    def _mark_lines(self, place: Place, at: int, waiting: int) -> None:
        """As ``mark``: the new lines belong to the items that are owed some, in order, then to this one."""
        written = np.frombuffer(self.getvalue()[self._marked : at], np.uint8)
        ends = (np.flatnonzero(written == _NEWLINE) + self._marked + 1).tolist()
        if own := len(ends) + waiting - self._owing:
            self._owed.append((place, own))
        self._owing = waiting
        done = 0
        while done < len(ends):
            owner, lines = self._owed.popleft()
            taken = min(lines, len(ends) - done)
            done += taken
            if taken:
                self._items.extend((*owner, ends[done - 1]))
            if taken < lines:
                self._owed.appendleft((owner, lines - taken))

    def drain(self) -> tuple[bytes, bytes]:
        """(places and ends of items, lines) that wait."""
        drained = self._items.tobytes(), self.getvalue()
        self._items = array("q")
        self._marked = 0
        self.seek(0)
        self.truncate()
        return drained


class LineFrame(NamedTuple):
    """What a worker sends while it decodes."""

    upto: Place
    progress: tuple[int, int | None]
    """Bytes that were read, and their total."""
    news: list[Any]
    items: bytes

    def send(self, channel: Connection, lines: bytes) -> None:
        """Send it, and its lines."""
        channel.send_bytes(marshal.dumps((True, *self)))
        channel.send_bytes(lines)


def send_report(channel: Connection, report: dict[str, Any]) -> None:
    """Send the last thing that a worker says, of plain values."""
    channel.send_bytes(marshal.dumps((False, report)))


@dataclass(slots=True)
class _Waiting:
    """Lines of one frame."""

    items: np.ndarray[tuple[int, int], np.dtype[np.int64]]
    lines: bytes
    first: int = 0
    """Items that are written already."""


@dataclass(slots=True)
class WorkerLines:
    """What came from one worker."""

    upto: Place = BEFORE
    progress: tuple[int, int | None] = (0, None)
    report: dict[str, Any] | None = None
    held: int = 0
    news: deque[PlacedTeaching] = field(default_factory=deque)
    waiting: deque[_Waiting] = field(default_factory=deque)

    def receive(self, channel: Connection) -> None:
        """Take the next message; EOFError where the worker ended without a report."""
        is_frame, *rest = marshal.loads(channel.recv_bytes())  # noqa: S302  # of our own process
        if not is_frame:
            self.report = rest[0]
            if not self.report.get("interrupted"):
                self.upto = AFTER
            return
        upto, progress, news, items = rest
        self.upto, self.progress = upto, progress
        self.news += [PlacedTeaching(*each) for each in news]
        lines = channel.recv_bytes()
        if lines:
            self.held += len(lines)
            self.waiting.append(_Waiting(np.frombuffer(items, np.int64).reshape(-1, _COLUMNS), lines))

    def ready(self, horizon: Place) -> tuple[list[Any], list[bytes]]:
        """Places and sizes of all items before a place, and their lines."""
        columns, lines = [], []
        while self.waiting:
            frame = self.waiting[0]
            stop = len(frame.items) if _before(frame.items[-1:], horizon) else _before(frame.items, horizon)
            if stop > frame.first:
                ends = frame.items[:, 3]
                begin = int(ends[frame.first - 1]) if frame.first else 0
                part = frame.items[frame.first : stop].copy()
                part[:, 3] = np.diff(ends[frame.first : stop], prepend=begin)
                columns.append(part)
                lines.append(frame.lines[begin : int(ends[stop - 1])])
                self.held -= len(lines[-1])
                frame.first = stop
            if stop < len(frame.items):
                break
            self.waiting.popleft()
        return columns, lines


def _before(items: np.ndarray[Any, np.dtype[np.int64]], horizon: Place) -> int:
    """How many items lie before a place; they are in order."""
    stage, release, first = items[:, 0], items[:, 1], items[:, 2]
    later = (release < horizon[1]) | ((release == horizon[1]) & (first < horizon[2]))
    return int(((stage < horizon[0]) | ((stage == horizon[0]) & later)).sum())


class LineMerge:
    """Puts the lines of all workers in order."""

    def __init__(self, jobs: int, stream: BinaryIO | None, topics_max: int) -> None:
        """``stream``: None where workers write files themselves."""
        self.lanes = [WorkerLines() for _ in range(jobs)]
        self.written = 0
        """Bytes."""
        self._stream = stream
        self._topics = TopicDirectory(limit=topics_max)

    def wants(self) -> list[int]:
        """The workers to read from (rule 3)."""
        open_lanes = [job for job, lane in enumerate(self.lanes) if lane.report is None]
        behind = min((self.lanes[job].upto for job in open_lanes), default=AFTER)
        return [job for job in open_lanes if self.lanes[job].held < HELD or self.lanes[job].upto == behind]

    def write_ready(self) -> bool:
        """Write what no worker can come before; whether there was something. Raises RunTogether."""
        horizon = min(lane.upto for lane in self.lanes)
        self._learn(horizon)
        found = [lane.ready(horizon) for lane in self.lanes]
        if self._stream is None:
            return False
        mine = [job for job, (columns, _) in enumerate(found) if columns]
        if not mine:
            return False
        lines = [b"".join(found[job][1]) for job in mine]
        if len(mine) == 1:
            self._stream.write(lines[0])
        else:
            self._stream.writelines(_sorted_lines([np.concatenate(found[job][0]) for job in mine], lines))
        self.written += sum(map(len, lines))
        return True

    def _learn(self, horizon: Place) -> None:
        """Check that each topic id has one name, on which rows rely that were made apart."""
        news: list[PlacedTeaching] = []
        for lane in self.lanes:
            while lane.news and lane.news[0].place < horizon:
                news.append(lane.news.popleft())
        for _, taught in sorted(news):
            before = self._topics.known(taught[0], taught[1])
            self._topics.merge((taught,))
            if before not in (None, self._topics.known(taught[0], taught[1])) or self._topics.refused:
                raise RunTogether


def _sorted_lines(columns: list[Any], lines: list[bytes]) -> list[memoryview]:
    """The lines of several workers, in the order of their places: each worker's own are in order."""
    lanes = np.repeat(np.arange(len(columns)), [len(each) for each in columns])
    items = np.concatenate(columns)
    order = np.lexsort((items[:, 2], items[:, 1], items[:, 0]))
    lanes, sizes = lanes[order], items[order, 3]
    starts = np.flatnonzero(np.diff(lanes, prepend=-1))
    views = [memoryview(each) for each in lines]
    at = [0] * len(lines)
    pieces = []
    for lane, size in zip(lanes[starts].tolist(), np.add.reduceat(sizes, starts).tolist(), strict=True):
        pieces.append(views[lane][at[lane] : at[lane] + size])
        at[lane] += size
    return pieces
