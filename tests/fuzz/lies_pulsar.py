"""Lies in Pulsar: every command with all its fields, metadata, batches, framing."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import pulsarcraft
from crc32c import crc32c
from google.protobuf.descriptor import FieldDescriptor
from lengths import Length, Part, honest, sized, uvarint

from mqsniff.model import Side
from mqsniff.testing.conversations import client, server
from mqsniff_pulsar import Pulsar
from mqsniff_pulsar.commands import BY_NAME, COMMANDS, PAYLOAD
from mqsniff_pulsar.messages import PACKAGE, message_type, types

from .lies_kafka import converse
from .lying import LengthCase

DEPTH_MAX = 3
COUNTS = ("size", "num_", "count", "chunk", "permits", "max_")
"""Parts of the names of fields whose values are sizes and counts."""
TEXT = (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES)
FIXED = {FieldDescriptor.TYPE_DOUBLE: 8, FieldDescriptor.TYPE_FIXED64: 8, FieldDescriptor.TYPE_FLOAT: 4}


def message_parts(descriptor: Any, depth: int = 0) -> list[Part]:
    """A message with each of its fields once, twice where it is repeated."""
    out: list[Part] = []
    for field in sorted(descriptor.fields, key=lambda one: one.number):
        for _ in range(2 if field.is_repeated else 1):
            out += _field(field, depth)
    return out


def _field(field: Any, depth: int) -> list[Part]:
    if field.message_type is not None:
        if depth >= DEPTH_MAX:
            return []
        return [uvarint(field.number << 3 | 2), *sized("uvarint", message_parts(field.message_type, depth + 1))]
    if field.type in TEXT:
        return [uvarint(field.number << 3 | 2), *sized("uvarint", [b"orders"])]
    if field.type in FIXED:
        width = FIXED[field.type]
        return [uvarint(field.number << 3 | (1 if width == 8 else 5)), bytes(width)]
    value = field.enum_type.values[0].number if field.enum_type is not None else 1
    tag = uvarint(field.number << 3)
    counts = field.type != FieldDescriptor.TYPE_BOOL and any(part in field.name for part in COUNTS)
    return [tag, Length("uvarint", value) if counts else uvarint(value)]


def command_parts(name: str) -> list[Part]:
    """A BaseCommand with one command in it."""
    number = BY_NAME[name].type
    field = types()[PACKAGE + "BaseCommand"]._descriptor.fields_by_number[
        next(tag for tag, known in message_type("BaseCommand").fields.items() if tag == number)
    ]
    body = message_parts(field.message_type, 1)
    return [b"\x08", uvarint(number), uvarint(field.number << 3 | 2), *sized("uvarint", body)]


def frame_parts(base: list[Part], behind: list[Part]) -> list[Part]:
    """A frame."""
    return sized(">I", [*sized(">I", base), *behind])


def payload_parts(data: list[Part], *, entry: bool) -> list[Part]:
    """Metadata with all fields, and what follows it; the checksum is that of the truth."""
    metadata = message_parts(types()[PACKAGE + "MessageMetadata"]._descriptor)
    rest = [*sized(">I", metadata), *data]
    checked: list[Part] = [pulsarcraft.CHECKSUM, struct.pack(">I", crc32c(honest(rest))), *rest]
    if not entry:
        return checked
    told = message_parts(types()[PACKAGE + "BrokerEntryMetadata"]._descriptor)
    return [pulsarcraft.ENTRY, *sized(">I", told), *checked]


def batch_parts() -> list[Part]:
    """Three messages of a batch."""
    out: list[Part] = []
    for _ in range(3):
        single: list[Part] = [b"\x12", *sized("uvarint", [b"key"]), b"\x18", Length("uvarint", 5)]
        out += [*sized(">I", single), b"value"]
    return out


def _batch() -> list[Part]:
    head = pulsarcraft.encoded("MessageMetadata", producer_name="p-0", sequence_id=0, publish_time=1)
    metadata: list[Part] = [head, uvarint(11 << 3), Length("uvarint", 3)]
    rest = [*sized(">I", metadata), *batch_parts()]
    checked: list[Part] = [pulsarcraft.CHECKSUM, struct.pack(">I", crc32c(honest(rest))), *rest]
    base = pulsarcraft.command("SEND", producer_id=1, sequence_id=0, num_messages=3)
    return frame_parts([base], checked)


def _attempt(side: Side) -> Any:
    opened = [*pulsarcraft.OPENED, pulsarcraft.PRODUCER, pulsarcraft.SUBSCRIBE, server(*pulsarcraft.GRANTED)]
    say = client if side is Side.CLIENT else server
    return lambda data: converse(Pulsar, [*opened, say(data), say(data)], explain=True)


def cases() -> Iterator[LengthCase]:
    """All of Pulsar."""
    yield LengthCase("SEND of a batch", _batch(), _attempt(Side.CLIENT))
    for command in COMMANDS.values():
        side = command.side or Side.CLIENT
        behind = [payload_parts([b"value"], entry=side is Side.SERVER)] if command.name in PAYLOAD else [[]]
        for rest in behind:
            yield LengthCase(command.name, frame_parts(command_parts(command.name), rest), _attempt(side))
