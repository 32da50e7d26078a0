"""Metrics that a client pushes (PushTelemetry) in, the OTLP message that they are out.

1. They are compressed as records are, by the codec that stands beside them; where that was not looked up, the magic
   number that the bytes begin with tells. Metrics begin with 0A, their first field.
2. What the protobuf reader finds odd is no reason to keep bytes: only what it cannot read is Malformed.

Sources: KIP-714; OpenTelemetry protocol, ``metrics.proto``.
"""

from __future__ import annotations

import pkgutil
from functools import cache
from typing import Any, Final

from mqsniff.limits import MIB
from mqsniff.spec.protobuf import MessageType, MessageTypes
from mqsniff.spec.wire import Malformed
from mqsniff_kafka.records.compression import LZ4_MAGIC, XERIAL_MAGIC, plain_records

PLAIN_MAX: Final = 16 * MIB
"""Plain bytes that one push may become: brokers take 1 MiB (telemetry.max.bytes), and each byte may buy an object."""


@cache
def _metrics_data() -> MessageType:
    content = pkgutil.get_data("mqsniff_kafka", "data/otlp.binpb")
    if content is None:
        raise FileNotFoundError("dissectors/mqsniff_kafka/data/otlp.binpb")
    return MessageTypes(content)["otlp.MetricsData"]


_MAGICS: Final = ((b"\x1f\x8b", 1), (XERIAL_MAGIC, 2), (LZ4_MAGIC, 3), (b"\x28\xb5\x2f\xfd", 4))


def decode_metrics(raw: bytes, codec: int | None) -> dict[str, Any]:
    """The MetricsData in the bytes; ``codec``: the request's compression_type, None where it is not at hand."""
    if codec is None:
        codec = next((number for magic, number in _MAGICS if raw.startswith(magic)), 0)
    if codec:
        plain, why = plain_records(codec, raw, PLAIN_MAX)
        if why is not None:
            raise Malformed(why)
        raw = plain
    decoded = _metrics_data().decode(raw)
    if decoded.broken is not None or decoded.stop != len(raw):
        raise Malformed("no OTLP metrics")
    return decoded.body
