"""Frames in, their headers and bodies out: of known APIs field by field, of all others the header and the size.

1. A request names its key and version; a response is decoded by those of its request.
2. If a version had other bytes in older releases, the layout that consumes the frame exactly is taken; today's if
   several do.
3. Responses to ApiVersions always have header version 0. Their body has version 0 if the broker does not know the
   requested version (error 35).
4. Bytes after the body of a request are allowed and kept.

Sources: RequestHeader.json, ResponseHeader.json and ``ApiMessageType`` of Apache Kafka; KIP-511 for rule 3.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from struct import Struct
from typing import Any, Final

from mqsniff.limits import Limits
from mqsniff.model import Problem, Severity, Undecoded
from mqsniff.spec import wire
from mqsniff.spec.interpret import DecodedBody
from mqsniff.spec.layout import Layout
from mqsniff.spec.wire import Extent, Malformed
from mqsniff_kafka import configs, heads, specs
from mqsniff_kafka.fieldpaths import FieldPaths, collect, field_paths_of, has_errors

API_VERSIONS: Final = 18
UNSUPPORTED_VERSION: Final = b"\x00\x23"
_LENGTH: Final = Struct(">h")

REPEATED: Final = frozenset({12, 68, 76, 88})
"""Heartbeats of groups: their bodies repeat byte by byte, and decoded ones are never changed."""
REPEATED_SIZE: Final = 256
"""Largest body that is cached."""
REPEATED_MAX: Final = 4096
"""Number of bodies that are cached."""


@dataclass(frozen=True, slots=True)
class Version:
    """An API at one version, known or not."""

    key: int
    version: int
    name: str
    requests: tuple[Layout, ...]
    responses: tuple[Layout, ...]
    flexible_request: bool
    flexible_response: bool
    unknown: Problem | None = None
    """The problem to report for a key or version without layouts."""

    def __reduce__(self) -> tuple[Callable[[int, int], Version], tuple[int, int]]:
        return version_of, (self.key, self.version)


@cache
def _known() -> dict[tuple[int, int], Version]:
    """Every version that has a layout; layouts are resolved at first use."""
    return {
        (key, version): Version(
            key,
            version,
            api.name,
            specs.layouts(key, "request", version),
            specs.layouts(key, "response", version),
            api.flexible_requests.holds(version),
            key != API_VERSIONS and api.flexible_responses.holds(version),
        )
        for key, api in specs.apis().items()
        for version in range(api.versions.first, api.versions.last + 1)
    }


def version_of(key: int, version: int) -> Version:
    """An API at a version; unknown ones are not cached."""
    return _known().get((key, version)) or _unknown(key, version)


def _unknown(key: int, version: int) -> Version:
    """An unknown version, of which the header can be decoded: newer versions of an API stay flexible."""
    api = specs.apis().get(key)
    if api is None:
        problem = Problem("unknown_code", "warning", f"API key {key} is unknown", "api_key")
        name = f"unknown({key})"
        return Version(key, version, name, (), (), flexible_request=False, flexible_response=False, unknown=problem)
    detail = f"version {version} is none of {api.versions}"
    problem = Problem("unknown_version", "warning", detail, "api_version")
    flexible = heads.known()[key].flexible <= version
    newer = version >= api.flexible_responses.first <= api.flexible_responses.last
    return Version(key, version, api.name, (), (), flexible, newer and key != API_VERSIONS, problem)


@dataclass(slots=True)
class KafkaBody:
    """A decoded body. It must not be changed: messages with equal bytes may share it."""

    value: dict[str, Any]
    marks: FieldPaths | None
    """Paths of the values that fill columns; None for a body without layout."""
    layout: Layout | None = None
    judged: bool = True
    """Whether all error codes were read; false without a layout."""

    def with_tags(self, tags: dict[str, bytes]) -> KafkaBody:
        """The same body with the unknown tags of its header."""
        return KafkaBody({**self.value, "header_unknown_tags": tags}, self.marks, self.layout, self.judged)


@dataclass(slots=True)
class RequestHeader:
    """The request header after key, version and correlation id."""

    client_id: str | None
    stop: int
    """Where the body starts."""
    tags: dict[str, bytes] | None = None


# ---- headers


def read_request_header(data: bytes, version: Version) -> RequestHeader:
    """Client id and tags of a request header, which follow the correlation id; Malformed if they are damaged."""
    if version.key == heads.CONTROLLED_SHUTDOWN and version.version == 0:
        return RequestHeader(None, 12)
    if len(data) < 14:
        raise Malformed(wire.CUT)
    (length,) = _LENGTH.unpack_from(data, 12)
    stop = 14 + length if length > 0 else 14
    if length < -1 or stop > len(data):
        raise Malformed("client id beyond the end")
    client_id = data[14:stop].decode(errors="backslashreplace") if length > 0 else None
    if not version.flexible_request:
        return RequestHeader(client_id, stop)
    tags, stop = read_header_tags(data, stop)
    return RequestHeader(client_id, stop, tags)


def read_header_tags(data: bytes, pos: int) -> tuple[dict[str, bytes] | None, int]:
    """Tags of a flexible header, of which none is defined so far: (tags, offset after them)."""
    if pos < len(data) and data[pos] == 0:
        return None, pos + 1
    end = len(data)
    count, pos = wire.read_tag_count(data, pos, end)
    tags: dict[str, bytes] = {}
    for _ in range(count):
        tag, pos, stop = wire.read_tag(data, pos, end)
        tags[str(tag)] = data[pos:stop]
        pos = stop
    return tags, pos


# ---- bodies


def read_request_body(
    version: Version, data: bytes, pos: int, size: int, limits: Limits
) -> tuple[KafkaBody, list[Problem]]:
    """Body of a request of ``size`` bytes, of which ``data`` were captured."""
    if version.unknown is not None:
        return raw_body(data, pos, size), [version.unknown]
    if version.key in REPEATED and _may_repeat(data, pos, size, limits):
        body = _repeated(version.requests[0], data[pos:])
        if body is not None:
            return body, []
    return read_body(version.requests, data, pos, size, limits, trailing="info")


def read_response_body(
    version: Version, data: bytes, pos: int, size: int, limits: Limits
) -> tuple[KafkaBody, list[Problem]]:
    """Body of the response to a request of this version."""
    layouts = version.responses
    if version.key in REPEATED and layouts and _may_repeat(data, pos, size, limits):
        body = _repeated(layouts[0], data[pos:])
        if body is not None:
            return body, []
    if version.key == API_VERSIONS and version.version and data.startswith(UNSUPPORTED_VERSION, pos):
        layouts = (*specs.layouts(API_VERSIONS, "response", 0), *layouts)
    if not layouts:
        return raw_body(data, pos, size), []
    return read_body(layouts, data, pos, size, limits, trailing="warning")


def _may_repeat(data: bytes, pos: int, size: int, limits: Limits) -> bool:
    """Whether a body is whole, small, and under no limit."""
    return pos + REPEATED_SIZE >= size == len(data) and limits.elements_max >= REPEATED_SIZE


@lru_cache(REPEATED_MAX)
def _repeated(layout: Layout, data: bytes) -> KafkaBody | None:
    """A cached body, which must not be changed; None if anything in it is odd."""
    value = layout.exact(data, 0)
    return None if value is None else KafkaBody(value, field_paths_of(layout), layout)


def raw_body(data: bytes, pos: int, size: int) -> KafkaBody:
    """A body that cannot be decoded: its size."""
    return KafkaBody({"undecoded": Undecoded(data[pos:size])} if pos < size else {}, None, judged=False)


def read_body(
    layouts: tuple[Layout, ...], data: bytes, pos: int, size: int, limits: Limits, *, trailing: Severity
) -> tuple[KafkaBody, list[Problem]]:
    """The body by the first layout that consumes exactly ``size`` bytes, else by the first that decodes."""
    whole = len(data) == size
    if whole and (value := layouts[0].exact(data, pos, limits)) is not None:
        marks = field_paths_of(layouts[0])
        if marks.configs is not None:
            configs.hide_secrets(marks.configs, value)
        configs.hide_unclear(marks.texts, value)
        return KafkaBody(value, marks, layouts[0]), []
    found: tuple[Layout, DecodedBody] | None = None
    for layout in layouts:
        decoded = layout.decode(data, pos, limits=limits, claimed=None if whole else size)
        if decoded.broken is None and decoded.stop == len(data):
            found = layout, decoded
            break
        if found is None or (found[1].broken is not None and decoded.broken is None):
            found = layout, decoded
    assert found is not None
    layout, decoded = found
    body, problems, marks = decoded.body, list(decoded.problems), field_paths_of(layout)
    rest = data[decoded.stop :]
    if decoded.broken is not None:
        if whole:
            problems.append(Problem("malformed", "error", decoded.broken.why, decoded.broken.path))
        if rest and not _ends_in_records(marks, body, len(data)):
            body["undecoded"] = Undecoded(rest)
    elif rest and whole:
        detail = f"{len(rest)} bytes after the body"
        problems.append(Problem("trailing_bytes", trailing, detail))
        body["trailing_bytes"] = Undecoded(rest)
    configs.hide_secrets(marks.configs, body)
    configs.hide_unclear(marks.texts, body)
    return KafkaBody(body, marks, layout, not any(map(has_errors, decoded.unread))), problems


def _ends_in_records(marks: FieldPaths, body: dict[str, Any], stop: int) -> bool:
    """Whether the captured bytes end in record data; its whole batches were decoded."""
    if marks.records is None:
        return False
    found: list[Any] = []
    collect(marks.records, body, found)
    return bool(found) and isinstance(found[-1], Extent) and found[-1].stop == stop
