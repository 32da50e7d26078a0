"""Scenarios of one Kafka node: records, transactions, every version of every request."""

from __future__ import annotations

import json
import sys
from collections import Counter
from functools import partial

from lab.clientlog import ClientLog
from lab.downloads import FRANZ, KAFKA, go_client, kafka_jars
from lab.kafkaservers import kafka
from lab.processes import CLIENTS, captured, java, run
from lab.scenarios import RECORDS, Take, scenario


def _produce_and_consume(one: Take, version: str) -> None:
    """Records of a Java client, whose log says every partition and offset."""
    with kafka(one.work, version) as jars, captured(one, "tcp port 9092"):
        told = run([*java(jars, str(CLIENTS / "KafkaClient.java")), "orders", "billing", str(RECORDS)])
    one.truth.about(f"Kafka {version}", f"Java kafka-clients {version}")
    ClientLog(told).tell(one.truth, RECORDS)


for _label, _version in KAFKA.items():
    scenario(
        f"kafka-{_version}-java",
        f"produce and consume with Kafka's own Java clients, broker {_label}",
        partial(kafka_jars, _version),
    )(partial(_produce_and_consume, version=_version))


@scenario(
    "kafka-librdkafka-transactions",
    "transactions of librdkafka: committed and aborted, and a reader of committed records",
    partial(kafka_jars, KAFKA["newest"]),
)
def transactions(one: Take) -> None:
    """Transactions, every third one aborted."""
    version = KAFKA["newest"]
    with kafka(one.work, version), captured(one, "tcp port 9092"):
        told = json.loads(run([sys.executable, str(CLIENTS / "kafka_transactions.py")]).splitlines()[-1])
    one.truth.about(f"Kafka {version}", f"librdkafka {told['version']} (Python)", **told)
    ends = partial(one.truth.counts, table="messages", name="EndTxn", kind="request")
    ends("commits", told["committed"], body__committed=True)
    ends("aborts", told["aborted"], body__committed=False)
    place = ("partition", "offset")
    aborted = told["aborted_records"]
    one.truth.counts("records marked as aborted", aborted, "records", place, direction="deliver", aborted=True)


@scenario(
    "kafka-3.9.1-franz-go",
    "every request of a client at every version, and records of five codecs, by franz-go (Go)",
    lambda: (kafka_jars(KAFKA["3.9"]), go_client()),
)
def every_version(one: Take) -> None:
    """Requests at each version that broker and client share: 3.9 is the last broker that takes the oldest."""
    version = KAFKA["3.9"]
    with kafka(one.work, version), captured(one, "tcp port 9092"):
        told = run([str(go_client()), "127.0.0.1:9092"])
    log = ClientLog(told)
    one.truth.about(f"Kafka {version}", f"franz-go {FRANZ} (Go)")
    log.tell(one.truth, RECORDS)
    asked: Counter[str] = Counter(entry["call"].partition(" v")[0] for entry in log.entries if entry["what"] == "done")
    for command, versions in asked.items():
        where = {"name": _kafka_name(command), "client_id": "sweep", "kind": "request"}
        one.truth.counts(f"versions of {where['name']}", versions, "messages", ("version",), **where)


def _kafka_name(command: str) -> str:
    """The name of a request, from franz-go's."""
    for theirs, ours in (("ACLs", "Acls"), ("ID", "Id"), ("SCRAM", "Scram"), ("PartitionAss", "PartitionReass")):
        command = command.replace(theirs, ours)
    return command
