"""Rows of the table ``partitions``, and notes for lines of text.

A queue of a topic is a partition. A response has a row for the queue of its request, or for each queue of its messages.
"""

from __future__ import annotations

from typing import Any

from mqsniff.model import LineNotes, PartitionRow, Value
from mqsniff.spec.wire import as_name
from mqsniff_rocketmq.headers import ExtFields
from mqsniff_rocketmq.messages import Content
from mqsniff_rocketmq.tables import HeaderClass


def request_rows(header: HeaderClass, ext: ExtFields, content: Content | None) -> tuple[PartitionRow, ...]:
    """The queue of a request, with its requested or committed offset."""
    row = _queue_row(header, ext)
    if row is None:
        return ()
    if content is not None:
        row |= {"records": content.count, "wire_bytes": content.size}
    return (row | _offsets(header, ext),)


def response_rows(
    pending: HeaderClass, request: ExtFields, header: HeaderClass, ext: ExtFields, content: Content | None
) -> tuple[PartitionRow, ...]:
    """The queues of a response; ``pending`` and ``request``: header class and ext fields of its request."""
    told = ext.get(header.queue) if header.queue is not None else None
    base = _queue_row(pending, request, told)
    if content is None or not content.stored:
        return () if base is None else (base | _offsets(header, ext),)
    rows = _by_queue(content)
    if base is not None and len(rows) == 1:
        rows[0] |= _offsets(header, ext)
    return tuple(rows)


def _queue_row(header: HeaderClass, ext: ExtFields, told: Any = None) -> PartitionRow | None:
    """Topic and queue, perhaps from the response; None if unknown (a queue of -1 means any)."""
    if header.topic is None or header.queue is None:
        return None
    topic, queue = as_name(ext.get(header.topic)), ext.get(header.queue) if told is None else told
    if topic is None or type(queue) is not int or queue < 0:
        return None
    return {"topic": topic, "partition": queue}


def _offsets(header: HeaderClass, ext: ExtFields) -> PartitionRow:
    return {column: ext[name] for column, name in header.offsets if type(ext.get(name)) is int}


def _by_queue(content: Content) -> list[PartitionRow]:
    """A row for each queue in the order of its first message: base offset, number of messages, bytes."""
    rows: dict[tuple[Any, int], PartitionRow] = {}
    for message in content.stored:
        row = rows.get((message.topic, message.queue_id))
        if row is None:
            row = {"topic": as_name(message.topic), "partition": message.queue_id, "offset": message.queue_offset}
            rows[message.topic, message.queue_id] = row | {"records": 1, "wire_bytes": message.store_size}
        else:
            row["records"] += 1
            row["wire_bytes"] += message.store_size
    return list(rows.values())


# ---- one line


def notes_of(header: HeaderClass, ext: ExtFields, content: Content | None) -> LineNotes:
    """Notes: queue, offset, number of messages, bytes."""
    found: list[tuple[str, Value]] = []
    if header.queue is not None and (queue := ext.get(header.queue)) is not None:
        found.append(("queue", queue))
    for _, name in header.offsets:
        if (offset := ext.get(name)) is not None:
            found.append((name, offset))
    if content is not None:
        found += (("messages", content.count), ("size", content.size))
    return tuple(found)
