"""Records of internal topics in, what they hold out: offsets of groups, transactions, cluster metadata, traces.

1. Only topics that a dissector knows as internal cost anything: one look-up for each batch of records.
2. Records are decoded when somebody asks for them, one by one.
3. What a dissector raises here makes the content null and is counted in ``faults``; the run goes on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import overload

from mqsniff.dissector import Dissector
from mqsniff.model import RecordBatch, Value

TOPICS_MAX = 4096
"""Topics whose kind is remembered."""


class InternalTopics:
    """What the dissectors of a run know of topics."""

    def __init__(self, dissectors: Iterable[type[Dissector]]) -> None:
        self._by_protocol = {name: dissector for dissector in dissectors for name in dissector.names}
        self.faults: list[str] = []
        """What dissectors raised; the owner empties it."""
        self.knows = lru_cache(TOPICS_MAX)(self._knows)

    def _knows(self, protocol: str, topic: str) -> bool:
        """Whether records of a topic can be decoded."""
        dissector = self._by_protocol.get(protocol)
        return dissector is not None and dissector.internal_topic(topic)

    def decode(self, protocol: str, topic: str, key: bytes | None, value: bytes | None) -> Value | None:
        """What a record of a known topic holds; None where its bytes do not fit."""
        try:
            return self._by_protocol[protocol].decode_record(topic, key, value)
        except Exception as error:  # noqa: BLE001  # the border of the plugin
            if not self.faults:
                self.faults.append(f"{type(error).__name__} in the records of an internal topic of {protocol}")
            return None

    def decoded(self, protocol: str, batch: RecordBatch) -> RecordBatch:
        """Records with the column ``decoded`` where their topic is internal; all others are given back as they are."""
        topics = self._topics(protocol, batch)
        if topics is None or "decoded" in batch.columns:
            return batch
        return replace(batch, columns={**batch.columns, "decoded": _Decoded(self, protocol, topics, batch)})

    def _topics(self, protocol: str, batch: RecordBatch) -> Sequence[str | None] | None:
        """The topic of each record; None where none can be decoded: control records have a format of their own."""
        if batch.constant.get("control"):
            return None
        topics = batch.columns.get("topic")
        if topics is not None:
            return topics if any(isinstance(one, str) and self.knows(protocol, one) for one in set(topics)) else None
        topic = batch.constant.get("topic")
        return [topic] * batch.count if isinstance(topic, str) and self.knows(protocol, topic) else None


class _Decoded(Sequence["Value | None"]):
    """The content of each record of a batch, decoded when asked for."""

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
