"""Items as text for people: a line a message, one at a connection's open and at its close, problems as lines.

1. Columns: time, connection (client left, server right, an arrow for who sent it), protocol, name; then what matters.
2. In a pipe a line depends on the items before it alone; only a terminal cuts lines to its width and colours them.
3. Under a message stand its body (``-v``) and its records, which are never cut to the width.
4. Lines come in the order in which the packets released them, a message with the time of its first byte. Other lines
   never go back in time: one that is about an earlier moment is stamped as the line before it, and names the moment.
5. Network events (retransmissions, zero windows, stalls) are counted in the line at the close; lines of their own come
   on request only.
6. A narrow terminal gets ports instead of endpoints, if no other open connection has the same two; the line at the open
   has both ends in full.
7. Names of connections are padded to the widest so far, up to ``_WIDTH_MAX``, so that the next column is aligned.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO, Final, NamedTuple, assert_never

from mqsniff.model import (
    NETWORK_KINDS,
    UNMET,
    ClosedItem,
    ConnectionInfo,
    ExchangeItem,
    Item,
    Message,
    MessageItem,
    OpenedItem,
    PartitionItem,
    ProblemItem,
    RecordItem,
    Side,
    TopicItem,
)
from mqsniff.sinks.clock import Clock, TimeMode
from mqsniff.sinks.lines import close_name, close_parts, message_parts, packets, problem_parts, record_text, row_text
from mqsniff.sinks.paint import Paint, Role, TextPart
from mqsniff.sinks.tree import tree_lines
from mqsniff.tables.escape import safe
from mqsniff.tables.rows import Captures, record_rows, rows_of
from mqsniff.tables.schemas import STREAM_TABLES, TableName
from mqsniff.tables.times import SECOND_NS
from mqsniff.tables.values import Redaction

# ---- names of connections

_WIDTH_MAX: Final = 48
_ARROWS: Final[dict[Side | None, str]] = {None: "-", Side.CLIENT: ">", Side.SERVER: "<"}


class _Ends(NamedTuple):
    """How a connection is shown, for as long as its client stays who it is."""

    client: tuple[str, int]
    ports: tuple[int, int]
    left: str
    right: str


class Labels:
    """Remembers the open connections."""

    def __init__(self, *, narrow: bool) -> None:
        self._narrow = narrow
        self._ends: dict[str, _Ends] = {}
        self._ports: dict[tuple[int, int], str] = {}
        self._width = 0

    def of(self, connection: ConnectionInfo, side: Side | None) -> str:
        """The name with the arrow of a side, or with a dash for none."""
        ends = self._ends.get(connection.connection_id)
        if ends is None or ends.client != (connection.client_ip, connection.client_port):
            self.forget(connection)
            ends = self._learn(connection)
        return f"{ends.left} {_ARROWS[side]} {ends.right}".ljust(self._width)

    def forget(self, connection: ConnectionInfo) -> None:
        """The connection has ended, or its sides turned out the other way round."""
        ends = self._ends.pop(connection.connection_id, None)
        if ends is not None and self._ports.get(ends.ports) == connection.connection_id:
            del self._ports[ends.ports]

    def _learn(self, connection: ConnectionInfo) -> _Ends:
        ports = connection.client_port, connection.server_port
        left, right = connection.client, connection.server
        if self._narrow and self._ports.setdefault(ports, connection.connection_id) == connection.connection_id:
            left, right = map(str, ports)
        ends = _Ends((connection.client_ip, connection.client_port), ports, left, right)
        self._ends[connection.connection_id] = ends
        self._width = max(self._width, min(len(left) + len(right) + 3, _WIDTH_MAX))
        return ends


# ---- the sink

NARROW: Final = 110
"""Terminals with fewer columns get ports for endpoints."""

_SHOWN_NS: Final = 1_000_000
"""A moment is named where the stamp lies so far behind it."""
_LATE_NS: Final = SECOND_NS
"""A handshake that takes so long is told with its beginning."""
_INDENT: Final = 4
_NAME_WIDTH_MAX: Final = 20
_ROLE_OF_SIDE: Final[dict[Side | None, Role]] = {None: "connection", Side.CLIENT: "sent", Side.SERVER: "answered"}


@dataclass(frozen=True, slots=True)
class TextOptions:
    """How text output looks."""

    time: TimeMode = "utc"
    body: bool = False
    records: bool = False
    network: bool = False
    """Whether lines tell what the network did."""
    color: bool = False
    width: int | None = None
    """Columns of the terminal; None for a pipe."""
    encoding: str = "utf-8"
    tables: Collection[TableName] = STREAM_TABLES
    shown: Redaction = field(default_factory=Redaction)

    @property
    def narrow(self) -> bool:
        """Whether there is no room for endpoints in every line."""
        return self.width is not None and self.width < NARROW


class TextSink:
    """Writes lines to a binary stream."""

    def __init__(self, stream: BinaryIO, captures: Captures, options: TextOptions) -> None:
        self._stream = stream
        self._captures = captures
        self._options = options
        self._rest = frozenset(options.tables) - {*STREAM_TABLES}
        self._clock = Clock(options.time)
        self._paint = Paint(color=options.color, width=options.width)
        self._labels = Labels(narrow=options.narrow)
        self._now_ns: int | None = None
        """The time of the last line."""
        self._protocol_width = 3
        self._name_width = 9

    def write(self, item: Item) -> None:
        """Write the lines of an item."""
        tables = self._options.tables
        match item:
            case MessageItem(connection, message, latency_ns):
                if "messages" in tables:
                    self._message(connection, message, latency_ns)
            case ProblemItem():
                if "problems" in tables and (self._options.network or item.problem.kind not in NETWORK_KINDS):
                    self._problem(item)
            case OpenedItem(connection, ts_ns):
                if "connections" in tables:
                    self._opened(connection, ts_ns)
            case ClosedItem(connection):
                self._closed(connection)
            case PartitionItem() | ExchangeItem() | RecordItem() | TopicItem():
                pass
            case _:
                assert_never(item)
        if self._rest:
            self._rows(item)

    def tick(self) -> None:
        """Let a reader see what was written so far."""
        self._stream.flush()

    def _opened(self, connection: ConnectionInfo, ts_ns: int) -> None:
        parts: list[TextPart] = []
        if self._options.narrow:
            parts = [("tcp", f"  {connection.client} - {connection.server}")]
        stamp_ns = max(ts_ns, ts_ns if self._now_ns is None else self._now_ns)
        first_ns = connection.first_ts_ns
        if stamp_ns - ts_ns >= _SHOWN_NS or stamp_ns - first_ns >= _LATE_NS:
            parts.append(("tcp", f"  since {self._clock.mention(first_ns, stamp_ns)}"))
        self._line(stamp_ns, connection, None, protocol="tcp", name="open", parts=parts, role="tcp")

    def _message(self, connection: ConnectionInfo, message: Message, latency_ns: int | None) -> None:
        frame, shown = message.frame, self._options.shown
        name = message.name if message.version is None else f"{message.name} v{message.version}"
        parts = message_parts(message, latency_ns, shown)
        self._name_width = max(self._name_width, min(len(name), _NAME_WIDTH_MAX))
        self._line(frame.first_ts_ns, connection, frame.side, protocol=message.protocol, name=safe(name), parts=parts)
        if self._options.body:
            self._under(f"{packets(frame)}, stream offset {frame.offset}")
            for line in tree_lines(message.body, shown, _INDENT):
                self._put(line)
        if self._options.records:
            for batch in message.records:
                for row in record_rows(connection, message, batch, self._captures, shown):
                    self._under(record_text(row, shown))

    def _problem(self, noticed: ProblemItem) -> None:
        connection, problem = noticed.connection, noticed.problem
        protocol = connection.protocol if connection is not None else "input"
        side = noticed.message.frame.side if noticed.message is not None else problem.side
        self._later_line(
            noticed.ts_ns,
            connection,
            side,
            protocol=protocol,
            name=f"! {problem.kind}",
            parts=problem_parts(noticed, self._captures),
            role=problem.severity,
        )

    def _closed(self, connection: ConnectionInfo) -> None:
        if "connections" in self._options.tables:
            parts = close_parts(connection)
            self._later_line(
                connection.last_ts_ns,
                connection,
                None,
                protocol="tcp" if connection.outcome in UNMET else connection.protocol,
                name=close_name(connection),
                parts=parts,
                role="tcp",
            )
        self._labels.forget(connection)

    def _rows(self, item: Item) -> None:
        """Lines of the tables that have no form of their own here."""
        for table, row in rows_of(item, self._captures, self._rest, self._options.shown):
            ts_ns = row.get("ts") or row.get("response_ts") or row.get("request_ts") or row.get("first_ts")
            connection = None if isinstance(item, TopicItem) else item.connection
            text = row_text(table, row, self._options.shown)
            self._later_line(
                ts_ns,
                connection,
                None,
                protocol=row["protocol"],
                name=f"{table}:",
                parts=[("detail", text)],
                role="tcp",
            )

    def _later_line(
        self,
        ts_ns: int | None,
        connection: ConnectionInfo | None,
        side: Side | None,
        *,
        protocol: str,
        name: str,
        parts: Sequence[TextPart],
        role: Role,
    ) -> None:
        """A line about a moment that may lie before the line before it."""
        stamp_ns = ts_ns
        if ts_ns is not None and self._now_ns is not None and ts_ns < self._now_ns:
            stamp_ns = self._now_ns
            if stamp_ns - ts_ns >= _SHOWN_NS:
                parts = [(role, f"  at {self._clock.mention(ts_ns, stamp_ns)}"), *parts]
        self._line(stamp_ns, connection, side, protocol=protocol, name=name, parts=parts, role=role)

    def _line(
        self,
        ts_ns: int | None,
        connection: ConnectionInfo | None,
        side: Side | None,
        *,
        protocol: str,
        name: str,
        parts: Sequence[TextPart] = (),
        role: Role = "name",
    ) -> None:
        """One line; the columns grow with what they have to hold and never shrink."""
        if ts_ns is None:
            stamp = ""
        else:
            self._now_ns = ts_ns
            if (day := self._clock.day(ts_ns)) is not None:
                self._put(day)
            stamp = self._clock.stamp(ts_ns) + "  "
        label = self._labels.of(connection, side) + "  " if connection is not None else ""
        self._protocol_width = max(self._protocol_width, len(protocol))
        head: list[TextPart] = [
            ("time", stamp),
            (_ROLE_OF_SIDE[side], label),
            ("tcp", f"{protocol:<{self._protocol_width}}  "),
            (role, f"{name:<{self._name_width}}" if parts else name),
        ]
        self._put(self._paint.line([*head, *parts]))

    def _under(self, text: str) -> None:
        self._put(" " * _INDENT + text)

    def _put(self, line: str) -> None:
        self._stream.write(line.encode(self._options.encoding, "backslashreplace") + b"\n")
