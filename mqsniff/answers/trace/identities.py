"""Records in, the names out by which the same record is known again on other connections.

1. A message id names a record; where a protocol has none, its topic, partition and offset do.
2. A producer's sequence number names it before the broker has, so that one that is sent again is the same record;
   the producer's own unique key names it in retry topics too.
3. Content names a record where nothing else does: only if one alone was sent with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final

from mqsniff.model import RecordBatch
from mqsniff.tables.rows import listed

_TOLD: Final = ("offset", "message_id", "unique_key", "sequence")
"""Columns that name a record."""
_NAMING: Final = (
    *("topic", "topic_id", "partition", "producer_id", "producer_epoch", "producer_name", "publish_ts"),
    *("record_index", "chunk_id"),
    *_TOLD,
)


def names_records(batch: RecordBatch) -> bool:
    """Whether a batch tells anything that names its records."""
    return any(name in batch.columns or batch.constant.get(name) is not None for name in _TOLD)


def naming_row(protocol: str, batch: RecordBatch, index: int) -> dict[str, Any]:
    """Of a record's row the columns that ``identities`` looks at."""
    row = {name: value_at(batch, name, index) for name in _NAMING}
    if row["record_index"] is None:
        row["record_index"] = index
    return row | {"protocol": protocol}


def identities(row: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """The names of a record, by its row of ``records``; strong ones alone."""
    protocol, topics = row["protocol"], [name for name in (row["topic"], row["topic_id"]) if name]
    found: list[tuple[Any, ...]] = []
    if row["message_id"] is not None:
        found.append(("id", protocol, row["message_id"]))
    elif row["offset"] is not None:
        found += [("at", protocol, topic, row["partition"], row["offset"]) for topic in topics]
    if row["unique_key"] is not None:
        found.append(("unique", protocol, row["unique_key"]))
    return found + list(_sequences(row, topics))


def _sequences(row: Mapping[str, Any], topics: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    sequence, epoch = row["sequence"], row["producer_epoch"]
    if sequence is None or sequence < 0:
        return
    for topic in topics:
        if epoch is not None and (row["producer_id"] or 0) >= 0:
            yield "sequence", row["protocol"], topic, row["partition"], sequence, row["producer_id"], epoch
        elif row["producer_name"] is not None:
            place = row["publish_ts"], row["record_index"], row["chunk_id"]  # numbers begin anew, times do not
            yield "sequence", row["protocol"], topic, row["producer_name"], sequence, *place


def content_of(batch: RecordBatch, index: int) -> bytes:
    """A fingerprint of a record's key and value."""
    digest = blake2b(digest_size=16)
    for spans in (batch.keys, batch.values):
        start = -1 if spans is None else int(spans[0][index])
        stop = start if spans is None else int(spans[1][index])
        digest.update(b"\0" if start < 0 else b"%d:" % (stop - start))
        if start >= 0 and spans is not None:
            digest.update(batch.data[start:stop])
    return digest.digest()


def column_of(batch: RecordBatch, name: str) -> Sequence[Any] | None:
    """A column of a batch that differs from record to record, as plain values; None where it is constant."""
    column = batch.columns.get(name)
    return None if column is None else listed(column)


def value_at(batch: RecordBatch, name: str, index: int) -> Any:
    """A column's value of one record."""
    column = batch.columns.get(name)
    return batch.constant.get(name) if column is None else column[index]
