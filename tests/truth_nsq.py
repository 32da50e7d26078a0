"""Truth of NSQ captures: what producers, consumers and raw sessions logged, compared with the rows.

1. ``topics`` counts what nsqd took and what each channel was given; bodies follow a rule, so they are made anew here.
2. A raw session logged every byte string that it sent and every frame that it got, by client port: its commands are
   read a second time by a few lines of our own (``truth_nsq_sessions.spoken``), which know nothing of the dissector.
3. What cannot agree has a reason that the truth itself gives: packets taken out, bytes cut by the snap length, a stream
   joined in the middle, TLS. Each of them allows only what it can have caused.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from truth_nsq_bodies import bodies_of
from truth_nsq_rows import Finding, Loss, Row, Seen, is_delivery
from truth_nsq_sessions import LEFT, check_sessions, check_single, plain, unread

from mqsniff.model import Secret
from mqsniff.tables.values import Redaction


def check(truth: dict[str, Any], rows: Iterable[Row]) -> list[Finding]:
    """Compare everything that the truth of a capture tells."""
    seen = Seen(rows)
    loss = Loss(truth, seen)
    return [
        *check_connections(truth, seen, loss),
        *check_topics(truth, seen, loss),
        *check_producer(truth, seen, loss),
        *check_listed(truth, seen, loss),
        *check_sessions(truth, seen),
        *check_single(truth, seen, loss),
        *check_lookupd(truth, seen),
        *check_errors(truth, seen, loss),
        *check_secrets(truth, seen),
    ]


def check_connections(truth: dict[str, Any], seen: Seen, loss: Loss) -> Iterator[Finding]:
    """Which protocols the ports speak, how many connections there are, whose software it is."""
    for protocol, ports in (
        ("nsq", truth["nsqd_tcp_ports"]),
        ("nsqlookupd", truth["lookupd_tcp_ports"]),
        ("http", truth["http_ports"]),
        ("http", truth["foreign_ports"]),
    ):
        found = {row["protocol"] for row in seen.connections if row["server_port"] in ports and spoke(row)}
        if found:
            yield f"protocol on {', '.join(map(str, ports))}", {protocol}, found, strangers(truth, found, loss)
    if isinstance(count := truth.get("connections"), int):
        found = sum(row["server_port"] in truth["nsqd_tcp_ports"] for row in seen.connections)
        yield "connections to nsqd", count, found, ""
    if loss.tls:
        dark = [row for row in seen.connections if row["tls_keys"] in ("missing", "wrong")]
        yield "bytes inside TLS are counted", True, all(row["undecoded_bytes"] for row in dark), ""
    versions = {f"{broker['name']} {broker['version']}" for broker in truth["brokers"]}
    said = {row["server_software"] for row in seen.connections if row["server_software"]}
    if said:
        yield "server software", True, said <= versions, ""


def spoke(row: Row) -> bool:
    """Whether a client sent something."""
    return bool(row["client_bytes"])


def strangers(truth: dict[str, Any], found: set[str], loss: Loss) -> str:
    """Why a port may have connections of another kind."""
    if truth["capture"] == "nsq-1.3.0-raw-errors":
        return "two sessions speak HTTP and nsqlookupd's protocol to nsqd on purpose"
    if truth["capture"] == "nsqlookupd-1.3.0-raw":
        return "one session speaks HTTP to nsqlookupd on purpose"
    if loss.midstream and found <= {"tls", "unknown"}:
        return "joined in the middle of a stream that is encrypted or compressed"
    return ""


def check_topics(truth: dict[str, Any], seen: Seen, loss: Loss) -> Iterator[Finding]:
    """Messages published and consumed, by topic and channel, with their bodies."""
    before = re.search(r"messages 0\.\.(\d+) were handled before", truth.get("notes", ""))
    begin = int(before[1]) + 1 if before else 0
    one_producer = len(truth.get("commands_sent_by_producer", [])) < 2
    for topic, told in truth["topics"].items():
        if "published_on_second_nsqd" in told:
            found = len(seen.produced(topic, truth["nsqd_tcp_ports"][1]))
            yield f"{topic}: published to the second nsqd", told["published_on_second_nsqd"], found, ""
            continue
        number = told.get("published_over_tcp", told["published"])
        size = told.get("body_size", 0)
        produced = seen.produced(topic)
        yield f"{topic}: published", number, len(produced), loss.note(number, len(produced), size)
        wanted = bodies_of(topic, told, told.get("first_i", begin) if one_producer else begin)
        if wanted is not None:
            yield from check_bodies(f"{topic}: published bodies", wanted, [r["value"] for r in produced], loss)
        for channel, consumed in told.get("consumed", {}).items():
            yield from check_channel(topic, channel, consumed, wanted, seen, loss, told.get("published_over_http", 0))


def check_bodies(what: str, wanted: Counter[bytes], found: list[bytes], loss: Loss) -> Iterator[Finding]:
    """Each body once, as the rule makes it; of cut bodies their beginning."""
    if loss.cut:
        starts = all(any(body.startswith(part) for body in wanted) for part in set(found))
        yield f"{what} that begin as no rule says", 0, int(not starts), ""
        return
    strange = sum((Counter(found) - wanted).values())
    yield f"{what} that no rule made", 0, strange, ""
    there = sum((wanted & Counter(found)).values())
    yield f"{what} by the rule", wanted.total(), there, loss.note(wanted.total(), there, len(next(iter(wanted), b"")))


def check_channel(  # noqa: PLR0917  # a chore of plain functions
    topic: str, channel: str, told: Any, wanted: Counter[bytes] | None, seen: Seen, loss: Loss, over_http: int
) -> Iterator[Finding]:
    """Deliveries of a channel, what was done with them, on how many connections.

    Messages that came ``over_http`` are delivered too; their bodies follow no rule.
    """
    match told:
        case list():
            told = {key: sum(each[key] for each in told) for key in ("deliveries", "finished", "requeued", "touched")}
        case int():
            told = {"deliveries": told}
        case str():
            told = {"deliveries": wanted.total() if wanted else 0}
    records = [r for r in seen.records if is_delivery(r)] if loss.midstream else seen.delivered(topic, channel)
    what = f"{topic}/{channel}"
    size = max((row["value_size"] or 0 for row in records), default=0)
    if "deliveries" in told:
        found = len(records)
        yield f"{what}: deliveries", told["deliveries"], found, loss.note(told["deliveries"], found, size)
    for key, command in (("finished", "FIN"), ("requeued", "REQ"), ("touched", "TOUCH")):
        if key in told:
            found = seen.commands(command, None if loss.midstream else (topic,), None if loss.midstream else channel)
            yield f"{what}: {key}", told[key], found, loss.note(told[key], found, 21)
    if "connections" in told and not loss.tls:
        found = len({row["connection_id"] for row in seen.connections if row["group"] == channel})
        yield f"{what}: connections", max(told["connections"], loss.brokers), found, ""
    if wanted is not None and not loss.tls:
        whole = {row["value"] for row in records if len(row["value"]) == row["value_size"]}
        yield f"{what}: other bodies than the published ones", over_http, len(whole - set(wanted)), ""


def check_producer(truth: dict[str, Any], seen: Seen, loss: Loss) -> Iterator[Finding]:
    """Commands that producers counted, and what each consumer got."""
    wanted: Counter[str] = Counter()
    for commands in truth.get("commands_sent_by_producer", []):
        wanted.update(commands)
    topics = set(truth["topics"])
    for name, count in wanted.items():
        found = sum(row["name"] == name and bool(topics & set(row["topics"] or ())) for row in seen.messages)
        yield f"{name} sent", count, found, loss.note(count, found, 1000)
    if "per_consumer" in truth:
        expected = Counter((each["channel"], each["deliveries"]) for each in truth["per_consumer"])
        counts = Counter((r["group"], r["connection_id"]) for r in seen.records if is_delivery(r))
        yield "deliveries by consumer", expected, Counter((group, n) for (group, _), n in counts.items()), ""
    features = truth.get("features_asked")
    if features is not None:
        asked = Counter(name for row in seen.messages if row["name"] == "IDENTIFY" for name in asked_for(row["body"]))
        for name in ("snappy", "deflate"):
            wished = 2 if name in features and "-tls" not in features else 0
            yield f"IDENTIFY asks for {name}", wished, asked[name], ""


def asked_for(body: Row) -> Iterator[str]:
    """Transports that an IDENTIFY asks for."""
    return (name for name in ("snappy", "deflate", "tls_v1") if body.get(name))


def check_listed(truth: dict[str, Any], seen: Seen, loss: Loss) -> Iterator[Finding]:
    """Deliveries that a consumer listed one by one: id, attempt, time stamp, length, start of the body, what it did."""
    listed = truth.get("messages_seen", [])
    if not listed or loss.tls:
        return
    delivered = [row for row in seen.records if is_delivery(row)]
    found = Counter((r["message_id"], r["attempts"], r["record_ts"], r["value_size"]) for r in delivered)
    wanted = Counter((m["id"], m["attempts"], int(m["timestamp"]), m["len"]) for m in listed)
    missing = sum((wanted - found).values())
    yield "listed deliveries missing in the rows", 0, missing, loss.note(missing, 0, listed[0]["len"])
    values = {(row["message_id"], row["attempts"]): row["value"] for row in delivered}
    starts = [(values.get((m["id"], m["attempts"])), start_of(m["start"])) for m in listed]
    strange = sum(not (value or b"").startswith(start[: len(value or b"")]) for value, start in starts if start)
    yield "listed deliveries with another body", 0, strange, ""
    yield from check_actions([m for m in listed if "action" in m], seen, loss)


def start_of(text: str) -> bytes:
    """The start of a body as a client printed it: as it is, or quoted by Python or Go; empty where that loses bytes."""
    if text.startswith("b'"):
        literal: bytes = ast.literal_eval(text)
        return literal
    if text.startswith('"'):
        text = "" if "\\" in text else text[1:-1]
    return text.encode()


def check_actions(listed: list[Row], seen: Seen, loss: Loss) -> Iterator[Finding]:
    """What consumers did with each delivery: the settlement of that delivery says the same.

    The clients' logs name a TOUCH only where FIN follows.
    """
    ids = {(row["connection_id"], row["stream_offset"]): row["message_id"] for row in seen.records if is_delivery(row)}
    did: Counter[tuple[str | None, int, str]] = Counter()
    for row in seen.exchanges:
        if row["link"] == "settlement":
            touches = row["touches"] if row["settled_by"] == "FIN" else 0
            action = ",".join([*["TOUCH"] * touches, *filter(None, [row["settled_by"]])])
            did[ids.get((row["connection_id"], row["stream_offset"])), row["attempts"], action] += 1
    wanted = Counter((m["id"], m["attempts"], m["action"].removesuffix("(backoff)")) for m in listed)
    missing = sum((wanted - did).values())
    if listed:
        yield "listed deliveries with another settlement", 0, missing, loss.note(missing, 0)


def check_lookupd(truth: dict[str, Any], seen: Seen) -> Iterator[Finding]:
    """What nsqd registered with nsqlookupd; a topic comes and goes with its channels."""
    for key, command in (("registered", "REGISTER"), ("unregistered", "UNREGISTER")):
        if key not in truth:
            continue
        topics = truth["registered"]
        told = set(topics) if key == "registered" else set(truth[key])
        told |= {f"{topic} {channel}" for topic in told & set(topics) for channel in topics[topic]}
        found = {
            " ".join(filter(None, (plain(row["body"].get("topic")), plain(row["body"].get("channel")))))
            for row in seen.messages
            if (row["protocol"], row["name"]) == ("nsqlookupd", command)
        }
        yield key, told, found, ""
    if "lookupd_commands_expected" in truth:
        greetings = sum((row["protocol"], row["name"]) == ("nsqlookupd", "IDENTIFY") for row in seen.messages)
        yield "IDENTIFY to nsqlookupd", 2, greetings, ""


def check_errors(truth: dict[str, Any], seen: Seen, loss: Loss) -> Iterator[Finding]:
    """Errors as the clients got them."""
    told = Counter(error if isinstance(error, str) else error["error"] for error in truth["errors"])
    found = seen.errors()
    missing, more = told - found, found - told
    note = loss.note(told.total(), (told & found).total()) or why_hidden(missing, truth, seen)
    yield "errors missing in the rows", 0, missing.total(), note
    yield "errors that no client told of", 0, more.total(), why_more(more, truth, seen) if more else ""


def why_hidden(missing: Counter[str], truth: dict[str, Any], seen: Seen) -> str:
    """Why rows may lack errors: they came after a session had changed to TLS, or the session is none of ours."""
    hidden: Counter[str] = Counter()
    for step in truth["steps"]:
        if isinstance(step, dict):
            encrypted = any("upgrade" in entry for entry in step["log"])
            if encrypted or step.get("client_port") in seen.foreign_ports:
                hidden.update(error for e in step["log"] for error in (e.get("error"), e.get("reply")) if error)
    return "inside TLS, or in a session that speaks HTTP" if missing and not missing - hidden else ""


def why_more(more: Counter[str], truth: dict[str, Any], seen: Seen) -> str:
    """Why a capture may hold errors that its client did not report."""
    sessions = [step for step in truth["steps"] if isinstance(step, dict) and "client_port" in step]
    if not more - Counter(error for session in sessions for error in unread(session, seen)):
        return LEFT
    if "errors_note" in truth and all(text.startswith("E_FIN_FAILED") for text in more):
        return "go-nsq's log is incomplete: one for each late FIN"
    if any(client["library"] == "nsqjs" for client in truth["clients"]) and set(more) == {
        "E_INVALID cannot CLS in current state"
    }:
        return "nsqjs's writer says CLS without SUB, and does not report the error"
    return ""


def check_secrets(truth: dict[str, Any], seen: Seen) -> Iterator[Finding]:
    """Secrets of AUTH stand in no row."""
    if "secrets" not in truth:
        return
    shown = b"\n".join(Redaction().json(row) for row in seen.rows)
    leaked = sum(secret.encode() in shown for secret in truth["secrets"])
    yield "secrets in the rows", 0, leaked, ""
    hidden = {bytes(row["body"]["secret"].data).decode() for row in seen.messages if is_auth(row)}
    if hidden:
        yield "secrets that were redacted", True, set(truth["secrets"]) <= hidden, ""


def is_auth(row: Row) -> bool:
    """Whether a message holds a redacted secret."""
    return row["name"] == "AUTH" and isinstance(row["body"].get("secret"), Secret)
