"""Items in, rows of the tables out: dicts with every column of their table.

1. A row has all columns of ``schemas.TABLES`` in their order; unknown values are None.
2. Values are still typed: times are integer nanoseconds, bodies hold bytes and Secrets; sinks encode them.
3. Keys and values of records are redacted and cut here, before sinks see them.
4. Only rows of wanted tables are made.
5. A number, or a time in nanoseconds, beyond int64 is in ``beyond_int64`` under the name of its column, which is None
   then: the same in every output.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import fields
from itertools import chain, repeat
from typing import Any, Final, Literal, TypeAlias

from mqsniff.model import (
    CaptureInfo,
    ClosedItem,
    ConnectionInfo,
    Exchange,
    ExchangeItem,
    Frame,
    Identity,
    Item,
    Message,
    MessageItem,
    OpenedItem,
    PartitionItem,
    Pending,
    ProblemItem,
    RecordBatch,
    RecordItem,
    TopicItem,
    packet_capture,
    packet_number,
)
from mqsniff.tables.community import community_id
from mqsniff.tables.schemas import TableName, names_of
from mqsniff.tables.values import Redaction

Row: TypeAlias = dict[str, Any]
Captures: TypeAlias = Sequence[CaptureInfo]

_CONNECTION_COLUMNS: Final = names_of("connections")
_CONNECTION_FIELDS: Final = tuple(f.name for f in fields(ConnectionInfo) if f.name in _CONNECTION_COLUMNS)
_IDENTITY_FIELDS: Final = tuple(f.name for f in fields(Identity) if f.name in _CONNECTION_COLUMNS)
_PARTITION_COLUMNS: Final = names_of("partitions")
_RECORD_COLUMNS: Final = names_of("records")
_RECORD_NAMES: Final = frozenset(_RECORD_COLUMNS)
_RECORD_NUMBERS: Final = frozenset(names_of("records", "int64", "timestamp"))
_PARTITION_NUMBERS: Final = frozenset(names_of("partitions", "int64"))
_MESSAGE_NUMBERS: Final = ("error_code", "error_count", "version")
"""Columns that dissectors fill with numbers."""
_INT_MIN: Final = -(1 << 63)
_INT_MAX: Final = (1 << 63) - 1
_SETTLEMENT_COLUMNS: Final = ("attempts", "touches", "in_flight", "credit", "settled_by")
_EXCHANGE_NUMBERS: Final = (
    *("version", "wait_limit_ns", "throttle_ns", "error_code", "attempts", "touches", "in_flight", "credit"),
)


def rows_of(
    item: Item, captures: Captures, wanted: Container[TableName], shown: Redaction
) -> Iterator[tuple[TableName, Row]]:
    """The rows that an item makes in the wanted tables, each with its table's name.

    ``captures`` gives the names of inputs by their index; it may grow while items come.
    """
    for table, make in _MAKERS[type(item)]:
        if table in wanted:
            for row in make(item, captures, shown):
                yield table, row


def message_row(connection: ConnectionInfo, message: Message, captures: Captures) -> Row:
    """A row of ``messages``."""
    frame, identity = message.frame, connection.identity
    first, last = frame.first_packet, frame.last_packet
    row = {
        "connection_id": connection.connection_id,
        "side": frame.side.text,
        "stream_offset": frame.offset,
        "client": connection.client,
        "server": connection.server,
        "client_id": message.client_id or identity.client_id,
        "group": message.group,
        "capture": captures[packet_capture(first)].name,
        "first_packet": packet_number(first),
        "last_capture": captures[packet_capture(last)].name,
        "last_packet": packet_number(last),
        "ts": frame.first_ts_ns,
        "ts_ns": frame.first_ts_ns,
        "last_ts": frame.last_ts_ns,
        "size": frame.size,
        "protocol": message.protocol,
        "name": message.name,
        "version": message.version,
        "kind": message.kind,
        "correlation": message.correlation,
        "topics": message.topics or None,
        "topic_ids": message.topic_ids or None,
        "error_code": message.error_code,
        "error_name": message.error_name,
        "error_count": message.error_count,
        "body": message.body,
        "problems": len(message.problems),
        "beyond_int64": None,
    }
    return row if fits(message) else _fitted(row, _MESSAGE_NUMBERS)


def fits(message: Message) -> bool:
    """Whether all numbers of a message's row fit int64. Hot: once per message."""
    code, count, version = message.error_code, message.error_count, message.version
    return (
        (not code or _INT_MIN <= code <= _INT_MAX)
        and (not count or _INT_MIN <= count <= _INT_MAX)
        and (not version or _INT_MIN <= version <= _INT_MAX)
    )


def _fitted(row: Row, names: Iterable[str]) -> Row:
    """Move numbers beyond int64 from these columns of the row to ``beyond_int64``, in place (rule 5)."""
    beyond = {name: value for name in names if (value := row[name]) and _is_beyond(value)}
    if beyond:
        row |= dict.fromkeys(beyond)
        row["beyond_int64"] = beyond
    return row


def _is_beyond(value: Any) -> bool:
    """Whether a value is a number beyond int64."""
    return type(value) is int and not _INT_MIN <= value <= _INT_MAX


def exchange_row(connection: ConnectionInfo, exchange: Exchange, captures: Captures) -> Row:
    """A row of ``exchanges``; its key is that of the request, or of the reply if there is no request."""
    pending, answer = exchange.pending, exchange.answer
    request = pending.message if pending is not None else None
    named = request or answer
    asked_frame = pending.frame if pending is not None else None
    answer_frame = answer.frame if answer is not None else None
    frame = asked_frame or answer_frame
    extra = pending.extra if pending is not None else {}
    verdict = answer
    if pending is not None and (pending.awaits is not None or pending.last_answer is not answer):
        verdict = _verdict(pending, answer)
    row = {
        "connection_id": connection.connection_id,
        "side": frame.side.text if frame is not None else None,
        "stream_offset": frame.offset if frame is not None else None,
        **_who(connection, named),
        "link": pending.link if pending is not None else "answer",
        "protocol": named.protocol if named is not None else connection.protocol,
        "name": request.name if request is not None else None,
        "version": named.version if named is not None else None,
        "correlation": named.correlation if named is not None else None,
        "request_ts": asked_frame.first_ts_ns if asked_frame is not None else None,
        "response_ts": answer_frame.first_ts_ns if answer_frame is not None else None,
        **_half("request", asked_frame, captures),
        **_half("response", answer_frame, captures),
        "latency_ns": exchange.latency_ns,
        "total_ns": exchange.total_ns,
        "queue_ns": exchange.queue_ns,
        "wait_limit_ns": pending.wait_limit_ns if pending is not None else None,
        "held": pending.held if pending is not None else None,
        "throttle_ns": pending.throttle_ns if pending is not None else None,
        "status": exchange.status,
        "error_code": verdict.error_code if verdict is not None else None,
        "error_name": verdict.error_name if verdict is not None else None,
        "topics": _each_once("topics", request, answer),
        "response_name": answer.name if answer is not None else None,
        **{column: extra.get(column) for column in _SETTLEMENT_COLUMNS},
        "topic_ids": _each_once("topic_ids", request, answer),
        "timed_out": extra.get("timed_out"),
        "work_ns": exchange.work_ns,
        "beyond_int64": None,
    }
    return _fitted(row, _EXCHANGE_NUMBERS)


def _verdict(pending: Pending, answer: Message | None) -> Message | None:
    """The message whose error a row of ``exchanges`` shows: a later answer or a refusal may have one too."""
    later = pending.awaits.answer if pending.awaits is not None else pending.last_answer
    if later is not None and later.failed and (pending.awaits is not None or answer is None or not answer.failed):
        return later
    return answer


def record_rows(
    connection: ConnectionInfo, message: Message, batch: RecordBatch, captures: Captures, shown: Redaction
) -> Iterator[Row]:
    """Rows of ``records`` of one batch."""
    common = record_constants(connection, message, batch, captures, shown)
    columns = [(name, listed(column)) for name, column in record_columns(batch, shown).items()]
    for index, ((key, key_size), (value, value_size)) in enumerate(
        zip(_slices(batch, batch.keys), _slices(batch, batch.values), strict=True)
    ):
        row = common.copy()
        row["record_index"] = index
        for name, column in columns:
            row[name] = column[index]
        if key is not None:
            row["key"], row["key_encoding"] = shown.record_data(key, key_size)
        if value is not None:
            row["value_size"] = max(value_size, row["value_size"] or 0)
            row["value"], row["value_encoding"] = shown.record_data(value, row["value_size"])
        if batch.headers is not None:
            row["headers"] = shown.headers(batch.headers[index])
        yield row


def record_constants(
    connection: ConnectionInfo, message: Message, batch: RecordBatch, captures: Captures, shown: Redaction
) -> Row:
    """The values that all rows of ``records`` of one batch share; None in the other columns."""
    frame = message.frame
    common: Row = dict.fromkeys(_RECORD_COLUMNS)
    common |= _key_and_who(connection, message)
    common |= {
        "capture": captures[packet_capture(frame.first_packet)].name,
        "packet": packet_number(frame.first_packet),
        "ts": frame.first_ts_ns,
        "ts_ns": frame.first_ts_ns,
        "protocol": message.protocol,
    }
    common |= {name: value for name, value in batch.constant.items() if name in common}
    if not shown.payload:
        common["crc"] = None
    return _fitted(common, [name for name in batch.constant if name in _RECORD_NUMBERS])


def record_columns(batch: RecordBatch, shown: Redaction) -> dict[str, Sequence[Any]]:
    """The columns of ``records`` that differ inside a batch; decoded records of internal topics are payload too.

    If the payload is redacted, its hashes are columns instead, and checksums over it, hashes without a key, are not.
    """
    hidden = () if shown.payload else ("decoded", "crc")
    columns = {name: column for name, column in batch.columns.items() if name in _RECORD_NAMES and name not in hidden}
    if "ordering_key" in columns:
        columns |= _ordering_keys(columns["ordering_key"], shown)
    if not shown.payload:
        columns["key_hmac_sha256"] = [_hash(shown, data, size) for data, size in _slices(batch, batch.keys)]
        sizes = columns.get("value_size") or repeat(batch.constant.get("value_size"), batch.count)
        slices = zip(_slices(batch, batch.values), sizes, strict=True)
        columns["value_hmac_sha256"] = [_hash(shown, data, max(size, whole or 0)) for (data, size), whole in slices]
    beyond = [name for name, column in columns.items() if name in _RECORD_NUMBERS and _exceeds(column)]
    return _fitted_columns(batch, columns, beyond) if beyond else columns


def _ordering_keys(keys: Sequence[bytes | None], shown: Redaction) -> dict[str, Sequence[Any]]:
    """(ordering keys as they are shown, their encodings)."""
    pairs = [(None, None) if key is None else shown.record_data(key, len(key)) for key in keys]
    return {"ordering_key": [key for key, _ in pairs], "ordering_key_encoding": [encoding for _, encoding in pairs]}


def _exceeds(column: Sequence[Any]) -> bool:
    """Whether a column holds a number beyond int64; arrays cannot, and of a range only the ends are checked."""
    match column:
        case range():
            return len(column) > 0 and (_is_beyond(column[0]) or _is_beyond(column[-1]))
        case list() | tuple():
            return any(map(_is_beyond, column))
    return False


def _fitted_columns(
    batch: RecordBatch, columns: dict[str, Sequence[Any]], names: list[str]
) -> dict[str, Sequence[Any]]:
    """Move numbers beyond int64 from the columns ``names`` of a batch to ``beyond_int64`` (rule 5)."""
    constant = {name: value for name, value in batch.constant.items() if name in _RECORD_NUMBERS and _is_beyond(value)}
    beyond: list[Row | None] = []
    for index in range(batch.count):
        own = {name: value for name in names if _is_beyond(value := columns[name][index])}
        beyond.append(constant | own or None)
    fitting = {name: [None if _is_beyond(value) else value for value in columns[name]] for name in names}
    return columns | fitting | {"beyond_int64": beyond}


def problem_row(noticed: ProblemItem, captures: Captures) -> Row:
    """A row of ``problems``; the key is that of its message, if any; packet 0 means the whole capture."""
    connection, problem, message, packet = noticed.connection, noticed.problem, noticed.message, noticed.packet
    side, offset = problem.side, problem.offset
    if message is not None:
        side, offset = message.frame.side, message.frame.offset
    return {
        "connection_id": connection.connection_id if connection is not None else None,
        "side": side.text if side is not None else None,
        "stream_offset": offset,
        **_who(connection, message),
        "capture": captures[packet_capture(packet)].name if packet is not None else None,
        "packet": (packet_number(packet) or None) if packet is not None else None,
        "ts": noticed.ts_ns,
        "ts_ns": noticed.ts_ns,
        "severity": problem.severity,
        "kind": problem.kind,
        "path": problem.path or None,
        "detail": problem.detail,
        "size": problem.size,
        "protocol": connection.protocol if connection is not None else None,
        "name": message.name if message is not None else None,
    }


def connection_row(connection: ConnectionInfo, captures: Captures) -> Row:
    """A row of ``connections``."""
    c, identity = connection, connection.identity
    row: Row = dict.fromkeys(_CONNECTION_COLUMNS)
    row |= {name: getattr(c, name) for name in _CONNECTION_FIELDS}
    row |= {name: getattr(identity, name) for name in _IDENTITY_FIELDS}
    return row | {
        "client": c.client,
        "server": c.server,
        "community_id": community_id(c.client_ip, c.client_port, c.server_ip, c.server_port),
        "first_ts": c.first_ts_ns,
        "last_ts": c.last_ts_ns,
        "close_reason": identity.close_reason or c.close_reason,
        "tunnel": c.tunnel or None,
        "capture": captures[packet_capture(c.first_packet)].name,
        "first_packet": packet_number(c.first_packet),
    }


def _who(connection: ConnectionInfo | None, message: Message | None) -> Row:
    """Client and group: the client of the connection, but the group of the message, since a client may use many."""
    if connection is None:
        return {"client": None, "server": None, "client_id": None, "group": None}
    identity = connection.identity
    return {
        "client": connection.client,
        "server": connection.server,
        "client_id": (message.client_id if message is not None else None) or identity.client_id,
        "group": message.group if message is not None else identity.group,
    }


def _key_and_who(connection: ConnectionInfo, message: Message) -> Row:
    return {
        "connection_id": connection.connection_id,
        "side": message.frame.side.text,
        "stream_offset": message.frame.offset,
        **_who(connection, message),
    }


def _partition_rows(connection: ConnectionInfo, message: Message) -> Iterator[Row]:
    common: Row = dict.fromkeys(_PARTITION_COLUMNS)
    common |= _key_and_who(connection, message)
    common |= {
        "ts": message.frame.first_ts_ns,
        "protocol": message.protocol,
        "name": message.name,
        "kind": message.kind,
    }
    for partition in message.partitions:
        row = common | {name: value for name, value in partition.items() if name in common}
        yield _fitted(row, [name for name in partition if name in _PARTITION_NUMBERS])


def _half(which: str, frame: Frame | None, captures: Captures) -> Row:
    """Position and size of one half of an exchange."""
    if frame is None:
        return {f"{which}_{column}": None for column in ("capture", "packet", "size", "stream_offset")}
    return {
        f"{which}_capture": captures[packet_capture(frame.first_packet)].name,
        f"{which}_packet": packet_number(frame.first_packet),
        f"{which}_size": frame.size,
        f"{which}_stream_offset": frame.offset,
    }


def _each_once(
    field: Literal["topics", "topic_ids"], request: Message | None, answer: Message | None
) -> tuple[str, ...] | None:
    """Topics or topic ids of a request and its answer, each once."""
    named = (getattr(message, field) for message in (request, answer) if message is not None)
    return tuple(dict.fromkeys(chain.from_iterable(named))) or None


def listed(column: Sequence[Any]) -> Sequence[Any]:
    """A column as Python values, also if the dissector made a NumPy array."""
    return column.tolist() if hasattr(column, "tolist") else column


def _slices(
    batch: RecordBatch, spans: tuple[Sequence[int], Sequence[int]] | None
) -> Iterator[tuple[bytes | None, int]]:
    """(captured bytes or None for null, size on the wire) of every record's key or value."""
    if spans is None:
        yield from repeat((None, 0), batch.count)
        return
    data = batch.data
    for start, stop in zip(listed(spans[0]), listed(spans[1]), strict=True):
        yield (None, 0) if start < 0 else (data[start:stop], stop - start)


def _hash(shown: Redaction, data: bytes | None, size: int) -> str | None:
    """The hash of a key or value; None unless all of it was captured."""
    return None if data is None or len(data) < size else shown.hash(data)


def _topic_row(taught: TopicItem) -> Row:
    return {"protocol": taught.protocol, "topic_id": taught.topic_id, "name": taught.name, "first_ts": taught.ts_ns}


_Make: TypeAlias = Callable[[Any, Captures, Redaction], Iterable[Row]]
_MAKERS: Final[dict[type[Item], tuple[tuple[TableName, _Make], ...]]] = {
    OpenedItem: (),
    MessageItem: (
        ("messages", lambda item, captures, _: (message_row(item.connection, item.message, captures),)),
        ("partitions", lambda item, _, __: _partition_rows(item.connection, item.message)),
    ),
    PartitionItem: (("partitions", lambda item, _, __: _partition_rows(item.connection, item.message)),),
    ExchangeItem: (("exchanges", lambda item, captures, _: (exchange_row(item.connection, item.exchange, captures),)),),
    RecordItem: (
        (
            "records",
            lambda item, captures, shown: record_rows(item.connection, item.message, item.batch, captures, shown),
        ),
    ),
    ProblemItem: (("problems", lambda item, captures, _: (problem_row(item, captures),)),),
    TopicItem: (("topics", lambda item, _, __: (_topic_row(item),)),),
    ClosedItem: (("connections", lambda item, captures, _: (connection_row(item.connection, captures),)),),
}
