"""Captures that grow, and folders into which captures are rotated, in; batches as they come out, as from an interface.

1. Files are read one after the other, by the time of their first packets, then by name: as ``FileSource`` numbers them.
   A file is over when one after it has a packet, and nothing more comes of it then.
2. In a folder every file that begins as a capture does is read, whatever its name; not those below it.
3. A name that is used again (a ring of tcpdump, a file that was replaced) is another capture: its first packet tells. A
   file that was compressed after its end is not read twice.
4. A run can ``resume`` at a place: from an earlier file on packets are given again, with ``replaying`` set, so that
   connections are as they were. An empty batch with ``caught_up`` set stands at the place itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from mqsniff.codecs.files import RawFile
from mqsniff.limits import SECOND_NS, Limits
from mqsniff.model import CaptureInfo, PacketBatch
from mqsniff.sources.batches import empty_batch, report, slice_batch
from mqsniff.sources.capture import CaptureReader
from mqsniff.sources.files import HEAD_WINDOW
from mqsniff.sources.growing import GrowingCapture

POLL_S: Final = 0.2
"""Time between two looks at files that do not grow."""
FINISHED_MAX: Final = 65_536
"""Finished files that are remembered by name; those before them by their time."""
_HEAD_MIN: Final = 24
_COMPRESSED: Final = (".gz", ".zst", ".lz4", ".xz", ".bz2")


class FileKey(NamedTuple):
    """A capture by its place among the others."""

    first_ns: int
    name: str


class FollowPlace(NamedTuple):
    """So many packets of a file, and all of those before it."""

    file: FileKey
    packets: int


class FollowResume(NamedTuple):
    """Where to go on, and from which file on packets are given again."""

    replay_from: FileKey
    place: FollowPlace


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowWishes:
    """How long to follow."""

    count: int | None = None
    duration_ns: int | None = None
    idle_ns: int | None = None


class FileQueue:
    """The captures below some paths that were not read yet."""

    def __init__(self, paths: Sequence[str], limits: Limits, behind: FileKey | None) -> None:
        """``after``: files before this one are done."""
        self._paths = paths
        self._limits = limits
        self._behind = behind
        self._finished: dict[str, FileKey] = {}
        self._known: dict[str, tuple[tuple[int, int], FileKey | None]] = {}

    def waiting(self, current: str | None) -> list[FileKey]:
        """The captures that have a packet, in order, without the current one."""
        names = self._names()
        for gone in self._known.keys() - set(names):
            del self._known[gone]
        plain = {_plain(name) for name in (*self._finished, current or "")}
        found = []
        for name in names:
            twin = _plain(name) != name and _plain(name) in plain
            key = None if name == current or twin else self._key(name)
            if key is not None and not self._is_done(name, key):
                found.append(key)
        return sorted(found)

    def finish(self, key: FileKey) -> None:
        """Take note that a capture was read to its end."""
        self._finished.pop(key.name, None)
        self._finished[key.name] = key
        if len(self._finished) > FINISHED_MAX:
            oldest = self._finished.pop(next(iter(self._finished)))
            self._behind = oldest if self._behind is None else max(oldest, self._behind)

    def _is_done(self, name: str, key: FileKey) -> bool:
        finished = self._finished.get(name)
        if finished is not None:
            return finished == key
        return self._behind is not None and key < self._behind

    def _key(self, name: str) -> FileKey | None:
        """The place of a capture; None while it has no packet."""
        status = _status(name)
        known = self._known.get(name)
        if known is not None and known[0] == status:
            return known[1]
        key = None
        if status[0] >= _HEAD_MIN:
            first_ns = _first_time(name, self._limits)
            key = None if first_ns is None else FileKey(first_ns, name)
        self._known[name] = status, key
        return key

    def _names(self) -> list[str]:
        names = []
        for path in self._paths:
            place = Path(path)
            if place.is_dir():
                names += [str(each) for each in place.iterdir() if not each.name.startswith(".") and each.is_file()]
            else:
                names.append(path)
        return names


class FollowSource:
    """The packets of captures as they are written, until ``stop``, ``count`` packets or a time has passed."""

    def __init__(
        self,
        paths: Sequence[str],
        limits: Limits,
        wishes: FollowWishes | None = None,
        tell: Callable[[str], object] = lambda _sentence: None,
        resume: FollowResume | None = None,
    ) -> None:
        """OSError if a path is not there."""
        for path in paths:
            Path(path).stat()
        self.captures: list[CaptureInfo] = []
        self.place: FollowPlace | None = None if resume is None else resume.place
        """What was passed on so far."""
        self.replaying = resume is not None
        self.caught_up = False
        self.suspending = False
        self._resume = resume
        self._limits = limits
        self._wishes = wishes or FollowWishes()
        self._tell = tell
        self._queue = FileQueue(paths, limits, None if resume is None else resume.replay_from)
        self._left = self._wishes.count
        self._stopped = False
        self._until: float | None = None
        self._last = 0.0
        self._key: FileKey | None = None
        self._ordinal = 0

    def stop(self) -> None:
        """End ``batches`` soon; may be called from a signal handler."""
        self._stopped = True

    def batches(self) -> Iterator[PacketBatch]:
        """Packets as they come; an empty batch while there are none, and after ``stop`` one with ``suspending``."""
        self._last = time.monotonic()
        duration_ns = self._wishes.duration_ns
        self._until = None if duration_ns is None else self._last + duration_ns / SECOND_NS
        if self._resume is not None:
            yield from self._check_resume(self._resume)
        while not self._over():
            waiting = self._queue.waiting(None)
            if not waiting:
                yield self._nothing()
                continue
            yield from self._read(waiting[0])
        if self._stopped:
            self.suspending = True
            yield empty_batch()

    def _over(self) -> bool:
        now, idle_ns = time.monotonic(), self._wishes.idle_ns
        late = self._until is not None and now >= self._until
        silent = idle_ns is not None and now - self._last >= idle_ns / SECOND_NS
        return self._stopped or late or silent or self._left == 0

    def _nothing(self) -> PacketBatch:
        time.sleep(POLL_S)
        return empty_batch()

    def _check_resume(self, resume: FollowResume) -> Iterator[PacketBatch]:
        """Go on without the packets of before if the file of the place is gone."""
        waiting = self._queue.waiting(None)
        if resume.place.file in waiting:
            return
        self._tell(f"{resume.place.file.name} is gone; continuing after it, without the connections of before")
        for key in waiting:
            if key <= resume.place.file:
                self._queue.finish(key)
        self.caught_up = True
        yield empty_batch()

    def _read(self, key: FileKey) -> Iterator[PacketBatch]:
        """A capture to its end, which is there when another one waits."""
        info = CaptureInfo(len(self.captures), key.name)
        self.captures.append(info)
        try:
            capture = GrowingCapture(key.name, info, self._limits)
        except OSError as error:
            report(info, (error.strerror or "cannot be opened").lower(), 0)
            self._queue.finish(key)
            return
        looked = 0.0
        try:
            while not self._over():
                batch = capture.next_batch()
                if batch is not None:
                    yield from self._passed(key, batch)
                elif capture.over or capture.is_final:
                    break
                elif time.monotonic() - looked >= POLL_S:
                    looked = time.monotonic()
                    if self._queue.waiting(key.name) or capture.was_replaced():
                        capture.is_final = True
                    else:
                        yield self._nothing()
                else:
                    yield self._nothing()
            else:
                return
            capture.finish()
            self._queue.finish(key)
        finally:
            capture.close()

    def _passed(self, key: FileKey, batch: PacketBatch) -> Iterator[PacketBatch]:
        """The packets of a batch; those up to the place of ``resume`` apart."""
        info = self.captures[-1]
        first = info.packets - len(batch)
        batch.ordinal, self._ordinal = self._ordinal, self._ordinal + len(batch)
        if not self.replaying or self._resume is None or self._resume.place.file != key:
            yield from self._counted(key, batch, first)
            return
        again = min(max(self._resume.place.packets - first, 0), len(batch))
        if again:
            yield slice_batch(batch, 0, again)
        if first + again == self._resume.place.packets:
            self.caught_up = True
            yield empty_batch()
            if again < len(batch):
                yield from self._counted(key, slice_batch(batch, again, len(batch)), first + again)

    def _counted(self, key: FileKey, batch: PacketBatch, first: int) -> Iterator[PacketBatch]:
        self._last = time.monotonic()
        if self.replaying:
            yield batch
            return
        if self._left is not None:
            batch = slice_batch(batch, 0, min(len(batch), self._left))
            self._left -= len(batch)
        self.place = FollowPlace(key, first + len(batch))
        yield batch


def _plain(name: str) -> str:
    """A name without the suffix of its compression."""
    return next((name.removesuffix(suffix) for suffix in _COMPRESSED if name.endswith(suffix)), name)


def _status(name: str) -> tuple[int, int]:
    """(size, time of the last change) of a file; zeros if it is not there."""
    try:
        status = Path(name).stat()
    except OSError:
        return 0, 0
    return status.st_size, status.st_mtime_ns


def _first_time(name: str, limits: Limits) -> int | None:
    """The time of a capture's first packet; None without one, or where it is no capture."""
    try:
        raw = RawFile(name)
    except OSError:
        return None
    reader = CaptureReader(raw, CaptureInfo(0, name), limits, HEAD_WINDOW)
    try:
        batch = reader.next_batch()
        return None if batch is None else int(batch.ts_ns[0])
    finally:
        reader.close()
