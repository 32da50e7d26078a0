"""RocketMQ as child processes of a scenario: a name server, perhaps with a controller, and brokers."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import Final, Self

from lab.downloads import rocketmq_jars
from lab.processes import java, start, stop

NAMES_PORT: Final = 9876
CONTROLLER_PORT: Final = 9878
BROKER_PORTS: Final = (10911, 11911)
"""Of the master and of the slave; the port for other brokers is two below, and the one for replication one above."""
_LOGBACK: Final = "<configuration></configuration>"
_REGISTERS_S: Final = 10.0
"""Time in which a broker that listens gets known to its name server."""
_BROKER: Final = """brokerClusterName=lab
brokerName=broker-a
brokerId={number}
brokerRole={role}
brokerIP1=127.0.0.1
brokerIP2=127.0.0.1
listenPort={port}
namesrvAddr=127.0.0.1:9876
autoCreateTopicEnable=true
storePathRootDir={home}/store-{port}
storePathEpochFile={home}/store-{port}/epoch
mappedFileSizeCommitLog=16777216
diskMaxUsedSpaceRatio=99
syncBrokerMemberGroupPeriod=3000
"""
_CONTROLLER: Final = f"""enableControllerInNamesrv=true
controllerDLegerGroup=lab
controllerDLegerPeers=n0-127.0.0.1:{CONTROLLER_PORT}
controllerDLegerSelfId=n0
enableElectUncleanMaster=true
notifyBrokerRoleChanged=true
mappedFileSize=1048576
scanNotActiveBrokerInterval=2000
"""
_CONTROLLED: Final = f"""enableControllerMode=true
controllerAddr=127.0.0.1:{CONTROLLER_PORT}
fetchControllerAddr=false
allAckInSyncStateSet=true
brokerHeartbeatInterval=4000
syncBrokerMetadataPeriod=8000
syncControllerMetadataPeriod=20000
syncBrokerMemberGroupPeriod=10000
"""
"""Settings of brokers whose roles a controller gives."""


class RocketNodes:
    """A name server and up to two brokers of one name, started and stopped one by one."""

    def __init__(
        self, work: Path, version: str, *, names: str = "", brokers: str = "", controller: bool = False
    ) -> None:
        """``names`` and ``brokers``: more settings of theirs; ``controller``: it decides which broker is the master."""
        self.jars, self._home, self._work = rocketmq_jars(version), work / "rocketmq", work
        self._names = names + (f"{_CONTROLLER}controllerStorePath={self._home}/controller\n" if controller else "")
        self._brokers = brokers + (_CONTROLLED if controller else "")
        self._controlled = controller
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        (self._home / "conf").mkdir(parents=True)
        for name in ("namesrv", "broker"):  # 4.9 does not start without
            (self._home / "conf" / f"logback_{name}.xml").write_text(_LOGBACK)

    def start(self, number: int) -> None:
        """Start a broker, 0 the master and 1 the slave, and wait until it listens."""
        port = BROKER_PORTS[number]
        role = "ASYNC_MASTER" if number == 0 and not self._controlled else "SLAVE"
        settings = _BROKER.format(number=-1 if self._controlled else number, role=role, port=port, home=self._home)
        self._run("org.apache.rocketmq.broker.BrokerStartup", f"broker-{number}", port, settings + self._brokers, "1g")

    def stop(self, number: int) -> None:
        """Stop a broker in order."""
        stop(self._running.pop(BROKER_PORTS[number]))

    @staticmethod
    def settle() -> None:
        """Wait until brokers are known to the name server."""
        time.sleep(_REGISTERS_S)

    def _run(self, main: str, name: str, port: int, settings: str, heap: str = "512m") -> None:
        configuration = self._home / f"{name}.conf"
        configuration.write_text(settings)
        command = java(self.jars, main, "-c", str(configuration), heap=heap, home=self._home)
        environment = dict(os.environ, ROCKETMQ_HOME=str(self._home))
        self._running[port] = start(command, self._work / f"{name}.log", port, environment)

    def __enter__(self) -> Self:
        self._run("org.apache.rocketmq.namesrv.NamesrvStartup", "namesrv", NAMES_PORT, self._names)
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed([*self._running.values()]):
            stop(process)
