"""What is played, by name: a server, clients, and what their logs say afterwards."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from lab.downloads import CACHE, KAFKA, NSQ, PULSAR, ROCKETMQ, LabError, nsq_programs
from lab.processes import captured, java, kafka, nsqd, pulsar, rocketmq, run
from lab.truth import Truth

WORK: Final = CACHE / "work"
"""Where the folders of servers are made."""
RECORDS: Final = 60


@dataclass
class Take:
    """A scenario under way."""

    capture: Path
    work: Path
    truth: Truth = field(default_factory=Truth)
    about: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Scenario:
    """A scenario: what it shows, and the function that plays it."""

    name: str
    shows: str
    play: Callable[[Take], None]


SCENARIOS: Final[dict[str, Scenario]] = {}


def scenario(name: str, shows: str) -> Callable[[Callable[[Take], None]], Callable[[Take], None]]:
    """Name a function that plays a scenario."""

    def note(play: Callable[[Take], None]) -> Callable[[Take], None]:
        SCENARIOS[name] = Scenario(name, shows, play)
        return play

    return note


def take(name: str, out: Path) -> Path:
    """Play a scenario and write its capture with what belongs to it; the path of the capture."""
    out.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=WORK))
    try:
        one = Take(work / f"{name}.pcap", work, about={"scenario": name, "shows": SCENARIOS[name].shows})
        SCENARIOS[name].play(one)
        one.truth.write(one.capture, one.about)
        for made in sorted(work.glob(f"{name}.*")):
            shutil.copy(made, out / made.name)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return out / f"{name}.pcap"


# ---- NSQ


@scenario("nsq-publish-consume", "PUB of to_nsq (go-nsq), SUB, RDY, MESSAGE and FIN of nsq_tail")
def nsq_publish_consume(one: Take) -> None:
    """Lines in through to_nsq, out through nsq_tail."""
    programs, lines = nsq_programs(), [f"order {number}" for number in range(RECORDS)]
    with nsqd(one.work), captured(one.capture, "tcp port 4150"):
        publish = [str(programs / "to_nsq"), "-topic=orders", "-nsqd-tcp-address=127.0.0.1:4150", "-rate=0"]
        run(publish, given="".join(f"{line}\n" for line in lines))
        tail = [str(programs / "nsq_tail"), "-topic=orders", "-channel=billing", f"-n={RECORDS}"]
        told = run([*tail, "-nsqd-tcp-address=127.0.0.1:4150", "-print-topic=false"])
    got = [line for line in told.splitlines() if line.startswith("order ")]
    one.about |= {"nsqd": NSQ, "client": f"to_nsq and nsq_tail {NSQ}", "published": len(lines), "received": len(got)}
    one.truth.expect("no errors", errors=0)
    one.truth.counts("every line was published", "records where topic = 'orders' and direction = 'produce'", len(lines))
    one.truth.counts(
        "every line that nsq_tail printed was delivered",
        "(select distinct decode(value) from records where topic = 'orders' and direction = 'deliver')",
        len({*got}),
    )
    one.truth.finds(  # nsq_tail stops at its last message, and may not send the FIN of that any more
        "and finished, but for the last",
        "select count(*) as found from messages where name = 'FIN' "
        f"having count(*) not between {len(got) - 1} and {len(got)}",
    )


@scenario("nsq-requeue", "REQ, attempts that grow, TOUCH and a time-out, by a consumer in Python (pynsq)")
def nsq_requeue(one: Take) -> None:
    """A consumer that gives each message back once."""
    script = Path(__file__).with_name("clients") / "nsq_requeue.py"
    with nsqd(one.work), captured(one.capture, "tcp port 4150"):
        told = json.loads(run([sys.executable, str(script), "20"]).splitlines()[-1])
    one.about |= {"nsqd": NSQ, "client": f"pynsq {told['version']}", "said": told}
    one.truth.counts("REQ as often as the client says", "messages where name = 'REQ'", told["requeued"])
    one.truth.counts("FIN as often as the client says", "messages where name = 'FIN'", told["finished"])
    one.truth.counts(
        "second attempts as the client saw them",
        "records where direction = 'deliver' and attempts = 2",
        told["second_attempts"],
    )


# ---- Kafka


def _logged(told: str) -> dict[str, list[tuple[int, int, str | None, str]]]:
    """The lines of a client's log by what they tell: (partition, offset, key, value) each; LabError if some lack."""
    rows = [json.loads(line) for line in told.splitlines() if line.startswith("{")]
    by_kind = {
        what: [(row["partition"], row["offset"], row["key"], row["value"]) for row in rows if row["what"] == what]
        for what in ("produced", "read")
    }
    if len(by_kind["produced"]) < RECORDS or len(by_kind["read"]) < RECORDS:
        raise LabError(f"the client logged {len(by_kind['produced'])} sends and {len(by_kind['read'])} reads")
    return by_kind


def _produce_and_consume(one: Take, version: str) -> None:
    """Records of a Java client, whose log says every partition and offset."""
    source = Path(__file__).with_name("clients") / "KafkaClient.java"
    with kafka(one.work, version) as jars, captured(one.capture, "tcp port 9092"):
        told = run([*java(jars, str(source)), "orders", "billing", str(RECORDS)])
    by_kind = _logged(told)
    one.about |= {"kafka": version, "client": f"Java kafka-clients {version}"}
    one.about |= {what: len(rows) for what, rows in by_kind.items()}
    one.truth.produced("orders", by_kind["produced"])
    one.truth.consumed("orders", by_kind["read"])
    if '"committed"' in told:
        one.truth.expect("the group committed", command="OffsetCommit", seen=1)


for _label, _version in KAFKA.items():
    scenario(f"kafka-{_version}-java", f"produce and consume with Kafka's own Java clients, broker {_label}")(
        lambda one, version=_version: _produce_and_consume(one, version)
    )


@scenario(
    "kafka-librdkafka-transactions",
    "transactions of librdkafka: committed and aborted, and a reader of committed records",
)
def kafka_transactions(one: Take) -> None:
    """Transactions, every third one aborted."""
    script = Path(__file__).with_name("clients") / "kafka_transactions.py"
    version = KAFKA["newest"]
    with kafka(one.work, version), captured(one.capture, "tcp port 9092"):
        told = json.loads(run([sys.executable, str(script)]).splitlines()[-1])
    one.about |= {"kafka": version, "client": f"librdkafka {told['version']}", "said": told}
    one.truth.counts(
        "commits",
        "messages where name = 'EndTxn' and kind = 'request' and body ->> '$.committed' = 'true'",
        told["committed"],
    )
    one.truth.counts(
        "aborts",
        "messages where name = 'EndTxn' and kind = 'request' and body ->> '$.committed' = 'false'",
        told["aborted"],
    )
    one.truth.counts(
        "records of aborted transactions are marked",
        '(select distinct "partition", "offset" from records where direction = \'deliver\' and aborted)',
        told["aborted_records"],
    )


# ---- RocketMQ


def _send_and_consume(one: Take, version: str) -> None:
    """Messages of a Java client, whose log says every queue and offset."""
    source = Path(__file__).with_name("clients") / "RocketClient.java"
    with rocketmq(one.work, version) as jars, captured(one.capture, "tcp"):
        told = run([*java(jars, str(source), "orders", "billing", str(RECORDS), home=one.work)])
    by_kind = _logged(told)
    one.about |= {"rocketmq": version, "client": f"Java rocketmq-client {version}"}
    one.about |= {what: len(rows) for what, rows in by_kind.items()}
    one.truth.produced("orders", by_kind["produced"])
    one.truth.consumed("orders", by_kind["read"])


for _label, _version in ROCKETMQ.items():
    scenario(f"rocketmq-{_version}-java", f"send, push consumer, offsets and heartbeats, RocketMQ {_label}")(
        lambda one, version=_version: _send_and_consume(one, version)
    )


# ---- Pulsar


@scenario(
    f"pulsar-{PULSAR}-nacks", "batches, acknowledgements, negative ones and redelivery, by the C++ client (Python)"
)
def pulsar_nacks(one: Take) -> None:
    """Every fourth message is given back once."""
    script = Path(__file__).with_name("clients") / "pulsar_client.py"
    with pulsar(one.work, PULSAR), captured(one.capture, "tcp port 6650"):
        told = json.loads(run([sys.executable, str(script), str(RECORDS)]).splitlines()[-1])
    produced = told.pop("produced")
    one.about |= {"pulsar": PULSAR, "client": f"pulsar-client {told['version']} (C++)", "said": told}
    topic = "persistent://public/default/orders"
    one.truth.counts("produced", f"records where topic = '{topic}' and direction = 'produce'", len(produced))
    redelivered = f"records where topic = '{topic}' and direction = 'deliver' and attempts > 1"
    one.truth.counts("redelivered messages, as the client counted them", redelivered, told["redelivered"])


# ---- what is listed


def listing() -> str:
    """All scenarios, one a line."""
    width = max(map(len, SCENARIOS))
    return "\n".join(f"{each.name:<{width}}  {each.shows}" for each in SCENARIOS.values())
