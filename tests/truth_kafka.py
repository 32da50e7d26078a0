"""Truth of Kafka captures: what client programs were told, compared with the rows.

1. Two kinds of files: ``topics``, ``facts`` and ``errors`` of a whole run (kafka-client), or ``steps`` in order of time
   (kafka-cluster). Offsets, counts and errors are the client library's own.
2. What was acknowledged and what was consumed must be there exactly; a program that stops when it has enough leaves
   records that its client was given.
3. What cannot agree has a reason that the rows themselves give, and that fails where they do not: TLS and nothing but
   TLS, lost bytes, a request that was never sent. Records are ``truth_kafka_records``'s matter.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import truth_kafka_records
from truth_kafka_records import Records

Row = dict[str, Any]
Finding = tuple[str, Any, Any, str]

_CODE: Final = re.compile(r"\[(\d{1,3})\]")
_CONSTANT: Final = re.compile(r"\b[A-Z][A-Z0-9]+(?:_[A-Z0-9]+)+\b")
_STEP: Final = re.compile(r"^step \d+ ")
_EXCEPTION: Final = re.compile(r"\b([A-Z][A-Za-z]+?)(?:Exception|Error)\b")
TALLY: Final = truth_kafka_records.HEAD
RENAMED: Final = {
    "recordtoolarge": "MESSAGE_TOO_LARGE",
    "invalidtopic": "INVALID_TOPIC_EXCEPTION",
    "offsetmetadatatoolarge": "OFFSET_METADATA_TOO_LARGE",
    "topicexists": "TOPIC_ALREADY_EXISTS",
    "groupnotempty": "NON_EMPTY_GROUP",
    "unknownserver": "UNKNOWN_SERVER_ERROR",
    "saslauthentication": "SASL_AUTHENTICATION_FAILED",
    "topicauthorization": "TOPIC_AUTHORIZATION_FAILED",
    "groupauthorization": "GROUP_AUTHORIZATION_FAILED",
    "clusterauthorization": "CLUSTER_AUTHORIZATION_FAILED",
    "electionnotneeded": "ELECTION_NOT_NEEDED",
    "notleaderorfollower": "NOT_LEADER_OR_FOLLOWER",
}
"""Exceptions of the Java client that are called otherwise on the wire."""


NOT_ON_THE_WIRE: Final[dict[str, tuple[Callable[[Any], bool], str]]] = {
    "metadata of unknown topic": (
        lambda seen: any(not row["topics"] for row in seen.requests("Metadata")),
        "the client asks for all topics and makes this error itself",
    ),
    "addRaftVoter bogus": (
        lambda seen: "REQUEST_TIMED_OUT" in seen.errors,
        "told by the client for REQUEST_TIMED_OUT",
    ),
    "delete group": (
        lambda seen: not seen.requests("DeleteGroups"),
        "no DeleteGroups request is in the capture",
    ),
    "quorum": (
        lambda seen: not seen.requests("DescribeQuorum"),
        "no DescribeQuorum request is in the capture: the client knows that the broker lacks it",
    ),
}
"""What a client was asked to do -> (whether the rows show it, why no broker answered with its error)."""


class Seen:
    """The rows of a capture, sorted for questions."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self.of: dict[str, list[Row]] = defaultdict(list)
        for row in rows:
            self.of[row["table"]].append(row)
        self.names = {row["topic_id"]: row["name"] for row in self.of["topics"]}
        self.acknowledged: dict[str, set[tuple[int, int]]] = defaultdict(set)
        self.delivered: dict[tuple[str, int], set[int]] = defaultdict(set)
        """Offsets that a consumer's program saw: none of aborted transactions, none from before the asked one."""
        self.produced: dict[str, int] = defaultdict(int)
        self.unanswered: set[str] = set()
        """Topics of records that wanted no answer."""
        for row in self.of["records"]:
            self._sort(row)
        self.errors = {row["error_name"] for table in ("messages", "partitions") for row in self.of[table]}
        self.topics = {topic for row in self.of["messages"] for topic in row["topics"] or ()}
        self.topics |= {self.names.get(topic) for row in self.of["messages"] for topic in row["topic_ids"] or ()}
        self.groups = {row["group"] for row in self.of["messages"]} - {None}

    def _sort(self, row: Row) -> None:
        topic = row["topic"] or self.names.get(row["topic_id"], row["topic_id"])
        if row["direction"] == "produce":
            self.produced[topic] += 1
            if row["ack"] == "none":
                self.unanswered.add(topic)
            if row["ack"] == "acked" and row["offset"] is not None:
                self.acknowledged[topic].add((row["partition"], row["offset"]))
        elif row["reader"] == "consumer" and not (row["control"] or row["aborted"] or row["before_asked"]):
            self.delivered[topic, row["partition"]].add(row["offset"])

    def requests(self, name: str) -> list[Row]:
        """The requests of an API."""
        return [row for row in self.of["messages"] if row["name"] == name and row["side"] == "client"]

    @property
    def reason(self) -> str:
        """Why something may be missing; empty where nothing explains it."""
        connections = self.of["connections"]
        if not self.of["messages"] and any(row["protocol"] == "tls" for row in connections):
            return "inside TLS, which is named and counted here, not decrypted"
        return "cut by the snap length" if any(row["gap_bytes"] for row in connections) else ""


def check(truth: dict[str, Any], rows: Iterable[Row]) -> list[Finding]:
    """Every comparison that the truth of a capture allows."""
    seen = Seen(rows)
    records = Records(seen.of)
    found = [
        *_of_run(truth, seen),
        *_of_steps(truth.get("steps") or (), seen),
        *truth_kafka_records.of_run(truth, records),
        *truth_kafka_records.of_steps(truth, records),
    ]
    return [(what, expected, got, note or seen.reason) for what, expected, got, note in found]


def tally(truth: dict[str, Any], rows: Iterable[Row]) -> list[tuple[str, ...]]:
    """Records by topic and partition, under ``TALLY``."""
    return list(Records(Seen(rows).of).table(truth_kafka_records.rules_of(truth)))


# ---- one truth for the whole run


def _of_run(truth: Mapping[str, Any], seen: Seen) -> Iterator[Finding]:
    topics = truth.get("topics")
    for topic, told in topics.items() if isinstance(topics, dict) else ():
        yield f"topic {topic} is named", True, topic in seen.topics, ""
        offsets = told.get("acked_partition_offset") if isinstance(told, dict) else None
        if isinstance(offsets, list):
            wanted = {tuple(one) for one in offsets if isinstance(one, list) and one[-1] is not None and one[-1] >= 0}
            if wanted:
                note = "sent with acks=0: the client made the offsets" if topic in seen.unanswered else ""
                yield f"{topic}: offsets acknowledged", sorted(wanted), sorted(wanted & seen.acknowledged[topic]), note
        produced = told.get("produced") if isinstance(told, dict) else None
        if isinstance(produced, int):
            yield f"{topic}: records produced, at least", True, seen.produced[topic] >= produced, ""
    for name, fact in (truth.get("facts") or {}).items():
        if isinstance(fact, dict):
            yield from _consumed(name, fact, seen)
    for error in truth.get("errors") or ():
        yield from _error(str(error.get("what", "")), str(error.get("error", "")), seen)


def _consumed(name: str, fact: Mapping[str, Any], seen: Seen) -> Iterator[Finding]:
    per_partition = fact.get("per_partition") or fact.get("perPartition")
    if isinstance(per_partition, dict):
        yield from _delivered(name, per_partition, seen)
    group = fact.get("group")
    if isinstance(group, str):
        old = not seen.reason and not seen.requests("JoinGroup") and not seen.requests("OffsetCommit")
        note = "its client is too old to tell a broker of groups" if old else ""
        yield f"group {group} is named", True, group in seen.groups, note


def _delivered(name: str, per_partition: Mapping[str, int], seen: Seen) -> Iterator[Finding]:
    wanted = {place: count for place, count in sorted(per_partition.items()) if isinstance(count, int)}
    found = {}
    for place in wanted:
        topic, _, partition = place.rpartition("-")
        found[place] = len(seen.delivered[topic, int(partition)])
    more = all(found[place] >= count for place, count in wanted.items())
    yield f"{name}: records delivered", wanted, found, "the program stopped when it had enough" if more else ""


def _error(what: str, text: str, seen: Seen) -> Iterator[Finding]:
    """Errors of brokers; those that a client makes up itself are on no wire."""
    wanted = {name for name in _wire_names(text) if name is not None}
    if wanted:
        holds, why = NOT_ON_THE_WIRE.get(_STEP.sub("", what), (lambda _: False, ""))
        yield f"error of {what}", sorted(wanted), sorted(wanted & seen.errors), why if holds(seen) else ""


def _wire_names(text: str) -> Iterator[str | None]:
    from mqsniff_kafka import specs

    by_word = {name.replace("_", "").lower(): name for name in specs.errors().values() if name}
    names = set(specs.errors().values())
    for code in _CODE.findall(text):
        yield specs.errors().get(int(code))
    for word in _CONSTANT.findall(text):
        yield word if word in names else None
    for word in _EXCEPTION.findall(text.partition(":")[0]):
        yield RENAMED.get(word.lower()) or by_word.get(word.lower())


# ---- one truth a step


def _of_steps(steps: Iterable[Any], seen: Seen) -> Iterator[Finding]:
    for number, step in enumerate(steps):
        if not isinstance(step, dict) or "op" not in step:
            continue
        what = f"step {number} {step['op']}"
        if "error" in step:
            yield from _error(what, str(step["error"]), seen)
            continue
        told = step["result"] if isinstance(step.get("result"), dict) else step
        yield from _offsets(what, told.get("offsets"), seen)
        if step["op"] == "consume":
            yield from _consumed(what, {"group": _group(step), **told}, seen)


def _offsets(what: str, offsets: Any, seen: Seen) -> Iterator[Finding]:
    for place, wanted in offsets.items() if isinstance(offsets, dict) else ():
        topic, _, partition = place.rpartition("-")
        found = {offset for at, offset in seen.acknowledged[topic] if at == int(partition)}
        yield f"{what}: offsets acknowledged in {place}", wanted, [offset for offset in wanted if offset in found], ""


def _group(step: Mapping[str, Any]) -> Any:
    """A consumer's group: its second argument, unless it reads without one."""
    args = step.get("args") or ()
    group = step.get("group") or (args[1] if len(args) > 1 else None)
    return None if group in ("-", "none", "", None) else group
