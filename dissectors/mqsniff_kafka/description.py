"""The tables that ``mqsniff protocols kafka`` prints.

Versions, fields and names of numbers come from the specifications; descriptions are added here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from mqsniff.dissector import DroppedVersions, Table
from mqsniff.model import Value
from mqsniff_kafka import rows, specs
from mqsniff_kafka.formats import EXPECTED, TEXTS
from mqsniff_kafka.formats.connect import BY_END
from mqsniff_kafka.formats.control import ABORT, COMMIT, KRAFT
from mqsniff_kafka.formats.internaltopics import COORDINATED, FRAMED
from mqsniff_kafka.formats.mirrormaker import BY_WORD
from mqsniff_kafka.logins import TOKEN
from mqsniff_kafka.oracles import SELF, LayoutPlace, oracles_of, reasons, vouchers
from mqsniff_kafka.ordinary import ORDINARY
from mqsniff_kafka.records.batches import HEAD_FIELDS
from mqsniff_kafka.records.compression import CODECS
from mqsniff_kafka.responses import UNASKED
from mqsniff_kafka.sasl import MECHANISMS

_LAST_OF_3: Final = "3.9"
_FIRST_OF_4: Final = "4.0"

UNANSWERED: Final = {"Produce": "acks is 0"}
"""API -> when it gets no response."""


def describe() -> dict[str, Table]:
    """APIs with their versions, layouts and oracles; error codes, releases and SASL mechanisms."""
    apis = [api for _, api in sorted(specs.apis().items())]
    alone = without_oracle(reasons())
    return {
        "coverage": _coverage(apis),
        **({"oracles": _oracles(apis)} if vouchers() else {}),
        **({"without_oracle": alone} if alone else {}),
        "apis": [_api_row(api) for api in apis],
        "errors": [
            {"code": code, "name": name, "retriable": code in specs.retriable_errors()}
            for code, name in sorted(specs.errors().items())
        ],
        "ordinary_answers": ORDINARY.described(),
        "other_messages": [
            {"name": TOKEN, "answered_by": [TOKEN], "about": "a SASL token without a header, after SaslHandshake v0"},
            {"name": UNASKED, "answered_by": [], "about": "an answer whose request was not captured"},
        ],
        **_contents(),
        "releases": [{"release": name, "apis": len(table)} for name, table in specs.releases().items()],
        "sasl_mechanisms": [{"name": name} for name in sorted(MECHANISMS)],
    }


def dropped_versions() -> dict[str, DroppedVersions]:
    """What the first release of Kafka 4 no longer takes of its APIs, and the last of Kafka 3 took (KIP-896).

    APIs that went with ZooKeeper were spoken between brokers only.
    """
    releases = specs.releases()
    old, new = releases[_LAST_OF_3], releases[_FIRST_OF_4]
    dropped = {
        specs.apis()[key].name: DroppedVersions(new[key][0], f"Kafka {_FIRST_OF_4}")
        for key, (first, _, _) in old.items()
        if key in new and new[key][0] > first
    }
    return dict(sorted(dropped.items()))


def message_names() -> frozenset[str]:
    """Names that messages may have."""
    return frozenset((*(api.name for api in specs.apis().values()), TOKEN, UNASKED))


def _coverage(apis: list[specs.Api]) -> Table:
    """How many layouts there are, and for how many there is an oracle."""
    layouts = _layouts(apis)
    alone = sum(oracles_of(*layout) == (SELF,) for layout in layouts)
    legacy = sum(2 * max(0, api.legacy.last - api.legacy.first + 1) for api in apis)
    counts: dict[str, Value] = {
        "APIs": len(apis),
        "layouts (API, version, direction)": len(layouts),
        "of these, gone from the newest release": legacy,
        **({"of these, compared with other encoders": f"{len(layouts) - alone}/{len(layouts)}"} if vouchers() else {}),
        "schemas of Apache Kafka": specs.release(),
    }
    return [{"what": what, "number": number} for what, number in counts.items()]


def _oracles(apis: list[specs.Api]) -> Table:
    """Each oracle with the number of its layouts, and of those that no other oracle has; our own encoder last."""
    names = [oracles_of(*layout) for layout in _layouts(apis)]
    held = Counter(name for some in names for name in some)
    only = Counter(some[0] for some in names if len(some) == 1)
    return [{"oracle": name, "layouts": held[name], "alone": only[name]} for name in (*vouchers(), SELF)]


def without_oracle(why: Mapping[LayoutPlace, str]) -> Table:
    """Layouts that only our own encoder has written, with the reason."""
    return [
        {"api": specs.apis()[key].name, "kind": kind, "version": version, "reason": reason}
        for (key, kind, version), reason in sorted(why.items())
    ]


def _layouts(apis: list[specs.Api]) -> list[tuple[int, specs.DefinitionKind, int]]:
    """Every layout of these APIs."""
    kinds: tuple[specs.DefinitionKind, ...] = ("request", "response")
    return [
        (api.key, kind, version)
        for api in apis
        for kind in kinds
        for version in range(api.versions.first, api.versions.last + 1)
    ]


def _api_row(api: specs.Api) -> dict[str, Value]:
    both = (*specs.definitions(api.key, "request"), *specs.definitions(api.key, "response"))
    variants: list[Value] = [*dict.fromkeys(one.variant for one in both if one.variant)]
    return {
        "key": api.key,
        "name": api.name,
        "versions": str(api.versions),
        "legacy": str(api.legacy),
        "flexible": str(api.flexible_requests),
        "variants": variants,
        "oracles": [*dict.fromkeys(_family(oracle) for layout in _layouts([api]) for oracle in oracles_of(*layout))],
        "listeners": list(api.listeners),
        "partitions": api.key in rows.KEYS,
        "answered_by": [api.name],
        "unanswered": UNANSWERED.get(api.name),
        "about": api.about,
    }


def _family(oracle: str) -> str:
    """An oracle without its release."""
    return oracle.partition(" ")[0]


# ---- what stands in messages beside their fields

_HEADERS: Final[Mapping[str, str]] = {
    "RequestHeader": "every request, after its int32 size",
    "ResponseHeader": "every response, after its int32 size",
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


def _contents() -> dict[str, Table]:
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
    yield {"block": "record", "stands_in": "after a batch head, its size first", "fields": [*_RECORD_FIELDS]}
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
