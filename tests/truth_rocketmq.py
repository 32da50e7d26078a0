"""Truth of RocketMQ captures: what client programs printed of their calls, compared with the rows.

1. A step is one program; its events tell what it sent, received, asked for and was refused. Bodies follow a rule, so
   they are made anew here; ids, queues and offsets are the client library's own.
2. Each comparison looks a row up by what the client knew (its own message id, an opaque, a queue) and then compares
   what the broker added, so that a row that is missing differs as much as one that is wrong.
3. What cannot agree has a reason that the capture itself gives: TLS, the snap length, packets that were taken away.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from truth_rocketmq_admin import check_printed

Row = dict[str, Any]
Event = dict[str, Any]
Finding = tuple[str, Any, Any, str]

POPS: Final = ("POP_MESSAGE", "POP_LITE_MESSAGE")
CLIENT_CODES: Final = range(10_000, 11_000)
"""Error codes that the client library makes up itself."""
OUTCOMES: Final = {
    "COMMIT_MESSAGE": "COMMIT",
    "ROLLBACK_MESSAGE": "ROLLBACK",
    "COMMIT": "COMMIT",
    "UNKNOW": "UNKNOWN",
    1: "COMMIT",
    2: "ROLLBACK",
    3: "UNKNOWN",
}
"""State of a local transaction, in Java's and in Go's words -> what it settles as."""


def body_of(producer: Event, index: int) -> bytes:
    """The body of message ``index`` by the rule that the producer printed."""
    prefix, size = producer["prefix"], producer.get("size") or 0
    if not size:
        return f"{prefix}-{index}".encode()
    filler = f"The quick brown fox {index} jumps over the lazy dog. "
    return (f"{prefix}-{index}-" + filler * (1 + size // len(filler))).encode()[:size]


class Seen:
    """The rows of a capture, sorted for questions."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self.of: dict[str, list[Row]] = defaultdict(list)
        for row in rows:
            self.of[row["table"]].append(row)
        self.messages, self.records = self.of["messages"], self.of["records"]
        self.exchanges, self.partitions = self.of["exchanges"], self.of["partitions"]
        self.by_key: dict[tuple[str, str], list[Row]] = defaultdict(list)
        for row in self.records:
            for name in {row["unique_key"], row["message_id"]} - {None}:
                self.by_key[row["direction"], name].append(row)
        self.message_at = {_place(row): row for row in self.messages}
        self.dark = any(row["protocol"] == "tls" for row in self.of["connections"])
        self.cut = any(row["gap_bytes"] for row in self.of["connections"])

    @property
    def reason(self) -> str:
        """Why something may be missing; empty where nothing explains it."""
        if self.dark:
            return "inside TLS, which is named and counted here, not decrypted"
        return "cut by the snap length" if self.cut else ""

    def records_of(self, direction: str, name: str | None) -> list[Row]:
        """Records with this unique key or message id."""
        return self.by_key.get((direction, name or ""), [])

    def settled(self, *names: str) -> list[tuple[Row, str]]:
        """(message that was settled, by what) of settlements of messages with these names."""
        rows = (row for row in self.exchanges if row["link"] == "settlement" and row["name"] in names)
        return [(self.message_at[_place(row)], row["settled_by"]) for row in rows]

    def settled_by(self, name: str) -> int:
        """How many settlements a command brought about."""
        return sum(row["link"] == "settlement" and row["settled_by"] == name for row in self.exchanges)


def _place(row: Row) -> tuple[str, str, int]:
    return row["connection_id"], row["side"], row["stream_offset"]


def ext_of(row: Row) -> Row:
    """The ext fields of a message."""
    return row["body"].get("ext_fields") or {}


def check(truth: dict[str, Any], rows: Iterable[Row]) -> list[Finding]:
    """Compare everything that the truth of a capture tells."""
    seen = Seen(rows)
    findings: list[Finding] = []
    for step in truth["steps"]:
        producer: Event = {}
        for event in step.get("events", ()):
            if event.get("event") == "producer":
                producer = event
            checker = CHECKERS.get(event.get("event") or "")
            if checker is not None:
                findings += checker(event, producer, seen)
        findings += check_step(step, seen)
    return [*findings, *check_whole(truth, seen)]


# ---- sending


def check_sent(event: Event, producer: Event, seen: Seen) -> Iterator[Finding]:
    """One message that the broker took: its ids, queue, offset, body, key."""
    result = event["result"]
    if result.get("status") not in ("SEND_OK", 0):
        return
    named = zip(result["msgId"].split(","), (result["offsetMsgId"] or "").split(","), strict=False)
    for at, (unique, message_id) in enumerate(named):
        # a transaction's client is not told the offset id of its half message; Go prints one for the real message
        wanted: tuple[Any, ...] = (result["queue"], result["queueOffset"] + at, "acked")
        found = [(row["partition"], row["offset"], row["ack"]) for row in seen.records_of("produce", unique)]
        if message_id and event["event"] != "sent-tx":
            wanted = (message_id, *wanted)
            rows = seen.records_of("produce", unique)
            found = [(row["message_id"], *place) for row, place in zip(rows, found, strict=True)]
        yield f"{event['event']} {unique}", wanted, closest(wanted, found), seen.reason
        index = event.get("i", event.get("from", 0)) + at
        if producer.get("prefix") and event["event"] != "sent-reply":
            yield from check_content(unique, producer, index, seen)


def check_content(unique: str, producer: Event, index: int, seen: Seen) -> Iterator[Finding]:
    """Body and key of a message that was sent, by the rules of its producer."""
    body = body_of(producer, index)
    rows = seen.records_of("produce", unique)
    values = [row["value"] or b"" for row in rows if row["value_size"] == len(body)]
    whole = next((value for value in values if body.startswith(value)), None)
    wanted = body if not seen.cut else (whole if whole is not None else body)
    yield f"body of {unique}", wanted, whole, seen.reason
    if producer.get("keyPrefix"):
        key = f"{producer['keyPrefix']}{index}"
        found = {(row["key"] or b"").decode().split(" ")[0] for row in rows}
        yield f"key of {unique}", {key}, found, seen.reason


def check_oneway(event: Event, producer: Event, seen: Seen) -> Iterator[Finding]:
    """A message that was sent without asking for an answer: found by its body."""
    if producer.get("prefix"):
        body = body_of(producer, event["i"])
        found = {row["ack"] for row in seen.records if row["direction"] == "produce" and row["value"] == body}
        yield f"sent-oneway {event['i']}", True, "none" in found, seen.reason


def closest(wanted: Any, found: list[Any]) -> Any:
    """What was wanted where it is among what was found, else something of what was found."""
    return wanted if wanted in found else next(iter(found), None)


# ---- receiving


def check_consumed(event: Event, _producer: Event, seen: Seen) -> Iterator[Finding]:
    """A message that a client was given."""
    wanted = (
        event["queue"],
        event["offset"],
        event["reconsumeTimes"] + 1,
        event["bodySize"],
        event["bodyStart"],
        event["keys"],
        event["tags"],
    )
    start = len(event["bodyStart"].encode())
    found = [
        (
            row["partition"],
            int(headers_of(row).get("INNER_MULTI_QUEUE_OFFSET", row["offset"])),
            row["attempts"],
            row["value_size"],
            (row["value"] or b"")[:start].decode(errors="replace"),
            headers_of(row).get("KEYS"),
            headers_of(row).get("TAGS"),
        )
        for row in seen.records_of("deliver", event["msgId"])
    ]
    if any(name.startswith("INNER_MULTI") for name in event["properties"]):
        wanted = (wanted[0], int(event["properties"]["INNER_MULTI_QUEUE_OFFSET"]), *wanted[2:])
    own_count = (
        event.get("answer") == "SUCCESS" and event["reconsumeTimes"] and not event["topic"].startswith("%RETRY%")
    )
    note = "an orderly consumer counts its own attempts, which the broker never hears of" if own_count else seen.reason
    yield f"consumed {event['msgId']}", wanted, closest(wanted, found), note


def headers_of(row: Row) -> dict[str, str]:
    """Properties of a record as text."""
    return {header["key"]: (header["value"] or b"").decode() for header in row["headers"] or ()}


def check_popped(event: Event, _producer: Event, seen: Seen) -> Iterator[Finding]:
    """The messages of one pop."""
    ids = [
        message["properties"]["UNIQ_KEY"]
        for row in seen.messages
        if row["name"] in POPS and row["kind"] == "response" and ext_of(row).get("pop_time") == event["popTime"]
        for message in row["body"]["body"]["messages"]
    ]
    yield f"popped at {event['popTime']}", sorted(event["msgIds"]), sorted(ids), seen.reason


def check_reply(event: Event, _producer: Event, seen: Seen) -> Iterator[Finding]:
    """A reply that a requester got."""
    wanted = event["reply"].encode()
    found = [row["value"] for row in seen.records if row["direction"] == "deliver"]
    yield f"reply to request {event['i']}", True, wanted in found, seen.reason


def check_recalled(event: Event, _producer: Event, seen: Seen) -> Iterator[Finding]:
    """A timer message that was called back."""
    found = {ext_of(row).get("msg_id") for row in seen.messages if row["name"] == "RECALL_MESSAGE"}
    yield f"recalled {event['msgId']}", True, event["msgId"] in found, seen.reason


# ---- transactions


def check_transaction(event: Event, _producer: Event, seen: Seen) -> Iterator[Finding]:
    """How a half message ended: by its producer, or by the answer to the broker's check."""
    unique = event["result"]["msgId"]
    wanted = OUTCOMES[event.get("localState", event.get("state"))]
    found = [
        outcome or "UNKNOWN"
        for row, outcome in seen.settled("SEND_MESSAGE", "SEND_MESSAGE_V2")
        if (ext_of(row).get("properties") or {}).get("UNIQ_KEY") == unique
    ]
    if wanted == "UNKNOWN" and found and found != ["UNKNOWN"]:
        return  # the check decided; check_checked compares it
    yield f"transaction {unique}", [wanted], found, seen.reason


def check_checked(event: Event, _producer: Event, seen: Seen) -> Iterator[Finding]:
    """What a producer answered to the broker's check."""
    unique = event.get("transactionId") or event["msgId"]
    found = [
        outcome
        for row, outcome in seen.settled("CHECK_TRANSACTION_STATE")
        if unique in (ext_of(row).get("transaction_id"), ext_of(row).get("msg_id"))
    ]
    wanted = OUTCOMES[event["answer"]]
    yield f"check of {unique}", wanted, closest(wanted, found), seen.reason


# ---- calls


def check_invoked(event: Event, _producer: Event, seen: Seen) -> Iterator[Finding]:
    """A request and its response, by opaque."""
    wanted = (event["responseCode"], event["remark"], event["responseBodySize"])
    found = [
        (row["body"]["code"], row["body"].get("remark"), (row["body"].get("body") or {}).get("size", 0))
        for row in seen.messages
        if event["what"].startswith(row["name"])
        and row["kind"] == "response"
        and row["correlation"] == str(event["opaque"])
    ]
    yield f"{event['what']} {event['opaque']}", wanted, closest(wanted, found), seen.reason


def check_error(event: Event, _producer: Event, seen: Seen) -> Iterator[Finding]:
    """An error that came from a broker or name server."""
    error = event.get("error")
    code = error.get("code") if isinstance(error, dict) else None
    if not code or code in CLIENT_CODES or "MQBrokerException" not in error["class"]:
        return
    found = {row["error_code"] for row in seen.messages if row["kind"] == "response"}
    yield f"{event.get('what', event['event'])}: error {code}", True, code in found, seen.reason


def check_offsets(event: Event, _producer: Event, seen: Seen) -> Iterator[Finding]:
    """Ends of a queue."""
    for name, column, wanted in (
        ("GET_MAX_OFFSET", "high_watermark", event["max"]),
        ("GET_MIN_OFFSET", "log_start_offset", event["min"]),
    ):
        found = [row[column] for row in answers_of_queue(seen, name, event["queue"])]
        yield f"{name} of queue {event['queue']}", wanted, closest(wanted, found), seen.reason


def answers_of_queue(seen: Seen, name: str, queue: int) -> Iterator[Row]:
    """Rows of ``partitions`` of responses for a queue."""
    return (row for row in seen.partitions if (row["name"], row["kind"], row["partition"]) == (name, "response", queue))


def check_queue_offset(name: str, kind: str) -> Callable[[Event, Event, Seen], Iterator[Finding]]:
    """A checker of an offset that a queue was asked for, or given."""

    def checker(event: Event, _producer: Event, seen: Seen) -> Iterator[Finding]:
        rows = (row for row in seen.partitions if (row["name"], row["kind"]) in ((name, kind), (name, "oneway")))
        found = [row["offset"] for row in rows if row["partition"] == event["queue"]]
        yield f"{name} of queue {event['queue']}", event["offset"], closest(event["offset"], found), seen.reason

    return checker


def check_member(event: Event, _producer: Event, seen: Seen) -> Iterator[Finding]:
    """A client that says who it is."""
    found = {row["client_id"] for row in seen.messages}
    yield f"client {event['clientId']}", True, event["clientId"] in found, seen.reason


def check_admin(event: Event, _producer: Event, seen: Seen) -> Iterator[Finding]:
    """What an administrator's tool printed."""
    yield from check_printed(event["command"], event.get("output") or "", seen.partitions, seen.reason)


CHECKERS: Final[Mapping[str, Callable[[Event, Event, Seen], Iterable[Finding]]]] = {
    **dict.fromkeys(
        ("sent-sync", "sent-async", "sent-selector", "sent-batch", "sent-lite", "sent-priority", "sent-timer"),
        check_sent,
    ),
    "sent-reply": check_sent,
    "sent-tx": lambda *given: [*check_sent(*given), *check_transaction(*given)],
    "sent-oneway": check_oneway,
    "consumed": check_consumed,
    "popped": check_popped,
    "request-reply": check_reply,
    "request-async-reply": check_reply,
    "recalled": check_recalled,
    "check-transaction": check_checked,
    "raw-invoke": check_invoked,
    **dict.fromkeys(("error", "send-error", "recall-error", "reply-error"), check_error),
    "queue-offsets": check_offsets,
    "search-offset": check_queue_offset("SEARCH_OFFSET_BY_TIMESTAMP", "response"),
    "fetch-offset": check_queue_offset("QUERY_CONSUMER_OFFSET", "response"),
    "update-offset": check_queue_offset("UPDATE_CONSUMER_OFFSET", "request"),
    "mqadmin": check_admin,
    "member-started": check_member,
    "heartbeat": check_member,
}
"""Name of an event -> what compares it."""


# ---- steps and captures


def check_step(step: Row, seen: Seen) -> Iterator[Finding]:
    """Settlements of the messages that a step popped."""
    events = Counter(event.get("event") for event in step.get("events", ()))
    for command, names in (
        ("ACK_MESSAGE", ("ack", "ack-lite")),
        ("CHANGE_MESSAGE_INVISIBLETIME", ("change-invisible-time", "change-invisible-lite")),
    ):
        count = sum(events[name] for name in names)
        if count:
            yield f"settled by {command}", count, seen.settled_by(command), seen.reason
    batch = [event for event in step.get("events", ()) if event.get("event") == "batch-ack"]
    if batch:
        wanted = sum(event["count"] for event in batch)
        yield "settled by BATCH_ACK_MESSAGE", wanted, seen.settled_by("BATCH_ACK_MESSAGE"), seen.reason


def check_whole(truth: dict[str, Any], seen: Seen) -> Iterator[Finding]:
    """What holds for a capture as a whole."""
    yield "protocols", True, {row["protocol"] for row in seen.of["connections"]} <= {"rocketmq", "tls", "unknown"}, ""
    spoken = [row for row in seen.of["connections"] if row["protocol"] == "unknown"]
    yield "bytes of unknown connections", 0, sum(row["client_bytes"] + row["server_bytes"] for row in spoken), ""
    yield "body checksums that are wrong", 0, sum(row["checksum_ok"] is False for row in seen.records), ""
    yield "undecoded bytes", 0, sum(row["undecoded_bytes"] for row in seen.of["connections"]), seen.reason
    errors = Counter((row["kind"], row["detail"]) for row in seen.of["problems"] if row["severity"] == "error")
    yield "problems that are errors", {}, dict(errors), seen.reason
    if "trimmed" in truth or "middle of running" in truth["scenario"]:
        yield from check_run(seen)
    if truth.get("compression"):
        codecs = {row["codec"] for row in seen.records}
        yield "codec", True, truth["compression"].lower() in codecs, seen.reason
    yield "secrets shown", [], shown_secrets(seen), ""


def check_run(seen: Seen) -> Iterator[Finding]:
    """A producer that was running before and after: its numbered bodies leave no number out."""
    numbers = sorted(
        int((row["value"] or b"").rpartition(b"-")[2]) for row in seen.records if row["direction"] == "produce"
    )
    yield "numbered bodies in a row", len(numbers), numbers[-1] - numbers[0] + 1 if numbers else 0, ""


def shown_secrets(seen: Seen) -> list[str]:
    """Names of secret fields whose value stands in a body in clear."""
    names = ("signature", "security_token", "password", "secret_key")
    found: list[str] = []
    stack: list[Any] = [row["body"] for row in seen.messages]
    while stack:
        match stack.pop():
            case dict() as members:
                found += [name for name in names if isinstance(members.get(name), str)]
                stack += members.values()
            case list() as items:
                stack += items
    return found
