"""Scenarios of RocketMQ."""

from __future__ import annotations

import time
from functools import partial
from typing import Final

from lab.clientlog import ClientLog
from lab.downloads import ROCKETMQ, rocketmq_jars
from lab.processes import CLIENTS, captured, compiled, java, run
from lab.rocketservers import CONTROLLER_PORT, RocketNodes
from lab.scenarios import RECORDS, Take, scenario

_FEW: Final = 6
_SLAVE_FETCHES_S: Final = 68.0
"""A slave asks its master for everything 60 s after it started, and then every minute."""
_NOTICED_S: Final = 9.0
"""Time in which it is noticed that a broker came or went."""
_BETWEEN: Final = "tcp port 9876 or tcp port 10911 or tcp port 10909 or tcp port 11911 or tcp port 11909"
"""The ports of name server and brokers; brokers ask each other by 10909, which clients may leave to them."""
_ACTING: Final = """enableSlaveActingMaster=true
enableSingleTopicRegister=true
forceRegister=false
compatibleWithOldNameSrv=false
brokerHeartbeatInterval=5000
syncBrokerMemberGroupPeriod=10000
"""
_OF_A_SLAVE: Final = (
    *(
        "REGISTER_BROKER",
        "UNREGISTER_BROKER",
        "GET_ALL_TOPIC_CONFIG",
        "GET_ALL_CONSUMER_OFFSET",
        "GET_ALL_DELAY_OFFSET",
    ),
    *("GET_TIMER_CHECK_POINT", "GET_TIMER_METRICS"),
)


def _send_and_consume(one: Take, version: str) -> None:
    """Messages of a Java client, whose log says every queue and offset."""
    client = str(CLIENTS / "RocketClient.java")
    with RocketNodes(one.work, version) as nodes:
        nodes.start(0)
        nodes.settle()
        with captured(one, "tcp"):
            told = run([*java(nodes.jars, client, "orders", "billing", str(RECORDS), home=one.work)])
    one.truth.about(f"RocketMQ {version}", f"Java rocketmq-client {version}")
    ClientLog(told).tell(one.truth, RECORDS)


for _label, _version in ROCKETMQ.items():
    scenario(
        f"rocketmq-{_version}-java",
        f"sends, a push consumer, offsets and heartbeats, RocketMQ {_label}",
        partial(rocketmq_jars, _version),
    )(partial(_send_and_consume, version=_version))


@scenario(
    f"rocketmq-{ROCKETMQ['newest']}-slave",
    "a master and a slave that fetches offsets and timers; messages given back; an administrator; an orderly stop",
    partial(rocketmq_jars, ROCKETMQ["newest"]),
)
def slave(one: Take) -> None:
    """What brokers say to each other and to the name server, with a consumer that fails once."""
    version = ROCKETMQ["newest"]
    with captured(one, _BETWEEN), RocketNodes(one.work, version) as nodes:
        classes = compiled(one.work, [nodes.jars], "rocketmq/Calls.java", "rocketmq/RocketAdmin.java")
        nodes.start(0)
        nodes.start(1)
        synchronized = time.monotonic() + _SLAVE_FETCHES_S
        nodes.settle()
        told = run(java(nodes.jars, "RocketAdmin", str(_FEW), home=one.work, more=[classes]))
        time.sleep(max(synchronized - time.monotonic(), 0))
    one.truth.about(f"RocketMQ {version}: name server, master, slave", f"Java rocketmq-client and -tools {version}")
    ClientLog(told).tell(one.truth, _FEW)
    one.truth.calls(_OF_A_SLAVE)


@scenario(
    f"rocketmq-{ROCKETMQ['newest']}-acting",
    "a slave that acts as master while the master is away; single topics registered; replies of an old client",
    partial(rocketmq_jars, ROCKETMQ["newest"]),
)
def acting(one: Take) -> None:
    """The master is stopped and comes back; topics are registered one by one."""
    version = ROCKETMQ["newest"]
    names = "supportActingMaster=true\nnotifyMinBrokerIdChanged=true\nscanNotActiveBrokerInterval=2000\n"
    with captured(one, _BETWEEN), RocketNodes(one.work, version, names=names, brokers=_ACTING) as nodes:
        classes = compiled(one.work, [nodes.jars], "rocketmq/Calls.java", "rocketmq/Replies.java")
        nodes.start(0)
        nodes.start(1)
        nodes.settle()
        client = java(nodes.jars, "Replies", "2", home=one.work, more=[classes])
        client.insert(1, "-Dorg.apache.rocketmq.client.sendSmartMsg=false")
        told = run(client)
        nodes.stop(0)
        time.sleep(_NOTICED_S)
        nodes.start(0)
        time.sleep(_NOTICED_S)
    one.truth.about(f"RocketMQ {version}: name server, master, slave", f"Java rocketmq-client and -tools {version}")
    ClientLog(told).tell(one.truth, 0)
    one.truth.calls(["REGISTER_TOPIC_IN_NAMESRV", "QUERY_DATA_VERSION", "GET_BROKER_MEMBER_GROUP"])
    one.truth.calls(["NOTIFY_MIN_BROKER_ID_CHANGE"])


@scenario(
    f"rocketmq-{ROCKETMQ['newest']}-controller",
    "a controller that gives two brokers their roles: elections, the set of brokers in step, its configuration; what "
    "it refuses",
    partial(rocketmq_jars, ROCKETMQ["newest"]),
)
def controller(one: Take) -> None:
    """The master is stopped, the controller elects the other broker."""
    version = ROCKETMQ["newest"]
    ports = f"{_BETWEEN} or tcp port {CONTROLLER_PORT}"
    with captured(one, ports), RocketNodes(one.work, version, controller=True) as nodes:
        classes = compiled(one.work, [nodes.jars], "rocketmq/Calls.java", "rocketmq/Controllers.java")
        nodes.start(0)
        nodes.settle()
        nodes.start(1)
        nodes.settle()
        told = run(java(nodes.jars, "Controllers", "elect", home=one.work, more=[classes]))
        nodes.stop(0)
        time.sleep(_NOTICED_S)
        told += run(java(nodes.jars, "Controllers", "clean", home=one.work, more=[classes]))
    one.truth.about(f"RocketMQ {version}: a controller, two brokers", f"Java rocketmq-tools {version}")
    ClientLog(told).tell(one.truth, 0)
    one.truth.calls(["CONTROLLER_REGISTER_BROKER", "CONTROLLER_ALTER_SYNC_STATE_SET", "NOTIFY_BROKER_ROLE_CHANGED"])


@scenario(
    f"rocketmq-{ROCKETMQ['newest']}-dledger",
    "three DLedger nodes: votes, heartbeats, entries; their client appends and reads; a leader that hands over",
    partial(rocketmq_jars, ROCKETMQ["newest"]),
)
def dledger(one: Take) -> None:
    """The log below brokers and controllers, by itself."""
    version = ROCKETMQ["newest"]
    jars = rocketmq_jars(version)
    classes = compiled(one.work, [jars], "rocketmq/Calls.java", "rocketmq/Ledger.java")
    with captured(one, "tcp portrange 20911-20913"):
        told = run(java(jars, "Ledger", str(one.work / "ledger"), str(_FEW), home=one.work, more=[classes]))
    one.truth.about("three nodes of DLedger 0.3.2", "DLedgerClient 0.3.2 (Java)")
    ClientLog(told).tell(one.truth, 0)
    one.truth.calls(["DLEDGER_VOTE", "DLEDGER_HEART_BEAT", "DLEDGER_PUSH"])
