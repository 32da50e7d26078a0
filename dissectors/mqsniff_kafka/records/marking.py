"""Columns of records that need the request or the response: offsets, times, reader, aborted, schema id.

1. A produced record has its client's offset on the wire (``client_offset``). The broker's offsets follow from the base
   offset in the response, batch by batch; the broker numbers messages of magic 0 and 1 one by one.
2. Records are aborted from the offset that the response lists for their producer, up to the producer's abort marker
   (KIP-98, ``Fetcher``). Only responses to ``read_committed`` fetches list them.
3. Brokers send whole batches, so records before the fetch offset come along; clients drop them.
4. Values have a schema id if every value of the batch begins with a zero byte and an int32 id that is small and not 0.
   Values of eight bytes may be plain numbers, and are excluded.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from mqsniff.model import RecordBatch
from mqsniff_kafka.records.reading import Batch, RecordDataReading, int64, offsets_from, time_ns

ABORT: Final = 0

FRAMED_MIN: Final = 6
"""Smallest value with a schema id: a zero, the id, and a byte."""
SCHEMA_ID_MAX: Final = 1 << 24
"""Registries count from 1, or from 100,001; larger numbers are data."""


def mark_all(reading: RecordDataReading, constant: dict[str, Any]) -> None:
    """Add the columns of the partition (``topic``, ``partition``, …) and ``schema_id`` to every opened record."""
    for records in reading.records:
        records.constant |= constant
        if not records.constant.get("control"):
            mark_schemas(records)


# ---- produced


def mark_produced(reading: RecordDataReading) -> None:
    """Move the offsets on the wire to ``client_offset``; ``mark_answered`` adds the broker's offsets and time."""
    for records in reading.records:
        records.constant["direction"] = "produce"
        records.constant.pop("store_ts", None)
        records.columns.pop("store_ts", None)
        records.columns["client_offset"] = records.columns.pop("offset")
        del records.constant["base_offset"]


def mark_answered(reading: RecordDataReading, base_offset: int, log_append_time_ms: int = -1) -> None:
    """Add offsets and times of the response to a produced partition; nothing if it has no offset (-1: an error).

    Batches that went out before the response are empty by now; they still take up offsets.
    ``log_append_time_ms``: when the broker stored them; -1 if the topic keeps the producer's times.
    """
    if base_offset < 0:
        return
    for batch in reading.batches:
        if batch.records is not None and batch.records.count:
            _place(batch.records, base_offset, batch)
            if log_append_time_ms >= 0:
                batch.records.constant["store_ts"] = time_ns(log_append_time_ms)
        base_offset += _taken(batch)


def _taken(batch: Batch) -> int:
    """Number of offsets that a batch takes up."""
    if batch.head.get("magic") == 2:
        return max(0, batch.last_offset - batch.first_offset + 1)
    count = batch.head.get("records")
    return count if isinstance(count, int) else 0


def _place(records: RecordBatch, base: int, batch: Batch) -> None:
    deltas: Sequence[int] = range(records.count)
    if batch.head.get("magic") == 2:
        deltas = offsets_from(-batch.first_offset, records.columns["client_offset"])
    records.columns["offset"] = offsets_from(base, deltas)
    records.constant["base_offset"] = int64(base)


# ---- delivered


def mark_delivered(
    reading: RecordDataReading,
    *,
    reader: str,
    fetch_offset: int | None,
    aborted: Iterable[tuple[int, int]] | None = None,
) -> None:
    """Add the reader to fetched records, and whether they precede the fetch offset or were aborted.

    ``reader``: consumer, follower or other. ``aborted``: (producer id, first offset) of the response's aborted
    transactions; None if the fetch was not ``read_committed``: then ``aborted`` of records is null.
    """
    if aborted is not None:
        _mark_aborted(reading, sorted(aborted, key=lambda one: one[1]))
    for records in reading.records:
        records.constant |= {"direction": "deliver", "reader": reader}
        if fetch_offset is not None:
            _mark_early(records, fetch_offset)


def _mark_early(records: RecordBatch, fetch_offset: int) -> None:
    offsets = records.columns["offset"]
    if None in offsets:
        return
    if min(offsets) >= fetch_offset:
        records.constant["before_asked"] = False
    else:
        records.columns["before_asked"] = [offset < fetch_offset for offset in offsets]


def _mark_aborted(reading: RecordDataReading, aborted: list[tuple[int, int]]) -> None:
    """Mark the records of aborted transactions, batch by batch as consumers do (rule 2)."""
    open_now: set[int] = set()
    position = 0
    for batch in reading.batches:
        while position < len(aborted) and aborted[position][1] <= batch.last_offset:
            open_now.add(aborted[position][0])
            position += 1
        if not batch.transactional:
            continue
        if batch.control_types:
            if ABORT in batch.control_types:
                open_now.discard(batch.producer_id)
        elif batch.records is not None:
            batch.records.constant["aborted"] = batch.producer_id in open_now


# ---- schema ids


def mark_schemas(records: RecordBatch) -> None:
    """Add ``schema_id`` if the values have one (rule 4)."""
    if records.values is None:
        return
    ids = schema_ids(records.data, *records.values)
    if ids is None:
        return
    if len(set(ids)) == 1:
        records.constant["schema_id"] = ids[0]
    else:
        records.columns["schema_id"] = ids


def schema_ids(data: bytes, starts: Sequence[int], stops: Sequence[int]) -> list[str | None] | None:
    """The schema ids of values, None for null values; None if any value has no id, or all are null."""
    ids: list[str | None] = []
    found = False
    for start, stop in zip(starts, stops, strict=True):
        if start < 0:
            ids.append(None)
            continue
        size = stop - start
        if size < FRAMED_MIN or size == 8 or data[start]:
            return None
        schema_id = int.from_bytes(data[start + 1 : start + 5], "big")
        if not 0 < schema_id < SCHEMA_ID_MAX:
            return None
        found = True
        ids.append(str(schema_id))
    return ids if found else None
