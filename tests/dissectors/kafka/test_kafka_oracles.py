"""Kafka's layouts against bytes that other people's encoders wrote: kio and kafka-python, field by field."""

from __future__ import annotations

import random
from typing import Any

import kafka_python_oracle
import kio_oracle
from struct_encoder import with_records

from mqsniff.model import Secret
from mqsniff.spec.layout import Layout
from mqsniff_kafka import specs

NEWER_NAMES = {
    "acceptablerecoverylag": "acceptablerecoverylaglegacy",
    "generationid": "generationidormemberepoch",
}
"""Fields (without underscores) that Kafka renamed after the release of which an oracle was made."""


def folded(body: Any) -> Any:
    """A body whose names have no underscores: oracles part words in their own ways."""
    match body:
        case dict():
            return {key.replace("_", ""): folded(value) for key, value in body.items()}
        case list():
            return [folded(value) for value in body]
        case Secret():
            return body.data
        case _:
            return body


def same(ours: Any, theirs: Any) -> bool:
    """Whether a folded body of ours is what an oracle meant; its names may lack a "ms", or be older."""
    match theirs:
        case dict():
            left = dict(ours)
            for name, value in theirs.items():
                known = (name, f"{name}ms", NEWER_NAMES.get(name), f"cluster{name}", f"topic{name}")
                found = next((one for one in known if one in left), None)
                if found is None or not same(left.pop(found), value):
                    return False
            return not left
        case list():
            return len(ours) == len(theirs) and all(map(same, ours, theirs))
        case _:
            return type(ours) is type(theirs) and ours == theirs


def assert_reads(layout: Layout, data: bytes, theirs: dict[str, Any]) -> None:
    body, stop = layout.fast(data, 0, len(data), len(data))
    assert stop == len(data), layout
    ours = folded(with_records(body, data))
    assert same(ours, folded(theirs)), (layout, ours, folded(theirs))


def test_what_kio_writes_is_read_field_by_field() -> None:
    read = {"request": 0, "response": 0, "data": 0, "header": 0}
    for case in kio_oracle.cases():
        chance = random.Random(f"{case.name} {case.version}")
        for _ in range(2):
            entity = kio_oracle.filled(case.entity, chance)
            data = kio_oracle.written(entity)
            if case.key is not None:
                layout = specs.layouts(case.key, case.kind, case.version)[0]
            else:
                layout = specs.data(case.name, case.version)[0]
            assert_reads(layout, data, kio_oracle.expected(entity))
        read[case.kind] += 1
    assert read == {"request": 302, "response": 302, "data": 17, "header": 4}


def test_what_kafka_python_writes_is_read_field_by_field() -> None:
    read = 0
    for case in kafka_python_oracle.cases():
        chance = random.Random(f"{case.message.__name__} {case.version}")
        for _ in range(2):
            data, theirs = kafka_python_oracle.filled(case, chance)
            assert_reads(specs.layouts(case.key, case.kind, case.version)[0], data, theirs)
        read += 1
    assert read == 524


UNKNOWN_TO_BOTH = {
    "AlterPartition": [0, 1],
    "ApiVersions": [5],
    "ControlledShutdown": [0, 1, 2, 3],
    "CreateDelegationToken": [0],
    "DeleteGroups": [3],
    "DescribeDelegationToken": [0],
    "ExpireDelegationToken": [0],
    "LeaderAndIsr": [0, 1, 2, 3, 4, 5, 6, 7],
    "RenewDelegationToken": [0],
    "ShareAcknowledge": [0],
    "ShareFetch": [0],
    "ShareGroupDescribe": [0],
    "ShareGroupHeartbeat": [0],
    "StopReplica": [0, 1, 2, 3, 4],
    "StreamsGroupDescribe": [1],
    "StreamsGroupHeartbeat": [1],
    "StreamsGroupTopologyDescriptionUpdate": [0],
    "TxnOffsetCommit": [6],
    "UnregisterController": [0],
    "UpdateMetadata": [0, 1, 2, 3, 4, 5, 6, 7, 8],
}
"""Versions that neither library can write, because they are too old or too new for them."""


def test_the_two_libraries_cover_650_of_736_layouts() -> None:
    covered = {(case.key, case.kind, case.version) for case in kio_oracle.cases() if case.key is not None}
    covered |= {(case.key, case.kind, case.version) for case in kafka_python_oracle.cases()}
    missing: dict[str, list[int]] = {}
    for key, api in specs.apis().items():
        for version in range(api.versions.first, api.versions.last + 1):
            if any((key, kind, version) not in covered for kind in ("request", "response")):
                missing.setdefault(api.name, []).append(version)
    assert dict(sorted(missing.items())) == UNKNOWN_TO_BOTH
    assert len(covered) == 650
