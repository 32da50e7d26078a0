"""The tables that ``mqsniff protocols pulsar`` prints."""

from __future__ import annotations

from typing import Final

from mqsniff.dissector import Table
from mqsniff.model import Value
from mqsniff_pulsar.commands import COMMANDS, PulsarCommand, answers_of
from mqsniff_pulsar.frames import MAGIC_CHECKSUM, MAGIC_ENTRY
from mqsniff_pulsar.messages import marker_names, marker_type, message_type, numbers
from mqsniff_pulsar.ordinary import ORDINARY
from mqsniff_pulsar.payload import CODECS
from mqsniff_pulsar.schemas import DECODED

_BLOCKS: Final[dict[str, tuple[str, str]]] = {
    "BrokerEntryMetadata": (f"0x{MAGIC_ENTRY:04x}, uint32 size", "MESSAGE, first, where the broker adds it"),
    "MessageMetadata": (
        f"uint32 size, before it 0x{MAGIC_CHECKSUM:04x} and CRC-32C where there is one",
        "SEND and MESSAGE, before the payload",
    ),
    "SingleMessageMetadata": ("uint32 size", "the payload of a batch, before each message"),
}
"""Type of a block -> (bytes before it, where it occurs)."""

_LOGIN: Final = ("CONNECT", "AUTH_RESPONSE")
"""Requests without a request_id that ERROR may answer."""
_SETTLED_BY: Final[tuple[Value, ...]] = ("ACK", "REDELIVER_UNACKNOWLEDGED_MESSAGES")
"""Commands by which a consumer settles a MESSAGE."""

_RECORDS: Final[dict[str, tuple[str, str]]] = {
    "single": ("no num_messages_in_batch", "the payload is one record"),
    "batch": ("num_messages_in_batch", "a record after each SingleMessageMetadata"),
    "chunk": ("chunk_id, num_chunks_from_msg", "the payload is a piece of a record"),
    "encrypted": ("encryption_keys", "one record that stays as it is"),
    "compacted": ("compacted_batch_indexes, compacted_out", "records of a batch that compaction left"),
    "marker": ("marker_type", "no record: what the table of markers says"),
}
"""Form of a payload -> (fields of the metadata that show it, content)."""

_SERIALISATIONS: Final[dict[str, str]] = {
    "protobuf": "commands and metadata, after uint32 sizes; unknown fields are kept by their numbers",
    "JSON, Avro": "definitions of schemas: the table of schema types; record values stay as they are",
}


def describe() -> dict[str, Table]:
    """Commands, metadata blocks, forms of records, errors, markers, codecs and schema types."""
    return {
        "commands": [
            {
                "number": command.type,
                "name": command.name,
                "sent_by": "both" if command.side is None else command.side.text,
                "kind": command.kind,
                "answered_by": _answers(command),
            }
            for command in COMMANDS.values()
        ],
        "metadata_blocks": [
            {"block": name, "opened_by": opened_by, "stands_in": where, "fields": _field_names(name)}
            for name, (opened_by, where) in _BLOCKS.items()
        ],
        "record_formats": [
            {"format": name, "told_by": fields, "payload": payload} for name, (fields, payload) in _RECORDS.items()
        ],
        "serialisations": [{"name": name, "used_for": what} for name, what in _SERIALISATIONS.items()],
        "errors": [{"number": number, "name": name} for name, number in numbers("ServerError").items()],
        "ordinary_answers": ORDINARY.described(),
        "markers": [
            {"number": number, "name": name, "payload": (kind.name.rpartition(".")[2] if kind else None)}
            for number, name in marker_names().items()
            for kind in (marker_type(number),)
        ],
        "codecs": [
            {"number": number, "name": name, "opened": name in CODECS or name == "NONE"}
            for name, number in numbers("CompressionType").items()
        ],
        "schema_types": [
            {"number": number, "name": name, "definition": DECODED.get(name.lower(), "bytes")}
            for name, number in numbers("Schema.Type").items()
        ],
    }


def _answers(command: PulsarCommand) -> list[Value]:
    """Replies to a command: of success, then of failure."""
    if command.name == "MESSAGE":
        return [*_SETTLED_BY]
    asks = command.kind == "request" and (command.name in _LOGIN or "request_id" in _field_names(None, command.type))
    return [*answers_of(command.name), *(["ERROR"] if asks else [])]


def _field_names(name: str | None, command: int = 0) -> list[Value]:
    """The fields of a message type, or of a command's content, in the order of their numbers."""
    kind = message_type(name) if name is not None else message_type("BaseCommand").fields[command].message
    return [field.name for _, field in sorted(kind.fields.items())] if kind is not None else []
