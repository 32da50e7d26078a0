"""Bytes of bodies that hold formats of their own in, these formats out; bytes that are something else stay bytes.

1. Members of groups of protocol type "consumer" describe themselves and get their work in versioned structs; a version
   newer than known is read as the newest one, as consumers do.
2. An envelope holds a whole request or response, header first, and the principal on whose behalf it comes.
3. What does not parse stays as it is, with a problem of kind ``format`` that names what was expected.

Sources: ``ConsumerProtocol``, ``EnvelopeUtils`` and ``DefaultKafkaPrincipalBuilder`` of Apache Kafka.
"""

from __future__ import annotations

import ipaddress
from struct import Struct
from typing import Any, Final

from dissectors.kafka import bodies, heads, specs
from dissectors.kafka.bodies import Version
from dissectors.kafka.marks import Body
from mqsniff.limits import Limits
from mqsniff.model import Problem, Undecoded
from mqsniff.spec.wire import Malformed

CONSUMER: Final = "consumer"
_VERSION: Final = Struct(">h")


def read_versioned(name: str, raw: bytes, limits: Limits) -> dict[str, Any] | None:
    """A struct behind an int16 version, its version first; None where the bytes are none."""
    if len(raw) < 2:
        return None
    (version,) = _VERSION.unpack_from(raw)
    if version < 0:
        return None
    newest = specs.newest_data_version(name)
    for layout in specs.data(name, min(version, newest)):
        decoded = layout.decode(raw, 2, limits=limits)
        if decoded.broken is None and (decoded.stop == len(raw) or version > newest):
            return {"version": version, **decoded.body}
    return None


def _put(body: Body, path: str, name: str, limits: Limits) -> list[Problem]:
    """Replace bytes of a body by the struct that they hold; ``path`` ends with the field, and problems name it."""
    field = path.rpartition(".")[2]
    raw = body.get(field)
    if not isinstance(raw, bytes) or not raw:
        return []
    found = read_versioned(name, raw, limits)
    if found is None:
        return [Problem("format", "warning", f"expected {name}", path)]
    body[field] = found
    return []


def open_members(body: Body, protocol_type: Any, limits: Limits, problems: list[Problem]) -> None:
    """Subscriptions and assignments of a JoinGroup, SyncGroup or DescribeGroups body, by its groups' protocol type."""
    for index, group in enumerate(body.get("groups") or ()):
        if isinstance(group, dict):
            inner: list[Problem] = []
            open_members(group, group.get("protocol_type"), limits, inner)
            for problem in inner:
                problem.path = f"groups[{index}].{problem.path}"
            problems += inner
    if protocol_type != CONSUMER:
        return
    for array in ("protocols", "members", "assignments"):
        for index, member in enumerate(body.get(array) or ()):
            for field in ("metadata", "member_metadata"):
                problems += _put(member, f"{array}[{index}].{field}", "ConsumerProtocolSubscription", limits)
            for field in ("assignment", "member_assignment"):
                problems += _put(member, f"{array}[{index}].{field}", "ConsumerProtocolAssignment", limits)
    problems += _put(body, "assignment", "ConsumerProtocolAssignment", limits)


# ---- envelopes


def open_request(body: Body, limits: Limits, problems: list[Problem]) -> Version | None:
    """The forwarded request of an envelope, its principal and address; gives what the response will be read by."""
    problems += _put(body, "request_principal", "DefaultPrincipalData", limits)
    address = body.get("client_host_address")
    if isinstance(address, bytes) and len(address) in (4, 16):
        body["client_host_address"] = str(ipaddress.ip_address(address))
    raw = body.get("request_data")
    if not isinstance(raw, bytes):
        return None
    body["request_data"] = Undecoded(raw)
    if len(raw) < heads.REQUEST_MIN:
        problems.append(Problem("format", "warning", "expected a request", "request_data"))
        return None
    key, number, correlation = heads.REQUEST_HEAD.unpack_from(raw)
    version = bodies.version_of(key, number)
    # The header's reader counts from the size word, which an envelope leaves out.
    framed = bytes(heads.SIZE_WORD) + raw
    try:
        header = bodies.read_request_header(framed, version)
    except Malformed:
        problems.append(Problem("format", "warning", "expected a request", "request_data"))
        return None
    inner, found = bodies.read_request_body(version, framed, header.stop, len(framed), limits)
    problems += _under("request_data", found)
    told = {"api_key": key, "api_version": number, "correlation_id": correlation, "client_id": header.client_id}
    body["request_data"] = {"header": told, "body": inner.value}
    return version


def open_response(body: Body, version: Version | None, limits: Limits, problems: list[Problem]) -> None:
    """The forwarded response of an envelope whose request was seen."""
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
    header = {"correlation_id": int.from_bytes(raw[:4], "big", signed=True)}
    body["response_data"] = {"header": header, "body": inner.value}


def _under(path: str, problems: list[Problem]) -> list[Problem]:
    """Problems of what stands in a field, with their whole path."""
    for problem in problems:
        problem.path = f"{path}.body.{problem.path}" if problem.path else path
    return problems
