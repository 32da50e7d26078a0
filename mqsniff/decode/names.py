"""Topic names for topic ids, capture-wide: what any connection taught fills what every other one shows.

1. A topic id means the same topic everywhere and for ever; the first name taught stays.
2. Messages are resolved in the order in which they leave the pipeline, so a stream uses what was known by then.
"""

from __future__ import annotations

from collections.abc import Iterator

from mqsniff.model import Message, Taught


class TopicNames:
    """(protocol, topic id) -> name."""

    def __init__(self) -> None:
        self._names: dict[tuple[str, str], str] = {}

    def learn(self, message: Message) -> Iterator[Taught]:
        """Take in what a message teaches; gives each name that was not known."""
        for topic_id, name in message.teaches:
            key = (message.protocol, topic_id)
            if key not in self._names:
                self._names[key] = name
                yield Taught(message.protocol, topic_id, name, message.frame.first_ts_ns)

    def resolve(self, message: Message) -> None:
        """Fill the names that are known into a message, its partitions and its records."""
        if not self._names or not message.topic_ids:
            return
        find, protocol = self._names.get, message.protocol
        named = [name for topic_id in message.topic_ids if (name := find((protocol, topic_id))) is not None]
        message.topics = tuple(dict.fromkeys((*message.topics, *named)))
        for row in (*message.partitions, *(batch.constant for batch in message.records)):
            if row.get("topic") is None and row.get("topic_id") is not None:
                row["topic"] = find((protocol, row["topic_id"]))
