"""Items in, rows of the tables out: dicts with every column of their table.

1. A row has all columns of ``schemas.TABLES`` in their order; unknown values are None.
2. Values are still typed: times are integer nanoseconds, bodies hold bytes and Secrets; sinks encode them.
3. Keys and values of records are redacted and cut here, before sinks see them.
4. Only rows of wanted tables are made.
5. A number, or a time in nanoseconds, beyond int64 is in ``beyond_int64`` under the name of its column, which is None
   then: the same in every output.
6. The values of busy tables come from ``rowvalues``.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import fields
from itertools import repeat
from operator import attrgetter
from typing import Any, Final, TypeAlias

from mqsniff.model import (
    ClosedItem,
    ConnectionInfo,
    Exchange,
    ExchangeItem,
    Identity,
    Item,
    Message,
    MessageItem,
    OpenedItem,
    PartitionItem,
    ProblemItem,
    RecordBatch,
    RecordItem,
    TopicItem,
    packet_capture,
    packet_number,
)
from mqsniff.tables.community import community_id
from mqsniff.tables.rowvalues import (
    EXCHANGE_COLUMNS,
    MESSAGE_COLUMNS,
    PARTITION_COLUMNS,
    SIDES,
    Captures,
    Row,
    exchange_values,
    fits,
    fitted,
    is_beyond,
    message_values,
    partition_values,
)
from mqsniff.tables.schemas import TableName, names_of
from mqsniff.tables.values import Redaction

__all__ = [  # the types of rows too
    "Captures",
    "Row",
    "connection_row",
    "exchange_row",
    "fits",
    "listed",
    "message_row",
    "problem_row",
    "record_columns",
    "record_constants",
    "record_rows",
    "rows_of",
]

_CONNECTION_COLUMNS: Final = names_of("connections")
_CONNECTION_FIELDS: Final = tuple(f.name for f in fields(ConnectionInfo) if f.name in _CONNECTION_COLUMNS)
_IDENTITY_FIELDS: Final = tuple(f.name for f in fields(Identity) if f.name in _CONNECTION_COLUMNS)
_connection_fields: Final = attrgetter(*_CONNECTION_FIELDS)
_identity_fields: Final = attrgetter(*_IDENTITY_FIELDS)
_NO_CONNECTION: Final[Row] = dict.fromkeys(_CONNECTION_COLUMNS)
_RECORD_COLUMNS: Final = names_of("records")
_NO_RECORD: Final[Row] = dict.fromkeys(_RECORD_COLUMNS)
_RECORD_NAMES: Final = frozenset(_RECORD_COLUMNS)
_RECORD_NUMBERS: Final = frozenset(names_of("records", "int64", "timestamp"))


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
    return dict(zip(MESSAGE_COLUMNS, message_values(connection, message, captures), strict=True))


def exchange_row(connection: ConnectionInfo, exchange: Exchange, captures: Captures) -> Row:
    """A row of ``exchanges``; its key is that of the request, or of the reply if there is no request."""
    return dict(zip(EXCHANGE_COLUMNS, exchange_values(connection, exchange, captures), strict=True))


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
    packet, ts_ns = frame.first_packet, frame.first_ts_ns
    common: Row = _NO_RECORD.copy()
    common["connection_id"] = connection.connection_id
    common["side"] = SIDES[frame.side]
    common["stream_offset"] = frame.offset
    common["client"] = connection.client
    common["server"] = connection.server
    common["client_id"] = message.client_id or connection.identity.client_id
    common["group"] = message.group
    common["capture"] = captures[packet_capture(packet)].name
    common["packet"] = packet_number(packet)
    common["ts"] = common["ts_ns"] = ts_ns
    common["protocol"] = message.protocol
    beyond: list[str] = []
    for name, value in batch.constant.items():
        if name in common:
            common[name] = value
            if name in _RECORD_NUMBERS and is_beyond(value):
                beyond.append(name)
    if not shown.payload:
        common["crc"] = None
    return fitted(common, beyond) if beyond else common


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
            return len(column) > 0 and (is_beyond(column[0]) or is_beyond(column[-1]))
        case list() | tuple():
            return any(map(is_beyond, column))
    return False


def _fitted_columns(
    batch: RecordBatch, columns: dict[str, Sequence[Any]], names: list[str]
) -> dict[str, Sequence[Any]]:
    """Move numbers beyond int64 from the columns ``names`` of a batch to ``beyond_int64`` (rule 5)."""
    constant = {name: value for name, value in batch.constant.items() if name in _RECORD_NUMBERS and is_beyond(value)}
    beyond: list[Row | None] = []
    for index in range(batch.count):
        own = {name: value for name in names if is_beyond(value := columns[name][index])}
        beyond.append(constant | own or None)
    fitting = {name: [None if is_beyond(value) else value for value in columns[name]] for name in names}
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
    row: Row = _NO_CONNECTION.copy()
    row.update(zip(_CONNECTION_FIELDS, _connection_fields(c), strict=True))
    row.update(zip(_IDENTITY_FIELDS, _identity_fields(identity), strict=True))
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


def _partition_rows(connection: ConnectionInfo, message: Message) -> Iterator[Row]:
    for values in partition_values(connection, message):
        yield dict(zip(PARTITION_COLUMNS, values, strict=True))


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
