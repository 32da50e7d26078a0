"""Items of a run in, in their order; rows of every section out, at the end or at any time before.

Hot: ``take`` runs once an item. Messages are added up in a cell for each connection, name, version and kind, and the
cells are counted under commands and clients when the connection ends, or when somebody asks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, Literal, TypeAlias

from mqsniff.answers.stats.clients import ClientStats
from mqsniff.answers.stats.commands import FAILED, CommandStats, named
from mqsniff.answers.stats.groups import GroupKey, GroupStats
from mqsniff.answers.stats.health import HealthStats, RunFacts
from mqsniff.answers.stats.hosts import HostStats
from mqsniff.answers.stats.keeping import CellKey, StatRow
from mqsniff.answers.stats.network import NetworkStats
from mqsniff.answers.stats.protocols import ProtocolStats
from mqsniff.answers.stats.rebalances import NewsPlace
from mqsniff.answers.stats.sketch import LatencySketch
from mqsniff.answers.stats.topics import TopicStats
from mqsniff.dissector import Dissector
from mqsniff.limits import Limits
from mqsniff.model import (
    ClosedItem,
    ConnectionInfo,
    EndpointNews,
    Exchange,
    ExchangeItem,
    Item,
    MemberNews,
    Message,
    MessageItem,
    PartitionItem,
    Problem,
    ProblemItem,
    RecordItem,
    TopicItem,
)
from mqsniff.tables.times import rfc3339

SectionName: TypeAlias = Literal[
    "span", "hosts", "protocols", "commands", "topics", "clients", "groups", "network", "health"
]
SECTIONS: Final[tuple[SectionName, ...]] = (
    *("span", "hosts", "protocols", "commands", "topics", "clients", "groups", "network", "health"),
)
By: TypeAlias = Literal["broker", "client", "topic", "connection"]


class OpenTally:
    """What an open connection has said since its cells were counted."""

    __slots__ = ("cells", "connection")

    def __init__(self, connection: ConnectionInfo) -> None:
        self.connection = connection
        self.cells: dict[CellKey, list[int]] = {}


class TrafficStats:
    """Everything that is counted of a run; ``by``: what commands are counted by, beside their names."""

    def __init__(
        self,
        dissectors: Iterable[type[Dissector]] = (),
        limits: Limits | None = None,
        by: By | None = None,
        watch: Callable[[str, MemberNews, NewsPlace], object] | None = None,
    ) -> None:
        """``watch`` gets what members of groups do, with the protocol, as it is counted."""
        known = tuple(dissectors)
        limit = (limits or Limits()).stats_rows_max
        self._by = by
        self._watch = watch
        self._commands = CommandStats(limit, by)
        self._all_commands = self._commands if by is None else CommandStats(limit)
        """Commands by nothing: what protocols are summed up from."""
        self._protocols = ProtocolStats()
        self._hosts = HostStats(limit)
        self._clients = ClientStats(limit, known)
        self._topics = TopicStats(limit, {name: cls.topic_role for cls in known for name in cls.names})
        self._groups = GroupStats(limit, known)
        self._tellers = {name: cls for cls in known for name in cls.names}
        self._network = NetworkStats(limit)
        self._health = HealthStats(limit)
        self._open: dict[str, OpenTally] = {}
        self._first_ns: int | None = None
        self._last_ns = 0

    def take(self, item: Item) -> None:
        """Count an item. Hot."""
        if isinstance(item, MessageItem):
            self._message(item.connection, item.message)
        elif isinstance(item, ExchangeItem):
            self._exchange(item.connection, item.exchange)
        elif isinstance(item, RecordItem):
            self._topics.take(item.message, item.batch)
            self._groups.delivered(item.connection, item.message, item.batch)
        elif isinstance(item, PartitionItem):
            self._groups.heard(item.connection, item.message)
        elif isinstance(item, ProblemItem):
            self._health.noticed(item.problem)
        elif isinstance(item, ClosedItem):
            self._closed(item.connection)
        elif isinstance(item, TopicItem):
            self._groups.named(item.topic_id, item.name)

    def rows(self, run: RunFacts) -> dict[SectionName, list[StatRow]]:
        """The rows of every section."""
        for tally in self._open.values():
            self._count(tally)
        span = self._span(run)
        return {
            "span": [span],
            "hosts": self._hosts.rows(),
            "protocols": self._protocols.rows(self._all_commands.by_protocol(), self._all_commands.rows()),
            "commands": self._commands.rows(),
            "topics": self._topics.rows(span["duration_ns"]),
            "clients": self._clients.rows(),
            "groups": self._groups.rows(),
            "network": self._network.rows(),
            "health": self._health.rows(run),
        }

    def lags(self) -> dict[GroupKey, tuple[int | None, int | None]]:
        """The (lag, commit lag) of each group by now."""
        return self._groups.lags()

    def durations(self) -> dict[tuple[str, str], tuple[LatencySketch, LatencySketch]]:
        """Of each command (protocol, name): how long brokers worked, and how long they waited."""
        tallies = self._all_commands.tallies
        return {(key[1], key[2]): (tally.work, tally.waits) for key, tally in tallies.kept.items()}

    def _message(self, connection: ConnectionInfo, message: Message) -> None:
        tally = self._open.get(connection.connection_id)
        if tally is None:
            tally = self._open[connection.connection_id] = OpenTally(connection)
        frame = message.frame
        for topic in _NOWHERE if self._by != "topic" else message.topics or _NOWHERE:
            key = (message.protocol, message.name, message.version, message.kind, topic)
            cell = tally.cells.get(key)
            if cell is None:
                tally.cells[key] = [1, frame.size]
            else:
                cell[0] += 1
                cell[1] += frame.size
        self._last_ns = max(self._last_ns, frame.last_ts_ns)
        if self._first_ns is None or frame.first_ts_ns < self._first_ns:
            self._first_ns = frame.first_ts_ns
        if message.group is not None or message.partitions:
            self._groups.heard(connection, message)
        if message.kind == "push":
            self._learn(connection, None, message)

    def _exchange(self, connection: ConnectionInfo, exchange: Exchange) -> None:
        pending = exchange.pending
        if pending is not None and pending.link == "settlement":
            self._groups.settled(exchange)
            return
        message = named(exchange)
        protocol, name = (connection.protocol, "?") if message is None else (message.protocol, message.name)
        self._all_commands.tallies.of((None, protocol, name)).take(exchange)
        if self._by is not None:
            for place in self._places(connection, exchange):
                self._commands.tallies.of((place, protocol, name)).take(exchange)

        request = None if pending is None else pending.message
        if request is not None and request.partitions and exchange.status not in FAILED:
            self._groups.exchanged(connection, request)
        teller = self._tellers.get(protocol)
        if request is not None and teller is not None and (name in teller.telling or exchange.status in FAILED):
            self._learn(connection, request, exchange.answer)

    def _learn(self, connection: ConnectionInfo, request: Message | None, answer: Message | None) -> None:
        """Take in what an exchange, or a push, tells of groups and servers."""
        half = request or answer
        teller = self._tellers.get(half.protocol) if half is not None else None
        if half is None or teller is None or (request is None and half.name not in teller.telling):
            return
        asked_ns, told_ns = half.frame.first_ts_ns, (answer or half).frame.last_ts_ns
        place = NewsPlace(asked_ns, told_ns, connection.client, half.client_id or connection.identity.client_id)
        try:
            for news in teller.news(request, answer):
                if isinstance(news, EndpointNews):
                    self._hosts.told(half.protocol, news)
                else:
                    self._groups.told(half.protocol, news, place)
                    if self._watch is not None:
                        self._watch(half.protocol, news, place)
        except Exception as error:  # noqa: BLE001  # the border of the plugin
            fault = f"{type(error).__name__} in {teller.__name__}.news at {half.name}"
            self._health.noticed(Problem("internal", "error", fault))

    def _places(self, connection: ConnectionInfo, exchange: Exchange) -> Sequence[str | None]:
        """What an exchange is counted by: one thing, or each topic that it names."""
        if self._by != "topic":
            return (self._place(connection),)
        request = exchange.pending.message if exchange.pending is not None else None
        halves = (half.topics for half in (request, exchange.answer) if half is not None)
        return tuple(dict.fromkeys(topic for topics in halves for topic in topics)) or _NOWHERE

    def _place(self, connection: ConnectionInfo) -> str | None:
        match self._by:
            case "broker":
                return connection.server
            case "client":
                return connection.identity.client_id or connection.client_ip
            case "connection":
                return connection.connection_id
        return None

    def _closed(self, connection: ConnectionInfo) -> None:
        tally = self._open.pop(connection.connection_id, None)
        if tally is not None:
            self._count(tally)
        self._protocols.closed(connection)
        self._hosts.closed(connection)
        self._clients.closed(connection)
        self._network.closed(connection)
        self._health.closed(connection)

    def _count(self, tally: OpenTally) -> None:
        """Count the cells of a connection, which are empty then."""
        place = self._place(tally.connection)
        if self._by == "connection":
            c = tally.connection
            self._commands.ends.of(c.connection_id).update(client=c.client, server=c.server)
        for cell, (count, size) in tally.cells.items():
            protocol, name, version, kind, topic = cell
            self._all_commands.tallies.of((None, protocol, name)).count_messages(kind, version, count, size)
            if self._by is not None:
                self._commands.tallies.of((topic or place, protocol, name)).count_messages(kind, version, count, size)
            self._clients.said(tally.connection, cell, count)
        tally.cells.clear()

    def _span(self, run: RunFacts) -> StatRow:
        """The whole run as a row: its captures, its time, its size."""
        times = [(c.first_ts_ns, c.last_ts_ns) for c in run.captures if c.first_ts_ns is not None]
        first = min((first for first, _ in times if first is not None), default=None)
        last = max((last for _, last in times if last is not None), default=None)
        sums = self._health.sums
        return {
            "captures": [capture.name for capture in run.captures],
            "first_ts": None if first is None else rfc3339(first),
            "last_ts": None if last is None else rfc3339(last),
            "duration_ns": None if first is None or last is None else last - first,
            "packets": run.packets,
            "other_packets": run.other_packets,
            "connections": sums.connections,
            "messages": sum(tally.count for _, tally in self._all_commands.tallies),
            "bytes": sum(tally.size for _, tally in self._all_commands.tallies),
            "wire_bytes": sums.size,
            "first_message_ts": None if self._first_ns is None else rfc3339(self._first_ns),
            "last_message_ts": None if self._first_ns is None else rfc3339(self._last_ns),
        }


_NOWHERE: Final[tuple[None]] = (None,)
