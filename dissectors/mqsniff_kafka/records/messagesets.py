"""Message sets of magic 0 and 1: a wrapper and its messages, or a run of plain messages, each as a batch.

    offset int64 | size int32 | crc uint32 | magic int8 | attributes int8 | timestamp int64 (magic 1) | key | value

1. ``size`` counts from the checksum on; the checksum, a CRC-32, covers all bytes after it.
2. The value of a compressed message (a wrapper) is a message set. Its offsets are absolute (magic 0) or relative (magic
   1): the wrapper has the absolute offset of the last message. Some versions of librdkafka write 0, then the base is 0.
   If the last message is missing, the base is unknown, and the records have no offsets.
3. If the wrapper has the broker's time (log append time), all its messages have it.
4. Wrappers are always opened: nothing else tells the number of their messages.
5. A wrapper inside a wrapper is opened too, down to ``wrapper_depth`` levels, with a problem, as brokers refuse it. Its
   messages take its place, with offsets and times as if it stood alone; bodies show its head under ``wrapped``.
6. The messages of a run have the same magic and attributes. Size, CRC and time of each are columns of its record:
   bodies show one head for a run.

Sources: Apache Kafka, ``LegacyRecord``, ``AbstractLegacyRecordBatch``, ``RecordsUtil``.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Any, Final, NamedTuple
from zlib import crc32

from mqsniff.codecs.blocks import CUT as PACKED_CUT
from mqsniff.codecs.blocks import TOO_LARGE
from mqsniff.model import PayloadChecksum, RecordBatch
from mqsniff.spec.wire import CUT, Malformed, read_length
from mqsniff_kafka.records.compression import CODEC_MASK, codec_name, plain_records
from mqsniff_kafka.records.reading import LOG_APPEND, Batch, RecordDataReading, int64, time_ns, timestamp_type

HEAD: Final = Struct(">qiIbb")
"""Offset, size, checksum, magic, attributes."""
OVERHEAD: Final = 12
"""Bytes before those that ``size`` counts."""
SIZE_MIN: Final = (14, 22)
"""Smallest ``size`` of each magic."""
RUN_MAX: Final = 1 << 16
"""Most messages of one run: each takes half a kilobyte of memory while the run is read."""
WRAPPED_MAX: Final = 64
"""Inner wrappers whose heads are shown."""

_INT64: Final = Struct(">q")
_CUT_HEAD: Final = Struct(">qiI")


class LegacyMessage(NamedTuple):
    """A message; spans are offsets in the data, -1 for null."""

    offset: int
    size: int
    crc: int
    magic: int
    attributes: int
    timestamp: int
    key: tuple[int, int]
    value: tuple[int, int]
    checksum_ok: bool | None
    """None if it is cut."""
    stop: int

    @property
    def compressed(self) -> bool:
        """Whether it is a wrapper."""
        return self.attributes & CODEC_MASK != 0


def read_messages(reading: RecordDataReading, pos: int) -> int:
    """Read the wrapper, or the run of plain messages, at ``pos``; returns the offset after it.

    There are at least 17 bytes at ``pos``, with magic 0 or 1.
    """
    data, end = reading.data, reading.stop
    first = _first(reading, pos)
    if isinstance(first, int):
        return first
    if first.compressed:
        _add_wrapper(reading, first, pos)
        return first.stop
    run, stop = [first], first.stop
    kind = data[pos + 16 : pos + 18]
    while (
        stop + 18 <= end
        and data[stop + 16 : stop + 18] == kind
        and len(run) < RUN_MAX
        and message_stop(data, stop) <= end
    ):
        try:
            message = read_message(data, stop, end)
        except Malformed:
            break
        run.append(message)
        stop = message.stop
    _add_run(reading, run, pos)
    return stop


def _first(reading: RecordDataReading, pos: int) -> LegacyMessage | int:
    """The message at ``pos``; if it cannot be read, notes why and returns the offset after it."""
    data, end = reading.data, reading.stop
    stop = message_stop(data, pos)
    if stop < pos + OVERHEAD + SIZE_MIN[0]:
        return reading.give_up(pos, "malformed", "no message")
    if stop > end:
        reading.cut = end - pos
    if stop <= end or reading.lost:
        try:
            return read_message(data, pos, end)
        except Malformed as error:
            if stop <= end:
                reading.note("malformed", "error", str(error), size=stop - pos)
                return reading.pass_over(pos, stop)
    reading.add_cut(Batch(_cut_head(data, pos, end), pos, end))
    return end


def _cut_head(data: bytes, pos: int, end: int) -> dict[str, Any]:
    """The captured part of a cut message's head: at least 17 bytes."""
    offset, size, crc = _CUT_HEAD.unpack_from(data, pos)
    head: dict[str, Any] = {
        "offset": offset,
        "message_size": size,
        "crc": PayloadChecksum(crc),
        "magic": data[pos + 16],
    }
    if end - pos < HEAD.size:
        return head
    head |= _attributes_told(head["magic"], data[pos + 17])
    if head["magic"] and end - pos >= HEAD.size + 8:
        head["timestamp"] = _INT64.unpack_from(data, pos + HEAD.size)[0]
    return head


def _attributes_told(magic: int, attributes: int) -> dict[str, Any]:
    """The attributes of messages, by name; messages of magic 0 have no time."""
    named = {"attributes": attributes, "timestamp_type": timestamp_type(attributes) if magic else None}
    return named | {"codec": codec_name(attributes)}


def message_stop(data: bytes, pos: int) -> int:
    """End of the message at ``pos`` by its size."""
    return pos + OVERHEAD + int.from_bytes(data[pos + 8 : pos + 12], "big", signed=True)


def read_message(data: bytes, pos: int, end: int) -> LegacyMessage:
    """Read the message at ``pos``; one that is cut must be a wrapper with a part of its value."""
    if end - pos < HEAD.size:
        raise Malformed(CUT)
    offset, size, crc, magic, attributes = HEAD.unpack_from(data, pos)
    stop = pos + OVERHEAD + size
    if magic not in (0, 1) or size < SIZE_MIN[magic]:
        raise Malformed("message too short")
    at, timestamp = pos + HEAD.size, -1
    there = min(stop, end)
    if magic:
        if there - at < 8:
            raise Malformed(CUT)
        (timestamp,) = _INT64.unpack_from(data, at)
        at += 8
    key, at = _read_span(data, at, there, stop)
    value, at = _read_span(data, at, there, stop)
    if at != stop:
        raise Malformed("message of another size than its fields")
    whole = stop <= end
    if not (whole or attributes & CODEC_MASK):
        raise Malformed(CUT)
    checksum_ok = crc32(memoryview(data)[pos + 16 : stop]) == crc if whole else None
    value = (value[0], min(value[1], there))
    return LegacyMessage(offset, size, crc, magic, attributes, timestamp, key, value, checksum_ok, there)


def _read_span(data: bytes, pos: int, there: int, stop: int) -> tuple[tuple[int, int], int]:
    """((start, stop) of bytes with a length, offset after them), in a message that ends at ``stop``."""
    size, pos = read_length(data, pos, there, compact=False)
    if size == -1:
        return (-1, -1), pos
    if size < 0:
        raise Malformed("negative length")
    if size > stop - pos:
        raise Malformed("length beyond the message")
    return (pos, pos + size), pos + size


# ---- a run of plain messages


def _add_run(reading: RecordDataReading, run: list[LegacyMessage], pos: int) -> None:
    _note_checksums(reading, run)
    batch = Batch(
        {
            "base_offset": run[0].offset,
            "last_offset": run[-1].offset,
            "size": run[-1].stop - pos,
            "magic": run[0].magic,
            **_attributes_told(run[0].magic, run[0].attributes),
            "checksum_ok": all(message.checksum_ok for message in run),
            "records": len(run),
        },
        pos,
        run[-1].stop,
        run[0].offset,
        run[-1].offset,
    )
    if reading.open_records and reading.take_records(len(run)) == len(run):
        constant = {"codec": "none", "base_offset": run[0].offset, "batch_index": len(reading.batches)}
        batch.records = _columns(reading.data, run, [message.offset for message in run], constant)
    reading.batches.append(batch)


def _note_checksums(reading: RecordDataReading, run: list[LegacyMessage]) -> None:
    wrong = [index for index, message in enumerate(run) if message.checksum_ok is False]
    if wrong:
        path = f"messages[{wrong[0]}].crc"
        reading.note("checksum", "error", f"the CRC-32 of {len(wrong)} of {len(run)} messages does not match", path)


def _columns(
    data: bytes,
    run: list[LegacyMessage],
    offsets: Sequence[int | None],
    constant: dict[str, Any],
    *,
    outer_ok: bool = True,
) -> RecordBatch:
    batch = RecordBatch(data, len(run), constant)
    batch.columns = {"offset": offsets}
    if "record_ts" not in constant:
        batch.columns["record_ts"] = [time_ns(message.timestamp) for message in run]
        if any(message.attributes & LOG_APPEND for message in run):
            appended = (message.timestamp if message.attributes & LOG_APPEND else -1 for message in run)
            batch.columns["store_ts"] = list(map(time_ns, appended))
    batch.columns["crc"] = [message.crc for message in run]
    batch.columns["message_size"] = [message.size for message in run]
    kinds = {(message.magic, message.attributes) for message in run}
    if len(kinds) == 1:
        constant["attributes"] = run[0].attributes
        constant.setdefault("timestamp_type", _time_by(run[0]))
    else:
        batch.columns["attributes"] = [message.attributes for message in run]
        if "timestamp_type" not in constant:
            batch.columns["timestamp_type"] = [_time_by(message) for message in run]
    if all(message.checksum_ok for message in run):
        constant["checksum_ok"] = outer_ok
    else:
        batch.columns["checksum_ok"] = [outer_ok and message.checksum_ok for message in run]
    batch.keys = [message.key[0] for message in run], [message.key[1] for message in run]
    batch.values = [message.value[0] for message in run], [message.value[1] for message in run]
    return batch


def _time_by(message: LegacyMessage) -> str | None:
    return timestamp_type(message.attributes) if message.magic else None


# ---- a wrapper


class _Opened(NamedTuple):
    """The content of a wrapper."""

    plain: bytes
    run: list[LegacyMessage]
    """Its whole messages, with those of inner wrappers in their place; spans are offsets in ``plain``."""
    complete: bool
    """Whether these are all messages."""
    wrapped: list[dict[str, Any]]
    """Heads of the inner wrappers."""


def _add_wrapper(reading: RecordDataReading, wrapper: LegacyMessage, pos: int) -> None:
    """Open a wrapper; if it is cut or damaged, its whole messages are given."""
    opened = _opened(reading, reading.data, wrapper, 1, "")
    run = opened.run
    _note_checksums(reading, run)
    offsets = _offsets(wrapper, opened)
    head = _wrapper_head(wrapper, opened, offsets)
    batch = Batch(head, pos, wrapper.stop, *((offsets[0], offsets[-1]) if offsets else (0, -1)))
    if reading.open_records and run:
        constant = {"codec": head["codec"], "base_offset": head.get("base_offset"), "batch_index": len(reading.batches)}
        if wrapper.magic and wrapper.attributes & LOG_APPEND:
            constant["record_ts"] = constant["store_ts"] = time_ns(wrapper.timestamp)
            constant["timestamp_type"] = head["timestamp_type"]
        outer_ok = wrapper.checksum_ok is not False
        batch.records = _columns(opened.plain, run, offsets or [None] * len(run), constant, outer_ok=outer_ok)
    reading.batches.append(batch)


def _wrapper_head(wrapper: LegacyMessage, opened: _Opened, offsets: list[int]) -> dict[str, Any]:
    """The head of a wrapper, as bodies show it."""
    head: dict[str, Any] = {"base_offset": offsets[0]} if offsets else {}
    head |= {
        "offset": wrapper.offset,
        "message_size": wrapper.size,
        "crc": PayloadChecksum(wrapper.crc),
        "magic": wrapper.magic,
    }
    head |= _attributes_told(wrapper.magic, wrapper.attributes)
    if wrapper.magic:
        head["timestamp"] = wrapper.timestamp
    head |= {"checksum_ok": wrapper.checksum_ok, "records": len(opened.run)}
    if opened.wrapped:
        head["wrapped"] = opened.wrapped
    return head


def _offsets(wrapper: LegacyMessage, opened: _Opened) -> list[int]:
    """The offsets of the messages (rule 2); empty if unknown."""
    run = opened.run
    if not (wrapper.magic and wrapper.offset and run):
        return [message.offset for message in run]
    base = wrapper.offset - run[-1].offset
    return [int64(base + message.offset) for message in run] if opened.complete else []


def _opened(reading: RecordDataReading, data: bytes, wrapper: LegacyMessage, depth: int, path: str) -> _Opened:
    """Open a wrapper in ``data`` at nesting level ``depth``; ``path``: its path, for problems."""
    start, stop = wrapper.value
    if wrapper.checksum_ok is False:
        reading.note("checksum", "error", "the CRC-32 of the wrapper does not match", f"{path}crc")
    if start < 0:
        reading.note("malformed", "error", "a compressed message without a value", f"{path}value")
        return _Opened(b"", [], complete=False, wrapped=[])
    plain, why = plain_records(wrapper.attributes, data[start:stop], reading.plain_left)
    reading.plain_left -= len(plain)
    cut = wrapper.checksum_ok is None
    if why is not None and not (cut and why == PACKED_CUT):
        reading.note("limit" if why == TOO_LARGE else "codec", "error", why, f"{path}value")
    if cut:
        reading.note("truncated", "error", "the capture lost the rest of a compressed message", f"{path}value")
    opened = _Opened(plain, [], complete=False, wrapped=[])
    return _read_wrapped(reading, opened, depth, path, sound=why is None and not cut)


def _read_wrapped(reading: RecordDataReading, opened: _Opened, depth: int, path: str, *, sound: bool) -> _Opened:
    """Read the messages of an opened wrapper; ``sound``: whether all its bytes are there."""
    plain, run, wrapped = opened.plain, opened.run, opened.wrapped
    added: list[bytes] = []
    size = end = len(plain)
    pos = index = 0
    while pos < end and reading.records_left > 0:
        where = f"{path}messages[{index}]"
        try:
            message = read_message(plain, pos, end)
        except Malformed as error:
            if sound:
                reading.note("malformed", "error", str(error), where, size=end - pos)
            break
        pos, index = message.stop, index + 1
        reading.records_left -= 1
        if not message.compressed:
            run.append(message)
            continue
        inner = _unwrapped(reading, plain, message, depth + 1, where)
        sound = sound and inner.complete
        run += [_moved(one, size) for one in inner.run]
        added.append(inner.plain)
        size += len(inner.plain)
        wrapped += inner.wrapped[: WRAPPED_MAX - len(wrapped)]
    else:
        if pos < end:
            reading.note("limit", "error", "more records in one field than elements_max", size=end - pos)
    whole = b"".join((plain, *added)) if added else plain
    return _Opened(whole, run, pos == end and sound, wrapped)


def _unwrapped(reading: RecordDataReading, data: bytes, wrapper: LegacyMessage, depth: int, path: str) -> _Opened:
    """Open an inner wrapper (rule 5)."""
    if depth > reading.wrapper_depth:
        detail = "more compressed messages inside each other than wrapper_depth"
        reading.note("limit", "error", detail, path, size=wrapper.size)
        return _Opened(b"", [], complete=False, wrapped=[_wrapper_head(wrapper, _NOTHING, [])])
    reading.note("format", "info", "a compressed message inside another, which brokers refuse", path)
    opened = _opened(reading, data, wrapper, depth, f"{path}.")
    offsets = _offsets(wrapper, opened)
    head = _wrapper_head(wrapper, opened, offsets)
    log_append = bool(wrapper.magic and wrapper.attributes & LOG_APPEND)
    run = [
        message._replace(
            offset=offset,
            timestamp=wrapper.timestamp if log_append else message.timestamp,
            checksum_ok=message.checksum_ok and wrapper.checksum_ok,
        )
        for message, offset in zip(opened.run, offsets or [one.offset for one in opened.run], strict=True)
    ]
    return _Opened(opened.plain, run, opened.complete, [head])


def _moved(message: LegacyMessage, by: int) -> LegacyMessage:
    """The message, its spans moved by ``by``."""
    (key, key_stop), (value, value_stop) = message.key, message.value
    return message._replace(
        key=(key + by, key_stop + by) if key >= 0 else (-1, -1),
        value=(value + by, value_stop + by) if value >= 0 else (-1, -1),
    )


_NOTHING: Final = _Opened(b"", [], complete=False, wrapped=[])
