"""What ``mqadmin`` printed of queues, compared with rows of ``partitions``: a part of ``truth_rocketmq.py``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

Finding = tuple[str, Any, Any, str]
Row = Mapping[str, Any]

TABLES: Final = {
    "consumerProgress": (
        "GET_CONSUME_STATS",
        "#Topic",
        {"high_watermark": "#Broker Offset", "offset": "#Consumer Offset"},
    ),
    "brokerConsumeStats": (
        "GET_BROKER_CONSUME_STATS",
        "#Topic",
        {"high_watermark": "#Broker Offset", "offset": "#Consumer Offset"},
    ),
    "topicStatus": (
        "GET_TOPIC_STATS_INFO",
        "#Broker Name",
        {"log_start_offset": "#Min Offset", "high_watermark": "#Max Offset"},
    ),
}
"""Command -> (message that its table was made from, first title of the table, column of ``partitions`` -> title)."""


def check_printed(command: str, output: str, partitions: Iterable[Row], note: str) -> Iterator[Finding]:
    """Each line of a table of queues is a row."""
    name, first, columns = TABLES.get(command.partition(" ")[0], ("", "", {}))
    rows = [row for row in partitions if (row["name"], row["kind"]) == (name, "response")]
    for line in printed(output, first) if name else ():
        queue = line["#QID"]
        if not queue.isdigit():
            continue
        wanted = {column: int(line[title]) for column, title in columns.items()}
        found = [{column: row[column] for column in columns} for row in rows if row["partition"] == int(queue)]
        yield f"{name} of queue {queue}", wanted, wanted if wanted in found else found, note


def printed(output: str, first: str) -> Iterator[dict[str, str]]:
    """Lines of a table by the titles above them, which stand where their columns begin."""
    titles: list[tuple[str, int, int]] = []
    for line in output.splitlines():
        if line.startswith(first):
            starts = [at for at, letter in enumerate(line) if letter == "#"]
            titles = [
                (line[at:stop].strip(), at, stop) for at, stop in zip(starts, [*starts[1:], 1 << 16], strict=True)
            ]
        elif titles and line.strip():
            yield {title: line[at:stop].strip() for title, at, stop in titles}
        else:
            titles = []
