"""The second reading of the captures: items in, the steps of records that were found out.

1. A record is known by its names; a commit belongs to each record before its offset, the first one of a group alone.
2. A copy in a retry or dead letter topic is followed under the names that it gets there.
3. What was sent without a name (NSQ) belongs to the delivery with the same topic and content, if it is the only one.
4. At most ``trace_steps_max`` steps of a record are kept; the others are counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final

from mqsniff.answers.trace.acting import Acts
from mqsniff.answers.trace.finding import TracedRecord
from mqsniff.answers.trace.identities import column_of, content_of, identities, value_at
from mqsniff.answers.trace.steps import MessageKey, StepKind, Trace, TraceStep, error_of, step_of
from mqsniff.limits import Limits
from mqsniff.model import (
    Act,
    CaptureInfo,
    ConnectionInfo,
    ExchangeItem,
    Item,
    Message,
    MessageItem,
    Pending,
    RecordBatch,
    RecordItem,
    RecordOrigin,
)
from mqsniff.tables.rows import Row, record_rows
from mqsniff.tables.values import Redaction

_KINDS: Final[Mapping[str, StepKind]] = {"commit": "committed", "ack": "acked", "nack": "nacked", "extend": "extended"}
_ENDED_MAX: Final = 256
_CLIENTS_MAX: Final = 100_000
_PRODUCED: Final = ("acks", "sequence", "attempts")


class RecordTracer:
    """Gathers the steps of some records."""

    def __init__(self, records: Sequence[TracedRecord], acts: Acts, shown: Redaction, limits: Limits) -> None:
        self._acts = acts
        self._shown = shown
        self._most = limits.trace_steps_max
        self.traces = {id(record): Trace("record", record.row) for record in records}
        self._records = {id(record): record for record in records}
        self._named: dict[tuple[Any, ...], TracedRecord] = {}
        self._contents: dict[tuple[str, str | None, bytes], TracedRecord] = {}
        self._protocols = {record.row["protocol"] for record in records}
        self._passed: set[tuple[int, str | None]] = set()
        """(record, group) that a commit has passed."""
        self._acked: set[tuple[int, str | None]] = set()
        """(record, group) of parts of batches that were acknowledged: later parts say it again."""
        self._unnamed: dict[int, list[TraceStep]] = {}
        """Sends with the content of a record that nothing else names."""
        self._groups: dict[tuple[str, str], set[str]] = {}
        """Groups of clients, by their address and id."""
        self._ended: dict[MessageKey, Pending] = {}
        """Requests that ended last: their records follow at once."""
        self._wanted: dict[str, set[Any]] = {}
        for record in records:
            self._name(record, record.names)
            self._contents[record.row["protocol"], record.topic, record.content] = record

    def take(self, item: Item, captures: list[CaptureInfo]) -> None:
        """Look at an item."""
        if isinstance(item, MessageItem):
            if item.message.protocol in self._protocols:
                self._learn_group(item.connection, item.message)
                self._message(item.connection, item.message)
        elif isinstance(item, ExchangeItem):
            self._exchange(item)
        elif isinstance(item, RecordItem) and item.message.protocol in self._protocols:
            self._batch(item, captures)

    def finished(self) -> list[Trace]:
        """The traces, as far as items told them."""
        for key, steps in self._unnamed.items():
            self._tell_unnamed(self._records[key], self.traces[key], steps)
        self._tell_groups()
        return list(self.traces.values())

    def _tell_unnamed(self, record: TracedRecord, trace: Trace, steps: list[TraceStep]) -> None:
        """Sends that only their content names (rule 3)."""
        if record.names and len(steps) > 1:
            trace.unseen.append(f"which of the {len(steps)} sends with this content it is")
            return
        if len(steps) > 1:
            trace.unseen.append(f"whether the {len(steps)} sends with this content are one record or several")
        for step in steps:
            if record.names:
                step.what += " (found by its content)"
            self._add(record, step)

    def _learn_group(self, connection: ConnectionInfo, message: Message) -> None:
        """Note which groups a client acts for: what it fetches does not say it in every protocol."""
        client_id = message.client_id or connection.identity.client_id
        if message.group is not None and client_id is not None and len(self._groups) < _CLIENTS_MAX:
            self._groups.setdefault((connection.client_ip, client_id), set()).add(message.group)

    def _tell_groups(self) -> None:
        """Give deliveries the group of their client, where it has one alone."""
        for step in chain.from_iterable(trace.steps for trace in self.traces.values()):
            if step.kind == "delivered" and step.group is None and step.connection is not None:
                groups = self._groups.get((step.connection.client_ip, step.client_id or ""), ())
                if len(groups) == 1:
                    (step.group,) = groups

    # ---- records

    def _exchange(self, item: ExchangeItem) -> None:
        """A request has ended: its records come next, when the message itself forgot its links."""
        pending = item.exchange.pending
        if pending is not None and pending.link == "answer":
            self._ended[MessageKey.of(item.connection, pending.frame)] = pending
            if len(self._ended) > _ENDED_MAX:
                del self._ended[next(iter(self._ended))]

    def _batch(self, item: RecordItem, captures: list[CaptureInfo]) -> None:
        message, batch = item.message, item.batch
        chosen = dict(self._chosen(message, batch))
        if not chosen and not self._acts.tells_origins(message.protocol):
            return
        copies = dict(self._copies(message, batch, chosen))
        if not chosen and not copies:
            return
        for index, row in enumerate(record_rows(item.connection, message, batch, captures, self._shown)):
            if index in copies:
                self._name(copies[index], identities(row))
                copies[index].lies(row)
                self._seen(copies[index], item, index, row, copied=row["direction"] == "produce")
            elif index in chosen:
                self._seen(chosen[index], item, index, row)

    def _chosen(self, message: Message, batch: RecordBatch) -> Iterator[tuple[int, TracedRecord]]:
        """(index, record) of the records of a batch that are traced."""
        for index in self._candidates(batch):
            told = {
                name: value_at(batch, name, index)
                for name in ("topic", "topic_id", "partition", "offset", "message_id", "unique_key", "sequence")
            }
            told |= {name: value_at(batch, name, index) for name in ("producer_id", "producer_epoch", "producer_name")}
            told |= {
                "record_index": value_at(batch, "record_index", index),
                "chunk_id": value_at(batch, "chunk_id", index),
            }
            if told["record_index"] is None:
                told["record_index"] = index
            told["protocol"] = message.protocol
            record = next((self._named[name] for name in identities(told) if name in self._named), None)
            if record is None and batch.constant.get("direction") == "produce" and not _is_named(told):
                topic = told["topic"] or next(iter(message.topics), None)
                record = self._contents.get((message.protocol, topic, content_of(batch, index)))
            if record is not None:
                yield index, record

    def _candidates(self, batch: RecordBatch) -> Iterable[int]:
        """Indexes of records that may be traced: one of their columns has a value that is looked for."""
        if batch.constant.get("direction") == "produce" and not _names_records(batch):
            return range(batch.count)
        found: set[int] = set()
        for name, wanted in self._wanted.items():
            column = column_of(batch, name)
            if column is None:
                if batch.constant.get(name) in wanted:
                    return range(batch.count)
            elif isinstance(column, range):
                found.update(column.index(value) for value in wanted if value in column)
            else:
                found.update(index for index, value in enumerate(column) if value in wanted)
        return sorted(found)

    def _copies(
        self, message: Message, batch: RecordBatch, chosen: Mapping[int, TracedRecord]
    ) -> Iterator[tuple[int, TracedRecord]]:
        """(index, record) of the records of a batch that are copies of traced ones."""
        if batch.headers is None or not self._acts.tells_origins(message.protocol):
            return
        for index in range(batch.count):
            if index in chosen and not batch.headers[index]:
                continue
            origin = self._acts.origin(message.protocol, dict(batch.headers[index]))
            record = self._origin(message.protocol, origin) if origin is not None else None
            if record is not None:
                yield index, record

    def _origin(self, protocol: str, origin: RecordOrigin) -> TracedRecord | None:
        names = (
            ("id", protocol, origin.message_id),
            ("unique", protocol, origin.message_id),
            ("at", protocol, origin.topic, origin.partition, origin.offset),
        )
        return next((self._named[name] for name in names if name[2] is not None and name in self._named), None)

    def _name(self, record: TracedRecord, names: Iterable[tuple[Any, ...]]) -> None:
        """Look for a record under these names from now on."""
        columns = {"id": "message_id", "at": "offset", "unique": "unique_key", "sequence": "sequence"}
        for name in names:
            record.names[name] = None
            self._named.setdefault(name, record)
            value = name[4] if name[0] == "sequence" and len(name) == 7 and isinstance(name[3], str) else name[-1]
            self._wanted.setdefault(columns[name[0]], set()).add(value)

    def _seen(self, record: TracedRecord, item: RecordItem, index: int, row: Row, *, copied: bool = False) -> None:
        """A record was sent or delivered."""
        connection, message, batch = item.connection, item.message, item.batch
        record.lies(row)
        if row["direction"] == "produce":
            step = _sent(connection, message, row, copied=copied)
            if (ended := self._ended.get(MessageKey.of(connection, message.frame))) is not None:
                step.pending = (ended,)
            if identities(row):
                self._add(record, step)
            else:
                self._unnamed.setdefault(id(record), []).append(step)
        else:
            self._acked.discard((id(record), message.group))
            step = _delivered(connection, message, batch, index, row)
            self._add(record, step)
        if (topic := row["topic"] or row["topic_id"]) != record.topic:
            step.topic = topic

    # ---- what messages do

    def _message(self, connection: ConnectionInfo, message: Message) -> None:
        for act in self._acts.of(message):
            for record in self._about(act, connection, message):
                self._act(record, connection, message, act)

    def _act(self, record: TracedRecord, connection: ConnectionInfo, message: Message, act: Act) -> None:
        if act.kind == "commit":
            if (id(record), message.group) in self._passed:
                return
            self._passed.add((id(record), message.group))
        if act.kind == "ack" and act.left:
            if (id(record), message.group) in self._acked:
                return
            self._acked.add((id(record), message.group))
        kind = _KINDS.get(act.kind, "end" if act.kind == "end" else "transaction")
        what = act.what if act.transaction is None or act.kind in _KINDS else f"transaction {act.what}"
        step = step_of(connection, message, kind, what, details=list(act.details), member=act.member)
        if act.transaction is not None:
            step.details.append(("transaction", act.transaction))
        step.error = error_of(message)
        step.pending = tuple(pending for pending in message.pending if pending.link == "answer")
        self._add(record, step)

    def _about(self, act: Act, connection: ConnectionInfo, message: Message) -> Iterator[TracedRecord]:
        """The records that an act is about."""
        if act.message_id is None and act.last is None and act.transaction is None and not act.before:
            return
        for record in self._records.values():
            if record.row["protocol"] == message.protocol and self._is_about(act, connection, message, record):
                yield record

    def _is_about(self, act: Act, connection: ConnectionInfo, message: Message, record: TracedRecord) -> bool:
        if act.kind == "end" and act.transaction in record.transactions:
            if message.frame.first_ts_ns < record.transactions[act.transaction]:
                return False
            del record.transactions[act.transaction]
            return True
        if act.kind in ("transaction", "end"):
            return act.message_id is not None and ("unique", message.protocol, act.message_id) in record.names
        if act.kind in ("begin", "member", "marker"):
            return False
        if record.topics and (act.topic or act.topic_id) and not {act.topic, act.topic_id} & record.topics.keys():
            return False
        if act.last is not None:
            return any(_holds(act, place, connection) for place in record.places)
        return any(_names(act, name) for name in record.names)

    def _add(self, record: TracedRecord, step: TraceStep) -> None:
        trace = self.traces[id(record)]
        if len(trace.steps) >= self._most:
            trace.left_out += 1
        else:
            trace.steps.append(step)


def _names(act: Act, name: tuple[Any, ...]) -> bool:
    """Whether an act is about the record of this name."""
    match name:
        case ("id", _, str(text)):
            return act.message_id is not None and _covers(act, text)
        case ("unique", _, str(text)):
            return act.message_id == text
    return False


def _holds(act: Act, place: tuple[Any, ...], connection: ConnectionInfo) -> bool:
    """Whether a place is among the offsets that an act is about."""
    topic, partition, offset, broker = place
    return bool(
        act.last is not None
        and topic in (act.topic, act.topic_id)
        and partition == act.partition
        and (0 if act.first is None else act.first) <= offset <= act.last
        and broker in (None, connection.server)
    )


def _covers(act: Act, text: str) -> bool:
    """Whether an act that names a message id is about the record of the id ``text``, maybe one of its batch."""
    named = act.message_id or ""
    if text == named:
        return True
    batch, _, index = text.rpartition(":")
    if batch == named and index.isdecimal():
        return int(index) not in act.left
    return act.before and _order(text) is not None and _order(named) is not None and _before(text, named)


def _before(text: str, named: str) -> bool:
    first, last = _order(text), _order(named)
    return first is not None and last is not None and first[:2] < last[:2] and first[2:3] == last[2:3]


def _order(text: str) -> tuple[int, ...] | None:
    """The numbers of an id that has an order: "ledger:entry:partition"."""
    parts = text.split(":")
    if len(parts) < 3 or not all(part.lstrip("-").isdecimal() for part in parts):
        return None
    return tuple(map(int, parts))


def _is_named(told: Mapping[str, Any]) -> bool:
    return any(told[name] is not None for name in ("offset", "message_id", "unique_key", "sequence"))


def _names_records(batch: RecordBatch) -> bool:
    """Whether a batch tells anything that names its records."""
    return any(
        name in batch.columns or batch.constant.get(name) is not None
        for name in ("offset", "message_id", "unique_key", "sequence")
    )


# ---- steps


def _sent(connection: ConnectionInfo, message: Message, row: Row, *, copied: bool) -> TraceStep:
    what = "copied to another topic" if copied else "produced"
    step = step_of(connection, message, "copied" if copied else "produced", what)
    step.details = [(name, row[name]) for name in ("sequence",) if row[name] is not None]
    step.details += [(label, value) for label, value in message.notes if label in _PRODUCED]
    step.told = [(name, row[name]) for name in ("offset", "message_id") if row[name] is not None]
    if row["transactional"]:
        step.details.append(("transactional", True))
    if row["deliver_at_ts"] is not None:
        step.details.append(("delayed_ms", (row["deliver_at_ts"] - step.ts_ns) // 1_000_000))
    step.pending = tuple(pending for pending in message.pending if pending.link == "answer")
    return step


def _delivered(connection: ConnectionInfo, message: Message, batch: RecordBatch, index: int, row: Row) -> TraceStep:
    reader = row["reader"]
    if row["left_out"] or (row["attempts"] is None and "attempts" in batch.columns):
        return step_of(connection, message, "followed", "in a batch that was delivered for its other records")
    if reader in (None, "consumer"):
        step = step_of(connection, message, "delivered", "delivered")
    else:
        step = step_of(connection, message, "followed", "fetched by a follower" if reader == "follower" else "fetched")
    if row["attempts"] is not None and row["attempts"] > 1:
        step.what += f" again (attempt {row['attempts']})"
    for name in ("aborted", "before_asked"):
        if row[name]:
            step.details.append((name, row[name]))
    asked = next((each for each in message.answered if each.link == "answer"), None)
    if asked is not None:
        step.details.append(("asked_before_ns", message.frame.first_ts_ns - asked.frame.last_ts_ns))
    settlements = [pending for pending in message.pending if pending.link == "settlement"]
    if len(settlements) == batch.count > 1 and index < len(settlements):
        settlements = [settlements[index]]
    step.pending = tuple(settlements[:1]) if len(settlements) == 1 else ()
    return step
