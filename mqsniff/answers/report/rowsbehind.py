"""A number of the page in, the command that shows the rows after it out.

1. A command is that of the run with other words: ``mqsniff decode FILE… OPTIONS -o ndjson --table T --where C``.
2. ``C`` is the condition of the row and that of the column. The page puts both together; ``command_for`` is its twin.
3. Text of the wire stands in a condition as SQL text; what is no printable character as ``chr(N)``, so that nobody
   pastes an escape sequence into a terminal.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from mqsniff.answers.stats.keeping import OTHERS, StatRow

TEXT_MAX: Final = 512
"""Characters of a name that stand in a condition; of a longer one its start and its length do."""
_FAILED: Final = (
    "link = 'answer' and (status in ('error', 'partial') or (status = 'unasked' and (error_code <> 0 "
    "or (error_code is null and error_name is not null))))"
)
_GROUP: Final = '"group"'
_PLAIN: Final = "link = 'answer'"


class RowsBehind(NamedTuple):
    """The table that a column counts rows of, and the condition that it adds to that of its row."""

    table: str
    condition: str = ""


_DIRECTIONS: Final = {
    "control": "control",
    "refused": "direction = 'produce' and ack = 'failed'",
    "follower": "reader = 'follower'",
    "aborted": "aborted",
    "redelivered": "direction = 'deliver' and attempts > 1",
}
COLUMNS: Final[Mapping[str, Mapping[str, RowsBehind]]] = {
    "protocols": {"connections": RowsBehind("connections"), "messages": RowsBehind("messages")},
    "commands": {
        "count": RowsBehind("messages"),
        "errors": RowsBehind("exchanges", _FAILED),
        "unanswered": RowsBehind("exchanges", f"{_PLAIN} and status = 'unanswered'"),
        "timed": RowsBehind(
            "exchanges",
            f"{_PLAIN} and status in ('ok', 'partial', 'error') and work_ns is not null and not coalesce(held, false)",
        ),
        "waited": RowsBehind(
            "exchanges",
            f"{_PLAIN} and status in ('ok', 'partial', 'error') and latency_ns is not null "
            "and (held or work_ns is null)",
        ),
    },
    "failures": {"count": RowsBehind("exchanges", _PLAIN)},
    "topics": {
        "produced": RowsBehind(
            "records",
            "direction = 'produce' and not coalesce(control, false) and coalesce(ack, '') <> 'failed' "
            "and (chunk_id is null or joined)",
        ),
        "delivered": RowsBehind(
            "records",
            "direction = 'deliver' and not coalesce(control, false) and coalesce(reader, 'consumer') = 'consumer' "
            "and (chunk_id is null or joined) and not coalesce(aborted, false) and left_out is null "
            "and not coalesce(before_asked, false) and coalesce(attempts, 1) <= 1",
        ),
        **{name: RowsBehind("records", condition) for name, condition in _DIRECTIONS.items()},
    },
    "clients": {"connections": RowsBehind("connections")},
    "groups": {
        "deliveries": RowsBehind("exchanges", "link = 'settlement'"),
        "redelivered": RowsBehind("exchanges", "link = 'settlement' and attempts > 1"),
        "unacknowledged": RowsBehind("exchanges", "link = 'settlement' and status in ('pending', 'unanswered')"),
    },
    "network": {
        "connections": RowsBehind("connections"),
        "refused": RowsBehind("connections", "outcome = 'refused'"),
        "no_answer": RowsBehind("connections", "outcome = 'no answer'"),
        "mid_stream": RowsBehind("connections", "outcome = 'mid-stream'"),
        "retransmitted_segments": RowsBehind("connections", "retransmitted_segments > 0"),
    },
    "connections": {"messages": RowsBehind("messages")},
    "problems": {"value": RowsBehind("problems")},
}
"""Table of the page -> column -> its rows. ``retransmitted_segments`` and sums of bytes show the connections they are
summed over."""
SUMS: Final = frozenset((("network", "retransmitted_segments"), ("topics", "produced")))
"""Numbers that are no count of rows: a sum, or one of which ``resent`` is told apart."""


def condition_of(section: str, row: StatRow) -> str | None:
    """The condition of a row; None where no condition has its rows, as for what was counted together."""
    if OTHERS in row.values() or "(no name)" in row.values():
        return None
    match section:
        case "protocols":
            return equals("protocol", row["protocol"])
        case "commands":
            return f"{equals('protocol', row['protocol'])} and {equals('name', row['name'])}"
        case "failures":
            return row["condition"]  # type: ignore[no-any-return]
        case "topics":
            return f"{equals('protocol', row['protocol'])} and {equals('coalesce(topic, topic_id)', row['topic'])}"
        case "clients":
            client = "client_id is null" if row["client_id"] is None else equals("client_id", row["client_id"])
            software = (
                "client_software is null" if row["software"] is None else equals("client_software", row["software"])
            )
            host = equals("client_ip", row["host"])
            return f"{equals('protocol', row['protocol'])} and {host} and {client} and {software}"
        case "groups":
            return f"{equals('protocol', row['protocol'])} and {equals(_GROUP, row['group'])}"
        case "network":
            return equals("server", row["server"])
        case "connections":
            return equals("connection_id", row["connection_id"])
        case "problems":
            return equals("kind", row["kind"])
    return None


def failure_condition(protocol: str, name: str, error: str | None) -> str:
    """The rows of ``exchanges`` of one error; of requests without an answer where ``error`` is None."""
    command = f"{equals('protocol', protocol)} and {equals('coalesce(name, response_name)', name)}"
    if error is None:
        return f"{command} and status = 'unanswered'"
    if error.startswith("code "):
        return f"{command} and error_name is null and error_code = {int(error[5:])} and {_FAILED}"
    return f"{command} and {equals('error_name', error)} and {_FAILED}"


def command_for(prefix: Sequence[str], rows: RowsBehind, condition: str, own: str = "") -> str:
    """A command line; ``prefix``: its words up to here; ``own``: the condition that the run has."""
    parts = [f"({part})" if " or " in part else part for part in (own, condition, rows.condition) if part]
    where = ["--where", " and ".join(parts)] if parts else []
    return shlex.join([*prefix, "-o", "ndjson", "--table", rows.table, *where])


def equals(column: str, value: str) -> str:
    """The condition that a column is this text."""
    if len(value) > TEXT_MAX:
        return f"starts_with({column}, {sql_text(value[:TEXT_MAX])}) and length({column}) = {len(value)}"
    return f"{column} = {sql_text(value)}"


def sql_text(value: str) -> str:
    """A text in SQL, of printable characters only."""
    parts: list[str] = []
    plain = ""
    for character in value:
        if character.isprintable():
            plain += "''" if character == "'" else character
            continue
        parts += [f"'{plain}'"] if plain else []
        parts.append(f"chr({ord(character)})")
        plain = ""
    if plain or not parts:
        parts.append(f"'{plain}'")
    return parts[0] if len(parts) == 1 else f"({' || '.join(parts)})"


def plain_row(row: Mapping[str, Any], columns: Sequence[str]) -> list[Any]:
    """The cells of a row in the order of columns."""
    return [row.get(column) for column in columns]
