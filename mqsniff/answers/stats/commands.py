"""Messages and exchanges in, a row for each command of each protocol out, of all traffic or by broker, client, ….

1. ``count`` and ``bytes`` are of messages with that name, requests and answers alike: they add up to ``messages``.
2. Errors, missing answers and times belong to the request's name, whatever its answer is called. An answer without a
   request counts under its own.
3. Times are those that the replying side worked (``work_ns``), of exchanges that ended ok, partial or error. What a
   broker held until there was data, or a member, or the end of the wait that the request allowed, is in ``waited``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from mqsniff.answers.stats.keeping import OTHERS, KeptTallies, StatRow, add_all, counted
from mqsniff.answers.stats.sketch import LatencySketch
from mqsniff.model import Exchange, ExchangeStatus, Message

TIMED: Final[frozenset[ExchangeStatus]] = frozenset(("ok", "partial", "error"))
"""Statuses that enter figures of latency."""
FAILED: Final[frozenset[ExchangeStatus]] = frozenset(("error", "partial"))
_BESIDE: Final[tuple[ExchangeStatus, ...]] = ("unanswered", "pending", "lost", "unseen", "oneway", "unasked")
_PERCENTILES: Final = (0.5, 0.95, 0.99)

ERROR_NAMES_MAX: Final = 250
"""Names of errors that are kept of a command: servers may write what they like."""
NAMELESS: Final = "(no name)"
"""An error that no answer names, such as a connection that was closed in place of one."""

CommandKey = tuple[str | None, str, str]
"""(by what was asked, protocol, name)."""


class CommandTally:
    """What is counted of one command."""

    __slots__ = ("count", "error_names", "errors", "kinds", "size", "statuses", "versions", "waits", "work")

    def __init__(self) -> None:
        self.count = self.size = self.errors = 0
        self.kinds: dict[str, int] = {}
        self.versions: dict[int, int] = {}
        self.statuses: dict[str, int] = {}
        self.error_names: dict[str, int] = {}
        self.work = LatencySketch()
        self.waits = LatencySketch()

    def take(self, exchange: Exchange) -> None:
        """Count an exchange. Hot: once an exchange."""
        statuses = self.statuses
        statuses[exchange.status] = statuses.get(exchange.status, 0) + 1
        work_ns, wait_ns = durations(exchange)
        if work_ns is not None:
            self.work.add(work_ns)
        elif wait_ns is not None:
            self.waits.add(wait_ns)
        error = error_of(exchange)
        if error is not None:
            self.errors += 1
            self._count_error(error, 1)

    def _count_error(self, error: str, count: int) -> None:
        names = self.error_names
        if error not in names and len(names) >= ERROR_NAMES_MAX:
            error = OTHERS
        names[error] = names.get(error, 0) + count

    def count_messages(self, kind: str, version: int | None, count: int, size: int) -> None:
        """Count messages that were added up before."""
        self.count += count
        self.size += size
        self.kinds[kind] = self.kinds.get(kind, 0) + count
        if version is not None and kind != "response":
            self.versions[version] = self.versions.get(version, 0) + count

    def merge(self, other: CommandTally) -> None:
        """Count everything that another one has counted."""
        self.count += other.count
        self.size += other.size
        self.errors += other.errors
        add_all(self.kinds, other.kinds)
        add_all(self.statuses, other.statuses)
        for error, count in other.error_names.items():
            self._count_error(error, count)
        for version, count in other.versions.items():
            self.versions[version] = self.versions.get(version, 0) + count
        self.work.merge(other.work)
        self.waits.merge(other.waits)

    def row(self) -> StatRow:
        """The figures as columns."""
        p50, p95, p99 = self.work.quantiles(*_PERCENTILES)
        (waited,) = self.waits.quantiles(0.5)
        return {
            "count": self.count,
            "bytes": self.size,
            "errors": self.errors,
            "unanswered": self.statuses.get("unanswered", 0),
            "p50_ns": p50,
            "p95_ns": p95,
            "p99_ns": p99,
            "max_ns": self.work.greatest if self.work.count else None,
            "timed": self.work.count,
            "waited": self.waits.count,
            "waited_p50_ns": waited,
            "waited_max_ns": self.waits.greatest if self.waits.count else None,
            "requests": self.kinds.get("request", 0) + self.kinds.get("oneway", 0),
            "responses": self.kinds.get("response", 0),
            "pushes": self.kinds.get("push", 0),
            "errors_by_name": counted(self.error_names),
            **{status: self.statuses.get(status, 0) for status in _BESIDE[1:]},
            "versions": {str(version): self.versions[version] for version in sorted(self.versions)},
        }


class CommandStats:
    """Tallies of commands, by one thing or by nothing."""

    def __init__(self, limit: int, by: str | None = None) -> None:
        self.by = by
        self.tallies: KeptTallies[CommandKey, CommandTally] = KeptTallies(limit, CommandTally)
        self.ends: KeptTallies[str, dict[str, str]] = KeptTallies(limit, dict)
        """Of each connection its client and server, where commands are counted by it."""

    def rows(self) -> list[StatRow]:
        """A row a command, what there is most of first."""
        found = [self._row(key, tally) for key, tally in self.tallies if tally.count or tally.statuses]
        return sorted(found, key=_rank)

    def _row(self, key: CommandKey | None, tally: CommandTally) -> StatRow:
        by, protocol, name = key or (OTHERS, OTHERS, OTHERS)
        own = {self.by: by, **self.ends.kept.get(by or "", {})} if self.by else {}
        return {"protocol": protocol, "name": name, **own, **tally.row()}

    def by_protocol(self) -> dict[str, CommandTally]:
        """One tally a protocol."""
        found: dict[str, CommandTally] = {}
        for key, tally in self.tallies:
            found.setdefault(key[1] if key else OTHERS, CommandTally()).merge(tally)
        return found


def named(exchange: Exchange) -> Message | None:
    """The message that an exchange is counted by: the request, or an answer that nobody asked for."""
    pending = exchange.pending
    return exchange.answer if pending is None or pending.message is None else pending.message


def durations(exchange: Exchange) -> tuple[int | None, int | None]:
    """How long the replying side worked, or else how long it held the request (rule 3); at most one of the two."""
    worked = worked_ns(exchange)
    return (worked, None) if worked is not None else (None, waited_ns(exchange))


def error_of(exchange: Exchange) -> str | None:
    """What the error of an exchange is called; None where it did not fail."""
    return error_name_of(exchange) if is_failure(exchange) else None


def is_failure(exchange: Exchange) -> bool:
    """Whether it counts as an error: a request that failed, or a failing answer that nobody asked for."""
    status = exchange.status
    return status in FAILED or (status == "unasked" and exchange.answer is not None and exchange.answer.failed)


def waited_ns(exchange: Exchange) -> int | None:
    """How long the broker held its answer on purpose; None for an exchange that says nothing about it."""
    if exchange.latency_ns is None or exchange.status not in TIMED:
        return None
    return max(0, exchange.latency_ns - (exchange.queue_ns or 0) - (exchange.work_ns or 0))


def worked_ns(exchange: Exchange) -> int | None:
    """How long the broker worked; None for what it held, and where no time is known."""
    if exchange.status not in TIMED or (exchange.pending is not None and exchange.pending.held):
        return None
    return exchange.work_ns


def error_name_of(exchange: Exchange) -> str:
    """What the error of a failed exchange is called."""
    for message in _verdicts(exchange):
        if message is not None and message.error_name:
            return message.error_name
    code = next((message.error_code for message in _verdicts(exchange) if message and message.error_code), None)
    return NAMELESS if code is None else f"code {code}"


def _verdicts(exchange: Exchange) -> Iterator[Message | None]:
    """Messages that may tell the error, the first one first; a later answer may have one too."""
    pending = exchange.pending
    if exchange.answer is not None and exchange.answer.failed:
        yield exchange.answer
    if pending is not None:
        if pending.last_answer is not None and pending.last_answer.failed:
            yield pending.last_answer
        if pending.awaits is not None:
            yield pending.awaits.answer
    yield exchange.answer


def _rank(row: StatRow) -> tuple[Any, ...]:
    texts = [value for value in row.values() if isinstance(value, str)]  # protocol, name, then whose row it is
    return -row["count"], *texts
