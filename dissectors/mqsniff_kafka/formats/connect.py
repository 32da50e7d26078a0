"""Kafka Connect: metadata and assignments in groups of type ``connect``, and records of the workers' topics.

1. Version 0 is eager; 1 (compatible) and 2 (sessioned) add the tasks that a worker runs and those that it must stop.
2. Arrays may be null since version 1. Missing fields at the end have their defaults and are left out of the body.
3. Task -1 of a connector is the connector itself.
4. The topics for configurations, offsets and states may have any name and hold JSON; their keys tell them apart. Values
   of a configuration that may be secret are hidden.

Sources: Apache Kafka, ``ConnectProtocol``, ``IncrementalCooperativeConnectProtocol``, ``KafkaConfigBackingStore``,
``KafkaStatusBackingStore``, ``OffsetStorageWriter``.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from mqsniff.spec.wire import Malformed
from mqsniff_kafka.configs import hidden, is_secret
from mqsniff_kafka.formats.cursor import Cursor

NEWEST: Final = 2
JSON_MAX: Final = 1 << 20
"""Longer values are not parsed: bounds the cost of the JSON parser."""

PROPERTIES: Final = b'"properties"'
SESSION_KEY: Final = b"session-key"
SECRET_KEYS: Final = (b"connector-", b"task-", SESSION_KEY)
"""First bytes of the keys of records that may hold secrets."""
_CONFIG_KEYS: Final = (*SECRET_KEYS[:2], b"commit-", b"target-state-", b"restart-connector-", b"logger-cluster-")
_STATE_KEYS: Final = (b"status-connector-", b"status-task-", b"status-topic-")


def decode_metadata(raw: bytes) -> dict[str, Any]:
    """A worker's URL, its offset in the configuration topic, and the tasks that it runs."""
    cursor = Cursor(raw)
    version = _version(cursor)
    body: dict[str, Any] = {"version": version, "url": cursor.string(), "config_offset": cursor.int64()}
    if version >= 1:
        allocation = cursor.bytes_or_null()
        body["allocation"] = decode_assignment(allocation) if allocation else None
    _finish(cursor, version)
    return body


def decode_assignment(raw: bytes) -> dict[str, Any]:
    """The tasks that a worker has to run; since version 1 those it has to stop, and the delay until it rejoins."""
    cursor = Cursor(raw)
    version = _version(cursor)
    body: dict[str, Any] = {
        "version": version,
        "error": cursor.int16(),
        "leader": cursor.string(),
        "leader_url": cursor.string(),
        "config_offset": cursor.int64(),
    }
    body["assignment"] = _connectors(cursor, nullable=version >= 1)
    if version >= 1 and cursor.left:
        body["revoked"] = _connectors(cursor, nullable=True)
    if version >= 1 and cursor.left:
        body["scheduled_delay"] = cursor.int32()
    _finish(cursor, version)
    return body


def _version(cursor: Cursor) -> int:
    version = cursor.int16()
    if version < 0:
        raise Malformed("negative version")
    return version


def _finish(cursor: Cursor, version: int) -> None:
    """Malformed if bytes are left, except in versions that are newer than known."""
    if version <= NEWEST:
        cursor.finish()


def _connectors(cursor: Cursor, *, nullable: bool) -> list[dict[str, Any]] | None:
    found = cursor.array(lambda: {"connector": cursor.string(), "tasks": cursor.items(cursor.int32, 4)}, 6)
    if found is None and not nullable:
        raise Malformed("null where there has to be an array")
    return found


# ---- records of the workers' topics


def decode_config(key: bytes, value: bytes | None) -> dict[str, Any] | None:
    """A record of the topic for configurations; None for any other record, Malformed if it is no JSON."""
    if key != SESSION_KEY and not key.startswith(_CONFIG_KEYS):
        return None
    held = None if value is None else _json(value)
    if isinstance(held, dict):
        if key == SESSION_KEY and held.get("key") is not None:
            held["key"] = hidden(held["key"])
        if isinstance(properties := held.get("properties"), dict):
            held["properties"] = {
                name: hidden(text) if text is not None and is_secret(name, text) else text
                for name, text in properties.items()
            }
    return {"key": key, "value": held}


def decode_state(key: bytes, value: bytes | None) -> dict[str, Any] | None:
    """A record of the topic for states of connectors and tasks; None for any other record."""
    if not key.startswith(_STATE_KEYS):
        return None
    return {"key": key, "value": None if value is None else _json(value)}


def decode_offset(key: bytes, value: bytes | None) -> dict[str, Any] | None:
    """A record of the topic for offsets of sources: its key is a connector and a partition of its source."""
    if not key.startswith(b"["):
        return None
    place = _json(key)
    if not isinstance(place, list) or len(place) != 2 or not isinstance(place[0], str):
        return None
    return {"key": {"connector": place[0], "partition": place[1]}, "value": None if value is None else _json(value)}


BY_END: Final = (
    (("config", "configs"), decode_config),
    (("offset", "offsets"), decode_offset),
    (("status", "statuses"), decode_state),
)
"""Usual ends of the names of the workers' topics."""


def decoder_of(topic: str) -> Callable[[bytes, bytes | None], dict[str, Any] | None] | None:
    """The decoder for a topic that may be a worker's; None for another topic."""
    return next((decode for ends, decode in BY_END if topic.endswith(ends)), None)


def _json(raw: bytes) -> Any:
    if len(raw) > JSON_MAX:
        raise Malformed("too long")
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        raise Malformed("no JSON") from None
