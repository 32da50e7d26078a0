"""Reads message batches, and messages as brokers store them.

    stored message  store size i32 | magic i32 | body CRC i32 | queue id i32 | flag i32 | queue offset i64
                    | physical offset i64 | sys flag i32 | born time i64 | born host | store time i64 | store host
                    | reconsume times i32 | prepared transaction offset i64 | body size i32 | body
                    | topic size (u8, magic 2: u16) | topic | properties size u16 | properties
    host            address (4 bytes, or 16 as sys flag says) | port i32
    batch           total size i32 | magic i32 | body CRC i32 | flag i32 | body size i32 | body | properties size u16
                    | properties, for each message

1. Bodies and properties are not copied: a message has their spans.
2. A run of messages is read up to the first damage; the result has its offset, and a problem says why.
3. Each body is checked by its CRC, unless that is 0: MessageDecoder writes 0 for none.

Source: MessageDecoder, MessageSysFlag and CommitLog of apache/rocketmq.
"""

from __future__ import annotations

from functools import lru_cache
from ipaddress import ip_address
from struct import Struct
from typing import Final, NamedTuple
from zlib import crc32

from mqsniff.model import Value, payload
from mqsniff.spec.wire import text_or_bytes
from mqsniff_rocketmq.heads import STORED_V1, STORED_V2
from mqsniff_rocketmq.notes import ProblemNotes
from mqsniff_rocketmq.texts import read_properties

MAGIC_BLANK: Final = -875286124
"""Filler at the end of a commit log file."""

COMPRESSED: Final = 0x1
TRANSACTION: Final = 0xC
TRANSACTION_PREPARED: Final = 0x4
TRANSACTION_ROLLBACK: Final = 0xC
BORN_HOST_V6: Final = 0x10
STORE_HOST_V6: Final = 0x20
INNER_BATCH: Final = 0xC0
"""Bits INNER_BATCH and NEED_UNWRAP: with both, the body is a message batch."""

CODECS: Final = {0: "zlib", 1: "lz4", 2: "zstd", 3: "zlib"}
"""Bits 8 to 10 of the sys flag of a compressed body -> codec; old releases write 0."""

_HEADS: Final = tuple(Struct(f">iiiiiqqiq{born}siq{store}siiqi") for store in (4, 16) for born in (4, 16))
"""By bits 4 and 5 of the sys flag."""
_SYS_FLAG: Final = Struct(">i")
_SYS_FLAG_AT: Final = 36
STORED_MIN: Final = _HEADS[0].size + 3
_SIZES: Final = Struct(">ii")
_UINT16: Final = Struct(">H")
_MESSAGE: Final = Struct(">iiiii")
BATCH_MIN: Final = _MESSAGE.size + 2
_PLACE: Final = Struct(">iq")

VALUES_STORED: Final = 24
"""Values of one message's head, for the budget."""


class StoredMessage(NamedTuple):
    """A message as the broker stores it; spans count from the start of the data."""

    store_size: int
    magic: int
    body_crc: int
    queue_id: int
    flag: int
    queue_offset: int
    physical_offset: int
    sys_flag: int
    born_timestamp: int
    born_host: bytes
    born_port: int
    store_timestamp: int
    store_host: bytes
    store_port: int
    reconsume_times: int
    prepared_transaction_offset: int
    body_size: int
    body: int
    topic: str | bytes
    properties: int
    properties_stop: int
    checksum_ok: bool | None

    @property
    def message_id(self) -> str:
        """The offset message id: address, port and physical offset in hex."""
        return (self.store_host + _PLACE.pack(self.store_port, self.physical_offset)).hex().upper()


class BatchedMessage(NamedTuple):
    """A message of a batch."""

    total_size: int
    magic: int
    body_crc: int
    flag: int
    body_size: int
    body: int
    properties: int
    properties_stop: int


def codec_of(sys_flag: int) -> str:
    """The codec of a message; "unknown" for an unknown type."""
    return CODECS.get(sys_flag >> 8 & 7, "unknown") if sys_flag & COMPRESSED else "none"


# ---- runs of messages


def stored_magic(data: bytes, pos: int) -> int:
    """The magic of the stored message that starts at an offset."""
    return int(_SIZES.unpack_from(data, pos)[1])


def read_stored(data: bytes, notes: ProblemNotes, path: str, *, cut: bool = False) -> tuple[list[StoredMessage], int]:
    """(messages, offset after the last one); ``cut``: the data may end inside a message. Hot: once a message."""
    found: list[StoredMessage] = []
    view, pos, end = memoryview(data), 0, len(data)
    while end - pos >= STORED_MIN:
        size, magic = _SIZES.unpack_from(data, pos)
        if magic == MAGIC_BLANK and 8 <= size <= end - pos:
            notes.note("format", "info", "filler of a commit log file between messages", path)
            pos += size
            continue
        if magic not in (STORED_V1, STORED_V2) or not STORED_MIN <= size <= end - pos:
            break
        notes.take(VALUES_STORED)
        message = _stored(data, view, pos, pos + size, magic)
        if message is None:
            break
        found.append(message)
        pos += size
    if pos < end and not cut:
        notes.note("malformed", "error", "no message where one should start", f"{path}[{len(found)}]")
    return found, pos


def _stored(data: bytes, view: memoryview, pos: int, end: int, magic: int) -> StoredMessage | None:
    """The message in ``data[pos:end]``; None if its lengths do not add up to that."""
    (flag,) = _SYS_FLAG.unpack_from(data, pos + _SYS_FLAG_AT)
    head = _HEADS[flag >> 4 & 3]
    body = pos + head.size
    if body + 3 > end:
        return None
    fields = head.unpack_from(data, pos)
    size = fields[-1]
    at = body + size
    if size < 0 or at + 3 > end:
        return None
    if magic == STORED_V1:
        topic, at = at + 1, at + 1 + data[at]
    else:
        topic, at = at + 2, at + 2 + _UINT16.unpack_from(data, at)[0]
    if at + 2 > end or at + 2 + _UINT16.unpack_from(data, at)[0] != end:
        return None
    crc = fields[2]
    fits = (crc32(view[body : body + size]) & 0x7FFFFFFF) == crc if crc else None
    return StoredMessage._make((*fields, body, text_or_bytes(data[topic:at]), at + 2, end, fits))


def read_batch(data: bytes, notes: ProblemNotes, path: str, *, cut: bool = False) -> tuple[list[BatchedMessage], int]:
    """(messages of a batch, offset after the last one); ``cut``: the data may end inside a message."""
    found: list[BatchedMessage] = []
    pos, end = 0, len(data)
    while end - pos >= BATCH_MIN:
        fields = _MESSAGE.unpack_from(data, pos)
        size, stop = fields[4], pos + fields[0]
        body = pos + _MESSAGE.size
        at = body + size
        if size < 0 or at + 2 > stop or stop > end or at + 2 + _UINT16.unpack_from(data, at)[0] != stop:
            break
        notes.take(VALUES_STORED)
        found.append(BatchedMessage._make((*fields, body, at + 2, stop)))
        pos = stop
    if pos < end and not cut:
        notes.note("malformed", "error", "no message where one should start", f"{path}[{len(found)}]")
    return found, pos


# ---- values for the body of a frame


@lru_cache(maxsize=1024)
def host_text(address: bytes, port: int) -> str:
    """Address and port: "127.0.0.1:10911", "[::1]:10911"."""
    text = str(ip_address(address))
    return f"[{text}]:{port}" if len(address) == 16 else f"{text}:{port}"


def properties_value(raw: bytes) -> Value:
    """Properties by their names; the text if it has another format."""
    text = text_or_bytes(raw)
    found = read_properties(text) if isinstance(text, str) else None
    return payload(text) if found is None else found


def stored_value(message: StoredMessage, data: bytes) -> dict[str, Value]:
    """A stored message for the body of a frame."""
    return {
        "store_size": message.store_size,
        "magic": message.magic,
        "body_crc": message.body_crc,
        "queue_id": message.queue_id,
        "flag": message.flag,
        "queue_offset": message.queue_offset,
        "physical_offset": message.physical_offset,
        "sys_flag": message.sys_flag,
        "born_timestamp": message.born_timestamp,
        "born_host": host_text(message.born_host, message.born_port),
        "store_timestamp": message.store_timestamp,
        "store_host": host_text(message.store_host, message.store_port),
        "reconsume_times": message.reconsume_times,
        "prepared_transaction_offset": message.prepared_transaction_offset,
        "topic": message.topic,
        "properties": properties_value(data[message.properties : message.properties_stop]),
        "body": {
            "size": message.body_size,
            "codec": codec_of(message.sys_flag),
            "checksum_ok": message.checksum_ok,
        },
    }


def batched_value(message: BatchedMessage, data: bytes) -> dict[str, Value]:
    """A message of a batch for the body of a frame."""
    return {
        "total_size": message.total_size,
        "magic": message.magic,
        "body_crc": message.body_crc,
        "flag": message.flag,
        "properties": properties_value(data[message.properties : message.properties_stop]),
        "body": {"size": message.body_size},
    }
