"""Decodes records of internal topics: offsets of groups, transactions, cluster metadata, traces.

1. Batches of other topics cost one look-up.
2. Records are decoded on demand, one by one.
3. If a dissector raises, the content is null and ``faults`` gets an entry; the run goes on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import overload

from mqsniff.dissector import Dissector
from mqsniff.model import RecordBatch, Value

TOPICS_MAX = 4096
"""Topics that are cached."""


class InternalTopics:
    """The internal topics that the dissectors of a run can decode."""

    def __init__(self, dissectors: Iterable[type[Dissector]]) -> None:
        self._by_protocol = {name: dissector for dissector in dissectors for name in dissector.names}
        self.faults: list[str] = []
        """Errors of dissectors; the owner empties it."""
        self.knows = lru_cache(TOPICS_MAX)(self._knows)

    def _knows(self, protocol: str, topic: str) -> bool:
        """Whether records of a topic can be decoded."""
        dissector = self._by_protocol.get(protocol)
        return dissector is not None and dissector.internal_topic(topic)

    def decode(self, protocol: str, topic: str, key: bytes | None, value: bytes | None) -> Value | None:
        """The content of a record; None if its bytes do not fit."""
        try:
            return self._by_protocol[protocol].decode_record(topic, key, value)
        except (Exception, SystemExit) as error:  # noqa: BLE001  # the border of the plugin
            if not self.faults:
                self.faults.append(f"{type(error).__name__} in the records of an internal topic of {protocol}")
            return None

    def decoded(self, protocol: str, batch: RecordBatch) -> RecordBatch:
        """Records with the column ``decoded`` if their topic is internal; other batches are returned unchanged."""
        topics = self._topics(protocol, batch)
        if topics is None or "decoded" in batch.columns:
            return batch
        return replace(batch, columns={**batch.columns, "decoded": _Decoded(self, protocol, topics, batch)})

    def _topics(self, protocol: str, batch: RecordBatch) -> Sequence[str | None] | None:
        """The topic of each record; None if none can be decoded, as in control records: they have their own format."""
        if batch.constant.get("control"):
            return None
        topics = batch.columns.get("topic")
        if topics is not None:
            return topics if any(isinstance(one, str) and self.knows(protocol, one) for one in set(topics)) else None
        topic = batch.constant.get("topic")
        return [topic] * batch.count if isinstance(topic, str) and self.knows(protocol, topic) else None


class _Decoded(Sequence["Value | None"]):
    """The content of each record of a batch, decoded on demand."""

    def __init__(self, known: InternalTopics, protocol: str, topics: Sequence[str | None], batch: RecordBatch) -> None:
        self._known = known
        self._protocol = protocol
        self._topics = topics
        self._batch = batch

    def __len__(self) -> int:
        return len(self._topics)

    @overload
    def __getitem__(self, index: int) -> Value | None: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Value | None]: ...
    def __getitem__(self, index: int | slice) -> Value | Sequence[Value | None] | None:
        if isinstance(index, slice):
            return [self[at] for at in range(*index.indices(len(self)))]
        topic = self._topics[index]
        if not isinstance(topic, str) or not self._known.knows(self._protocol, topic):
            return None
        batch = self._batch
        return self._known.decode(
            self._protocol, topic, _part(batch, batch.keys, index), _part(batch, batch.values, index)
        )


def _part(batch: RecordBatch, spans: tuple[Sequence[int], Sequence[int]] | None, index: int) -> bytes | None:
    """A key or a value."""
    if spans is None or spans[0][index] < 0:
        return None
    return batch.data[spans[0][index] : spans[1][index]]
