"""Everything that was counted in, the page's document out: plain values, bounded, with what was left out named."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from mqsniff.answers.report.collecting import TIMED_OUT, ErrorSeriesKey, TrafficReport
from mqsniff.answers.report.links import graph_of
from mqsniff.answers.report.members import lives_of
from mqsniff.answers.report.page import escaped_json
from mqsniff.answers.report.pagetables import tables_of
from mqsniff.answers.report.rowsbehind import equals, failure_condition
from mqsniff.answers.report.timegrid import TimedSeries
from mqsniff.answers.stats import RunFacts
from mqsniff.answers.stats.commands import NAMELESS
from mqsniff.answers.stats.keeping import KeptTallies, StatRow
from mqsniff.limits import MILLISECOND_NS

SHOWN: Final = 8
"""Lines of a chart; the rest is one more."""
LATENCIES: Final = 12
TABLES_SIZE: Final = 2_200_000
"""Bytes of all tables; the rest of a page is bounded by its numbers of things, 2.5 MB with the longest names."""
TEXT_SHOWN: Final = 200
"""Characters of a name on the page."""
_WHOLE: Final = frozenset(("behind", "conditions", "run"))
"""What commands are made of, which is not shortened."""

CountedSections = Mapping[Any, list[StatRow]]
SeriesRow = dict[str, Any]


class PageRun(NamedTuple):
    """What the command line says beside the traffic."""

    prefix: Sequence[str]
    """Words of a command that decodes the same: program, command, files, options."""
    where: str
    """The condition of the run; empty where it has none."""
    head: Sequence[tuple[str, str]]
    """(title, text) lines: the head of the page of ``mqsniff stats``."""


def document_of(report: TrafficReport, facts: RunFacts, run: PageRun) -> dict[str, Any]:
    """The document, of a run that has ended."""
    report.finish()
    sections: CountedSections = report.stats.rows(facts)
    grid = report.grid
    series = {"protocol": report.protocols, "topic": report.topics, "client": report.clients}
    document: dict[str, Any] = shortened(
        {
            "run": {"prefix": list(run.prefix), "where": run.where, "head": [list(line) for line in run.head]},
            "files": [capture.name for capture in facts.captures],
            "span": sections["span"][0],
            "sentences": sentences(report, sections),
            "grid": {
                "start_ms": max(grid.first, 0) * grid.width_ns // MILLISECOND_NS,
                "width_ms": grid.width_ns // MILLISECOND_NS,
                "count": grid.count,
            },
            "series": {name: _amounts(report, kept) for name, kept in series.items()},
            "latency": _latency(report),
            "errors": _amounts(report, report.errors, _error_words, _error_condition),
            "network": _amounts(report, report.network),
            "network_totals": network_totals(sections["network"]),
            "groups": lives_of(report, sections["groups"]),
            "groups_left_out": report.history_left_out,
            "lags": _lags(report),
            "graph": graph_of(report.links, sections["clients"]),
            "connections_seen": report.connections_seen,
            "tables": tables_of(report, sections),
        }
    )
    bound_tables(document["tables"])
    return document


def bound_tables(tables: list[dict[str, Any]], size_max: int = TABLES_SIZE) -> None:
    """Leave out the last rows of long tables until all tables together are as large as a page may have them."""
    while sum(len(escaped_json(table)) for table in tables) > size_max:
        most = max(len(table["rows"]) for table in tables)
        for table in tables:
            kept = min(len(table["rows"]), most * 3 // 4)
            table["left_out"] += len(table["rows"]) - kept
            del table["rows"][kept:], table["conditions"][kept:]


def sentences(report: TrafficReport, sections: CountedSections) -> list[str]:
    """The summary: what there is, what failed and when, for whoever reads nothing else."""
    span = sections["span"][0]
    servers = [row for row in sections["hosts"] if row["role"] == "server" and row["connections"]]
    seconds = (span["duration_ns"] or 0) / 1e9
    told = [
        _count(len(servers), "server"),
        _count(len(sections["clients"]), "client"),
        _count(len([row for row in sections["topics"] if row["role"] != "internal"]), "topic") + " with records",
        f"{_count(span['messages'], 'message')} in {_duration(seconds)}",
    ]
    found = [f"{', '.join(told)}."]
    ranked = sorted(report.errors.kept.items(), key=lambda one: -_total(one[1]))
    for name, series in ranked[:3]:
        found.append(f"{_total(series):,} × {_error_words(name)}{_when(report, series)}.")
    if len(ranked) > 3:
        rest = sum(_total(series) for _, series in ranked[3:])
        found.append(f"{rest:,} errors of {_count(len(ranked) - 3, 'other kind')}.")
    if not ranked and span["messages"]:
        found.append("No errors, and no request without an answer.")
    totals = network_totals(sections["network"])
    for words, series in report.network.kept.items():
        found.append(f"{totals.get(words, _total(series)):,} × {words}{_when(report, series)}.")
    lagging = [row for row in sections["groups"] if row["lag"] or row["unacknowledged"]]
    for row in lagging[:2]:
        what = f"{row['lag']:,} records behind" if row["lag"] else f"{row['unacknowledged']:,} unacknowledged"
        found.append(f"Group {row['group']}: {what} at the end.")
    return found


def network_totals(rows: Sequence[StatRow]) -> dict[str, int]:
    """All of what each connection reports only the first of, with a time (``troubles_max``)."""
    return {
        "segment sent again": sum(row["retransmitted_segments"] for row in rows),
        "zero window": sum(row["client_zero_windows"] + row["server_zero_windows"] for row in rows),
    }


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{seconds:.3g} s"


def _when(report: TrafficReport, series: TimedSeries[list[int]]) -> str:
    """The time between the first and the last bucket of a series."""
    series.fold(report.grid.level)
    clocks = [_clock(bucket * report.grid.width_ns) for bucket in (min(series.cells), max(series.cells))]
    return f" at {clocks[0]}" if clocks[0] == clocks[1] else f" between {clocks[0]} and {clocks[1]} UTC"


def _clock(ts_ns: int) -> str:
    seconds = ts_ns // 1_000_000_000 % 86_400
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def _total(series: TimedSeries[list[int]]) -> int:
    return sum(cell[0] for cell in series.cells.values())


def _error_words(key: ErrorSeriesKey) -> str:
    _, name, error = key
    if error == TIMED_OUT:
        return f"{name} delivered, and its time ran out"
    return f"{name} without an answer" if error is None else f"{name} {error}"


def _error_condition(key: ErrorSeriesKey) -> str | None:
    if key[2] == TIMED_OUT:
        return f"{equals('protocol', key[0])} and {equals('name', key[1])} and link = 'settlement' and timed_out"
    return None if key[2] == NAMELESS else failure_condition(*key)


def _amounts(
    report: TrafficReport,
    kept: KeptTallies[Any, TimedSeries[list[int]]],
    words: Callable[[Any], str] = str,
    condition: Callable[[Any], str | None] | None = None,
) -> list[SeriesRow]:
    """The series with most bytes or most of all, then the others as one, which is named so."""
    ranked = sorted(kept.kept.items(), key=lambda one: -sum(size or n for n, size in one[1].cells.values()))
    rows = []
    for key, series in ranked[:SHOWN]:
        row = _amount(report, words(key), [series])
        rows.append(row if condition is None else row | {"conditions": condition(key)})
    rest = [series for _, series in ranked[SHOWN:]] + ([kept.others] if kept.others is not None else [])
    if rest:
        more = " and more" if kept.others is not None else ""
        rows.append(_amount(report, f"({len(ranked) - SHOWN}{more} others)", rest) | {"others": True})
    return rows


def _amount(report: TrafficReport, name: str, several: Iterable[TimedSeries[list[int]]]) -> SeriesRow:
    counts = [0] * report.grid.count
    sizes = [0] * report.grid.count
    for series in several:
        for place, cell in enumerate(series.of(report.grid)):
            if cell is not None:
                counts[place] += cell[0]
                sizes[place] += cell[1]
    return {"name": name, "counts": counts, "bytes": sizes, "count": sum(counts), "size": sum(sizes)}


def _latency(report: TrafficReport) -> list[SeriesRow]:
    """Commands by how often they were timed: how long they took, in all and over time."""
    durations = report.stats.durations()
    ranked = sorted(report.latency.kept, key=lambda key: -sum(each.count for each in durations[key]))
    rows = []
    for key in ranked[:LATENCIES]:
        work, waits = durations[key]
        cells = report.latency.kept[key].of(report.grid)
        over = [(None, None, None) if cell is None else tuple(cell[0].quantiles(0.5, 0.95, 0.99)) for cell in cells]
        held = [None if cell is None else cell[1].quantiles(0.5)[0] for cell in cells]
        rows.append(
            {
                "protocol": key[0],
                "name": key[1],
                "work": {"count": work.count, "steps": work.steps(), "quantiles": work.quantiles(0.5, 0.95, 0.99, 1)},
                "waits": {"count": waits.count, "steps": waits.steps(), "quantiles": waits.quantiles(0.5, 0.95, 1)},
                "p50": [each[0] for each in over],
                "p95": [each[1] for each in over],
                "p99": [each[2] for each in over],
                "waited": held,
                "most": [None if cell is None or not cell[0].count else cell[0].greatest for cell in cells],
            }
        )
    return rows


def _lags(report: TrafficReport) -> list[SeriesRow]:
    """The groups that lagged most."""
    rows: list[SeriesRow] = []
    for (protocol, group), series in report.lags.kept.items():
        cells = series.of(report.grid)
        lag, commit = ([None if cell is None else cell[which] for cell in cells] for which in (0, 1))
        most = max((value for value in [*lag, *commit] if value is not None), default=0)
        rows.append({"protocol": protocol, "group": group, "lag": lag, "commit_lag": commit, "most": most})
    return sorted(rows, key=lambda row: (-row["most"], row["group"]))[:SHOWN]


def shortened(value: Any) -> Any:
    """A copy whose names are not longer than the page shows; conditions and words of commands stay whole."""
    match value:
        case str() if len(value) > TEXT_SHOWN:
            return f"{value[:TEXT_SHOWN]}… ({len(value):,} characters)"
        case list() | tuple():
            return [shortened(item) for item in value]
        case dict():
            return {key: item if key in _WHOLE else shortened(item) for key, item in value.items()}
    return value
