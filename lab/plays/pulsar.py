"""Scenarios of Pulsar."""

from __future__ import annotations

import json
import sys
from functools import partial
from typing import Final

from lab.clientlog import ClientLog
from lab.downloads import PULSAR, pulsar_jars
from lab.processes import CLIENTS, captured, compiled, java, pulsar, run
from lab.scenarios import RECORDS, Take, scenario

_SETTINGS: Final = """transactionCoordinatorEnabled=true
clusterMigrationCheckDurationSeconds=1
backlogQuotaCheckIntervalInSeconds=1
advertisedAddress=
advertisedListeners=own:pulsar://127.0.0.1:6650,clients:pulsar://127.0.0.1:6652
bindAddresses=clients:pulsar://127.0.0.1:6652
internalListenerName=own
"""
"""Clients have a port of their own: the broker's client of itself is not in the capture."""
_FEW: Final = 6
_ORDERS: Final = "persistent://public/default/orders"


@scenario(
    f"pulsar-{PULSAR}-nacks",
    "batches, acknowledgements, negative ones and redelivery, ZLIB and SNAPPY, by the C++ client (Python)",
    partial(pulsar_jars, PULSAR),
)
def nacks(one: Take) -> None:
    """Every fourth message is given back once."""
    with pulsar(one.work, PULSAR), captured(one, "tcp port 6650"):
        told = json.loads(run([sys.executable, str(CLIENTS / "pulsar_client.py"), str(RECORDS)]).splitlines()[-1])
    sent = len(told.pop("produced"))
    one.truth.about(f"Pulsar {PULSAR}", f"pulsar-client {told['version']} (C++ core, Python)", **told)
    one.truth.counts("produced", sent, "records", topic=_ORDERS, direction="produce")
    packed = "persistent://public/default/packed"
    one.truth.counts("compressed messages", told["packed"], "records", topic=packed, direction="produce")
    again = told["redelivered"]
    one.truth.counts("redelivered messages", again, "records", topic=_ORDERS, direction="deliver", attempts=2)


@scenario(
    f"pulsar-{PULSAR}-rare",
    "rare commands and errors: SEND_ERROR, a standby that takes over, schemas of single messages, transactions, topic "
    "watchers, quotas, the end of a topic, consumer statistics, a cluster that moves; the Java client",
    partial(pulsar_jars, PULSAR),
)
def rare(one: Take) -> None:
    """What the Java client and an administrator can make a broker say."""
    classes = compiled(one.work, [pulsar_jars(PULSAR)], "pulsar/Answers.java", "pulsar/Rare.java")
    with pulsar(one.work, PULSAR, _SETTINGS) as jars, captured(one, "tcp port 6652"):
        told = run(java(jars, "Rare", str(_FEW), more=[classes]))
    one.truth.about(f"Pulsar {PULSAR}", f"Java pulsar-client {PULSAR}")
    ClientLog(told).tell(one.truth, _FEW)
