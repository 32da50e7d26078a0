"""A command in, what it does to messages, members of groups and transactions out: for ``mqsniff trace`` alone.

1. A transaction goes by the unique key of its message, which END_TRANSACTION repeats.
2. Offsets that are committed stand one after the last message that was read; a pull may carry one.

Sources: PullSysFlag, AckMessageProcessor, BatchAck, SendMessageBack and EndTransactionProcessor of apache/rocketmq.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from mqsniff.model import Act, ActKind, LineNotes, Message, RecordOrigin
from mqsniff_rocketmq.settlements import HALF, OUTCOMES, UNIQUE_KEY

_COMMITS: Final = 1
"""Bit of a pull's sys_flag: its commit_offset counts."""
_RETRY: Final = "%RETRY%"


Ext = Mapping[str, Any]


def acts_of(message: Message) -> Iterable[Act]:
    """What a command does; an answer does nothing that its request has not asked for."""
    if message.kind == "response":
        return ()
    if message.name == "BATCH_ACK_MESSAGE":
        return _batch_ack(message.body.get("body"))
    act, ext = _ACTS.get(message.name), message.body.get("ext_fields")
    return act(ext if isinstance(ext, dict) else {}) if act is not None else ()


def origin_of(headers: Mapping[str, bytes | None]) -> RecordOrigin | None:
    """The message that one of a retry or dead letter topic is a copy of."""
    found, topic = headers.get("ORIGIN_MESSAGE_ID"), headers.get("DLQ_ORIGIN_TOPIC") or headers.get("RETRY_TOPIC")
    if found is None:
        return None
    return RecordOrigin(topic.decode(errors="replace") if topic else None, message_id=found.decode(errors="replace"))


# ---- deliveries


def _commit(ext: Ext) -> Iterator[Act]:
    offset = ext.get("commit_offset")
    if type(offset) is int and offset >= 0:
        yield Act("commit", f"committed offset {offset}", ext.get("topic"), None, ext.get("queue_id"), last=offset - 1)


def _pull(ext: Ext) -> Iterator[Act]:
    flag = ext.get("sys_flag")
    if type(flag) is int and flag & _COMMITS:
        yield from _commit(ext)


def _ack(ext: Ext) -> Iterator[Act]:
    yield Act("ack", "acknowledged", *_popped(ext))


def _change(ext: Ext) -> Iterator[Act]:
    yield Act("nack", f"asked for redelivery in {ext.get('invisible_time')} ms", *_popped(ext))


def _popped(ext: Ext) -> tuple[Any, None, Any, Any, Any]:
    """Topic, no id, queue, first and last offset of a popped message."""
    offset = ext.get("offset")
    return (
        _topic(ext.get("topic"), ext.get("consumer_group"), ext.get("extra_info")),
        None,
        ext.get("queue_id"),
        offset,
        offset,
    )


def _topic(topic: Any, group: Any, handle: Any) -> Any:
    """The topic that a handle's message lies in: the group's retry topic, or the one that was popped."""
    retry = handle.get("retry") if isinstance(handle, Mapping) else handle
    match retry:
        case 1 | "1":
            return f"{_RETRY}{group}_{topic}"
        case 2 | "2":
            return f"{_RETRY}{group}+{topic}"
    return topic


def _batch_ack(body: Any) -> Iterator[Act]:
    for ack in (body.get("acks") if isinstance(body, dict) else None) or ():
        start, bits = ack.get("start_offset"), ack.get("bit_set")
        if type(start) is int and isinstance(bits, list):
            topic = _topic(ack.get("topic"), ack.get("consumer_group"), ack.get("retry"))
            for bit in bits:
                yield Act("ack", "acknowledged", topic, None, ack.get("queue_id"), start + bit, start + bit)


def _send_back(ext: Ext) -> Iterator[Act]:
    level, most = ext.get("delay_level"), ext.get("max_reconsume_times")
    details: LineNotes = tuple(
        (name, value) for name, value in (("delay_level", level), ("retries_max", most)) if value
    )
    what = "sent back to the dead letter topic" if level == -1 else "sent back for another try"
    yield Act("nack", what, ext.get("origin_topic"), message_id=ext.get("origin_msg_id"), details=details)


# ---- transactions


def _half(ext: Ext) -> Iterator[Act]:
    properties = ext.get("properties")
    if isinstance(properties, Mapping) and properties.get(HALF) == "true" and UNIQUE_KEY in properties:
        unique = properties[UNIQUE_KEY]
        yield Act("begin", "half message sent", ext.get("topic"), message_id=unique, transaction=unique)


def _ends(ext: Ext) -> Iterator[Act]:
    outcome = OUTCOMES.get(ext.get("commit_or_rollback", 0), "UNKNOWN")
    unique = ext.get("msg_id") or ext.get("transaction_id")
    details: LineNotes = (("after_check", True),) if ext.get("from_transaction_check") else ()
    what = {"COMMIT": "committed", "ROLLBACK": "rolled back"}.get(outcome, "state not known yet")
    kind: ActKind = "transaction" if outcome == "UNKNOWN" else "end"
    yield Act(kind, what, message_id=unique, transaction=unique, details=details)


def _checked(ext: Ext) -> Iterator[Act]:
    unique = ext.get("msg_id") or ext.get("transaction_id")
    yield Act("transaction", "broker asks for its state", message_id=unique, transaction=unique)


# ---- groups


def _member(what: str) -> Callable[[Ext], Iterator[Act]]:
    def act(ext: Ext) -> Iterator[Act]:
        yield Act("member", what, member=ext.get("client_id"))

    return act


_SENDS: Final = ("SEND_MESSAGE", "SEND_MESSAGE_V2", "SEND_BATCH_MESSAGE")
_ACTS: Final[dict[str, Callable[[Ext], Iterable[Act]]]] = {
    "UPDATE_CONSUMER_OFFSET": _commit,
    "PULL_MESSAGE": _pull,
    "LITE_PULL_MESSAGE": _pull,
    "ACK_MESSAGE": _ack,
    "CHANGE_MESSAGE_INVISIBLETIME": _change,
    "CONSUMER_SEND_MSG_BACK": _send_back,
    **dict.fromkeys(_SENDS, _half),
    "END_TRANSACTION": _ends,
    "CHECK_TRANSACTION_STATE": _checked,
    "NOTIFY_CONSUMER_IDS_CHANGED": _member("told that the members changed"),
    "GET_CONSUMER_LIST_BY_GROUP": _member("asks who is in the group"),
    "QUERY_ASSIGNMENT": _member("asks for its assignment"),
    "LOCK_BATCH_MQ": _member("locks queues"),
    "UNLOCK_BATCH_MQ": _member("unlocks queues"),
    "UNREGISTER_CLIENT": _member("leaves"),
}
