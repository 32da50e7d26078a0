"""Rows of ``mqsniff stats`` in, the tables of the page out: columns with their kinds, rows, conditions of commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from mqsniff.answers.report.collecting import TrafficReport
from mqsniff.answers.report.rowsbehind import COLUMNS, condition_of, failure_condition, plain_row
from mqsniff.answers.stats.commands import NAMELESS
from mqsniff.answers.stats.keeping import OTHERS, StatRow
from mqsniff.model import ConnectionInfo
from mqsniff.tables.times import rfc3339

ROWS: Final = 600
"""Rows of a table of the page at most; ``mqsniff stats --json`` has all."""


class PageTable(NamedTuple):
    """What a table shows; a column is "name:kind", and kinds say how a cell is written."""

    section: str
    title: str
    columns: Sequence[str]
    note: str = ""


TABLES_SHOWN: Final = (
    PageTable("failures", "Errors and missing answers", ("protocol", "name", "error", "count:n")),
    PageTable(
        "commands",
        "Commands",
        ("protocol", "name", "count:n", "bytes:b", "errors:n!", "unanswered:n!", "timed:n", "p50_ns:t", "p95_ns:t",
         "p99_ns:t", "max_ns:t", "waited:n", "waited_p50_ns:t"),
        "p50 to max: how long the broker worked. Waited: requests that it held until there was data, apart from work.",
    ),
    PageTable(
        "topics",
        "Topics",
        ("protocol", "topic", "role", "produced:n", "produced_bytes:b", "delivered:n", "delivered_bytes:b",
         "refused:n!", "redelivered:n!", "aborted:n", "control:n", "follower:n"),
    ),
    PageTable(
        "clients",
        "Clients",
        ("protocol", "client_id", "host", "software", "connections:n", "messages:n", "sent_bytes:b",
         "received_bytes:b", "dropped:x"),
        "Dropped: commands in versions that newer brokers refuse.",
    ),
    PageTable(
        "groups",
        "Groups",
        ("protocol", "group", "generation:n", "rebalances:n!", "lag:n!", "commit_lag:n", "deliveries:n",
         "redelivered:n!", "unacknowledged:n!"),
    ),
    PageTable("partitions", "Where groups stand", ("group", "topic", "partition:n", "end:n", "position:n",
                                                   "committed:n", "lag:n!", "commit_lag:n")),
    PageTable(
        "network",
        "Servers and the network",
        ("server", "connections:n", "refused:n!", "no_answer:n!", "mid_stream:n", "resets_by_client:n!",
         "resets_by_server:n!", "retransmitted_segments:n!", "stalled:n!", "gap_bytes:b!", "client_bytes:b",
         "server_bytes:b", "handshake_rtt_p50_ns:t"),
    ),
    PageTable("health", "How far the capture can be trusted", ("check", "value:n", "share:p", "trust", "says")),
    PageTable("problems", "Problems of the traffic", ("kind", "severity", "value:n", "bytes:b", "says")),
    PageTable("protocols", "Protocols", ("protocol", "connections:n", "messages:n", "bytes:b", "wire_bytes:b",
                                         "errors:n!", "unanswered:n!", "undecoded_bytes:b!", "encrypted_share:p")),
    PageTable(
        "connections",
        "Connections",
        ("number:n", "connection_id", "protocol", "client", "server", "client_id", "first_ts:ts", "duration_ns:t",
         "client_bytes:b", "server_bytes:b", "outcome", "close_reason", "retransmitted_segments:n!"),
    ),
)  # fmt: skip


def tables_of(report: TrafficReport, sections: Mapping[Any, list[StatRow]]) -> list[dict[str, Any]]:
    """The tables that have rows, in the order of the page."""
    rows: dict[str, list[StatRow]] = {
        **sections,
        "failures": _failures(sections["commands"]),
        "partitions": [{"group": group["group"], **row} for group in sections["groups"] for row in group["partitions"]],
        "health": [row for row in sections["health"] if row["trust"] is not None],
        "problems": [row for row in sections["health"] if row["trust"] is None],
        "connections": [_connection(connection) for connection in report.connections],
        "clients": [row | {"dropped": _dropped(row)} for row in sections["clients"]],
    }
    found = [_table(table, rows[table.section]) for table in TABLES_SHOWN if rows[table.section]]
    for table in found:
        if table["section"] == "connections":
            table["left_out"] = report.connections_seen - len(table["rows"])
    return found


def _table(table: PageTable, rows: list[StatRow]) -> dict[str, Any]:
    names, kinds = zip(*(column.partition(":")[::2] for column in table.columns), strict=True)
    shown = rows[:ROWS]
    behind = COLUMNS.get(table.section, {})
    return {
        "section": table.section,
        "title": table.title,
        "note": table.note,
        "columns": list(names),
        "kinds": list(kinds),
        "rows": [plain_row(row, names) for row in shown],
        "conditions": [condition_of(table.section, row) for row in shown] if behind else [],
        "behind": {name: list(behind[name]) for name in names if name in behind},
        "left_out": len(rows) - len(shown),
    }


def _failures(commands: list[StatRow]) -> list[StatRow]:
    """A row for each error of each command, and for its requests without an answer."""
    found = []
    for row in commands:
        if row["protocol"] == OTHERS:
            continue
        counts: dict[str | None, int] = {**row["errors_by_name"]}
        if row["unanswered"]:
            counts[None] = row["unanswered"]
        for error, count in counts.items():
            condition = None if error == NAMELESS else failure_condition(row["protocol"], row["name"], error)
            words = "no answer" if error is None else error
            own = {"protocol": row["protocol"], "name": row["name"], "error": words}
            found.append({**own, "count": count, "condition": condition})
    return sorted(found, key=lambda row: -row["count"])


def _connection(connection: ConnectionInfo) -> StatRow:
    c = connection
    return {
        "number": c.number,
        "connection_id": c.connection_id,
        "protocol": c.protocol,
        "client": c.client,
        "server": c.server,
        "client_id": c.identity.client_id,
        "first_ts": rfc3339(c.first_ts_ns),
        "duration_ns": c.last_ts_ns - c.first_ts_ns,
        "client_bytes": c.client_bytes,
        "server_bytes": c.server_bytes,
        "outcome": c.outcome,
        "close_reason": "open at end" if c.open_at_end else c.close_reason,
        "retransmitted_segments": c.retransmitted_segments,
    }


def _dropped(row: StatRow) -> str:
    """The versions that newer brokers refuse, in words."""
    parts = [f"{each['name']} v{', v'.join(map(str, each['versions']))}" for each in row["dropped"]]
    return f"{row['dropped'][0]['dropped_by']}: {'; '.join(parts)}" if parts else ""
