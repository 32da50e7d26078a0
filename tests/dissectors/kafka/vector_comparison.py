"""A decoded body, and what Kafka's classes say that they wrote, in; where they differ, by paths of fields, out.

1. Kafka's names are turned into ours by the rule of ``proto/kafka/README.md``; ``OLDER_NAMES`` has what was renamed.
2. Kafka tells bytes in base64, UUIDs as its own text.
3. Releases before 2.4 named their fields by hand: their values are compared in the order of the bytes.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from mqsniff.model import Secret
from mqsniff.spec.layout import Layout
from mqsniff.spec.schema import UNKNOWN_TAGS, FieldLayout, Struct
from mqsniff.spec.wire import Extent

if TYPE_CHECKING:
    from kafka_vectors import Vector

BY_HAND = ("1.1.1",)
"""Releases of rule 3."""

OLDER_NAMES = {
    "AddPartitionsToTxnRequest": {
        "v3_and_below_producer_epoch": "producer_epoch",
        "v3_and_below_producer_id": "producer_id",
        "v3_and_below_topics": "topics",
        "v3_and_below_transactional_id": "transactional_id",
    },
    "AddPartitionsToTxnResponse": {
        "partition_error_code": "error_code",
        "results_by_partition": "results",
        "results_by_topic_v3_and_below": "results",
    },
    "AlterPartitionRequest": {"partition_epoch": "current_isr_version", "topic_name": "name"},
    "AlterPartitionResponse": {"partition_epoch": "current_isr_version", "topic_name": "name"},
    "DescribeLogDirsRequest": {"partitions": "partition_index"},
    "ElectLeadersRequest": {"partitions": "partition_id"},
    "FetchResponse": {
        "partition_index": "partition",
        "partitions": "partition_responses",
        "records": "record_set",
    },
    "LeaderAndIsrRequest": {"partition_epoch": "zk_version"},
    "ListConfigResourcesResponse": {"config_resources": "client_metrics_resources", "resource_name": "name"},
    "OffsetCommitRequest": {"generation_id_or_member_epoch": "generation_id"},
    "ProduceRequest": {"index": "partition_index", "partition_data": "partitions", "topic_data": "topics"},
    "TxnOffsetCommitRequest": {"generation_id_or_member_epoch": "generation_id"},
    "VoteRequest": {
        "replica_directory_id": "candidate_directory_id",
        "replica_epoch": "candidate_epoch",
        "replica_id": "candidate_id",
    },
}
"""Message -> our name of a field -> its name in an older release."""


def in_snake_case(name: str) -> str:
    """A capital starts a word unless a capital stands before it; the first letter of a field was one."""
    name = name[:1].upper() + name[1:]
    return re.sub(r"(?<![A-Z])(?<!^)(?=[A-Z])", "_", name).lower()


def differences(vector: Vector, layout: Layout, body: dict[str, Any]) -> list[str]:
    """Where a body that was decoded by a layout is not what Kafka put in."""
    ours = dict(body)
    tags = ours.pop(UNKNOWN_TAGS, {})
    found = [] if tags == vector.unknown_tags else [f"{UNKNOWN_TAGS}: {tags!r}, Kafka wrote {vector.unknown_tags!r}"]
    if vector.release not in BY_HAND:
        return found + differences_of(layout, ours, vector.value, vector.data)
    one, other = list(_in_order(layout.struct, ours, vector.data)), list(_told_in_order(vector.value))
    return found if one == other else [*found, f"in the order of the bytes: {one!r}, Kafka wrote {other!r}"]


def differences_of(layout: Layout, body: dict[str, Any], told: dict[str, Any], data: bytes = b"") -> list[str]:
    """The same for any body; ``data`` is what records stand in."""
    comparison = _Comparison(data, OLDER_NAMES.get(layout.name, {}))
    comparison.struct(layout.struct, body, told, "")
    return comparison.found


class _Comparison:
    """One comparison: what the body's records stand in, older names of fields, and the differences so far."""

    def __init__(self, data: bytes, older: dict[str, str]) -> None:
        self.data = data
        self.older = older
        self.found: list[str] = []

    def struct(self, struct: Struct, ours: Any, told: Any, path: str) -> None:
        if not (isinstance(ours, dict) and isinstance(told, dict)):
            self.note(path, ours, told)
            return
        left = {in_snake_case(name): value for name, value in told.items()}
        for item in (*struct.items, *struct.tagged):
            name = item.name if item.name in left else self.older.get(item.name, item.name)
            if item.name in ours and name in left:
                self.field(item, ours[item.name], left[name], f"{path}.{item.name}")
            elif item.name in ours:
                self.found.append(f"{path}.{item.name}: {ours[item.name]!r}, Kafka wrote no such field")
            elif name in left:
                self.found.append(f"{path}.{item.name}: missing, Kafka wrote {left[name]!r}")
            left.pop(name, None)
        self.found += [f"{path}.{name}: unknown, Kafka wrote {value!r}" for name, value in left.items()]

    def field(self, item: FieldLayout, ours: Any, told: Any, path: str) -> None:
        if not (item.array and isinstance(ours, list) and isinstance(told, list)):
            self.value(item, ours, told, path)
            return
        if len(ours) != len(told):
            self.found.append(f"{path}: {len(ours)} elements, Kafka wrote {len(told)}")
        for index, (one, other) in enumerate(zip(ours, told, strict=False)):
            self.value(item, one, other, f"{path}[{index}]")

    def value(self, item: FieldLayout, ours: Any, told: Any, path: str) -> None:
        if item.struct is not None and ours is not None:
            self.struct(item.struct, ours, told, path)
            return
        one, other = _plain(ours, self.data), told
        if isinstance(one, bytes) and isinstance(told, str):  # secret texts are bytes
            other = told.encode() if item.type == "string" else base64.b64decode(told)
        if type(one) is not type(other) or one != other:
            self.note(path, one, told)

    def note(self, path: str, ours: Any, told: Any) -> None:
        self.found.append(f"{path}: {ours!r}, Kafka wrote {told!r}")


def _plain(value: Any, data: bytes) -> Any:
    match value:
        case Extent():
            return data[value.start : value.stop]
        case Secret():
            return value.data
        case _:
            return value


# ---- rule 3


def _in_order(struct: Struct, body: dict[str, Any], data: bytes) -> Iterator[Any]:
    """The values of a body as its bytes stand, arrays after their counts, as Kafka would tell them."""
    for item in struct.items:
        value = body[item.name]
        many = value if item.array and value is not None else [value]
        if many is value:
            yield len(many)
        for one in many:
            if item.struct is not None and one is not None:
                yield from _in_order(item.struct, one, data)
            else:
                plain = _plain(one, data)
                yield base64.b64encode(plain).decode() if isinstance(plain, bytes) else plain


def _told_in_order(told: Any) -> Iterator[Any]:
    match told:
        case dict():
            for value in told.values():
                yield from _told_in_order(value)
        case list():
            yield len(told)
            for value in told:
                yield from _told_in_order(value)
        case _:
            yield told
