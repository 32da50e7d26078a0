"""Record batches of produced and delivered messages.

1. Values and keys are spans of one buffer: the body on the wire, and decompressed bodies after it.
2. A body that cannot be decompressed stays compressed, with its codec and a problem.
3. Offset, queue and message id of a produced record come from the broker's response (``complete``).
4. A stored message that holds a batch (bits INNER_BATCH and NEED_UNWRAP) gives its inner messages: their queue offsets
   count from its own, and they have its message id and host.

Source: MessageClientIDSetter, MessageDecoder, SendMessageProcessor and PullAPIWrapper of apache/rocketmq.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, overload

from mqsniff.codecs.blocks import CODECS, TOO_LARGE, BlockError, decompress
from mqsniff.codecs.inflation import PLAIN_SPENT, RECORDS_SPENT, InflationBudget
from mqsniff.model import RecordBatch
from mqsniff.spec.wire import as_name
from mqsniff_rocketmq.notes import ProblemNotes
from mqsniff_rocketmq.stored import (
    INNER_BATCH,
    TRANSACTION,
    TRANSACTION_ROLLBACK,
    BatchedMessage,
    StoredMessage,
    codec_of,
    properties_value,
    read_batch,
)

KEYS: Final = "KEYS"
UNIQUE_KEY: Final = "UNIQ_KEY"
PATH: Final = "body"

_MILLISECOND_NS: Final = 1_000_000
_MS_MAX: Final = (1 << 63) // _MILLISECOND_NS
_DELIVER_AT: Final = ("TIMER_DELIVER_MS", "__STARTDELIVERTIME", "TIMER_OUT_MS")
"""Properties with the delivery time of a delayed message, in milliseconds since 1970."""
_DELAYS: Final = {"TIMER_DELAY_MS": 1, "TIMER_DELAY_SEC": 1000}
"""Properties with the delay from the born time, and their unit in milliseconds. Levels of DELAY are configured on the
broker and not known."""

Properties = Mapping[str, Any]
NONE: Final[Properties] = {}


class RecordProperties(Sequence[list[tuple[str, bytes | None]]]):
    """Properties of records, made into pairs on demand."""

    def __init__(self, properties: Sequence[Properties]) -> None:
        self._properties = properties

    def __len__(self) -> int:
        return len(self._properties)

    @overload
    def __getitem__(self, index: int) -> list[tuple[str, bytes | None]]: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[list[tuple[str, bytes | None]]]: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return RecordProperties(self._properties[index])
        return [(name, str(value).encode(errors="surrogatepass")) for name, value in self._properties[index].items()]


class _Buffer:
    """The bytes of values and keys: those of the frame, and decompressed ones after them."""

    def __init__(self, data: bytes, budget: InflationBudget, notes: ProblemNotes) -> None:
        self._parts = [data]
        self._size = len(data)
        self._room = budget.limits.decompress_max
        self._budget = budget
        budget.earn(len(data))
        self._notes = notes

    def add(self, data: bytes) -> tuple[int, int]:
        """Append bytes; returns their (start, stop)."""
        start = self._size
        self._parts.append(data)
        self._size += len(data)
        return start, self._size

    def opened(self, codec: str, body: bytes, path: str) -> bytes | None:
        """The plain bytes of a compressed body; None, with a problem, if it cannot be decompressed."""
        if codec not in CODECS:
            self._notes.note("codec", "error", "a compression type without a name", path)
            return None
        try:
            plain = decompress(codec, body, min(self._room, self._budget.plain_left))
        except BlockError as error:
            self._note_failure(str(error), path)
            return None
        self._room -= len(plain)
        self._budget.spend(len(plain))
        return plain

    def _note_failure(self, why: str, path: str) -> None:
        """Note why a body is not decompressed; the budget is spent by the attempt that it ended."""
        left = self._budget.plain_left
        if why == TOO_LARGE and left < self._room:
            self._budget.spend(left)
            self._notes.note("limit", "error", PLAIN_SPENT, path)
        else:
            self._notes.note("codec", "error", why, path)

    def data(self) -> bytes:
        """All bytes."""
        return b"".join(self._parts) if len(self._parts) > 1 else self._parts[0]


def time_ns(milliseconds: Any) -> int | None:
    """Nanoseconds of a time in milliseconds since 1970; None if it is no time, or out of range."""
    if type(milliseconds) is not int or not -_MS_MAX <= milliseconds <= _MS_MAX:
        return None
    return milliseconds * _MILLISECOND_NS


def _milliseconds(properties: Properties, name: str) -> int | None:
    text = properties.get(name)
    return int(text) if isinstance(text, str) and len(text) < 19 and text.isascii() and text.isdigit() else None


def deliver_at_ns(properties: Properties, born_ms: Any) -> int | None:
    """Delivery time of a delayed message; None if it is not delayed."""
    for name in _DELIVER_AT:
        if name in properties:
            return time_ns(_milliseconds(properties, name))
    for name, unit in _DELAYS.items():
        delay = _milliseconds(properties, name)
        if delay is not None and type(born_ms) is int:
            return time_ns(born_ms + delay * unit)
    return None


# ---- produced, and pushed to one client


def of_request(
    ext: Properties, body: bytes, budget: InflationBudget, notes: ProblemNotes, *, cut: bool = False, **constant: Any
) -> RecordBatch:
    """The record of a request with one message (SEND_MESSAGE and its variants, PUSH_REPLY_…).

    ``cut``: only the start of the body was captured; it is not decompressed then.
    """
    sys_flag = _sys_flag(ext)
    properties = _mapping(ext.get("properties"))
    codec = codec_of(sys_flag)
    buffer = _Buffer(body, budget, notes)
    value = (0, len(body))
    if codec != "none" and not cut and (plain := buffer.opened(codec, body, PATH)) is not None:
        value = buffer.add(plain)
    keys = properties.get(KEYS)
    key = buffer.add(keys.encode()) if isinstance(keys, str) else (-1, -1)
    constant |= _request_columns(ext, properties, sys_flag)
    constant["codec"] = codec
    columns = ([key[0]], [key[1]]), ([value[0]], [value[1]])
    return RecordBatch(buffer.data(), 1, constant, {}, *columns, RecordProperties([properties]))


def of_batch(ext: Properties, messages: Sequence[BatchedMessage], body: bytes, **constant: Any) -> RecordBatch:
    """The records of a request with a message batch."""
    properties = [_mapping(properties_value(body[m.properties : m.properties_stop])) for m in messages]
    constant |= _request_columns(ext, NONE, _sys_flag(ext))
    constant["codec"] = "none"
    born = ext.get("born_timestamp")
    columns: dict[str, Sequence[Any]] = {
        "unique_key": [found.get(UNIQUE_KEY) for found in properties],
        "deliver_at_ts": [deliver_at_ns(found, born) for found in properties],
    }
    keys = [property_span(body, b"KEYS", m.properties, m.properties_stop) for m in messages]
    values = [m.body for m in messages], [m.body + m.body_size for m in messages]
    spans = [start for start, _ in keys], [stop for _, stop in keys]
    return RecordBatch(body, len(messages), constant, columns, spans, values, RecordProperties(properties))


def _sys_flag(ext: Properties) -> int:
    flag = ext.get("sys_flag")
    return flag if type(flag) is int else 0


def _mapping(value: Any) -> Properties:
    return value if isinstance(value, dict) else NONE


def _request_columns(ext: Properties, properties: Properties, sys_flag: int) -> dict[str, Any]:
    """Columns from the header of a request."""
    born, queue = ext.get("born_timestamp"), ext.get("queue_id")
    return {
        "topic": as_name(ext.get("topic")),
        "partition": queue if type(queue) is int else None,
        "record_ts": time_ns(born),
        "deliver_at_ts": deliver_at_ns(properties, born),
        "unique_key": properties.get(UNIQUE_KEY),
        "transactional": sys_flag & TRANSACTION != 0,
    }


def complete(batch: RecordBatch, ext: Properties) -> None:
    """Add queue, offsets and message ids of the response to produced records."""
    batch.constant["ack"] = "acked"
    queue, offset, ids = (ext.get(name) for name in ("queue_id", "queue_offset", "msg_id"))
    if type(queue) is int:
        batch.constant["partition"] = queue
    if type(offset) is int:
        batch.columns["offset"] = range(offset, offset + batch.count)
    if isinstance(ids, str) and ids:
        words = ids.split(",")
        if len(words) == batch.count:
            batch.columns["message_id"] = words
        elif batch.count and len(words) == 1:
            batch.constant["message_id"] = ids


# ---- delivered


class _Row(NamedTuple):
    """One delivered record: columns of the table, then spans in the buffer."""

    topic: str | None
    partition: int
    offset: int
    message_id: str
    record_ts: int | None
    store_ts: int | None
    deliver_at_ts: int | None
    unique_key: str | None
    codec: str
    checksum_ok: bool | None
    transactional: bool
    aborted: bool | None
    attempts: int
    key: tuple[int, int]
    value: tuple[int, int]
    properties: Properties


def delivered(
    messages: Sequence[StoredMessage],
    properties: Sequence[Any],
    data: bytes,
    budget: InflationBudget,
    notes: ProblemNotes,
    **constant: Any,
) -> RecordBatch:
    """The records of stored messages in ``data``; ``properties``: their decoded properties."""
    buffer = _Buffer(data, budget, notes)
    rows: list[_Row] = []
    for index, (message, found) in enumerate(zip(messages, properties, strict=True)):
        row = _stored_row(message, _mapping(found), data)
        body = data[message.body : message.body + message.body_size] if message.sys_flag & (1 | INNER_BATCH) else b""
        if row.codec != "none" and (plain := buffer.opened(row.codec, body, f"{PATH}[{index}].body")) is not None:
            row, body = row._replace(value=buffer.add(plain)), plain
        if message.sys_flag & INNER_BATCH == INNER_BATCH:
            rows += _inner_rows(row, body, notes, max(0, budget.records_left - len(rows)))
        else:
            rows.append(row)
    budget.spend(0, len(rows))
    *columns, keys, values, mappings = zip(*rows, strict=True) if rows else [()] * len(_Row._fields)
    named: dict[str, Sequence[Any]] = dict(zip(_Row._fields, columns, strict=False))
    return RecordBatch(
        buffer.data(), len(rows), constant, named, _spans(keys), _spans(values), RecordProperties(mappings)
    )


def _spans(places: Sequence[tuple[int, int]]) -> tuple[list[int], list[int]]:
    return [start for start, _ in places], [stop for _, stop in places]


def _stored_row(message: StoredMessage, properties: Properties, data: bytes) -> _Row:
    flag = message.sys_flag
    return _Row(
        as_name(message.topic),
        message.queue_id,
        message.queue_offset,
        message.message_id,
        time_ns(message.born_timestamp),
        time_ns(message.store_timestamp),
        deliver_at_ns(properties, message.born_timestamp),
        properties.get(UNIQUE_KEY),
        codec_of(flag),
        message.checksum_ok,
        flag & TRANSACTION != 0,
        flag & TRANSACTION == TRANSACTION_ROLLBACK if flag & TRANSACTION else None,
        message.reconsume_times + 1,
        property_span(data, b"KEYS", message.properties, message.properties_stop) if KEYS in properties else (-1, -1),
        (message.body, message.body + message.body_size),
        properties,
    )


def _inner_rows(outer: _Row, body: bytes, notes: ProblemNotes, room: int) -> list[_Row]:
    """Rows of the inner messages of a message whose value is a batch."""
    start = outer.value[0]
    rows = []
    messages, _ = read_batch(body, notes, f"{PATH}.inner")
    if len(messages) > room:
        notes.note("limit", "error", RECORDS_SPENT, f"{PATH}.inner")
    for index, message in enumerate(messages[:room]):
        properties = _mapping(properties_value(body[message.properties : message.properties_stop]))
        key = property_span(body, b"KEYS", message.properties, message.properties_stop)
        rows.append(
            outer._replace(
                offset=outer.offset + index,
                unique_key=properties.get(UNIQUE_KEY),
                key=(start + key[0], start + key[1]) if key[0] >= 0 else key,
                value=(start + message.body, start + message.body + message.body_size),
                properties=properties,
            )
        )
    return rows


def property_span(data: bytes, name: bytes, start: int, stop: int) -> tuple[int, int]:
    """(start, stop) of the value of a property in the text of all properties; (-1, -1) if missing."""
    if data.startswith(name + b"\x01", start, stop):
        at = start + len(name) + 1
    else:
        at = data.find(b"\x02" + name + b"\x01", start, stop)
        if at < 0:
            return -1, -1
        at += len(name) + 2
    end = data.find(b"\x02", at, stop)
    return at, stop if end < 0 else end
