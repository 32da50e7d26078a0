"""Kafka as child processes of a scenario: one node, three that vote, or two with ZooKeeper."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Self

from lab.downloads import kafka_jars
from lab.processes import java, run, server, start, stop

_CLUSTER: Final = "bXFzbmlmZi1sYWItMDAwMQ"
CLIENTS_PORT: Final = 9292
"""A second port of node 1, for clients whose connections stay whole when a capture is cut; node N has N-1 more."""
_TO_CLIENTS: Final = CLIENTS_PORT - 9092
_BROKER: Final = """listeners={controller}PLAINTEXT://127.0.0.1:{port}{clients}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}{clients}
log.dirs={folders}
num.partitions=3
offsets.topic.replication.factor={copies}
offsets.topic.num.partitions=3
transaction.state.log.replication.factor={copies}
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=3
share.coordinator.state.topic.replication.factor={copies}
share.coordinator.state.topic.min.isr=1
share.coordinator.state.topic.num.partitions=2
group.initial.rebalance.delay.ms=0
"""
_KEEPER: Final = "broker.id={node}\nzookeeper.connect=127.0.0.1:2181\n"
_VOTER: Final = """process.roles=broker,controller
node.id={node}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,CLIENTS:PLAINTEXT
"""
_QUIET: Final = """broker.heartbeat.interval.ms=4000
broker.session.timeout.ms=18000
replica.fetch.wait.max.ms=4000
metadata.max.idle.interval.ms=5000
metadata.log.max.record.bytes.between.snapshots=3000
"""
"""Settings of nodes that do not fill a capture with heartbeats, and write snapshots of metadata soon."""


@contextmanager
def kafka(work: Path, version: str, port: int = 9092, settings: str = "", more: Sequence[Path] = ()) -> Iterator[Path]:
    """A real Kafka of one node, KRaft where it has that and else with ZooKeeper; gives its jars."""
    jars, home = kafka_jars(version), work / "kafka"
    home.mkdir()
    folders = str(home / "logs")
    properties = home / "server.properties"
    if version < "3":
        properties.write_text(f"{_KEEPER.format(node=0)}{_broker(port, folders, 1)}{settings}")
        with zookeeper(work, jars), server(java(jars, "kafka.Kafka", str(properties)), work / "kafka.log", port):
            yield jars
        return
    roles = _VOTER.format(node=1) + f"controller.quorum.voters=1@127.0.0.1:{port + 1}\n"
    properties.write_text(roles + _broker(port, folders, 1, controller=port + 1) + settings)
    _format(jars, properties)
    with server(java(jars, "kafka.Kafka", str(properties), more=more), work / "kafka.log", port):
        yield jars


def _broker(port: int, folders: str, copies: int, controller: int | None = None) -> str:
    """Settings of a node; those with a controller's port have one for clients too."""
    if controller is None:
        return _BROKER.format(port=port, folders=folders, copies=copies, controller="", clients="")
    own = f"CONTROLLER://127.0.0.1:{controller},"
    clients = f",CLIENTS://127.0.0.1:{port + _TO_CLIENTS}"
    return _BROKER.format(port=port, folders=folders, copies=copies, controller=own, clients=clients)


def _format(jars: Path, properties: Path, *options: str) -> None:
    command = java(jars, "kafka.tools.StorageTool", "format", "-t", _CLUSTER, "-c", str(properties), *options)
    run(command)


@contextmanager
def zookeeper(work: Path, jars: Path) -> Iterator[None]:
    """A real ZooKeeper, out of the jars of an old Kafka."""
    properties = work / "zookeeper.properties"
    properties.write_text(
        f"dataDir={work}/zookeeper\nclientPort=2181\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\n"
    )
    keeper = java(jars, "org.apache.zookeeper.server.quorum.QuorumPeerMain", str(properties))
    with server(keeper, work / "zookeeper.log", 2181):
        yield


class KafkaNodes:
    """Nodes of one cluster, started and stopped one by one: node N listens on 9091+N, its controller on 9191+N.

    Nodes with a controller have a port for clients, 9291+N.
    """

    def __init__(self, work: Path, version: str) -> None:
        self.jars = kafka_jars(version)
        self._work = work
        self._running: dict[int, subprocess.Popen[bytes]] = {}

    def folder(self, node: int) -> Path:
        """Where a node keeps its files: its directories are ``a`` and ``b`` in it."""
        return self._work / f"kafka-{node}"

    @property
    def bootstrap(self) -> str:
        """Addresses for clients of the nodes that run."""
        return ",".join(f"127.0.0.1:{CLIENTS_PORT - 1 + node}" for node in sorted(self._running))

    def make_voter(self, node: int, directories: dict[int, str]) -> None:
        """Format the directories of a node; ``directories``: those of the first voters, none: it joins later."""
        roles = _VOTER.format(node=node) + _QUIET
        voters = ",".join(f"127.0.0.1:{9191 + voter}" for voter in (1, 2, 3))
        properties = self._write(node, roles + f"controller.quorum.bootstrap.servers={voters}\n", 3, 9191 + node)
        first = ",".join(f"{voter}@127.0.0.1:{9191 + voter}:{name}" for voter, name in directories.items())
        _format(self.jars, properties, *(("--initial-controllers", first) if first else ("--no-initial-controllers",)))

    def make_old(self, node: int) -> None:
        """Write the settings of a node that keeps its metadata in ZooKeeper."""
        self._write(node, _KEEPER.format(node=node), 2)

    def _write(self, node: int, roles: str, copies: int, controller: int | None = None) -> Path:
        home = self.folder(node)
        home.mkdir()
        properties = home / "server.properties"
        properties.write_text(roles + _broker(9091 + node, f"{home}/a,{home}/b", copies, controller))
        return properties

    def start(self, *nodes: int) -> None:
        """Start nodes and wait until they listen."""
        for node in nodes:
            command = java(self.jars, "kafka.Kafka", str(self.folder(node) / "server.properties"), heap="320m")
            self._running[node] = start(
                command, self._work / f"kafka-{node}.log", 9191 + node if len(nodes) > 1 else 9091 + node
            )

    def stop(self, node: int) -> None:
        """Stop a node in order."""
        stop(self._running.pop(node))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for node in [*self._running]:
            self.stop(node)
