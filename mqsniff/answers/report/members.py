"""News of members in, a life for each member out: from when to when it had which partitions."""

from __future__ import annotations

from typing import Any, Final

from mqsniff.answers.report.collecting import TrafficReport
from mqsniff.answers.stats.keeping import StatRow
from mqsniff.answers.stats.rebalances import NewsPlace
from mqsniff.limits import MILLISECOND_NS
from mqsniff.model import Assignment, MemberNews

GROUPS: Final = 24
MEMBERS: Final = 40
SPANS: Final = 100


class MemberLife:
    """The spans of one member: [from, to, generation, partitions]; the last one is open."""

    def __init__(self) -> None:
        self.client_id: str | None = None
        self.spans: list[list[Any]] = []
        self.count = 0

    def take(self, news: MemberNews, place: NewsPlace) -> None:
        """Begin a span, or end one."""
        self.client_id = place.client_id or self.client_id
        at_ms = place.told_ns / MILLISECOND_NS
        last = self.spans[-1] if self.spans else None
        is_open = last is not None and last[1] is None
        if news.event == "left":
            if last is not None and is_open:
                last[1] = at_ms
            return
        held = None if news.assignment is None else _words(news.assignment)
        if last is not None and is_open:
            same = held is None or held == last[3]
            if same and news.generation in {None, last[2]}:
                return
            if news.event == "joined" and held is None:
                held = ""
            last[1] = at_ms
        self.count += 1
        if len(self.spans) < SPANS:
            self.spans.append([at_ms, None, news.generation, held or ""])


def lives_of(report: TrafficReport, groups: list[StatRow]) -> list[dict[str, Any]]:
    """The groups that changed most, with their members and rebalances."""
    rows = {(row["protocol"], row["group"]): row for row in groups}
    ranked = sorted(report.history, key=lambda key: (-rows[key]["rebalances"] if key in rows else 0, key))
    found = []
    for key in ranked[:GROUPS]:
        lives: dict[str, MemberLife] = {}
        for _, news, place in sorted(report.history[key], key=lambda event: event[0]):
            name = news.member or place.client_id or place.client
            lives.setdefault(name, MemberLife()).take(news, place)
        row = rows.get(key, {"timeline": [], "rebalances": 0})
        kept = list(lives.items())[:MEMBERS]
        found.append(
            {
                "protocol": key[0],
                "group": key[1],
                "members": [
                    {"name": name, "client_id": life.client_id, "spans": life.spans, "count": life.count}
                    for name, life in kept
                ],
                "members_left_out": len(lives) - len(kept),
                "rebalances": [
                    {name: each[name] for name in ("generation", "started_ts", "ended_ts", "duration_ns", "waited_for")}
                    for each in row["timeline"]
                ],
                "rebalance_count": row["rebalances"],
            }
        )
    return found


def _words(assignment: Assignment) -> str:
    """Partitions in few words: "orders 0-3, 7"."""
    return "; ".join(f"{topic} {_ranges(partitions)}" for topic, partitions in assignment) or "nothing"


def _ranges(numbers: tuple[int, ...]) -> str:
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in parts)
