"""Scenarios of Pulsar."""

from __future__ import annotations

import json
import sys
from functools import partial

from lab.downloads import PULSAR, pulsar_jars
from lab.processes import CLIENTS, captured, pulsar, run
from lab.scenarios import RECORDS, Take, scenario

_ORDERS = "persistent://public/default/orders"


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
