"""Scenarios of Kafka's newer groups: consumer and share groups with client metrics, streams groups."""

from __future__ import annotations

from functools import partial
from typing import Final

from lab.clientlog import ClientLog
from lab.downloads import KAFKA, STREAMS, kafka_jars, streams_jars
from lab.kafkaservers import CLIENTS_PORT, kafka
from lab.processes import captured, compiled, java, run
from lab.scenarios import RECORDS, Take, scenario
from lab.thinning import cut_long

_VERSION: Final = KAFKA["newest"]
_AT: Final = "127.0.0.1:9092"
_QUICK: Final = """group.consumer.min.heartbeat.interval.ms=1000
group.consumer.heartbeat.interval.ms=1000
group.share.min.heartbeat.interval.ms=1000
group.share.heartbeat.interval.ms=1000
metric.reporters=TelemetryPlugin
"""


@scenario(
    f"kafka-{_VERSION}-groups",
    "the consumer protocol, share groups with the state that brokers keep, OffsetDelete, client metrics",
    partial(kafka_jars, _VERSION),
)
def groups(one: Take) -> None:
    """Both kinds of groups, and what an administrator does with them."""
    sources = ("kafka/Log.java", "kafka/TelemetryPlugin.java", "kafka/Groups.java")
    classes = compiled(one.work, [kafka_jars(_VERSION)], *sources)
    with kafka(one.work, _VERSION, settings=_QUICK, more=[classes]) as jars, captured(one, "tcp port 9092"):
        told = run(java(jars, "Groups", _AT, str(RECORDS), more=[classes]))
    one.truth.about(f"Kafka {_VERSION}", f"Java kafka-clients {_VERSION}")
    ClientLog(told).tell(one.truth, RECORDS)


@scenario(
    f"kafka-{_VERSION}-streams",
    "Kafka Streams with the streams protocol: StreamsGroupHeartbeat, and an administrator",
    lambda: (kafka_jars(_VERSION), streams_jars()),
)
def streams(one: Take) -> None:
    """Words are counted."""
    library = streams_jars()
    classes = compiled(one.work, [library], "kafka/Log.java", "kafka/Words.java")
    whole = f"127.0.0.1:{CLIENTS_PORT}"
    with kafka(one.work, _VERSION), captured(one, f"tcp port 9092 or tcp port {CLIENTS_PORT}"):
        told = run(java(library, "Words", whole, _AT, "8", str(one.work / "state"), more=[classes]))
    one.truth.packets(cut_long(one.capture, [CLIENTS_PORT]))
    one.truth.about(f"Kafka {_VERSION}", f"Java kafka-streams {STREAMS}")
    ClientLog(told).tell(one.truth, 0)
