"""Topic, partition, offset and key in, the matching rows and records of a message out.

1. One row must match all four: a row of ``partitions``, a record, or (topic alone) the message itself.
2. A topic with its domain (Pulsar: ``persistent://tenant/namespace/name-partition-3``) also matches by its last part,
   with and without the partition number. A topic id counts as the name if the name is unknown.
3. An offset is the broker's. A row of ``partitions`` matches by its own offset or by that of one of its records.
4. Messages are never changed, only copied without some rows: other items hold the same message.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from mqsniff.filters.patterns import Patterns
from mqsniff.model import Message, PartitionRow, RecordBatch

OFFSET_MAX: Final = (1 << 63) - 1
"""The largest possible offset: the end of an open range."""

_PARTITION_SUFFIX: Final = re.compile(r"-partition-\d+$")


class OffsetRange(NamedTuple):
    """Offsets from the first to the last one, both included."""

    first: int
    last: int


class RecordFilter:
    """The topics, partitions, offsets and keys to match."""

    def __init__(
        self,
        topics: Patterns,
        partitions: Sequence[int],
        offsets: Sequence[OffsetRange],
        keys: Sequence[bytes],
    ) -> None:
        self._topics = topics
        self._partitions = frozenset(partitions)
        self._offsets = tuple(offsets)
        self._keys = frozenset(keys)
        self._everywhere = not (topics or partitions or offsets or keys)
        self._needs_row = bool(partitions or offsets or keys)
        self._needs_record = bool(offsets or keys)

    def inside(self, message: Message) -> bool:
        """Whether some part of a message matches."""
        if self._everywhere:
            return True
        if not self._needs_row and (message.topics or message.topic_ids):
            return any(map(self.names_topic, (*message.topics, *message.topic_ids)))
        if any(self._row_lies(message, row) for row in message.partitions):
            return True
        return any(self._kept(message, batch) for batch in message.records)

    def names_topic(self, *names: str | None) -> bool:
        """Whether one of the names of a topic matches."""
        return not self._topics or any(self._topics.fit(form) for name in names if name for form in topic_forms(name))

    def partitions(self, message: Message) -> tuple[PartitionRow, ...]:
        """The matching rows of ``partitions``; the same tuple if all match."""
        if self._everywhere:
            return message.partitions
        kept = tuple(row for row in message.partitions if self._row_lies(message, row) or self._holds(message, row))
        return message.partitions if len(kept) == len(message.partitions) else kept

    def records(self, message: Message, batch: RecordBatch) -> RecordBatch | None:
        """The matching records; the same batch if all match, None if none does."""
        if self._everywhere:
            return batch
        kept = self._kept(message, batch)
        if len(kept) == batch.count:
            return batch
        return take(batch, kept) if kept else None

    def _row_lies(self, message: Message, row: dict[str, Any]) -> bool:
        """Whether a row of ``partitions`` matches by its own fields."""
        return self._in_partition(message, row.get) and not self._keys and self._offset_lies(row.get("offset"))

    def _holds(self, message: Message, row: dict[str, Any]) -> bool:
        """Whether records of a partition match."""
        if not self._needs_record or not self._in_partition(message, row.get):
            return False
        where = (row.get("topic"), row.get("partition"))
        return any(
            self._kept(message, batch)
            for batch in message.records
            if (batch.constant.get("topic"), batch.constant.get("partition")) == where
        )

    def _kept(self, message: Message, batch: RecordBatch) -> Sequence[int]:
        """Indexes of the matching records."""
        constant, columns = batch.constant, batch.columns
        if not columns.keys() & {"topic", "topic_id", "partition"}:
            if not self._in_partition(message, constant.get):
                return ()
            indexes: Sequence[int] = range(batch.count)
        else:
            indexes = [i for i in range(batch.count) if self._in_partition(message, _getter(batch, i))]
        if self._offsets:
            offset = columns.get("offset")
            indexes = [i for i in indexes if self._offset_lies(constant.get("offset") if offset is None else offset[i])]
        if self._keys:
            indexes = [i for i in indexes if _key(batch, i) in self._keys]
        return indexes

    def _in_partition(self, message: Message, get: Callable[[str], Any]) -> bool:
        if self._partitions and get("partition") not in self._partitions:
            return False
        own = (get("topic"), get("topic_id"))
        return self.names_topic(*(own if any(own) else message.topics))

    def _offset_lies(self, offset: int | None) -> bool:
        if not self._offsets:
            return True
        return offset is not None and any(first <= offset <= last for first, last in self._offsets)


def take(batch: RecordBatch, indexes: Sequence[int]) -> RecordBatch:
    """Some records of a batch as a batch; each keeps its ``record_index``."""
    number = batch.columns.get("record_index")
    columns: dict[str, Sequence[Any]] = {name: _picked(column, indexes) for name, column in batch.columns.items()}
    columns["record_index"] = list(indexes) if number is None else _picked(number, indexes)
    return replace(
        batch,
        count=len(indexes),
        columns=columns,
        keys=_spans(batch.keys, indexes),
        values=_spans(batch.values, indexes),
        headers=None if batch.headers is None else [batch.headers[i] for i in indexes],
        header_spans=None,
    )


def _picked(column: Sequence[Any], indexes: Sequence[int]) -> list[Any]:
    """Some values of a column, as Python values also if it is a NumPy array."""
    values = column.tolist() if hasattr(column, "tolist") else column
    return [values[i] for i in indexes]


def _spans(
    spans: tuple[Sequence[int], Sequence[int]] | None, indexes: Sequence[int]
) -> tuple[Sequence[int], Sequence[int]] | None:
    return None if spans is None else (_picked(spans[0], indexes), _picked(spans[1], indexes))


def _getter(batch: RecordBatch, index: int) -> Callable[[str], Any]:
    def get(name: str) -> Any:
        column = batch.columns.get(name)
        return batch.constant.get(name) if column is None else column[index]

    return get


def _key(batch: RecordBatch, index: int) -> bytes | None:
    if batch.keys is None or batch.keys[0][index] < 0:
        return None
    return batch.data[batch.keys[0][index] : batch.keys[1][index]]


def topic_forms(topic: str) -> tuple[str, ...]:
    """The names by which a topic can be chosen."""
    if "://" not in topic:
        return (topic,)
    last = topic.rpartition("/")[2]
    return (topic, last, _PARTITION_SUFFIX.sub("", topic), _PARTITION_SUFFIX.sub("", last))
