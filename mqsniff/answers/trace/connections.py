"""Items in, the life of connections out: handshake, each request with its answer, what the network did, the close.

1. A request is one step, its answer's time and error stand in it; what the server sends unasked is a step of its own.
2. Of a long connection the first and the last steps are kept, ``trace_steps_max`` together; the others are counted.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from typing import Final

from mqsniff.answers.trace.steps import Trace, TraceStep, error_of, step_of
from mqsniff.limits import Limits
from mqsniff.model import (
    UNMET,
    ClosedItem,
    ConnectionInfo,
    Item,
    Message,
    MessageItem,
    OpenedItem,
    ProblemItem,
)

NAMES_MAX: Final = 1000
_FACTS: Final = (*("client_software", "server_software", "client_id", "group", "user", "mechanism"),)
_NUMBERS: Final = (
    *("outcome", "tunnel", "client_packets", "server_packets", "client_bytes", "server_bytes"),
    *("gap_bytes", "undecoded_bytes", "retransmitted_segments", "out_of_order_segments", "duplicate_packets"),
    *("client_zero_windows", "server_zero_windows", "client_longest_stall_ns", "server_longest_stall_ns"),
    *("client_rtt_ns", "server_rtt_ns", "tls_version", "tls_cipher", "tls_alpn", "tls_server_name"),
    *("proxy_client", "proxy_server"),
)


class _Kept:
    """The first and the last steps of a connection."""

    def __init__(self, connection: ConnectionInfo, most: int) -> None:
        self.connection = connection
        self.first: list[TraceStep] = []
        self.last: deque[TraceStep] = deque(maxlen=most - most // 2)
        self.most = most // 2
        self.count = 0

    def add(self, step: TraceStep) -> None:
        """Keep a step."""
        self.count += 1
        if len(self.first) < self.most:
            self.first.append(step)
        else:
            self.last.append(step)


class ConnectionTracer:
    """Gathers the steps of connections that fit."""

    def __init__(self, fits: Callable[[ConnectionInfo], bool], limits: Limits) -> None:
        self._fits = fits
        self._most = limits.trace_steps_max
        self._kept: dict[str, _Kept] = {}
        self._traces: list[Trace] = []
        self.seen: Counter[str] = Counter()
        """Connections: their id, client and server."""

    def take(self, item: Item) -> None:
        """Look at an item."""
        match item:
            case OpenedItem(connection, ts_ns) if self._fits(connection):
                self._opened(connection, ts_ns)
            case MessageItem(connection, message) if self._fits(connection):
                self._message(connection, message)
            case ProblemItem(connection) if connection is not None and self._fits(connection):
                self._problem(item, connection)
            case ClosedItem(connection):
                if len(self.seen) < NAMES_MAX:
                    self.seen[connection.connection_id] += 1
                if self._fits(connection):
                    self._closed(connection)

    def finished(self) -> list[Trace]:
        """The traces, the oldest connection first."""
        return self._traces

    def _of(self, connection: ConnectionInfo) -> _Kept:
        kept = self._kept.get(connection.connection_id)
        if kept is None:
            kept = self._kept[connection.connection_id] = _Kept(connection, self._most)
            if connection.handshake_seen or connection.outcome != "mid-stream":
                kept.add(TraceStep(connection.first_ts_ns, "tcp", "first packet", connection, connection.first_packet))
        return kept

    def _opened(self, connection: ConnectionInfo, ts_ns: int) -> None:
        kept = self._of(connection)
        if connection.outcome == "mid-stream" and not connection.handshake_seen:
            kept.add(TraceStep(ts_ns, "tcp", "seen from here on, its beginning is not in the capture", connection))
        else:
            kept.add(TraceStep(ts_ns, "tcp", "open: the handshake has ended", connection))

    def _message(self, connection: ConnectionInfo, message: Message) -> None:
        if message.kind == "response" and any(each.link == "answer" for each in message.answered):
            return
        step = step_of(connection, message, "request" if message.frame.side == 0 else "answer", message.name)
        if message.topics:
            step.details.append(("topics", ",".join(message.topics[:3])))
        step.details += [*message.notes, ("size", message.frame.size)]
        step.error = error_of(message)
        step.pending = tuple(pending for pending in message.pending if pending.link == "answer")
        self._of(connection).add(step)

    def _problem(self, item: ProblemItem, connection: ConnectionInfo) -> None:
        if item.ts_ns is None:
            return
        step = TraceStep(item.ts_ns, "tcp", item.problem.kind, connection, item.packet)
        step.details = [("detail", item.problem.detail)]
        if item.problem.severity == "error":
            step.error = item.problem.severity
        self._of(connection).add(step)

    def _closed(self, connection: ConnectionInfo) -> None:
        kept = self._of(connection)
        reason = connection.identity.close_reason or connection.close_reason
        by = f" by the {connection.closed_by}" if connection.closed_by and reason in ("fin", "rst") else ""
        what: str = connection.outcome
        if connection.outcome in UNMET:
            pass
        elif connection.open_at_end:
            what = "still open where the capture ends" if not connection.forgotten else "given up: silent for too long"
        else:
            what = f"closed: {({'fin': 'fin', 'rst': 'reset'}).get(reason or '', reason or 'closed')}{by}"
        step = TraceStep(connection.last_ts_ns, "tcp", what, connection)
        if reason == "rst" or connection.outcome in UNMET:
            step.error = "reset" if reason == "rst" else connection.outcome
        kept.add(step)
        self._kept.pop(connection.connection_id)
        trace = Trace("connection", _about(connection), [*kept.first, *kept.last])
        trace.left_out = kept.count - len(trace.steps)
        self._traces.append(trace)


def _about(connection: ConnectionInfo) -> dict[str, object]:
    """What a connection was: what is known and not nothing."""
    about: dict[str, object] = {
        "protocol": connection.protocol,
        "client": connection.client,
        "server": connection.server,
        "connection_id": connection.connection_id,
    }
    about |= {name: value for name in _FACTS if (value := getattr(connection.identity, name))}
    return about | {name: value for name in _NUMBERS if (value := getattr(connection, name))}
