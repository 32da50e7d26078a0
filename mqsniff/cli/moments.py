"""Times that count from a capture in, filters with the times they mean out: ``10:00``, ``+30s``, ``-5m``.

1. A time of day is of the day of the first packet (UTC); for ``--to`` of the next day, where it would not lie after
   ``--from``.
2. ``+30s`` counts from the first packet. Its batch is read to know it, and goes on to the run.
3. ``-5m`` counts back from the last packet: files are read through for it first. A pipe and an interface cannot tell.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import click

from mqsniff.filters.itemfilter import Filters
from mqsniff.tables.times import SECOND_NS

if TYPE_CHECKING:
    from mqsniff.model import CaptureInfo, PacketBatch
    from mqsniff.pipeline import Source

_DAY_NS: Final = 86_400 * SECOND_NS
_CLOCK: Final = re.compile(r"(\d{1,2}):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?Z?\Z", re.ASCII)


class RelativeTime(NamedTuple):
    """A time that a capture decides."""

    since: Literal["midnight", "start", "end"]
    span_ns: int


class AskedTimes(NamedTuple):
    """What --from and --to say, as far as a capture decides it."""

    start: RelativeTime | None = None
    stop: RelativeTime | None = None

    @property
    def needs_end(self) -> bool:
        """Whether the time of the last packet has to be known."""
        return any(time is not None and time.since == "end" for time in self)


NO_TIMES: Final = AskedTimes()


def read_moment(text: str, read_time: Callable[[str], int], read_duration: Callable[[str], int]) -> int | RelativeTime:
    """A moment: exact, or one that a capture decides."""
    if text[:1] in ("+", "-") and text[-1:].isalpha():
        span_ns = read_duration(text[1:])
        return RelativeTime("start", span_ns) if text[0] == "+" else RelativeTime("end", -span_ns)
    found = _CLOCK.match(text)
    if found is None:
        return read_time(text)
    hours, minutes, seconds = (int(part or 0) for part in found.groups()[:3])
    if hours > 24 or minutes > 59 or seconds > 59:
        raise ValueError(f"{text!r} is not a time of day")
    nanoseconds = int((found[4] or "0").ljust(9, "0"))
    return RelativeTime("midnight", ((hours * 60 + minutes) * 60 + seconds) * SECOND_NS + nanoseconds)


class PeekedSource:
    """A source whose first packet's time is known before it is read."""

    def __init__(self, source: Source) -> None:
        self.captures: list[CaptureInfo] = source.captures
        self._batches = source.batches()
        self._peeked: list[PacketBatch] = []
        self.first_ns: int | None = None
        for batch in self._batches:
            self._peeked.append(batch)
            if len(batch):
                self.first_ns = int(batch.ts_ns.min())
                break
            self._peeked.clear()

    def batches(self) -> Iterator[PacketBatch]:
        """All packets."""
        yield from self._peeked
        self._peeked.clear()
        yield from self._batches


def last_time(source: Source) -> int | None:
    """The time of a source's last packet: all of it is read."""
    last: int | None = None
    for batch in source.batches():
        if len(batch):
            newest = int(batch.ts_ns.max())
            last = newest if last is None else max(last, newest)
    return last


def resolved(filters: Filters, asked: AskedTimes, first_ns: int | None, last_ns: int | None) -> Filters:
    """Filters with times that a capture decided; raises click.UsageError where none is left between them."""
    if first_ns is None:
        return filters
    start = _moment(asked.start, first_ns, last_ns, filters.from_ns)
    stop = _moment(asked.stop, first_ns, last_ns, filters.to_ns)
    if start is not None and stop is not None and stop <= start:
        if asked.stop is None or asked.stop.since != "midnight":
            raise click.UsageError("--to is not after --from: there is no time between them")
        stop += _DAY_NS
    return replace(filters, from_ns=start, to_ns=stop)


def _moment(time: RelativeTime | None, first_ns: int, last_ns: int | None, exact: int | None) -> int | None:
    if time is None:
        return exact
    match time.since:
        case "midnight":
            return first_ns - first_ns % _DAY_NS + time.span_ns
        case "start":
            return first_ns + time.span_ns
    return None if last_ns is None else last_ns + time.span_ns
