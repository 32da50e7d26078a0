"""Items in, the life of connections out: handshake, each request with its answer, what the network did, the close.

1. A request is one step, its answer's time and error stand in it; what the server sends unasked is a step of its own.
2. Of a long connection the first and the last steps are kept, ``trace_steps_max`` together; the others are counted.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator
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
_ID_SHOWN: Final = 12
_TOPICS_SHOWN: Final = 3
_FACTS: Final = (*("client_software", "server_software", "client_id", "group", "user", "mechanism"),)
_NUMBERS: Final = (
    *("outcome", "tunnel", "client_packets", "server_packets", "client_bytes", "server_bytes"),
    *("gap_bytes", "undecoded_bytes", "retransmitted_segments", "out_of_order_segments", "duplicate_packets"),
    *("client_zero_windows", "server_zero_windows", "client_longest_stall_ns", "server_longest_stall_ns"),
    *("client_rtt_ns", "server_rtt_ns", "tls_version", "tls_cipher", "tls_alpn", "tls_server_name"),
    *("proxy_client", "proxy_server"),
)


class _KeptSteps:
    """The first and the last steps of a connection."""

    def __init__(self, most: int) -> None:
        self.first: list[TraceStep] = []
        self.last: deque[TraceStep] = deque(maxlen=most - most // 2)
        self.most = most // 2
        self.count = 0
        self.opened_ns: int | None = None

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
        self._traces_max = limits.trace_records_max
        self.overflow = False
        """Whether there are more connections than are followed."""
        self._kept: dict[str, _KeptSteps] = {}
        self._traces: list[Trace] = []
        self.seen: Counter[str] = Counter()
        """Connections: how their id begins, client and server."""

    def take(self, item: Item) -> None:
        """Look at an item."""
        match item:
            case OpenedItem(connection, ts_ns) if self._fits(connection):
                self._of(connection).opened_ns = ts_ns
            case MessageItem(connection, message) if self._fits(connection):
                self._message(connection, message)
            case ProblemItem(connection) if connection is not None and self._fits(connection):
                self._problem(item, connection)
            case ClosedItem(connection):
                if len(self.seen) < NAMES_MAX:
                    name = f"{connection.connection_id[:_ID_SHOWN]} ({connection.client} - {connection.server})"
                    self.seen[name] += 1
                if self._fits(connection):
                    self._closed(connection)

    def finished(self) -> list[Trace]:
        """The traces, the oldest connection first."""
        return sorted(self._traces, key=lambda trace: trace.steps[0].ts_ns)

    def _of(self, connection: ConnectionInfo) -> _KeptSteps:
        return self._kept.setdefault(connection.connection_id, _KeptSteps(self._most))

    def _message(self, connection: ConnectionInfo, message: Message) -> None:
        if message.kind == "response" and any(each.link == "answer" for each in message.answered):
            return
        step = step_of(connection, message, "request" if message.frame.side == 0 else "answer", message.name)
        step.what = step.name or message.name
        if message.topics:
            step.details.append(("topics", ",".join(message.topics[:_TOPICS_SHOWN])))
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
        kept = self._kept.pop(connection.connection_id, None) or _KeptSteps(self._most)
        if len(self._traces) >= self._traces_max:
            self.overflow = True
            return
        steps = [*_beginning(connection, kept.opened_ns), *kept.first, *kept.last, _end(connection)]
        trace = Trace("connection", _about(connection), steps)
        trace.left_out = kept.count - len(kept.first) - len(kept.last)
        self._traces.append(trace)


def _beginning(connection: ConnectionInfo, opened_ns: int | None) -> Iterator[TraceStep]:
    """The handshake, as far as the capture shows it."""
    if connection.outcome == "mid-stream":
        what = "first seen here: its beginning is not in the capture"
        yield TraceStep(connection.first_ts_ns, "tcp", what, connection, connection.first_packet)
        return
    yield TraceStep(connection.first_ts_ns, "tcp", "handshake begins", connection, connection.first_packet)
    if opened_ns is not None and connection.outcome not in UNMET:
        yield TraceStep(opened_ns, "tcp", "open", connection)


def _end(connection: ConnectionInfo) -> TraceStep:
    reason = connection.identity.close_reason or connection.close_reason
    step = TraceStep(connection.last_ts_ns, "tcp", "closed", connection)
    if connection.outcome in UNMET:
        step.what, step.error = connection.outcome, "never open"
    elif connection.open_at_end:
        step.what = "given up: silent for too long" if connection.forgotten else "still open where the capture ends"
    elif reason == "rst":
        step.error = "reset"
    elif reason is not None:
        step.details.append(("reason", reason))
    if connection.closed_by is not None and not connection.open_at_end:
        step.what += f" by the {connection.closed_by}"
    return step


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
