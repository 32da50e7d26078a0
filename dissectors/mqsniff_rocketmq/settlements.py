"""Settlements of delivered and half-sent messages on one connection.

1. A popped message waits for its ACK. The key is group, pop time, retry, queue and offset, which the ACK's handle
   repeats. CHANGE_MESSAGE_INVISIBLETIME settles it too: the message comes back under another handle. Without either,
   the broker delivers it again after its invisible time: then the delivery ends unanswered.
2. A half message (transaction) waits for END_TRANSACTION, by its unique key; so does each CHECK_TRANSACTION_STATE of
   the broker. An END_TRANSACTION with UNKNOWN settles the check only.
3. A handle without a delivery is no problem: the pop may be on another connection.
4. A settlement ends with its command, with the status of that command. After the invisible time it is late
   (``timed_out``), whatever the broker answers.

Source: ExtraInfoUtil, PopMessageProcessor, AckMessageProcessor, BatchAck, EndTransactionProcessor of apache/rocketmq.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from mqsniff.limits import MILLISECOND_NS, SECOND_NS
from mqsniff.model import ExchangeStatus, Frame, Link, Pending
from mqsniff_rocketmq.headers import ExtFields
from mqsniff_rocketmq.stored import TRANSACTION, TRANSACTION_PREPARED, StoredMessage
from mqsniff_rocketmq.texts import split_pop_handle

OUTCOMES: Final = {0: "UNKNOWN", 8: "COMMIT", 12: "ROLLBACK"}
"""commitOrRollback -> ``settled_by``."""

REVIVED_NS: Final = 10 * SECOND_NS
"""An ACK may still come so long after the invisible time: brokers revive messages at intervals."""
INVISIBLE_MAX_MS: Final = 1 << 40

UNIQUE_KEY: Final = "UNIQ_KEY"
LITE_TOPIC: Final = "__LITE_TOPIC"
LITE_OFFSET: Final = "INNER_MULTI_QUEUE_OFFSET"
POP_CK: Final = "POP_CK"
HALF: Final = "TRAN_MSG"


class RequestOpener(Protocol):
    """The methods of FramedDissector that are used here."""

    def expect_reply(
        self,
        key: Any,
        context: Any = None,
        *,
        expects: int = 1,
        link: Link = "answer",
        wait_limit_ns: int | None = None,
        in_order: bool = True,
    ) -> Pending:
        """Open a request for the frame being decoded."""
        ...

    def pending(self, key: Any) -> Sequence[Pending]:
        """The pending requests of a key, oldest first."""
        ...

    def resolve(
        self,
        pending: Pending,
        status: ExchangeStatus | None = None,
        *,
        answered: bool = False,
        awaits: Pending | None = None,
    ) -> None:
        """End a request, at once or with the request of the command that settled it."""
        ...


class Command(NamedTuple):
    """A command that settles messages."""

    name: str
    pending: Pending
    """Its own pending request: the reply may refuse it."""


class Settlements:
    """The settlements of one connection."""

    def __init__(self, opener: RequestOpener, waits_max: int) -> None:
        self._opener = opener
        self._waits_max = waits_max
        self._in_flight = 0
        self._waits: dict[Pending, int] = {}
        """Deliveries that wait for an ACK, oldest first -> end of the wait."""

    # ---- POP

    def popped(
        self,
        frame: Frame,
        messages: Sequence[StoredMessage],
        properties: Sequence[Any],
        request: ExtFields,
        response: ExtFields,
    ) -> None:
        """Open deliveries for popped messages; ``request`` and ``response``: their ext fields."""
        self._give_up(frame.first_ts_ns)
        retries = _retries(response.get("msg_offset_info"))
        group, time = request.get("consumer_group"), response.get("pop_time")
        invisible = response.get("invisible_time")
        limit = None
        if type(invisible) is int and 0 < invisible < INVISIBLE_MAX_MS:
            limit = invisible * MILLISECOND_NS
        for message, found in zip(messages, properties, strict=True):
            key = _message_key(group, time, retries, message, found if isinstance(found, dict) else {})
            self._in_flight += 1
            delivery = self._opener.expect_reply(key, link="settlement", wait_limit_ns=limit, in_order=False)
            delivery.extra = {"attempts": message.reconsume_times + 1, "in_flight": self._in_flight}
            if limit is not None:
                self._waits[delivery] = frame.last_ts_ns + limit + REVIVED_NS

    def _give_up(self, now_ns: int) -> None:
        """End the deliveries whose time is over."""
        while self._waits:
            delivery, until = next(iter(self._waits.items()))
            if until >= now_ns and len(self._waits) <= self._waits_max:
                return
            del self._waits[delivery]
            self._in_flight -= 1
            if delivery.status is None:
                delivery.extra["timed_out"] = until < now_ns
                self._opener.resolve(delivery, "unanswered")

    def acked(self, command: Command, ext: ExtFields) -> None:
        """Settle one message by ACK_MESSAGE or CHANGE_MESSAGE_INVISIBLETIME."""
        handle = ext.get("extra_info")
        if not isinstance(handle, dict):
            return
        key = (
            ext.get("consumer_group"),
            handle["pop_time"],
            handle["retry"],
            handle["queue_id"],
            ext.get("offset"),
            ext.get("lite_topic") or "",
        )
        self._settle(("pop", *key), command)

    def batch_acked(self, command: Command, body: Any) -> None:
        """Settle messages by BATCH_ACK_MESSAGE: an entry has a bit set for the messages of one pop and queue."""
        acks = body.get("acks") if isinstance(body, dict) else None
        for ack in acks if isinstance(acks, list) else ():
            if isinstance(ack, dict):
                for key in _batch_keys(ack):
                    self._settle(("pop", *key), command)

    def _settle(self, key: Any, command: Command) -> None:
        if self._end(key, command, command.name):
            self._in_flight -= 1

    def _end(self, key: Any, command: Command, settled_by: str) -> bool:
        """Settle the oldest delivery of a key by a command; returns whether there is one."""
        delivery = next(iter(self._opener.pending(key)), None)
        if delivery is None:
            return False
        self._waits.pop(delivery, None)
        delivery.extra["settled_by"] = settled_by
        if delivery.wait_limit_ns is not None:
            over_ns = delivery.frame.last_ts_ns + delivery.wait_limit_ns
            delivery.extra["timed_out"] = command.pending.frame.first_ts_ns > over_ns
        self._opener.resolve(delivery, answered=True, awaits=command.pending)
        return True

    # ---- transactions

    def half_sent(self, ext: ExtFields) -> Pending | None:
        """Open a pending settlement if a send is the first half of a transaction."""
        properties = ext.get("properties")
        if not isinstance(properties, dict) or UNIQUE_KEY not in properties:
            return None
        flag = ext.get("sys_flag")
        prepared = type(flag) is int and flag & TRANSACTION == TRANSACTION_PREPARED
        if not prepared and properties.get(HALF) != "true":
            return None
        return self._opener.expect_reply(("half", properties[UNIQUE_KEY]), link="settlement", in_order=False)

    def half_refused(self, half: Pending) -> None:
        """The broker refused the half message: no END_TRANSACTION will follow."""
        if half in self._opener.pending(half.key):
            self._opener.resolve(half, "error")

    def checked(self, ext: ExtFields, properties: Any) -> None:
        """Open a pending settlement for a CHECK_TRANSACTION_STATE."""
        unique = properties.get(UNIQUE_KEY) if isinstance(properties, dict) else None
        self._opener.expect_reply(("check", unique or ext.get("msg_id")), link="settlement", in_order=False)

    def ended(self, command: Command, ext: ExtFields) -> None:
        """Settle a half message or a check by END_TRANSACTION."""
        outcome = OUTCOMES.get(ext.get("commit_or_rollback", 0), "UNKNOWN")
        if ext.get("from_transaction_check"):
            self._end(("check", ext.get("msg_id")), command, outcome)
        if outcome != "UNKNOWN":
            self._end(("half", ext.get("msg_id")), command, outcome)


def _retries(info: Any) -> dict[tuple[Any, Any], int]:
    """(queue, offset) -> retry, by msgOffsetInfo; the first one if it has a queue twice."""
    found: dict[tuple[Any, Any], int] = {}
    for item in info if isinstance(info, list) else ():
        for offset in item["offsets"]:
            found.setdefault((item["queue_id"], offset), item["retry"])
    return found


def _message_key(
    group: Any, time: Any, retries: Mapping[tuple[Any, Any], int], message: StoredMessage, properties: ExtFields
) -> tuple[Any, ...]:
    """The key by which the handle of a popped message will refer to it."""
    lite = properties.get(LITE_TOPIC) or ""
    handle = split_pop_handle(str(properties[POP_CK])) if POP_CK in properties else None
    if handle is not None and handle.msg_queue_offset is not None and handle.pop_time == time:
        return "pop", group, handle.pop_time, handle.retry, handle.queue_id, handle.msg_queue_offset, lite
    offset = message.queue_offset
    if lite and str(properties.get(LITE_OFFSET)).isdecimal():
        offset = int(properties[LITE_OFFSET][:18])
    return "pop", group, time, retries.get((message.queue_id, offset), 0), message.queue_id, offset, lite


def _batch_keys(ack: ExtFields) -> Iterator[tuple[Any, ...]]:
    """Keys of one entry of a BATCH_ACK: bit n means offset ``startOffset + n``."""
    start, retry, bits = ack.get("start_offset"), str(ack.get("retry")), ack.get("bit_set")
    if type(start) is not int or not retry.isdecimal() or not isinstance(bits, list):
        return
    queue, time = ack.get("queue_id"), ack.get("pop_time")
    for bit in bits:
        yield ack.get("consumer_group"), time, int(retry[:4]), queue, start + bit, ""
