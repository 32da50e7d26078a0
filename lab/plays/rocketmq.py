"""Scenarios of RocketMQ."""

from __future__ import annotations

import time
from functools import partial
from typing import Final

from lab.clientlog import ClientLog
from lab.downloads import ROCKETMQ, rocketmq_jars
from lab.processes import CLIENTS, captured, compiled, java, rocketmq, run
from lab.scenarios import RECORDS, Take, scenario

_FEW: Final = 6
_SLAVE_FETCHES_S: Final = 22.0
"""A slave asks its master every 10 s."""
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
    with rocketmq(one.work, version) as jars, captured(one, "tcp"):
        client = str(CLIENTS / "RocketClient.java")
        told = run([*java(jars, client, "orders", "billing", str(RECORDS), home=one.work)])
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
    # 10909: brokers fetch from each other by the port that has no clients
    expression = "tcp port 9876 or tcp port 10911 or tcp port 10909 or tcp port 11911"
    with captured(one, expression), rocketmq(one.work, version, slave=True) as jars:
        classes = compiled(one.work, [jars], "RocketAdmin.java")
        told = run(java(jars, "RocketAdmin", str(_FEW), home=one.work, more=[classes]))
        time.sleep(_SLAVE_FETCHES_S)
    one.truth.about(f"RocketMQ {version}: name server, master, slave", f"Java rocketmq-client and -tools {version}")
    ClientLog(told).tell(one.truth, _FEW)
    one.truth.calls(_OF_A_SLAVE)
