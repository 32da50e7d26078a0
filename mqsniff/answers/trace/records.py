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

from mqsniff.answers.trace.about import holds_place, names_record
from mqsniff.answers.trace.acting import Acts
from mqsniff.answers.trace.finding import TracedRecord
from mqsniff.answers.trace.identities import column_of, content_of, identities, names_records, naming_row
from mqsniff.answers.trace.recordsteps import delivered_step, sent_step
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
        self._held: set[tuple[int, str, str | None]] = set()
        """(record, connection, client id) of deliveries that were not acknowledged."""
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
            row = naming_row(message.protocol, batch, index)
            names = identities(row)
            record = next((self._named[name] for name in names if name in self._named), None)
            if record is None and not names and batch.constant.get("direction") == "produce":
                topic = row["topic"] or row["topic_id"]
                record = self._contents.get((message.protocol, topic, content_of(batch, index)))
            if record is not None:
                yield index, record

    def _candidates(self, batch: RecordBatch) -> Iterable[int]:
        """Indexes of records that may be traced: one of their columns has a value that is looked for."""
        if batch.constant.get("direction") == "produce" and not names_records(batch):
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
            value = name[4] if name[0] == "sequence" else name[-1]
            self._wanted.setdefault(columns[name[0]], set()).add(value)

    def _seen(self, record: TracedRecord, item: RecordItem, index: int, row: Row, *, copied: bool = False) -> None:
        """A record was sent or delivered."""
        connection, message, batch = item.connection, item.message, item.batch
        record.lies(row)
        if row["direction"] == "produce":
            ended = self._ended.get(MessageKey.of(connection, message.frame))
            step = sent_step(connection, message, row, ended, copied=copied)
            if identities(row):
                self._add(record, step)
            elif len(unnamed := self._unnamed.setdefault(id(record), [])) < self._most:
                unnamed.append(step)
        else:
            self._acked.discard((id(record), message.group))
            self._held.add((id(record), connection.connection_id, message.client_id))
            step = delivered_step(connection, message, batch, index, row)
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
        if act.kind == "ack":
            self._held.discard((id(record), connection.connection_id, message.client_id))
        kind = _KINDS.get(act.kind, "end" if act.kind == "end" else "transaction")
        what = act.what if act.transaction is None or act.kind in _KINDS else f"transaction {act.what}"
        step = step_of(connection, message, kind, what, details=list(act.details), member=act.member)
        step.place = act.topic, act.topic_id, act.partition
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
        over = act.kind == "end" or (act.kind == "renew" and bool(message.answered) and not message.failed)
        if over and act.transaction in record.transactions:
            if message.frame.first_ts_ns < record.transactions[act.transaction]:
                return False
            del record.transactions[act.transaction]
            return act.kind == "end"  # a new producer of its id is no step of the record
        if act.kind in ("transaction", "end"):
            return act.message_id is not None and ("unique", message.protocol, act.message_id) in record.names
        if act.kind in ("renew", "begin", "member", "marker"):
            return False
        if record.topics and (act.topic or act.topic_id) and not {act.topic, act.topic_id} & record.topics.keys():
            return False
        if act.last is not None:
            return any(holds_place(act, place, connection) for place in record.places)
        if act.before and act.message_id is None:
            return (id(record), connection.connection_id, message.client_id) in self._held
        return any(names_record(act, name) for name in record.names)

    def _add(self, record: TracedRecord, step: TraceStep) -> None:
        trace = self.traces[id(record)]
        if len(trace.steps) >= self._most:
            trace.left_out += 1
        else:
            trace.steps.append(step)
