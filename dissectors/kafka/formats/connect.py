"""What Kafka Connect's workers write into groups of type ``connect`` in, metadata and assignments as dicts out.

1. Version 0 is eager; 1 (compatible) and 2 (sessioned) add what a worker runs and what it has to give up.
2. Arrays may be null since version 1. Fields at the end may be missing, and take their defaults: they are left out.
3. Task -1 of a connector is the connector itself.

Sources: Apache Kafka, ``ConnectProtocol``, ``IncrementalCooperativeConnectProtocol``.
"""

from __future__ import annotations

from typing import Any

from dissectors.kafka.formats.cursor import Cursor
from mqsniff.spec.wire import Malformed

NEWEST = 2


def decode_metadata(raw: bytes) -> dict[str, Any]:
    """A worker's address, how far it has read the configuration, and what it runs."""
    cursor = Cursor(raw)
    version = _version(cursor)
    body: dict[str, Any] = {"version": version, "url": cursor.string(), "config_offset": cursor.int64()}
    if version >= 1:
        allocation = cursor.bytes_or_null()
        body["allocation"] = decode_assignment(allocation) if allocation else None
    _finish(cursor, version)
    return body


def decode_assignment(raw: bytes) -> dict[str, Any]:
    """What a worker is to run, and from version 1 on what it has to stop, and when it should come again."""
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
    """Newer versions may go on where the known ones end."""
    if version <= NEWEST:
        cursor.finish()


def _connectors(cursor: Cursor, *, nullable: bool) -> list[dict[str, Any]] | None:
    found = cursor.array(lambda: {"connector": cursor.string(), "tasks": cursor.items(cursor.int32, 4)}, 6)
    if found is None and not nullable:
        raise Malformed("null where there has to be an array")
    return found
