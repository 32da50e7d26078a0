"""A payload with its metadata in, columns of the ``records`` table out.

1. A batch is ``num_messages_in_batch`` being there, whatever its value: then the plain payload is, so many times,
   size u32 | SingleMessageMetadata | payload_size bytes. Anything else is one record.
2. Records are what an application was to be given: slots that a compaction emptied, and those that the broker says were
   acknowledged already, make no row; their bytes are read and accounted for all the same.
3. A payload that cannot be opened is one record without value, and its size.
4. ``place`` names produced records once the broker has told where they are.

Sources: PulsarApi.proto; ``ConsumerImpl.receiveIndividualMessagesFromBatch`` of Apache Pulsar.
"""

from __future__ import annotations

from binascii import Error as Base64Error
from binascii import a2b_base64
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final, NamedTuple

from dissectors.pulsar.messages import message_type
from dissectors.pulsar.payload import plain_payload
from mqsniff.limits import Limits
from mqsniff.model import Problem, RecordBatch

MILLISECOND_NS: Final = 1_000_000
TIME_MAX: Final = ((1 << 63) - 1) // MILLISECOND_NS
"""Largest time in milliseconds that fits a column."""


class Slot(NamedTuple):
    """One message of a batch."""

    number: int
    single: Mapping[str, Any]
    start: int
    stop: int


def record_batch(
    metadata: Mapping[str, Any],
    packed: bytes,
    wanted: Collection[int] | None,
    limits: Limits,
    problems: list[Problem],
) -> RecordBatch:
    """The records of a payload; ``wanted`` are the slots that the broker wants delivered, None for all.

    What is odd is appended to ``problems``.
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
        slots = [slot for slot in _slots(plain, count, limits, note) if _is_delivered(slot, wanted)]
        batch = _batch(metadata, plain, slots)
    batch.constant |= _constant(metadata)
    return batch


class _Notes:
    """Problems of a payload, of which a limited number is kept."""

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
    """Name the records by the message id of their entry ("ledger:entry:partition")."""
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
        "producer_name": metadata.get("producer_name"),
        "replicated_from": metadata.get("replicated_from"),
        "schema_id": _schema_id(metadata),
        "chunk_id": metadata.get("chunk_id"),
        "chunk_count": metadata.get("num_chunks_from_msg"),
        "transactional": "txnid_most_bits" in metadata or None,
        "control": "marker_type" in metadata or None,
    }


def _schema_id(metadata: Mapping[str, Any]) -> str | None:
    """A schema version (a number of 8 bytes as brokers make them, else hexadecimal), or an id of a registry."""
    for name in ("schema_version", "schema_id"):
        data = metadata.get(name)
        if isinstance(data, bytes) and data:
            return str(int.from_bytes(data, "big", signed=True)) if len(data) == 8 else data.hex()
    return None


def time_ns(milliseconds: object) -> int | None:
    """A time in milliseconds as nanoseconds; None for none, and for one that no column could hold."""
    if not isinstance(milliseconds, int) or not 0 < milliseconds <= TIME_MAX:
        return None
    return milliseconds * MILLISECOND_NS


def _record_time(own: Mapping[str, Any], metadata: Mapping[str, Any]) -> int | None:
    """When it happened, by the application, else when it was published."""
    return time_ns(own.get("event_time")) or time_ns(metadata.get("publish_time"))


def _single(metadata: Mapping[str, Any], plain: bytes) -> RecordBatch:
    """A payload that is one message."""
    key = _key(metadata)
    size = len(plain)
    batch = RecordBatch(plain + key if key else plain, 1)
    batch.values = ([-1], [-1]) if metadata.get("null_value") else ([0], [size])
    batch.keys = ([-1], [-1]) if key is None else ([size], [size + len(key)])
    batch.headers = [_headers(metadata)]
    batch.constant = {
        "record_ts": _record_time(metadata, metadata),
        "event_ts": time_ns(metadata.get("event_time")),
        "ordering_key": metadata.get("ordering_key"),
        "sequence": signed(metadata.get("sequence_id")),
    }
    return batch


def _batch(metadata: Mapping[str, Any], plain: bytes, slots: list[Slot]) -> RecordBatch:
    """The messages of a batch; their keys stand behind the payload, in order."""
    keys, at = [], len(plain)
    key_starts, key_stops = [], []
    for slot in slots:
        key = _key(slot.single)
        key_starts.append(-1 if key is None else at)
        if key:
            keys.append(key)
            at += len(key)
        key_stops.append(at)
    batch = RecordBatch(plain + b"".join(keys), len(slots), keys=(key_starts, key_stops))
    batch.values = (
        [-1 if slot.single.get("null_value") else slot.start for slot in slots],
        [slot.stop for slot in slots],
    )
    batch.headers = [_headers(slot.single) for slot in slots]
    original = metadata.get("compacted_batch_indexes") or ()
    batch.columns = {
        "record_index": [original[s.number] if s.number < len(original) else s.number for s in slots],
        "record_ts": [_record_time(slot.single, metadata) for slot in slots],
        "event_ts": [time_ns(slot.single.get("event_time")) for slot in slots],
        "ordering_key": [slot.single.get("ordering_key") for slot in slots],
        "sequence": [signed(slot.single.get("sequence_id")) for slot in slots],
    }
    return batch


def _slots(plain: bytes, count: int, limits: Limits, note: _Notes) -> Iterator[Slot]:
    """The messages of a batch; what does not fit ``count`` or the bytes is noted, and ends them."""
    decode = message_type("SingleMessageMetadata").decode
    at, end = 0, len(plain)
    for index in range(min(count, limits.elements_max)):
        start = at + 4
        stop = start + int.from_bytes(plain[at:start], "big")
        if stop > end or start > end:
            note(Problem("malformed", "error", "a batch with fewer messages than it says", f"payload[{index}]"))
            return
        single = decode(plain, start, stop, limits)
        for problem in single.problems:
            problem.path = f"payload[{index}].{problem.path}"
            note(problem)
        at = stop + single.body.get("payload_size", end)
        if not stop <= at <= end:
            note(Problem("malformed", "error", "a message longer than its batch", f"payload[{index}].payload_size"))
            return
        yield Slot(index, single.body, stop, at)
    if count > limits.elements_max:
        note(Problem("limit", "error", "a batch of more messages than elements_max", "payload", size=end - at))
    elif at < end:
        note(Problem("trailing_bytes", "warning", "bytes behind the last message of a batch", "payload", size=end - at))


def _is_delivered(slot: Slot, wanted: Collection[int] | None) -> bool:
    return not slot.single.get("compacted_out") and (wanted is None or slot.number in wanted)


def _key(own: Mapping[str, Any]) -> bytes | None:
    """The partition key, decoded where it stands in base64."""
    key = own.get("partition_key")
    if key is None or own.get("null_partition_key"):
        return None
    raw: bytes = key if isinstance(key, bytes) else key.encode()
    if not own.get("partition_key_b64_encoded"):
        return raw
    try:
        return a2b_base64(raw)
    except Base64Error:
        return raw


def _headers(own: Mapping[str, Any]) -> list[tuple[str, bytes | None]]:
    """The properties."""
    return [(_text(pair.get("key", "")), _bytes(pair.get("value", ""))) for pair in own.get("properties", ())]


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode(errors="backslashreplace")


def _bytes(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode()


def signed(number: int | None) -> int | None:
    """A uint64 as the signed number that Java's clients mean."""
    return number if number is None or number < 1 << 63 else number - (1 << 64)
