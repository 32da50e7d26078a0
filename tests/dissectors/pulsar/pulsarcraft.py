"""Pulsar frames made by the protobuf runtime from plain dicts: what tests say, as bytes."""

from __future__ import annotations

import struct
from typing import Any

from crc32c import crc32c
from google.protobuf.json_format import ParseDict
from google.protobuf.message_factory import GetMessageClass

from dissectors.pulsar.commands import BY_NAME
from dissectors.pulsar.messages import PACKAGE, message_type, types

ENTRY, CHECKSUM = b"\x0e\x02", b"\x0e\x01"
NO_REQUEST = (1 << 64) - 1


def encoded(name: str, **fields: Any) -> bytes:
    """A message of the protocol by its own name."""
    message = GetMessageClass(types()[PACKAGE + name]._descriptor)()
    _fill(message, fields)
    return message.SerializePartialToString()


def _fill(message: Any, fields: dict[str, Any]) -> None:
    for name, value in fields.items():
        if isinstance(value, bytes):
            setattr(message, name, value)
        else:
            ParseDict({name: value}, message)


def command(name: str, **fields: Any) -> bytes:
    """A BaseCommand."""
    number = BY_NAME[name].type
    field = message_type("BaseCommand").fields[number].name
    base = GetMessageClass(types()[PACKAGE + "BaseCommand"]._descriptor)(type=number)
    getattr(base, field).SetInParent()
    _fill(getattr(base, field), fields)
    return base.SerializePartialToString()


def framed(base: bytes, behind: bytes = b"") -> bytes:
    """A frame of a BaseCommand and what stands behind it."""
    return struct.pack(">II", 4 + len(base) + len(behind), len(base)) + base + behind


def frame(name: str, **fields: Any) -> bytes:
    """A frame without payload."""
    return framed(command(name, **fields))


def payload(data: bytes, *, checksum: bool = True, entry: bytes | None = None, **metadata: Any) -> bytes:
    """Metadata and payload as they stand behind a command."""
    told = encoded("MessageMetadata", **{"producer_name": "p-0", "sequence_id": 0, "publish_time": 1} | metadata)
    rest = struct.pack(">I", len(told)) + told + data
    if checksum:
        rest = CHECKSUM + struct.pack(">I", crc32c(rest)) + rest
    return rest if entry is None else ENTRY + struct.pack(">I", len(entry)) + entry + rest


def send(
    data: bytes, *, producer: int = 1, sequence: int = 0, told: dict[str, Any] | None = None, **more: Any
) -> bytes:
    """A SEND; ``told`` are further fields of its command, ``more`` goes to ``payload``."""
    base = command("SEND", producer_id=producer, sequence_id=sequence, **(told or {}))
    return framed(base, payload(data, **{"sequence_id": sequence} | more))


def message(
    data: bytes, *, consumer: int = 1, entry_id: int = 0, told: dict[str, Any] | None = None, **more: Any
) -> bytes:
    """A MESSAGE of ledger 7."""
    place = {"ledger_id": 7, "entry_id": entry_id, "partition": -1}
    base = command("MESSAGE", consumer_id=consumer, message_id=place, **(told or {}))
    return framed(base, payload(data, **more))


def batch(*slots: tuple[bytes, dict[str, Any]]) -> bytes:
    """The plain payload of a batch: value and fields of SingleMessageMetadata of each message."""
    out = b""
    for value, fields in slots:
        single = encoded("SingleMessageMetadata", **{"payload_size": len(value)} | fields)
        out += struct.pack(">I", len(single)) + single + value
    return out


OPENING = {
    "connect": ("CONNECT", {"client_version": "Pulsar-Java-v4.2.4", "protocol_version": 21}),
    "connected": ("CONNECTED", {"server_version": "Pulsar Server4.2.4", "max_message_size": 5_242_880}),
}


def connect(**fields: Any) -> bytes:
    name, usual = OPENING["connect"]
    return frame(name, **usual | fields)


def connected(**fields: Any) -> bytes:
    name, usual = OPENING["connected"]
    return frame(name, **usual | fields)
