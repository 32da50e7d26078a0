"""Topic names for topic ids, capture-wide: what any connection taught fills what every other one shows.

1. A topic id means the same topic everywhere and for ever; the first name taught stays.
2. Messages are resolved in the order in which they leave the pipeline, records once more when these leave it, so a
   stream uses what was known by then. What is known at the end fills finished tables: ``mqsniff.tables.topics``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mqsniff.limits import Limits
from mqsniff.model import Message, RecordBatch, TopicItem


class TopicNames:
    """(protocol, topic id) -> name."""

    def __init__(self, limit: int = Limits().topics_max) -> None:
        self._limit = limit
        self._names: dict[tuple[str, str], str] = {}
        self.refused = 0
        """How often a name was taught that was one too many to be remembered."""

    def learn(self, message: Message) -> Iterator[TopicItem]:
        """Take in what a message teaches; gives each name that was not known."""
        for topic_id, name in message.teaches:
            key = (message.protocol, topic_id)
            if key in self._names:
                continue
            if len(self._names) == self._limit:
                self.refused += 1
            else:
                self._names[key] = name
                yield TopicItem(message.protocol, topic_id, name, message.frame.first_ts_ns)

    def know(self, protocol: str, topic_id: str, name: str) -> None:
        """Take in a name that somebody else learned."""
        self._names.setdefault((protocol, topic_id), name)

    def name(self, protocol: str, topic_id: str) -> str | None:
        """The name of a topic id, if it is known."""
        return self._names.get((protocol, topic_id))

    def resolve(self, message: Message) -> None:
        """Fill the names that are known into a message, its partitions and its records."""
        if not self._names or not message.topic_ids:
            return
        find, protocol = self._names.get, message.protocol
        named = [name for topic_id in message.topic_ids if (name := find((protocol, topic_id))) is not None]
        written = dict.fromkeys(message.topics)
        message.topics = tuple(dict.fromkeys((*written, *named)))
        message.filled = len(message.topics) - len(written)
        for row in message.partitions:
            self._fill(protocol, row)
        for batch in message.records:
            self._fill(protocol, batch.constant)

    def resolve_records(self, protocol: str, batch: RecordBatch) -> None:
        """Fill the name that is known into records that leave later than their message."""
        if self._names:
            self._fill(protocol, batch.constant)

    def _fill(self, protocol: str, row: dict[str, Any]) -> None:
        if row.get("topic") is None and row.get("topic_id") is not None:
            row["topic"] = self._names.get((protocol, row["topic_id"]))
