"""Scenarios of NSQ."""

from __future__ import annotations

import json
import sys

from lab.downloads import NSQ, nsq_programs
from lab.processes import CLIENTS, captured, nsqd, run
from lab.scenarios import RECORDS, Take, scenario


@scenario(
    "nsq-publish-consume",
    "PUB of to_nsq (go-nsq), SUB, RDY, MESSAGE and FIN of nsq_tail, both written in Go",
    nsq_programs,
)
def publish_consume(one: Take) -> None:
    """Lines in through to_nsq, out through nsq_tail."""
    programs, lines = nsq_programs(), [f"order {number}" for number in range(RECORDS)]
    with nsqd(one.work), captured(one, "tcp port 4150"):
        publish = [str(programs / "to_nsq"), "-topic=orders", "-nsqd-tcp-address=127.0.0.1:4150", "-rate=0"]
        run(publish, given="".join(f"{line}\n" for line in lines))
        tail = [str(programs / "nsq_tail"), "-topic=orders", "-channel=billing", f"-n={RECORDS}"]
        told = run([*tail, "-nsqd-tcp-address=127.0.0.1:4150", "-print-topic=false"])
    got = [line for line in told.splitlines() if line.startswith("order ")]
    one.truth.about(f"nsqd {NSQ}", f"to_nsq and nsq_tail {NSQ} (go-nsq)")
    one.truth.expect("no errors", errors=0)
    one.truth.calls(["IDENTIFY", "PUB", "SUB", "RDY", "FIN"])  # nsq_tail may not finish its last message any more
    one.truth.produced("orders", [(None, None, None, line) for line in lines])
    one.truth.consumed("orders", [(None, None, None, line) for line in got])


@scenario("nsq-requeue", "REQ and second attempts, by a consumer in Python (pynsq)", nsq_programs)
def requeue(one: Take) -> None:
    """A consumer that gives each message back once."""
    with nsqd(one.work), captured(one, "tcp port 4150"):
        told = json.loads(run([sys.executable, str(CLIENTS / "nsq_requeue.py"), "6"]).splitlines()[-1])
    one.truth.about(f"nsqd {NSQ}", f"pynsq {told['version']} (Python)", **told)
    one.truth.counts("REQ as often as the client says", told["requeued"], "messages", name="REQ")
    one.truth.counts("FIN as often as the client says", told["finished"], "messages", name="FIN")
    seconds = told["second_attempts"]
    one.truth.counts("second attempts as the client saw them", seconds, "records", direction="deliver", attempts=2)
