"""What a filter option says, as text, in; its value for ``Filters`` out; ValueError, in one line, if it has none.

Commands and the library read the same texts (``options``). What each value means stands in ``itemfilter``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Any, Final

from mqsniff.filters.amounts import read_duration
from mqsniff.filters.contents import ContentSearch
from mqsniff.filters.itemfilter import SHORT_NAME, Filters, Network
from mqsniff.filters.known import did_you_mean, unknown
from mqsniff.filters.moments import EMPTY_SPAN, AskedTimes, RelativeTime, read_moment
from mqsniff.filters.patterns import Patterns
from mqsniff.filters.recordfilter import OFFSET_MAX, OffsetRange
from mqsniff.tables.escape import safe
from mqsniff.tables.times import SECOND_NS

_YEAR_10000_S: Final = 253_402_300_800
_FRACTION: Final = re.compile(r"\.(\d+)")
_OFFSETS: Final = re.compile(r"(\d{1,19})(?:(-)(\d{0,19}))?\Z", re.ASCII)
_CONNECTION: Final = re.compile(r"[0-9a-fA-F]{1,32}\Z")
_ZONE: Final = re.compile(r"%[^/]*")
_MAPPED: Final = IPv6Network("::ffff:0:0/96")


def read_time(text: str) -> int:
    """A moment as nanoseconds since 1970, exact: epoch seconds, or RFC 3339 text (UTC where it names no zone)."""
    seconds = _decimal(text)
    if seconds is not None and -_YEAR_10000_S < seconds < _YEAR_10000_S:
        return int(seconds * SECOND_NS)
    fraction = _FRACTION.search(text)
    try:
        moment = datetime.fromisoformat(_FRACTION.sub("", text, count=1))
    except ValueError:
        raise ValueError(f"{text!r} is not a time, such as 2026-11-21T09:38:50.7Z or 1795253930.7") from None
    zoned = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    nanoseconds = int(fraction[1][:9].ljust(9, "0")) if fraction else 0
    return int(zoned.timestamp()) * SECOND_NS + nanoseconds


def _decimal(text: str) -> Decimal | None:
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


def read_name(text: str) -> str:
    """A name or pattern; an empty one is a variable that a script forgot to set."""
    if not text:
        raise ValueError("the value is empty; leave the option out to choose everything")
    return text


def read_protocol(text: str) -> str:
    """A value that the column ``protocol`` may have, or a pattern that fits one; what there is loads the dissectors."""
    from mqsniff.decode.registry import load_dissectors, protocols  # noqa: PLC0415  # loads every dissector

    known = protocols(load_dissectors())
    if not any(map(Patterns((read_name(text),)).fit, known)):
        raise ValueError(unknown("protocol", text, known))
    return text


def read_network(text: str) -> Network:
    """An address, or a network of addresses, as packets carry it: without brackets and zone, IPv4 as such."""
    bare = _ZONE.sub("", text.removeprefix("[").removesuffix("]"))
    try:
        network = ip_network(bare, strict=False)
    except ValueError:
        raise ValueError(f"{text!r} is not an address, such as 10.0.0.7, 10.0.0.0/8 or fe80::1") from None
    if isinstance(network, IPv6Network) and network.subnet_of(_MAPPED):
        return IPv4Network((int(network.network_address) & 0xFFFF_FFFF, network.prefixlen - _MAPPED.prefixlen))
    return network


def read_connection(text: str) -> str:
    """A short name such as c3, a ``connection_id``, or how that begins."""
    if SHORT_NAME.fullmatch(text):
        return text
    if not _CONNECTION.match(read_name(text)):
        raise ValueError(f"{text!r} is not a short name such as c3, nor a connection_id or its first hex digits")
    return text.lower()


def read_offsets(text: str) -> OffsetRange:
    """One offset (``1200``), a range (``1200-1299``) or one without end (``1200-``)."""
    found = _OFFSETS.match(text)
    if found is None:
        raise ValueError(f"{text!r} is not an offset, such as 1200, 1200-1299 or 1200-")
    first, dash, last = found.groups()
    offsets = OffsetRange(int(first), int(last) if last else OFFSET_MAX if dash else int(first))
    if offsets.last < offsets.first:
        raise ValueError(f"{text!r} ends before it begins")
    return offsets


def read_key(text: str) -> bytes:
    """A record's key: text, or ``0x`` and hex digits."""
    if not text.startswith("0x"):
        return text.encode(errors="surrogateescape")
    try:
        return bytes.fromhex(text[2:])
    except ValueError:
        raise ValueError(f"{text!r} has an odd number of hex digits, or other characters") from None


def read_contents(text: str) -> str:
    """Text to look for, or a regular expression between slashes."""
    ContentSearch((read_name(text),))
    return text


def read_header(text: str) -> str:
    """The name of a header, or NAME=VALUE."""
    if not text.partition("=")[0]:
        raise ValueError(f"{text!r} names no header; write NAME=VALUE, or NAME alone")
    return text


def read_partition(text: str) -> int:
    """The number of a partition or queue."""
    return _whole(text, 0, (1 << 31) - 1)


def read_port(text: str) -> int:
    """The number of a port."""
    return _whole(text, 1, 65_535)


def _whole(text: str, least: int, most: int) -> int:
    if not re.fullmatch(r"\d{1,10}", text, re.ASCII) or not least <= int(text) <= most:
        raise ValueError(f"{text!r} is no whole number from {least} to {most}")
    return int(text)


def read_bound(text: str) -> int | RelativeTime:
    """A moment, exact or one that a capture decides."""
    return read_moment(text, read_time, read_duration)


def asked_filters(values: dict[str, Any]) -> tuple[Filters, AskedTimes]:
    """Filters by the fields of ``Filters``, and the times among them that a capture decides.

    Raises ValueError for a time that ends before it begins.
    """
    relative = {name: time for name, time in values.items() if isinstance(time, RelativeTime)}
    filters = Filters(**{name: value for name, value in values.items() if name not in relative})
    if filters.from_ns is not None and filters.to_ns is not None and filters.to_ns <= filters.from_ns:
        raise ValueError(EMPTY_SPAN)
    return filters, AskedTimes(relative.get("from_ns"), relative.get("to_ns"))


def unknown_names(filters: Filters) -> Iterator[str]:
    """A sentence for each name of a command that no dissector gives, as far as these know their commands."""
    if not filters.names:
        return
    from mqsniff.decode.registry import load_dissectors, message_names  # noqa: PLC0415  # as above

    known = message_names(load_dissectors(), Patterns(filters.protocols).fit)
    if known is None:
        return
    of_these = f" of {' or '.join(filters.protocols)}" if filters.protocols else ""
    for name in filters.names:
        pattern = Patterns((name,), ignore_case=True)
        if not name.lower().startswith("unknown") and not any(map(pattern.fit, known)):
            yield f"--name {safe(name)}: no command{of_these} has this name{did_you_mean(name.strip('*?'), known)}"
