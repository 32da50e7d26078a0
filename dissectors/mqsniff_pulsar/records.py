"""Record batches from payloads and their metadata.

1. A payload is a batch if its metadata have ``num_messages_in_batch``, whatever its value; else it is one record.
   Every slot of a batch is a record, so that counts add up; ``left_out`` says why one is not for the application.
2. A payload that cannot be decompressed is one record with its size and without a value.
3. ``place`` adds the message ids to produced records when the receipt has come.

Sources: PulsarApi.proto; ``ConsumerImpl.receiveIndividualMessagesFromBatch`` of Apache Pulsar.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from functools import partial, reduce
from itertools import accumulate
from operator import or_
from typing import Any, Final

from mqsniff.limits import Limits
from mqsniff.model import Problem, RecordBatch
from mqsniff.spec.wire import as_name
from mqsniff_pulsar.batches import (
    COMPACTED_OUT,
    FLAG_FIELDS,
    PRESENT,
    SlotProperties,
    Slots,
    flag_value,
    plain_key,
    properties_of,
    property_spans,
    read_slots,
    single_of,
)
from mqsniff_pulsar.chunks import JoinedChunks
from mqsniff_pulsar.payload import plain_payload

MILLISECOND_NS: Final = 1_000_000
ACKED: Final = "acknowledged"
"""``left_out`` of a slot whose bit in the ack set is clear."""
_KEY_FLAGS: Final = ("null_partition_key", "partition_key_b64_encoded")
"""Boolean fields of metadata that are columns; ``left_out`` and null values show the others."""


def record_batch(
    metadata: dict[str, Any],
    packed: bytes,
    unacknowledged: Container[int] | None,
    limits: Limits,
    problems: list[Problem],
) -> RecordBatch:
    """The records of a payload; ``unacknowledged``: slots in its ack set, None if it has none.

    Problems are appended to ``problems``.
    """
    note = _Notes(problems, limits.message_problems_max)
    plain, problem = plain_payload(metadata, packed, limits)
    if problem is not None:
        note(problem)
    count = metadata.get("num_messages_in_batch")
    if plain is None:
        batch = RecordBatch(b"", 1, {"value_size": len(packed)})
    elif count is None:
        batch = _single(metadata, plain)
    else:
        batch = _batch(metadata, plain, read_slots(plain, count, limits, note), unacknowledged)
    batch.constant |= _constant(metadata)
    return batch


def joined_batch(
    metadata: dict[str, Any], joined: JoinedChunks, limits: Limits, problems: list[Problem]
) -> RecordBatch:
    """The record of a whole chunked message, with the metadata of its last chunk."""
    whole = {name: value for name, value in metadata.items() if name != "chunk_id"}
    batch = record_batch(whole, joined.data, None, limits, problems)
    batch.constant |= {"joined": True, "checksum_ok": joined.checksum_ok, "batch_index": 1}
    return batch


class _Notes:
    """Collects the problems of a payload, up to a limit."""

    def __init__(self, problems: list[Problem], room: int) -> None:
        self._problems = problems
        self._room = room

    def __call__(self, problem: Problem) -> None:
        self._room -= 1
        if self._room > 0:
            self._problems.append(problem)
        elif self._room == 0:
            self._problems.append(Problem("limit", "warning", "more problems in this message than are noted"))


def place(batch: RecordBatch, prefix: str) -> None:
    """Add the message ids, by that of their entry ("ledger:entry:partition")."""
    indexes = batch.columns.get("record_index")
    if indexes is None:
        batch.constant["message_id"] = prefix
    else:
        batch.columns["message_id"] = [f"{prefix}:{index}" for index in indexes]


def _constant(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Columns that all records of a payload share."""
    codec = metadata.get("compression", "NONE")
    return {
        "codec": codec.lower() if isinstance(codec, str) else f"unknown({codec})",
        "publish_ts": time_ns(metadata.get("publish_time")),
        "deliver_at_ts": time_ns(metadata.get("deliver_at_time")),
        "producer_name": as_name(metadata.get("producer_name")),
        "replicated_from": as_name(metadata.get("replicated_from")),
        "schema_id": _schema_id(metadata),
        "chunk_id": metadata.get("chunk_id"),
        "chunk_count": metadata.get("num_chunks_from_msg"),
        "transactional": "txnid_most_bits" in metadata,
        "control": "marker_type" in metadata,
    }


def _schema_id(metadata: Mapping[str, Any]) -> str | None:
    """A schema version (8 bytes: a broker's number; else hexadecimal), or a schema id of a registry."""
    for name in ("schema_version", "schema_id"):
        data = metadata.get(name)
        if isinstance(data, bytes) and data:
            return str(int.from_bytes(data, "big", signed=True)) if len(data) == 8 else data.hex()
    return None


def time_ns(milliseconds: object) -> int | None:
    """Nanoseconds of a time in milliseconds; None for none."""
    return milliseconds * MILLISECOND_NS if isinstance(milliseconds, int) and milliseconds > 0 else None


def _single(metadata: dict[str, Any], plain: bytes) -> RecordBatch:
    """The record of a payload with one message."""
    single = single_of(metadata)
    key, size = plain_key(single.key, single.flags), len(plain)
    batch = RecordBatch(plain + key if key else plain, 1)
    batch.values = ([-1], [-1]) if metadata.get("null_value") else ([0], [size])
    batch.keys = ([-1], [-1]) if key is None else ([size], [size + len(key)])
    batch.headers = [properties_of(metadata)]
    event_ts = time_ns(single.event_time)
    batch.constant = {
        "record_ts": event_ts or time_ns(metadata.get("publish_time")),
        "event_ts": event_ts,
        "sequence": signed(single.sequence),
        **{name: flag_value(single.flags, FLAG_FIELDS[name]) for name in _KEY_FLAGS},
    }
    if single.ordering_key is not None:
        batch.columns["ordering_key"] = [single.ordering_key]
    return batch


def _batch(
    metadata: Mapping[str, Any], plain: bytes, slots: Slots, unacknowledged: Container[int] | None
) -> RecordBatch:
    """The records of a batch; their keys are appended to the payload, in order."""
    keys = slots.keys
    stops = list(accumulate((len(key) if key else 0 for key in keys), initial=len(plain)))
    starts = [-1 if key is None else start for key, start in zip(keys, stops, strict=False)]
    batch = RecordBatch(b"".join([plain, *filter(None, keys)]), len(keys), keys=(starts, stops[1:]))
    batch.values = (slots.starts, slots.stops)
    batch.headers = SlotProperties(plain, slots.singles)
    batch.header_spans = partial(property_spans, plain, slots.singles)
    published = time_ns(metadata.get("publish_time"))
    event_ts = [time_ns(event_time) for event_time in slots.event_times]
    retained = metadata.get("compacted_batch_indexes", ())
    batch.columns = {
        # A compaction either leaves emptied slots in the batch, or removes them.
        "record_index": retained if len(retained) == len(keys) else range(len(keys)),
        "record_ts": [ts or published for ts in event_ts],
        "event_ts": event_ts,
        "sequence": [signed(sequence) for sequence in slots.sequences],
        "slot_metadata_size": [stop - start for start, stop in slots.singles],
        **_rare_columns(slots, unacknowledged),
    }
    return batch


def _rare_columns(slots: Slots, unacknowledged: Container[int] | None) -> dict[str, Sequence[Any]]:
    """Columns that few batches have."""
    columns: dict[str, Sequence[Any]] = {}
    any_flag = reduce(or_, slots.flags, 0)
    for name in _KEY_FLAGS:
        flag = FLAG_FIELDS[name]
        if any_flag & flag * PRESENT:
            columns[name] = [flag_value(flags, flag) for flags in slots.flags]
    if any(key is not None for key in slots.ordering_keys):
        columns["ordering_key"] = slots.ordering_keys
    if any_flag & COMPACTED_OUT or unacknowledged is not None:
        columns["left_out"] = [
            "compacted_out"
            if flags & COMPACTED_OUT
            else None
            if unacknowledged is None or n in unacknowledged
            else ACKED
            for n, flags in enumerate(slots.flags)
        ]
    return columns


def signed(number: int | None) -> int | None:
    """A uint64 as the signed number that Java's clients write."""
    return number if number is None or number < 1 << 63 else number - (1 << 64)
