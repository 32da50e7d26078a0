"""Truth of Pulsar captures: what the clients' logs say was sent, delivered, refused and looked up, against the rows.

1. Everything that the log tells must be found; rows may tell more (prefetched messages, system topics, the broker as
   its own client).
2. A record is compared by value, place (ledger, entry, batch index), key, properties, ordering key, event time and
   sequence id, as far as the log tells them and the tables have a column. Go's client numbers partitions from 0 where
   brokers say -1, so the partition is left out; of chunked messages the row of the joined message is meant.
3. What a client found out by itself stands in no row; such differences carry a note.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import Any, Final

Row = dict[str, Any]
Found = tuple[str, Any, Any, str]

CLIENT_SIDE: Final = {
    "AlreadyClosed": "the client says so itself",
    "InvalidConfiguration": "the client refuses it itself",
    "InvalidMessageException": "the client refuses it itself",
    "InvalidTxnStatusException": "the client knows the state of its transaction",
    "PulsarClientException": "the client says so itself",
    "Timeout": "the client gave up waiting",
    "TimeoutException": "the client gave up waiting",
}
"""Errors of the log that no command tells."""

SPOKEN: Final = {
    "BrokerMetadataError": "MetadataError",
    "TopicDoesNotExistException": "TopicNotFound",
    "TopicTerminated": "TopicTerminatedError",
    "TransactionConflictException": "TransactionConflict",
}
"""Names that clients give to errors of brokers, where they are not the broker's name with Exception after it."""

RULE: Final = re.compile(r"\('(?P<text>.*)' % i\)\s*\*\s*\(?(?P<times>\d+)(?P<more>\+i)?\)?")
"""How the log tells many values at once, i counting from 0."""
PLACED: Final = re.compile(r"(?P<value>.*) @ (?P<id>-?\d+:-?\d+(?::-?\d+){0,2})\Z", re.DOTALL)
IN_TXN: Final = re.compile(
    r"(?:\(\d+,\d+\) )?(?P<value>.*?)(?: @ (?P<id>[-0-9:]+)| (?:true|false|committed|aborted))\Z", re.DOTALL
)
CUT: Final = ("UNCERTAIN", "END OF CAPTURE MISSING")


def check(truth: dict[str, Any], rows: Iterable[Row]) -> list[Found]:
    """Compare everything that the log of a capture tells."""
    tables: dict[str, list[Row]] = {}
    for row in rows:
        tables.setdefault(row["table"], []).append(row)
    found = [*_connections(truth, tables), *_soundness(tables)]
    if _is_dark(truth, tables):
        return found
    records = [row for row in tables.get("records", ()) if not row["control"]]
    note = _cut_note(truth)
    for topic, told in _topics(truth):
        found += _produced(topic, told, records, note)
        found += _consumed(topic, told, records, note)
    found += _errors(truth, tables.get("messages", []))
    found += _answers(truth, tables.get("messages", []))
    return found


def _is_dark(truth: dict[str, Any], tables: dict[str, list[Row]]) -> bool:
    """Whether there is TLS, and no keys for it."""
    return "tls" in truth and all(row["tls_keys"] != "used" for row in tables.get("connections", []))


def _cut_note(truth: dict[str, Any]) -> str:
    """Why something may be missing from the capture."""
    if "script_error" in truth:
        return "the script stopped before its end"
    verdict = str(truth.get("tail_check", {}).get("verdict", ""))
    return "the end of the capture may be missing" if verdict.startswith(CUT) else ""


def _topics(truth: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for topic, told in truth.get("topics", {}).items():
        if isinstance(told, dict):
            yield topic, told


# ---- connections, and what must hold for every capture


def _connections(truth: dict[str, Any], tables: dict[str, list[Row]]) -> Iterator[Found]:
    connections = tables.get("connections", [])
    ports = truth["port"] if isinstance(truth["port"], list) else [truth["port"]]
    if _is_dark(truth, tables):
        named = {row["protocol"] for row in connections if row["server_port"] in ports}
        yield "protocol on the TLS port", {"tls"}, named, ""
        return
    spoken = [row for row in connections if row["protocol"] == "pulsar" and row["handshake_seen"]]
    version = truth["broker"]["version"]
    servers = {row["server_software"] for row in spoken if row["server_software"]}
    if servers:
        yield "broker version", True, all(version in server for server in servers), ""
    if "proxy_header_hex" in truth:
        _, _, source, _, port, _ = bytes.fromhex(truth["proxy_header_hex"]).decode().split()
        yield "PROXY head", True, f"{source}:{port}" in {row["proxy_client"] for row in connections}, ""
    if "token_subject" in truth:
        yield "subject of the token", True, truth["token_subject"] in {row["user"] for row in connections}, ""


def _soundness(tables: dict[str, list[Row]]) -> Iterator[Found]:
    """No checksum is wrong, nothing is malformed, and no byte of a Pulsar connection stays undecoded but for gaps."""
    kinds = Counter(row["kind"] for row in tables.get("problems", ()) if row["protocol"] == "pulsar")
    yield "checksums that do not fit", 0, kinds["checksum"], ""
    yield "records with a checksum that does not fit", 0, _wrong_checksums(tables), ""
    yield "malformed, codec and format problems", 0, kinds["malformed"] + kinds["codec"] + kinds["format"], ""
    connections = [row for row in tables.get("connections", ()) if row["protocol"] == "pulsar"]
    undecoded = sum(row["undecoded_bytes"] for row in connections)
    gaps = sum(row["gap_bytes"] for row in connections)
    yield "undecoded bytes", 0, undecoded, "after a gap of the capture" if gaps else ""


def _wrong_checksums(tables: dict[str, list[Row]]) -> int:
    return sum(row["checksum_ok"] is False for row in tables.get("records", ()))


# ---- records


def _place(message_id: Any) -> tuple[str, ...]:
    """Ledger, entry and, where it is told, batch index of a message id as rows, C++, Java and Go tell it."""
    if isinstance(message_id, dict):
        ledger, entry, index = message_id["ledger"], message_id["entry"], message_id["batch_index"]
        return (str(ledger), str(entry)) if index < 0 else (str(ledger), str(entry), str(index))
    parts = str(message_id).split(":")
    return tuple(parts[:2] + parts[3:4])


def _sent(told: dict[str, Any]) -> list[dict[str, Any]]:
    """Records that a topic's log tells, each as the columns that it tells."""
    sent = [_sent_one(one) for one in told.get("produced", ())]
    for line in told.get("produced_in_txn", ()):
        parts = IN_TXN.match(line)
        assert parts is not None
        sent.append({"value": parts["value"]} | ({"place": _place(parts["id"])} if parts["id"] else {}))
    if "ids" in told:
        sent += [{"place": _place(place)} for place in told["ids"]]
    rule = RULE.fullmatch(told.get("value_rule", ""))
    for i, one in enumerate(sent[: told["count"]] if rule and "ids" in told else ()):
        one["value"] = _by_rule(rule, i)
    if rule and "ids" not in told:
        sent += [{"value": _by_rule(rule, i)} for i in range(told["count"])]
    if isinstance(told.get("big"), dict):
        sent.append(_sent_one(told["big"]))
    return [one for one in sent if one]


def _by_rule(rule: re.Match[str], i: int) -> str:
    return (rule["text"] % i) * (int(rule["times"]) + (i if rule["more"] else 0))


def _sent_one(one: Any) -> dict[str, Any]:
    if isinstance(one, str):
        placed = PLACED.match(one)
        if placed is None:
            return {} if "{" in one else {"value": one}
        spoken = placed["value"]
        return {"place": _place(placed["id"])} | ({} if spoken in ("batch", "chunked") else {"value": spoken})
    columns: dict[str, Any] = {}
    for name in ("value", "sha256", "properties", "ordering_key", "codec"):
        if one.get(name) is not None and one[name] != {}:
            columns[name] = one[name]
    for name, column in (("key", "key"), ("partition_key", "key"), ("sequence_id", "sequence")):
        if one.get(name) is not None:
            columns[column] = one[name]
    if "event_timestamp" in one:
        columns["record_ts"] = one["event_timestamp"] * 1_000_000
    if one.get("id") is not None:
        columns["place"] = _place(one["id"])
    if "redelivery_count" in one:
        columns["attempts"] = one["redelivery_count"] + 1
    return columns


def _as_told(row: Row, names: dict[str, Any]) -> dict[str, Any]:
    """A row of ``records`` in the terms in which a log tells a record."""
    told: dict[str, Any] = {}
    for name in names:
        if name == "place":
            told[name] = _place(row["message_id"])[: len(names[name])]
        elif name == "sha256":
            told[name] = sha256(row["value"] or b"").hexdigest()
        elif name == "properties":
            told[name] = {pair["key"]: pair["value"].decode() for pair in row["headers"] or ()}
        else:
            value = row.get(name)
            told[name] = value.decode(errors="replace") if isinstance(value, bytes) else value
    return told


def _missing(expected: list[dict[str, Any]], rows: list[Row]) -> list[dict[str, Any]]:
    """Expected records that no row shows; each row is used once."""
    left = list(rows)
    missing = []
    columns = {"place", "sha256", "properties", *(rows[0] if rows else ())}
    for told in expected:
        one = {name: value for name, value in told.items() if name in columns}
        match = next((row for row in left if _as_told(row, one) == one), None)
        if match is None:
            missing.append(told)
        else:
            left.remove(match)
    return missing


def _produced(topic: str, told: dict[str, Any], records: list[Row], note: str) -> Iterator[Found]:
    sent = _sent(told)
    if not sent:
        return
    rows = [row for row in records if row["direction"] == "produce" and _is_of(row, topic)]
    if not rows and any(row["topic"] is None for row in records):
        rows = [row for row in records if row["direction"] == "produce" and row["topic"] is None]
    whole = [one for one in sent if "codec" not in one]
    yield f"{topic}: {len(whole)} records produced, missing", [], _missing(whole, rows), note
    for one in sent:
        if "codec" in one:
            yield f"{topic}: chunks of a message", *_joined(one, rows)


def _joined(one: dict[str, Any], rows: list[Row]) -> tuple[Any, Any, str]:
    """(expected digest, digest of the message joined where the log says, why it cannot be told)."""
    found = [row["value"] for row in rows if row["joined"] and _place(row["message_id"]) == one["place"]]
    return one["sha256"], sha256(found[0]).hexdigest() if found else None, ""


def _is_of(row: Row, topic: str) -> bool:
    """Whether a row is of a topic, or of a partition or segment of it."""
    bare = topic.removeprefix("topic://").removeprefix("persistent://")
    return row["topic"] is not None and bare in row["topic"]


def _consumed(topic: str, told: dict[str, Any], records: list[Row], note: str) -> Iterator[Found]:
    delivered = [row for row in records if row["direction"] == "deliver"]
    of_topic = [row for row in delivered if _is_of(row, topic)] or [row for row in delivered if row["topic"] is None]
    consumed = told.get("consumed")
    if isinstance(consumed, dict):
        for group, messages in consumed.items():
            rows = [row for row in of_topic if row["group"] in (group, None)] or of_topic
            expected = [_sent_one(one) for one in messages]
            yield f"{topic}: {len(expected)} delivered to {group}, missing", [], _missing(expected, rows), note
    if "deliveries" in told:
        expected = [{"value": value, "attempts": again + 1} for value, again in told["deliveries"]]
        yield f"{topic}: {len(expected)} deliveries, missing", [], _missing(expected, of_topic), note
    if "acked_cumulative" in told:
        place = _place(told["acked_cumulative"])
        yield f"{topic}: acknowledged up to", True, place in {_place(row["message_id"]) for row in of_topic}, note


# ---- errors and answers


def _errors(truth: dict[str, Any], messages: list[Row]) -> Iterator[Found]:
    wire = Counter(row["error_name"] for row in messages if row["error_count"])
    texts = " ".join(str(row["body"].get("message", "")) for row in messages if row["error_count"])
    for error in truth.get("errors", ()):
        name = SPOKEN.get(error["error"], error["error"].removesuffix("Exception"))
        if name.startswith("*"):
            told = next((known for known in wire if known and known in error["text"]), None)
            known = told is not None or error["text"].split(":")[0] in texts
            yield f"error at {error['at']}", True, known, "" if known else "told by the client"
            continue
        seen = name in wire or f"{name}Error" in wire or f"{name}Exception" in wire
        yield f"error at {error['at']}: {name}", True, seen, CLIENT_SIDE.get(error["error"], "")


def _answers(truth: dict[str, Any], messages: list[Row]) -> Iterator[Found]:
    """Single facts of some logs: partitions looked up, the last message, the last sequence id."""
    counts = {
        row["topics"][0]: row["body"].get("partitions")
        for row in messages
        if row["name"] == "PARTITIONED_METADATA_RESPONSE" and row["topics"]
    }
    looked_up = truth.get("partitions")
    for topic, partitions in looked_up.items() if isinstance(looked_up, dict) else ():
        expected = 0 if len(partitions) == 1 and "-partition-" not in partitions[0] else len(partitions)
        yield f"partitions of {topic}", expected, counts.get(f"persistent://public/default/{topic}"), ""
    if "last_message_id" in truth:
        ids = [row["body"]["last_message_id"] for row in messages if row["name"] == "GET_LAST_MESSAGE_ID_RESPONSE"]
        told = truth["last_message_id"]
        yield (
            "last message id",
            True,
            (told["ledger"], told["entry"]) in {(i["ledger_id"], i["entry_id"]) for i in ids},
            "",
        )
    if "last_sequence_id_on_reopen" in truth:
        reopened = {row["body"].get("last_sequence_id") for row in messages if row["name"] == "PRODUCER_SUCCESS"}
        yield "last sequence id on reopening", True, truth["last_sequence_id_on_reopen"] in reopened, ""
