"""Items of a run in, counts for metrics out.

Hot: ``write`` runs once an item, for one look-up and two additions a message.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

import mqsniff
from mqsniff.answers.metrics import families as named
from mqsniff.answers.metrics.snapshots import DurationCounts, MetricsSnapshot
from mqsniff.answers.stats.commands import CommandKey, durations, error_of
from mqsniff.answers.stats.commands import named as message_of
from mqsniff.answers.stats.keeping import OTHERS, KeptTallies
from mqsniff.answers.stats.protocols import ProtocolStats
from mqsniff.answers.stats.topics import TopicStats
from mqsniff.dissector import Dissector
from mqsniff.limits import SECOND_NS, Limits
from mqsniff.model import (
    CaptureInfo,
    ClosedItem,
    ConnectionInfo,
    Exchange,
    ExchangeItem,
    Item,
    MessageItem,
    ProblemItem,
    RecordItem,
)

if TYPE_CHECKING:
    from mqsniff.pipeline import Totals
    from mqsniff.sources.live import InterfaceCounts

INTERNAL: Final = "internal"
"""The role of topics that brokers and clients keep for themselves."""

FILES: Final = "(files)"
"""What stands for the interface where files are followed: there is no end of their names."""

ErrorKey = tuple[str, str, str, str]
"""(protocol, command, broker, error)."""


class MessageSums:
    """Messages of one kind."""

    __slots__ = ("count", "size")

    def __init__(self) -> None:
        self.count = self.size = 0


class CommandMeter:
    """What is counted of one command at one broker."""

    __slots__ = ("kinds", "statuses", "waits", "work")

    def __init__(self) -> None:
        self.kinds: dict[str, MessageSums] = {}
        self.statuses: dict[str, int] = {}
        self.work: DurationCounts | None = None
        self.waits: DurationCounts | None = None

    def take(self, exchange: Exchange) -> None:
        """Count an exchange. Hot: once an exchange."""
        statuses = self.statuses
        statuses[exchange.status] = statuses.get(exchange.status, 0) + 1
        work_ns, wait_ns = durations(exchange)
        if work_ns is not None:
            if self.work is None:
                self.work = DurationCounts()
            self.work.add(work_ns)
        elif wait_ns is not None:
            if self.waits is None:
                self.waits = DurationCounts()
            self.waits.add(wait_ns)


class ErrorCount:
    """How often an error came."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


class TrafficMeters:
    """Counts of a run; ``topics``: how many of them get labels of their own."""

    def __init__(self, dissectors: Iterable[type[Dissector]], limits: Limits, topics: int = 0) -> None:
        limit = limits.metrics_rows_max
        self._limit = limit
        self._shown_topics = topics
        self._commands: KeptTallies[CommandKey, CommandMeter] = KeptTallies(limit, CommandMeter)
        self._errors: KeptTallies[ErrorKey, ErrorCount] = KeptTallies(limit, ErrorCount)
        roles = {name: cls.topic_role for cls in dissectors for name in cls.names}
        self._topics = TopicStats(limits.stats_rows_max, roles)
        self._protocols = ProtocolStats()
        self._closed: dict[tuple[str, str], int] = {}
        self._gaps: dict[str, int] = {}
        self._problems: dict[tuple[str, str], int] = {}

    def write(self, item: Item) -> None:
        """Count an item. Hot."""
        if isinstance(item, MessageItem):
            message = item.message
            meter = self._commands.of((item.connection.server, message.protocol, message.name))
            sums = meter.kinds.get(message.kind)
            if sums is None:
                sums = meter.kinds[message.kind] = MessageSums()
            sums.count += 1
            sums.size += message.frame.size
        elif isinstance(item, ExchangeItem):
            self._exchange(item.connection, item.exchange)
        elif isinstance(item, RecordItem):
            self._topics.take(item.message, item.batch)
        elif isinstance(item, ProblemItem):
            key = (item.problem.kind, item.problem.severity)
            self._problems[key] = self._problems.get(key, 0) + 1
        elif isinstance(item, ClosedItem):
            self._close(item.connection)

    def _exchange(self, connection: ConnectionInfo, exchange: Exchange) -> None:
        if exchange.pending is not None and exchange.pending.link == "settlement":
            return
        message = message_of(exchange)
        protocol, name = (connection.protocol, "?") if message is None else (message.protocol, message.name)
        self._commands.of((connection.server, protocol, name)).take(exchange)
        error = error_of(exchange)
        if error is not None:
            self._errors.of((protocol, name, connection.server, error)).count += 1

    def _close(self, connection: ConnectionInfo) -> None:
        protocol = connection.protocol
        self._protocols.closed(connection)
        key = (protocol, connection.outcome)
        self._closed[key] = self._closed.get(key, 0) + 1
        self._gaps[protocol] = self._gaps.get(protocol, 0) + connection.gap_bytes

    def caps_met(self) -> dict[str, bool]:
        """Of each cap whether it was met."""
        return {
            "commands": self._commands.others is not None,
            "errors": self._errors.others is not None,
            "topics": 0 < self._shown_topics < sum(1 for _ in self._topics.tallies()),
        }

    def snapshot(
        self, totals: Totals, captures: Sequence[CaptureInfo], interfaces: Sequence[InterfaceCounts] = ()
    ) -> MetricsSnapshot:
        """Everything counted so far; ``interfaces``: counts of the capture, where it is of interfaces."""
        made = MetricsSnapshot()
        self._tell_commands(made)
        self._tell_topics(made)
        self._tell_connections(made, totals)
        for key, count in self._problems.items():
            made.add(named.PROBLEMS, key, count)
        for interface in interfaces:
            made.add(named.CAPTURE_PACKETS, (interface.name,), interface.taken)
            made.add(named.CAPTURE_BYTES, (interface.name,), interface.taken_bytes)
            made.add(named.CAPTURE_DROPPED, (interface.name,), interface.dropped)
            made.add(named.INTERFACE_UP, (interface.name,), int(not interface.is_away))
        for capture in captures:
            if not interfaces:
                made.add(named.CAPTURE_PACKETS, (FILES,), capture.packets)
                made.add(named.CAPTURE_DROPPED, (FILES,), capture.dropped)
        if last := [(capture.last_ts_ns, capture.name) for capture in captures if capture.last_ts_ns is not None]:
            made.add(named.LAST_PACKET, (max(last)[1] if interfaces else FILES,), max(last)[0] / SECOND_NS)
        made.add(named.OTHER_PACKETS, (), totals.other_packets)
        made.add(named.CUT_PACKETS, (), totals.cut_packets)
        made.add(named.COUNTED_AT, (), time.time())
        for cap, met in self.caps_met().items():
            made.add(named.CAPS_MET, (cap,), int(met))
        made.add(named.BUILD, (mqsniff.__version__,), 1)
        return made

    def _tell_commands(self, made: MetricsSnapshot) -> None:
        for key, meter in self._commands:
            broker, protocol, name = key or (OTHERS, OTHERS, OTHERS)
            labels = (protocol, name, broker or OTHERS)
            for kind, sums in meter.kinds.items():
                made.add(named.MESSAGES, (*labels, kind), sums.count)
                made.add(named.MESSAGE_BYTES, (*labels, kind), sums.size)
            for status, count in meter.statuses.items():
                made.add(named.EXCHANGES, (*labels, status), count)
            if meter.work is not None:
                made.add(named.DURATION, labels, meter.work)
            if meter.waits is not None:
                made.add(named.WAIT, labels, meter.waits)
        for error, tally in self._errors:
            made.add(named.ERRORS, error or (OTHERS, OTHERS, OTHERS, OTHERS), tally.count)

    def _tell_topics(self, made: MetricsSnapshot) -> None:
        """Records by protocol, and those of the first topics; a topic keeps its labels, so that no counter falls."""
        left = self._shown_topics
        for key, tally in self._topics.tallies():
            protocol, topic = key or (OTHERS, OTHERS)
            own = left > 0 and key is not None and self._topics.role(protocol, topic) != INTERNAL
            left -= own
            name = (topic or "(no name)") if own else OTHERS
            for result, counts in tally.counts.items():
                made.add(named.RECORDS, (protocol, result), counts.count)
                made.add(named.RECORD_BYTES, (protocol, result), counts.size)
                if self._shown_topics:
                    made.add(named.TOPIC_RECORDS, (protocol, name, result), counts.count)
                    made.add(named.TOPIC_RECORD_BYTES, (protocol, name, result), counts.size)

    def _tell_connections(self, made: MetricsSnapshot, totals: Totals) -> None:
        made.add(named.CONNECTIONS, (), totals.connections)
        made.add(named.OPEN_CONNECTIONS, (), max(0, totals.connections - sum(self._closed.values())))
        for ended, count in self._closed.items():
            made.add(named.CLOSED_CONNECTIONS, ended, count)
        for protocol, tally in self._protocols.tallies.items():
            made.add(named.CONNECTION_BYTES, (protocol,), tally.wire_bytes)
            made.add(named.UNDECODED_BYTES, (protocol,), tally.undecoded)
            made.add(named.GAP_BYTES, (protocol,), self._gaps[protocol])
