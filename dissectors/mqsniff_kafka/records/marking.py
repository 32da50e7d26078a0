"""Opened batches and what requests and responses say of them in; the columns that only these can tell out.

1. Offsets on the wire of a produced record are its client's (``client_offset``); the broker's come from the answer: its
   base offset, and from there batch by batch. Messages of magic 0 and 1 are numbered by the broker one by one.
2. A transaction is aborted for a reader where the response lists its producer from an offset on, until the producer's
   abort marker comes (KIP-98, ``Fetcher``): only a response to ``read_committed`` tells.
3. A broker answers with whole batches, so records from before the asked offset come along; clients throw them away.
4. A value is taken for one of a schema registry where every value of its batch is: a zero byte, then an int32 id that
   is small and not 0. Eight bytes may just as well be a number, and are not taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from mqsniff.model import RecordBatch
from mqsniff_kafka.records.reading import Batch, RecordDataReading, int64, offsets_from, time_ns

ABORT: Final = 0

FRAMED_MIN: Final = 6
"""Bytes of the smallest value with a schema's id: a zero, the id, and something."""
SCHEMA_ID_MAX: Final = 1 << 24
"""Registries count from 1, or from 100,001; larger ones are taken for data."""


def mark_all(reading: RecordDataReading, constant: dict[str, Any]) -> None:
    """Give every opened record the columns of its partition (``topic``, ``partition``, …), and ``schema_id``."""
    for records in reading.records:
        records.constant |= constant
        if not records.constant.get("control"):
            mark_schemas(records)


# ---- produced


def mark_produced(reading: RecordDataReading) -> None:
    """Call what stands on the wire ``client_offset``; ``mark_answered`` gives the broker's offsets and time."""
    for records in reading.records:
        records.constant["direction"] = "produce"
        records.constant.pop("store_ts", None)
        records.columns.pop("store_ts", None)
        records.columns["client_offset"] = records.columns.pop("offset")
        del records.constant["base_offset"]


def mark_answered(reading: RecordDataReading, base_offset: int, log_append_time_ms: int = -1) -> None:
    """Fill in what the answer says of a produced partition; nothing where it names no offset (-1: an error).

    Batches that did not wait for the answer are empty by now: they only count.
    ``log_append_time_ms``: when the broker stored them; -1 where the topic keeps their producer's times.
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
    """How many offsets a batch takes."""
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
    """Say of fetched records who reads them, which come from before the asked offset, and which were aborted.

    ``reader``: consumer, follower or other. ``aborted``: (producer id, first offset) of the response's aborted
    transactions, None where it cannot tell: transactions of a reader of uncommitted data are neither.
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
    """Mark the records of aborted transactions, batch by batch as a consumer finds them (rule 2)."""
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
    """Give ``schema_id`` where the values carry one (rule 4)."""
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
    """The ids of values, None for a null value; None for all where any value has none, or all are null."""
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
