"""Batches of packets in, pcapng files out while they pass: ``mqsniff live -w``, one file or a ring of them.

1. Every batch is flushed, and a file describes all interfaces that are known when it begins. So each file can be read
   alone, also while it grows.
2. A file ends with statistics of its own time: packets that each interface received and that the kernel dropped.
3. The files of a ring are called NAME-NNNNN-TIME.SUFFIX. The oldest are deleted beyond ``files``, those of earlier runs
   with the same name too.
4. ``rotate`` begins the next file of a ring. A single file is opened anew by it, so that another program may have
   taken the old one away.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, Final

from mqsniff.model import CaptureInfo, PacketBatch
from mqsniff.sinks.pcapng import PcapngWriter
from mqsniff.sources.live import LiveSource

_SUFFIX: Final = ".pcapng"
_NUMBERED: Final = r"-(\d{5,})-\d{8}T\d{6}Z"


@dataclass(frozen=True, slots=True, kw_only=True)
class RingWishes:
    """When a file ends, and how many are kept; None: never, all."""

    size: int | None = None
    seconds: float | None = None
    files: int | None = None

    def __bool__(self) -> bool:
        return self.size is not None or self.seconds is not None or self.files is not None


class CaptureRecorder:
    """Writes what a source gives."""

    def __init__(self, path: Path, source: LiveSource, ring: RingWishes, comments: list[str]) -> None:
        """OSError if the file cannot be written."""
        self._path = path
        self._source = source
        self._ring = ring
        self._comments = comments
        self._kept = _earlier(path) if ring else []
        self._number = max((number for number, _ in self._kept), default=0)
        self._rotate_wanted = False
        self._before = {each.name: (each.received, each.dropped) for each in source.counts}
        self._stream, self._writer = self._begin()

    def rotate(self) -> None:
        """Begin another file with the next batch; may be called from a signal handler."""
        self._rotate_wanted = True

    def write(self, batch: PacketBatch) -> None:
        """Write the next packets, an empty batch too."""
        if self._is_full():
            self._end()
            self._stream, self._writer = self._begin()
        if len(batch):
            pairs = zip(batch.interface.tolist(), batch.linktype.tolist(), strict=True)
            self._writer.packets_of(batch, [self._interface(*pair) for pair in pairs])
            self._writer.flush()

    def close(self) -> None:
        """Complete the file."""
        self._end()

    def _is_full(self) -> bool:
        ring = self._ring
        return (
            self._rotate_wanted
            or (ring.size is not None and self._writer.size >= ring.size)
            or (ring.seconds is not None and time.monotonic() - self._begun_at >= ring.seconds)
        )

    def _begin(self) -> tuple[BinaryIO, PcapngWriter]:
        self._rotate_wanted = False
        self._begun_at = time.monotonic()
        self._begun_ns = time.time_ns()
        path = self._next_path() if self._ring else self._path
        stream = path.open("wb")
        writer = PcapngWriter(stream, application="mqsniff live", comments=self._comments)
        self._described: dict[tuple[int, int], int] = {}
        self._writer = writer
        for number in range(len(self._source.interfaces)):
            self._interface(number, self._source.linktype(number))
        writer.flush()
        return stream, writer

    def _next_path(self) -> Path:
        """The path of the ring's next file; the oldest ones are deleted."""
        self._number += 1
        now = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        suffix = self._path.suffix or _SUFFIX
        path = self._path.with_name(f"{self._path.stem}-{self._number:05d}-{now}{suffix}")
        self._kept.append((self._number, path))
        while self._ring.files is not None and len(self._kept) > self._ring.files:
            self._kept.pop(0)[1].unlink(missing_ok=True)
        return path

    def _interface(self, number: int, linktype: int) -> int:
        """The number in the file of an interface with a link type."""
        found = self._described.get((number, linktype))
        if found is None:
            wishes = self._source.wishes
            name = self._source.interfaces[number]
            found = self._writer.interface(
                (number, linktype), linktype & 0xFFFF, snaplen=wishes.snaplen, name=name, bpf=wishes.bpf
            )
            self._described[number, linktype] = found
        return found

    def _end(self) -> None:
        """Write statistics, and close the file."""
        self._source.count()
        span_ns = (self._begun_ns, time.time_ns())
        first = {number: place for (number, _), place in reversed(self._described.items())}
        for place, each in enumerate(self._source.counts):
            received, dropped = self._before[each.name]
            self._before[each.name] = each.received, each.dropped
            if place in first:
                comments = [f"counted for {each.name}"] if each.name not in self._source.interfaces else []
                counts = (each.received - received, each.dropped - dropped)
                self._writer.statistics(first[place], span_ns, *counts, comments)
        self._stream.close()


class RecordedSource:
    """A source whose batches are written before they are passed on."""

    def __init__(self, source: LiveSource, recorder: CaptureRecorder, fail: Callable[[OSError], object]) -> None:
        """``fail`` is told when nothing more can be written; the capture ends then."""
        self.captures: list[CaptureInfo] = source.captures
        self._source = source
        self._recorder = recorder
        self._fail = fail

    def batches(self) -> Iterator[PacketBatch]:
        """As the source gives them."""
        failed = False
        for batch in self._source.batches():
            if not failed:
                try:
                    self._recorder.write(batch)
                except OSError as error:
                    failed = True
                    self._fail(error)
                    self._source.stop()
            yield batch
        if not failed:
            self._recorder.close()


def _earlier(path: Path) -> list[tuple[int, Path]]:
    """(number, path) of the ring's files of earlier runs, oldest first."""
    named = re.compile(re.escape(path.stem) + _NUMBERED + re.escape(path.suffix or _SUFFIX))
    found = ((named.fullmatch(each.name), each) for each in path.absolute().parent.iterdir())
    return sorted((int(match[1]), each) for match, each in found if match)
