"""How fast bodies become values, compiled and interpreted, on one core: ``python benchmarks/layouts.py``.

Bodies as brokers send them: metadata of 100 topics with 6 partitions of 3 replicas, offsets of 240 partitions, a
heartbeat. The best of five passes is printed; MB are 10^6 bytes.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mqsniff.spec.compile import compile_struct
from mqsniff.spec.interpret import DecodeWindow, interpret
from mqsniff.spec.layout import Layout
from mqsniff_kafka import specs

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from struct_encoder import encode

TOPICS = 100
PASSES = 5
PASS_S = 0.2


def partition(index: int) -> dict[str, Any]:
    """One partition; each message takes the fields that it has."""
    return {
        "error_code": 0,
        "partition_index": index,
        "leader_id": index % 3,
        "leader_epoch": 5,
        "replica_nodes": [0, 1, 2],
        "isr_nodes": [0, 1, 2],
        "offline_replicas": [],
        "timestamp": -1,
        "offset": 123_456_789,
    }


def metadata() -> dict[str, Any]:
    """A Metadata response."""
    topics = [
        {
            "error_code": 0,
            "name": f"some.topic.name-{number}",
            "topic_id": f"{number:04d}AAAAAAAAAAAAAAAAAA",
            "is_internal": False,
            "partitions": [partition(index) for index in range(6)],
            "topic_authorized_operations": -(2**31),
        }
        for number in range(TOPICS)
    ]
    brokers = [{"node_id": id_, "host": f"broker-{id_}.example", "port": 9092, "rack": None} for id_ in range(3)]
    return {"throttle_time_ms": 0, "brokers": brokers, "cluster_id": "c" * 22, "controller_id": 1, "topics": topics}


def offsets() -> dict[str, Any]:
    """A ListOffsets response."""
    partitions = [partition(index) for index in range(12)]
    topics = [{"name": f"topic-{number}", "partitions": partitions} for number in range(20)]
    return {"throttle_time_ms": 0, "topics": topics}


HEARTBEAT = {
    "group_id": "my-consumer-group",
    "generation_id": 17,
    "member_id": "consumer-1-550e8400-e29b-41d4-a716-446655440000",
    "group_instance_id": None,
}

CASES: list[tuple[int, specs.DefinitionKind, int, dict[str, Any]]] = [
    (3, "response", 12, metadata()),
    (3, "response", 1, metadata()),
    (2, "response", 4, offsets()),
    (12, "request", 2, HEARTBEAT),
    (12, "request", 4, HEARTBEAT),
]


def seconds(work: Callable[[], object]) -> float:
    """Seconds that one call takes: the best pass."""
    best = float("inf")
    for _ in range(PASSES):
        calls, started = 0, time.perf_counter()
        while (passed := time.perf_counter() - started) < PASS_S:
            work()
            calls += 1
        best = min(best, passed / calls)
    return best


def measure(layout: Layout, body: dict[str, Any]) -> None:
    """Print the figures of one layout."""
    data = encode(layout.struct, body)
    window = DecodeWindow(0, len(data), len(data))
    assert layout.decode(data).stop == len(data)
    fast = seconds(lambda: layout.decode(data))
    slow = seconds(lambda: interpret(layout.struct, data, window))
    made = seconds(lambda: compile_struct(layout.struct))
    print(
        f"{layout!r:42} {len(data):6} B  compiled {len(data) / fast / 1e6:6.1f} MB/s ({fast * 1e6:7.1f} us)  "
        f"interpreted {len(data) / slow / 1e6:5.1f} MB/s  compiling {made * 1e3:.2f} ms"
    )


for key, kind, version, body in CASES:
    measure(specs.layouts(key, kind, version)[0], body)
