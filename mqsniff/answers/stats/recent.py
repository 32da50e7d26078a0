"""Items of a live run in, figures of its last seconds and of all of it out: what ``mqsniff live --summary`` shows.

1. Items are counted into the present slice of time; some slices make the window that is shown. A slice that falls out
   of the window is forgotten: its counts stand in the totals.
2. Memory is bounded: slices are few, and each has at most ``Limits.metrics_rows_max`` commands and topics.

Hot: ``write`` runs once an item.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from mqsniff.answers.stats.commands import CommandKey, CommandStats, CommandTally, named
from mqsniff.answers.stats.keeping import OTHERS, KeptTallies, StatRow
from mqsniff.answers.stats.topics import ProtocolTopic, TopicStats
from mqsniff.dissector import Dissector
from mqsniff.limits import Limits
from mqsniff.model import ClosedItem, ExchangeItem, Item, MessageItem, RecordItem

SLICES: Final = 10
"""Slices of a window."""

CommandTallies = KeptTallies[CommandKey, CommandTally]
TopicCounts = dict[ProtocolTopic | None, tuple[int, int, int]]
"""Of each topic: records produced, records delivered, bytes of both."""


class CaptureCounts(NamedTuple):
    """What a capture came to so far."""

    packets: int = 0
    dropped: int = 0
    connections: int = 0


@dataclass(slots=True)
class TimeSlice:
    """A slice of the run: what came in it, and what all came to at its end."""

    began: float
    commands: CommandTallies
    ended: float = 0.0
    capture: CaptureCounts = field(default_factory=CaptureCounts)
    topics: TopicCounts = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class LiveFigures:
    """Figures of a window; rates are a second of it, errors and missing answers are of the whole run."""

    seconds: float
    """How long the run is."""
    window_s: float
    packets: int
    packets_per_s: float
    dropped: int
    dropped_now: int
    """In the window."""
    messages: int
    messages_per_s: float
    bytes_per_s: float
    errors: int
    unanswered: int
    open_connections: int
    commands: list[StatRow]
    """Those of the run, with rates and latency of the window, the most frequent now first."""
    topics: list[StatRow]
    failures: list[StatRow]
    """Errors of the run by command and name, those of the window first."""
    capped: bool = False
    """Whether rows are counted together as ``(others)``."""


class RecentStats:
    """Counts a run by slices; ``slice_s``: their length, ``slices``: how many of them are the window."""

    def __init__(
        self,
        dissectors: Iterable[type[Dissector]],
        limits: Limits,
        slice_s: float,
        slices: int = SLICES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limit = limits.metrics_rows_max
        self._slice_s = slice_s
        self._clock = clock
        self._topics = TopicStats(self._limit, {name: cls.topic_role for cls in dissectors for name in cls.names})
        self._totals: CommandTallies = KeptTallies(self._limit, CommandTally)
        self._closed = 0
        self._began = clock()
        self._window: deque[TimeSlice] = deque(maxlen=slices + 1)
        self._window.append(TimeSlice(self._began, self._tallies(), self._began))
        self._now = self._tallies()

    def _tallies(self) -> CommandTallies:
        return KeptTallies(self._limit, CommandTally)

    def write(self, item: Item) -> None:
        """Count an item. Hot."""
        if isinstance(item, MessageItem):
            message = item.message
            tally = self._now.of((None, message.protocol, message.name))
            tally.count_messages(message.kind, None, 1, message.frame.size)
        elif isinstance(item, ExchangeItem):
            exchange = item.exchange
            if exchange.pending is not None and exchange.pending.link == "settlement":
                return
            half = named(exchange)
            protocol, name = (item.connection.protocol, "?") if half is None else (half.protocol, half.name)
            self._now.of((None, protocol, name)).take(exchange)
        elif isinstance(item, RecordItem):
            self._topics.take(item.message, item.batch)
        elif isinstance(item, ClosedItem):
            self._closed += 1

    def is_due(self) -> bool:
        """Whether the present slice has lasted long enough."""
        return self._clock() - self._window[-1].ended >= self._slice_s

    def turn(self, capture: CaptureCounts) -> None:
        """End the present slice and begin the next one."""
        now = self._clock()
        ended = TimeSlice(self._window[-1].ended, self._now, now, capture, self._topic_counts())
        for key, tally in self._now:
            (self._totals.of(key) if key is not None else _rest(self._totals)).merge(tally)
        self._window.append(ended)
        self._now = self._tallies()

    def _topic_counts(self) -> TopicCounts:
        counts: TopicCounts = {}
        for key, tally in self._topics.tallies():
            produced, delivered = tally.counts.get("produced"), tally.counts.get("delivered")
            counts[key] = (
                produced.count if produced else 0,
                delivered.count if delivered else 0,
                (produced.size if produced else 0) + (delivered.size if delivered else 0),
            )
        return counts

    def figures(self, *, whole: bool = False) -> LiveFigures:
        """Figures of the window, or of the whole run; up to the end of the last slice."""
        first, last = self._window[0], self._window[-1]
        begun = TimeSlice(self._began, self._tallies(), self._began) if whole else first
        window_s = max(last.ended - begun.ended, 1e-9)
        recent = self._totals if whole else self._merged()
        tallies = [tally for _, tally in self._totals]
        packets = last.capture.packets - begun.capture.packets
        return LiveFigures(
            seconds=last.ended - self._began,
            window_s=window_s,
            packets=last.capture.packets,
            packets_per_s=packets / window_s,
            dropped=last.capture.dropped,
            dropped_now=last.capture.dropped - begun.capture.dropped,
            messages=sum(tally.count for tally in tallies),
            messages_per_s=sum(tally.count for _, tally in recent) / window_s,
            bytes_per_s=sum(tally.size for _, tally in recent) / window_s,
            errors=sum(tally.errors for tally in tallies),
            unanswered=sum(tally.statuses.get("unanswered", 0) for tally in tallies),
            open_connections=max(0, last.capture.connections - self._closed),
            commands=self._command_rows(recent, window_s),
            topics=self._topic_rows(begun.topics, last.topics, window_s),
            failures=self._failures(recent),
            capped=self._totals.others is not None or None in last.topics,
        )

    def _merged(self) -> CommandTallies:
        """Commands of the window; its first slice is only where it begins."""
        merged = self._tallies()
        for piece in list(self._window)[1:]:
            for key, tally in piece.commands:
                (merged.of(key) if key is not None else _rest(merged)).merge(tally)
        return merged

    def _command_rows(self, recent: CommandTallies, window_s: float) -> list[StatRow]:
        present = _rows_by_name(recent, self._limit)
        rows = []
        for row in _rows_by_name(self._totals, self._limit).values():
            now = present.get((row["protocol"], row["name"]), {})
            rows.append(
                {
                    **{name: row[name] for name in ("protocol", "name", "count", "errors", "unanswered")},
                    "per_s": now.get("count", 0) / window_s,
                    "bytes_per_s": now.get("bytes", 0) / window_s,
                    "errors_now": now.get("errors", 0),
                    "unanswered_now": now.get("unanswered", 0),
                    **{name: now.get(name) for name in ("p50_ns", "p95_ns", "p99_ns", "max_ns")},
                    "waited_p50_ns": now.get("waited_p50_ns"),
                }
            )
        return sorted(rows, key=lambda row: (-row["per_s"], -row["count"], row["protocol"], row["name"]))

    def _topic_rows(self, before: TopicCounts, now: TopicCounts, window_s: float) -> list[StatRow]:
        rows = []
        for key, counts in now.items():
            protocol, topic = key or (OTHERS, OTHERS)
            produced, delivered, size = (
                (mine - its) / window_s for mine, its in zip(counts, before.get(key, (0, 0, 0)), strict=True)
            )
            row = {"protocol": protocol, "topic": topic or "(no name)", "produced": counts[0], "delivered": counts[1]}
            rows.append({**row, "produced_per_s": produced, "delivered_per_s": delivered, "bytes_per_s": size})
        return sorted(rows, key=lambda row: (-row["bytes_per_s"], -row["produced"] - row["delivered"], row["topic"]))

    def _failures(self, recent: CommandTallies) -> list[StatRow]:
        now = {(key, error): count for key, tally in recent for error, count in tally.error_names.items()}
        rows = [
            {
                "protocol": key[1] if key else OTHERS,
                "name": key[2] if key else OTHERS,
                "error": error,
                "count": count,
                "now": now.get((key, error), 0),
            }
            for key, tally in self._totals
            for error, count in tally.error_names.items()
        ]
        return sorted(rows, key=lambda row: (-row["now"], -row["count"], row["name"], row["error"]))


def _rest(tallies: CommandTallies) -> CommandTally:
    """The tally of all others."""
    if tallies.others is None:
        tallies.others = CommandTally()
    return tallies.others


def _rows_by_name(tallies: CommandTallies, limit: int) -> dict[tuple[str, str], StatRow]:
    """Rows of commands as ``mqsniff stats`` has them, by protocol and name."""
    stats = CommandStats(limit)
    stats.tallies = tallies
    return {(row["protocol"], row["name"]): row for row in stats.rows()}
