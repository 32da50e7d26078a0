"""A message, a problem, a connection's end or a record in; what a text line tells of it after its columns out.

1. What matters stands first: error, the answer's latency, topics, group, the dissector's notes, size, correlation.
2. Labels are ``name=value``, so that lines can be searched; a value that is no plain word is quoted.
3. Everything that traffic can write goes through ``escape``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mqsniff.limits import Limits
from mqsniff.model import UNMET, ConnectionInfo, Exchange, Frame, Message, ProblemItem, packet_capture, packet_number
from mqsniff.sinks.paint import TextPart
from mqsniff.sinks.tree import brief
from mqsniff.tables.escape import quoted, safe
from mqsniff.tables.rows import Captures, Row
from mqsniff.tables.times import SECOND_NS
from mqsniff.tables.values import Redaction, base64

STALL_SHOWN_NS: Final = Limits().stall_ns
_TOPICS_SHOWN: Final = 3
_ENDINGS: Final = {"rst": "RESET", "keepalive missed": "TIME-OUT"}
"""Why a connection was closed -> what the line at its end is called."""


def message_parts(message: Message, latency_ns: int | None, shown: Redaction) -> list[TextPart]:
    """A message after its name."""
    parts: list[TextPart] = []
    if (error := error_text(message)) is not None:
        parts.append(("failure", "  " + error))
    pending = message.answered[0] if message.answered else None
    settles = pending is not None and pending.link == "settlement"
    if latency_ns is not None:
        parts.append(("latency", f"  {'after' if settles else 'in'} {milliseconds(latency_ns)}"))
        if pending is not None and pending.held:
            parts.append(("detail", "  held"))
    _tell_topics(message, shown, parts)
    if error is None and message.error_code:
        parts.append(("detail", "  code=" + safe(message.error_name or str(message.error_code))))
    if pending is not None and not settles and pending.message is not None and pending.message.name != message.name:
        parts.append(("detail", "  to " + safe(pending.message.name)))
    for label, value in message.notes:
        parts.append(("detail", f"  {safe(label)}={brief(value, shown)}"))
    parts.append(("detail", f"  {message.frame.size} B"))
    if message.correlation is not None:
        parts.append(("detail", "  id=" + brief(message.correlation, shown)))
    return parts


def _tell_topics(message: Message, shown: Redaction, parts: list[TextPart]) -> None:
    """Add topics and group."""
    if message.topics:
        parts.append(("topic", "  " + listed_topics(message.topics)))
    elif message.topic_ids:
        parts.append(("topic", "  " + listed_topics(message.topic_ids)))
    if message.group:
        parts.append(("detail", "  group=" + brief(message.group, shown)))


def missing_parts(exchange: Exchange, request: Message, when: str, shown: Redaction) -> list[TextPart]:
    """A request that got no answer, or a delivery that nobody settled; ``when`` is the request's time."""
    frame = request.frame
    what, why = _why_missing(exchange)
    alarms = exchange.status == "unanswered" and not _may_wait(exchange)
    parts: list[TextPart] = [("failure" if alarms else "warning", "  " + what)]
    if exchange.ended_ns is not None and exchange.ended_ns >= frame.last_ts_ns:
        parts.append(("latency", f"  after {milliseconds(exchange.ended_ns - frame.last_ts_ns)}"))
    _tell_topics(request, shown, parts)
    parts += [("detail", f"  {why}"), ("detail", f"  sent at {when} (#{packet_number(frame.first_packet)})")]
    if request.correlation is not None:
        parts.append(("detail", "  id=" + brief(request.correlation, shown)))
    return parts


def _may_wait(exchange: Exchange) -> bool:
    """Whether the broker might still hold the request when the connection ended, as a long poll at a shutdown."""
    pending = exchange.pending
    if pending is None or pending.wait_limit_ns is None or exchange.ended_ns is None:
        return False
    return exchange.ended_ns - pending.frame.last_ts_ns <= pending.wait_limit_ns


def _why_missing(exchange: Exchange) -> tuple[str, str]:
    """What there is instead of an answer, and why."""
    answers = exchange.pending is None or exchange.pending.link == "answer"
    match exchange.status:
        case "lost":
            return ("ANSWER LOST" if answers else "SETTLEMENT LOST"), "by the capture"
        case "pending":
            return ("NO ANSWER YET" if answers else "NOT SETTLED YET"), "the capture ended"
    who = exchange.ended_by
    what = "NO ANSWER" if answers else "NOT SETTLED"
    if who is None:
        return what, "the other side went on"
    return what, f"the {who.text} {'reset' if exchange.was_reset else 'closed'} the connection"


def packets(frame: Frame) -> str:
    """The packets that carried a message, numbered inside their captures."""
    first, last = packet_number(frame.first_packet), packet_number(frame.last_packet)
    return f"packet {first}" if frame.first_packet == frame.last_packet else f"packets {first} to {last}"


def problem_parts(noticed: ProblemItem, captures: Captures) -> list[TextPart]:
    """A problem after its kind; one without a connection names its capture."""
    problem = noticed.problem
    about = f" in {safe(noticed.message.name)}" if noticed.message is not None else ""
    text = f"  {problem.severity}{about}: {safe(problem.detail)}"
    if problem.path:
        text += f" ({safe(problem.path)})"
    if problem.size is not None and str(problem.size) not in problem.detail:
        text += f"  {problem.size} B"
    if noticed.packet is not None:
        if noticed.connection is None:
            text += f"  {safe(captures[packet_capture(noticed.packet)].name)}"
        if number := packet_number(noticed.packet):
            text += f"  packet {number}"
    return [(problem.severity, text)]


def close_name(connection: ConnectionInfo) -> str:
    """What the line at a connection's end is called."""
    if connection.outcome in UNMET:
        return connection.outcome.upper()
    if not connection.open_at_end:
        return _ENDINGS.get(connection.close_reason or "", "close")
    return "forgotten" if connection.forgotten else "end of capture"


def close_parts(connection: ConnectionInfo) -> list[TextPart]:
    """What a connection was, told at its end."""
    return [("tcp", "  " + fact) for fact in _facts(connection)]


def milliseconds(span_ns: int) -> str:
    """A duration as "0.078 ms"."""
    return f"{span_ns // 1_000_000}.{span_ns // 1000 % 1000:03d} ms"


def _facts(connection: ConnectionInfo) -> Iterator[str]:
    c, identity = connection, connection.identity
    if c.outcome == "mid-stream":
        yield c.outcome
    reason = identity.close_reason or c.close_reason
    if reason is not None and c.outcome not in UNMET:
        yield safe(reason) + (f" by {c.closed_by}" if reason in ("fin", "rst") and c.closed_by else "")
    if c.sides_seen != "both":
        yield f"only the {c.sides_seen} seen"
    counts = (
        (c.gap_bytes, "B lost"),
        (c.undecoded_bytes, "B undecoded"),
        (c.retransmitted_segments, "retransmitted"),
        (c.out_of_order_segments, "out of order"),
        (c.duplicate_packets, "doubled"),
        (c.client_zero_windows, "zero windows of the client"),
        (c.server_zero_windows, "zero windows of the server"),
    )
    yield from (f"{count} {what}" for count, what in counts if count)
    for side, stall_ns in (("client", c.client_longest_stall_ns), ("server", c.server_longest_stall_ns)):
        if stall_ns is not None and stall_ns >= STALL_SHOWN_NS:
            yield f"{side} held up for {milliseconds(stall_ns)}"
    yield f"after {max(0, c.last_ts_ns - c.first_ts_ns) / SECOND_NS:.3f} s"
    for side, size, packets in (
        ("client", c.client_bytes, c.client_packets),
        ("server", c.server_bytes, c.server_packets),
    ):
        yield f"{side} {size} B in {packets} packet{'' if packets == 1 else 's'}"
    names = (
        ("client", identity.client_software),
        ("server", identity.server_software),
        ("user", identity.user),
        ("tls", c.tls_version),
        ("server_name", c.tls_server_name),
        ("alpn", c.tls_alpn),
        ("proxy_client", c.proxy_client),
    )
    yield from (f"{label}={brief(name, Redaction())}" for label, name in names if name is not None)


def record_text(row: Row, shown: Redaction) -> str:
    """A record beneath its message: where it is, its key and its value."""
    parts = [f"{name}={row[name]}" for name in ("partition", "offset", "client_offset") if row[name] is not None]
    if row["message_id"] is not None:
        parts.append("id=" + brief(row["message_id"], shown))
    if row["key_encoding"] is not None:
        parts.append("key=" + data_text(row["key"], row["key_encoding"]))
    if row["ordering_key_encoding"] is not None:
        parts.append("ordering_key=" + data_text(row["ordering_key"], row["ordering_key_encoding"]))
    parts.append(
        "value=" + ("null" if row["value_encoding"] is None else data_text(row["value"], row["value_encoding"]))
    )
    if row["value_size"] is not None:
        parts.append(f"{row['value_size']} B")
    if row["left_out"] is not None:
        parts.append(f"left_out={row['left_out']}")
    if row["joined"]:
        parts.append(f"joined from {row['chunk_count']} chunks")
    parts += [f"{safe(header['key'])}={brief(header['value'], shown)}" for header in row["headers"] or ()]
    return "- " + "  ".join(parts)


def data_text(data: bytes | None, encoding: str) -> str:
    """A record's key or value by its encoding."""
    match encoding:
        case "redacted":
            return "<redacted>"
        case "base64":
            return f"<base64 {base64(data or b'')}>"
    text = quoted((data or b"").decode())
    return text + "…" if encoding == "cut" else text


def listed_topics(names: tuple[str, ...]) -> str:
    """The first topics, and how many there are besides."""
    text = ",".join(safe(name) for name in names[:_TOPICS_SHOWN])
    return text if len(names) <= _TOPICS_SHOWN else f"{text},+{len(names) - _TOPICS_SHOWN}"


def error_text(message: Message) -> str | None:
    """The error that a message carries, by name where it has one."""
    name, code, count = message.error_name, message.error_code, message.error_count
    if not message.failed:
        return None
    text = safe(name) if name else f"error {code}"
    return f"{text} ({count} errors)" if count is not None and count > 1 else text
