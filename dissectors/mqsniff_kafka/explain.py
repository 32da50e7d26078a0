"""Every field of a frame beside its bytes, for ``mqsniff explain``; record data by ``explain_records``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Final

from mqsniff.limits import Limits
from mqsniff.model import Frame, Message, Secret, Side, Span, Undecoded, Value
from mqsniff.spec.layout import Layout
from mqsniff.spec.wire import Malformed
from mqsniff_kafka import bodies, heads, specs
from mqsniff_kafka.configs import hide_spans
from mqsniff_kafka.explain_records import record_spans
from mqsniff_kafka.fieldpaths import field_paths_of
from mqsniff_kafka.formats import EXPECTED, FormatContext, decode_marked

ENVELOPED: Final = frozenset({"envelope_request", "envelope_response"})
"""A whole request or response inside bytes: what is secret in it is secret there; as a whole if it cannot be read."""
GROUP_FIELDS: Final = frozenset({"protocol_type", "protocol_name", "protocol_data", "name", "compression_type"})
"""Fields that tell which format stands in bytes after them."""
TOPICS: Final = frozenset({"topic_name", "topic_id"})


def frame_spans(
    frame: Frame, layout: Layout | None, limits: Limits, forwarded: bodies.Version | None = None
) -> Iterator[Span]:
    """Header, body and what follows it.

    ``layout`` is a response's, where it is known; ``forwarded`` the request to which an envelope forwards a response.
    """
    data = frame.data
    if len(data) < (12 if frame.side is Side.CLIENT else 8):
        return
    yield Span("size", 0, 4, int.from_bytes(data[:4], "big", signed=True))
    spans = _request(frame, limits) if frame.side is Side.CLIENT else _response(frame, layout, limits)
    for span in spans:
        if span.meaning in ENVELOPED and isinstance(span.value, Secret):
            yield from _enveloped(span, forwarded, limits)
        else:
            yield span


def _response(frame: Frame, layout: Layout | None, limits: Limits) -> Iterator[Span]:
    data = frame.data
    yield Span("correlation_id", 4, 8, int.from_bytes(data[4:8], "big", signed=True))
    pos = 8
    if layout is not None and _has_tags(layout, data):
        _, pos = bodies.read_header_tags(data, pos)
        yield Span("header_tags", 8, pos, None)
    yield from _body(frame, layout, pos, limits)


def token_spans(frame: Frame) -> Iterator[Span]:
    """A token of SASL without a Kafka header: its length, and the secret."""
    data = frame.data
    yield Span("size", 0, min(4, len(data)), int.from_bytes(data[:4], "big", signed=True), "bytes that follow")
    if len(data) > 4:
        yield Span("token", 4, len(data), Secret(data[4:]), "secret")


def _has_tags(layout: Layout, data: bytes) -> bool:
    """Whether the header of a response is flexible: it is if the body is, except in ApiVersions."""
    return layout.struct.flexible and layout.name != "ApiVersionsResponse" and len(data) > 8


def _request(frame: Frame, limits: Limits) -> Iterator[Span]:
    data = frame.data
    key, number, correlation = heads.REQUEST_HEAD.unpack_from(data, 4)
    version = bodies.version_of(key, number)
    yield Span("api_key", 4, 6, key, version.name)
    yield Span("api_version", 6, 8, number)
    yield Span("correlation_id", 8, 12, correlation)
    try:
        header = bodies.read_request_header(data, version)
    except Malformed:
        yield Span("undecoded", 12, len(data), Undecoded(data[12:]))
        return
    if header.stop > 12:
        yield Span("client_id", 12, header.stop, header.client_id)
    yield from _body(frame, _fitting(version.requests, frame, header.stop, limits), header.stop, limits)


def _fitting(layouts: tuple[Layout, ...], frame: Frame, pos: int, limits: Limits) -> Layout | None:
    """The layout that consumes a frame exactly, else today's."""
    for layout in layouts:
        decoded = layout.decode(frame.data, pos, limits=limits, claimed=frame.size)
        if decoded.broken is None and decoded.stop == len(frame.data):
            return layout
    return layouts[0] if layouts else None


def _body(frame: Frame, layout: Layout | None, pos: int, limits: Limits) -> Iterator[Span]:
    data, stop = frame.data, pos
    if layout is not None:
        topic: Value = None
        told: dict[str, Value] = {}
        for span in hide_spans(
            field_paths_of(layout).configs, layout.spans(data, pos, claimed=frame.size, limits=limits)
        ):
            stop = span.stop
            if span.meaning in TOPICS:
                topic = span.value
            if (name := span.path.rpartition(".")[2]) in GROUP_FIELDS:
                told[name] = span.value
            if span.meaning == "records":
                yield from _records(span, data, topic, limits)
            else:
                yield span._replace(value=_shown(span, told), meaning=_meaning(span))
    if stop < len(data):
        trails = layout is not None and frame.whole
        yield Span("trailing_bytes" if trails else "undecoded", stop, len(data), Undecoded(data[stop:]))


def _records(span: Span, data: bytes, topic: Value, limits: Limits) -> Iterator[Span]:
    """The length of record data, then its batches and records."""
    size = span.value if isinstance(span.value, int) else 0
    start = max(span.start, span.stop - size)
    yield span._replace(stop=start, path=f"{span.path}.size" if size else span.path, meaning="bytes of record data")
    if size > 0:
        yield from record_spans(data, (start, span.stop), span.path, topic, limits)


def _shown(span: Span, told: dict[str, Value]) -> Value:
    """A value; bytes that hold a format as what they hold, by what the message has ``told`` before of its group."""
    if not isinstance(span.value, bytes):
        return span.value
    if span.meaning in ENVELOPED:
        return Secret(span.value)
    if span.meaning not in EXPECTED:
        return span.value
    protocol = told.get("name") if span.meaning == "member_metadata" else None
    codec = told.get("compression_type")
    context = FormatContext(
        told.get("protocol_type"),
        protocol or told.get("protocol_name") or told.get("protocol_data"),
        codec if isinstance(codec, int) else None,
    )
    try:
        return decode_marked(span.meaning, span.value, context)
    except Malformed:
        return span.value


def _enveloped(span: Span, forwarded: bodies.Version | None, limits: Limits) -> Iterator[Span]:
    """The request or response inside of a field; the field as a secret if nobody can read it."""
    assert isinstance(span.value, Secret)
    raw = span.value.data
    start = span.stop - len(raw)
    inside: list[Span] = []
    if span.meaning == "envelope_request" and len(raw) >= heads.REQUEST_MIN:
        # The header's reader counts from the size word, which an envelope leaves out.
        framed = bytes(heads.SIZE_WORD) + raw
        inside = [_moved(each, -heads.SIZE_WORD) for each in _request(_framed(Side.CLIENT, framed), limits)]
    elif span.meaning == "envelope_response" and forwarded is not None and len(raw) >= heads.RESPONSE_MIN:
        pos = heads.RESPONSE_MIN
        inside = [Span("correlation_id", 0, pos, int.from_bytes(raw[:pos], "big", signed=True))]
        if forwarded.flexible_response:
            _, stop = bodies.read_header_tags(raw, pos)
            inside.append(Span("header_tags", pos, stop, None))
            pos = stop
        read, _ = bodies.read_response_body(forwarded, raw, pos, len(raw), limits)
        inside += _body(_framed(Side.SERVER, raw), read.layout, pos, limits)
    if not inside:
        yield span
        return
    yield span._replace(stop=start, path=f"{span.path}.size", value=len(raw), meaning="bytes of the inner message")
    for each in inside:
        yield _moved(each, start)._replace(path=f"{span.path}.{each.path}")


def _framed(side: Side, data: bytes) -> Frame:
    return Frame(side, 0, len(data), data, 0, 0, 0, 0, 0)


def _moved(span: Span, by: int) -> Span:
    return span._replace(start=span.start + by, stop=span.stop + by)


def code_name(message: Message, field: str, code: int) -> str | None:
    """What a number in a field of a message's body is called."""
    if field.endswith("error_code"):
        return specs.errors().get(code)
    mark = _marks(message.name, message.version or 0, is_request=message.frame.side is Side.CLIENT).get(field)
    if mark is None:
        return None
    name = _meaning(Span(field, 0, 0, code, mark))
    return name if name not in (mark, "unknown", "") else None


@cache
def _marks(name: str, version: int, *, is_request: bool) -> Mapping[str, str]:
    """Field -> what its numbers are, of the fields of an API's body that are numbers of something."""
    key = next((key for key, api in specs.apis().items() if api.name == name), None)
    found: dict[str, str] = {}
    for layout in () if key is None else specs.layouts(key, "request" if is_request else "response", version):
        structs = [layout.struct]
        while structs:
            for item in (*(struct := structs.pop()).items, *struct.tagged):
                if item.struct is not None:
                    structs.append(item.struct)
                elif item.mark == "api_key" or specs.enum(item.mark):
                    found.setdefault(item.name, item.mark)
    return found


def _meaning(span: Span) -> str:
    """The name of an enum value or error code, else the meaning of the field."""
    value = span.value
    if not isinstance(value, int) or isinstance(value, bool):
        return span.meaning
    if span.meaning == "error":
        return specs.errors().get(value, "unknown")
    if span.meaning == "api_key":
        api = specs.apis().get(value)
        return api.name if api else "unknown"
    if bits := specs.enum_bits(span.meaning):
        names = [name for bit, name in specs.enum(bits).items() if value >= 0 and value >> bit & 1]
        return specs.enum(span.meaning).get(value) or ", ".join(names)
    return specs.enum(span.meaning).get(value, span.meaning)
