"""The tables that ``mqsniff protocols rocketmq`` prints.

A response has the name of its request; a request with the flag ONEWAY gets none.
"""

from __future__ import annotations

from typing import Final

from mqsniff.dissector import Table
from mqsniff.model import Value
from mqsniff_rocketmq.heads import KEYS, STORED_V1, STORED_V2
from mqsniff_rocketmq.messages import MESSAGE_KINDS
from mqsniff_rocketmq.ordinary import ORDINARY
from mqsniff_rocketmq.session import UNASKED
from mqsniff_rocketmq.stored import CODECS, MAGIC_BLANK
from mqsniff_rocketmq.tables import CodePart, HeaderClass, Request, tables
from mqsniff_rocketmq.trace import FIELDS, TRACE_TOPIC

_BLOCKS: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "remoting header": ("every frame, as one of the serialisations", KEYS),
    "extFields": ("the header: the table of header classes", ()),
    "stored message": (
        "answers that give messages, before each body; see the stored formats",
        (
            *("store_size", "magic", "body_crc", "queue_id", "flag", "queue_offset", "physical_offset", "sys_flag"),
            *("born_time", "born_host", "store_time", "store_host", "reconsume_times"),
            *("prepared_transaction_offset", "body_size", "topic_size", "properties_size"),
        ),
    ),
    "batched message": (
        "SEND_BATCH_MESSAGE, before each body",
        ("total_size", "magic", "body_crc", "flag", "body_size", "properties_size"),
    ),
}
"""Name -> (where it occurs, fields)."""

_FLAGS: Final = (
    *("flag_bits", "message_sys_flag", "pull_sys_flag", "topic_sys_flag", "perm_bits"),
    *("forbidden_type", "request_source", "request_type"),
)
"""Tables of numbers and bits that have names."""

_RECORDS: Final[dict[str, str]] = {
    "message": "the body is one record, whose properties stand in the header",
    "message-batch": "a record after each head; the body of one stored message may be such a batch again",
    "stored-message": "one record as the broker stores it",
    "stored-messages": "records as the broker stores them, one after another",
}
"""Kind of a body -> what it holds; the request's and response's body classes name it."""

_ROLES: Final[dict[str, str]] = {
    "A": "admin tool",
    "B": "broker",
    "C": "client",
    "D": "DLedger node",
    "F": "filter server",
    "K": "controller",
    "N": "name server",
    "P": "proxy",
    "T": "broker container",
}
"""Letters in the pages of ``proto/rocketmq`` -> roles."""

_SERIALISATIONS: Final[dict[str, str]] = {
    "JSON": "the header as JSON text",
    "ROCKETMQ": "code, language, version, opaque, flag, remark and extFields in binary",
}


def describe() -> dict[str, Table]:
    """Codes with their classes, response codes, header and body classes, blocks, forms of records, and names."""
    known = tables()
    codes = [request for _, request in sorted(known.requests.items())]
    shown = {id(request) for request in codes}
    return {
        "requests": [_request_row(request) for request in codes],
        "older_names": [_request_row(request) for request in known.every if id(request) not in shown],
        "response_codes": [
            {"code": code, "name": name, "only_for": group or None}
            for group, names in known.responses.items()
            for code, name in sorted(names.items())
        ],
        "ordinary_answers": ORDINARY.described(),
        "header_classes": [_header_row(header) for header in known.headers.values()],
        "body_classes": [
            {"class": body.name, "status": body.status, "fields": len(body.fields)} for body in known.bodies.values()
        ],
        "metadata_blocks": [
            {"block": name, "stands_in": where, "fields": [*fields]} for name, (where, fields) in _BLOCKS.items()
        ],
        "record_formats": [{"format": name, "records": _RECORDS[name]} for name in sorted(MESSAGE_KINDS)],
        "codecs": [{"number": number, "name": name} for number, name in CODECS.items()],
        "serialisations": [
            {"number": int(number), "name": name, "form": _SERIALISATIONS.get(name)}
            for number, name in known.names["serialize_types"].items()
        ],
        "stored_formats": _stored_formats(),
        "markers": [
            {"bits": int(bits), "name": name, "stands_in": "sys_flag of a message"}
            for bits, name in known.names["transaction"].items()
        ],
        "flags": [
            {"of": table, "value": int(bits), "name": name}
            for table in _FLAGS
            for bits, name in known.names[table].items()
        ],
        "properties": [{"name": name, "constant": constant} for name, constant in known.names["properties"].items()],
        "languages": [{"number": number, "name": name} for number, name in known.languages.items()],
    }


def _stored_formats() -> Table:
    """Messages as brokers store them, and records of topics of RocketMQ's own."""
    rows: Table = [
        {"format": "stored message, topic up to 127 bytes", "magic": STORED_V1},
        {"format": "stored message, longer topic", "magic": STORED_V2},
        {"format": "filler at the end of a commit log file", "magic": MAGIC_BLANK},
    ]
    for kind, fields in FIELDS.items():
        rows.append({"format": f"message trace, {kind}", "topic": TRACE_TOPIC, "fields": [*fields]})
    return rows


def message_names() -> frozenset[str]:
    """Names that messages may have."""
    return frozenset((*(request.name for request in tables().every), UNASKED))


def _request_row(request: Request) -> dict[str, Value]:
    return {
        "code": request.code,
        "name": request.name,
        "status": request.status,
        "who": [_spelled(who) for who in request.who],
        "answered_by": [request.name],
        "request_header": request.request.header_name or None,
        "request_body": _body(request.request),
        "response_header": request.response.header_name or None,
        "response_body": _body(request.response),
    }


def _spelled(who: str) -> str:
    """Sender and receiver in words."""
    sender, _, receiver = who.partition(">")
    return f"{_ROLES.get(sender, sender)} to {_ROLES.get(receiver, receiver)}"


def _header_row(header: HeaderClass) -> dict[str, Value]:
    required: list[Value] = [*sorted(header.required)]
    return {"class": header.name, "status": header.status, "fields": len(header.own), "required": required}


def _body(part: CodePart) -> str | None:
    return part.body or None
