"""The tables in, what ``mqsniff protocols rocketmq`` prints out."""

from __future__ import annotations

from dissectors.rocketmq.session import UNASKED
from dissectors.rocketmq.tables import Header, Part, Request, tables
from mqsniff.dissector import Table
from mqsniff.model import Value


def describe() -> dict[str, Table]:
    """Codes with their classes, response codes, and the classes by their sizes."""
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
        "header_classes": [_header_row(header) for header in known.headers.values()],
        "body_classes": [
            {"class": body.name, "status": body.status, "fields": len(body.fields)} for body in known.bodies.values()
        ],
        "languages": [{"number": number, "name": name} for number, name in known.languages.items()],
    }


def message_names() -> frozenset[str]:
    """Names that messages may have."""
    return frozenset((*(request.name for request in tables().every), UNASKED))


def _request_row(request: Request) -> dict[str, Value]:
    return {
        "code": request.code,
        "name": request.name,
        "status": request.status,
        "who": list(request.who),
        "request_header": request.request.header_name or None,
        "request_body": _body(request.request),
        "response_header": request.response.header_name or None,
        "response_body": _body(request.response),
    }


def _header_row(header: Header) -> dict[str, Value]:
    required: list[Value] = [*sorted(header.required)]
    return {"class": header.name, "status": header.status, "fields": len(header.own), "required": required}


def _body(part: Part) -> str | None:
    return part.body or None
