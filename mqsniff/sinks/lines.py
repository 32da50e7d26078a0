"""A message, a problem, a connection's end or a record in; what a text line tells of it behind its columns out.

1. What matters stands first: topics, group, correlation, the dissector's notes, size, error, the answer's latency.
2. Labels are ``name=value``, so that lines can be searched; a value that is no plain word is quoted.
3. Everything that traffic can write goes through ``escape``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mqsniff.limits import Limits
from mqsniff.model import UNMET, ConnectionInfo, Frame, Message, ProblemItem, packet_capture, packet_number
from mqsniff.sinks.paint import TextPart
from mqsniff.sinks.tree import brief
from mqsniff.tables.escape import quoted, safe
from mqsniff.tables.rows import Captures, Row
from mqsniff.tables.schemas import TableName, names_of
from mqsniff.tables.times import SECOND_NS, rfc3339
from mqsniff.tables.values import Redaction, base64

STALL_SHOWN_NS: Final = Limits().stall_ns
_TOPICS_SHOWN: Final = 3
_COLUMNS_LEFT_OUT: Final = frozenset(
    ("connection_id", "side", "client", "server", "ts", "ts_ns", "protocol", "body", "key_encoding", "value_encoding")
)


def message_parts(message: Message, latency_ns: int | None, shown: Redaction) -> list[TextPart]:
    """A message behind its name."""
    parts: list[TextPart] = []
    if message.topics:
        parts.append(("topic", "  " + _listed(message.topics)))
    elif message.topic_ids:
        parts.append(("topic", "  " + _listed(message.topic_ids)))
    if message.group:
        parts.append(("detail", "  group=" + brief(message.group, shown)))
    if message.correlation is not None:
        parts.append(("detail", "  id=" + brief(message.correlation, shown)))
    for label, value in message.notes:
        parts.append(("detail", f"  {safe(label)}={brief(value, shown)}"))
    parts.append(("detail", f"  {message.frame.size} B"))
    if (error := _error(message)) is not None:
        parts.append(("error", "  " + error))
    elif message.error_code:
        parts.append(("detail", "  code=" + safe(message.error_name or str(message.error_code))))
    pending = message.answered[0] if message.answered else None
    settles = pending is not None and pending.link == "settlement"
    if pending is not None and not settles and pending.message is not None and pending.message.name != message.name:
        parts.append(("detail", "  to " + safe(pending.message.name)))
    if latency_ns is not None:
        parts.append(("latency", f"  {'after' if settles else 'in'} {milliseconds(latency_ns)}"))
    return parts


def packets(frame: Frame) -> str:
    """The packets that carried a message, numbered inside their captures."""
    first, last = packet_number(frame.first_packet), packet_number(frame.last_packet)
    return f"packet {first}" if frame.first_packet == frame.last_packet else f"packets {first} to {last}"


def problem_parts(noticed: ProblemItem, captures: Captures) -> list[TextPart]:
    """A problem behind its kind; one without a connection names its capture."""
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
        return connection.outcome
    if not connection.open_at_end:
        return "close"
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
        parts.append("key=" + _data(row["key"], row["key_encoding"]))
    if row["ordering_key_encoding"] is not None:
        parts.append("ordering_key=" + _data(row["ordering_key"], row["ordering_key_encoding"]))
    parts.append("value=" + ("null" if row["value_encoding"] is None else _data(row["value"], row["value_encoding"])))
    if row["value_size"] is not None:
        parts.append(f"{row['value_size']} B")
    if row["left_out"] is not None:
        parts.append(f"left_out={row['left_out']}")
    if row["joined"]:
        parts.append(f"joined from {row['chunk_count']} chunks")
    parts += [f"{safe(header['key'])}={brief(header['value'], shown)}" for header in row["headers"] or ()]
    return "- " + "  ".join(parts)


def row_text(table: TableName, row: Row, shown: Redaction) -> str:
    """A row of any table as ``name=value`` pairs, without what stands in the line's columns and without nulls."""
    times, payloads = names_of(table, "timestamp"), names_of(table, "payload")
    pairs = []
    for name in names_of(table):
        value = row[name]
        if value is None or name in _COLUMNS_LEFT_OUT:
            continue
        if name in times:
            text = rfc3339(value) or "?"
        elif name in payloads:
            text = _data(value, row[f"{name}_encoding"])
        else:
            text = brief(value, shown)
        pairs.append(f"  {name}={text}")
    return "".join(pairs)


def _data(data: bytes | None, encoding: str) -> str:
    """A record's key or value by its encoding."""
    match encoding:
        case "redacted":
            return "<redacted>"
        case "base64":
            return f"<base64 {base64(data or b'')}>"
    text = quoted((data or b"").decode())
    return text + "…" if encoding == "cut" else text


def _listed(names: tuple[str, ...]) -> str:
    text = ",".join(safe(name) for name in names[:_TOPICS_SHOWN])
    return text if len(names) <= _TOPICS_SHOWN else f"{text},+{len(names) - _TOPICS_SHOWN}"


def _error(message: Message) -> str | None:
    """The error that a message carries, by name where it has one."""
    name, code, count = message.error_name, message.error_code, message.error_count
    if not message.failed:
        return None
    text = safe(name) if name else f"error {code}"
    return f"{text} ({count} errors)" if count is not None and count > 1 else text
