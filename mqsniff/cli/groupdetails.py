"""Rows of groups in, lines about each of them out: its members, its place, its rebalances, what is not settled."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from mqsniff.answers.stats.keeping import StatRow
from mqsniff.cli.amounts import count_text, duration_text
from mqsniff.cli.statsgrid import KEPT, GridCell, GridColumn, GridLines

_DAY_AND_SECOND = slice(11, 23)
"""The time of day in RFC 3339 text, to milliseconds."""


class GroupDetails:
    """Makes the lines."""

    def __init__(self, lines: GridLines) -> None:
        self._lines = lines

    def of(self, groups: Sequence[StatRow]) -> Iterator[str]:
        """The lines of every group."""
        for group in groups:
            for part in (self._members, self._partitions, self._timeline, self._deliveries):
                yield from part(group)

    def _members(self, group: StatRow) -> Iterator[str]:
        columns = (
            GridColumn(f"MEMBER OF {group['group']}", right=False),
            GridColumn("client", right=False, weight=60),
            GridColumn("host", right=False, weight=40),
            GridColumn("", right=False, weight=80),
            GridColumn("assigned", right=False, weight=KEPT),
        )
        yield from self._grid(
            columns,
            [
                (
                    member["member"],
                    member["client_id"] or "",
                    member["host"],
                    "left" if member["left"] else "leader" if member["leader"] else "",
                    "; ".join(f"{one['topic']} {_numbers(one['partitions'])}" for one in member["assigned"]),
                )
                for member in group["members"]
            ],
        )

    def _partitions(self, group: StatRow) -> Iterator[str]:
        columns = (
            GridColumn(f"PARTITION READ BY {group['group']}", right=False),
            GridColumn("end"),
            GridColumn("position"),
            GridColumn("committed"),
            GridColumn("lag", weight=KEPT),
            GridColumn("commit lag"),
        )
        names = ("end", "position", "committed", "lag", "commit_lag")
        yield from self._grid(
            columns,
            [
                (
                    f"{row['topic']}-{row['partition']}",
                    *("?" if row[name] is None else f"{row[name]:,}" for name in names),
                )
                for row in group["partitions"]
            ],
        )

    def _timeline(self, group: StatRow) -> Iterator[str]:
        columns = (
            GridColumn(f"REBALANCE OF {group['group']}", right=False),
            GridColumn("generation", weight=60),
            GridColumn("took", weight=KEPT),
            GridColumn("members", weight=50),
            GridColumn("waited longest", right=False, weight=70),
            GridColumn("waited for", right=False, weight=80),
        )
        names = {one["member"]: one["client_id"] or one["member"] for one in group["members"]}
        yield from self._grid(columns, [_rebalance(row, names) for row in group["timeline"]])

    def _deliveries(self, group: StatRow) -> Iterator[str]:
        columns = (
            GridColumn(f"DELIVERED TO {group['group']}", right=False),
            GridColumn("deliveries", weight=70),
            GridColumn("settled by", right=False, weight=80),
            GridColumn("unacked", weight=95),
            GridColumn("redelivered", weight=90),
            GridColumn("timed out", weight=85),
            GridColumn("refused", weight=60),
            GridColumn("in flight", weight=40),
            GridColumn("p50", weight=50),
            GridColumn("max", weight=50),
        )
        yield from self._grid(
            columns,
            [
                (
                    row["topic"] or "(no name)",
                    count_text(row["deliveries"]),
                    ", ".join(f"{name} {count:,}" for name, count in row["settled_by"].items()),
                    (count_text(row["unacknowledged"]), "warning"),
                    (count_text(row["redelivered"]), "warning"),
                    (count_text(row["timed_out"]), "warning"),
                    (count_text(row["refused"]), "error"),
                    count_text(row["in_flight_max"]),
                    duration_text(row["settle_p50_ns"]),
                    duration_text(row["settle_max_ns"]),
                )
                for row in group["by_topic"]
            ],
        )

    def _grid(self, columns: Sequence[GridColumn], rows: Sequence[Sequence[GridCell]]) -> Iterator[str]:
        if rows:
            yield ""
            yield from self._lines.grid(columns, rows)


def _rebalance(row: StatRow, names: Mapping[str, str]) -> Sequence[GridCell]:
    """A rebalance as cells; ``names`` are short ones of members."""
    longest = max(row["members"], key=lambda one: one["waited_ns"], default=None)
    return (
        str(row["started_ts"])[_DAY_AND_SECOND],
        "" if row["generation"] is None else str(row["generation"]),
        (duration_text(row["duration_ns"]), "latency"),
        count_text(len(row["members"])),
        ""
        if longest is None
        else f"{duration_text(longest['waited_ns'])} {names.get(longest['member'], longest['member'])}",
        names.get(row["waited_for"], row["waited_for"] or ""),
    )


def _numbers(numbers: Sequence[int]) -> str:
    """Partitions, runs of them shortened: "0-3,7"."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
