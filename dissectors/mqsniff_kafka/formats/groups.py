"""Metadata and assignments of group members, by the group's protocol type and protocol.

1. ``consumer``: versioned structs; their user data has the format of the assignor, which is the group's protocol.
2. User data of an unknown assignor, or that cannot be read, stays bytes. If the assignor or the group's type was not
   seen (the group was formed before the capture), a format that fits exactly is taken.
3. Other clients than Java's write sticky user data for the cooperative assignor too; Sarama writes it into assignments,
   kafka-python 3 with an int16 version before it.
4. ``connect``: see ``connect.py``. ``sr`` (schema registries): JSON, shown as it is. Other types are unknown.

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
    """A member's metadata for one of its protocols; the bytes if the type is unknown."""
    return _decode(raw, SUBSCRIPTION, protocol_type, protocol)


def decode_member_assignment(raw: bytes, protocol_type: object, protocol: object) -> Any:
    """A member's assignment; the bytes if the type is unknown or they are empty."""
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
    """The format that fits to the last byte, of a consumer or a Connect worker; else the bytes."""
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
    """User data of a ``subscription`` or ``assignment`` by an assignor; the bytes if unknown (rule 2)."""
    for decode in USER_DATA.get((place, protocol), ()):
        try:
            return decode(raw)
        except Malformed:
            continue
    return raw


def decode_sticky(raw: bytes) -> dict[str, Any]:
    """The partitions that a member owns and, since version 1, their generation; the bytes have no version field."""
    cursor = Cursor(raw)
    body: dict[str, Any] = {"previous_assignment": cursor.items(lambda: _topic_partitions(cursor), 6)}
    if cursor.left:
        body["generation"] = cursor.int32()
    cursor.finish()
    return body


def _topic_partitions(cursor: Cursor) -> dict[str, Any]:
    return {"topic": cursor.string(), "partitions": cursor.items(cursor.int32, 4)}


def decode_versioned_sticky(raw: bytes) -> dict[str, Any]:
    """As ``decode_sticky``, with a version field in front."""
    version, pos = read_int16(raw, 0, len(raw))
    body = decode_sticky(raw[pos:])
    if version != ("generation" in body):
        raise Malformed("not the version that it says")
    return {"version": version, **body}


def decode_cooperative_sticky(raw: bytes) -> dict[str, Any]:
    """The generation of the partitions that a member owns."""
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
"""(place, assignor; None: unknown) -> decoders that its user data may need."""
