"""Control records: ends of transactions, and the KRaft log's own records.

1. The key is an int16 version and an int16 type, in newer versions too.
2. In the end of a transaction, the value follows an int16 version; newer versions are read as the newest known one. In
   a KRaft record the first field is the version.
3. In Kafka 2.8 a leader change has type 3 and no version: the layout that fits exactly is taken.

Sources: Apache Kafka, ``ControlRecordType``, ``EndTransactionMarker``, ``ControlRecordUtils``; KIP-595, 630, 853.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from mqsniff.spec.layout import Layout
from mqsniff.spec.wire import Malformed
from mqsniff_kafka import specs
from mqsniff_kafka.formats.cursor import Cursor
from mqsniff_kafka.formats.structs import read_versioned, read_whole

ABORT: Final = 0
COMMIT: Final = 1
_LEADER_CHANGE: Final = "LeaderChangeMessage"
KRAFT: Final[Mapping[int, tuple[str, ...]]] = MappingProxyType(
    {
        2: (_LEADER_CHANGE,),
        3: ("SnapshotHeaderRecord", _LEADER_CHANGE),
        4: ("SnapshotFooterRecord",),
        5: ("KRaftVersionRecord",),
        6: ("VotersRecord",),
    }
)
"""Type -> the structures that its value may have, today's first."""


def decode_control(key: bytes, value: bytes | None) -> dict[str, Any]:
    """Version, type and name of a control record, and its decoded value."""
    cursor = Cursor(key)
    version, kind = cursor.int16(), cursor.int16()
    body: dict[str, Any] = {"version": version, "type": kind}
    name = specs.enum("control_record_type").get(kind)
    if name is None or value is None:
        return body | {"name": name or f"unknown({kind})", "value": value}
    if kind in (ABORT, COMMIT):
        return body | {"name": name, "value": read_versioned("EndTxnMarker", value)}
    found, content = _kraft(kind, value)
    return body | {"name": "LEADER_CHANGE" if found == _LEADER_CHANGE else name, "value": content}


def control_type(key: bytes) -> tuple[int, ...]:
    """The type in a control record's key; empty if the key is too short."""
    return (int.from_bytes(key[2:4], "big", signed=True),) if len(key) >= 4 else ()


def _kraft(kind: int, value: bytes) -> tuple[str, dict[str, Any]]:
    for name in KRAFT.get(kind, ()):
        try:
            return name, read_whole(_layouts(name, value), value)
        except Malformed:
            continue
    raise Malformed("no known layout fits")


def _layouts(name: str, value: bytes) -> Iterator[Layout]:
    """Layouts of the version that the value begins with, then those of version 0."""
    version = int.from_bytes(value[:2], "big")
    if version:
        yield from specs.data(name, version)
    yield from specs.data(name, 0)
