"""Items of a run in, those that the user's filters choose out: the meaning of each filter option.

1. Values of one option are alternatives; different options must all be met. Patterns may hold ``*``, ``?``, ``[…]``.
2. A message is chosen by its own fields, an answer also by those of its request, except for time and errors. The
   problems of a chosen message are chosen too. A request is written before its answer is known, so the answer does not
   count for it.
3. An exchange is chosen if each option is met by its request or its answer; ``--errors`` also by its status.
4. Records are chosen with their message; those of a request wait for the answer, and ``--errors`` chooses them if it
   says that they failed. ``--topic``, ``--partition``, ``--offset``, ``--key``, ``--header`` and ``--grep`` also select
   rows of ``records`` and ``partitions``, so that one topic of a large answer comes alone; ``--errors`` selects
   partitions that failed.
5. A connection is chosen if an item of it is. If a connection itself has all that the options ask for (protocol,
   client, host, port, connection, time, errors), it is also chosen by these.
6. A problem without message is chosen if its connection meets all options; a problem of an input is always chosen.
7. Topic ids count by the names that were taught before, on any connection; rows of ``topics`` are chosen by protocol
   and topic alone, since they explain the others.
8. Memory: one ``OpenedItem`` for each connection without a chosen item, and the ids of the other connections.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_address
from operator import is_
from typing import Final, Literal, TypeAlias, assert_never

from mqsniff.filters.patterns import Patterns
from mqsniff.filters.recordfilter import OffsetRange, RecordFilter
from mqsniff.filters.slow import SlowFilter, SlowState
from mqsniff.model import (
    UNMET,
    ClosedItem,
    ConnectionInfo,
    ExchangeItem,
    ExchangeStatus,
    Item,
    Message,
    MessageItem,
    OpenedItem,
    PartitionItem,
    ProblemItem,
    RecordItem,
    TopicItem,
    packet_number,
)

Network: TypeAlias = IPv4Network | IPv6Network

Option: TypeAlias = Literal[
    "protocol", "name", "place", "group", "client", "host", "port", "connection", "errors", "time", "slower"
]
"""Options that are checked together; ``place``: topic, partition, offset, key, header and content, which one row must
meet together. ``slower`` is decided before (``slow``)."""

SHORT_NAME: Final = re.compile(r"c[1-9]\d{0,5}", re.ASCII)
"""Short name of a connection. An id that begins like one has to be given with more of its digits, or fewer."""

_BY_CONNECTION: Final[frozenset[Option]] = frozenset(
    ("protocol", "client", "host", "port", "connection", "errors", "time")
)
_BAD: Final[frozenset[ExchangeStatus]] = frozenset(("error", "partial", "unanswered", "lost"))


@dataclass(frozen=True, slots=True)
class Filters:
    """The filter options of the user; empty options choose everything."""

    protocols: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    partitions: tuple[int, ...] = ()
    offsets: tuple[OffsetRange, ...] = ()
    keys: tuple[bytes, ...] = ()
    headers: tuple[str, ...] = ()
    """``NAME`` or ``NAME=VALUE`` (``contents``)."""
    contents: tuple[str, ...] = ()
    """Text, or ``/regular expression/``."""
    clients: tuple[str, ...] = ()
    hosts: tuple[Network, ...] = ()
    ports: tuple[int, ...] = ()
    connections: tuple[str, ...] = ()
    errors: bool = False
    slower_ns: int | None = None
    """The least time that was worked on an exchange."""
    from_ns: int | None = None
    """First time that is chosen."""
    to_ns: int | None = None
    """First time after it that is not."""

    def __bool__(self) -> bool:
        return self != NO_FILTERS

    @property
    def needs_records(self) -> bool:
        """Whether record batches have to be decoded for the filters."""
        return bool(self.offsets or self.keys or self.headers or self.contents)


NO_FILTERS: Final = Filters()


FilterState: TypeAlias = tuple[dict[str, OpenedItem], set[str], SlowState | None]


class ItemFilter:
    """Filters items one by one; keeps state for open connections."""

    def __init__(self, filters: Filters) -> None:
        self._filters = filters
        self._protocols = Patterns(filters.protocols)
        self._names = Patterns(filters.names, ignore_case=True)
        self._groups = Patterns(filters.groups)
        self._clients = Patterns(filters.clients)
        self._place = RecordFilter(
            Patterns(filters.topics),
            filters.partitions,
            filters.offsets,
            filters.keys,
            headers=filters.headers,
            contents=filters.contents,
        )
        self._slow = None if filters.slower_ns is None else SlowFilter(filters.slower_ns)
        self._numbers = frozenset(int(name[1:]) for name in filters.connections if SHORT_NAME.fullmatch(name))
        self._ids = tuple(name for name in filters.connections if not SHORT_NAME.fullmatch(name))
        self._given: tuple[Option, ...] = tuple(_given(filters))
        self._whole_connections = _BY_CONNECTION.issuperset(self._given)
        self._waiting: dict[str, OpenedItem] = {}
        self._chosen: set[str] = set()

    def saved(self) -> FilterState:
        """What it knows of open connections, for ``restore`` of another one with the same options."""
        return self._waiting, self._chosen, None if self._slow is None else self._slow.saved()

    def restore(self, saved: FilterState) -> None:
        """Go on where another one ended."""
        self._waiting, self._chosen, slow = saved
        if self._slow is not None and slow is not None:
            self._slow.restore(slow)

    def choose(self, item: Item) -> Iterator[Item]:
        """The chosen part of an item: nothing, all of it, or some rows; first its connection's opening."""
        if self._slow is None:
            yield from self._choose(item)
            return
        for slow in self._slow.of(item):
            yield from self._choose(slow)

    def _choose(self, item: Item) -> Iterator[Item]:
        match item:
            case OpenedItem(connection):
                self._waiting[connection.connection_id] = item
            case ClosedItem(connection):
                yield from self._closed(item, connection)
            case TopicItem():
                if self._protocols.fit(item.protocol) and self._place.names_topic(item.name, item.topic_id):
                    yield item
            case MessageItem() | ExchangeItem() | RecordItem() | ProblemItem():
                if (chosen := self._part(item)) is not None:
                    yield from self._told(item.connection)
                    yield chosen
            case PartitionItem():
                yield item  # a part of an item that was chosen here
            case _:
                assert_never(item)

    def _part(self, item: MessageItem | ExchangeItem | RecordItem | ProblemItem) -> Item | None:
        match item:
            case MessageItem(connection, message):
                return self._message(item) if self._meets(connection, _about(message), (message,)) else None
            case ExchangeItem():
                return item if self._exchange(item) else None
            case RecordItem():
                return self._records(item)
            case ProblemItem():
                return item if self._problem(item) else None

    # ---- what is chosen

    def _message(self, item: MessageItem) -> MessageItem:
        message = item.message
        partitions = self._place.partitions(message)
        if self._filters.errors:
            partitions = tuple(row for row in partitions if row.get("error_code")) or partitions
        batches = (self._place.records(message, batch) for batch in message.records)
        records = tuple(batch for batch in batches if batch is not None)
        whole = len(records) == len(message.records) and all(map(is_, records, message.records))
        if whole and partitions is message.partitions:
            return item
        return replace(item, message=replace(message, partitions=partitions, records=records))

    def _exchange(self, item: ExchangeItem) -> bool:
        exchange = item.exchange
        pending = exchange.pending.message if exchange.pending is not None else None
        halves = tuple(half for half in (pending, exchange.answer) if half is not None)
        return self._meets(item.connection, halves, halves, bad=exchange.status in _BAD)

    def _records(self, item: RecordItem) -> RecordItem | None:
        message, batch = item.message, item.batch
        failed = batch.constant.get("ack") == "failed"
        if not self._meets(item.connection, _about(message), (message,), bad=failed):
            return None
        kept = self._place.records(message, batch)
        if kept is None:
            return None
        return item if kept is batch else replace(item, batch=kept)

    def _problem(self, item: ProblemItem) -> bool:
        connection, message = item.connection, item.message
        if message is not None and connection is not None:
            return self._meets(connection, _about(message), (message,))
        if connection is None:
            whole_input = item.packet is None or not packet_number(item.packet)
            return whole_input or ({"errors", "time"}.issuperset(self._given) and self._meets_alone(item))
        return all(
            self._own(option, connection) for option in self._given if option not in ("errors", "time")
        ) and self._meets_alone(item)

    def _meets_alone(self, item: ProblemItem) -> bool:
        """Whether a problem meets ``--errors`` and the time span."""
        severe = not self._filters.errors or item.problem.severity == "error"
        return severe and (item.ts_ns is None or self._in_time(item.ts_ns, item.ts_ns))

    def _closed(self, item: ClosedItem, connection: ConnectionInfo) -> Iterator[Item]:
        key = connection.connection_id
        if key in self._chosen or (self._whole_connections and self._connection(connection)):
            yield from self._told(connection)
            yield item
        self._waiting.pop(key, None)
        self._chosen.discard(key)

    def _connection(self, connection: ConnectionInfo) -> bool:
        """Whether a closed connection without a chosen message is chosen itself."""
        for option in self._given:
            match option:
                case "errors":
                    met = connection.outcome in UNMET
                case "time":
                    met = self._in_time(connection.first_ts_ns, connection.last_ts_ns)
                case _:
                    met = self._own(option, connection)
            if not met:
                return False
        return True

    def _told(self, connection: ConnectionInfo | None) -> Iterator[Item]:
        """Note that an item of a connection is chosen; gives the opening before the first."""
        if connection is None:
            return
        self._chosen.add(connection.connection_id)
        if (opened := self._waiting.pop(connection.connection_id, None)) is not None:
            yield opened

    # ---- the options

    def _meets(
        self,
        connection: ConnectionInfo,
        about: Sequence[Message],
        itself: Sequence[Message],
        *,
        bad: bool = False,
    ) -> bool:
        """Whether all options are met: by any of the related messages; time and errors by the item's own messages."""
        for option in self._given:
            match option:
                case "errors":
                    met = bad or any(has_error(message) for message in itself)
                case "time":
                    met = any(self._in_time(m.frame.first_ts_ns, m.frame.first_ts_ns) for m in itself)
                case "host" | "port" | "connection":
                    met = self._own(option, connection)
                case "slower":
                    met = bool(itself)
                case _:
                    met = any(self._says(option, connection, message) for message in about)
                    met = met or (not about and self._own(option, connection))
            if not met:
                return False
        return True

    def _says(self, option: Option, connection: ConnectionInfo, message: Message) -> bool:
        match option:
            case "protocol":
                return self._protocols.fit(message.protocol)
            case "name":
                return self._names.fit(message.name)
            case "place":
                return self._place.inside(message)
            case "group":
                return self._groups.fit(message.group)
            case "client":
                return self._clients.fit(message.client_id) or self._own(option, connection)
        return self._own(option, connection)

    def _own(self, option: Option, connection: ConnectionInfo) -> bool:
        """Whether a connection meets an option by itself."""
        filters = self._filters
        match option:
            case "protocol":
                return self._protocols.fit(connection.protocol)
            case "group":
                return self._groups.fit(connection.identity.group)
            case "client":
                names = (connection.identity.client_id, connection.client_ip, connection.client)
                return any(self._clients.fit(name) for name in names)
            case "host":
                return any(_lies_in(ip, filters.hosts) for ip in (connection.client_ip, connection.server_ip))
            case "port":
                return connection.client_port in filters.ports or connection.server_port in filters.ports
            case "connection":
                return connection.number in self._numbers or connection.connection_id.startswith(self._ids)
        return False

    def _in_time(self, first_ns: int, last_ns: int) -> bool:
        start, stop = self._filters.from_ns, self._filters.to_ns
        return (start is None or last_ns >= start) and (stop is None or first_ns < stop)


def has_error(message: Message) -> bool:
    """Whether a message has an error of its protocol, or a problem of severity error."""
    return message.failed or any(problem.severity == "error" for problem in message.problems)


@lru_cache(maxsize=4096)
def _lies_in(ip: str, networks: tuple[Network, ...]) -> bool:
    address = ip_address(ip)
    return any(address in network for network in networks)


def _about(message: Message) -> tuple[Message, ...]:
    """A message and the requests that it answers."""
    pending = (pending for pending in message.answered if pending.link == "answer" and pending.answer is message)
    return (message, *(each.message for each in pending if each.message is not None))


def _given(filters: Filters) -> Iterator[Option]:
    """The options that are set, the fastest to check first."""
    given: tuple[tuple[Option, object], ...] = (
        ("connection", filters.connections),
        ("host", filters.hosts),
        ("port", filters.ports),
        ("protocol", filters.protocols),
        ("time", filters.from_ns is not None or filters.to_ns is not None),
        ("name", filters.names),
        ("group", filters.groups),
        ("client", filters.clients),
        ("errors", filters.errors),
        ("slower", filters.slower_ns is not None),
        (
            "place",
            filters.topics
            or filters.partitions
            or filters.offsets
            or filters.keys
            or filters.headers
            or filters.contents,
        ),
    )
    return (option for option, value in given if value)
