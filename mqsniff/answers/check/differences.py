"""Two lists of rows in, their differences out, by row and field.

1. Rows are matched by their keys, connections by their endpoints, so that one additional row does not shift the rest.
2. The order of rows is compared too, if all rows are there.
3. Fields may be left out: see ``IgnoredFields``.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from fnmatch import translate
from typing import Any, Final, Literal

from mqsniff.tables.rows import Row

_TELLING: Final[dict[str, tuple[str, ...]]] = {
    "exchanges": ("link", "name"),
    "partitions": ("topic", "topic_id", "partition"),
    "records": ("batch_index", "record_index"),
    "topics": ("protocol", "topic_id"),
    "problems": ("kind", "path"),
}
"""Columns that identify the rows of one message."""
_INDEX: Final = re.compile(r"\[\d+\]")


class Absent(Enum):
    """Stands for a field that a row does not have; there is one only, in every process."""

    ABSENT = "absent"


ABSENT: Final = Absent.ABSENT


@dataclass(frozen=True, slots=True)
class Change:
    """A field with another value; ``path`` may lead into bodies, as in ``body.metadata[3].name``."""

    path: str
    golden: Any
    now: Any


@dataclass(frozen=True, slots=True)
class Difference:
    """A row that is missing, new, changed or moved, described in words."""

    kind: Literal["missing", "new", "changed", "moved"]
    row: str
    """The row in words; of a moved row also the one that it was after."""
    changes: tuple[Change, ...] = ()
    about: str = ""
    """Table and name, such as ``messages Fetch``: differences are counted by it."""


class IgnoredFields:
    """Patterns of fields that are not compared.

    ``ts`` is a column of any table, ``exchanges.latency_ns`` of one; ``body.metadata`` also covers everything inside
    it; ``*`` matches any text; positions in lists are left out (``body.topics.name``).
    """

    def __init__(self, patterns: Iterable[str] = ()) -> None:
        self._patterns = [re.compile(translate(pattern)) for pattern in patterns]

    def __bool__(self) -> bool:
        return bool(self._patterns)

    def has(self, table: str, path: str) -> bool:
        """Whether a field of a table is ignored."""
        plain = _INDEX.sub("", path)
        names = plain.split(".")
        heads = [".".join(names[: count + 1]) for count in range(len(names))]
        return any(
            pattern.match(head) or pattern.match(f"{table}.{head}") for pattern in self._patterns for head in heads
        )


NOTHING_IGNORED: Final = IgnoredFields()


def compare(golden: Sequence[Row], now: Sequence[Row], ignored: IgnoredFields = NOTHING_IGNORED) -> list[Difference]:
    """The differences, in the order of the decoded rows; missing rows come last."""
    before, after = dict(_keyed(golden)), dict(_keyed(now))
    differences: list[Difference] = []
    for key, row in after.items():
        if key not in before:
            differences.append(Difference("new", describe(row), about=_about(row)))
            continue
        changes = _changes("", before[key], row)
        if ignored:
            changes = (change for change in changes if not ignored.has(str(row["table"]), change.path))
        if told := tuple(changes):
            differences.append(Difference("changed", describe(row), told, _about(row)))
    for key, row in before.items():
        if key not in after:
            differences.append(Difference("missing", describe(row), about=_about(row)))
    if before.keys() == after.keys():
        differences += _moved(before, after)
    return differences


def counted(differences: Iterable[Difference]) -> Counter[str]:
    """Differences by what they are about: ``messages Fetch: body.session_id``, ``records orders: new``."""
    counts: Counter[str] = Counter()
    for difference in differences:
        if difference.changes:
            counts.update(f"{difference.about}: {_INDEX.sub('', change.path)}" for change in difference.changes)
        else:
            counts[f"{difference.about}: {difference.kind}"] += 1
    return counts


def describe(row: Row) -> str:
    """A row in a few words: its table, name and position."""
    table = str(row.get("table"))
    what = " ".join(str(row[name]) for name in ("protocol", "name", "kind", "topic", "severity") if name in row)
    where = []
    if "client" in row:
        where.append(f"{row['client']} - {row['server']}")
    if "side" in row:
        where.append(f"{row['side']} at {row.get('stream_offset')}")
    number = row.get("first_packet", row.get("packet", row.get("request_packet")))
    if number is not None:
        where.append(f"packet {number}")
    return f"{table}: {what}" + (f" ({', '.join(where)})" if where else "")


def _about(row: Row) -> str:
    name = row.get("name") or row.get("kind") or row.get("topic") or row.get("protocol") or ""
    return f"{row.get('table')} {name}".rstrip()


def _keyed(rows: Sequence[Row]) -> Iterator[tuple[Hashable, Row]]:
    """Rows with their identity: key, identifying columns of the table, and a number among equal ones."""
    connections: dict[Any, tuple[Any, Any, int]] = {}
    ends: Counter[tuple[Any, Any]] = Counter()
    seen: defaultdict[Hashable, int] = defaultdict(int)
    for row in rows:
        connection_id = row.get("connection_id")
        if connection_id not in connections:
            pair = row.get("client"), row.get("server")
            connections[connection_id] = *pair, ends[pair]
            ends[pair] += 1
        telling = tuple(str(row.get(name)) for name in _TELLING.get(row["table"], ()))
        key = row["table"], connections[connection_id], row.get("side"), row.get("stream_offset"), telling
        yield (key, seen[key]), row
        seen[key] += 1


def _changes(path: str, golden: Any, now: Any) -> Iterator[Change]:
    """Fields that differ, as deep as both have the same structure."""
    if isinstance(golden, dict) and isinstance(now, dict):
        for name in [*golden, *(name for name in now if name not in golden)]:
            inner = f"{path}.{name}" if path else name
            yield from _changes(inner, golden.get(name, ABSENT), now.get(name, ABSENT))
    elif isinstance(golden, list) and isinstance(now, list) and len(golden) == len(now):
        for index, (one, other) in enumerate(zip(golden, now, strict=True)):
            yield from _changes(f"{path}[{index}]", one, other)
    elif golden != now or type(golden) is not type(now):
        yield Change(path, golden, now)


def _moved(before: dict[Hashable, Row], after: dict[Hashable, Row]) -> Iterator[Difference]:
    """The first row at another position, if all rows are the same."""
    for old, new in zip(before, after, strict=True):
        if old != new:
            text = f"{describe(after[new])}, which came after {describe(before[old])}"
            yield Difference("moved", text, about=_about(after[new]))
            return
