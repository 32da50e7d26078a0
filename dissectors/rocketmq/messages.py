"""Bodies made of messages in: what the body of the frame shows of them, and their records, out.

1. Heads and properties are shown, message data only as its size; records are made when they are asked for.
2. Data that is there in part gives the messages that are whole; of a single message the part that is there.
3. What is no message is Undecoded, with a note.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from dissectors.rocketmq.notes import Notes
from dissectors.rocketmq.records import delivered, of_batch, of_request
from dissectors.rocketmq.stored import (
    MAGIC_V1,
    MAGIC_V2,
    STORED_MIN,
    Stored,
    batched_value,
    codec_of,
    read_batch,
    read_stored,
    stored_magic,
    stored_value,
)
from mqsniff.dissector import Settings
from mqsniff.model import RecordBatch, Undecoded, Value

PATH: Final = "body.messages"
MESSAGE_KINDS: Final = frozenset({"message", "message-batch", "stored-message", "stored-messages"})


@dataclass(slots=True)
class Content:
    """Messages of a frame."""

    size: int
    """Bytes on the wire."""
    value: dict[str, Value]
    """What the body of the frame shows."""
    count: int
    topics: tuple[str, ...] = ()
    records: tuple[RecordBatch, ...] = ()
    stored: tuple[Stored, ...] = ()
    properties: tuple[Any, ...] = ()
    """Of each stored message."""


def shows_stored(data: bytes, start: int) -> bool:
    """Whether stored messages begin at an offset, by their magic."""
    return len(data) - start >= STORED_MIN and stored_magic(data, start) in (MAGIC_V1, MAGIC_V2)


def read_messages(
    kind: str, raw: bytes, size: int, ext: dict[str, Any], records: str, settings: Settings, notes: Notes
) -> Content:
    """The messages of a body of ``size`` bytes, of which ``raw`` is there.

    ``ext`` are the typed ext fields; ``records`` says who made or reads them: produced, consumer, other.
    """
    if kind.startswith("stored"):
        return _stored(raw, size, records, settings, notes)
    constant: dict[str, Any] = {"direction": "produce"}
    if records != "produced":
        constant = {"direction": "deliver", "reader": records or "other"}
    if kind == "message-batch" or ext.get("batch") is True:
        return _batch(raw, size, ext, constant, settings, notes)
    return _single(raw, size, ext, constant, settings, notes)


def _single(
    raw: bytes, size: int, ext: dict[str, Any], constant: dict[str, Any], settings: Settings, notes: Notes
) -> Content:
    flag = ext.get("sys_flag")
    value: dict[str, Value] = {"size": size, "codec": codec_of(flag) if type(flag) is int else "none"}
    if not settings.records:
        return Content(size, value, 1)
    if len(raw) < size:
        constant["value_size"] = size
    batch = of_request(ext, raw, settings.limits, notes, cut=len(raw) < size, **constant)
    return Content(size, value, 1, (), (batch,))


def _batch(
    raw: bytes, size: int, ext: dict[str, Any], constant: dict[str, Any], settings: Settings, notes: Notes
) -> Content:
    found, stop = read_batch(raw, notes, PATH, cut=len(raw) < size)
    value: dict[str, Value] = {"size": size, "messages": [batched_value(message, raw) for message in found]}
    _keep_rest(value, raw, stop, size)
    if not settings.records:
        return Content(size, value, len(found))
    return Content(size, value, len(found), (), (of_batch(ext, found, raw, **constant),))


def _stored(raw: bytes, size: int, records: str, settings: Settings, notes: Notes) -> Content:
    found, stop = read_stored(raw, notes, PATH, cut=len(raw) < size)
    heads = [stored_value(message, raw) for message in found]
    for index, message in enumerate(found):
        if message.checksum_ok is False:
            notes.note("checksum", "error", "the CRC of a message is not its body's", f"{PATH}[{index}].body_crc")
    value: dict[str, Value] = {"size": size, "messages": heads}  # type: ignore[dict-item]
    _keep_rest(value, raw, stop, size)
    properties = tuple(head["properties"] for head in heads)
    topics = tuple(dict.fromkeys(message.topic for message in found if isinstance(message.topic, str)))
    content = Content(size, value, len(found), topics, (), tuple(found), properties)
    if settings.records and found:
        constant = {"direction": "deliver", "reader": records or "other"}
        content.records = (delivered(found, properties, raw, settings.limits, notes, **constant),)
    return content


def _keep_rest(value: dict[str, Value], raw: bytes, stop: int, size: int) -> None:
    """What is no message is kept, unless it is only one that was cut."""
    if stop < len(raw) == size:
        value["undecoded"] = Undecoded(raw[stop:])
