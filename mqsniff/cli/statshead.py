"""Rows of the sections of ``mqsniff stats`` in, the first lines of its page out: what it is, and what is wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from mqsniff.answers.stats.keeping import StatRow, add_all
from mqsniff.cli.amounts import count_of, duration_text, share_text, size_text
from mqsniff.cli.statsgrid import GridLines
from mqsniff.sinks.paint import Role, TextPart

Sections: TypeAlias = Mapping[str, Sequence[StatRow]]

TRUST_ROLES: Final[dict[str, Role]] = {"bad": "error", "doubtful": "warning", "unknown": "warning", "good": ""}
_NAMED: Final = 3
"""Kinds of errors that are named."""
_TITLE: Final = 10
"""Cells of the words before the lines."""

_TROUBLES: Final = {
    "retransmitted_segments": ("segment sent again", "segments sent again"),
    "resets_by_client": ("reset by a client", "resets by clients"),
    "resets_by_server": ("reset by a server", "resets by servers"),
    "refused": ("refused connection", "refused connections"),
    "no_answer": ("handshake without an answer", "handshakes without an answer"),
    "stalled": ("stall", "stalls"),
    "client_zero_windows": ("zero window of a client", "zero windows of clients"),
    "server_zero_windows": ("zero window of a server", "zero windows of servers"),
}
"""Columns of the network that the head names, in words."""
_BEHIND: Final = {"lag": "records behind", "unacknowledged": "unacknowledged", "redelivered": "redelivered"}
"""Columns of groups that the head names, in words."""
_CHECKS: Final = {
    "dropped_packets": ("dropped packet", "dropped packets"),
    "damaged_captures": ("damaged place of a capture", "damaged places of captures"),
    "gap_bytes": ("lost", "lost"),
    "undecoded_bytes": ("undecoded", "undecoded"),
    "encrypted_bytes": ("of it encrypted", "of it encrypted"),
    "cut_packets": ("cut packet", "cut packets"),
    "one_sided_connections": ("one-sided connection", "one-sided connections"),
    "mid_stream_connections": ("mid-stream connection", "mid-stream connections"),
    "forgotten_connections": ("forgotten connection", "forgotten connections"),
    "doubled_packets": ("doubled packet", "doubled packets"),
    "backward_packets": ("packet back in time", "packets back in time"),
    "clock_jumps": ("sign of a wrong clock", "signs of a wrong clock"),
}
"""Checks in words, of one and of many."""


class StatsHead:
    """Makes the lines."""

    def __init__(self, lines: GridLines, *, top: int | None) -> None:
        """``top``: None for all names of errors."""
        self._lines = lines
        self._top = top

    def of(self, sections: Sections) -> Iterator[str]:
        """The lines in the order of what is asked first."""
        yield from self._span(sections)
        yield from self._trust(sections["health"], sections["span"][0]["packets"])
        yield from self._wrong(sections)
        yield from self._groups(sections["groups"])
        yield from self._clients(sections["clients"])

    def _span(self, sections: Sections) -> Iterator[str]:
        span = sections["span"][0]
        names = [name.rpartition("/")[2] for name in span["captures"]]
        what = names[0] if len(names) == 1 else f"{count_of(len(names), 'capture')}: {', '.join(names)}"
        yield self._lines.line(("name", what))
        if span["first_ts"] is not None:
            day, _, rest = span["first_ts"].partition("T")
            yield self._said("span", [("", f"{day} {rest[:12]}Z + {duration_text(span['duration_ns'])}")])
        nouns = ("message", "connection", "packet")
        volume = ", ".join(count_of(span[f"{noun}s"], noun) for noun in nouns)
        yield self._said("holds", [("", f"{volume}, {size_text(span['wire_bytes'])} in streams")])

    def _trust(self, health: Sequence[StatRow], packets: int) -> Iterator[str]:
        """How far the capture can be trusted, the worst first."""
        checks = [row for row in health if row["trust"] is not None]
        if not packets:
            yield self._said("trust", [("warning", "no packets")])
            return
        if not any(row["trust"] in {"bad", "doubtful"} for row in checks):
            yield self._said("trust", [("", "good: nothing is lost, cut, undecoded or seen by one side")])
        for trust in ("bad", "doubtful", "unknown"):
            found = [_verdict(row) for row in checks if row["trust"] == trust]
            if found:
                yield self._said("trust", [(TRUST_ROLES[trust], f"{trust}: {', '.join(found)}")])

    def _wrong(self, sections: Sections) -> Iterator[str]:
        """What failed, in one line each."""
        protocols, network = sections["protocols"], sections["network"]
        errors, unanswered = (_added(protocols, f"{what}_by_command") for what in ("errors", "unanswered"))
        yield from self._named("errors", errors)
        yield from self._named("no answer", unanswered)
        trouble = {words: sum(row[name] for row in network) for name, words in _TROUBLES.items()}
        found = [count_of(count, *words) for words, count in trouble.items() if count]
        if found:
            yield self._said("network", [("warning", ", ".join(found))])
        if not (errors or unanswered or found) and sections["span"][0]["messages"]:
            yield self._said("errors", [("", "none; every request that expects an answer has one")])

    def _named(self, title: str, counts: Mapping[str, int]) -> Iterator[str]:
        """How many, then the most frequent names, a line each."""
        if not counts:
            return
        ranked = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
        shown = ranked if self._top is None else ranked[:_NAMED]
        width = len(f"{shown[0][1]:,}")
        for index, (name, count) in enumerate(shown):
            yield self._said("" if index else title, [("error", f"{count:>{width},} {name}")])
        if len(shown) < len(ranked):
            rest = sum(count for _, count in ranked[len(shown) :])
            yield self._said("", [("error", f"{rest:>{width},} of {len(ranked) - len(shown)} other kinds (--all)")])

    def _groups(self, groups: Sequence[StatRow]) -> Iterator[str]:
        """What consumers are behind with, and the rebalance that lasted longest."""
        found = []
        for column, words in _BEHIND.items():
            count = sum(row[column] or 0 for row in groups)
            if count:
                worst = max(groups, key=lambda row: row[column] or 0)
                found.append(f"{count:,} {words} (most in {worst['group']})")
        if found:
            yield self._said("groups", [("warning", ", ".join(found))])
        timed = [(one["duration_ns"], row, one) for row in groups for one in row["timeline"] if one["duration_ns"]]
        if timed:
            duration, row, one = max(timed, key=lambda each: each[0])
            names = {member["member"]: member["client_id"] for member in row["members"]}
            waited_for = one["waited_for"]
            whom = f" waited for {names.get(waited_for) or waited_for}" if waited_for else ""
            count = count_of(sum(row["rebalances"] for row in groups), "rebalance")
            text = f"{count}, the longest {duration_text(duration)}: {row['group']}{whom}"
            yield self._said("" if found else "groups", [("", text)])

    def _clients(self, clients: Sequence[StatRow]) -> Iterator[str]:
        """Clients that a newer broker would refuse."""
        refused = [row for row in clients if row["dropped"]]
        if refused:
            release = refused[0]["dropped"][0]["dropped_by"]
            words = "client uses versions" if len(refused) == 1 else "clients use versions"
            names = ", ".join(dict.fromkeys(row["client_id"] or row["host"] for row in refused[:_NAMED]))
            text = f"{len(refused)} {words} that {release} refuses: {names}"
            yield self._said("clients", [("warning", text if len(refused) <= _NAMED else f"{text}, …")])

    def _said(self, title: str, parts: Sequence[TextPart]) -> str:
        return self._lines.line(("time", title.ljust(_TITLE)), *parts)


def _added(rows: Sequence[StatRow], column: str) -> dict[str, int]:
    """Counts by name, of all protocols together."""
    counts: dict[str, int] = {}
    for row in rows:
        add_all(counts, row[column])
    return counts


def _verdict(row: StatRow) -> str:
    """A check in a few words."""
    if row["check"] == "two_taps":
        return "two taps"
    if row["value"] is None:
        return f"{_CHECKS[row['check']][1]} (the capture does not say)"
    words = _CHECKS[row["check"]][row["value"] != 1]
    share = f" ({share_text(row['share'])})" if row["share"] else ""
    value = size_text(row["value"]) if row["check"].endswith("bytes") else f"{row['value']:,}"
    return f"{value} {words}{share}"


def most_of(counts: Mapping[str, int]) -> str:
    """The most frequent names, each with its count, and how many more there are."""
    ranked = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    text = ", ".join(f"{name} {count:,}" for name, count in ranked[:_NAMED])
    return f"{text} and {len(ranked) - _NAMED} more" if len(ranked) > _NAMED else text
