"""What this package knows of Pulsar, as tables for ``mqsniff protocols pulsar``, from the tables that it works with."""

from __future__ import annotations

from dissectors.pulsar.commands import COMMANDS, answers_of
from dissectors.pulsar.messages import marker_names, marker_type, numbers
from dissectors.pulsar.ordinary import ORDINARY
from dissectors.pulsar.payload import CODECS
from dissectors.pulsar.schemas import DECODED
from mqsniff.dissector import Table


def describe() -> dict[str, Table]:
    """Commands, errors, markers, codecs and schema types."""
    return {
        "commands": [
            {
                "number": command.type,
                "name": command.name,
                "sent_by": "both" if command.side is None else command.side.text,
                "kind": command.kind,
                "answered_by": list(answers_of(command.name)),
            }
            for command in COMMANDS.values()
        ],
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
