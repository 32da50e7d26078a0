"""Figures of a live run in, a page of exactly as many lines as there is room for out, or one line of them.

1. What is wrong is red. Where there is little room, the head stays, then the first commands, errors and topics.
2. A title says how many rows there are where not all are shown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

from mqsniff.answers.stats.keeping import StatRow
from mqsniff.answers.stats.recent import LiveFigures
from mqsniff.cli.amounts import count_of, count_text, duration_text, rate_text, size_text
from mqsniff.cli.statsgrid import KEPT, GridCell, GridColumn, GridLines
from mqsniff.limits import SECOND_NS
from mqsniff.sinks.paint import TextPart
from mqsniff.tables.escape import safe

_LEAST_ROWS: Final = 3
_LEAST_SHARE: Final = 6
"""A section gets so many rows, or this part of the page, before another one gets more."""
ROWS_MAX: Final = 20
"""Rows of a section where there is no screen to fill."""
_FRAME: Final = 2
"""Lines of a section beside its rows: an empty one and the head."""
_NAMED: Final = 3
"""Commands and topics that the one line names."""

_COMMANDS: Final = (
    GridColumn("COMMAND", right=False),
    GridColumn("protocol", right=False, weight=88),
    GridColumn("per s", weight=KEPT),
    GridColumn("bytes/s", weight=70),
    GridColumn("messages", weight=65),
    GridColumn("errors", weight=KEPT),
    GridColumn("no answer", weight=90),
    GridColumn("p50", weight=95),
    GridColumn("p95", weight=75),
    GridColumn("p99", weight=85),
    GridColumn("max", weight=40),
    GridColumn("held p50", weight=30),
)
_TOPICS: Final = (
    GridColumn("TOPIC", right=False),
    GridColumn("protocol", right=False, weight=60),
    GridColumn("produced/s", weight=KEPT),
    GridColumn("delivered/s", weight=95),
    GridColumn("bytes/s", weight=80),
    GridColumn("produced", weight=50),
    GridColumn("delivered", weight=50),
)
_FAILURES: Final = (
    GridColumn("ERROR", right=False),
    GridColumn("command", right=False, weight=90),
    GridColumn("protocol", right=False, weight=60),
    GridColumn("now", weight=95),
    GridColumn("all", weight=KEPT),
)


class PageSection(NamedTuple):
    """A table of the page."""

    columns: Sequence[GridColumn]
    rows: Sequence[StatRow]
    cells: Callable[[StatRow], Sequence[GridCell]]


def page(figures: LiveFigures, name: str, lines: GridLines, height: int | None, notes: Sequence[str] = ()) -> list[str]:
    """The page with notes below its head, at most ``height`` lines; None for the first rows of each section."""
    sections = [
        PageSection(_COMMANDS, figures.commands, _command_cells),
        PageSection(_FAILURES, figures.failures, _failure_cells),
        PageSection(_TOPICS, figures.topics, _topic_cells),
    ]
    head = [lines.line(*parts) for parts in _head(figures, name)]
    head += [lines.line(("warning", note)) for note in notes]
    made = head if height is None else head[:height]
    room = None if height is None else height - len(made)
    for section, shown in zip(sections, _shares([len(section.rows) for section in sections], room), strict=True):
        if shown:
            made += ["", *_table(section, shown, lines)]
    return made


def _table(section: PageSection, shown: int, lines: GridLines) -> list[str]:
    """A section's head and its first rows."""
    first, *others = section.columns
    if shown < len(section.rows):
        first = first._replace(title=f"{first.title} {shown} of {len(section.rows):,}")
    return lines.grid([first, *others], [section.cells(row) for row in section.rows[:shown]])


def _shares(rows: Sequence[int], room: int | None) -> list[int]:
    """How many rows of each section are shown in so many lines."""
    if room is None:
        return [min(count, ROWS_MAX) for count in rows]
    shown = [0] * len(rows)
    fair = max(_LEAST_ROWS, room // _LEAST_SHARE)
    for index, count in enumerate(rows):
        least = min(count, fair, room - _FRAME)
        if least > 0:
            shown[index] = least
            room -= least + _FRAME
    for index in (0, 2, 1):
        if shown[index]:
            more = min(rows[index] - shown[index], max(room, 0))
            shown[index] += more
            room -= more
    return shown


def _head(figures: LiveFigures, name: str) -> list[list[TextPart]]:
    """The first lines: the capture, then what was decoded of it."""
    f = figures
    dropped = f"{f.dropped:,} dropped" + (f" ({f.dropped_now:,} now)" if f.dropped_now else "")
    capture: list[TextPart] = [
        ("name", name),
        ("time", f"  {duration_text(int(f.seconds * SECOND_NS))}, last {duration_text(int(f.window_s * SECOND_NS))}:"),
        ("", f"  {rate_text(f.packets_per_s) or 0} packets/s of {f.packets:,}"),
        ("error" if f.dropped else "", f"  {dropped}"),
        ("", f"  {count_of(f.open_connections, 'connection')}"),
    ]
    decoded: list[TextPart] = [
        ("", f"{rate_text(f.messages_per_s) or 0} messages/s of {f.messages:,}"),
        ("", f"  {size_text(f.bytes_per_s)}/s"),
        ("error" if f.errors else "", f"  {count_of(f.errors, 'error')}"),
        ("error" if f.unanswered else "", f"  {f.unanswered:,} without an answer"),
        ("warning", "  rows are capped: (others)" if f.capped else ""),
    ]
    return [capture, decoded]


def _command_cells(row: StatRow) -> Sequence[GridCell]:
    return (
        row["name"],
        row["protocol"],
        rate_text(row["per_s"]),
        size_text(row["bytes_per_s"] or None),
        count_text(row["count"]),
        (count_text(row["errors"]), "error"),
        (count_text(row["unanswered"]), "error"),
        *(duration_text(row[f"{name}_ns"]) for name in ("p50", "p95", "p99", "max", "waited_p50")),
    )


def _topic_cells(row: StatRow) -> Sequence[GridCell]:
    return (
        row["topic"],
        row["protocol"],
        rate_text(row["produced_per_s"]),
        rate_text(row["delivered_per_s"]),
        size_text(row["bytes_per_s"] or None),
        count_text(row["produced"]),
        count_text(row["delivered"]),
    )


def _failure_cells(row: StatRow) -> Sequence[GridCell]:
    return (
        (row["error"], "error"),
        row["name"],
        row["protocol"],
        count_text(row["now"]),
        count_text(row["count"]),
    )


def period_line(figures: LiveFigures, name: str, now_s: float, notes: Sequence[str] = ()) -> str:
    """One line: the time, the period, what came in it; errors, missing answers and drops are those of the period."""
    f = figures
    errors = sum(row["errors_now"] for row in f.commands)
    unanswered = sum(row["unanswered_now"] for row in f.commands)
    slowest = max((row for row in f.commands if row["p99_ns"] is not None), key=lambda r: r["p99_ns"], default=None)
    parts = [
        f"{rate_text(f.packets_per_s) or 0} packets/s",
        f"{rate_text(f.messages_per_s) or 0} messages/s",
        f"{size_text(f.bytes_per_s)}/s",
        count_of(errors, "error"),
        f"{unanswered:,} without an answer",
        f"{f.dropped_now:,} dropped",
        count_of(f.open_connections, "open connection"),
    ]
    if slowest is not None:
        parts.append(f"slowest p99 {slowest['name']} {duration_text(slowest['p99_ns'])}")
    busy = [f"{row['name']} {rate_text(row['per_s'])}/s" for row in f.commands[:_NAMED] if row["per_s"]]
    topics = [f"{row['topic']} {size_text(row['bytes_per_s'])}/s" for row in f.topics[:_NAMED] if row["bytes_per_s"]]
    line = f"{_clock_text(now_s)} {name} {duration_text(int(f.window_s * SECOND_NS))}: {', '.join(parts)}"
    if busy:
        line += f"; commands: {', '.join(busy)}"
    if topics:
        line += f"; topics: {', '.join(topics)}"
    return safe("; ".join([line, *notes]))


def _clock_text(now_s: float) -> str:
    return datetime.fromtimestamp(now_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
