"""Logs of NSQ clients that were steered step by step, compared with the messages of their connections.

A log has an entry for each write (its first 200 characters and its length) and for each frame that came.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from truth_nsq_rows import Finding, Loss, Row, Seen, error_text, is_delivery

LEFT: Final = "the client left before it came"
NAMED_ONLY: Final = "the session speaks HTTP on purpose: named, not decoded"


def check_sessions(truth: dict[str, Any], seen: Seen) -> Iterator[Finding]:
    """Connections that were steered step by step: every frame in order, every command in order, all bytes."""
    for session in truth["steps"]:
        if not isinstance(session, dict) or "client_port" not in session:
            continue
        rows, log = seen.of_port(session["client_port"]), session["log"]
        decrypted = any(row["tls_keys"] == "used" for row in seen.connections)
        name, clear = session["connection"], log if decrypted else before_tls(log)
        note = NAMED_ONLY if session["client_port"] in seen.foreign_ports else ""
        if any(unread(session, seen)):
            note = LEFT
        wanted = [said for entry in clear if (said := logged(entry)) is not None]
        got = [heard(row) for row in rows if row["side"] == "server"]
        yield f"{name}: frames from the server", wanted, got, note
        sent = list(spoken(clear))
        did = [row["name"].removeprefix("unknown(").removesuffix(")") for row in rows if row["side"] == "client"]
        yield f"{name}: commands", sent, did[: len(sent)], ""
        if before_tls(log) == log:
            yield from check_size(name, log, session["client_port"], seen)


def unread(session: Row, seen: Seen) -> Iterator[str]:
    """Errors that came to a session after everything that it waited for."""
    log = session["log"]
    if any("closed" in entry or "upgrade" in entry for entry in log):
        return
    waited_for = sum(logged(entry) is not None for entry in log)
    rows = [row for row in seen.of_port(session["client_port"]) if row["side"] == "server"]
    yield from (error_text(row["body"]) for row in rows[waited_for:] if row["name"] == "ERROR")


def before_tls(log: list[Row]) -> list[Row]:
    """The part of a session's log that is not encrypted."""
    return log[: next((index for index, entry in enumerate(log) if "upgrade" in entry), None)]


def check_size(name: str, log: list[Row], client_port: int, seen: Seen) -> Iterator[Finding]:
    """All bytes that a client handed to its socket are in its stream."""
    size = sum(entry.get("len", 0) for entry in log)
    found = [row["client_bytes"] for row in seen.connections if row["client_port"] == client_port]
    yield f"{name}: bytes sent", [size], found, "reset while sending: some never left" if reset(log) else ""


def reset(log: list[Row]) -> bool:
    """Whether the server cut the client short."""
    return any(str(entry.get("closed", "")).startswith("reset") for entry in log)


def logged(entry: Row) -> Any:
    """A frame that a session got, in the form of ``heard``; None for other entries of its log."""
    for key in ("response", "reply"):
        if key in entry:
            text: str = entry[key]
            return json.loads(text) if text.startswith("{") else text
    if "message" in entry:
        message = entry["message"]
        return (message["id"], message["attempts"], message["timestamp"], message["len"])
    return entry.get("error")


def heard(row: Row) -> Any:
    """A frame of the server as a session would log it."""
    body = row["body"]
    match row["name"]:
        case "ERROR":
            return error_text(body)
        case "HEARTBEAT":
            return "_heartbeat_"
        case "MESSAGE":
            return (body["message_id"], body["attempts"], body["timestamp"], body["body"]["size"])
    return plain(body["data"]) if set(body) == {"data"} else body


def plain(value: Any) -> Any:
    """Bytes as text."""
    return value.decode() if isinstance(value, bytes) else value


def spoken(log: list[Row]) -> Iterator[str]:
    """Words of the commands that a session sent, up to the first that nobody can read on from.

    The log keeps the first 200 characters of each write; what was cut is filled up, since only sizes matter there.
    """
    sent = b"".join(e["send"].encode("latin1").ljust(e["len"], b"?")[: e["len"]] for e in log if "send" in e)
    if sent[:4] not in (b"  V1", b"  V2"):
        return
    lookupd = sent[:4] == b"  V1"
    yield "MAGIC"
    at = 4
    while (end := sent.find(b"\n", at)) >= 0 and end - at < 16_384:
        word, _, rest = sent[at:end].rstrip(b"\r").partition(b" ")
        at = end + 1
        if word in (b"IDENTIFY", b"AUTH", b"PUB", b"DPUB", b"MPUB") and not (lookupd and word != b"IDENTIFY"):
            size = int.from_bytes(sent[at : at + 4], "big", signed=True)
            if size <= 0 or at + 4 + size > len(sent) or (word == b"AUTH" and rest):
                return
            if b'"tls_v1": true' in sent[at : at + 4 + size]:
                yield word.decode()
                return
            at += 4 + size
        yield b" ".join([word, rest]).decode("latin1").strip() if not word.isalpha() else word.decode()


def check_single(truth: dict[str, Any], seen: Seen, loss: Loss) -> Iterator[Finding]:
    """A capture of one connection with a count of its commands, the answer to IDENTIFY and the start of its log."""
    if "commands" in truth and not loss.midstream:
        found = Counter(row["name"] for row in seen.messages if row["side"] == "client")
        for name, count in truth["commands"].items():
            number = found["MAGIC" if name == "magic" else name]
            yield f"{name} sent", count, number, loss.note(count, number, 20)
    if "identify_reply" in truth and not loss.midstream:
        answers = [row["body"] for row in seen.messages if row["name"] == "RESPONSE" and "max_rdy_count" in row["body"]]
        yield "answer to IDENTIFY", truth["identify_reply"], answers[0] if answers else None, ""
    if "log_first_80" in truth and not loss.midstream and not loss.tls:
        wanted = [said for entry in truth["log_first_80"] if (said := logged(entry)) is not None]
        got = [heard(row) for row in seen.messages if row["side"] == "server"]
        yield "first frames of its log", wanted, got[: len(wanted)], ""
    if "deliveries_attempts_gt1" in truth and not loss.midstream:
        again = sum((row["attempts"] or 0) > 1 for row in seen.records if is_delivery(row))
        wished = truth["deliveries_attempts_gt1"]
        yield "deliveries again", wished, again, loss.note(wished, again, 100)
    if "max_attempts_by_id" in truth:
        most: dict[str, int] = {}
        for row in seen.records:
            if is_delivery(row):
                most[row["message_id"]] = max(most.get(row["message_id"], 0), row["attempts"])
        yield "attempts by message", truth["max_attempts_by_id"], most, ""
