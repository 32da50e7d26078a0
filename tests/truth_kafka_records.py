"""Records of a capture of Kafka, and what its truth tells of them, in; findings, and a table by partition, out.

1. What clients made by a rule must be among the records that brokers took: each key and value, and of partition, time
   and headers what the rule tells. A rule that cannot be read is an error of this module, not a difference.
2. What brokers took and no rule made must be what the truth itself speaks of: transactions, or a step it counts.
3. What brokers refused was sent again: each such record is among those that were taken.
4. What consumers were given is what producers sent to that offset, and follows the rule.
5. A transaction ends as the first EndTxn of its producer that was answered without an error says.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

from truth_kafka_rules import UNTOLD, Ruled, endless, records_of, records_of_step, round_rule

Row = dict[str, Any]
Finding = tuple[str, Any, Any, str]
Place = tuple[str, int]

MILLISECOND_NS: Final = 1_000_000
AHEAD: Final = 20_000
"""Numbers of a rule that are tried where a truth does not say how many records there were."""
_COUNTED_STEP: Final = re.compile(r"Conn\.WriteMessages (\d+) to (.+)-\d+")
STEPS_WITH_RECORDS: Final = {"assign two partitions less": ("-s0", 1)}
"""Steps that sent records without saying so: what was done -> (end of the topic, records)."""
_READ: Final = re.compile(r"(.+)-(\d+)@(\d+)=(.*)", re.DOTALL)
HEAD: Final = (
    *("partition", "sent", "taken", "refused", "no answer", "by rule", "given", "by rule", "committed", "aborted"),
)


class Transactions:
    """How the transactions of a capture ended."""

    def __init__(self, of: Mapping[str, list[Row]]) -> None:
        fine = {
            (row["connection_id"], row["request_stream_offset"])
            for row in of["exchanges"]
            if row["name"] == "EndTxn" and row["status"] == "ok"
        }
        self._ends: dict[Any, list[tuple[int, bool]]] = defaultdict(list)
        for row in of["messages"]:
            if (
                (row["connection_id"], row["stream_offset"]) in fine
                and row["name"] == "EndTxn"
                and row["side"] == "client"
            ):
                self._ends[row["body"]["producer_id"]].append((row["ts_ns"], row["body"]["committed"]))

    def outcome(self, row: Row) -> bool | None:
        """Whether the transaction of a produced record was committed; None where none ended after it."""
        ends = self._ends[row["producer_id"]]
        at = bisect_left(ends, (row["ts_ns"], False))
        return ends[at][1] if at < len(ends) else None


class Records:
    """The records of a capture by topic."""

    def __init__(self, of: Mapping[str, list[Row]]) -> None:
        names = {row["topic_id"]: row["name"] for row in of["topics"]}
        self.sent: dict[str, list[Row]] = defaultdict(list)
        self.given: dict[str, dict[tuple[int, int], Row]] = defaultdict(dict)
        """Topic -> (partition, offset) -> a record that a consumer was given."""
        self.transactions = Transactions(of)
        for row in of["records"]:
            topic = row["topic"] or names.get(row["topic_id"], row["topic_id"])
            if row["direction"] == "produce":
                self.sent[topic].append(row)
            elif row["reader"] == "consumer" and not row["control"]:
                self.given[topic][row["partition"], row["offset"]] = row

    def taken(self, topic: str) -> list[Row]:
        """What brokers took, or were sent without being asked for an answer."""
        return [row for row in self.sent[topic] if row["ack"] in ("acked", "none")]

    def table(self, rules: Mapping[str, set[Any]]) -> Iterator[tuple[str, ...]]:
        """Cells of ``HEAD`` by partition; ``rules``: topic -> (key, value) of its rule."""
        places = {(topic, row["partition"]) for topic, rows in self.sent.items() for row in rows}
        places |= {(topic, partition) for topic, rows in self.given.items() for partition, _ in rows}
        for topic, partition in sorted(places, key=str):
            ruled = rules.get(topic)
            sent = [row for row in self.sent[topic] if row["partition"] == partition]
            given = [row for (at, _), row in self.given[topic].items() if at == partition]
            acks = Counter(row["ack"] for row in sent)
            ends = Counter(self.transactions.outcome(row) for row in sent if row["transactional"])
            follow = [sum(_follows(row, ruled) for row in rows) if ruled else "" for rows in (sent, given)]
            numbers = (len(sent), acks["acked"], acks["failed"], acks["none"], follow[0], len(given), follow[1])
            yield f"{topic}-{partition}", *(str(one or "") for one in (*numbers, ends[True], ends[False]))


def _follows(row: Row, ruled: set[Any]) -> bool:
    return _pair(row) in ruled or (UNTOLD, row["value"]) in ruled


def _pair(row: Row) -> tuple[bytes | None, bytes | None]:
    return row["key"], row["value"]


# ---- one truth for the whole run


def of_run(truth: Mapping[str, Any], records: Records) -> Iterator[Finding]:
    """What the topics of a truth tell of records."""
    topics = truth.get("topics")
    for topic, told in topics.items() if isinstance(topics, dict) else ():
        if isinstance(told, dict):
            made = records_of(told, topics)
            if made is not None:
                yield from _by_rule(topic, made, truth, records)
            elif "committed" in told:
                yield from _by_rounds(topic, told, records)
            elif told.get("value_rule"):
                yield from _by_any(topic, told, truth, records)
            yield from _deliveries(topic, records)
    facts = truth.get("facts") or {}
    for name in ("read_committed", "read_uncommitted"):
        if name in facts:
            yield from _read(name, facts[name], records)


def rules_of(truth: Mapping[str, Any]) -> dict[str, set[Any]]:
    """Topic -> (key, value) of what its rule makes."""
    found: dict[str, set[Any]] = defaultdict(set)
    topics = truth.get("topics")
    for topic, told in topics.items() if isinstance(topics, dict) else ():
        if isinstance(told, dict) and (made := records_of(told, topics)) is not None:
            found[topic] |= {(one.key, one.value) for one in made}
    for step in steps_of(truth):
        for topic in {place.rpartition("-")[0] for place in step.offsets}:
            found[topic] |= {(one.key, one.value) for one in step.made}
    return found


def _counted(topic: str, done: Iterable[str]) -> int:
    """Records that steps of a run counted beside those of its rule."""
    number = 0
    for step in done:
        end, records = STEPS_WITH_RECORDS.get(step, ("", 0))
        number += records if topic.endswith(end) else 0
        if (found := _COUNTED_STEP.fullmatch(step)) is not None and found[2] == topic:
            number += int(found[1])
    return number


def _by_rule(topic: str, made: Sequence[Ruled], truth: Mapping[str, Any], records: Records) -> Iterator[Finding]:
    """Rules 1 to 3 of one topic; a client that says that it gave up did not send again what was refused."""
    taken, refused = records.taken(topic), [row for row in records.sent[topic] if row["ack"] == "failed"]
    gave_up = any(error.get("what") == f"produce {topic}" for error in truth.get("errors") or ())
    sent = taken + refused if gave_up else taken
    matched, beyond, told = _matched(made, sent)
    yield f"{topic}: records by its rule ({told})", len(made), matched, ""
    plain = sum(not row["transactional"] for row in beyond)
    yield f"{topic}: records beyond its rule, transactions aside", _counted(topic, truth.get("done") or ()), plain, ""
    if refused:
        taken_pairs = {_pair(row) for row in taken}
        again = sum(_pair(row) in taken_pairs for row in refused)
        yield f"{topic}: refused records that were sent again", 0 if gave_up else len(refused), again, ""


def _matched(made: Sequence[Ruled], rows: Sequence[Row]) -> tuple[int, list[Row], str]:
    """(how many of the made records are among the rows, the rows that are none of them, the fields that were compared).

    Headers came with magic 2, times with magic 1: older records have no room for them.
    """
    roomy = {
        "headers": any(row["transactional"] is not None for row in rows),
        "timestamp_ms": any(row["record_ts"] is not None for row in rows),
    }
    left: dict[tuple[str, ...], Counter[Any]] = defaultdict(Counter)
    for one in made:
        told = tuple(name for name in Ruled._fields if getattr(one, name) != UNTOLD and roomy.get(name, True))
        left[told][tuple(getattr(one, name) for name in told)] += 1
    beyond: list[Row] = []
    for row in rows:
        for told, wanted in left.items():
            seen = _seen(row, told)
            if wanted[seen]:
                wanted[seen] -= 1
                break
        else:
            beyond.append(row)
    fields = dict.fromkeys(name for told in left for name in told)
    return len(rows) - len(beyond), beyond, ", ".join(fields)


def _seen(row: Row, told: Sequence[str]) -> tuple[Any, ...]:
    """The told fields of a record of the capture."""
    columns = {
        "key": row["key"],
        "value": row["value"],
        "partition": row["partition"],
        "timestamp_ms": None if row["record_ts"] is None else row["record_ts"] // MILLISECOND_NS,
        "headers": tuple((header["key"], header["value"]) for header in row["headers"] or ()),
    }
    return tuple(columns[name] for name in told)


def _by_any(topic: str, told: Mapping[str, Any], truth: Mapping[str, Any], records: Records) -> Iterator[Finding]:
    """A rule without a number of records: each one has to follow it."""
    taken = records.taken(topic)
    matched, _, fields = _matched(list(islice(endless(told), AHEAD)), taken)
    counted = _counted(topic, truth.get("done") or ())
    yield f"{topic}: records by its rule ({fields})", len(taken) - counted, matched, ""


def _by_rounds(topic: str, told: Mapping[str, Any], records: Records) -> Iterator[Finding]:
    """Rule 5: how many records were committed and aborted, of those that the rule made."""
    rule = round_rule(told["value_rule"])
    ruled = [row for row in records.taken(topic) if rule.fullmatch(row["value"] or b"")]
    outcomes = Counter(records.transactions.outcome(row) for row in ruled)
    yield f"{topic}: records committed", told["committed"], outcomes[True], ""
    yield f"{topic}: records aborted", told["aborted"], outcomes[False], ""


def _deliveries(topic: str, records: Records) -> Iterator[Finding]:
    """Rule 4: what consumers were given is what was sent to that offset."""
    sent = {(row["partition"], row["offset"]): _pair(row) for row in records.taken(topic) if row["offset"] is not None}
    both = sent.keys() & records.given[topic].keys()
    if both:
        same = sum(sent[place] == _pair(records.given[topic][place]) for place in both)
        yield f"{topic}: records given as they were sent", len(both), same, ""


def _read(name: str, read: Iterable[str], records: Records) -> Iterator[Finding]:
    """``topic-partition@offset=value`` of each record that a consumer told of."""
    wanted = [found.groups() for one in read if (found := _READ.fullmatch(one)) is not None]
    seen = 0
    for topic, partition, offset, value in wanted:
        row = records.given[topic].get((int(partition), int(offset)))
        seen += row is not None and row["value"] == value.encode()
    yield f"{name}: offsets and values", len(wanted), seen, ""
    if name == "read_committed":
        aborted = [place for place in wanted if records.given[place[0]][int(place[1]), int(place[2])]["aborted"]]
        yield f"{name}: records of aborted transactions", 0, len(aborted), ""


# ---- one truth a step


class Step(NamedTuple):
    """A step that made records by a rule."""

    what: str
    made: list[Ruled]
    offsets: dict[str, list[int]]
    committed: bool | None


def steps_of(truth: Mapping[str, Any]) -> Iterator[Step]:
    """The steps of a truth that tell rule and offsets of their records."""
    for number, step in enumerate(truth.get("steps") or ()):
        told = step.get("result") if isinstance(step, dict) and isinstance(step.get("result"), dict) else step
        if not isinstance(told, dict) or "rule" not in told or not isinstance(told.get("offsets"), dict):
            continue
        sent = sum(len(offsets) for offsets in told["offsets"].values())
        ended = next((word == "commit" for word in step.get("args") or () if word in ("commit", "abort")), None)
        yield Step(f"step {number} {step['op']}", records_of_step(told["rule"], sent), told["offsets"], ended)


def of_steps(truth: Mapping[str, Any], records: Records) -> Iterator[Finding]:
    """What the steps of a truth tell of records."""
    for step in steps_of(truth):
        places = {_place(name, offset) for name, offsets in step.offsets.items() for offset in offsets}
        rows = [
            row
            for topic in {topic for topic, _, _ in places}
            for row in records.taken(topic)
            if (topic, row["partition"], row["offset"]) in places
        ]
        matched, _, told = _matched(step.made, rows)
        yield f"{step.what}: records by its rule ({told})", len(step.made), matched, ""
        if step.committed is not None:
            ends = Counter(records.transactions.outcome(row) for row in rows)
            word = "committed" if step.committed else "aborted"
            yield f"{step.what}: records {word}", len(step.made), ends[step.committed], ""
    for number, step in enumerate(truth.get("steps") or ()):
        told = step.get("result") if isinstance(step, dict) else None
        if isinstance(told, dict) and isinstance(told.get("firstRecords_keyHex"), dict):
            yield from _first_records(f"step {number}", told["firstRecords_keyHex"], records)


def _place(name: str, offset: int) -> tuple[str, int, int]:
    topic, _, partition = name.rpartition("-")
    return topic, int(partition), offset


def _first_records(what: str, told: Mapping[str, str], records: Records) -> Iterator[Finding]:
    """``topic-partition@offset`` -> ``key in hex -> N bytes``, or ``null``."""
    seen = 0
    for place, text in told.items():
        name, _, offset = place.rpartition("@")
        topic, partition, _ = _place(name, 0)
        row = records.given[topic].get((partition, int(offset)))
        key, _, size = text.partition(" -> ")
        if row is not None and (row["key"] or b"").hex() == key:
            seen += size == ("null" if row["value"] is None else f"{row['value_size']} bytes")
    yield f"{what}: keys and sizes of records", len(told), seen, ""
