"""The notes of a message (what a line of text shows), its topics, topic ids and group.

1. A table lists the fields of each API that are shown. Numbers are shown by name if their field is an enum. One
   partition is shown with its offset; several are counted.
2. Fields that are absent or empty are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Final

from mqsniff.model import Identity, LineNotes, Message, PartitionRow, Secret, Undecoded, Value
from mqsniff.spec.layout import Layout
from mqsniff.spec.wire import as_name
from mqsniff_kafka import specs
from mqsniff_kafka.bodies import KafkaBody
from mqsniff_kafka.fieldpaths import METADATA_LOG, BodyFields, taught, texts

TOLD: Final[dict[tuple[int, str], tuple[str, ...]]] = {
    (0, "request"): ("acks", "transactional_id"),
    (1, "request"): ("max_wait_ms", "isolation_level", "session_id", "session_epoch"),
    (1, "response"): ("session_id",),
    (2, "request"): ("isolation_level",),
    (3, "response"): ("controller_id",),
    (10, "request"): ("key_type", "key", "coordinator_keys"),
    (10, "response"): ("node_id", "host", "port"),
    (11, "request"): ("protocol_type", "member_id", "group_instance_id", "reason"),
    (11, "response"): ("generation_id", "protocol_name", "member_id"),
    (12, "request"): ("generation_id", "member_id"),
    (13, "request"): ("member_id",),
    (14, "request"): ("generation_id", "member_id"),
    (17, "request"): ("mechanism",),
    (17, "response"): ("mechanisms",),
    (18, "request"): ("client_software_name", "client_software_version"),
    (22, "request"): ("transactional_id",),
    (22, "response"): ("producer_id", "producer_epoch"),
    (24, "request"): ("v3_and_below_transactional_id", "v3_and_below_producer_id"),
    (25, "request"): ("transactional_id", "producer_id"),
    (26, "request"): ("transactional_id", "producer_id", "committed"),
    (28, "request"): ("transactional_id", "producer_id"),
    (36, "response"): ("session_lifetime_ms",),
    (52, "request"): ("voter_id",),
    (56, "request"): ("broker_id",),
    (62, "request"): ("broker_id",),
    (63, "request"): ("broker_id", "want_fence", "want_shut_down"),
    (68, "request"): ("member_epoch", "member_id"),
    (68, "response"): ("member_epoch",),
    (76, "request"): ("member_epoch", "member_id"),
    (76, "response"): ("member_epoch",),
    (78, "request"): ("share_session_epoch", "max_wait_ms"),
    (79, "request"): ("share_session_epoch",),
    (88, "request"): ("member_epoch", "member_id"),
    (88, "response"): ("member_epoch",),
}
"""(API key, kind) -> fields of the body."""

QUIET: Final = {"isolation_level": 0, "session_id": 0, "transactional_id": None, "key_type": 0}
"""Default values, which are not shown."""

LISTED: Final = 3
"""Elements of a list that are shown."""


@cache
def _enums(layout: Layout) -> dict[str, str]:
    """Outer fields of a layout -> their enums."""
    return {item.name: item.mark for item in layout.struct.items if item.mark}


def notes_of(key: int, kind: str, layout: Layout, body: BodyFields, rows: Sequence[PartitionRow]) -> LineNotes:
    """The notes of a message."""
    found: list[tuple[str, Value]] = []
    for name in TOLD.get((key, kind), ()):
        value = body.get(name)
        if value is None or value in ("", []) or QUIET.get(name, "") == value:
            continue
        found.append((name, _spelled(layout, name, value)))
    if key == 2 and kind == "request":
        found += _timestamps(body)
    if key == 3:
        found += _metadata(kind, layout, body)
    if rows:
        found += _partitions(rows)
    return tuple(found)


def _spelled(layout: Layout, name: str, value: Any) -> Value:
    """A value, by name if its field is an enum."""
    if isinstance(value, list):
        return ",".join(as_name(one) or str(one) for one in value[:LISTED]) + (",…" if len(value) > LISTED else "")
    if isinstance(value, bool | Secret | Undecoded):
        return value
    mark = _enums(layout).get(name)
    return specs.enum(mark).get(value, value) if mark and isinstance(value, int) else value


def _partitions(rows: Sequence[PartitionRow]) -> list[tuple[str, Value]]:
    """One partition with its offset, or the number of partitions."""
    found: list[tuple[str, Value]]
    if len(rows) == 1:
        row = rows[0]
        found = [(name, row[name]) for name in ("partition", "offset", "high_watermark") if row.get(name) is not None]
    else:
        found = [("partitions", len(rows))]
    for column in ("records", "wire_bytes"):
        numbers = [row[column] for row in rows if row.get(column) is not None]
        if numbers:
            found.append((column, sum(numbers)))
    return found


def _timestamps(body: BodyFields) -> list[tuple[str, Value]]:
    """The timestamp of a ListOffsets, if it is the same for all partitions."""
    pending = {
        partition.get("timestamp") for topic in body.get("topics") or () for partition in topic.get("partitions") or ()
    }
    if len(pending) != 1:
        return []
    (timestamp,) = pending
    return [] if timestamp is None else [("timestamp", specs.enum("list_offsets_timestamp").get(timestamp, timestamp))]


def _metadata(kind: str, layout: Layout, body: BodyFields) -> list[tuple[str, Value]]:
    """Whether a Metadata request is for all topics: null, in version 0 an empty list."""
    topics = body.get("topics", ())
    if kind == "request":
        if topics is None or (layout.version == 0 and topics == []):
            return [("topics", "all")]
        return [("topics", "none")] if topics == [] else []
    return [("brokers", len(body.get("brokers") or ())), ("topics", len(topics or ()))]


# ---- topics, ids and groups


def name_message(message: Message, body: KafkaBody, identity: Identity) -> None:
    """Fill a message's topics, topic ids, group and the names that it teaches; note the group for the connection."""
    marks = body.marks
    assert marks is not None
    if marks.topics is not None:
        message.topics = texts(marks.topics, body.value)
    if marks.topic_ids is not None:
        message.topic_ids = texts(marks.topic_ids, body.value)
        if marks.taught is not None:
            message.teaches = taught(marks.taught, body.value)
        if METADATA_LOG[0] in message.topic_ids:
            message.teaches += (METADATA_LOG,)
    if marks.groups is not None:
        groups = texts(marks.groups, body.value)
        message.group = groups[0] if len(groups) == 1 else message.group
        if message.group:
            identity.name_group(message.group)
