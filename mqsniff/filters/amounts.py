"""A size, a duration or a limit as text in, numbers out; ValueError, in one line, for anything else."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Final

from mqsniff.filters.known import unknown
from mqsniff.limits import Limits
from mqsniff.tables.times import SECOND_NS

_SIZE: Final = re.compile(r"(\d{1,16})([kmgt]?)(ib|b|)\Z", re.ASCII | re.IGNORECASE)
_DURATION: Final = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)(ns|us|µs|ms|s|m|h|d)\Z", re.ASCII)
_UNITS_NS: Final = {
    "ns": 1, "us": 1000, "µs": 1000, "ms": 1_000_000, "s": SECOND_NS,
    "m": 60 * SECOND_NS, "h": 3600 * SECOND_NS, "d": 86_400 * SECOND_NS,
}  # fmt: skip


def read_size(text: str) -> int:
    """Bytes with their unit: 262144, 100MB, 64MiB, 1g; powers of 1,000, or of 1,024 with an i or a lone letter."""
    found = _SIZE.match(text)
    if found is None:
        raise ValueError(f"{text!r} is not a size, such as 100MB, 64MiB or 262144")
    power = " kmgt".index(found[2].lower() or " ")
    unit: int = 1000 if found[3].lower() == "b" else 1024
    factor: int = unit**power
    return int(found[1]) * factor


def read_duration(text: str) -> int:
    """A span of time with its unit as nanoseconds: 100ms, 1.5s, 2m, 1d."""
    found = _DURATION.match(text)
    if found is None:
        raise ValueError(f"{text!r} is not a duration, such as 100ms, 1.5s or 250us")
    return int(Decimal(found[1]) * _UNITS_NS[found[2]])


def read_limits(texts: Iterable[str]) -> Limits:
    """NAME=VALUE pairs on top of the defaults; the value of a size or a time may have a unit: tables_buffer=64MiB."""
    limits, known = Limits(), Limits.about()
    for text in texts:
        name, _, value = text.partition("=")
        if name not in known:
            raise ValueError(unknown("limit", name, known))
        try:
            limits = limits.with_value(name, _READERS[known[name].unit](value))
        except ValueError as error:
            raise ValueError(f"{name}={error}") from None
    return limits


def _read_time(text: str) -> int:
    return int(text) if text.isdecimal() else read_duration(text)


def _read_number(text: str) -> int:
    if not text.isdecimal():
        raise ValueError(f"{text!r} is no whole number")
    return int(text)


_READERS: Final[dict[str, Callable[[str], int]]] = {"bytes": read_size, "ns": _read_time, "": _read_number}
"""Unit of a limit -> what reads its value."""
