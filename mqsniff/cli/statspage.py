"""Rows of the sections of ``mqsniff stats`` in, a page of lines out: what is in it, what is wrong and where, then more.

1. The most important comes first; errors are red. A section without rows takes no line.
2. Without ``--all`` each section shows its first rows and says how many more there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from mqsniff.answers.stats.keeping import StatRow
from mqsniff.answers.stats.topics import BESIDE
from mqsniff.cli.amounts import count_text, duration_text, rate_text, share_text, size_text
from mqsniff.cli.groupdetails import GroupDetails
from mqsniff.cli.statsgrid import KEPT, GridCell, GridColumn, GridLines
from mqsniff.cli.statshead import TRUST_ROLES, Sections, StatsHead, most_of
from mqsniff.model import endpoint
from mqsniff.sinks.paint import Role


class StatsPage:
    """Makes the page."""

    def __init__(self, lines: GridLines, *, top: int | None = 5, by: str | None = None) -> None:
        """``top``: rows of a section that are shown; None for all of them and all sections."""
        self._lines = lines
        self._top = top
        self._by = by

    def of(self, sections: Sections) -> Iterator[str]:
        """The page, line by line."""
        yield from StatsHead(self._lines, top=self._top).of(sections)
        yield from self._changes(sections)
        for part in (self._protocols, self._commands, self._topics, self._groups):
            yield from part(sections)
        for part in (self._hosts, self._clients, self._network):
            yield from part(sections)
        if self._top is None:
            yield from self._health(sections)

    # ---- sections

    def _protocols(self, sections: Sections) -> Iterator[str]:
        columns = (
            GridColumn("PROTOCOL", right=False),
            GridColumn("connections"),
            GridColumn("messages", weight=KEPT),
            GridColumn("bytes"),
            GridColumn("on the wire", weight=30),
            GridColumn("encrypted", weight=80),
            GridColumn("undecoded", weight=60),
            GridColumn("errors", weight=KEPT),
            GridColumn("no answer", weight=KEPT),
        )
        yield from self._section(
            columns,
            sections["protocols"],
            lambda row: (
                row["protocol"],
                count_text(row["connections"]),
                count_text(row["messages"]),
                size_text(row["bytes"]) if row["messages"] else "",
                size_text(row["wire_bytes"]),
                share_text(row["encrypted_share"] or None),
                (size_text(row["undecoded_bytes"]) if row["undecoded_bytes"] else "", "warning"),
                _bad(row["errors"]),
                _bad(row["unanswered"]),
            ),
        )

    def _commands(self, sections: Sections) -> Iterator[str]:
        rows = sections["commands"]
        if not self._by and self._top is not None:
            rows = sorted(rows, key=_urgency)
        several = len({row["protocol"] for row in rows}) > 1
        by = (GridColumn(self._by.upper(), right=False, weight=90),) if self._by else ()
        columns = (
            GridColumn("COMMAND", right=False),
            *by,
            GridColumn("messages", weight=70),
            GridColumn("bytes", weight=20),
            GridColumn("errors", weight=KEPT),
            GridColumn("no answer", weight=KEPT),
            GridColumn("p50", weight=90),
            GridColumn("p95", weight=60),
            GridColumn("p99", weight=40),
            GridColumn("max", weight=90),
            GridColumn("waited", weight=30),
            GridColumn("wait p50", weight=25),
            GridColumn("error names", right=False, weight=10),
        )
        yield from self._section(columns, rows, lambda row: self._command(row, several=several))

    def _command(self, row: StatRow, *, several: bool) -> Sequence[GridCell]:
        name = f"{row['protocol']} {row['name']}" if several else row["name"]
        return (
            (name, "name"),
            *((_division(row, self._by),) if self._by else ()),
            count_text(row["count"]),
            size_text(row["bytes"]),
            _bad(row["errors"]),
            _bad(row["unanswered"]),
            *(duration_text(row[column]) for column in ("p50_ns", "p95_ns", "p99_ns", "max_ns")),
            count_text(row["waited"]),
            duration_text(row["waited_p50_ns"]),
            (most_of(row["errors_by_name"]), "error"),
        )

    def _changes(self, sections: Sections) -> Iterator[str]:
        """What differs from the captures that it is compared with."""
        if "changes" not in sections:
            return
        if not sections["changes"]:
            yield ""
            yield self._lines.line(("", "nothing changed: the same errors, commands, clients, topics and latency"))
        columns = (
            GridColumn("CHANGED", right=False),
            GridColumn("what", right=False, weight=KEPT),
            GridColumn("which", right=False, weight=95),
            GridColumn("now", weight=80),
            GridColumn("before", weight=70),
            GridColumn("times", weight=60),
        )
        yield from self._section(columns, sections["changes"], _changed)

    def _topics(self, sections: Sections) -> Iterator[str]:
        columns = (
            GridColumn("TOPIC", right=False),
            GridColumn("for", right=False, weight=30),
            GridColumn("produced", weight=KEPT),
            GridColumn("bytes", weight=70),
            GridColumn("per s", weight=50),
            GridColumn("delivered", weight=KEPT),
            GridColumn("bytes", weight=60),
            GridColumn("per s", weight=40),
            GridColumn("beside", right=False, weight=80),
        )
        yield from self._section(
            columns,
            sections["topics"],
            lambda row: (
                (row["topic"], "topic"),
                row["role"] or "",
                count_text(row["produced"]),
                size_text(row["produced_bytes"]) if row["produced"] else "",
                rate_text(row["produced_per_s"]),
                count_text(row["delivered"]),
                size_text(row["delivered_bytes"]) if row["delivered"] else "",
                rate_text(row["delivered_per_s"]),
                (", ".join(f"{row[what]:,} {what.replace('_', ' ')}" for what in BESIDE if row[what]), "warning"),
            ),
        )

    def _groups(self, sections: Sections) -> Iterator[str]:
        columns = (
            GridColumn("GROUP", right=False),
            GridColumn("members", weight=70),
            GridColumn("generation", weight=30),
            GridColumn("lag", weight=KEPT),
            GridColumn("commit lag", weight=50),
            GridColumn("rebalances", weight=90),
            GridColumn("deliveries", weight=60),
            GridColumn("unacked", weight=95),
            GridColumn("redelivered", weight=90),
            GridColumn("timed out", weight=80),
        )
        yield from self._section(
            columns,
            sections["groups"],
            lambda row: (
                (row["group"], "topic"),
                count_text(sum(not member["left"] for member in row["members"])),
                "" if row["generation"] is None else str(row["generation"]),
                ("" if row["lag"] is None else f"{row['lag']:,}", "warning" if row["lag"] else ""),
                "" if row["commit_lag"] is None else f"{row['commit_lag']:,}",
                count_text(row["rebalances"]),
                count_text(row["deliveries"]),
                (count_text(row["unacknowledged"]), "warning"),
                (count_text(row["redelivered"]), "warning"),
                (count_text(row["timed_out"]), "warning"),
            ),
        )
        if self._top is None:
            yield from GroupDetails(self._lines).of(sections["groups"])

    def _hosts(self, sections: Sections) -> Iterator[str]:
        columns = (
            GridColumn("HOST", right=False),
            GridColumn("is", right=False, weight=90),
            GridColumn("protocols", right=False, weight=70),
            GridColumn("software", right=False, weight=80),
            GridColumn("told", weight=75),
            GridColumn("dialled", weight=75),
            GridColumn("in vain", weight=85),
            GridColumn("sent", weight=40),
            GridColumn("received", weight=30),
        )
        yield from self._section(
            columns,
            sections["hosts"],
            lambda row: (
                row["host"] if row["port"] is None else endpoint(row["host"], row["port"]),
                row["role"],
                ", ".join(row["protocols"]),
                ", ".join(row["software"]),
                count_text(row["told_by_lookup"] + row["told_by_redirect"] + row["told_by_move"]),
                f"{row['connections']:,}" if row["role"] == "server" else count_text(row["connections"]),
                _bad(row["refused"] + row["no_answer"]),
                size_text(row["sent_bytes"]),
                size_text(row["received_bytes"]),
            ),
        )

    def _clients(self, sections: Sections) -> Iterator[str]:
        columns = (
            GridColumn("CLIENT", right=False),
            GridColumn("host", right=False, weight=50),
            GridColumn("library", right=False, weight=90),
            GridColumn("messages", weight=60),
            GridColumn("refused by newer brokers", right=False, weight=80),
            GridColumn("APIs", right=False, weight=20),
        )
        yield from self._section(
            columns,
            sections["clients"],
            lambda row: (
                row["client_id"] or row["host"],
                row["host"],
                row["software"] or "",
                count_text(row["messages"]),
                (_dropped(row["dropped"]), "error"),
                " ".join(_api(api) for api in row["apis"]),
            ),
        )

    def _network(self, sections: Sections) -> Iterator[str]:
        columns = (
            GridColumn("SERVER", right=False),
            GridColumn("connections", weight=60),
            GridColumn("mid-stream", weight=40),
            GridColumn("one-sided", weight=70),
            GridColumn("refused", weight=80),
            GridColumn("no answer", weight=80),
            GridColumn("resets c/s", weight=80),
            GridColumn("sent again", weight=90),
            GridColumn("zero windows", weight=70),
            GridColumn("longest stall", weight=75),
            GridColumn("handshake", weight=20),
        )
        rows = [row for row in sections["network"] if self._top is None or _troubled(row)]
        yield from self._section(
            columns,
            rows,
            lambda row: (
                row["server"],
                count_text(row["connections"]),
                count_text(row["mid_stream"]),
                (count_text(row["one_sided"]), "error"),
                (count_text(row["refused"]), "error"),
                (count_text(row["no_answer"]), "error"),
                (_pair(row["resets_by_client"], row["resets_by_server"]), "error"),
                (count_text(row["retransmitted_segments"]), "warning"),
                (count_text(row["client_zero_windows"] + row["server_zero_windows"]), "warning"),
                (duration_text(_longest(row)), "warning"),
                duration_text(row["handshake_rtt_p50_ns"]),
            ),
        )

    def _health(self, sections: Sections) -> Iterator[str]:
        columns = (
            GridColumn("CAPTURE", right=False),
            GridColumn("value", weight=KEPT),
            GridColumn("share", weight=90),
            GridColumn("trust", right=False, weight=KEPT),
            GridColumn("what it means", right=False, weight=50),
        )
        yield from self._section(columns, sections["health"], _health_cells)

    # ---- lines

    def _section(self, columns: Sequence[GridColumn], rows: Sequence[StatRow], cells: Any) -> Iterator[str]:
        if not rows:
            return
        shown = rows[: self._top]
        yield ""
        yield from self._lines.grid(columns, [cells(row) for row in shown])
        if len(shown) < len(rows):
            yield self._lines.line(("time", f"… {len(rows) - len(shown):,} more (--all)"))


def _urgency(row: StatRow) -> tuple[int, bool, int]:
    """What failed comes first; answers that have a name of their own come last."""
    return -(row["errors"] + row["unanswered"]), row["responses"] == row["count"], -row["count"]


def _division(row: StatRow, by: str) -> str:
    """What a row of commands is of; a connection goes by its ends."""
    return f"{row['client']} > {row['server']}" if by == "connection" and "client" in row else str(row[by] or "-")


def _changed(row: StatRow) -> Sequence[GridCell]:
    bad = row["change"] == "slower" or (row["change"] == "new" and row["what"] in {"error", "unanswered"})
    text = duration_text if row["what"].startswith("latency") else count_text
    return (
        (row["change"], "error" if bad else ""),
        row["what"],
        row["name"],
        text(row["now"]),
        text(row["before"]),
        "" if row["factor"] is None else f"{row['factor']:.3g}",
    )


def _health_cells(row: StatRow) -> Sequence[GridCell]:
    if row["trust"] is None:
        value = size_text(row["bytes"]) if row["check"] == "reason" and row["bytes"] else count_text(row["value"])
        role: Role = "error" if row["severity"] == "error" else ""
        return (f"  {row['kind']}", value, "", (row["severity"], role), row["says"])
    value = "unknown" if row["value"] is None else f"{row['value']:,}"
    return (
        row["check"].replace("_", " "),
        value,
        share_text(row["share"] or None),
        (row["trust"], TRUST_ROLES[row["trust"]]),
        row["says"],
    )


def _bad(count: int) -> GridCell:
    return count_text(count), "error"


def _pair(one: int, other: int) -> str:
    return f"{one:,}/{other:,}" if one or other else ""


def _longest(row: StatRow) -> int | None:
    stalls = [row[name] for name in ("client_longest_stall_ns", "server_longest_stall_ns") if row[name] is not None]
    return max(stalls, default=None)


def _troubled(row: StatRow) -> bool:
    from mqsniff.answers.stats.network import TROUBLES

    return any(row[name] for name in TROUBLES)


def _dropped(refused: Sequence[StatRow]) -> str:
    """The APIs of a client that a newer broker refuses, and which release does."""
    if not refused:
        return ""
    apis = ", ".join(f"{one['name']} {_versions(one['versions'])}" for one in refused)
    return f"{refused[0]['dropped_by']}: {apis}"


def _api(api: StatRow) -> str:
    return f"{api['name']} {_versions(api['versions'])}".rstrip()


def _versions(numbers: Sequence[int]) -> str:
    return ",".join(f"v{number}" for number in numbers)
