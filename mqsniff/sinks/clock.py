"""Capture times in, the time column of text output out: utc, local, relative, delta or epoch, in microseconds.

1. A time of day is shown without its date; the date comes as a line of its own whenever it changes.
2. Relative counts from the first time that is shown, delta from the one shown before.
3. Digits below a microsecond are dropped, not rounded; nothing goes through floats.
"""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache
from typing import Literal, TypeAlias, assert_never

from mqsniff.tables.times import SECOND_NS, utc_second

TimeMode: TypeAlias = Literal["utc", "local", "relative", "delta", "epoch"]


class Clock:
    """Remembers what relative times need."""

    def __init__(self, mode: TimeMode = "utc") -> None:
        self._mode = mode
        self._origin: int | None = None
        self._day = ""
        self._day_second: int | None = None
        """A second of that day."""

    def day(self, ts_ns: int) -> str | None:
        """The date of a time, when it is another one than that of the time before."""
        if self._mode not in ("utc", "local"):
            return None
        seconds = ts_ns // SECOND_NS
        if seconds == self._day_second:
            return None
        self._day_second = seconds
        day = self._second(ts_ns)[:10]
        if day == self._day:
            return None
        self._day = day
        return day

    def stamp(self, ts_ns: int) -> str:
        """A time as text; of the same width for all times of a day."""
        match self._mode:
            case "utc":
                return f"{self._second(ts_ns)[11:]}.{ts_ns % SECOND_NS // 1000:06d}Z"
            case "local":
                second = self._second(ts_ns)
                return f"{second[11:19]}.{ts_ns % SECOND_NS // 1000:06d}{second[19:]}"
            case "relative" | "delta":
                since = 0 if self._origin is None else ts_ns - self._origin
                if self._origin is None or self._mode == "delta":
                    self._origin = ts_ns
                return f"{_seconds(since):>13}"
            case "epoch":
                return _seconds(ts_ns)
            case _:
                assert_never(self._mode)

    def mention(self, ts_ns: int, line_ns: int) -> str:
        """A time inside the line of ``line_ns``, with its date where that is another one; changes nothing."""
        match self._mode:
            case "utc" | "local":
                day = self._second(ts_ns)[:10]
                same = day == self._second(line_ns)[:10]
                return self.stamp(ts_ns) if same else f"{day} {self.stamp(ts_ns)}"
            case "relative" | "delta":
                return _seconds(0 if self._origin is None else ts_ns - self._origin)
            case "epoch":
                return _seconds(ts_ns)
            case _:
                assert_never(self._mode)

    def _second(self, ts_ns: int) -> str:
        seconds = ts_ns // SECOND_NS
        text = utc_second(seconds) if self._mode == "utc" else _local_second(seconds)
        return text or "????-??-??T??:??:??"


def _seconds(span_ns: int) -> str:
    """Seconds with six digits, signed where negative."""
    seconds, rest = divmod(abs(span_ns), SECOND_NS)
    return f"{'-' if span_ns < 0 else ''}{seconds}.{rest // 1000:06d}"


@lru_cache(maxsize=4096)
def _local_second(seconds: int) -> str | None:
    """A second since 1970 in this machine's zone as "2026-11-21T10:38:50+01:00"."""
    try:
        return datetime.fromtimestamp(seconds).astimezone().isoformat()
    except (OverflowError, OSError, ValueError):
        return None
