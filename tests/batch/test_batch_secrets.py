"""Secrets of captures that a job on Spark decodes: in no log, plan, manifest, report or table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from batchrows import PCAPS
from secretforms import found_in, secrets_of
from sparklogs import logged, plans

from mqsniff.batch.spark import run

SAMPLES = (
    "kafka/kafka-4.4.0-java-4.4.0-delegation-tokens-toka.pcapng",
    "nsq/nsq-1.3.0-auth.pcap",
    "pulsar/pulsar-4.2.4-auth-token-refresh-a.pcap",
    "rocketmq/rocketmq-5.5.0-a-admin-auth-commands.pcapng",
)


@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
def test_a_cluster_writes_secrets_nowhere(spark: Any, tmp_path: Path) -> None:
    secrets = frozenset().union(*(secrets_of(name).named | secrets_of(name).marked for name in SAMPLES))
    captures = [str(PCAPS / name) for name in SAMPLES]
    shown, hidden = tmp_path / "shown", tmp_path / "hidden"
    with logged(spark, tmp_path / "log"):
        report = run(spark, captures, str(hidden), partitions=2)
    log, plan = (tmp_path / "log").read_bytes(), plans(spark).encode()
    assert len(log) > 10_000
    assert b"MapInArrow" in plan
    run(spark, captures, str(shown), partitions=2, show_secrets=True)
    assert found_in(written(shown), secrets) == secrets
    for output in (log, plan, json.dumps(report.plain()).encode(), written(hidden)):
        assert found_in(output, secrets) == set()


def written(out: Path) -> bytes:
    """All files below a folder, and the values of tables."""
    parts = []
    for path in sorted(path for path in out.rglob("*") if path.is_file()):
        parts.append(path.read_bytes())
        if path.suffix == ".parquet":
            for row in pq.ParquetFile(path).read().to_pylist():
                parts += [value if isinstance(value, bytes) else str(value).encode() for value in row.values()]
    return b"\n".join(parts)
