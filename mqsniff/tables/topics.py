"""What messages teach of topic ids in; the names that finished tables show out, whatever the order of reading was.

1. A topic id means the same topic everywhere and for ever. Where the traffic disagrees, the name with the smallest
   (time, name) counts, which no order of reading changes.
2. Filling is the same whether nothing, a part or everything was filled before, so names that a stream knew early never
   show: what was taught for an id is replaced by the name that counts, wherever it stands in the row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from mqsniff.limits import Limits
from mqsniff.model import Message, TopicItem

TopicKey: TypeAlias = tuple[str, str]
"""(protocol, topic id)."""
Names: TypeAlias = Mapping[TopicKey, tuple[str, ...]]
"""The names that were taught for a topic id, the one that counts first."""
Teaching: TypeAlias = tuple[str, str, str, int]
"""(protocol, topic id, name, when it was first taught)."""

IDS_MAX: Final = Limits().topics_max
NAMES_MAX: Final = 8
"""Names of one topic id that are kept: there is one, unless the traffic lies."""


class Teachings:
    """Everything that the traffic taught of topic ids, in whatever order and pieces it was read."""

    def __init__(self, rows: Iterable[Teaching] = (), limit: int = IDS_MAX) -> None:
        self._limit = limit
        self._times: dict[TopicKey, dict[str, int]] = {}
        self._names: dict[TopicKey, tuple[str, ...]] = {}
        self.merge(rows)

    def learn(self, message: Message) -> None:
        """Take in what a message teaches."""
        for topic_id, name in message.teaches:
            self._add((message.protocol, topic_id), name, message.frame.first_ts_ns)

    def merge(self, rows: Iterable[Teaching]) -> None:
        """Take in what another reader's ``rows`` gave."""
        for protocol, topic_id, name, ts_ns in rows:
            self._add((protocol, topic_id), name, ts_ns)

    def _add(self, key: TopicKey, name: str, ts_ns: int) -> None:
        if len(self._times) >= self._limit and key not in self._times:
            return
        times = self._times.setdefault(key, {})
        if times.get(name, ts_ns + 1) <= ts_ns:
            return
        times[name] = ts_ns
        ordered = sorted(times, key=lambda one: (times[one], one))
        for late in ordered[NAMES_MAX:]:
            del times[late]
        self._names[key] = tuple(ordered[:NAMES_MAX])

    @property
    def names(self) -> Names:
        """The names so far; it grows with what is taught."""
        return self._names

    def rows(self) -> Iterator[Teaching]:
        """All of it, for ``merge``."""
        for (protocol, topic_id), times in self._times.items():
            for name, ts_ns in times.items():
                yield protocol, topic_id, name, ts_ns

    def final(self) -> Iterator[TopicItem]:
        """The name that counts of every topic id: the rows of ``topics``."""
        for key in sorted(self._names):
            name = self._names[key][0]
            yield TopicItem(*key, name, self._times[key][name])


def final_topic(topic: str | None, key: TopicKey, names: Names) -> str | None:
    """The topic of a row that names the topic id of ``key``."""
    known = names.get(key)
    return known[0] if known and (topic is None or topic in known) else topic


def final_topics(topics: Sequence[str], keys: Sequence[TopicKey], names: Names) -> tuple[str, ...] | None:
    """The topics of a row that names the topic ids of ``keys``: its own, and behind them theirs; None for none."""
    known = [found for key in keys if (found := names.get(key))]
    final = {found[0] for found in known}
    counts = {other: found[0] for found in known for other in found if other not in final}
    own = (counts.get(topic, topic) for topic in topics)
    return tuple(dict.fromkeys((*own, *(found[0] for found in known)))) or None
