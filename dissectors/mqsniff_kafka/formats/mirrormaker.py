"""Records of MirrorMaker 2's topics.

1. Topics are recognised by their names: ``mm2-offset-syncs.CLUSTER.internal``, ``CLUSTER.checkpoints.internal`` and
   ``heartbeats``, mirrored ``CLUSTER.heartbeats``. The separator can be configured, so only the words are compared.
2. Checkpoints and heartbeats have an int16 version before the value, 0 so far; offset syncs have none.

Sources: Apache Kafka Connect Mirror, ``OffsetSync``, ``Checkpoint``, ``Heartbeat``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from mqsniff.spec.wire import Malformed
from mqsniff_kafka.formats.cursor import Cursor

Decode = Callable[[bytes, bytes | None], dict[str, Any] | None]


def decode_offset_sync(key: bytes, value: bytes | None) -> dict[str, Any]:
    """The upstream and downstream offsets of one record."""
    cursor = Cursor(key)
    body: dict[str, Any] = {"key": {"topic": cursor.string(), "partition": cursor.int32()}, "value": None}
    cursor.finish()
    if value is not None:
        cursor = Cursor(value)
        body["value"] = {"upstream_offset": cursor.int64(), "downstream_offset": cursor.int64()}
        cursor.finish()
    return body


def decode_checkpoint(key: bytes, value: bytes | None) -> dict[str, Any]:
    """A group's upstream offset and the downstream offset that equals it."""
    cursor = Cursor(key)
    body: dict[str, Any] = {
        "key": {"group": cursor.string(), "topic": cursor.string(), "partition": cursor.int32()},
        "value": None,
    }
    cursor.finish()
    if value is not None:
        cursor = Cursor(value)
        body["value"] = {
            "version": _version(cursor),
            "upstream_offset": cursor.int64(),
            "downstream_offset": cursor.int64(),
            "metadata": cursor.string(),
        }
        cursor.finish()
    return body


def decode_heartbeat(key: bytes, value: bytes | None) -> dict[str, Any]:
    """A heartbeat of a mirror from one cluster to another."""
    cursor = Cursor(key)
    body: dict[str, Any] = {
        "key": {"source_cluster_alias": cursor.string(), "target_cluster_alias": cursor.string()},
        "value": None,
    }
    cursor.finish()
    if value is not None:
        cursor = Cursor(value)
        body["value"] = {"version": _version(cursor), "timestamp": cursor.int64()}
        cursor.finish()
    return body


def _version(cursor: Cursor) -> int:
    version = cursor.int16()
    if version != 0:
        raise Malformed("unknown version of a mirror's record")
    return version


BY_WORD: Final[tuple[tuple[str, Decode], ...]] = (
    ("mm2-offset-syncs", decode_offset_sync),
    ("checkpoints", decode_checkpoint),
    ("heartbeats", decode_heartbeat),
)


def decoder_of(topic: str) -> Decode | None:
    """The decoder for a topic of MirrorMaker; None for another topic."""
    for word, decode in BY_WORD:
        if word in topic and (topic.endswith((word, "internal")) or topic.startswith(word)):
            return decode
    return None
