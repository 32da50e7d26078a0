"""Rules for commands of consumers: subscriptions, deliveries and settlements.

1. A consumer id stands for the topic, subscription and name of its SUBSCRIBE. Consumers of scalable topics have ids of
   their own.
2. A delivered entry is a pending settlement. It ends with an ACK of it, a cumulative ACK of it or a later entry, or a
   request for redelivery. An ACK of some messages of a batch (its ack set has the others) settles a part. If the entry
   is delivered again on the same consumer, the first delivery ends unsettled.
   An ACK with a request id may be refused: its deliveries end with the ACK_RESPONSE, with its error; the messages of a
   refused ACK of a batch are unsettled again. An ACK without a request id gets no response. Brokers have no timeout for
   deliveries; clients request redelivery after their own timeout and after a failure by the same command.
3. Messages of non-persistent topics all have the same id and are never acknowledged: their deliveries are not pending.
4. ``credit`` of a delivery is the number of permits before it. If it is small, the consumer had to send more permits;
   if it is large, the broker had nothing to send.
5. The rows of a message do not depend on the order of the two sides, since captures may differ in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from mqsniff.codecs.inflation import InflationBudget
from mqsniff.dissector import Settings
from mqsniff.model import Message, Pending, Problem, RecordBatch
from mqsniff.spec.wire import as_name
from mqsniff_pulsar import acksets
from mqsniff_pulsar.chunks import Chunks, JoinedChunks
from mqsniff_pulsar.commands import NO_REQUEST
from mqsniff_pulsar.handles import Consumer, Delivery, EntryId, Handles, name_of
from mqsniff_pulsar.pairing import CommandPairing
from mqsniff_pulsar.payload import Payload
from mqsniff_pulsar.producing import entry_text, follow, notes_of, partition_row
from mqsniff_pulsar.reading import FrameReading
from mqsniff_pulsar.records import joined_batch, place, record_batch, time_ns

REDELIVERED: Final = "redelivered"
"""``settled_by`` of a delivery whose entry was delivered again."""


class _AckedPart(NamedTuple):
    """Messages of a batch that an ACK settles unless it is refused."""

    consumer: Consumer
    pending: Pending
    """The delivery."""
    indexes: int
    """Bit i means message i."""

    def refuse(self) -> None:
        """The broker refused the ACK: the messages of an open delivery are unsettled again."""
        if self.pending.open:
            self.pending.status = "partial"
            if self.pending.expects > 0:
                self.consumer.take_back(_entry_of(self.pending), self.pending.context.restore(self.indexes))


class Consuming:
    """The consumers of one connection."""

    def __init__(self, pairing: CommandPairing, settings: Settings) -> None:
        self._pairing = pairing
        self._settings = settings
        self._budget = InflationBudget(settings.limits, settings.work)
        self._consumers = Handles(Consumer, settings.limits.handles_max)
        self._scalable = Handles(Consumer, settings.limits.handles_max)
        self.chunks = Chunks(settings.limits, keeps="records" in settings.wanted)
        self.rules = {
            "SUBSCRIBE": self._open,
            "SCALABLE_TOPIC_SUBSCRIBE": self._open_scalable,
            "SCALABLE_TOPIC_ASSIGNMENT_UPDATE": self._assign,
            "FLOW": self._flow,
            "MESSAGE": self._deliver,
            "ACK": self._ack,
            "ACK_RESPONSE": self._ack_response,
            "REDELIVER_UNACKNOWLEDGED_MESSAGES": self._redeliver,
            "UNSUBSCRIBE": self._close,
            "CLOSE_CONSUMER": self._close,
        }

    def name_consumer(
        self, message: Message, number: Any, consumers: Handles[Consumer] | None = None
    ) -> Consumer | None:
        """Fill topic and group of a message by its consumer id; None if it has none."""
        if not isinstance(number, int):
            return None
        consumer, first_use = (self._consumers if consumers is None else consumers).get(number, message.frame.side)
        if consumer.topic is not None:
            message.topics = (consumer.topic,)
        message.group, message.client_id = consumer.subscription, consumer.name
        if consumer.sub_type is not None:
            message.notes += (("sub_type", consumer.sub_type),)
        if first_use:
            detail = "the opening of this consumer is not in the capture: its topic and subscription are unknown"
            message.problems.append(Problem("unmatched", "info", detail, "consumer_id"))
        return consumer

    # ---- opening and closing

    def _open(self, reading: FrameReading) -> None:
        self._subscribe(reading, self._consumers)

    def _open_scalable(self, reading: FrameReading) -> None:
        self._subscribe(reading, self._scalable)

    def _subscribe(self, reading: FrameReading, consumers: Handles[Consumer]) -> None:
        message, body = reading.message, reading.body
        topic, group, number = as_name(body.get("topic")), as_name(body.get("subscription")), body.get("consumer_id")
        consumer = Consumer(
            name_of(topic), name_of(group), name_of(body.get("consumer_name")), name_of(body.get("sub_type")), permits=0
        )
        message.topics = () if topic is None else (topic,)
        message.group = group
        message.client_id = consumer.name
        if isinstance(number, int):
            consumers.open(number, consumer)
        self._open_request(reading)

    def _assign(self, reading: FrameReading) -> None:
        self.name_consumer(reading.message, reading.body.get("consumer_id"), self._scalable)

    def _close(self, reading: FrameReading) -> None:
        self.name_consumer(reading.message, reading.body.get("consumer_id"))
        self._open_request(reading)

    def _open_request(self, reading: FrameReading) -> None:
        """Open a pending request; a close by the broker is a push."""
        message, request = reading.message, reading.body.get("request_id")
        if request == NO_REQUEST:
            message.kind = "push"
        elif request is not None:
            message.correlation = f"r:{request}"
            self._pairing.expect_reply(("r", request))

    # ---- permits and deliveries

    def _flow(self, reading: FrameReading) -> None:
        consumer = self.name_consumer(reading.message, reading.body.get("consumer_id"))
        permits = reading.body.get("message_permits")
        if consumer is not None and consumer.permits is not None and permits is not None:
            consumer.permits += permits

    def _deliver(self, reading: FrameReading) -> None:
        message, body = reading.message, reading.body
        number = body.get("consumer_id")
        consumer = self.name_consumer(message, number) or Consumer()
        entry, payload = entry_id(body.get("message_id")), reading.payload
        metadata = (payload.metadata if payload is not None else None) or {}
        delivery = Delivery.of(metadata.get("num_messages_in_batch", 1), acksets.bits_of(body))
        if entry is not None:
            message.correlation = f"c:{number}:{entry_text(body['message_id'], consumer.partition)}"
        message.notes += notes_of(metadata)
        credit = consumer.permits
        if credit is not None:
            consumer.permits = credit - delivery.left
        if entry is not None and number is not None and consumer.is_persistent:
            pending = self._await(("m", number, entry), consumer, delivery)
            pending.extra |= {"attempts": body.get("redelivery_count", 0) + 1, "credit": credit}
        if payload is not None and payload.metadata is not None:
            message.partitions = (partition_row(consumer, metadata, payload.size),)
            joined = follow(self.chunks, reading, number)
            if "records" in self._settings.wanted and message.frame.whole:
                message.records = tuple(self._records(reading, consumer, payload, metadata, joined))

    def _await(self, key: tuple[str, int, EntryId], consumer: Consumer, delivery: Delivery) -> Pending:
        """Open the pending settlement of a delivered entry."""
        entry = key[2]
        before = self._pairing.oldest(key)
        if before is not None:
            consumer.release(entry, before.context.left, last=True)
            self._pairing.give_up(before, REDELIVERED)
        consumer.take(entry, delivery.left, self._settings.limits.pending_max)
        pending = self._pairing.deliver(key, delivery)
        pending.extra["in_flight"] = consumer.in_flight
        return pending

    def _records(
        self,
        reading: FrameReading,
        consumer: Consumer,
        payload: Payload,
        metadata: dict[str, Any],
        joined: JoinedChunks | None,
    ) -> Iterator[RecordBatch]:
        """The records of a delivery; after the last chunk of a message also that of the whole message."""
        message, body = reading.message, reading.body
        left = set(body[acksets.OPENED]) if acksets.OPENED in body else None
        batches = [record_batch(metadata, message.frame.data[payload.start :], left, self._budget, message.problems)]
        batches[0].constant["checksum_ok"] = payload.checksum_ok
        if joined is not None:
            batches.append(joined_batch(metadata, joined, self._budget, message.problems))
        for batch in batches:
            batch.constant |= {
                "direction": "deliver",
                "topic": consumer.topic,
                "partition": consumer.partition,
                "attempts": body.get("redelivery_count", 0) + 1,
            }
            if isinstance(body.get("message_id"), dict):
                place(batch, entry_text(body["message_id"], consumer.partition))
            if payload.entry is not None:
                _fill_offsets(batch, payload.entry, metadata)
            yield batch

    # ---- settlements

    def _ack(self, reading: FrameReading) -> None:
        message, body = reading.message, reading.body
        number, request = body.get("consumer_id"), body.get("request_id")
        consumer = self.name_consumer(message, number)
        ids = [found for found in body.get("message_id", ()) if entry_id(found) is not None]
        if len(ids) == 1:
            place_text = entry_text(ids[0], consumer.partition if consumer is not None else None)
            message.notes += (("message_id", place_text),)
            message.correlation = f"c:{number}:{place_text}"
        else:
            message.notes += (("message_ids", len(ids)),)
        command, parts = None, list[_AckedPart]()
        if request is not None:
            message.kind = "request"
            message.correlation = f"c:{number}:{request}"
            command = self._pairing.expect_reply(("a", number, request), parts)
        if consumer is not None:
            for rest, pending in self._acknowledged(number, consumer, ids, body.get("ack_type")):
                before = pending.context.indexes
                self._settle(consumer, pending, rest, message.name, command)
                if command is not None and rest is not None and before and (settled := before & ~rest):
                    parts.append(_AckedPart(consumer, pending, settled))

    def _acknowledged(
        self, number: Any, consumer: Consumer, ids: list[dict[str, Any]], kind: Any
    ) -> Iterator[tuple[int | None, Pending]]:
        """(bits of the messages that stay unsettled, delivery) of all deliveries that an ACK settles."""
        for message_id in ids:
            upto = (message_id["ledger_id"], message_id["entry_id"])
            entries = consumer.upto(upto) if kind == "Cumulative" else [upto]
            for entry in entries:
                pending = self._pairing.oldest(("m", number, entry))
                if pending is not None:
                    yield acksets.bits_of(message_id) if entry == upto else None, pending
                else:
                    consumer.release(entry, 0, last=True)

    def _settle(
        self, consumer: Consumer, pending: Pending, rest: int | None, by: str, awaits: Pending | None = None
    ) -> None:
        delivery: Delivery = pending.context
        settled = delivery.settle(rest)
        last = delivery.left == 0
        consumer.release(_entry_of(pending), settled, last=last)
        self._pairing.resolve(pending, by, last=last, awaits=awaits)

    def _ack_response(self, reading: FrameReading) -> None:
        message, body = reading.message, reading.body
        number, request = body.get("consumer_id"), body.get("request_id")
        self.name_consumer(message, number)
        if request is not None:
            message.correlation = f"c:{number}:{request}"
            command = self._pairing.reply_to(message, ("a", number, request))
            if command is not None and message.error_count:
                for part in command.context:
                    part.refuse()

    def _redeliver(self, reading: FrameReading) -> None:
        message, body = reading.message, reading.body
        number = body.get("consumer_id")
        consumer = self.name_consumer(message, number)
        if consumer is None:
            return
        entries = [entry for found in body.get("message_ids", ()) if (entry := entry_id(found)) is not None]
        message.notes += (("message_ids", len(entries) or "all"),)
        for entry in entries or list(consumer.unsettled):
            pending = self._pairing.oldest(("m", number, entry))
            if pending is not None:
                self._settle(consumer, pending, None, message.name)


def _entry_of(pending: Pending) -> EntryId:
    """The entry of a delivery."""
    entry: EntryId = pending.key[2]
    return entry


def entry_id(message_id: Any) -> EntryId | None:
    """(ledger, entry) of a message id; None if one is missing."""
    if not isinstance(message_id, dict):
        return None
    ledger, entry = message_id.get("ledger_id"), message_id.get("entry_id")
    return (ledger, entry) if isinstance(ledger, int) and isinstance(entry, int) else None


def _fill_offsets(batch: RecordBatch, entry: Mapping[str, Any], metadata: Mapping[str, Any]) -> None:
    """Add offsets and broker time of an entry to its messages; its index is that of the last message."""
    batch.constant["store_ts"] = time_ns(entry.get("broker_timestamp"))
    last = entry.get("index")
    if not isinstance(last, int):
        return
    numbers = batch.columns.get("record_index")
    if numbers is None:
        batch.constant["offset"] = last
    else:
        first = last + 1 - metadata.get("num_messages_in_batch", 1)
        batch.columns["offset"] = [first + number for number in numbers]
