"""Metrics that a client pushes (PushTelemetry), as the OTLP message that they are.

1. They are compressed as records are. The request has the codec; if it is not at hand, the magic number of the
   compressed bytes decides. Plain metrics begin with 0A, the tag of their first field.
2. Odd metrics (an unknown enum value, for example) are shown; damaged ones are Malformed.

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
"""Most plain bytes of one push: brokers accept 1 MiB (telemetry.max.bytes), and each byte may become an object."""


@cache
def _metrics_data() -> MessageType:
    content = pkgutil.get_data("mqsniff_kafka", "data/otlp.binpb")
    if content is None:
        raise FileNotFoundError("dissectors/mqsniff_kafka/data/otlp.binpb")
    return MessageTypes(content)["otlp.MetricsData"]


_MAGICS: Final = ((b"\x1f\x8b", 1), (XERIAL_MAGIC, 2), (LZ4_MAGIC, 3), (b"\x28\xb5\x2f\xfd", 4))


def decode_metrics(raw: bytes, codec: int | None) -> dict[str, Any]:
    """The MetricsData in the bytes; ``codec``: compression_type of the request, None if not at hand."""
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
