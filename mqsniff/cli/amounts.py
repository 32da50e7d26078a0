"""Numbers in, short text for people out: sizes, durations, shares, counts with their noun."""

from __future__ import annotations

_SIZES = ("B", "kB", "MB", "GB", "TB", "PB")
_DURATIONS = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs"), (1, "ns"))
_MINUTE_NS = 60_000_000_000
_HOUR_NS = 60 * _MINUTE_NS


def size_text(size: float | None) -> str:
    """Bytes, three digits: "74 B", "5.61 kB", "236 MB"."""
    if size is None:
        return ""
    power = 0
    while size >= 999.5 and power < len(_SIZES) - 1:
        size /= 1000
        power += 1
    return f"{digits(size) if power else int(size)} {_SIZES[power]}"


def duration_text(duration_ns: int | None) -> str:
    """A duration, three digits: "55 µs", "3.28 ms", "1.2 s", "3 min 20 s", "2 h 5 min"; empty for none."""
    if duration_ns is None:
        return ""
    if duration_ns >= _HOUR_NS:
        return f"{duration_ns // _HOUR_NS} h {duration_ns % _HOUR_NS // _MINUTE_NS} min"
    if duration_ns >= 2 * _MINUTE_NS:
        return f"{duration_ns // _MINUTE_NS} min {duration_ns % _MINUTE_NS // _DURATIONS[0][0]} s"
    for unit, name in _DURATIONS:
        if duration_ns >= unit:
            return f"{digits(duration_ns / unit)} {name}"
    return "0"


def share_text(share: float | None) -> str:
    """A share of a whole in percent, so that little is not nothing."""
    if share is None:
        return ""
    return "0 %" if share == 0 else "<1 %" if share < 0.01 else f"{share:.0%}".replace("%", " %")


def count_text(number: int | None) -> str:
    """A count: empty for none of it, thousands apart."""
    return f"{number:,}" if number else ""


def rate_text(per_s: float | None) -> str:
    """Things a second; empty for none."""
    return "" if not per_s else "<0.01" if per_s < 0.01 else digits(per_s) if per_s < 999.5 else f"{per_s:,.0f}"


def count_of(number: int, noun: str, plural: str = "") -> str:
    """A number and its noun."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def digits(number: float) -> str:
    """Three digits of a number below 1,000, or all before the point."""
    return f"{number:.3g}" if number < 999.5 else f"{number:.0f}"
