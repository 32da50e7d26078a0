"""Every field of a frame beside its bytes, for ``mqsniff explain``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mqsniff.limits import Limits
from mqsniff.model import Frame, Secret, Side, Span, Undecoded, Value
from mqsniff.spec.layout import Layout
from mqsniff.spec.wire import Malformed
from mqsniff_kafka import bodies, heads, specs
from mqsniff_kafka.configs import hide_spans
from mqsniff_kafka.fieldpaths import field_paths_of
from mqsniff_kafka.records.batches import read_batches
from mqsniff_kafka.records.secrets import hide_secrets, may_hold_secret

SECRET_BYTES: Final = frozenset({"envelope_request", "envelope_response"})
"""Embedded formats that may hold secrets: their bytes are hidden."""
TOPICS: Final = frozenset({"topic_name", "topic_id"})


def frame_spans(frame: Frame, layout: Layout | None, limits: Limits) -> Iterator[Span]:
    """Header, body and the bytes behind it; ``layout``: that of a response, if known."""
    data = frame.data
    if len(data) < (12 if frame.side is Side.CLIENT else 8):
        return
    yield Span("size", 0, 4, int.from_bytes(data[:4], "big", signed=True))
    if frame.side is Side.CLIENT:
        yield from _request(frame, limits)
        return
    yield Span("correlation_id", 4, 8, int.from_bytes(data[4:8], "big", signed=True))
    pos = 8
    if layout is not None and _has_tags(layout, data):
        _, pos = bodies.read_header_tags(data, pos)
        yield Span("header_tags", 8, pos, None)
    yield from _body(frame, layout, pos, limits)


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
        for span in hide_spans(
            field_paths_of(layout).configs, layout.spans(data, pos, claimed=frame.size, limits=limits)
        ):
            stop = span.stop
            if span.meaning in TOPICS:
                topic = span.value
            value = _records(span, data, topic, limits) if span.meaning == "records" else _shown(span)
            yield span._replace(value=value, meaning=_meaning(span))
    if stop < len(data):
        yield Span("undecoded" if layout is None else "trailing_bytes", stop, len(data), Undecoded(data[stop:]))


def _records(span: Span, data: bytes, topic: Value, limits: Limits) -> Value:
    """The length of record data; its bytes as a Secret if a record may hold one."""
    if not isinstance(span.value, int) or span.value <= 0:
        return span.value
    start = max(span.start, span.stop - span.value)
    reading = read_batches(data, start, span.stop, decompress_max=limits.decompress_max, open_records=True, lost=True)
    name = topic if isinstance(topic, str) else None
    hide_secrets(reading, name)
    secret = any("redacted" in records.columns.get("value_encoding", ()) for records in reading.records)
    secret = secret or may_hold_secret(reading, name)
    return Secret(data[span.start : span.stop]) if secret else span.value


def _shown(span: Span) -> Value:
    if span.meaning in SECRET_BYTES and isinstance(span.value, bytes):
        return Secret(span.value)
    return span.value


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
