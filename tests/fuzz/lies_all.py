"""Every lie of every length of every format, the long form of ``test_lies``: make lies."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from . import lies_below, lies_kafka, lies_others, lies_pulsar
from .lying import LengthCase, Liar, sampled

FORMATS: dict[str, Callable[[], Iterable[LengthCase]]] = {
    "captures, packets, TLS, codecs": lies_below.cases,
    "Pulsar": lies_pulsar.cases,
    "RocketMQ and NSQ": lies_others.cases,
    "Kafka": lies_kafka.cases,
}
"""Name -> its messages."""


def main(step: int = 1) -> int:
    """Try everything, or each ``step``th message; 1 if something was found."""
    found = 0
    for name, cases in FORMATS.items():
        liar, began = Liar(each=True), time.process_time()
        count = liar.run(sampled(cases(), step))
        seconds = time.process_time() - began
        told = f"{count.messages:,} messages, {count.lies:,} lies, {seconds:.0f} s of processor time"
        print(f"{name}: {told}, {len(liar.findings)} findings", flush=True)
        for where, data, finding in liar.findings[:20]:
            print(f"{where}: {finding.signature}\n{data.hex()}\n{finding.text}")
        found |= bool(liar.findings)
    return int(found)
