"""Rules for commands of producers: opening, sending and receipts.

1. A producer id stands for the topic and name of its PRODUCER; the broker may assign the name.
2. A receipt answers the oldest SEND with its producer id and sequence id: chunks of a message, and messages sent again,
   have the same sequence id. If both ends deduplicate replication by position, the receipt has the ledger and entry of
   the source cluster instead of the sequence ids.
3. The receipt has the message id; records of the SEND wait for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

from mqsniff.codecs.inflation import InflationBudget
from mqsniff.dissector import Settings
from mqsniff.model import Message, Pending, Problem, RecordBatch
from mqsniff.spec.wire import as_name
from mqsniff_pulsar.chunks import Chunks, JoinedChunks, Piece
from mqsniff_pulsar.commands import NO_REQUEST
from mqsniff_pulsar.handles import Consumer, Handles, Producer, name_of
from mqsniff_pulsar.messages import marker_names
from mqsniff_pulsar.pairing import CommandPairing
from mqsniff_pulsar.payload import Payload
from mqsniff_pulsar.reading import FrameReading
from mqsniff_pulsar.records import joined_batch, place, record_batch, signed

Key: TypeAlias = tuple[Any, ...]
"""("p", producer id, sequence id), or ("p", producer id, ledger, entry)."""

SOURCE_POSITION: Final = "__MSG_PROP_REPL_SOURCE_POSITION"
"""Property of a replicated message: "ledger:entry" in the cluster that it comes from."""

NO_PLACE: Final = (1 << 64) - 1
"""Ledger of a message that is not stored: on a non-persistent topic, or a duplicate."""


class Producing:
    """The producers of one connection."""

    def __init__(self, pairing: CommandPairing, settings: Settings) -> None:
        self._pairing = pairing
        self._settings = settings
        self._budget = InflationBudget(settings.limits, settings.work)
        self._producers = Handles(Producer, settings.limits.handles_max)
        self.chunks = Chunks(settings.limits, keeps="records" in settings.wanted)
        self.by_position = True
        """Whether receipts of replicated messages have positions; true unless the connection said otherwise."""
        self.rules = {
            "PRODUCER": self._open,
            "PRODUCER_SUCCESS": self._opened,
            "SEND": self._send,
            "SEND_RECEIPT": self._receipt,
            "SEND_ERROR": self._refused,
            "CLOSE_PRODUCER": self._close,
        }

    def name_producer(self, message: Message, number: Any) -> Producer | None:
        """Fill the topic of a message by its producer id; None if it has none."""
        if not isinstance(number, int):
            return None
        producer, first_use = self._producers.get(number, message.frame.side)
        if producer.topic is not None:
            message.topics = (producer.topic,)
        message.client_id = producer.name
        if first_use:
            detail = "the opening of this producer is not in the capture: its topic is unknown"
            message.problems.append(Problem("unmatched", "info", detail, "producer_id"))
        return producer

    def _open(self, reading: FrameReading) -> None:
        message, body = reading.message, reading.body
        topic, number, request = body.get("topic"), body.get("producer_id"), body.get("request_id")
        producer = Producer(name_of(topic), name_of(body.get("producer_name")))
        name = as_name(topic)
        message.topics = () if name is None else (name,)
        message.client_id = producer.name
        if isinstance(number, int):
            self._producers.open(number, producer)
        if request is not None:
            message.correlation = f"r:{request}"
            self._pairing.expect_reply(("r", request), producer)

    def _opened(self, reading: FrameReading) -> None:
        message, body = reading.message, reading.body
        request = body.get("request_id")
        message.correlation = f"r:{request}"
        pending = self._pairing.reply_to(message, ("r", request), last=body.get("producer_ready", True))
        if pending is not None and isinstance(pending.context, Producer):
            pending.context.name = name_of(body.get("producer_name"))
            message.client_id = pending.context.name

    def _close(self, reading: FrameReading) -> None:
        message, body = reading.message, reading.body
        self.name_producer(message, body.get("producer_id"))
        request = body.get("request_id")
        if request == NO_REQUEST:
            message.kind = "push"
        elif request is not None:
            message.correlation = f"r:{request}"
            self._pairing.expect_reply(("r", request))

    # ---- sending

    def _send(self, reading: FrameReading) -> None:
        message = reading.message
        producer = self.name_producer(message, reading.body.get("producer_id")) or Producer()
        payload = reading.payload
        metadata = payload.metadata if payload is not None else None
        key = None
        if payload is not None and metadata is not None:
            message.client_id = name_of(metadata.get("producer_name")) or producer.name
            message.notes += notes_of(metadata)
            message.partitions = (partition_row(producer, metadata, payload.size),)
            _check_counts(reading, metadata)
            joined = follow(self.chunks, reading, reading.body.get("producer_id"))
            if "records" in self._settings.wanted and message.frame.whole:
                message.records = tuple(self._records(reading, producer, payload, metadata, joined))
            if self.by_position and "replicated_from" in metadata:
                key = _position(reading, metadata)
        key = key or _sequence(reading)
        if key is not None:
            message.correlation = _correlation(key)
            self._pairing.expect_reply(key, (message.records, producer))

    def _records(
        self,
        reading: FrameReading,
        producer: Producer,
        payload: Payload,
        metadata: dict[str, Any],
        joined: JoinedChunks | None,
    ) -> Iterator[RecordBatch]:
        """The records of a SEND; after the last chunk of a message also that of the whole message."""
        message = reading.message
        batches = [record_batch(metadata, message.frame.data[payload.start :], None, self._budget, message.problems)]
        batches[0].constant["checksum_ok"] = payload.checksum_ok
        if joined is not None:
            batches.append(joined_batch(metadata, joined, self._budget, message.problems))
        for batch in batches:
            batch.constant |= {
                "direction": "produce",
                "topic": producer.topic,
                "partition": producer.partition,
                "producer_id": signed(reading.body.get("producer_id")),
            }
            yield batch

    def _receipt(self, reading: FrameReading) -> None:
        message = reading.message
        pending = self._answered(reading)
        message_id = reading.body.get("message_id")
        if message_id is None:
            return
        records, producer = pending.context if pending is not None else ((), Producer())
        entry = entry_text(message_id, producer.partition)
        message.notes += (("message_id", entry),)
        if message_id.get("ledger_id") != NO_PLACE:
            for batch in records:
                place(batch, entry)

    def _refused(self, reading: FrameReading) -> None:
        self._answered(reading)

    def _answered(self, reading: FrameReading) -> Pending | None:
        """Resolve the SEND that a receipt or an error answers."""
        message, body = reading.message, reading.body
        self.name_producer(message, body.get("producer_id"))
        key = _sequence(reading)
        if key is None:
            return None
        position = (*key, body.get("highest_sequence_id"))
        if self._pairing.oldest(position) is not None:
            key = position
        message.correlation = _correlation(key)
        return self._pairing.reply_to(message, key)


def _check_counts(reading: FrameReading, metadata: Mapping[str, Any]) -> None:
    """Check that command and metadata have the same counts."""
    if reading.body.get("num_messages", 1) != metadata.get("num_messages_in_batch", 1):
        detail = "num_messages of the command differs from num_messages_in_batch of the metadata"
        reading.message.problems.append(Problem("out_of_range", "warning", detail, "num_messages"))


def _position(reading: FrameReading, metadata: Mapping[str, Any]) -> Key | None:
    """The key of a replicated message's receipt; None for markers, whose receipts have sequence ids."""
    if "marker_type" in metadata or "producer_id" not in reading.body:
        return None
    for pair in metadata.get("properties", ()):
        if pair.get("key") == SOURCE_POSITION:
            ledger, _, entry = str(pair.get("value")).partition(":")
            if _is_number(ledger) and _is_number(entry):
                return "p", reading.body["producer_id"], int(ledger), int(entry)
    return None


def _sequence(reading: FrameReading) -> Key | None:
    """The usual key of a SEND and its reply."""
    producer, sequence = reading.body.get("producer_id"), reading.body.get("sequence_id")
    return None if producer is None or sequence is None else ("p", producer, sequence)


def _correlation(key: Key) -> str:
    return ":".join(map(str, key))


def _is_number(text: str) -> bool:
    return text.isdecimal() and len(text) < 20


# ---- shared by SEND and MESSAGE


def follow(chunks: Chunks, reading: FrameReading, owner: Any) -> JoinedChunks | None:
    """Add a chunk of a message of ``owner``; the whole message if this completes it, else None."""
    message, payload = reading.message, reading.payload
    if payload is None or payload.metadata is None or "chunk_id" not in payload.metadata:
        return None
    data = message.frame.data[payload.start :] if message.frame.whole else None
    followed = chunks.add(owner, Piece(payload.metadata, payload.size, data, payload.checksum_ok, message.frame))
    if followed.problem is not None:
        message.problems.append(followed.problem)
    return followed.joined


def notes_of(metadata: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """Notes of a payload, for lines of text."""
    notes: list[tuple[str, Any]] = []
    if "num_messages_in_batch" in metadata:
        notes.append(("messages", metadata["num_messages_in_batch"]))
    if "compression" in metadata:
        notes.append(("codec", metadata["compression"]))
    if "chunk_id" in metadata:
        notes.append(("chunk", f"{metadata['chunk_id']}/{metadata.get('num_chunks_from_msg')}"))
    if "encryption_keys" in metadata:
        notes.append(("encrypted", True))
    if "marker_type" in metadata:
        number = metadata["marker_type"]
        notes.append(("marker", marker_names().get(number, number)))
    if "txnid_most_bits" in metadata:
        notes.append(("txn", f"{metadata['txnid_most_bits']}:{metadata.get('txnid_least_bits')}"))
    return tuple(notes)


def partition_row(handle: Producer | Consumer, metadata: Mapping[str, Any], size: int) -> dict[str, Any]:
    """The row of ``partitions`` of a payload."""
    return {
        "topic": handle.topic,
        "partition": handle.partition,
        "batches": 1,
        "records": metadata.get("num_messages_in_batch", 1),
        "wire_bytes": size,
    }


def entry_text(message_id: Mapping[str, Any], partition: int | None) -> str:
    """A message id as "ledger:entry:partition"; a missing partition is taken from the topic's name."""
    partition = message_id.get("partition", partition)
    return f"{message_id.get('ledger_id')}:{message_id.get('entry_id')}:{-1 if partition is None else partition}"
