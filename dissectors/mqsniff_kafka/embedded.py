"""Decodes formats that are embedded in the bytes of fields; other bytes stay bytes.

1. Layouts mark the fields that hold a format; ``formats`` decodes them, some by the type of their group.
2. An envelope holds a whole request or response with its header. The rules for secrets hold in it as they do outside.
3. Bytes that do not parse stay as they are, with a problem of kind ``format`` that names the expected format.

Source: ``EnvelopeUtils`` of Apache Kafka.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from mqsniff.limits import Limits
from mqsniff.model import Problem, Undecoded
from mqsniff.spec.layout import Layout
from mqsniff.spec.schema import Struct
from mqsniff.spec.wire import Malformed
from mqsniff_kafka import bodies, heads
from mqsniff_kafka.bodies import Version
from mqsniff_kafka.fieldpaths import BodyFields
from mqsniff_kafka.formats import EXPECTED, TEXTS, FormatContext, decode_marked
from mqsniff_kafka.records.data import replace_all


class Holder(NamedTuple):
    """The fields of a struct that hold a format, and those whose structs have such fields."""

    fields: tuple[tuple[str, str], ...]
    """(field, mark)."""
    inner: tuple[tuple[str, bool, Holder], ...]


@cache
def holder_of(layout: Layout) -> Holder | None:
    """The embedded formats of a layout; None for most layouts."""
    return _holder(layout.struct)


def _holder(struct: Struct) -> Holder | None:
    items = (*struct.items, *struct.tagged)
    holds = {"bytes": EXPECTED, "string": TEXTS}
    fields = tuple((item.name, item.mark) for item in items if item.mark in holds.get(item.type, ()))
    found = ((item.name, item.array, _holder(item.struct)) for item in items if item.struct is not None)
    inner = tuple((name, array, holder) for name, array, holder in found if holder is not None)
    return Holder(fields, inner) if fields or inner else None


def open_bytes(layout: Layout, body: BodyFields, context: FormatContext) -> list[Problem]:
    """Replace the bytes of a body that hold formats; ``context``: what the connection knows of the group."""
    holder = holder_of(layout)
    problems: list[Problem] = []
    if holder is not None:
        _open(holder, body, "", context, problems)
    return problems


def _open(holder: Holder, body: BodyFields, path: str, context: FormatContext, problems: list[Problem]) -> None:
    context = _nearer(body, context)
    for field, mark in holder.fields:
        raw = body.get(field)
        if isinstance(raw, bytes) and mark in EXPECTED:
            try:
                body[field] = decode_marked(mark, raw, context)
            except Malformed:
                problems.append(Problem("format", "warning", EXPECTED[mark], path + field))
        elif isinstance(raw, str) and (found := TEXTS[mark](raw)) is not None:
            body[field] = found
    for field, array, inner in holder.inner:
        value = body.get(field)
        if array:
            for index, element in enumerate(value or ()):
                _open(inner, element, f"{path}{field}[{index}].", context, problems)
        elif value:
            _open(inner, value, f"{path}{field}.", context, problems)


def _nearer(body: BodyFields, context: FormatContext) -> FormatContext:
    """The group's type and protocol as a struct has them, else as the struct around it has."""
    protocol_type = body.get("protocol_type") or context.protocol_type
    protocol = body.get("protocol_name") or body.get("protocol_data") or context.protocol
    if "metadata" in body and "name" in body:
        protocol = body["name"]
    return FormatContext(protocol_type, protocol, body.get("compression_type", context.codec))


# ---- envelopes


def open_request(body: BodyFields, limits: Limits, problems: list[Problem]) -> Version | None:
    """Decode the forwarded request of an envelope; returns its API and version, for the response."""
    raw = body.get("request_data")
    if not isinstance(raw, bytes):
        return None
    body["request_data"] = Undecoded(raw)
    if len(raw) < heads.REQUEST_MIN:
        problems.append(Problem("format", "warning", "expected a request", "request_data"))
        return None
    key, number, correlation = heads.REQUEST_HEAD.unpack_from(raw)
    version = bodies.version_of(key, number)
    # ``read_request_header`` expects the size word, which an envelope leaves out.
    framed = bytes(heads.SIZE_WORD) + raw
    try:
        header = bodies.read_request_header(framed, version)
    except Malformed:
        problems.append(Problem("format", "warning", "expected a request", "request_data"))
        return None
    inner, found = bodies.read_request_body(version, framed, header.stop, len(framed), limits)
    problems += _under("request_data", found)
    _finish(inner)
    told = {"api_key": key, "api_version": number, "correlation_id": correlation, "client_id": header.client_id}
    body["request_data"] = {"header": told, "body": inner.value}
    return version


def open_response(body: BodyFields, version: Version | None, limits: Limits, problems: list[Problem]) -> None:
    """Decode the forwarded response of an envelope whose request was seen."""
    raw = body.get("response_data")
    if not isinstance(raw, bytes):
        return
    body["response_data"] = Undecoded(raw)
    if version is None or len(raw) < heads.RESPONSE_MIN:
        return
    try:
        _, pos = bodies.read_header_tags(raw, 4) if version.flexible_response else (None, 4)
    except Malformed:
        problems.append(Problem("format", "warning", "expected a response", "response_data"))
        return
    inner, found = bodies.read_response_body(version, raw, pos, len(raw), limits)
    problems += _under("response_data", found)
    _finish(inner)
    header = {"correlation_id": int.from_bytes(raw[:4], "big", signed=True)}
    body["response_data"] = {"header": header, "body": inner.value}


def _finish(inner: bodies.KafkaBody) -> None:
    """Replace record data by its size: brokers never forward any."""
    if inner.marks is not None and inner.marks.records is not None:
        replace_all(inner.marks.records, inner.value)


def _under(path: str, problems: list[Problem]) -> list[Problem]:
    """Problems of an embedded body, with the path of its field before theirs."""
    for problem in problems:
        problem.path = f"{path}.body.{problem.path}" if problem.path else path
    return problems
