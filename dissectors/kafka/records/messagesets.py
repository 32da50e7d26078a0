"""Message sets of magic 0 and 1 in, batches out: a wrapper with what it wraps, or a run of plain messages of one magic.

    offset int64 | size int32 | crc uint32 | magic int8 | attributes int8 | timestamp int64 (magic 1) | key | value

1. ``size`` counts from the checksum on; the checksum, a CRC-32, covers all behind it.
2. The value of a compressed message is a message set. Its offsets are absolute (magic 0) or count from a base (magic
   1): the wrapper has the last one's, or 0 where some versions of librdkafka wrote it, which makes the base 0. Where
   the last one is missing, nobody knows the base, and the records have no offsets.
3. The wrapper's time counts for all that it wraps where it is the broker's (log append time).
4. Wrappers are opened always, as nothing else tells how many messages are in them.
5. A wrapper inside a wrapper is not opened: Kafka refuses it too.

Sources: Apache Kafka, ``LegacyRecord``, ``AbstractLegacyRecordBatch``, ``RecordsUtil``.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Any, Final, NamedTuple
from zlib import crc32

from dissectors.kafka.records.compression import CODEC_MASK, codec_name, plain_records
from dissectors.kafka.records.reading import Batch, Reading, int64, time_ns
from mqsniff.codecs.blocks import CUT as PACKED_CUT
from mqsniff.codecs.blocks import TOO_LARGE
from mqsniff.model import RecordBatch
from mqsniff.spec.wire import CUT, Malformed, read_length

HEAD: Final = Struct(">qiIbb")
"""Offset, size, checksum, magic, attributes."""
OVERHEAD: Final = 12
"""Bytes before those that ``size`` counts."""
SIZE_MIN: Final = (14, 22)
"""The smallest message of each magic, as ``size`` counts it."""
RUN_MAX: Final = 1 << 16
"""Messages of one run: what is remembered of each takes half a kilobyte while the run is read."""
LOG_APPEND: Final = 0x08

_INT64: Final = Struct(">q")


class LegacyMessage(NamedTuple):
    """A message; places are offsets in the data, -1 for null."""

    offset: int
    size: int
    crc: int
    magic: int
    attributes: int
    timestamp: int
    key: tuple[int, int]
    value: tuple[int, int]
    checksum_ok: bool | None
    """None where it is cut."""
    stop: int

    @property
    def compressed(self) -> bool:
        """Whether it is a wrapper."""
        return self.attributes & CODEC_MASK != 0


def read_messages(reading: Reading, pos: int) -> int:
    """Read the wrapper, or the run of plain messages, that starts at ``pos``; gives the place behind it.

    There are 17 bytes at ``pos`` at least, and the magic among them is 0 or 1.
    """
    data, end = reading.data, reading.stop
    first = _first(reading, pos)
    if isinstance(first, int):
        return first
    if first.compressed:
        _add_wrapper(reading, first, pos)
        return first.stop
    run, stop = [first], first.stop
    while stop + 17 <= end and data[stop + 16] == first.magic and len(run) < RUN_MAX and _stop(data, stop) <= end:
        try:
            message = read_message(data, stop, end)
        except Malformed:
            break
        if message.compressed:
            break
        run.append(message)
        stop = message.stop
    _add_run(reading, run, pos)
    return stop


def _first(reading: Reading, pos: int) -> LegacyMessage | int:
    """The message at ``pos``; where none can be read, and that is told, the place behind what stands there."""
    data, end = reading.data, reading.stop
    stop = _stop(data, pos)
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
    head: dict[str, Any] = {"offset": _INT64.unpack_from(data, pos)[0], "message_size": stop - pos - OVERHEAD}
    reading.batches.append(Batch(head | {"magic": data[pos + 16]}, pos, end))
    return end


def _stop(data: bytes, pos: int) -> int:
    """Where the message at ``pos`` says that it ends."""
    return pos + OVERHEAD + int.from_bytes(data[pos + 8 : pos + 12], "big", signed=True)


def read_message(data: bytes, pos: int, end: int) -> LegacyMessage:
    """Read the message at ``pos``. Of one that is cut all that matters has to be there: some of a wrapper's value."""
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
    """((where bytes start, where they stop), the place behind them), in a message that goes on to ``stop``."""
    size, pos = read_length(data, pos, there, compact=False)
    if size == -1:
        return (-1, -1), pos
    if size < 0:
        raise Malformed("negative length")
    if size > stop - pos:
        raise Malformed("length beyond the message")
    return (pos, pos + size), pos + size


# ---- a run of plain messages


def _add_run(reading: Reading, run: list[LegacyMessage], pos: int) -> None:
    _note_checksums(reading, run)
    batch = Batch(
        {
            "base_offset": run[0].offset,
            "last_offset": run[-1].offset,
            "size": run[-1].stop - pos,
            "magic": run[0].magic,
            "codec": "none",
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


def _note_checksums(reading: Reading, run: list[LegacyMessage]) -> None:
    wrong = [index for index, message in enumerate(run) if message.checksum_ok is False]
    if wrong:
        path = f"messages[{wrong[0]}].crc"
        reading.note("checksum", "error", f"the CRC-32 of {len(wrong)} of {len(run)} messages does not fit", path)


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
    if all(message.checksum_ok for message in run):
        constant["checksum_ok"] = outer_ok
    else:
        batch.columns["checksum_ok"] = [outer_ok and message.checksum_ok for message in run]
    batch.keys = [message.key[0] for message in run], [message.key[1] for message in run]
    batch.values = [message.value[0] for message in run], [message.value[1] for message in run]
    return batch


# ---- a wrapper


def _add_wrapper(reading: Reading, wrapper: LegacyMessage, pos: int) -> None:
    """Open a wrapper; of one that is cut or damaged, the messages that are whole."""
    if wrapper.checksum_ok is False:
        reading.note("checksum", "error", "the CRC-32 of the wrapper does not fit", "crc")
    plain, run, complete = _opened(reading, wrapper)
    _note_checksums(reading, run)
    offsets = _offsets(wrapper, run, complete=complete)
    head: dict[str, Any] = {"base_offset": offsets[0]} if offsets else {}
    head |= {"offset": wrapper.offset, "message_size": wrapper.size, "crc": wrapper.crc}
    head |= {"magic": wrapper.magic, "attributes": wrapper.attributes}
    if wrapper.magic:
        head["timestamp"] = wrapper.timestamp
    head |= {"codec": codec_name(wrapper.attributes), "checksum_ok": wrapper.checksum_ok, "records": len(run)}
    batch = Batch(head, pos, wrapper.stop, *((offsets[0], offsets[-1]) if offsets else (0, -1)))
    if reading.open_records and run:
        constant = {"codec": head["codec"], "base_offset": head.get("base_offset"), "batch_index": len(reading.batches)}
        if wrapper.magic and wrapper.attributes & LOG_APPEND:
            constant["record_ts"] = constant["store_ts"] = time_ns(wrapper.timestamp)
        outer_ok = wrapper.checksum_ok is not False
        batch.records = _columns(plain, run, offsets or [None] * len(run), constant, outer_ok=outer_ok)
    reading.batches.append(batch)


def _offsets(wrapper: LegacyMessage, run: list[LegacyMessage], *, complete: bool) -> list[int]:
    """The messages' offsets by rule 2; none where they cannot be known."""
    if not (wrapper.magic and wrapper.offset and run):
        return [message.offset for message in run]
    base = wrapper.offset - run[-1].offset
    return [int64(base + message.offset) for message in run] if complete else []


def _opened(reading: Reading, wrapper: LegacyMessage) -> tuple[bytes, list[LegacyMessage], bool]:
    """(the plain bytes, the messages in them that are whole, whether these are all)."""
    start, stop = wrapper.value
    if start < 0:
        reading.note("malformed", "error", "a compressed message without a value", "value")
        return b"", [], False
    plain, why = plain_records(wrapper.attributes, reading.data[start:stop], reading.plain_left)
    reading.plain_left -= len(plain)
    cut = wrapper.checksum_ok is None
    if why is not None and not (cut and why == PACKED_CUT):
        reading.note("limit" if why == TOO_LARGE else "codec", "error", why, "value")
    if cut:
        reading.note("truncated", "error", "the capture lost the rest of a compressed message", "value")
    run: list[LegacyMessage] = []
    pos, end = 0, len(plain)
    while pos < end and len(run) < reading.records_left:
        try:
            message = _read_inner(plain, pos, end)
        except Malformed as error:
            if why is None and not cut:
                reading.note("malformed", "error", str(error), f"messages[{len(run)}]", size=end - pos)
            break
        run.append(message)
        pos = message.stop
    else:
        if pos < end:
            reading.note("limit", "error", "more records in one field than elements_max", size=end - pos)
    reading.records_left -= len(run)
    return plain, run, pos == end and why is None and not cut


def _read_inner(plain: bytes, pos: int, end: int) -> LegacyMessage:
    message = read_message(plain, pos, end)
    if message.compressed:
        raise Malformed("a compressed message inside another")
    return message
