"""Rows of any table in, what people read of them out: parts of a line, or values of the columns that they name.

1. Name, status, error and durations stand first; durations are in milliseconds, times as in the line's own column.
2. Left out is what stands in the line's columns, what says the same twice (a code beside its name, a topic id beside
   its topic, the capture where there is one alone), what says nothing (no wait, no error), and places for programs.
3. A column that the user names is shown whatever it holds; null is a dash.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from mqsniff.sinks.lines import data_text, milliseconds
from mqsniff.sinks.paint import Role, TextPart
from mqsniff.sinks.tree import brief, inline
from mqsniff.tables.escape import safe
from mqsniff.tables.rows import Row
from mqsniff.tables.schemas import TABLES, TableName, names_of
from mqsniff.tables.times import rfc3339
from mqsniff.tables.values import Redaction

_FIRST: Final = ("name", "status", "error_name", "latency_ns", "work_ns", "queue_ns", "topics", "topic", "partition")
_LEFT_OUT: Final = frozenset(
    (
        *("connection_id", "side", "client", "server", "ts", "ts_ns", "protocol", "body", "key_encoding"),
        *(
            "value_encoding",
            "stream_offset",
            "request_stream_offset",
            "response_stream_offset",
            "version",
            "first_ts",
            "response_ts",
        ),
        *("client_ip", "client_port", "server_ip", "server_port", "community_id", "ordering_key_encoding"),
    )
)
_BESIDE: Final = {
    "error_code": "error_name",
    "topic_ids": "topics",
    "topic_id": "topic",
}
"""Columns that say the same as another one, if that one is there."""
_TELLS_NOTHING: Final[dict[str, Any]] = {
    "link": "answer",
    "queue_ns": 0,
    "throttle_ns": 0,
    "error_code": 0,
    "error_count": 0,
    "problems": 0,
}
_BARE: Final = frozenset(("name", "status", "error_name", "topics", "topic"))
"""Columns whose values speak for themselves."""
_BAD: Final = frozenset(("error", "partial", "unanswered", "failed"))


def row_parts(
    table: TableName, row: Row, shown: Redaction, when: Callable[[int], str], *, several: bool
) -> list[TextPart]:
    """A row after the columns of its line; ``several``: it may be of one of several captures."""
    names = names_of(table)
    times, payloads = frozenset(names_of(table, "timestamp")), frozenset(names_of(table, "payload"))
    parts: list[TextPart] = []
    for name in sorted(names, key=lambda name: _FIRST.index(name) if name in _FIRST else len(_FIRST)):
        value = row[name]
        if value is None or not _says_something(name, value, row, several=several):
            continue
        if name in times:
            text = f"{_label(name)}={when(value)}"
        elif name in payloads:
            text = f"{name}={data_text(value, row[f'{name}_encoding'])}"
        else:
            text = _pair(name, value, row, shown)
        parts.append((_role(name, row), f"  {text}"))
    return parts


def _says_something(name: str, value: Any, row: Row, *, several: bool) -> bool:
    """Whether a column is worth its room (rule 2)."""
    if name in _LEFT_OUT or (name in _TELLS_NOTHING and value == _TELLS_NOTHING[name]):
        return False
    if name in _BESIDE and row.get(_BESIDE[name]):
        return False
    if name.endswith("capture") and (not several or (name == "response_capture" and value == row["request_capture"])):
        return False
    if name == "response_name":
        return bool(value != row["name"] and row["name"] is not None)
    return name not in ("total_ns", "work_ns") or bool(value != row["latency_ns"])


def _pair(name: str, value: Any, row: Row, shown: Redaction) -> str:
    if name.endswith("_ns") and type(value) is int:
        return f"{_label(name)}={milliseconds(value)}"
    if name.endswith("packet"):
        return f"{name}=#{value}"
    if name == "name":
        return safe(str(value)) + ("" if row.get("version") is None else f" v{row['version']}")
    if name in _BARE:
        return ",".join(map(safe, value)) if isinstance(value, list | tuple) else safe(str(value))
    return f"{name}={brief(value, shown)}"


def _label(name: str) -> str:
    return "sent" if name == "request_ts" else name.removesuffix("_ns").removesuffix("_ts")


def _role(name: str, row: Row) -> Role:
    if name in ("status", "error_name") and (row.get("status") in _BAD or (row.get("error_count") or 0) > 0):
        return "failure"
    return "name" if name == "name" else "topic" if name in ("topics", "topic") else "detail"


def field_texts(table: TableName, row: Row, fields: tuple[str, ...], shown: Redaction) -> Iterator[str]:
    """The columns that the user named, as text."""
    kinds = {column.name: column.type for column in TABLES[table]}
    for name in fields:
        value = row.get(name)
        if value is None:
            yield "-"
        elif kinds[name] == "timestamp":
            yield rfc3339(value) or "?"
        elif kinds[name] == "payload":
            yield data_text(value, row[f"{name}_encoding"])
        elif name.endswith("_ns") and name != "ts_ns" and type(value) is int:
            yield milliseconds(value)
        elif kinds[name] == "texts":
            yield ",".join(map(safe, value))
        else:
            yield safe(value) if type(value) is str else inline(value, shown)
