"""Items as text for people: a line a message, one at a connection's open and at its close, problems as lines.

1. Columns: time, connection (client left, server right, an arrow for its sender), protocol, name; then what matters,
   the most important first: error or missing answer, latency, topics, group, the rest.
2. In a pipe a line depends on the items before it alone; only a terminal cuts lines to its width, or wraps them, and
   colours them.
3. Under a message stand its body (``-v``) and its records, which are never cut to the width.
4. Lines come in the order in which the packets released them, a message with the time of its first byte. Other lines
   never go back in time: one that is about an earlier moment is stamped as the line before it, and names the moment.
5. Network events (retransmissions, zero windows, stalls) are counted in the line at the close; lines of their own come
   on request only.
6. A request that got no answer has a line at the moment when that is known: a later answer, or the connection's end.
7. Equal errors in a row are folded (``folding``), unless bodies or records stand under the messages.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import partial
from typing import BinaryIO, Final, assert_never

from mqsniff.model import (
    NETWORK_KINDS,
    UNMET,
    ClosedItem,
    ConnectionInfo,
    Exchange,
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
    packet_number,
)
from mqsniff.sinks.clock import Clock
from mqsniff.sinks.folding import RepeatedError, answer_key, request_key
from mqsniff.sinks.labels import Labels
from mqsniff.sinks.lines import (
    close_name,
    close_parts,
    error_text,
    message_parts,
    missing_parts,
    packets,
    problem_parts,
    record_text,
)
from mqsniff.sinks.messagetext import message_text, name_of
from mqsniff.sinks.paint import Paint, Role, TextPart
from mqsniff.sinks.rowlines import row_parts
from mqsniff.sinks.textoptions import TextOptions
from mqsniff.sinks.tree import tree_lines
from mqsniff.tables.escape import safe
from mqsniff.tables.rows import Captures, record_rows, rows_of
from mqsniff.tables.schemas import STREAM_TABLES
from mqsniff.tables.times import SECOND_NS

_SHOWN_NS: Final = 1_000_000
"""A moment is named where the stamp lies so far behind it."""
_LATE_NS: Final = SECOND_NS
"""A handshake that takes so long is told with its beginning."""
_INDENT: Final = 4
_NAME_WIDTH_MAX: Final = 20
_NARROW_NAME_WIDTH_MAX: Final = 14
_MISSING: Final = frozenset(("unanswered", "lost", "pending"))
"""Statuses of requests that get a line of their own."""
_ROLE_OF_SIDE: Final[dict[Side | None, Role]] = {None: "connection", Side.CLIENT: "sent", Side.SERVER: "answered"}


class TextSink:
    """Writes lines to a binary stream."""

    def __init__(self, stream: BinaryIO, captures: Captures, options: TextOptions) -> None:
        self._stream = stream
        self._captures = captures
        self._options = options
        self._rest = frozenset(options.tables) - {*STREAM_TABLES}
        self._clock = Clock(options.time)
        self._paint = Paint(color=options.color, width=options.width, wide=options.wide)
        self._bare = not (options.color or options.packets or options.width is not None)
        """Whether lines of messages need no parts."""
        self._labels = Labels(narrow=options.narrow)
        self._now_ns: int | None = None
        """The time of the last line."""
        self._protocol_width = 3
        self._name_width = 9
        self._name_width_max = _NARROW_NAME_WIDTH_MAX if options.narrow else _NAME_WIDTH_MAX
        self._packet_width = 0
        self._folds = not (options.body or options.records)
        self._repeated: RepeatedError | None = None

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
            case ExchangeItem(connection, exchange):
                if exchange.status in _MISSING and "messages" in tables and "exchanges" not in tables:
                    self._missing(connection, exchange)
            case PartitionItem() | RecordItem() | TopicItem():
                pass
            case _:
                assert_never(item)
        if self._rest:
            self._rows(item)

    def tick(self) -> None:
        """Let a reader see what was written so far."""
        if self._options.live and self._repeated is not None and self._repeated.is_due():
            self._unfold()
        self._stream.flush()

    def close(self) -> None:
        """Write what was held back: nothing more will come."""
        self._unfold()
        self._stream.flush()

    def _unfold(self) -> None:
        """Tell how often the last error was repeated, and the request that waited for the same fate."""
        repeated, self._repeated = self._repeated, None
        if repeated is None:
            return
        if repeated.count > 1:
            parts: list[TextPart] = [(repeated.role, f"  {repeated.what}"), ("latency", f"  {repeated.text}")]
            self._later_line(
                repeated.last_ns,
                repeated.connection,
                repeated.side,
                protocol=repeated.protocol,
                name=repeated.name,
                parts=parts,
            )
        if repeated.held is not None:
            self._message(*repeated.held, None)

    def _is_repeated(self, key: Hashable, ts_ns: int | None) -> bool:
        """Whether an error is the one before once more, and counted as such; else that one is told to its end."""
        if self._repeated is not None:
            if ts_ns is not None and self._repeated.repeats(key, ts_ns):
                return True
            self._unfold()
        return False

    def _opened(self, connection: ConnectionInfo, ts_ns: int) -> None:
        self._unfold()
        parts: list[TextPart] = []
        if self._options.narrow:
            parts = [("tcp", f"  {connection.client} - {connection.server}")]
        stamp_ns = max(ts_ns, ts_ns if self._now_ns is None else self._now_ns)
        first_ns = connection.first_ts_ns
        if stamp_ns - ts_ns >= _SHOWN_NS or stamp_ns - first_ns >= _LATE_NS:
            parts.append(("tcp", f"  since {self._clock.mention(first_ns, stamp_ns)}"))
        packet = connection.first_packet
        self._line(stamp_ns, connection, None, protocol="tcp", name="open", parts=parts, role="tcp", packet=packet)

    def _message(self, connection: ConnectionInfo, message: Message, latency_ns: int | None) -> None:
        """A message, unless it repeats what was told. Hot."""
        frame, shown = message.frame, self._options.shown
        failed = message.failed
        if self._repeated is not None:
            if failed and self._is_repeated(answer_key(connection, message), frame.first_ts_ns):
                return
            if self._repeated is not None and self._repeated.holds(connection, message):
                return
            self._unfold()
        name = name_of(message)
        if len(name) > self._name_width:
            self._name_width = max(self._name_width, min(len(name), self._name_width_max))
        if self._bare and not failed:
            self._bare_line(connection, message, name, message_text(message, latency_ns, shown))
        else:
            self._line(
                frame.first_ts_ns,
                connection,
                frame.side,
                protocol=message.protocol,
                name=name,
                parts=message_parts(message, latency_ns, shown),
                packet=frame.first_packet,
            )
        if failed and self._folds:
            self._begin_fold(connection, message, name)
        if self._options.body:
            self._body(message)
        if self._options.records:
            for batch in message.records:
                for row in record_rows(connection, message, batch, self._captures, shown):
                    self._under(record_text(row, shown))

    def _bare_line(self, connection: ConnectionInfo, message: Message, name: str, told: str) -> None:
        """The line of ``_line`` for a message, without parts: neither coloured nor cut. Hot."""
        ts_ns, protocol = message.frame.first_ts_ns, message.protocol
        self._now_ns = ts_ns
        if (day := self._clock.day(ts_ns)) is not None:
            self._put(day)
        stamp = self._clock.stamp(ts_ns)
        label = self._labels.of(connection, message.frame.side)
        width = self._protocol_width = max(self._protocol_width, len(protocol))
        self._put(f"{stamp}  {label}  {protocol:<{width}}  {name:<{self._name_width}}{told}".rstrip())

    def _begin_fold(self, connection: ConnectionInfo, message: Message, name: str) -> None:
        """The message has an error that may be repeated."""
        pending = message.answered[0].message if message.answered else None
        ts_ns = message.frame.first_ts_ns
        self._repeated = RepeatedError(
            answer_key(connection, message),
            connection,
            message.frame.side,
            message.protocol,
            name,
            error_text(message) or "",
            "failure",
            ts_ns,
            ts_ns,
            None if pending is None else request_key(connection, pending),
        )

    def _body(self, message: Message) -> None:
        frame, named = message.frame, self._options.code_name
        self._under(f"{packets(frame)}, stream offset {frame.offset}")
        by_field = None if named is None else lambda field, code: named(message, field, code)
        for line in tree_lines(message.body, self._options.shown, _INDENT, by_field):
            self._put(line)

    def _missing(self, connection: ConnectionInfo, exchange: Exchange) -> None:
        """A request that got no answer, or a delivery that nobody settled."""
        pending = exchange.pending
        message = None if pending is None else pending.message
        if pending is None or message is None or (exchange.status == "pending" and pending.link == "settlement"):
            return
        ts_ns = self._now_ns if exchange.ended_ns is None else exchange.ended_ns
        key = connection.connection_id, exchange.status, pending.link, message.name, message.topics, message.group
        if self._is_repeated(key, ts_ns):
            return
        ts_ns = message.frame.first_ts_ns if ts_ns is None else ts_ns
        name = safe(message.name if message.version is None else f"{message.name} v{message.version}")
        when = self._clock.mention(message.frame.first_ts_ns, ts_ns)
        parts = missing_parts(exchange, message, when, self._options.shown)
        side = message.frame.side
        self._later_line(ts_ns, connection, side, protocol=message.protocol, name=name, parts=parts, told_behind=None)
        if self._folds:
            role, what = parts[0]
            self._repeated = RepeatedError(
                key, connection, side, message.protocol, name, what.lstrip(), role, ts_ns, ts_ns
            )

    def _problem(self, noticed: ProblemItem) -> None:
        connection, problem = noticed.connection, noticed.problem
        protocol = connection.protocol if connection is not None else "input"
        side = noticed.message.frame.side if noticed.message is not None else problem.side
        key = connection and connection.connection_id, problem.kind, problem.severity, problem.detail, problem.path
        if self._is_repeated(key, noticed.ts_ns):
            return
        self._later_line(
            noticed.ts_ns,
            connection,
            side,
            protocol=protocol,
            name=f"! {problem.kind}",
            parts=problem_parts(noticed, self._captures),
            role=problem.severity,
            packet=noticed.packet,
        )
        if self._folds and noticed.ts_ns is not None:
            what, ts_ns = f"{problem.severity}: {safe(problem.detail)}", noticed.ts_ns
            self._repeated = RepeatedError(
                key, connection, side, protocol, f"! {problem.kind}", what, problem.severity, ts_ns, ts_ns
            )

    def _closed(self, connection: ConnectionInfo) -> None:
        self._unfold()
        if "connections" in self._options.tables:
            name, parts = close_name(connection), close_parts(connection)
            if self._options.narrow:
                parts.insert(1, ("tcp", f"  {connection.protocol}"))
                if connection.outcome in UNMET:  # it has no line at its open
                    parts.insert(0, ("tcp", f"  {connection.client} - {connection.server}"))
            self._later_line(
                connection.last_ts_ns,
                connection,
                None,
                protocol="tcp" if connection.outcome in UNMET else connection.protocol,
                name=name,
                parts=parts,
                role="failure" if name.isupper() else "tcp",
                told_behind=1,
            )
        self._labels.forget(connection)

    def _rows(self, item: Item) -> None:
        """Lines of the tables that have no form of their own here."""
        for table, row in rows_of(item, self._captures, self._rest, self._options.shown):
            self._unfold()
            ts_ns = row.get("ts") or row.get("response_ts") or row.get("request_ts") or row.get("first_ts")
            connection = None if isinstance(item, TopicItem) else item.connection
            when = partial(self._clock.mention, line_ns=max(ts_ns or 0, self._now_ns or 0))
            parts = row_parts(table, row, self._options.shown, when, several=len(self._captures) > 1)
            self._later_line(
                ts_ns,
                connection,
                None,
                protocol=row["protocol"],
                name=f"{table}:",
                parts=parts,
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
        role: Role = "name",
        packet: int | None = None,
        told_behind: int | None = 0,
    ) -> None:
        """A line about a moment that may lie before the line before it.

        ``told_behind``: after how many parts the moment is named; None where they name it themselves.
        """
        stamp_ns = ts_ns
        if ts_ns is not None and self._now_ns is not None and ts_ns < self._now_ns:
            stamp_ns = self._now_ns
            if stamp_ns - ts_ns >= _SHOWN_NS and told_behind is not None:
                at: TextPart = (role, f"  at {self._clock.mention(ts_ns, stamp_ns)}")
                parts = [*parts[:told_behind], at, *parts[told_behind:]]
        self._line(stamp_ns, connection, side, protocol=protocol, name=name, parts=parts, role=role, packet=packet)

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
        packet: int | None = None,
    ) -> None:
        """One line; the columns grow with what they have to hold and never shrink. Hot."""
        if ts_ns is None:
            stamp = ""
        else:
            self._now_ns = ts_ns
            if (day := self._clock.day(ts_ns)) is not None:
                self._put(day)
            stamp = self._clock.stamp(ts_ns) + "  "
        if self._options.packets:
            stamp += self._packet(packet)
        label = self._labels.of(connection, side) + "  " if connection is not None else ""
        head: list[TextPart] = [("time", stamp), (_ROLE_OF_SIDE[side], label)]
        if not self._options.narrow or connection is None:
            self._protocol_width = max(self._protocol_width, len(protocol))
            head.append(("tcp", f"{protocol:<{self._protocol_width}}  "))
        head.append((role, f"{name:<{self._name_width}}" if parts else name))
        self._put(self._paint.line(head, parts))

    def _packet(self, packet: int | None) -> str:
        """The column of packet numbers; empty for a line that is about none."""
        number = 0 if packet is None else packet_number(packet)
        text = f"#{number}" if number else ""
        self._packet_width = max(self._packet_width, len(text))
        return f"{text:<{self._packet_width}}  "

    def _under(self, text: str) -> None:
        self._put(" " * _INDENT + text)

    def _put(self, line: str) -> None:
        self._stream.write(line.encode(self._options.encoding, "backslashreplace") + b"\n")
