"""Scenarios of several Kafka nodes: what brokers and controllers say to each other."""

from __future__ import annotations

import time
from functools import partial
from typing import Final

from lab.clientlog import ClientLog
from lab.downloads import KAFKA, kafka_jars
from lab.kafkaservers import CLIENTS_PORT, KafkaNodes, zookeeper
from lab.processes import CLIENTS, captured, compiled, java, run
from lab.scenarios import Take, scenario
from lab.thinning import cut_long

_NEW: Final = KAFKA["newest"]
_OLD: Final = KAFKA["2.8"]
_PAYMENTS: Final = 4
_SETTLES_S: Final = 4.0
"""Time in which the nodes see that one came or went."""
_DIRECTORIES: Final = {1: "bGFiLWRpcmVjdG9yeTAwMQ", 2: "bGFiLWRpcmVjdG9yeTAwMg", 3: "bGFiLWRpcmVjdG9yeTAwMw"}
_OF_CLIENTS: Final = range(CLIENTS_PORT, CLIENTS_PORT + 4)
_ALL_PORTS: Final = "tcp portrange 9092-9095 or tcp portrange 9192-9195 or tcp portrange 9292-9295"
_AMONG_NODES: Final = (
    *("Vote", "BeginQuorumEpoch", "EndQuorumEpoch", "FetchSnapshot"),
    *("BrokerRegistration", "ControllerRegistration", "BrokerHeartbeat", "AlterPartition", "AssignReplicasToDirs"),
)


@scenario(
    f"kafka-{_NEW}-cluster",
    "three nodes with a dynamic quorum and a fourth that joins: votes, a leader that resigns, snapshots, transaction "
    "markers, replicas, directories, a voter that is forgotten",
    partial(kafka_jars, _NEW),
)
def cluster(one: Take) -> None:
    """The quorum's leader is stopped in order and leaves for good, a fourth node joins and gets a replica."""
    classes = compiled(one.work, [kafka_jars(_NEW)], "kafka/Log.java", "kafka/Cluster.java")
    with KafkaNodes(one.work, _NEW) as nodes:

        def step(*arguments: str) -> str:
            told = run(java(nodes.jars, "Cluster", nodes.bootstrap, *arguments, heap="128m", more=[classes]))
            log.append(told)
            return told

        log: list[str] = []
        for node in _DIRECTORIES:
            nodes.make_voter(node, _DIRECTORIES)
        nodes.make_voter(4, {})
        with captured(one, _ALL_PORTS):
            nodes.start(1, 2, 3)
            time.sleep(_SETTLES_S)
            leader = int(step("begin", str(_PAYMENTS), str(nodes.folder(1) / "b")).splitlines()[-1])
            time.sleep(_SETTLES_S)
            nodes.stop(leader)
            time.sleep(_SETTLES_S)
            step("forget", str(leader))
            nodes.start(4)
            time.sleep(_SETTLES_S)
            step("move", "4")
            time.sleep(_SETTLES_S)
    one.truth.packets(cut_long(one.capture, _OF_CLIENTS))
    one.truth.about(f"Kafka {_NEW}, four nodes", f"Java kafka-clients {_NEW}, and the nodes")
    ClientLog("".join(log)).tell(one.truth, _PAYMENTS)
    one.truth.calls(_AMONG_NODES)


@scenario(
    f"kafka-{_OLD}-cluster",
    "two nodes with ZooKeeper: the controller's commands, ControlledShutdown of a broker that stops, and its return",
    partial(kafka_jars, _OLD),
)
def old_cluster(one: Take) -> None:
    """A broker is stopped in order and comes back."""
    with KafkaNodes(one.work, _OLD) as nodes, zookeeper(one.work, nodes.jars):
        nodes.make_old(1)
        nodes.make_old(2)
        with captured(one, "tcp portrange 9092-9093"):
            nodes.start(1)
            nodes.start(2)
            told = run([*java(nodes.jars, str(CLIENTS / "KafkaClient.java")), "orders", "billing", str(_PAYMENTS)])
            nodes.stop(2)
            time.sleep(_SETTLES_S)
            nodes.start(2)
            time.sleep(_SETTLES_S)
    one.truth.about(f"Kafka {_OLD}, two nodes", f"Java kafka-clients {_OLD}, and the nodes")
    ClientLog(told).tell(one.truth, _PAYMENTS)
    one.truth.calls(["LeaderAndIsr", "UpdateMetadata", "ControlledShutdown", "StopReplica", "AlterPartition"])
