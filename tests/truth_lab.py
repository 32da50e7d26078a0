"""Truth of captures of the laboratory: what the logs of its clients say, compared with the rows.

1. ``records`` by topic: what brokers took is there and nothing else; what was read was delivered. Partition, offset,
   key and value are compared, where the client knows them.
2. ``counts``: so many rows of a table have these values. ``commands``: sent at least once. ``errors``: a server
   told them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

Row = dict[str, Any]
Finding = tuple[str, Any, Any, str]


def check(truth: Mapping[str, Any], rows: Iterable[Row]) -> list[Finding]:
    """Every comparison that the truth of a capture allows."""
    by_table: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_table[row["table"]].append(row)
    return [*_records(truth, by_table), *_counts(truth, by_table), *_messages(truth, by_table)]


def _records(truth: Mapping[str, Any], by_table: Mapping[str, list[Row]]) -> Iterator[Finding]:
    names = {row["topic_id"]: row["name"] for row in by_table["topics"]}
    seen: dict[tuple[str, str], list[tuple[Any, ...]]] = defaultdict(list)
    for row in by_table["records"]:
        if not row["control"] and row["ack"] != "failed":
            topic = row["topic"] or names.get(row["topic_id"])
            seen[topic, row["direction"]].append((row["partition"], row["offset"], row["key"], row["value"]))
    for topic, logged in truth["records"].items():
        for direction, records in logged.items():
            wanted = {(at, offset, _bytes(key), _bytes(value)) for at, offset, key, value in records}
            found = {*seen[topic, direction]}
            yield f"{topic}: records of the client's log, {direction}", len(wanted), len(wanted & found), ""
            if direction == "produce":
                yield f"{topic}: records produced beyond the log", 0, len(found - wanted), ""


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def _counts(truth: Mapping[str, Any], by_table: Mapping[str, list[Row]]) -> Iterator[Finding]:
    for count in truth["counts"]:
        rows = [row for row in by_table[count["table"]] if _fits(row, count["where"])]
        number = len(
            {tuple(row[column] for column in count["distinct"]) for row in rows} if count["distinct"] else rows
        )
        yield count["what"], count["number"], number, ""


def _fits(row: Row, where: Mapping[str, Any]) -> bool:
    for column, wanted in where.items():
        place, _, member = column.partition("__")
        if (row[place][member] if member else row[place]) != wanted:
            return False
    return True


def _messages(truth: Mapping[str, Any], by_table: Mapping[str, list[Row]]) -> Iterator[Finding]:
    commands = {row["name"] for row in by_table["messages"]}
    if wanted := truth.get("commands"):
        yield "commands", wanted, [command for command in wanted if command in commands], ""
    told = {row[column] for table in ("messages", "partitions") for row in by_table[table] for column in _ERRORS}
    for error in truth["errors"]:
        yield f"error of {error['call']}", error["error"], error["error"] if error["error"] in told else None, ""


_ERRORS = ("error_name", "error_code")
