"""Capture times as text: integer nanoseconds since 1970 in, RFC 3339 with nine digits and Z out."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

SECOND_NS: Final = 1_000_000_000

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def rfc3339(ts_ns: int) -> str | None:
    """A time as text; None outside the years 1 to 9999, which the format does not have."""
    seconds, rest = divmod(ts_ns, SECOND_NS)
    second = utc_second(seconds)
    return None if second is None else f"{second}.{rest:09d}Z"


@lru_cache(maxsize=4096)
def utc_second(seconds: int) -> str | None:
    """A second since 1970 as "2026-11-21T09:38:50"; None outside the years 1 to 9999."""
    try:
        return (_EPOCH + timedelta(seconds=seconds)).isoformat()[:19]
    except OverflowError:
        return None
