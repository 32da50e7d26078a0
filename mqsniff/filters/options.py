"""The filter options as data, for the commands and for the library: names, fields of ``Filters``, how values are read.

``--topic orders`` on the command line is ``topic="orders"`` in ``mqsniff.read``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal, NamedTuple

from mqsniff.filters.amounts import read_duration
from mqsniff.filters.readings import (
    read_bound,
    read_connection,
    read_contents,
    read_header,
    read_key,
    read_name,
    read_network,
    read_offsets,
    read_partition,
    read_port,
    read_protocol,
)


class FilterOption(NamedTuple):
    """One filter."""

    option: str
    field: str
    """Of ``Filters``."""
    takes: Literal["many", "one", "flag"]
    metavar: str
    read: Callable[[str], Any]
    """Text in, the value out; raises ValueError."""
    text: str

    @property
    def keyword(self) -> str:
        """The name of the same filter in Python; ``from`` is a word of the language."""
        name = self.option.removeprefix("--")
        return "from_" if name == "from" else name


FILTER_OPTIONS: Final = (
    FilterOption("--protocol", "protocols", "many", "NAME", read_protocol,
                 "kafka, pulsar, rocketmq, nsq, …, as `mqsniff protocols` lists them"),
    FilterOption("--name", "names", "many", "NAME", read_name,
                 "Command, such as Fetch or 'PUB*', in any case; an answer is also found by the name of its request"),
    FilterOption("--topic", "topics", "many", "NAME", read_name,
                 "Topic, such as orders or 'orders-*'; Pulsar's also by their last part"),
    FilterOption("--group", "groups", "many", "NAME", read_name,
                 "Consumer group, subscription or channel; * fits any text"),
    FilterOption("--partition", "partitions", "many", "N", read_partition, "Partition or queue"),
    FilterOption("--offset", "offsets", "many", "N[-M]", read_offsets, "Offset at the broker, or a range of them"),
    FilterOption("--key", "keys", "many", "TEXT", read_key, "Key of a record, exact; 0x… for bytes"),
    FilterOption("--header", "headers", "many", "NAME=VALUE", read_header,
                 "Records with this header (a property, in Pulsar and RocketMQ); * fits any text, NAME alone any "
                 "value"),
    FilterOption("--grep", "contents", "many", "TEXT|/RE/", read_contents,
                 "Text that a key, a value, a header or a body holds, or a regular expression (RE2) between slashes, "
                 "/…/i in any case; of one value the first MiB is searched, secrets are not"),
    FilterOption("--client", "clients", "many", "NAME", read_name,
                 "Client by its id, ip or ip:port; * fits any text"),
    FilterOption("--host", "hosts", "many", "IP", read_network, "Address of either end, or a network"),
    FilterOption("--port", "ports", "many", "N", read_port, "Port of either end"),
    FilterOption("--connection", "connections", "many", "ID", read_connection,
                 "Short name, as text shows it for these inputs (c3), or connection_id, or how that begins"),
    FilterOption("--errors", "errors", "flag", "", bool,
                 "What went wrong: answers with an error, exchanges that failed or had no answer, records that were "
                 "not accepted, connections that were refused, problems of severity error."),
    FilterOption("--slower", "slower_ns", "one", "TIME", read_duration,
                 "Exchanges on which the broker worked so long (100ms, 1.5s), without waiting for data or for an "
                 "earlier answer; requests that waited so long and got no answer."),
    FilterOption("--from", "from_ns", "one", "TIME", read_bound,
                 "From this time on: RFC 3339 (UTC without a zone), seconds since 1970, 10:00 (UTC) of the day of the "
                 "first packet, +30s after that packet, or -5m before the last one (of files)."),
    FilterOption("--to", "to_ns", "one", "TIME", read_bound, "Before this time, in the same forms."),
)  # fmt: skip
"""All filters but ``--where``, in the order of the help."""
