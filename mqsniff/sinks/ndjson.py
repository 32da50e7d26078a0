"""Rows as NDJSON: one JSON object per line, ``table`` first, null columns left out.

1. Times are RFC 3339 text with nine digits and Z; a time outside the years 1 to 9999 is left out (``ts_ns`` stays).
2. Keys and values of records are text; base64 if their ``*_encoding`` says so.
3. Other values are written by the rules of ``tables.values``.
4. The line of a message is made without a dict, byte for byte the line that ``ndjson_line`` makes of the row of
   ``message_row``. That slow twin makes it if a text is not Unicode, a time has no name, a number fits no column, or
   the serialiser refuses the body. Lines of exchanges and problems are made like this by ``exchangelines``.
5. Parts that many messages share (endpoints, message names) are rendered once and cached, unless they are long: most of
   them come from the traffic.

Hot: 200,000 small messages a second on one core, lines made and written. A small message takes 4 µs, by its row 8
(``benchmarks/run.py kafka-messages`` shows the whole run).
"""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from typing import BinaryIO, Final

from mqsniff.model import (
    ConnectionInfo,
    ExchangeItem,
    Item,
    Message,
    MessageItem,
    ProblemItem,
    RecordItem,
    packet_capture,
    packet_number,
)
from mqsniff.sinks.exchangelines import exchange_line, problem_line
from mqsniff.sinks.lineparts import LONG, REMEMBERED, cell, ends, place, text, time
from mqsniff.sinks.recordlines import RecordLines
from mqsniff.tables.rows import Captures, Row, fits, rows_of
from mqsniff.tables.schemas import TABLES, TableName, names_of
from mqsniff.tables.times import rfc3339
from mqsniff.tables.values import Redaction, base64

# ---- lines of messages


def message_line(connection: ConnectionInfo, message: Message, captures: Captures, shown: Redaction) -> bytes | None:
    """The line with its newline; None if it has to be made from the row (rule 4)."""
    frame = message.frame
    body = shown.sure_json(message.body, finite=message.finite)
    ts_ns = str(frame.first_ts_ns)
    ts = ended = time(ts_ns)
    if frame.last_ts_ns != frame.first_ts_ns:
        ended = time(str(frame.last_ts_ns))
    if body is None or ts is None or ended is None or not fits(message):
        return None
    try:
        where = captures[packet_capture(frame.last_packet)].name
        head = (
            f"{place('messages', connection.connection_id, frame.side)}{frame.offset}"
            f'{_who_of(connection, message, captures)}{packet_number(frame.first_packet)},"last_capture":{text(where)}'
            f',"last_packet":{packet_number(frame.last_packet)},"ts":"{ts}","ts_ns":{ts_ns}'
            f',"last_ts":"{ended}","size":{frame.size}{_what_of(message)}{_about(message)},"body":'
        ).encode()
    except TypeError:  # a lone surrogate
        return None
    return b"".join((head, body, _end(len(message.problems))))


@lru_cache(REMEMBERED)
def _end(problems: int) -> bytes:
    return b',"problems":%d}\n' % problems


def _who_of(connection: ConnectionInfo, message: Message, captures: Captures) -> str:
    """The columns ``client`` to ``first_packet``, up to the number of the last one."""
    identity = connection.identity
    client_id, group = message.client_id or identity.client_id, message.group
    who = _who if len(client_id or "") + len(group or "") < LONG else _who.__wrapped__
    return who(
        connection.client_ip,
        connection.client_port,
        connection.server_ip,
        connection.server_port,
        client_id,
        group,
        captures[packet_capture(message.frame.first_packet)].name,
    )


@lru_cache(REMEMBERED)
def _who(  # noqa: PLR0917  # the key of what is remembered
    client_ip: str,
    client_port: int,
    server_ip: str,
    server_port: int,
    client_id: str | None,
    group: str | None,
    capture: str,
) -> str:
    who = ends.__wrapped__(client_ip, client_port, server_ip, server_port, client_id, group)
    return f'{who},"capture":{text(capture)},"first_packet":'


def _what_of(message: Message) -> str:
    """The columns ``protocol`` to ``kind``."""
    what = _what if len(message.name) < LONG else _what.__wrapped__
    return what(message.protocol, message.name, message.version, message.kind)


@lru_cache(REMEMBERED)
def _what(protocol: str, name: str, version: int | None, kind: str) -> str:
    number = "" if version is None else f',"version":{version}'
    return f',"protocol":{text(protocol)}{cell("name", name)}{number},"kind":{text(kind)}'


def _about(message: Message) -> str:
    """The columns ``correlation`` to ``error_count``."""
    parts = [cell("correlation", message.correlation)]
    if message.topics:
        parts.append(cell("topics", message.topics))
    if message.topic_ids:
        parts.append(cell("topic_ids", message.topic_ids))
    if message.error_code is not None:
        parts.append(f',"error_code":{message.error_code}')
    if message.error_name is not None:
        parts.append(cell("error_name", message.error_name))
    if message.error_count is not None:
        parts.append(f',"error_count":{message.error_count}')
    return "".join(parts)


# ---- rows and the sink

FEW: Final = 3
"""For batches of up to this many records, making rows one by one is faster."""
_TIMES: Final = {table: names_of(table, "timestamp") for table in TABLES}
_HEADS: Final = {table: f'{{"table":"{table}",'.encode() for table in TABLES}
_PAYLOADS: Final = {table: names_of(table, "payload") for table in TABLES}
_OBJECTS: Final = frozenset(("body", "headers", "decoded", "beyond_int64"))


class NdjsonSink:
    """Writes the rows of the wanted tables to a binary stream."""

    def __init__(self, stream: BinaryIO, captures: Captures, wanted: Collection[TableName], shown: Redaction) -> None:
        self._stream = stream
        self._captures = captures
        self._wanted = frozenset(wanted)
        self._shown = shown
        self._records = RecordLines(captures, shown)
        self._besides_messages = self._wanted - {"messages"}
        self._messages = "messages" in wanted

    def write(self, item: Item) -> None:
        """Write an item's rows."""
        wanted = self._wanted
        if self._messages and isinstance(item, MessageItem):
            line = message_line(item.connection, item.message, self._captures, self._shown)
            if line is not None:
                if self._records.waits:
                    self._stream.writelines(self._records.rest())
                self._stream.write(line)
                if not item.message.partitions:
                    return
                wanted = self._besides_messages
        elif isinstance(item, ExchangeItem | ProblemItem) and (line := self._line(item)) is not None:
            if line:
                if self._records.waits:
                    self._stream.writelines(self._records.rest())
                self._stream.write(line)
            return
        if isinstance(item, RecordItem) and (item.batch.count > FEW or self._records.waits):
            if "records" in self._wanted:
                self._stream.writelines(self._records.add(item.connection, item.message, item.batch))
            return
        for table, row in rows_of(item, self._captures, wanted, self._shown):
            if self._records.waits:
                self._stream.writelines(self._records.rest())
            self._stream.write(ndjson_line(table, row, self._shown))

    def _line(self, item: ExchangeItem | ProblemItem) -> bytes | None:
        """The line of an exchange or a problem, empty if it is not wanted; None: its row has to be made."""
        if isinstance(item, ExchangeItem):
            return exchange_line(item, self._captures) if "exchanges" in self._wanted else b""
        return problem_line(item, self._captures) if "problems" in self._wanted else b""

    @property
    def waiting(self) -> int:
        """Lines of records that were not written yet."""
        return self._records.rows

    def tick(self) -> None:
        """Write what waits and flush, so that the reader of a pipe sees it."""
        self._stream.writelines(self._records.rest())
        self._stream.flush()


def ndjson_line(table: TableName, row: Row, shown: Redaction) -> bytes:
    """A row as a line with its newline."""
    line = {name: value for name, value in row.items() if value is not None}
    for name in _TIMES[table]:
        if name in line:
            line[name] = rfc3339(line[name])
            if line[name] is None:
                del line[name]
    for name in _PAYLOADS[table]:
        if name in line:
            data = line[name]
            line[name] = base64(data) if line[f"{name}_encoding"] == "base64" else data.decode()
    return _HEADS[table] + shown.row_json(line, _OBJECTS)[1:] + b"\n"
