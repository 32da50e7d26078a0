"""The .proto file of OTLP metrics in, one serialized FileDescriptorSet out; ``python proto/build.py`` writes it.

The compiler is protoc itself, out of the development dependency grpcio-tools: the program never needs it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pulsar_build

HERE: Final = Path(__file__).parent
SOURCES: Final = ("otlp_metrics.proto",)


def build(home: Path = HERE) -> bytes:
    """The content of ``dissectors/mqsniff_kafka/data/otlp.binpb``; SyntaxError where protoc refuses the source."""
    return pulsar_build.build(home, SOURCES)
