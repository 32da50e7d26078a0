"""Decodes bodies made of messages: what the body shows of them, and their records.

1. Bodies show heads and properties, and the size of message data; records are made if they are wanted.
2. Cut data gives its whole messages; a cut single message gives its captured part.
3. Bytes that are no message are Undecoded, with a problem.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from mqsniff.codecs.inflation import InflationBudget
from mqsniff.dissector import Settings
from mqsniff.model import RecordBatch, Undecoded, Value
from mqsniff.spec.wire import as_name
from mqsniff_rocketmq.heads import STORED_V1, STORED_V2
from mqsniff_rocketmq.notes import ProblemNotes
from mqsniff_rocketmq.records import delivered, of_batch, of_request
from mqsniff_rocketmq.stored import (
    STORED_MIN,
    StoredMessage,
    batched_value,
    codec_of,
    read_batch,
    read_stored,
    stored_magic,
    stored_value,
)

PATH: Final = "body.messages"
MESSAGE_KINDS: Final = frozenset({"message", "message-batch", "stored-message", "stored-messages"})


@dataclass(frozen=True, slots=True)
class Data:
    """The message data of a frame."""

    raw: bytes
    """The captured bytes."""
    size: int
    """Bytes on the wire."""
    ext: dict[str, Any]
    """The frame's typed ext fields."""
    records: str
    """Use of the messages: produced, or delivered to a consumer or to another reader."""

    @property
    def cut(self) -> bool:
        """Whether its end is missing."""
        return len(self.raw) < self.size

    def constant(self) -> dict[str, Any]:
        """Columns that all its records share."""
        if self.records == "produced":
            return {"direction": "produce"}
        return {"direction": "deliver", "reader": self.records or "other"}


@dataclass(slots=True)
class Content:
    """Messages of a frame."""

    size: int
    """Bytes on the wire."""
    value: dict[str, Value]
    """The value for the body of the frame."""
    count: int
    topics: tuple[str, ...] = ()
    records: tuple[RecordBatch, ...] = ()
    stored: tuple[StoredMessage, ...] = ()
    properties: tuple[Any, ...] = ()
    """Properties of each stored message."""


def shows_stored(data: bytes, start: int) -> bool:
    """Whether a stored message begins at ``start``, by its magic."""
    return len(data) - start >= STORED_MIN and stored_magic(data, start) in (STORED_V1, STORED_V2)


def read_messages(kind: str, data: Data, settings: Settings, notes: ProblemNotes, budget: InflationBudget) -> Content:
    """The messages of a body of this kind."""
    if kind.startswith("stored"):
        return _stored(data, settings, notes, budget)
    if kind == "message-batch" or data.ext.get("batch") is True:
        return _batch(data, settings, notes)
    return _single(data, settings, notes, budget)


def _single(data: Data, settings: Settings, notes: ProblemNotes, budget: InflationBudget) -> Content:
    flag = data.ext.get("sys_flag")
    value: dict[str, Value] = {"size": data.size, "codec": codec_of(flag) if type(flag) is int else "none"}
    content = Content(data.size, value, 1)
    if "records" in settings.wanted:
        constant = data.constant()
        if data.cut:
            constant["value_size"] = data.size
        content.records = (of_request(data.ext, data.raw, budget, notes, cut=data.cut, **constant),)
    return content


def _batch(data: Data, settings: Settings, notes: ProblemNotes) -> Content:
    found, stop = read_batch(data.raw, notes, PATH, cut=data.cut)
    value: dict[str, Value] = {"size": data.size, "messages": [batched_value(message, data.raw) for message in found]}
    _keep_rest(value, data, stop)
    content = Content(data.size, value, len(found))
    if "records" in settings.wanted and found:
        content.records = (of_batch(data.ext, found, data.raw, **data.constant()),)
    return content


def _stored(data: Data, settings: Settings, notes: ProblemNotes, budget: InflationBudget) -> Content:
    found, stop = read_stored(data.raw, notes, PATH, cut=data.cut)
    for index, message in enumerate(found):
        if message.checksum_ok is False:
            notes.note("checksum", "error", "the CRC of a message does not match its body", f"{PATH}[{index}].body_crc")
    heads = [stored_value(message, data.raw) for message in found]
    value: dict[str, Value] = {"size": data.size, "messages": list(heads)}
    _keep_rest(value, data, stop)
    properties = tuple(head["properties"] for head in heads)
    topics = tuple(dict.fromkeys(name for message in found if (name := as_name(message.topic)) is not None))
    content = Content(data.size, value, len(found), topics, (), tuple(found), properties)
    if "records" in settings.wanted and found:
        content.records = (delivered(found, properties, data.raw, budget, notes, **data.constant()),)
    return content


def _keep_rest(value: dict[str, Value], data: Data, stop: int) -> None:
    """Keep bytes that are no message as Undecoded, unless they are a cut message."""
    if stop < len(data.raw) and not data.cut:
        value["undecoded"] = Undecoded(data.raw[stop:])
