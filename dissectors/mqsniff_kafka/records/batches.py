"""Reads a field of record data: heads of its batches, problems, and if wanted the records as columns.

1. A field holds batches of magic 2 and message sets of magic 0 and 1, in any mix; all have the magic at byte 16. Here a
   batch is a batch of magic 2, a wrapper message, or a run of plain messages of one magic.
2. Brokers cut the last batch at the client's limit, or pad with the start of a batch: ``cut`` counts these bytes, and
   they are no problem. Clients drop such a batch and fetch it again, so only its head is shown (``begun``). If the
   *capture* cut a batch, its whole records are given.
3. A wrong checksum is a problem; the records are kept.
4. Records are opened only if wanted. Control records (a few bytes on the end of a transaction) always are: the head
   shows their content.

Sources: Apache Kafka, ``common/record/DefaultRecordBatch.java``, ``DefaultRecord.java``, ``ControlRecordType.java``.
"""

from __future__ import annotations

from itertools import islice
from struct import Struct
from typing import Any, Final

from crc32c import crc32c

from mqsniff.codecs.blocks import CUT as PACKED_CUT
from mqsniff.codecs.blocks import TOO_LARGE, Partial
from mqsniff.codecs.inflation import RECORDS_SPENT
from mqsniff.model import PayloadChecksum, RecordBatch, Value
from mqsniff.spec.wire import Malformed
from mqsniff_kafka.formats.control import control_type, decode_control
from mqsniff_kafka.records.compression import CODEC_MASK, OpenedBatch, OpenedBatches, codec_name, plain_records
from mqsniff_kafka.records.messagesets import read_messages
from mqsniff_kafka.records.reading import (
    BATCHES_MAX,
    LOG_APPEND,
    RECORDS_MAX,
    WRAPPERS_MAX,
    Batch,
    RecordDataReading,
    int64,
    offsets_from,
    sequences_from,
    time_ns,
    timestamp_type,
)
from mqsniff_kafka.records.recordheaders import RecordHeaders
from mqsniff_kafka.records.walk import WalkedRecords, walk

__all__ = ["Batch", "RecordDataReading", "read_batches"]

HEAD: Final = Struct(">qiibIhiqqqhii")
"""The 61 bytes before the records."""
HEAD_FIELDS: Final = (
    *("base_offset", "batch_length", "partition_leader_epoch", "magic", "crc", "attributes", "last_offset_delta"),
    *("base_timestamp", "max_timestamp", "producer_id", "producer_epoch", "base_sequence", "records_count"),
)
OVERHEAD: Final = 12
"""Bytes before those that ``batch_length`` counts."""
LENGTH_MIN: Final = HEAD.size - OVERHEAD
CHECKED_FROM: Final = 21
"""The CRC-32C covers the bytes from the attributes on."""
MAGIC_AT: Final = 16
MAGIC: Final = 2

TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
DELETE_HORIZON: Final = 0x40
NAMED: Final = 0x7F
"""Mask of the attributes with a meaning."""

CONTROL_RECORDS_MAX: Final = 64
"""Control records of one batch that are read: there is one, or three at the start of a KRaft log."""
_OPENED: Final = OpenedBatches()


def _names_of(attributes: int) -> dict[str, Any]:
    return {
        "timestamp_type": timestamp_type(attributes),
        "transactional": attributes & TRANSACTIONAL != 0,
        "control": attributes & CONTROL != 0,
        "codec": codec_name(attributes),
    }


ATTRIBUTE_NAMES: Final = tuple(map(_names_of, range(NAMED + 1)))
"""Attributes as a number -> their names and values; the base timestamp holds the delete horizon."""


def read_batches(
    data: bytes,
    start: int,
    stop: int,
    *,
    decompress_max: int,
    open_records: bool,
    lost: bool = False,
    wrapper_depth: int = WRAPPERS_MAX,
    records_max: int = RECORDS_MAX,
) -> RecordDataReading:
    """Read the field ``data[start:stop]``.

    ``decompress_max``: most plain bytes of all compressed batches together. ``lost``: whether the capture lost the end
    of the field. ``wrapper_depth``: most levels of compressed message sets. ``records_max``: most records. Paths of
    problems start at the field: ``batches[0].crc``.
    """
    reading = RecordDataReading(data, start, stop, lost, open_records, decompress_max, wrapper_depth)
    if records_max < RECORDS_MAX:
        reading.records_left, reading.records_why = records_max, RECORDS_SPENT
    pos = start
    while pos < stop:
        if len(reading.batches) == BATCHES_MAX:
            reading.give_up(pos, "limit", "more batches in one field than are read")
            break
        pos = _read_next(reading, pos)
    return reading


def _read_next(reading: RecordDataReading, pos: int) -> int:
    """Read the batch at ``pos``; returns the offset after it."""
    if reading.stop - pos <= MAGIC_AT:
        reading.cut = reading.stop - pos
        return reading.stop
    match reading.data[pos + MAGIC_AT]:
        case 0 | 1:
            return read_messages(reading, pos)
        case 2:
            return _read_batch(reading, pos)
    return _pass_unknown(reading, pos)


def _pass_unknown(reading: RecordDataReading, pos: int) -> int:
    """Skip a batch of an unknown magic by its length."""
    data = reading.data
    size = OVERHEAD + int.from_bytes(data[pos + 8 : pos + 12], "big", signed=True)
    if not MAGIC_AT < size <= reading.stop - pos:
        return reading.give_up(pos, "malformed", "no record batch")
    reading.note("unknown_version", "error", "a batch of an unknown magic", "magic", size=size)
    return reading.pass_over(pos, pos + size)


# ---- magic 2


def _read_batch(reading: RecordDataReading, pos: int) -> int:
    there = reading.stop - pos
    length = int.from_bytes(reading.data[pos + 8 : pos + 12], "big", signed=True)
    if length < LENGTH_MIN:
        return reading.give_up(pos, "malformed", "batch too short")
    whole = OVERHEAD + length <= there
    if not whole:
        reading.cut = there
    stop = pos + OVERHEAD + length if whole else reading.stop
    if there < HEAD.size:
        head: dict[str, Any] = {"base_offset": int.from_bytes(reading.data[pos : pos + 8], "big", signed=True)}
        reading.add_cut(Batch(head | {"batch_length": length, "magic": 2}, pos, stop))
        return stop
    batch = _batch_of(reading, pos, stop, whole=whole)
    if whole or reading.lost:
        _open(reading, batch, whole=whole)
    if whole:
        reading.batches.append(batch)
    else:
        reading.add_cut(batch)
    return stop


def _batch_of(reading: RecordDataReading, pos: int, stop: int, *, whole: bool) -> Batch:
    """The head of a batch."""
    head: dict[str, Any] = dict(zip(HEAD_FIELDS, HEAD.unpack_from(reading.data, pos), strict=True))
    count = head.pop("records_count")
    head["crc"] = PayloadChecksum(head["crc"])
    head |= ATTRIBUTE_NAMES[head["attributes"] & NAMED]
    if head["attributes"] & DELETE_HORIZON:
        head["delete_horizon_ms"] = head["base_timestamp"]
    if whole:
        head["checksum_ok"] = crc32c(memoryview(reading.data)[pos + CHECKED_FROM : stop]) == head["crc"]
        if not head["checksum_ok"]:
            reading.note("checksum", "error", "the CRC-32C does not match", "crc")
    head["records"] = count
    return Batch(
        head,
        pos,
        stop,
        head["base_offset"],
        int64(head["base_offset"] + head["last_offset_delta"]),
        head["producer_id"],
        head["attributes"] & TRANSACTIONAL != 0,
    )


def _open(reading: RecordDataReading, batch: Batch, *, whole: bool) -> None:
    """Read the records of a batch if they are wanted, or if they are control records."""
    count = batch.head["records"]
    control = batch.head["attributes"] & CONTROL != 0
    if count < 0:
        reading.note("malformed", "error", "a negative number of records", "records_count")
        return
    if not (reading.open_records or control):
        return
    wanted = reading.take_records(count) if reading.open_records else min(count, CONTROL_RECORDS_MAX)
    plain, walked = _walked(reading, batch, wanted, whole=whole)
    if control:
        _read_control(reading, batch, plain, walked)
    if reading.open_records and walked.records:
        batch.records = records_of(reading, batch.head, plain, walked)


def _walked(reading: RecordDataReading, batch: Batch, count: int, *, whole: bool) -> tuple[bytes, WalkedRecords]:
    """(plain bytes, the records as spans in them)."""
    codec = batch.head["attributes"] & CODEC_MASK
    if not codec:
        return reading.data, _walk(reading, batch, Partial(reading.data, None), count, whole=whole)
    packed = reading.data[batch.start + HEAD.size : batch.stop]
    key = (batch.head["crc"], codec, count)
    known = _OPENED.find(key, packed)
    if known is not None and whole and len(known.plain) <= reading.plain_left:
        reading.plain_left -= len(known.plain)
        return known.plain, known.walked
    partial = plain_records(batch.head["attributes"], packed, reading.plain_left)
    reading.plain_left -= len(partial.plain)
    walked = _walk(reading, batch, partial, count, whole=whole)
    if partial.why is None and walked.records == batch.head["records"] and walked.stop == len(partial.plain):
        walked.compact()
        _OPENED.keep(key, OpenedBatch(packed, partial.plain, walked))
    return partial.plain, walked


def _walk(reading: RecordDataReading, batch: Batch, partial: Partial, count: int, *, whole: bool) -> WalkedRecords:
    """The records of a batch; notes what is odd about them and their compression."""
    plain, why = partial
    compressed = plain is not reading.data
    start, stop = (0, len(plain)) if compressed else (batch.start + HEAD.size, batch.stop)
    if why is not None and (whole or why != PACKED_CUT):
        reading.note("limit" if why == TOO_LARGE else "codec", "error", why, "records")
    walked = walk(plain, start, stop, count)
    ended_early = walked.cut and (why is not None or not whole)
    if not whole:
        reading.note("truncated", "error", "the capture lost the rest of a batch", "records")
    if walked.why is not None and not ended_early:
        reading.note("malformed", "error", walked.why, f"records[{walked.records}]", size=stop - walked.stop)
    elif walked.records == batch.head["records"] and walked.stop < stop:
        reading.note("trailing_bytes", "warning", "bytes after the last record", "records", size=stop - walked.stop)
    return walked


def _read_control(reading: RecordDataReading, batch: Batch, plain: bytes, walked: WalkedRecords) -> None:
    """Show the control records of a batch in its head, and keep their types."""
    found: list[Value] = []
    types: list[int] = []
    places = zip(*walked.keys, *walked.values, strict=True)
    for index, (key_start, key_stop, start, stop) in enumerate(islice(places, CONTROL_RECORDS_MAX)):
        key = plain[key_start:key_stop] if key_start >= 0 else b""
        value = plain[start:stop] if start >= 0 else None
        types += control_type(key)
        if not reading.control_left:
            continue
        reading.control_left -= 1
        try:
            found.append(decode_control(key, value))
        except Malformed:
            reading.note("format", "warning", "expected a control record", f"records[{index}]")
            found.append({"key": key, "value": value})
    batch.control_types = tuple(types)
    batch.head["control_records"] = found
    if len(found) < walked.records:
        reading.note("limit", "info", "more control records than are shown", "records")


def records_of(reading: RecordDataReading, head: dict[str, Any], plain: bytes, walked: WalkedRecords) -> RecordBatch:
    """The records in ``plain`` as columns; their batch is the next one of the reading."""
    deltas = walked.deltas
    records = RecordBatch(plain, walked.records, shared_columns(head, len(reading.batches)))
    records.columns["offset"] = offsets_from(head["base_offset"], deltas)
    if head["attributes"] & LOG_APPEND:
        records.constant["record_ts"] = records.constant["store_ts"] = time_ns(head["max_timestamp"])
    else:
        records.columns["record_ts"] = walked.times_ns(head["base_timestamp"])
    sequence = head["base_sequence"]
    if sequence >= 0:
        records.columns["sequence"] = sequences_from(sequence, deltas)
    records.keys = walked.keys
    records.values = walked.values
    if walked.headers:
        records.headers = headers = RecordHeaders(plain, walked)
        records.header_spans = headers.spans
    else:
        records.constant["headers"] = []
    return records


def shared_columns(head: dict[str, Any], index: int) -> dict[str, Any]:
    """Columns that all records of a batch share."""
    attributes = head["attributes"]
    idempotent = head["producer_id"] >= 0
    return {
        "codec": head["codec"],
        "checksum_ok": head.get("checksum_ok"),
        "base_offset": head["base_offset"],
        "producer_id": head["producer_id"] if idempotent else None,
        "producer_epoch": head["producer_epoch"] if idempotent else None,
        "leader_epoch": head["partition_leader_epoch"] if head["partition_leader_epoch"] >= 0 else None,
        "transactional": attributes & TRANSACTIONAL != 0,
        "control": attributes & CONTROL != 0,
        "batch_index": index,
        "timestamp_type": head["timestamp_type"],
        "crc": int(head["crc"]),
        "attributes": attributes,
    }
