"""Tables for ``mqsniff protocols kafka``: blocks, record formats, codecs, embedded and stored formats.

Versions, fields and names of numbers come from the specifications; descriptions are added here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from mqsniff.dissector import Table
from mqsniff.model import Value
from mqsniff_kafka import specs
from mqsniff_kafka.formats import EXPECTED, TEXTS
from mqsniff_kafka.formats.connect import BY_END
from mqsniff_kafka.formats.control import ABORT, COMMIT, KRAFT
from mqsniff_kafka.formats.internaltopics import COORDINATED, FRAMED
from mqsniff_kafka.formats.mirrormaker import BY_WORD
from mqsniff_kafka.records.batches import HEAD_FIELDS
from mqsniff_kafka.records.compression import CODECS

_HEADERS: Final[Mapping[str, str]] = {
    "RequestHeader": "every request, behind its int32 size",
    "ResponseHeader": "every response, behind its int32 size",
}
_RECORD_FIELDS: Final = ("attributes", "timestamp_delta", "offset_delta", "key", "value", "headers")
_MESSAGE_FIELDS: Final = ("offset", "message_size", "crc", "magic", "attributes", "timestamp", "key", "value")
_EMBEDDED: Final[Mapping[str, str]] = {
    "member_metadata": "JoinGroup and what coordinators store: by the group's type consumer, connect, sr",
    "member_assignment": "SyncGroup and what coordinators store: the same",
    "principal": "Envelope: who sent the request inside",
    "ip_address": "Envelope: from where",
    "otlp_metrics": "PushTelemetry: OpenTelemetry's metrics, compressed",
    "commit_metadata": "OffsetCommit of Kafka Streams",
}
"""Mark of a field -> where such fields occur."""
_RECORD_FORMATS: Final[tuple[dict[str, Value], ...]] = (
    {"magic": 0, "name": "message set", "checksum": "CRC-32", "adds": "key and value"},
    {"magic": 1, "name": "message set", "checksum": "CRC-32", "adds": "a timestamp, of the client or of the log"},
    {
        "magic": 2,
        "name": "record batch",
        "checksum": "CRC-32C",
        "adds": "headers, producer ids and sequences, transactions, control records, leader epochs",
    },
)
_CODEC_FORMS: Final[Mapping[str, str]] = {
    "snappy": "xerial's frame, and one raw block",
    "lz4": "frames, those of old clients with a wrong header checksum too",
}
_SERIALISATIONS: Final[Mapping[str, str]] = {
    "classic versions": "fixed widths; int16 and int32 lengths, -1 for null",
    "flexible versions": "varint lengths and tagged fields; unknown tags are kept by their number",
    "protobuf": "the metrics of PushTelemetry",
    "JSON": "SASL OAUTHBEARER errors, Connect's topics, members of schema registries",
}


def inventory() -> dict[str, Table]:
    """Blocks, record formats, codecs, markers, serialisations, embedded formats, formats of internal topics."""
    return {
        "metadata_blocks": [*_blocks()],
        "record_formats": [*_RECORD_FORMATS],
        "codecs": [
            {"number": number, "name": name, "forms": _CODEC_FORMS.get(name)} for number, name in CODECS.items()
        ],
        "markers": [
            {"type": number, "name": name, "value": [*_control_values(number)]}
            for number, name in specs.enum("control_record_type").items()
        ],
        "serialisations": [{"name": name, "form": form} for name, form in _SERIALISATIONS.items()],
        "embedded_formats": [{"format": mark, "stands_in": _EMBEDDED.get(mark)} for mark in (*EXPECTED, *TEXTS)],
        "stored_formats": [*_stored(), *_stored_by_name()],
    }


def _blocks() -> Iterator[dict[str, Value]]:
    for name, where in _HEADERS.items():
        newest = specs.data(name, specs.newest_data_version(name))[0].struct
        fields: list[Value] = [item.name for item in (*newest.items, *newest.tagged)]
        yield {"block": name, "versions": str(specs.data_versions(name)), "stands_in": where, "fields": fields}
    yield {"block": "record batch head", "stands_in": "record data of magic 2", "fields": [*HEAD_FIELDS]}
    yield {"block": "record", "stands_in": "behind a batch head, its size first", "fields": [*_RECORD_FIELDS]}
    yield {"block": "message", "stands_in": "record data of magic 0 and 1", "fields": [*_MESSAGE_FIELDS]}
    yield {"block": "control record key", "stands_in": "batches of markers", "fields": ["version", "type"]}


def _control_values(kind: int) -> tuple[str, ...]:
    """The structures that the value of a control record may have."""
    return ("EndTxnMarker",) if kind in (ABORT, COMMIT) else KRAFT.get(kind, ())


def _stored() -> Iterator[dict[str, Value]]:
    """Records of the brokers' own topics."""
    for topic, page in {**COORDINATED, **FRAMED}.items():
        for kind, number, name, versions in specs.record_types(page):
            if kind != "key":
                yield {"topic": topic, "type": number, "format": name, "versions": versions}


def _stored_by_name() -> Iterator[dict[str, Value]]:
    """Records of topics that are recognised by a part of their name."""
    for word, decode in BY_WORD:
        yield {"topic": f"*{word}*", "format": decode.__name__.removeprefix("decode_")}
    for ends, decode in BY_END:
        for end in ends:
            yield {"topic": f"*{end}", "format": decode.__name__.removeprefix("decode_")}
