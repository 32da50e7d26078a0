"""Topic names by topic id: messages teach them, rows that carry an id show them.

1. A topic id means one topic in the whole run. Where messages disagree, the name with the smallest (time, name) counts,
   so the order of reading changes nothing. Time is that of the first byte of the message.
2. ``known`` is the name that counts of those taught so far: streams and ``--topic`` use it. ``final`` gives the names
   that count at the end: finished tables show them (decision 009).
3. Filling a row of a finished table twice changes nothing: each name that was taught for its id is replaced by the name
   that counts, wherever it stands.
4. Memory is bounded: ``topics_max`` ids, ``NAMES_MAX`` names of each.
5. A batch task decodes one flow after the other, each from the start to the end of the capture. ``TopicHistory`` says
   what one process would have known at a packet; ``FlowTopics`` adds what the flow itself taught.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from mqsniff.limits import Limits
from mqsniff.model import Message, RecordBatch, TopicItem

TopicKey: TypeAlias = tuple[str, str]
"""(protocol, topic id)."""
Names: TypeAlias = Mapping[TopicKey, tuple[str, ...]]
"""The names that were taught for a topic id, the one that counts first."""
Teaching: TypeAlias = tuple[str, str, str, int]
"""(protocol, topic id, name, time)."""
When: TypeAlias = tuple[int, int]
"""Time and number of a packet."""
DatedTeaching: TypeAlias = tuple[str, str, str, int, int, int]
"""A ``Teaching``, and time and number of the packet that released its message."""
TopicIds: TypeAlias = dict[TopicKey, str | None]
"""Topic ids that the rows of a part file name -> the name that all of them show; None if any shows none, or another."""

IDS_MAX: Final = Limits().topics_max
NAMES_MAX: Final = 8
"""Names of one topic id that are kept: there is one, unless the traffic lies."""
NOTED_MAX: Final = 1 << 16
"""Topic ids of a part file that are noted one by one: traffic may name ids without end."""
MANY: Final[TopicKey] = ("", "")
"""Stands for all topic ids beyond ``NOTED_MAX``."""


class TopicDirectory:
    """The names that were taught, whatever the order and the pieces in which they were read."""

    def __init__(self, rows: Iterable[Teaching] = (), limit: int = IDS_MAX) -> None:
        self._limit = limit
        self._times: dict[TopicKey, dict[str, int]] = {}
        self._names: dict[TopicKey, tuple[str, ...]] = {}
        self.refused = 0
        """How often a topic id was one too many to be remembered."""
        self.merge(rows)

    def learn(self, message: Message) -> list[TopicItem]:
        """Add what a message teaches; gives the names that did not count before and do now."""
        protocol, ts_ns = message.protocol, message.frame.first_ts_ns
        return [
            TopicItem(protocol, topic_id, name, ts_ns)
            for topic_id, name in message.teaches
            if self._add((protocol, topic_id), name, ts_ns)
        ]

    def merge(self, rows: Iterable[Teaching]) -> None:
        """Add what ``rows`` of another directory gave."""
        for protocol, topic_id, name, ts_ns in rows:
            self._add((protocol, topic_id), name, ts_ns)

    def _add(self, key: TopicKey, name: str, ts_ns: int) -> bool:
        """Add a name; whether it counts now and did not before."""
        times = self._times.get(key)
        if times is None:
            if len(self._times) >= self._limit:
                self.refused += 1
                return False
            self._times[key] = {name: ts_ns}
            self._names[key] = (name,)
            return True
        if times.get(name, ts_ns + 1) <= ts_ns:
            return False
        times[name] = ts_ns
        ordered = sorted(times, key=lambda one: (times[one], one))
        for late in ordered[NAMES_MAX:]:
            del times[late]
        before = self._names[key][0]
        self._names[key] = tuple(ordered[:NAMES_MAX])
        return before != name == ordered[0]

    @property
    def names(self) -> Names:
        """The names so far; it grows with what is taught."""
        return self._names

    def known(self, protocol: str, topic_id: str) -> str | None:
        """The name that counts now."""
        names = self._names.get((protocol, topic_id))
        return names[0] if names else None

    def final(self) -> Iterator[TopicItem]:
        """The name that counts of every topic id: the rows of ``topics``."""
        for key in sorted(self._names):
            name = self._names[key][0]
            yield TopicItem(*key, name, self._times[key][name])

    def rows(self) -> Iterator[Teaching]:
        """All that was taught, for ``merge``."""
        for key in self._times:
            yield from self.rows_of(key)

    def rows_of(self, key: TopicKey) -> Iterator[Teaching]:
        """All that was taught of one topic id, for ``merge``."""
        for name, ts_ns in self._times.get(key, {}).items():
            yield *key, name, ts_ns

    # ---- streams: what is known now

    def fill_message(self, message: Message) -> None:
        """Fill known names into a message, its partitions and its records."""
        if not self._names or not message.topic_ids:
            return
        find, protocol = self._names.get, message.protocol
        named = [names[0] for topic_id in message.topic_ids if (names := find((protocol, topic_id))) is not None]
        written = dict.fromkeys(message.topics)
        message.topics = tuple(dict.fromkeys((*written, *named)))
        message.filled = len(message.topics) - len(written)
        for row in message.partitions:
            self._fill(protocol, row)
        for batch in message.records:
            self._fill(protocol, batch.constant)

    def fill_records(self, protocol: str, batch: RecordBatch) -> None:
        """Fill the known name into records that leave later than their message."""
        if self._names:
            self._fill(protocol, batch.constant)

    def _fill(self, protocol: str, row: dict[str, Any]) -> None:
        if row.get("topic") is None and row.get("topic_id") is not None:
            row["topic"] = self.known(protocol, row["topic_id"])


# ---- finished tables: what is known at the end


def final_topic(topic: str | None, key: TopicKey, names: Names) -> str | None:
    """The topic of a row that names the topic id of ``key``."""
    known = names.get(key)
    return known[0] if known and (topic is None or topic in known) else topic


def final_topics(topics: Sequence[str], keys: Sequence[TopicKey], names: Names) -> tuple[str, ...] | None:
    """The topics of a row that names the topic ids of ``keys``: its own, then those of the ids; None if none.

    Names that stand at the end of ``topics`` in the order of the ids were filled in when fewer ids were known.
    """
    known = [found for key in keys if (found := names.get(key))]
    final = {found[0] for found in known}
    counts = {other: found[0] for found in known for other in found if other not in final}
    own = [counts.get(topic, topic) for topic in topics]
    places = {found[0]: place for place, found in enumerate(known)}
    first = len(known)
    while own and places.get(own[-1], first) < first:
        first = places[own.pop()]
    return tuple(dict.fromkeys((*own, *(found[0] for found in known)))) or None


def note_topic(topic_ids: TopicIds, key: TopicKey, name: str | None) -> None:
    """Note which name a row of a part file shows for a topic id."""
    if len(topic_ids) >= NOTED_MAX and key not in topic_ids:
        topic_ids[MANY] = None
        return
    if topic_ids.setdefault(key, name) != name:
        topic_ids[key] = None


def shows_other_names(topic_ids: TopicIds, names: Names) -> bool:
    """Whether rows with these topic ids may show another name than the one that counts."""
    return MANY in topic_ids or any(key in names and names[key][0] != name for key, name in topic_ids.items())


# ---- batch: what was known at a packet


class TopicHistory:
    """From which packet on which name counts, for each topic id."""

    def __init__(self, rows: Iterable[DatedTeaching] = ()) -> None:
        self._steps: dict[TopicKey, list[tuple[When, tuple[int, str]]]] = {}
        """(packet, (time, name)): by packet, and each name counts more than those before it."""
        self.merge(rows)

    def learn(self, message: Message, when: When) -> None:
        """Add what a message teaches that the packet ``when`` released."""
        for topic_id, name in message.teaches:
            self._add((message.protocol, topic_id), when, (message.frame.first_ts_ns, name))

    def merge(self, rows: Iterable[DatedTeaching]) -> None:
        """Add what ``rows`` of another history gave."""
        for protocol, topic_id, name, ts_ns, released_ns, packet in rows:
            self._add((protocol, topic_id), (released_ns, packet), (ts_ns, name))

    def _add(self, key: TopicKey, when: When, taught: tuple[int, str]) -> None:
        steps = self._steps.get(key)
        if steps is None:
            if len(self._steps) < IDS_MAX:
                self._steps[key] = [(when, taught)]
            return
        if any(at <= when and other <= taught for at, other in steps):
            return
        needed = [(at, other) for at, other in steps if at < when or other < taught]
        self._steps[key] = sorted([*needed, (when, taught)])[:NAMES_MAX]

    def rows(self) -> Iterator[DatedTeaching]:
        """All of it, for ``merge``."""
        for (protocol, topic_id), steps in self._steps.items():
            for when, (ts_ns, name) in steps:
                yield protocol, topic_id, name, ts_ns, *when

    def before(self, key: TopicKey, when: When) -> Iterator[Teaching]:
        """What was taught of a topic id before a packet, as far as it may count."""
        for at, (ts_ns, name) in self._steps.get(key, ()):
            if at < when:
                yield *key, name, ts_ns


class FlowTopics:
    """What is known in one flow of a batch job: what it taught itself, and what others taught before (rule 5)."""

    def __init__(self, history: TopicHistory) -> None:
        self._history = history
        self._own = TopicDirectory()

    def learn(self, message: Message) -> None:
        """Add what a message of the flow teaches."""
        self._own.learn(message)

    def at(self, when: When, protocol: str, topic_ids: Iterable[str]) -> TopicDirectory:
        """What is known of some topic ids when the packet ``when`` is decoded."""
        known = TopicDirectory()
        for topic_id in topic_ids:
            key = protocol, topic_id
            known.merge(self._own.rows_of(key))
            known.merge(self._history.before(key, when))
        return known
