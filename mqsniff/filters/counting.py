"""Items of a run in, those that the filters choose out; at the end how many matched, or why none did.

1. Names seen in the traffic are noted until the first message matches; after that messages are only counted.
2. Memory is bounded: at most ``_NAMES_NOTED`` names of each option.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from shlex import quote
from typing import Any, Final

from mqsniff.filters.itemfilter import Filters, ItemFilter
from mqsniff.filters.patterns import Patterns
from mqsniff.filters.recordfilter import OFFSET_MAX, OffsetRange, topic_forms
from mqsniff.model import ConnectionInfo, Item, Message, MessageItem
from mqsniff.tables.escape import safe
from mqsniff.tables.times import SECOND_NS, rfc3339

_NAMES_NOTED: Final = 1000
_NAMES_SHOWN: Final = 5


class CountingFilter:
    """Filters items and counts messages."""

    def __init__(self, filters: Filters) -> None:
        self._filters = filters
        self._chooser = ItemFilter(filters)
        self._asked: dict[str, tuple[Patterns, tuple[str, ...]]] = {
            "protocol": (Patterns(filters.protocols), filters.protocols),
            "name": (Patterns(filters.names, ignore_case=True), filters.names),
            "topic": (Patterns(filters.topics), filters.topics),
            "group": (Patterns(filters.groups), filters.groups),
            "client": (Patterns(filters.clients), filters.clients),
        }
        self._seen: dict[str, Counter[str]] = {option: Counter() for option in self._asked}
        self._first_ns: int | None = None
        self._last_ns = 0
        self._unnamed = 0
        self.messages = 0
        self.matched = 0

    def of(self, items: Iterable[Item | None]) -> Iterator[Item | None]:
        """The items that the filters choose; None stays where it is."""
        for item in items:
            if item is None:
                yield None
                continue
            if isinstance(item, MessageItem):
                self._passed(item)
            for chosen in self._chooser.choose(item):
                self.matched += isinstance(chosen, MessageItem)
                yield chosen

    def plain(self) -> dict[str, Any]:
        """Everything that was counted, as plain values."""
        return {
            "seen": {option: dict(names) for option, names in self._seen.items()},
            "times": [self._first_ns, self._last_ns],
            "counts": [self._unnamed, self.messages, self.matched],
        }

    def add(self, plain: Mapping[str, Any]) -> None:
        """Add what another process counted, as ``plain`` gave it."""
        for option, names in plain["seen"].items():
            self._seen[option].update(names)
        first, last = plain["times"]
        firsts = [each for each in (first, self._first_ns) if each is not None]
        self._first_ns, self._last_ns = min(firsts, default=None), max(last, self._last_ns)
        unnamed, messages, matched = plain["counts"]
        self._unnamed += unnamed
        self.messages += messages
        self.matched += matched

    def sentence(self) -> str:
        """The result in one line; if nothing matched, with what was seen instead."""
        text = f"{self.matched:,} of {self.messages:,} messages matched {described(self._filters)}"
        missed = self._missed() if self.messages and not self.matched else ()
        return "; ".join((text, *missed, *self._passed_over()))

    def _passed(self, item: MessageItem) -> None:
        """Count a message, chosen or not, and note its names."""
        message = item.message
        self.messages += 1
        self._unnamed += bool(self._filters.topics and message.topic_ids and not message.topics)
        if self.matched:
            return
        ts_ns = message.frame.first_ts_ns
        self._first_ns = ts_ns if self._first_ns is None else min(self._first_ns, ts_ns)
        self._last_ns = max(self._last_ns, ts_ns)
        for option, name in _names(message, item.connection):
            seen = self._seen[option]
            if self._asked[option][0] and (name in seen or len(seen) < _NAMES_NOTED):
                seen[name] += 1

    def _passed_over(self) -> Iterator[str]:
        """Messages that ``--topic`` could not match, as their topic names are unknown."""
        if self._unnamed:
            yield f"{self._unnamed:,} name topics by ids whose names were not known yet"

    def _missed(self) -> Iterator[str]:
        """For each option that no message met by itself: what was seen."""
        found = False
        for option, (patterns, wanted) in self._asked.items():
            seen = self._seen[option]
            if patterns and not any(patterns.fit(form) for name in seen for form in topic_forms(name)):
                found = True
                yield f"{option}s seen: {_nearest(wanted, seen)}" if seen else f"no {option} was seen"
        start, stop = self._filters.from_ns, self._filters.to_ns
        late = start is not None and self._last_ns < start
        early = stop is not None and self._first_ns is not None and self._first_ns >= stop
        if late or early:
            found = True
            yield f"times seen: {rfc3339(self._first_ns or 0)} to {rfc3339(self._last_ns)}"
        if not found and sum(1 for _ in _options(self._filters)) > 1:
            yield "none met all of these"


def described(filters: Filters) -> str:
    """Filters as the options that the user wrote."""
    return " ".join(
        option if value is None else f"{option} {safe(quote(value))}" for option, value in _options(filters)
    )


def _options(filters: Filters) -> Iterator[tuple[str, str | None]]:
    texts = (
        ("--protocol", filters.protocols),
        ("--name", filters.names),
        ("--topic", filters.topics),
        ("--group", filters.groups),
        ("--partition", filters.partitions),
        ("--offset", map(_range, filters.offsets)),
        ("--key", (key.decode(errors="backslashreplace") for key in filters.keys)),
        ("--header", filters.headers),
        ("--grep", filters.contents),
        ("--client", filters.clients),
        ("--host", (n.network_address if n.num_addresses == 1 else n for n in filters.hosts)),
        ("--port", filters.ports),
        ("--connection", filters.connections),
    )
    for option, values in texts:
        for value in values:
            yield option, str(value)
    if filters.errors:
        yield "--errors", None
    if filters.slower_ns is not None:
        yield "--slower", f"{filters.slower_ns / 1e6:g}ms"
    for option, time_ns in (("--from", filters.from_ns), ("--to", filters.to_ns)):
        if time_ns is not None:
            yield option, rfc3339(time_ns) or str(time_ns // SECOND_NS)


def _range(offsets: OffsetRange) -> str:
    first, last = offsets
    if last == first:
        return str(first)
    return f"{first}-" if last == OFFSET_MAX else f"{first}-{last}"


def _names(message: Message, connection: ConnectionInfo) -> Iterator[tuple[str, str]]:
    """(option, name) of each name by which a message can be chosen."""
    yield "protocol", message.protocol
    yield "name", message.name
    for topic in message.topics:
        yield "topic", topic
    if message.group is not None:
        yield "group", message.group
    for client in (message.client_id or connection.identity.client_id, connection.client_ip, connection.client):
        if client is not None:
            yield "client", client


def _nearest(wanted: Sequence[str], seen: Counter[str]) -> str:
    """Names that were seen: first those most similar to the wanted ones, then the most frequent."""

    def likeness(name: str) -> float:
        return max(SequenceMatcher(None, name.lower(), want.lower()).ratio() for want in wanted)

    shown = sorted(seen, key=lambda name: (-round(likeness(name), 1), -seen[name], name))[:_NAMES_SHOWN]
    more = len(seen) - len(shown)
    return ", ".join(map(safe, shown)) + (f" and {more} more" if more else "")
