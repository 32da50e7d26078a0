"""A message in, what it does to records, members of groups and transactions out: for ``mqsniff trace`` alone.

1. What an answer says of membership and transactions is told with the names of its request.
2. Offsets that are committed stand one after the last record that was read.

Sources: KIP-98 (transactions), KIP-848 (groups), KIP-932 (share groups); JoinGroup and SyncGroup of the protocol guide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from mqsniff.model import Act, ActKind, LineNotes, Message, RecordOrigin

Body = Mapping[str, Any]

_SHARE_TYPES: Final[dict[int, tuple[ActKind, str]]] = {
    0: ("ack", "skipped a gap"),
    1: ("ack", "accepted"),
    2: ("nack", "released for another delivery"),
    3: ("nack", "rejected: no more deliveries"),
    4: ("extend", "renewed its lock"),
}
_HEARTBEATS: Final = ("ConsumerGroupHeartbeat", "ShareGroupHeartbeat", "StreamsGroupHeartbeat")
_ORIGINS: Final = (
    ("kafka_dlt-original-topic", "kafka_dlt-original-partition", "kafka_dlt-original-offset"),
    ("kafka_original-topic", "kafka_original-partition", "kafka_original-offset"),
    ("__connect.errors.topic", "__connect.errors.partition", "__connect.errors.offset"),
)
"""Headers of Spring Kafka and of Kafka Connect."""


def acts_of(message: Message) -> Iterable[Act]:
    """What a message does."""
    act = (_OF_ANSWERS if message.kind == "response" else _OF_REQUESTS).get(message.name)
    return act(message) if act is not None else ()


def _body(message: Message) -> Body:
    return message.body


def _request_of(message: Message) -> Body:
    """The body of the request that a message answers."""
    asked = message.answered[0].message if message.answered else None
    return asked.body if asked is not None else {}


def _details(body: Body, *names: str) -> LineNotes:
    """Fields of a body that are there and not empty."""
    return tuple((name, body[name]) for name in names if body.get(name) not in (None, "", -1, []))


# ---- records


def _commits(message: Message) -> Iterator[Act]:
    """Offsets that a group commits."""
    body = _body(message)
    transaction = body.get("transactional_id")
    for row in message.partitions:
        offset = row.get("offset")
        if type(offset) is int and offset >= 0:
            what = f"committed offset {offset}" + (" in a transaction" if transaction else "")
            yield Act(
                "commit",
                what,
                row.get("topic"),
                row.get("topic_id"),
                row.get("partition"),
                last=offset - 1,
                transaction=transaction,
                member=body.get("member_id"),
            )
    if transaction:
        details = (("group", message.group), ("offsets", _offsets(message)))
        yield Act("transaction", "commits offsets of a group in it", transaction=transaction, details=details)


def _offsets(message: Message) -> str:
    rows = (
        (row.get("topic") or row.get("topic_id"), row.get("partition"), row.get("offset")) for row in message.partitions
    )
    return ", ".join(f"{topic}/{partition}: {offset}" for topic, partition, offset in rows)


def _share_acks(message: Message) -> Iterator[Act]:
    """What a share consumer says of the records that it acquired."""
    for topic in _body(message).get("topics") or ():
        for partition in topic.get("partitions") or ():
            for batch in partition.get("acknowledgement_batches") or ():
                yield from _share_batch(topic.get("topic_id"), partition.get("partition_index"), batch)


def _share_batch(topic_id: str | None, partition: int | None, batch: Body) -> Iterator[Act]:
    first, last, types = batch.get("first_offset"), batch.get("last_offset"), batch.get("acknowledge_types") or ()
    if type(first) is not int or type(last) is not int:
        return
    ranges = [(first, last)] if len(types) == 1 else [(first + index, first + index) for index in range(len(types))]
    for (start, stop), code in zip(ranges, types, strict=True):
        kind, what = _SHARE_TYPES.get(code, ("ack", f"acknowledged with type {code}"))
        yield Act(kind, what, None, topic_id, partition, start, stop)


def origin_of(headers: Mapping[str, bytes | None]) -> RecordOrigin | None:
    """The record that one of a dead letter topic is a copy of."""
    for topic, partition, offset in _ORIGINS:
        name = headers.get(topic)
        if name is not None:
            number = _number(headers.get(partition)), _number(headers.get(offset))
            return RecordOrigin(name.decode(errors="replace"), *number)
    return None


def _number(data: bytes | None) -> int | None:
    """A number as text (Connect), or as four or eight bytes (Spring)."""
    if data is None:
        return None
    if data.isdigit() and len(data) < 20:
        return int(data)
    return int.from_bytes(data, "big", signed=True) if len(data) in (4, 8) else None


# ---- groups


def _join(message: Message) -> Iterator[Act]:
    body = _body(message)
    protocols = [each.get("name") for each in body.get("protocols") or () if isinstance(each, Mapping)]
    details = _details(body, "group_instance_id", "rebalance_timeout_ms", "session_timeout_ms", "reason")
    yield Act("member", "asks to join", member=_member(body), details=(("protocols", protocols), *details))


def _joined(message: Message) -> Iterator[Act]:
    body = _body(message)
    members, leader = body.get("members") or (), body.get("leader")
    details = _details(body, "protocol_name", "leader")
    if members:
        details += (("members", len(members)),)
    what = "joined as leader" if leader and leader == body.get("member_id") else "joined"
    yield Act(
        "member",
        "could not join" if message.error_code else what,
        member=_member(body) or _member(_request_of(message)),
        generation=_generation(body.get("generation_id")),
        details=details,
    )


def _sync(message: Message) -> Iterator[Act]:
    body = _body(message)
    assigned = {
        str(each.get("member_id")): _assigned(each.get("assignment"))
        for each in body.get("assignments") or ()
        if isinstance(each, Mapping)
    }
    what = "hands out assignments" if assigned else "asks for its assignment"
    details: LineNotes = tuple(assigned.items())
    yield Act("member", what, member=_member(body), generation=_generation(body.get("generation_id")), details=details)


def _synced(message: Message) -> Iterator[Act]:
    request = _request_of(message)
    generation = _generation(request.get("generation_id"))
    if message.error_code:
        yield Act("member", "got no assignment", member=_member(request), generation=generation)
    else:
        details: LineNotes = (("assignment", _assigned(_body(message).get("assignment"))),)
        yield Act("member", "got its assignment", member=_member(request), generation=generation, details=details)


def _heartbeat(message: Message) -> Iterator[Act]:
    """A heartbeat that was refused; the others say nothing."""
    if message.error_code:
        request = _request_of(message)
        generation = _generation(request.get("generation_id"))
        yield Act("member", "heartbeat refused", member=_member(request), generation=generation)


def _leave(message: Message) -> Iterator[Act]:
    body = _body(message)
    members = [each for each in body.get("members") or () if isinstance(each, Mapping)]
    for each in members or [body]:
        yield Act("member", "leaves", member=_member(each), details=_details(each, "group_instance_id", "reason"))


def _new_heartbeat(message: Message) -> Iterator[Act]:
    """A heartbeat of the new protocols that joins, leaves, or tells what the member owns."""
    body = _body(message)
    epoch = body.get("member_epoch")
    if epoch == 0:
        names = ("subscribed_topic_names", "server_assignor", "instance_id", "rebalance_timeout_ms")
        yield Act("member", "asks to join", member=_member(body), generation=0, details=_details(body, *names))
    elif type(epoch) is int and epoch < 0:
        yield Act("member", "leaves" if epoch == -1 else "leaves for a while", member=_member(body))
    elif body.get("topic_partitions") is not None:
        owns: LineNotes = (("owns", _partitions(body["topic_partitions"], message)),)
        yield Act("member", "reports its partitions", member=_member(body), generation=epoch, details=owns)


def _new_answer(message: Message) -> Iterator[Act]:
    body, request = _body(message), _request_of(message)
    member = _member(body) or _member(request)
    if message.error_code:
        yield Act("member", "heartbeat refused", member=member, generation=_generation(request.get("member_epoch")))
        return
    epoch, assignment = body.get("member_epoch"), body.get("assignment")
    changed = epoch != request.get("member_epoch")
    if isinstance(assignment, Mapping) or (changed and type(epoch) is int and epoch > 0):
        details: LineNotes = ()
        if isinstance(assignment, Mapping):
            details = (("assignment", _partitions(assignment.get("topic_partitions") or (), message)),)
        what = "got its assignment" if isinstance(assignment, Mapping) else "got a new epoch"
        yield Act("member", what, member=member, generation=_generation(epoch), details=details)


def _member(body: Body) -> str | None:
    name = body.get("member_id") or body.get("group_instance_id")
    return name if isinstance(name, str) else None


def _generation(number: Any) -> int | None:
    return number if type(number) is int and number >= 0 else None


def _assigned(assignment: Any) -> str:
    """Partitions of an assignment of the classic protocol."""
    parts = assignment.get("assigned_partitions") if isinstance(assignment, Mapping) else None
    if not isinstance(parts, list):
        return "in an unknown format" if assignment else "nothing"
    return _listed((each.get("topic"), each.get("partitions")) for each in parts) or "nothing"


def _partitions(parts: Iterable[Any], message: Message) -> str:
    """Partitions of an assignment of the new protocols, whose topics are ids; by name where all were learned."""
    learned = message.topics[len(message.topics) - message.filled :]
    names: dict[Any, Any] = {}
    if len(learned) == len(message.topic_ids):
        names = dict(zip(message.topic_ids, learned, strict=True))
    told = ((each.get("topic_id"), each.get("partitions")) for each in parts if isinstance(each, Mapping))
    return _listed((names.get(topic, topic), numbers) for topic, numbers in told) or "nothing"


def _listed(parts: Iterable[tuple[Any, Any]]) -> str:
    return ", ".join(f"{topic}/{'+'.join(map(str, numbers or ()))}" for topic, numbers in parts)


# ---- transactions


def _init(message: Message) -> Iterator[Act]:
    """With the producer id, the coordinator ends what is open under this transactional id, and fences its producer."""
    if transaction := _body(message).get("transactional_id"):
        details = _details(_body(message), "transaction_timeout_ms", "producer_id", "producer_epoch")
        yield Act("renew", "asks for a producer id", transaction=transaction, details=details)


def _initialized(message: Message) -> Iterator[Act]:
    if transaction := _request_of(message).get("transactional_id"):
        what = "got no producer id" if message.error_code else "got a producer id"
        details = _details(_body(message), "producer_id", "producer_epoch")
        yield Act("renew", what, transaction=transaction, details=details)


def _adds_partitions(message: Message) -> Iterator[Act]:
    body = _body(message)
    single = body.get("v3_and_below_transactional_id") or body.get("transactional_id")
    told = [(single, body.get("v3_and_below_topics") or body.get("topics"))] if single else []
    told += [(each.get("transactional_id"), each.get("topics")) for each in body.get("transactions") or ()]
    for transaction, topics in told:
        parts = _listed((each.get("name"), each.get("partitions")) for each in topics or ())
        yield Act("transaction", "adds partitions", transaction=transaction, details=(("partitions", parts),))


def _adds_offsets(message: Message) -> Iterator[Act]:
    body = _body(message)
    if transaction := body.get("transactional_id"):
        details: LineNotes = (("group", body.get("group_id")),)
        yield Act("transaction", "adds the offsets of a group", transaction=transaction, details=details)


def _produces(message: Message) -> Iterator[Act]:
    if transaction := _body(message).get("transactional_id"):
        rows = [
            (row.get("topic") or row.get("topic_id"), row.get("partition"), row.get("records"))
            for row in message.partitions
        ]
        told = ", ".join(f"{topic}/{partition}: {records}" for topic, partition, records in rows)
        yield Act("transaction", "produces in it", transaction=transaction, details=(("records", told),))


def _ends(message: Message) -> Iterator[Act]:
    body = _body(message)
    if transaction := body.get("transactional_id"):
        what = "commit asked for" if body.get("committed") else "abort asked for"
        details = _details(body, "producer_id", "producer_epoch")
        yield Act("transaction", what, transaction=transaction, details=details)


def _ended(message: Message) -> Iterator[Act]:
    request = _request_of(message)
    if transaction := request.get("transactional_id"):
        word = "commit" if request.get("committed") else "abort"
        what = f"{word} refused" if message.error_code else {"commit": "committed", "abort": "aborted"}[word]
        details = _details(_body(message), "producer_id", "producer_epoch")
        yield Act("transaction" if message.error_code else "end", what, transaction=transaction, details=details)


def _answered(message: Message) -> Iterator[Act]:
    """An answer about a transaction that refuses something."""
    transaction = _request_of(message).get("transactional_id")
    if transaction and message.failed:
        yield Act("transaction", f"{message.name} refused", transaction=transaction)


def _markers(message: Message) -> Iterator[Act]:
    """Control records that consumers and followers get: how transactions ended."""
    for topic in _body(message).get("responses") or _body(message).get("topics") or ():
        name, topic_id = topic.get("topic"), topic.get("topic_id")
        for partition in topic.get("partitions") or ():
            records = partition.get("records")
            for batch in (records.get("batches") if isinstance(records, Mapping) else None) or ():
                for index, control in enumerate(batch.get("control_records") or ()):
                    details = (
                        ("producer_id", batch.get("producer_id")),
                        ("producer_epoch", batch.get("producer_epoch")),
                    )
                    what = f"{str(control.get('name')).lower()} marker read"
                    offset = batch.get("base_offset", 0) + index
                    number = partition.get("partition_index", partition.get("partition"))
                    yield Act("marker", what, name, topic_id, number, offset, offset, details=details)


def _writes_markers(message: Message) -> Iterator[Act]:
    """Markers that a coordinator has the leaders of partitions write."""
    for marker in _body(message).get("markers") or ():
        what = f"{'commit' if marker.get('transaction_result') else 'abort'} marker to be written"
        details = tuple((name, marker.get(name)) for name in ("producer_id", "producer_epoch"))
        for topic in marker.get("topics") or ():
            for partition in topic.get("partition_indexes") or ():
                yield Act("marker", what, topic.get("name"), None, partition, details=details)


Doing = Callable[[Message], Iterable[Act]]

_OF_REQUESTS: Final[dict[str, Doing]] = {
    "OffsetCommit": _commits,
    "TxnOffsetCommit": _commits,
    "ShareFetch": _share_acks,
    "ShareAcknowledge": _share_acks,
    "JoinGroup": _join,
    "SyncGroup": _sync,
    "LeaveGroup": _leave,
    **dict.fromkeys(_HEARTBEATS, _new_heartbeat),
    "InitProducerId": _init,
    "AddPartitionsToTxn": _adds_partitions,
    "AddOffsetsToTxn": _adds_offsets,
    "Produce": _produces,
    "EndTxn": _ends,
    "WriteTxnMarkers": _writes_markers,
}
_OF_ANSWERS: Final[dict[str, Doing]] = {
    "Fetch": _markers,
    "JoinGroup": _joined,
    "SyncGroup": _synced,
    "Heartbeat": _heartbeat,
    **dict.fromkeys(_HEARTBEATS, _new_answer),
    "InitProducerId": _initialized,
    "Produce": _answered,
    "AddPartitionsToTxn": _answered,
    "AddOffsetsToTxn": _answered,
    "TxnOffsetCommit": _answered,
    "EndTxn": _ended,
}
