"""The filter options, the same for every command: click parameters in, ``Filters`` out.

What each of them means stands in ``mqsniff/filters/itemfilter.py``. A value that cannot be meant is refused before
anything is read; a command's name that no dissector gives is told of, since a newer protocol may have it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Any, Final

import click

from mqsniff.cli.known import did_you_mean, unknown
from mqsniff.cli.moments import AskedTimes, RelativeTime, read_moment
from mqsniff.cli.sections import all_of, option
from mqsniff.cli.talk import say
from mqsniff.filters.contents import ContentSearch
from mqsniff.filters.itemfilter import SHORT_NAME, Filters, Network
from mqsniff.filters.patterns import Patterns
from mqsniff.filters.recordfilter import OFFSET_MAX, OffsetRange
from mqsniff.tables.escape import safe
from mqsniff.tables.times import SECOND_NS

_SECTION: Final = "Filters (any of the values of one option, all of the options)"
_YEAR_10000_S: Final = 253_402_300_800
_FRACTION: Final = re.compile(r"\.(\d+)")
_OFFSETS: Final = re.compile(r"(\d{1,19})(?:(-)(\d{0,19}))?\Z", re.ASCII)
_DURATION: Final = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)(ns|us|µs|ms|s|m|h)\Z", re.ASCII)
_UNITS_NS: Final = {
    "ns": 1, "us": 1000, "µs": 1000, "ms": 1_000_000, "s": SECOND_NS, "m": 60 * SECOND_NS, "h": 3600 * SECOND_NS
}  # fmt: skip
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
    from mqsniff.decode.registry import load_dissectors, protocols

    known = protocols(load_dissectors())
    if not any(map(Patterns((read_name(text),)).fit, known)):
        raise ValueError(unknown("protocol", text, known))
    return text


def complete_protocol(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    """Protocols that begin so, for the shell."""
    from mqsniff.decode.registry import load_dissectors, protocols

    return [name for name in protocols(load_dissectors()) if name.startswith(incomplete)]


def complete_name(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    """Commands that begin so, for the shell: those of the protocols that were chosen before."""
    from mqsniff.decode.registry import load_dissectors, message_names

    chosen = ctx.params.get("protocols") or ()
    known = message_names(load_dissectors(), Patterns(chosen).fit) or ()
    return sorted(name for name in known if name.lower().startswith(incomplete.lower()))


def unknown_names(filters: Filters) -> Iterator[str]:
    """A sentence for each name of a command that no dissector gives, as far as these know their commands."""
    if not filters.names:
        return
    from mqsniff.decode.registry import load_dissectors, message_names

    known = message_names(load_dissectors(), Patterns(filters.protocols).fit)
    if known is None:
        return
    of_these = f" of {' or '.join(filters.protocols)}" if filters.protocols else ""
    for name in filters.names:
        pattern = Patterns((name,), ignore_case=True)
        if not name.lower().startswith("unknown") and not any(map(pattern.fit, known)):
            yield f"--name {safe(name)}: no command{of_these} has this name{did_you_mean(name.strip('*?'), known)}"


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


def read_duration(text: str) -> int:
    """A span of time with its unit as nanoseconds: 100ms, 1.5s, 2m."""
    found = _DURATION.match(text)
    if found is None:
        raise ValueError(f"{text!r} is not a duration, such as 100ms, 1.5s or 250us")
    return int(Decimal(found[1]) * _UNITS_NS[found[2]])


def read_contents(text: str) -> str:
    """Text to look for, or a regular expression between slashes."""
    ContentSearch((read_name(text),))
    return text


def read_header(text: str) -> str:
    """The name of a header, or NAME=VALUE."""
    if not text.partition("=")[0]:
        raise ValueError(f"{text!r} names no header; write NAME=VALUE, or NAME alone")
    return text


def reading(read: Callable[[str], Any]) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """A callback of click that reads one value, or each of many; a ValueError of ``read`` is told in one line."""

    def callback(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
        try:
            if isinstance(value, tuple):
                return tuple(map(read, value))
            return None if value is None else read(value)
        except ValueError as error:
            raise click.BadParameter(str(error), ctx, param) from None

    return callback


def _moment(text: str) -> int | RelativeTime:
    return read_moment(text, read_time, read_duration)


def _many(
    name: str, *, into: str, metavar: str, text: str, read: Callable[[str], Any] | None = None, **more: Any
) -> Any:
    callback = None if read is None else reading(read)
    return option(
        _SECTION, name, into, multiple=True, metavar=metavar, callback=callback, help=f"{text}; repeatable.", **more
    )


filter_options: Final = all_of((
    _many("--protocol", into="protocols", metavar="NAME", read=read_protocol,
          shell_complete=complete_protocol, text="kafka, pulsar, rocketmq, nsq, …, as `mqsniff protocols` lists them"),
    _many("--name", into="names", metavar="NAME", read=read_name,
          shell_complete=complete_name,
          text="Command, such as Fetch or 'PUB*', in any case; an answer is also found by the name of its request"),
    _many("--topic", into="topics", metavar="NAME", read=read_name,
          text="Topic, such as orders or 'orders-*'; Pulsar's also by their last part"),
    _many("--group", into="groups", metavar="NAME", read=read_name,
          text="Consumer group, subscription or channel; * fits any text"),
    _many("--partition", into="partitions", metavar="N", type=click.IntRange(min=0), text="Partition or queue"),
    _many("--offset", into="offsets", metavar="N[-M]", read=read_offsets,
          text="Offset at the broker, or a range of them"),
    _many("--key", into="keys", metavar="TEXT", read=read_key, text="Key of a record, exact; 0x… for bytes"),
    _many("--header", into="headers", metavar="NAME=VALUE", read=read_header,
          text="Records with this header (a property, in Pulsar and RocketMQ); * fits any text, NAME alone any value"),
    _many("--grep", into="contents", metavar="TEXT|/RE/", read=read_contents,
          text="Text that a key, a value, a header or a body holds, or a regular expression (RE2) between slashes, "
               "/…/i in any case; of one value the first MiB is searched, secrets are not"),
    _many("--client", into="clients", metavar="NAME", read=read_name,
          text="Client by its id, ip or ip:port; * fits any text"),
    _many("--host", into="hosts", metavar="IP", read=read_network, text="Address of either end, or a network"),
    _many("--port", into="ports", metavar="N", type=click.IntRange(1, 65_535), text="Port of either end"),
    _many("--connection", into="connections", metavar="ID", read=read_connection,
          text="Short name, as text shows it for these inputs (c3), or connection_id, or how that begins"),
    option(_SECTION, "--errors", is_flag=True,
           help="What went wrong: answers with an error, exchanges that failed or had no answer, records that were not "
                "accepted, connections that were refused, problems of severity error."),
    option(_SECTION, "--slower", "slower_ns", metavar="TIME", callback=reading(read_duration),
           help="Exchanges on which the broker worked so long (100ms, 1.5s), without waiting for data or for "
                "an earlier answer; requests that waited so long and got no answer."),
    option(_SECTION, "--from", "from_ns", metavar="TIME", callback=reading(_moment),
           help="From this time on: RFC 3339 (UTC without a zone), seconds since 1970, 10:00 (UTC) of the day of the "
                "first packet, +30s after that packet, or -5m before the last one (of files)."),
    option(_SECTION, "--to", "to_ns", metavar="TIME", callback=reading(_moment),
           help="Before this time, in the same forms."),
))  # fmt: skip
"""Decorates a command with all filters but ``--where``."""

where_option: Final = option(
    _SECTION, "--where", metavar="SQL", callback=reading(read_name),
    help="Rows for which this is true, of the tables that have its columns: 'size > 1e6' fits messages, 'work_ns > 5e6'"
         " --table exchanges, 'value_size > 1e6' --table records; decides last."
)  # fmt: skip


def filters_of(options: dict[str, Any]) -> Filters:
    """Take the filters out of the parameters of a command; names that no command has are told on stderr.

    Times that a capture decides stay there as ``times``. Raises click.UsageError for a time that ends before it begins.
    """
    relative = {
        name: options[name] if isinstance(options[name], RelativeTime) else None for name in ("from_ns", "to_ns")
    }
    options.update({name: None for name, time in relative.items() if time is not None})
    options["times"] = AskedTimes(relative["from_ns"], relative["to_ns"])
    filters = Filters(**{name: options.pop(name) for name in Filters.__dataclass_fields__})
    if filters.from_ns is not None and filters.to_ns is not None and filters.to_ns <= filters.from_ns:
        raise click.UsageError("--to is not after --from: there is no time between them")
    for warning in unknown_names(filters):
        say(f"mqsniff: {warning}")
    return filters
