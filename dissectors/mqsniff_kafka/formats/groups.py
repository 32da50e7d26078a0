"""Metadata and assignments of group members in, by the group's protocol type and protocol; what they say out.

1. ``consumer``: versioned structs, whose user data belongs to the assignor, which is the group's protocol.
2. User data of an assignor that is not known, or that cannot be read, stays bytes. Where the assignor itself, or the
   group's type, is not known, as the group was formed before the capture, what fits exactly counts.
3. Clients other than Java's write sticky user data for the cooperative assignor too, Sarama into assignments, and
   kafka-python 3 behind an int16 version.
4. ``connect``: see ``connect.py``. ``sr`` (schema registries): JSON, which is shown as it stands. Others are unknown.

Sources: Apache Kafka, ``ConsumerProtocol``, ``StickyAssignor``, ``CooperativeStickyAssignor``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from mqsniff.spec.wire import Malformed, read_int16
from mqsniff_kafka.formats import connect, streams
from mqsniff_kafka.formats.cursor import Cursor
from mqsniff_kafka.formats.structs import read_versioned

CONSUMER: Final = "consumer"
CONNECT: Final = "connect"

SUBSCRIPTION: Final = "subscription"
ASSIGNMENT: Final = "assignment"
_STRUCTS: Final = {SUBSCRIPTION: "ConsumerProtocolSubscription", ASSIGNMENT: "ConsumerProtocolAssignment"}
_CONNECTS: Final = {SUBSCRIPTION: connect.decode_metadata, ASSIGNMENT: connect.decode_assignment}


def decode_member_metadata(raw: bytes, protocol_type: object, protocol: object) -> Any:
    """What a member said of itself for one of its protocols; the bytes themselves where nobody knows the type."""
    return _decode(raw, SUBSCRIPTION, protocol_type, protocol)


def decode_member_assignment(raw: bytes, protocol_type: object, protocol: object) -> Any:
    """What a member was given; the bytes themselves where nobody knows the type, and where there are none."""
    return _decode(raw, ASSIGNMENT, protocol_type, protocol)


def _decode(raw: bytes, place: str, protocol_type: object, protocol: object) -> Any:
    if not raw or protocol_type not in (CONSUMER, CONNECT, None):
        return raw
    if protocol_type is None:
        return _guessed(raw, place, protocol)
    if protocol_type == CONNECT:
        return _CONNECTS[place](raw)
    return _with_user_data(read_versioned(_STRUCTS[place], raw), place, protocol)


def _guessed(raw: bytes, place: str, protocol: object) -> Any:
    """What fits to the last byte, of a consumer or a worker of Connect; else the bytes themselves."""
    for protocol_type in (CONSUMER, CONNECT):
        try:
            found = _decode(raw, place, protocol_type, protocol)
        except Malformed:
            continue
        if "unread" not in found:
            return found
    return raw


def _with_user_data(body: dict[str, Any], place: str, protocol: object) -> dict[str, Any]:
    raw = body.get("user_data")
    if isinstance(raw, bytes) and raw:
        body["user_data"] = decode_user_data(raw, place, protocol)
    return body


def decode_user_data(raw: bytes, place: str, protocol: object) -> Any:
    """User data of a ``subscription`` or an ``assignment`` under an assignor, or the bytes (rule 2)."""
    for decode in USER_DATA.get((place, protocol), ()):
        try:
            return decode(raw)
        except Malformed:
            continue
    return raw


def decode_sticky(raw: bytes) -> dict[str, Any]:
    """What a member owns, and since version 1 of which generation; there is no version to read."""
    cursor = Cursor(raw)
    body: dict[str, Any] = {"previous_assignment": cursor.items(lambda: _topic_partitions(cursor), 6)}
    if cursor.left:
        body["generation"] = cursor.int32()
    cursor.finish()
    return body


def _topic_partitions(cursor: Cursor) -> dict[str, Any]:
    return {"topic": cursor.string(), "partitions": cursor.items(cursor.int32, 4)}


def decode_versioned_sticky(raw: bytes) -> dict[str, Any]:
    """The same behind a version, which says whether there is a generation."""
    version, pos = read_int16(raw, 0, len(raw))
    body = decode_sticky(raw[pos:])
    if version != ("generation" in body):
        raise Malformed("not the version that it says")
    return {"version": version, **body}


def decode_cooperative_sticky(raw: bytes) -> dict[str, Any]:
    """The generation of what a member owns."""
    cursor = Cursor(raw)
    body: dict[str, Any] = {"generation": cursor.int32()}
    cursor.finish()
    return body


STICKY: Final = (decode_sticky, decode_versioned_sticky)
USER_DATA: Final[Mapping[tuple[str, object], tuple[Callable[[bytes], dict[str, Any]], ...]]] = MappingProxyType(
    {
        (SUBSCRIPTION, "sticky"): STICKY,
        (SUBSCRIPTION, "cooperative-sticky"): (decode_cooperative_sticky, *STICKY),
        (SUBSCRIPTION, "stream"): (streams.decode_subscription,),
        (SUBSCRIPTION, None): (streams.decode_subscription, *STICKY),
        (ASSIGNMENT, "sticky"): STICKY,
        (ASSIGNMENT, "stream"): (streams.decode_assignment,),
        (ASSIGNMENT, None): (streams.decode_assignment, *STICKY),
    }
)
"""(place, assignor, None for an unknown one) -> what its user data may be."""
