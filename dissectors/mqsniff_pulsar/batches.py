"""Reads the plain payload of a batch into columns: spans of payloads and keys, times, sequence numbers.

A batch is, for each message: size u32 | SingleMessageMetadata | payload_size bytes.

1. ``_read_single`` reads metadata in the form that clients write; any other form goes through ``_read_slowly``, by the
   protobuf descriptors.
2. Where ``_read_single`` returns, ``_read_slowly`` returns the same and notes no problem. Text is not checked: keys and
   properties are bytes of the application.
3. Properties are skipped here, and decoded on demand.
4. Every slot of the batch is given; flags mark those that a compaction has emptied.

Hot file: once a record. Measured on one core: 0.7 µs for metadata of 3 fields and a property by ``_read_single``,
3.9 µs by ``_read_slowly``; ``benchmarks/pieces.py`` measures it again. Source: PulsarApi.proto.
"""

from __future__ import annotations

from binascii import Error as Base64Error
from binascii import a2b_base64
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, overload

from mqsniff.codecs.inflation import RECORDS_SPENT, InflationBudget
from mqsniff.limits import Limits
from mqsniff.model import HeaderSpans, Problem
from mqsniff_pulsar.messages import message_type

NULL_VALUE: Final = 1
NULL_KEY: Final = 2
KEY_IN_BASE64: Final = 4
COMPACTED_OUT: Final = 8
PRESENT: Final = 16
"""A flag times this: its field was on the wire, whatever its value."""

_FLAGS: Final = {0x20: COMPACTED_OUT, 0x30: KEY_IN_BASE64, 0x48: NULL_VALUE, 0x50: NULL_KEY}
"""Tag of a boolean field -> its flag."""
FLAG_FIELDS: Final = {
    "compacted_out": COMPACTED_OUT,
    "partition_key_b64_encoded": KEY_IN_BASE64,
    "null_value": NULL_VALUE,
    "null_partition_key": NULL_KEY,
}

Note = Callable[[Problem], None]
Property = tuple[str, bytes | None]


class _UnusualMetadataError(Exception):
    """Metadata are not in the form that clients write."""


_STUMBLES: Final = (_UnusualMetadataError, IndexError)


class Single(NamedTuple):
    """The metadata of one message."""

    size: int
    """Bytes of the payload."""
    key: bytes | None
    flags: int
    event_time: int | None
    sequence: int | None
    ordering_key: bytes | None


@dataclass(slots=True)
class Slots:
    """The messages of a batch, as columns of equal length."""

    starts: list[int] = field(default_factory=list)
    """Starts of payloads; -1 for null."""
    stops: list[int] = field(default_factory=list)
    keys: list[bytes | None] = field(default_factory=list)
    flags: list[int] = field(default_factory=list)
    event_times: list[int | None] = field(default_factory=list)
    sequences: list[int | None] = field(default_factory=list)
    ordering_keys: list[bytes | None] = field(default_factory=list)
    singles: list[tuple[int, int]] = field(default_factory=list)
    """(start, stop) of the metadata."""


def read_slots(plain: bytes, count: int, budget: InflationBudget, note: Note) -> Slots:
    """The messages of a batch of ``count``; a message that does not fit is noted, and is the last."""
    slots = Slots()
    at, end = 0, len(plain)
    limits, room = budget.limits, budget.records_left
    for number in range(min(count, limits.elements_max, room)):
        start = at + 4
        stop = start + int.from_bytes(plain[at:start], "big")
        if stop > end or start > end:
            note(Problem("malformed", "error", "a batch with fewer messages than it says", f"payload[{number}]"))
            return slots
        try:
            single = _read_single(plain, start, stop)
        except _STUMBLES:
            single, odd = _read_slowly(plain, start, stop, limits)
            for problem in odd:
                problem.path = f"payload[{number}].{problem.path}"
                note(problem)
        at = stop + single.size
        if single.size < 0 or at > end:
            note(Problem("malformed", "error", "a message longer than its batch", f"payload[{number}].payload_size"))
            return slots
        _add(slots, single, start, stop)
    if count > room < limits.elements_max:
        note(Problem("limit", "error", RECORDS_SPENT, "payload", size=end - at))
    elif count > limits.elements_max:
        note(Problem("limit", "error", "a batch of more messages than elements_max", "payload", size=end - at))
    elif at < end:
        note(Problem("trailing_bytes", "warning", "bytes after the last message of a batch", "payload", size=end - at))
    return slots


def _add(slots: Slots, single: Single, start: int, stop: int) -> None:
    size, key, flags, event_time, sequence, ordering_key = single
    slots.starts.append(-1 if flags & NULL_VALUE else stop)
    slots.stops.append(stop + size)
    slots.keys.append(plain_key(key, flags) if flags else key)
    slots.flags.append(flags)
    slots.event_times.append(event_time)
    slots.sequences.append(sequence)
    slots.ordering_keys.append(ordering_key)
    slots.singles.append((start, stop))


def plain_key(key: bytes | None, flags: int) -> bytes | None:
    """A partition key as the application set it."""
    if key is None or flags & NULL_KEY:
        return None
    if flags & KEY_IN_BASE64:
        try:
            return a2b_base64(key, strict_mode=True)
        except Base64Error:
            return key
    return key


def flag_value(flags: int, flag: int) -> bool | None:
    """The value of a boolean field; None if it was not on the wire."""
    return bool(flags & flag) if flags & flag * PRESENT else None


# ---- one message, fast and slow


def _read_single(data: bytes, at: int, stop: int) -> Single:
    """The metadata in ``data[at:stop]``, if all its tags have one byte."""
    size, key, flags = -1, None, 0
    event_time = sequence = ordering_key = None
    while at < stop:
        tag, value = data[at], data[at + 1]
        at += 2
        if value > 0x7F:
            value, at = _long(data, at, value & 0x7F)
        if tag == 0x18:
            size = value
        elif tag == 0x12:
            key = data[at : at + value]
            at += value
        elif tag == 0x40:
            sequence = value
        elif tag == 0x0A:
            _read_pair(data, at, at + value)
            at += value
        elif tag == 0x28:
            event_time = value
        elif tag == 0x3A:
            ordering_key = data[at : at + value]
            at += value
        elif tag in _FLAGS:
            flag = _FLAGS[tag]
            flags = (flags | flag if value else flags & ~flag) | flag * PRESENT
        else:
            raise _UnusualMetadataError
    if at != stop or not 0 <= size < 1 << 31:
        raise _UnusualMetadataError
    return Single(size, key, flags, event_time, sequence, ordering_key)


def _long(data: bytes, at: int, value: int) -> tuple[int, int]:
    """(a varint of several bytes whose first one was read, where it ends)."""
    for shift in range(7, 70, 7):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, at
    raise _UnusualMetadataError


def _read_pair(data: bytes, at: int, stop: int) -> tuple[int, int, int, int]:
    """(start and stop of the key, start and stop of the value) of the property that fills ``data[at:stop]``."""
    if data[at] != 0x0A:
        raise _UnusualMetadataError
    key, size = at + 2, data[at + 1]
    if size > 0x7F:
        size, key = _long(data, key, size & 0x7F)
    at = key + size
    if data[at] != 0x12:
        raise _UnusualMetadataError
    value, length = at + 2, data[at + 1]
    if length > 0x7F:
        length, value = _long(data, value, length & 0x7F)
    if value + length != stop:
        raise _UnusualMetadataError
    return key, key + size, value, stop


def _read_slowly(data: bytes, start: int, stop: int, limits: Limits) -> tuple[Single, list[Problem]]:
    """As ``_read_single`` for any metadata (size -1 if there is none), and their problems."""
    decoded = message_type("SingleMessageMetadata").decode(data, start, stop, limits)
    odd = [problem for problem in decoded.problems if (problem.kind, problem.severity) != ("format", "info")]
    return single_of(decoded.body), odd


def single_of(body: dict[str, Any]) -> Single:
    """The metadata of one message from the fields of MessageMetadata or SingleMessageMetadata."""
    flags = 0
    for name, flag in FLAG_FIELDS.items():
        if name in body:
            flags |= flag * PRESENT | (flag if body[name] else 0)
    key = body.get("partition_key")
    return Single(
        body.get("payload_size", -1),
        key.encode() if isinstance(key, str) else key,
        flags,
        body.get("event_time"),
        body.get("sequence_id"),
        body.get("ordering_key"),
    )


# ---- properties


class SlotProperties(Sequence[list[Property]]):
    """The properties of each message of a batch, decoded on demand."""

    def __init__(self, plain: bytes, singles: Sequence[tuple[int, int]]) -> None:
        self._plain = plain
        self._singles = singles

    def __len__(self) -> int:
        return len(self._singles)

    @overload
    def __getitem__(self, index: int) -> list[Property]: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[list[Property]]: ...
    def __getitem__(self, index: int | slice) -> list[Property] | Sequence[list[Property]]:
        if isinstance(index, slice):
            return SlotProperties(self._plain, self._singles[index])
        start, stop = self._singles[index]
        try:
            return list(_read_properties(self._plain, start, stop))
        except _STUMBLES:
            return properties_of(message_type("SingleMessageMetadata").decode(self._plain, start, stop).body)


def property_spans(data: bytes, singles: Sequence[tuple[int, int]]) -> HeaderSpans | None:
    """Places of the properties in metadata at ``singles``; None if any is not in the form that clients write."""
    counts: list[int] = []
    places: list[int] = []
    try:
        for start, stop in singles:
            before = len(places)
            for place in _property_places(data, start, stop):
                places += place
            counts.append((len(places) - before) // 4)
    except _STUMBLES:
        return None
    return HeaderSpans(counts, places)


def _read_properties(data: bytes, at: int, stop: int) -> Iterator[Property]:
    """The properties in metadata that ``_read_single`` can read."""
    for key, key_stop, text, text_stop in _property_places(data, at, stop):
        yield _text(data[key:key_stop]), data[text:text_stop]


def _property_places(data: bytes, at: int, stop: int) -> Iterator[tuple[int, int, int, int]]:
    while at < stop:
        tag, value = data[at], data[at + 1]
        at += 2
        if value > 0x7F:
            value, at = _long(data, at, value & 0x7F)
        if tag == 0x0A:
            yield _read_pair(data, at, at + value)
        if tag & 7 == 2:
            at += value
        elif tag & 7:
            raise _UnusualMetadataError


def properties_of(body: dict[str, Any]) -> list[Property]:
    """The properties in decoded metadata."""
    return [(_text(_raw(pair.get("key", ""))), _raw(pair.get("value", ""))) for pair in body.get("properties", ())]


def _raw(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode()


def _text(data: bytes) -> str:
    return data.decode(errors="backslashreplace")
