"""Rows of the table ``partitions`` from bodies, by a plan that is made once per layout.

1. A row is a partition of a topic. Layouts have partitions as structs inside topics, as numbers inside topics, or
   beside the topic. Only APIs for data, offsets, transactions and leadership give rows.
2. A column is filled from the first of its fields that the layout has.
3. The topics that a Fetch removes from its session give no rows.
"""

from __future__ import annotations

from functools import cache
from typing import Final, NamedTuple

from mqsniff.model import PartitionRow
from mqsniff.spec.layout import Layout
from mqsniff.spec.schema import FieldLayout, Struct
from mqsniff.spec.wire import as_name
from mqsniff_kafka import specs
from mqsniff_kafka.fieldpaths import NO_ID, BodyFields

KEYS: Final = frozenset(
    {0, 1, 2, 4, 5, 6, 8, 9, 21, 23, 24, 27, 28, 47, *range(52, 57), 59, 61, 65, 78, 79, *range(83, 88), 90, 91, 92}
)
"""APIs whose partitions give rows."""

_INDEX: Final = ("partition_index", "partition", "index")
_LISTS: Final = ("partitions", "partition_indexes")
_COLUMNS: Final = {
    "offset": (
        "fetch_offset",
        "committed_offset",
        "base_offset",
        "offset",
        "start_offset",
        "low_watermark",
        "end_offset",
        "old_style_offsets",
        "last_offset",
    ),
    "error_code": ("error_code", "partition_error_code"),
    "high_watermark": ("high_watermark",),
    "log_start_offset": ("log_start_offset",),
    "leader_epoch": ("leader_epoch", "current_leader_epoch", "committed_leader_epoch"),
}


class Topic(NamedTuple):
    """A struct with a topic, and its fields for partitions."""

    name: str | None
    topic_id: str | None
    partitions: str | None
    """Array of structs or of numbers; None if the partition is beside the topic."""
    number: str | None
    """Field of the partition's number; None for an array of numbers."""
    columns: tuple[tuple[str, str], ...]
    """(column, field)."""
    records: str | None


class PartitionPlan(NamedTuple):
    """The topic fields of a struct, and its fields whose structs have more."""

    topic: Topic | None
    inner: tuple[tuple[str, bool, PartitionPlan], ...]


@cache
def plan_of(layout: Layout) -> PartitionPlan | None:
    """The plan for a layout; None if it has no partitions."""
    return _plan(layout.struct)


def _plan(struct: Struct) -> PartitionPlan | None:
    items = (*struct.items, *struct.tagged)
    topic = _topic(items)
    inner: list[tuple[str, bool, PartitionPlan]] = []
    for item in items:
        if item.struct is None or item.name == "forgotten_topics_data" or topic is not None:
            continue
        if (plan := _plan(item.struct)) is not None:
            inner.append((item.name, item.array, plan))
    return PartitionPlan(topic, tuple(inner)) if topic or inner else None


def _topic(items: tuple[FieldLayout, ...]) -> Topic | None:
    """The topic and partition fields of a struct; None if it has no topic."""
    name, topic_id = _marked(items, "topic_name"), _marked(items, "topic_id")
    if name is None and topic_id is None:
        return None
    names = {item.name: item for item in items}
    for item in items:
        if item.array and item.name in _LISTS and item.struct is None:
            return Topic(name, topic_id, item.name, None, (), None)
        if item.array and item.struct is not None:
            inner = {one.name: one for one in (*item.struct.items, *item.struct.tagged)}
            if (index := _first(_INDEX, inner)) is not None:
                return Topic(name, topic_id, item.name, index, _columns(inner), _records(inner))
    index = _first(_INDEX, names)
    return None if index is None else Topic(name, topic_id, None, index, _columns(names), _records(names))


def _marked(items: tuple[FieldLayout, ...], mark: str) -> str | None:
    return next((item.name for item in items if item.mark == mark and not item.array), None)


def _first(wanted: tuple[str, ...], names: dict[str, FieldLayout]) -> str | None:
    return next((name for name in wanted if name in names), None)


def _columns(names: dict[str, FieldLayout]) -> tuple[tuple[str, str], ...]:
    found = ((column, _first(fields, names)) for column, fields in _COLUMNS.items())
    return tuple((column, field) for column, field in found if field is not None)


def _records(names: dict[str, FieldLayout]) -> str | None:
    return next((name for name, item in names.items() if item.type == "records"), None)


# ---- bodies


def rows_of(layout: Layout, body: BodyFields) -> tuple[PartitionRow, ...]:
    """Every partition of a body, in order. Hot: once a message."""
    plan = plan_of(layout)
    if plan is None:
        return ()
    rows: list[PartitionRow] = []
    _add_rows(plan, body, rows)
    return tuple(rows)


def _add_rows(plan: PartitionPlan, body: BodyFields, rows: list[PartitionRow]) -> None:
    if plan.topic is not None:
        _add_topic(plan.topic, body, rows)
    for name, array, inner in plan.inner:
        found = body.get(name)
        if found:
            for element in found if array else (found,):
                _add_rows(inner, element, rows)


def _add_topic(topic: Topic, body: BodyFields, rows: list[PartitionRow]) -> None:
    name = as_name(body.get(topic.name)) if topic.name else None
    topic_id = body.get(topic.topic_id) if topic.topic_id else None
    if topic_id == NO_ID:
        topic_id = None
    if topic.partitions is None:
        rows.append(_row(topic, name, topic_id, body))
        return
    for element in body.get(topic.partitions) or ():
        if topic.number is None:
            rows.append({"topic": name, "topic_id": topic_id, "partition": element})
        else:
            rows.append(_row(topic, name, topic_id, element))


def _row(topic: Topic, name: str | None, topic_id: str | None, body: BodyFields) -> PartitionRow:
    row: PartitionRow = {"topic": name, "topic_id": topic_id, "partition": body.get(topic.number or "")}
    for column, field in topic.columns:
        value = body.get(field)
        if isinstance(value, list):
            value = value[0] if value else None
        row[column] = value
    if code := row.get("error_code"):
        row["error_name"] = error_name(code)
    held = body.get(topic.records) if topic.records else None
    if isinstance(held, dict):
        row["wire_bytes"] = held["size"]
        if (batches := held.get("batches")) is not None:
            row["batches"] = len(batches)
            row["records"] = sum([batch.get("records") or 0 for batch in batches])
    return row


def error_name(code: int) -> str:
    """The name of an error code."""
    return specs.errors().get(code) or f"unknown({code})"
