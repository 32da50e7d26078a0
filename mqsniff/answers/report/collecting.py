"""Items of a run in, in their order; what ``mqsniff stats`` counts, and the same over time, out.

Memory: open connections, ``NAMES`` series of each kind, ``CONNECTIONS`` connections, ``LINKS`` links, ``HISTORY``
events of groups; what comes later is counted together.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import Final

from mqsniff.answers.report.timegrid import TimedSeries, TimeGrid, amount_series, duration_series, level_series
from mqsniff.answers.stats import TrafficStats
from mqsniff.answers.stats.commands import error_name_of, is_failure, named, waited_ns, worked_ns
from mqsniff.answers.stats.groups import GroupKey
from mqsniff.answers.stats.keeping import OTHERS, KeptTallies
from mqsniff.answers.stats.rebalances import NewsPlace
from mqsniff.answers.stats.sketch import LatencySketch
from mqsniff.answers.stats.topics import sum_of_values
from mqsniff.dissector import Dissector
from mqsniff.limits import Limits
from mqsniff.model import (
    UNMET,
    ClosedItem,
    ConnectionInfo,
    Exchange,
    ExchangeItem,
    Item,
    MemberNews,
    Message,
    MessageItem,
    ProblemItem,
    RecordItem,
)

NAMES: Final = 256
"""Protocols, topics, clients and errors that have a series of their own."""
COMMANDS: Final = 32
"""Commands whose latency is kept over time."""
CONNECTIONS: Final = 600
LINKS: Final = 5000
HISTORY: Final = 5000
_SEEN_ON_THE_WIRE: Final = {
    "retransmission": "segment sent again",
    "zero_window": "zero window",
    "stall": "stall",
}
"""Kinds of problems that stand on the time axis, in words."""

_BESIDE_THOSE: Final = "are told one by one"
"""How the problem ends that says how many had no problem of their own (``streams.troubles``)."""

LinkKey = tuple[str, str, str | None]
"""(client, server, topic)."""
TIMED_OUT: Final = "(timed out)"
"""In place of an error: a delivery that was not settled in time."""
ErrorSeriesKey = tuple[str, str, str | None]
"""(protocol, command, error); None for the error where there was no answer."""
DurationPair = tuple[LatencySketch, LatencySketch]


class OpenTimes:
    """What an open connection has said: by time, and by topic."""

    __slots__ = ("series", "topics")

    def __init__(self) -> None:
        self.series = amount_series()
        self.topics: dict[str | None, list[int]] = {}


class TrafficReport:
    """Everything that a page shows of a run."""

    def __init__(self, dissectors: Iterable[type[Dissector]] = (), limits: Limits | None = None) -> None:
        self.stats = TrafficStats(dissectors, limits, watch=self._told)
        self.grid = TimeGrid()
        self.protocols: KeptTallies[str, TimedSeries[list[int]]] = KeptTallies(NAMES, amount_series)
        self.topics: KeptTallies[str, TimedSeries[list[int]]] = KeptTallies(NAMES, amount_series)
        self.clients: KeptTallies[str, TimedSeries[list[int]]] = KeptTallies(NAMES, amount_series)
        self.errors: KeptTallies[ErrorSeriesKey, TimedSeries[list[int]]] = KeptTallies(NAMES, amount_series)
        self.network: KeptTallies[str, TimedSeries[list[int]]] = KeptTallies(NAMES, amount_series)
        self.latency: KeptTallies[tuple[str, str], TimedSeries[DurationPair]] = KeptTallies(COMMANDS, duration_series)
        self.lags: KeptTallies[GroupKey, TimedSeries[list[int | None]]] = KeptTallies(NAMES, level_series)
        self.links: KeptTallies[LinkKey, list[int]] = KeptTallies(LINKS, lambda: [0, 0])
        self.history: dict[GroupKey, list[tuple[int, MemberNews, NewsPlace]]] = {}
        self.history_left_out = 0
        self.connections_seen = 0
        self._room = HISTORY
        self._kept: list[tuple[bool, int, int, ConnectionInfo]] = []
        self._open: dict[str, tuple[ConnectionInfo, OpenTimes]] = {}
        self._sampled: tuple[int, int] = (-1, -1)

    def take(self, item: Item) -> None:
        """Count an item. Hot."""
        self.stats.take(item)
        if isinstance(item, MessageItem):
            self._message(item.connection, item.message)
        elif isinstance(item, ExchangeItem):
            self._exchange(item.exchange)
        elif isinstance(item, RecordItem):
            topic = item.batch.constant.get("topic") or item.batch.constant.get("topic_id") or "(several)"
            cell = self.topics.of(topic).at(self.grid, item.message.frame.last_ts_ns)
            cell[0] += item.batch.count
            cell[1] += sum_of_values(item.batch)
        elif isinstance(item, ProblemItem):
            words = _SEEN_ON_THE_WIRE.get(item.problem.kind)
            if words is not None and item.ts_ns is not None and not item.problem.detail.endswith(_BESIDE_THOSE):
                self._happened(words, item.ts_ns)
        elif isinstance(item, ClosedItem):
            self._closed(item.connection)

    def finish(self) -> None:
        """Count what is still open: the input has ended, or somebody has ended the run."""
        for connection, times in list(self._open.values()):
            self._count(connection, times)
        self._open.clear()
        self._sample(self.grid.last)

    @property
    def connections(self) -> list[ConnectionInfo]:
        """The connections that say most: those in trouble, then the largest; in the order of their first packets."""
        return sorted((kept[-1] for kept in self._kept), key=lambda one: (one.first_ts_ns, one.connection_id))

    def _message(self, connection: ConnectionInfo, message: Message) -> None:
        frame, grid = message.frame, self.grid
        bucket = grid.bucket(frame.last_ts_ns)
        if (grid.level, bucket) > self._sampled:
            self._sample(bucket - 1)
            self._sampled = (grid.level, bucket)
        found = self._open.get(connection.connection_id)
        if found is None:
            found = self._open[connection.connection_id] = (connection, OpenTimes())
        times = found[1]
        for cell in (self.protocols.of(message.protocol).at(grid, frame.last_ts_ns),
                     times.series.at(grid, frame.last_ts_ns)):  # fmt: skip
            cell[0] += 1
            cell[1] += frame.size
        for topic in message.topics or (None,):
            if topic not in times.topics and len(times.topics) >= NAMES:
                topic = OTHERS  # noqa: PLW2901  # counted with them
            amount = times.topics.setdefault(topic, [0, 0])
            amount[0] += 1
            amount[1] += frame.size

    def _exchange(self, exchange: Exchange) -> None:
        message, ended_ns = named(exchange), _ended_ns(exchange)
        if message is None or ended_ns is None:
            return
        if exchange.pending is not None and exchange.pending.link == "settlement":
            if exchange.pending.extra.get("timed_out"):
                self.errors.of((message.protocol, message.name, TIMED_OUT)).at(self.grid, ended_ns)[0] += 1
            return
        if is_failure(exchange):
            key = (message.protocol, message.name, error_name_of(exchange))
            self.errors.of(key).at(self.grid, ended_ns)[0] += 1
        elif exchange.status == "unanswered":
            self.errors.of((message.protocol, message.name, None)).at(self.grid, ended_ns)[0] += 1
        worked = worked_ns(exchange)
        waited = waited_ns(exchange) if worked is None else None
        if worked is None and waited is None:
            return
        work, waits = self.latency.of((message.protocol, message.name)).at(self.grid, ended_ns)
        if worked is not None:
            work.add(worked)
        elif waited is not None:
            waits.add(waited)

    def _happened(self, words: str, ts_ns: int) -> None:
        self.network.of(words).at(self.grid, ts_ns)[0] += 1

    def _told(self, protocol: str, news: MemberNews, place: NewsPlace) -> None:
        if self._room <= 0:
            self.history_left_out += 1
            return
        self._room -= 1
        self.history.setdefault((protocol, news.group), []).append((place.told_ns, news, place))

    def _sample(self, bucket: int) -> None:
        """Note the lag of each group as it is at the end of a bucket."""
        ts_ns = max(bucket, self.grid.first) * self.grid.width_ns
        if self.grid.count:
            for group, (lag, commit_lag) in self.stats.lags().items():
                self.lags.of(group).at(self.grid, ts_ns)[:] = (lag, commit_lag)

    def _closed(self, connection: ConnectionInfo) -> None:
        self.connections_seen += 1
        found = self._open.pop(connection.connection_id, None)
        if found is not None:
            self._count(*found)
        if connection.outcome in UNMET:
            self._happened("refused connection" if connection.outcome == "refused" else "handshake without an answer",
                           connection.first_ts_ns)  # fmt: skip
        elif connection.close_reason == "rst":
            self._happened("reset", connection.last_ts_ns)
        size = connection.client_bytes + connection.server_bytes
        trouble = bool(connection.close_reason not in {None, "fin"} or connection.retransmitted_segments)
        ranked = (trouble and connection.outcome not in UNMET, size, -self.connections_seen, connection)
        if len(self._kept) < CONNECTIONS:
            heapq.heappush(self._kept, ranked)
        elif ranked[:3] > self._kept[0][:3]:
            heapq.heapreplace(self._kept, ranked)

    def _count(self, connection: ConnectionInfo, times: OpenTimes) -> None:
        """Count what a connection said under its client, whose name may have come late."""
        client = connection.identity.client_id or connection.client_ip
        self.clients.of(client).add(times.series, self.grid.level)
        for topic, (count, size) in times.topics.items():
            tally = self.links.of((client, connection.server, topic))
            tally[0] += count
            tally[1] += size


def _ended_ns(exchange: Exchange) -> int | None:
    """When an exchange ended: with its answer, or when it was known that none would come."""
    if exchange.answer is not None:
        return exchange.answer.frame.first_ts_ns
    if exchange.ended_ns is not None:
        return exchange.ended_ns
    return None if exchange.pending is None else exchange.pending.frame.last_ts_ns
