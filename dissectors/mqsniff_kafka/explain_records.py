"""A field of record data in, a span for every field of its batches and records out; secrets stay secrets.

1. Spans tile the field; inside a compressed batch they tile its plain bytes (``OpenedBytes``).
2. The value of a record that holds a secret is a Secret, as in the table ``records``; so are bytes that may hold one
   and that nobody can read.
3. Keys, values and headers of records are marked as payload.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Any, Final, NamedTuple

from mqsniff.limits import Limits
from mqsniff.model import OpenedBytes, PayloadChecksum, RecordBatch, Secret, Span, Undecoded, Value, payload
from mqsniff.spec.wire import Malformed, read_length, read_varint, read_varlong, text_or_bytes
from mqsniff_kafka.records.batches import CONTROL, HEAD_FIELDS, MAGIC, MAGIC_AT, TRANSACTIONAL, read_batches
from mqsniff_kafka.records.compression import CODEC_MASK, codec_name, plain_records
from mqsniff_kafka.records.messagesets import SIZE_MIN, message_stop
from mqsniff_kafka.records.reading import Batch, RecordDataReading, timestamp_type
from mqsniff_kafka.records.secrets import hide_secrets, may_hold_secret

_HEAD_CODES: Final = "qiibIhiqqqhii"
_MESSAGE_FIELDS: Final = (("offset", "q"), ("message_size", "i"), ("crc", "I"), ("magic", "b"), ("attributes", "b"))
_ADD: Final = {
    "batch_length": "bytes that follow",
    "last_offset_delta": "last offset - base_offset",
    "base_timestamp": "milliseconds since 1970",
    "max_timestamp": "milliseconds since 1970",
}
_WRAPPERS_MAX: Final = 4
"""Compressed messages inside each other that are opened."""


class _Field(NamedTuple):
    """What is known of the whole field while its batches are told."""

    path: str
    reading: RecordDataReading
    doubtful: bool
    """Whether bytes of it that nobody can read may hold a secret."""
    limits: Limits


def record_spans(data: bytes, place: tuple[int, int], path: str, topic: Value, limits: Limits) -> Iterator[Span]:
    """Spans of the batches in ``data[start:stop]``; ``topic``: its name, or its id where that is all."""
    start, stop = place
    reading = read_batches(data, start, stop, decompress_max=limits.decompress_max, open_records=True, lost=True)
    name = topic if isinstance(topic, str) else None
    hide_secrets(reading, name)
    field = _Field(path, reading, may_hold_secret(reading, name), limits)
    at = start
    for index, batch in enumerate(reading.batches):
        if batch.start > at:
            yield _unread(field, path, at, batch.start)
        yield from _batch(field, f"{path}.batches[{index}]", batch)
        at = batch.stop
    if at < stop:
        yield _unread(field, path, at, stop)


def _unread(field: _Field, path: str, start: int, stop: int, meaning: str = "undecoded") -> Span:
    """Bytes that are no batch, or of which the rest was left out."""
    raw = field.reading.data[start:stop]
    return Span(path, start, stop, Secret(raw) if field.doubtful else Undecoded(raw), meaning)


def _batch(field: _Field, path: str, batch: Batch) -> Iterator[Span]:
    data, start, stop = field.reading.data, batch.start, batch.stop
    hidden = _hidden(batch.records, doubtful=field.doubtful)
    if "undecoded" in batch.head or stop - start <= MAGIC_AT:
        yield _unread(field, path, start, stop)
    elif data[start + MAGIC_AT] == MAGIC:
        at = start
        for span in _head(data, path, batch):
            yield span
            at = span.stop
        if at < stop:
            yield from _records(field, path, batch, at, hidden)
    else:
        messages = _Messages(data, any(map(hidden, range(_count(batch.records)))) or field.doubtful, field.limits)
        yield from messages.spans(start, stop, path, "" if "message_size" in batch.head else ".records")


def _count(records: RecordBatch | None) -> int:
    return records.count if records is not None else 0


def _hidden(records: RecordBatch | None, *, doubtful: bool) -> Callable[[int], bool]:
    """Tells of a record by its index whether its value holds a secret; if none were read, all may."""
    if records is None and doubtful:
        return lambda _: True
    encodings: Sequence[Any] = records.columns.get("value_encoding", ()) if records is not None else ()
    return lambda index: index < len(encodings) and encodings[index] == "redacted"


# ---- magic 2


def _head(data: bytes, path: str, batch: Batch) -> Iterator[Span]:
    at = batch.start
    for name, code in zip(HEAD_FIELDS, _HEAD_CODES, strict=True):
        reader = Struct(">" + code)
        if at + reader.size > batch.stop:
            if at < batch.stop:
                yield Span(f"{path}.{name}", at, batch.stop, Undecoded(data[at : batch.stop]), "undecoded")
            return
        (value,) = reader.unpack_from(data, at)
        shown = PayloadChecksum(value) if name == "crc" else value
        yield Span(f"{path}.{name}", at, at + reader.size, shown, _head_meaning(name, value, batch))
        at += reader.size


def _head_meaning(name: str, value: int, batch: Batch) -> str:
    match name:
        case "crc":
            return _fits("CRC-32C of all that follows", checksum_ok=batch.head.get("checksum_ok"))
        case "attributes":
            said = [codec_name(value), timestamp_type(value)]
            said += ["transactional"] if value & TRANSACTIONAL else []
            said += ["control"] if value & CONTROL else []
            return ", ".join(said)
        case "producer_id" | "producer_epoch" | "base_sequence" if value == -1:
            return "none"
    return _ADD.get(name, "")


def _fits(what: str, *, checksum_ok: bool | None) -> str:
    if checksum_ok is None:
        return what
    return f"{what}: it fits" if checksum_ok else f"{what}: it does not fit"


def _records(field: _Field, path: str, batch: Batch, at: int, hidden: Callable[[int], bool]) -> Iterator[Span]:
    """The records of a batch; of a compressed one, the span of all, with them inside."""
    data, stop = field.reading.data, batch.stop
    attributes, count = batch.head["attributes"], max(batch.head["records"], 0)
    read = _Records(hidden, field.doubtful, control=bool(attributes & CONTROL))
    if not attributes & CODEC_MASK:
        yield from read.spans(data, (at, stop), path, count)
        return
    plain, why = plain_records(attributes, data[at:stop], field.limits.decompress_max)
    codec = codec_name(attributes)
    inside = OpenedBytes(codec, plain, tuple(read.spans(plain, (0, len(plain)), path, count))) if plain else None
    value: Value = stop - at
    if inside is None:
        value = Secret(data[at:stop]) if field.doubtful else Undecoded(data[at:stop])
    meaning = f"{count} records in {codec}" + (f": {why}" if why is not None else f", {len(plain)} bytes when opened")
    yield Span(f"{path}.records", at, stop, value, meaning, inside)


@dataclass(slots=True)
class _Records:
    """Takes records of magic 2 apart."""

    hidden: Callable[[int], bool]
    doubtful: bool
    control: bool

    def spans(self, data: bytes, place: tuple[int, int], path: str, count: int) -> Iterator[Span]:
        """Spans of ``count`` records; what is none, and what follows them, is undecoded."""
        at, stop = place
        for index in range(count):
            try:
                found = self._record(data, at, stop, f"{path}.records[{index}]", secret=self.hidden(index))
            except Malformed:
                break
            yield from found
            at = found[-1].stop
        if at < stop:
            raw = data[at:stop]
            yield Span(f"{path}.records", at, stop, Secret(raw) if self.doubtful else Undecoded(raw), "undecoded")

    def _record(self, data: bytes, at: int, end: int, path: str, *, secret: bool) -> list[Span]:
        size, pos = read_varint(data, at, end)
        stop = pos + size
        if size < 1 or stop > end:
            raise Malformed("no record")
        out = [Span(f"{path}.length", at, pos, size, "bytes that follow")]
        out.append(Span(f"{path}.attributes", pos, pos + 1, data[pos]))
        pos += 1
        for name, read, meaning in (
            ("timestamp_delta", read_varlong, "timestamp - base_timestamp"),
            ("offset_delta", read_varint, "offset - base_offset"),
        ):
            number, after = read(data, pos, stop)
            out.append(Span(f"{path}.{name}", pos, after, number, meaning))
            pos = after
        for name in ("key", "value"):
            span = _sized(data, pos, stop, f"{path}.{name}", secret=secret and name == "value")
            out.append(span._replace(meaning="control record") if self.control else span)
            pos = span.stop
        out += self._headers(data, pos, stop, path)
        if out[-1].stop != stop:
            raise Malformed("record of another size than its fields")
        return out

    def _headers(self, data: bytes, pos: int, stop: int, path: str) -> list[Span]:
        count, after = read_varint(data, pos, stop)
        if not 0 <= 2 * count <= stop - after:
            raise Malformed("more headers than bytes")
        out = [Span(f"{path}.headers", pos, after, count, "count")]
        for index in range(count):
            for name in ("key", "value"):
                span = _sized(data, out[-1].stop, stop, f"{path}.headers[{index}].{name}", plain=name == "key")
                out.append(span)
        return out


def _sized(data: bytes, at: int, stop: int, path: str, *, secret: bool = False, plain: bool = False) -> Span:
    """Bytes after their length, as a varint; ``plain``: a name, no payload."""
    size, pos = read_varint(data, at, stop)
    if size == -1:
        return Span(path, at, pos, None)
    if not 0 <= size <= stop - pos:
        raise Malformed("length beyond the record")
    return Span(path, at, pos + size, _content(data[pos : pos + size], secret=secret, plain=plain))


def _content(raw: bytes, *, secret: bool, plain: bool = False) -> Value:
    if secret:
        return Secret(raw)
    return text_or_bytes(raw) if plain else payload(raw)


# ---- magic 0 and 1


@dataclass(slots=True)
class _Messages:
    """Takes messages of magic 0 and 1 apart; of a compressed one, those inside."""

    data: bytes
    secret: bool
    """Whether any of them holds a secret: then all values count as one."""
    limits: Limits
    depth: int = 0

    def spans(self, start: int, stop: int, path: str, list_name: str) -> Iterator[Span]:
        """Spans of the messages in ``data[start:stop]``, in the list ``path.records``, or of the one at ``path``."""
        at, index = start, 0
        while at < stop:
            where = f"{path}{list_name}[{index}]" if list_name else path
            found: list[Span] = []
            try:
                found.extend(self._message(at, stop, where))
            except Malformed:
                if self._is_cut(at, stop):  # ``extend`` kept what is there of it
                    yield from found
                    at = found[-1].stop
                break
            yield from found
            at, index = found[-1].stop, index + 1
        if at < stop:
            raw = self.data[at:stop]
            yield Span(path, at, stop, Secret(raw) if self.secret else Undecoded(raw), "undecoded")

    def _message(self, at: int, end: int, path: str) -> Iterator[Span]:
        data, start = self.data, at
        numbers: dict[str, int] = {}
        for name, code in _MESSAGE_FIELDS:
            reader = Struct(">" + code)
            if at + reader.size > end:
                raise Malformed("no message")
            (numbers[name],) = reader.unpack_from(data, at)
            shown = PayloadChecksum(numbers[name]) if name == "crc" else numbers[name]
            yield Span(f"{path}.{name}", at, at + reader.size, shown, self._meaning(name, numbers[name]))
            at += reader.size
        if numbers["magic"] not in (0, 1) or numbers["message_size"] < SIZE_MIN[numbers["magic"]]:
            raise Malformed("no message")
        stop = message_stop(data, start)
        there = min(stop, end)
        if numbers["magic"]:
            if there - at < 8:
                raise Malformed("no message")
            yield Span(f"{path}.timestamp", at, at + 8, int.from_bytes(data[at : at + 8], "big", signed=True), "ms")
            at += 8
        for name in ("key", "value"):
            attributes = numbers["attributes"] if name == "value" else 0
            span = self._field((at, there, stop), f"{path}.{name}", attributes)
            yield span
            at = span.stop
        if at != there:
            raise Malformed("message of another size than its fields")

    def _is_cut(self, at: int, end: int) -> bool:
        """Whether a message goes on behind ``end``: the broker cut it, or the capture lost the rest."""
        return end - at > MAGIC_AT and self.data[at + MAGIC_AT] in (0, 1) and message_stop(self.data, at) > end

    def _meaning(self, name: str, value: int) -> str:
        match name:
            case "message_size":
                return "bytes that follow"
            case "crc":
                return "CRC-32 of all that follows"
            case "attributes":
                return codec_name(value)
        return ""

    def _field(self, place: tuple[int, int, int], path: str, attributes: int) -> Span:
        """A key, or a value; that of a wrapper with the messages inside, as far as they are there.

        ``place``: its start, how far the message is there, and the message's end.
        """
        at, there, stop = place
        size, pos = read_length(self.data, at, there, compact=False)
        if size == -1:
            return Span(path, at, pos, None)
        if size < 0 or pos + size > stop or (pos + size > there and not attributes & CODEC_MASK):
            raise Malformed("length beyond the message")
        raw = self.data[pos : min(pos + size, there)]
        size = len(raw)
        is_value = path.endswith(".value")
        if not attributes & CODEC_MASK or self.depth >= _WRAPPERS_MAX:
            return Span(path, at, pos + size, _content(raw, secret=self.secret and is_value))
        plain, why = plain_records(attributes, raw, self.limits.decompress_max)
        codec = codec_name(attributes)
        inner = _Messages(plain, self.secret, self.limits, self.depth + 1)
        spans = tuple(inner.spans(0, len(plain), path.removesuffix(".value"), ".records"))
        if not plain:
            return Span(path, at, pos + size, Secret(raw) if self.secret else Undecoded(raw), why or "")
        meaning = f"messages in {codec}, {why or f'{len(plain)} bytes when opened'}"
        return Span(path, at, pos + size, size, meaning, OpenedBytes(codec, plain, spans))
