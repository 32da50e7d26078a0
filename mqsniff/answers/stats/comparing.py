"""Sections of two runs in, what changed from one to the other out: errors, commands, clients, topics, latency.

1. ``new`` and ``gone``: there now and not before, or the other way round. Names are compared, not numbers: captures are
   of different length.
2. Latency moved where the median or the 99th percentile of a command is ``FACTOR`` times what it was, or the other way,
   by ``LEAST_NS`` at least, with ``TIMED_MIN`` exchanges on both sides: less may be chance.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from mqsniff.answers.stats.keeping import StatRow
from mqsniff.model import endpoint

FACTOR: Final = 1.5
LEAST_NS: Final = 100_000
TIMED_MIN: Final = 5
_DIVISIONS: Final = ("broker", "client", "topic")
"""What commands of two captures may be divided by and still be compared; connections are never the same."""
_PERCENTILES: Final = ("p50_ns", "p99_ns")

RunSections: TypeAlias = Mapping[str, Sequence[StatRow]]


def changes(now: RunSections, before: RunSections) -> list[StatRow]:
    """A row a change, in the order of their weight."""
    return [
        *_differences("error", _errors(now), _errors(before)),
        *_differences("unanswered", _unanswered(now), _unanswered(before)),
        *_moved(now["commands"], before["commands"]),
        *_differences("command", _commands(now), _commands(before)),
        *_differences("client", _clients(now), _clients(before)),
        *_differences("topic", _topics(now), _topics(before)),
        *_differences("server", _servers(now), _servers(before)),
    ]


def _differences(what: str, now: Mapping[str, int], before: Mapping[str, int]) -> Iterator[StatRow]:
    """Names that came, then those that went."""
    for name in sorted(now.keys() - before.keys(), key=lambda name: (-now[name], name)):
        yield _change(what, "new", name, now[name], 0)
    for name in sorted(before.keys() - now.keys(), key=lambda name: (-before[name], name)):
        yield _change(what, "gone", name, 0, before[name])


def _moved(now: Sequence[StatRow], before: Sequence[StatRow]) -> list[StatRow]:
    """Commands whose latency moved, the one that moved most first."""
    then = {_command(row): row for row in before}
    found: list[StatRow] = []
    for row in now:
        other = then.get(_command(row))
        if other is None or min(row["timed"], other["timed"]) < TIMED_MIN:
            continue
        for column in _PERCENTILES:
            new, old = row[column], other[column]
            if abs(new - old) >= LEAST_NS and max(new, old) >= FACTOR * min(new, old):
                change = "slower" if new > old else "faster"
                found.append(_change(f"latency {column.removesuffix('_ns')}", change, _command(row), new, old))
    return sorted(found, key=lambda row: -max(row["now"], row["before"]) / max(1, min(row["now"], row["before"])))


def _change(what: str, change: str, name: str, now: int, before: int) -> StatRow:
    factor = round(now / before, 3) if now and before else None
    return {"what": what, "change": change, "name": name, "now": now, "before": before, "factor": factor}


def _counts(named: Iterable[tuple[str, int]]) -> dict[str, int]:
    """How much there was of each name."""
    counts: dict[str, int] = {}
    for name, count in named:
        counts[name] = counts.get(name, 0) + count
    return counts


def _commands(run: RunSections) -> dict[str, int]:
    return _counts((_command(row), row["count"]) for row in run["commands"])


def _clients(run: RunSections) -> dict[str, int]:
    return _counts((_client(row), row["messages"]) for row in run["clients"])


def _topics(run: RunSections) -> dict[str, int]:
    return _counts((f"{row['protocol']} {row['topic']}", row["produced"] + row["delivered"]) for row in run["topics"])


def _errors(run: RunSections) -> dict[str, int]:
    return _counts(
        (f"{_command(row)} {error}", count) for row in run["commands"] for error, count in row["errors_by_name"].items()
    )


def _unanswered(run: RunSections) -> dict[str, int]:
    return _counts((_command(row), row["unanswered"]) for row in run["commands"] if row["unanswered"])


def _servers(run: RunSections) -> dict[str, int]:
    rows = [row for row in run["hosts"] if row["role"] == "server"]
    return {endpoint(row["host"], row["port"] or 0): row["connections"] for row in rows}


def _command(row: StatRow) -> str:
    """A command, and what it was divided by."""
    return " ".join(str(row[part]) for part in ("protocol", "name", *_DIVISIONS) if row.get(part) is not None)


def _client(row: StatRow) -> str:
    """A client by its name and software: addresses differ from day to day."""
    return " ".join(part for part in (row["protocol"], row["client_id"], row["software"]) if part)
