"""A command in, what it does to entries, subscriptions and transactions out: for ``mqsniff trace`` alone.

1. Message ids are those of the records: brokers leave the partition out, which the topic's name tells then.
2. A transaction is "most:least", the two halves of its id.

Sources: PulsarApi.proto; RetryMessageUtil and DeadLetterPolicy of the Java client, ConsumerImpl of the C++ client.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from mqsniff.model import Act, ActKind, LineNotes, Message, RecordOrigin
from mqsniff_pulsar import acksets
from mqsniff_pulsar.handles import partition_of
from mqsniff_pulsar.producing import entry_text

_ORIGIN_IDS: Final = ("ORIGIN_MESSAGE_ID", "ORIGIN_MESSAGE_IDY_TIME")
_NUMBERS: Final = re.compile(r"-?\d+")
_MEMBER: Final = {
    "SUBSCRIBE": "subscribes",
    "UNSUBSCRIBE": "unsubscribes",
    "CLOSE_CONSUMER": "closes its consumer",
    "SEEK": "seeks",
    "ACTIVE_CONSUMER_CHANGE": "told who is the active consumer",
    "REACHED_END_OF_TOPIC": "told that the topic has ended",
    "CONSUMER_STATS": "asks for its statistics",
}
_TRANSACTION: Final = {
    "NEW_TXN_RESPONSE": "begun",
    "ADD_PARTITION_TO_TXN": "adds topics",
    "ADD_SUBSCRIPTION_TO_TXN": "adds subscriptions",
    "END_TXN_ON_PARTITION": "ended on a topic",
    "END_TXN_ON_SUBSCRIPTION": "ended on a subscription",
    "SEND": "produces in it",
    "ACK": "acknowledges in it",
}
_ENDED: Final = {"commit": "committed", "abort": "aborted"}
_ACTIONS: Final = {"COMMIT": "commit", "ABORT": "abort"}


def acts_of(message: Message) -> Iterator[Act]:
    """What a command does."""
    body: Mapping[str, Any] = message.body
    match message.name:
        case "ACK":
            yield from _acks(message, body)
        case "REDELIVER_UNACKNOWLEDGED_MESSAGES":
            yield from _redeliver(message, body)
        case name if name in _MEMBER:
            names = ("sub_type", "initial_position", "consumer_name", "priority_level", "is_active", "message_id")
            told: LineNotes = tuple((each, body[each]) for each in names if each in body)
            topic = next(iter(message.topics), None)
            yield Act("member", _MEMBER[name], topic, member=message.client_id, details=told)
    yield from _transaction(message, body)


# ---- deliveries


def _acks(message: Message, body: Mapping[str, Any]) -> Iterator[Act]:
    cumulative = body.get("ack_type") == "Cumulative"
    failed = body.get("validation_error")
    what = "acknowledged" if failed is None else f"acknowledged, since it could not be read ({failed})"
    if cumulative:
        what += " with all before"
    for topic, text, found in _ids(message, body.get("message_id")):
        left = frozenset(found.get(acksets.OPENED) or ())
        yield Act("ack", what, topic, message_id=text, before=cumulative, left=left, transaction=_transaction_id(body))


def _redeliver(message: Message, body: Mapping[str, Any]) -> Iterator[Act]:
    ids = body.get("message_ids")
    if not ids:
        topic = next(iter(message.topics), None)
        yield Act("nack", "asked for redelivery of all unacknowledged messages", topic, last=None, before=True)
    for topic, text, _ in _ids(message, ids):
        yield Act("nack", "asked for redelivery", topic, message_id=text)


def _ids(message: Message, ids: Any) -> Iterator[tuple[str | None, str, dict[str, Any]]]:
    """(topic, id as records have it, id) of the entries that a command names."""
    topic = next(iter(message.topics), None)
    for found in ids if isinstance(ids, list) else ():
        if isinstance(found, dict):
            text = entry_text(found, partition_of(topic))
            index = found.get("batch_index")
            yield topic, f"{text}:{index}" if isinstance(index, int) and index >= 0 else text, found


def origin_of(headers: Mapping[str, bytes | None]) -> RecordOrigin | None:
    """The message that one of a retry or dead letter topic is a copy of."""
    for name in _ORIGIN_IDS:
        found = headers.get(name)
        numbers = _NUMBERS.findall(found.decode(errors="replace")) if found is not None else ()
        if len(numbers) >= 2:
            ledger, entry, partition, *_ = (*numbers, "-1")
            topic = headers.get("REAL_TOPIC")
            return RecordOrigin(
                topic.decode(errors="replace") if topic is not None else None,
                message_id=f"{ledger}:{entry}:{partition}",
            )
    return None


# ---- transactions


def _transaction(message: Message, body: Mapping[str, Any]) -> Iterator[Act]:
    if (transaction := _transaction_id(body)) is None:
        return
    action = _ACTIONS.get(str(body.get("txn_action")))
    topics: LineNotes = (("topics", ", ".join(message.topics)),) if message.topics else ()
    kind: ActKind = "begin" if message.name == "NEW_TXN_RESPONSE" else "transaction"
    match message.name:
        case "END_TXN":
            what = f"{action} asked for"
        case "END_TXN_RESPONSE":
            asked = message.answered[0].message if message.answered else None
            done = _ACTIONS.get(str(asked.body.get("txn_action") if asked is not None else None))
            what = _ENDED.get(done or "", "ended") if not message.failed else f"{done or 'end'} refused"
            kind = "transaction" if message.failed else "end"
        case name if name in _TRANSACTION:
            what = _TRANSACTION[name] + (f": {action}" if action else "")
        case name:
            if not message.failed:
                return
            what = f"{name} failed"
    yield Act(kind, what, transaction=transaction, details=topics)


def _transaction_id(body: Mapping[str, Any]) -> str | None:
    most, least = body.get("txnid_most_bits"), body.get("txnid_least_bits")
    return f"{most}:{least}" if isinstance(most, int) and isinstance(least, int) else None
