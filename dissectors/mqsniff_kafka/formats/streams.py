"""User data of Kafka Streams: subscriptions and assignments of the ``stream`` assignor, metadata of commits.

1. Subscriptions are in Kafka's definitions, version 1 to 11; the version is their first field.
2. Assignments have no definition: active tasks, standby tasks with their partitions, and the partitions of each host.
   Since version 5 topics are numbers into a dictionary; they are shown as numbers, since eight bytes of the traffic
   would become a topic's name otherwise.
3. A task is a subtopology and a partition, since version 10 with the name of its topology.
4. Metadata of a commit is base64: a time and, since magic 2, metadata of processors. Other clients commit any text;
   text that does not fit exactly, with a plausible time, stays text.

Sources: Apache Kafka Streams, ``AssignmentInfo``, ``SubscriptionInfo``, ``TaskId``, ``TopicPartitionMetadata``,
``ProcessorMetadata``.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Any, Final

from mqsniff.spec.wire import Malformed, read_int32
from mqsniff_kafka import specs
from mqsniff_kafka.formats.cursor import Cursor
from mqsniff_kafka.formats.structs import read_whole

ASSIGNMENT_NEWEST: Final = 11
_UTF16_UNIT: Final = 2

COMMIT_MAGICS: Final = (1, 2)
TEXT_MIN: Final = 12
"""Characters of the shortest metadata of a commit: a magic and a time, in base64."""
TIME_MAX_MS: Final = 1 << 43
"""The year 2248: later times are not plausible."""


def decode_subscription(raw: bytes) -> dict[str, Any]:
    """A member's tasks and their progress, its endpoint and its tags."""
    version, _ = read_int32(raw, 0, len(raw))
    return read_whole(specs.data("SubscriptionInfoData", version), raw)


def decode_assignment(raw: bytes) -> dict[str, Any]:
    """A member's tasks, and the hosts of all tasks' state."""
    cursor = Cursor(raw)
    version = cursor.int32()
    if not 1 <= version <= ASSIGNMENT_NEWEST:
        raise Malformed("unknown version of an assignment")
    body: dict[str, Any] = {"version": version}
    if version >= 3:
        body["commonly_supported_version"] = cursor.int32()
    body["active_tasks"] = cursor.items(lambda: _task(cursor, version), 8)
    body["standby_tasks"] = cursor.items(lambda: _standby(cursor, version), 12)
    if version >= 2:
        body |= _hosts(cursor, version)
    if version >= 4:
        body["error_code"] = cursor.int32()
    if version >= 7:
        body["next_scheduled_rebalance_ms"] = cursor.int64()
    cursor.finish()
    return body


def _task(cursor: Cursor, version: int) -> dict[str, Any]:
    task: dict[str, Any] = {"subtopology": cursor.int32(), "partition": cursor.int32()}
    if version >= 10:
        raw = cursor.take(cursor.int32() * _UTF16_UNIT)
        task["named_topology"] = raw.decode("utf-16-be", errors="backslashreplace") if raw else None
    return task


def _standby(cursor: Cursor, version: int) -> dict[str, Any]:
    return {"task": _task(cursor, version), "partitions": cursor.items(lambda: _named(cursor), 6)}


def _named(cursor: Cursor) -> dict[str, Any]:
    return {"topic": cursor.utf(), "partition": cursor.int32()}


def _hosts(cursor: Cursor, version: int) -> dict[str, Any]:
    """Partitions by host: of all tasks; since version 6 of active and standby tasks separately."""
    if version < 5:
        return {"partitions_by_host": _by_host(cursor, lambda: _named(cursor), 6)}
    body: dict[str, Any] = {"topics": cursor.items(lambda: {"number": cursor.int32(), "topic": cursor.utf()}, 6)}
    body["partitions_by_host"] = _by_host(cursor, lambda: _numbered(cursor), 8)
    if version >= 6:
        body["standby_partitions_by_host"] = _by_host(cursor, lambda: _numbered(cursor), 8)
    return body


def _numbered(cursor: Cursor) -> dict[str, Any]:
    return {"topic_number": cursor.int32(), "partition": cursor.int32()}


def _by_host(cursor: Cursor, one: Callable[[], dict[str, Any]], size_min: int) -> list[dict[str, Any]]:
    return cursor.items(
        lambda: {"host": cursor.utf(), "port": cursor.int32(), "partitions": cursor.items(one, size_min)}, 10
    )


def decode_commit_metadata(text: str) -> dict[str, Any] | None:
    """Metadata of a commit by Streams; None for any other text (rule 4)."""
    if len(text) < TEXT_MIN or text[:2] not in ("AQ", "Af", "Ag", "Av"):
        return None
    try:
        raw = b64decode(text, validate=True)
        return _commit_metadata(Cursor(raw)) if b64encode(raw).decode() == text else None
    except (ValueError, Malformed):
        return None


def _commit_metadata(cursor: Cursor) -> dict[str, Any] | None:
    magic, time = cursor.int8(), cursor.int64()
    if magic not in COMMIT_MAGICS or not -1 <= time < TIME_MAX_MS:
        return None
    body: dict[str, Any] = {"magic": magic, "partition_time": time}
    if magic >= 2 and cursor.left:
        body["processor_metadata"] = cursor.items(
            lambda: {"key": cursor.take(cursor.int32()), "value": cursor.int64()}, 12
        )
    cursor.finish()
    return body
