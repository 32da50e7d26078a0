"""Results of ``mqsniff check`` in; differences, expectations and totals on stdout out, or JSON."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from mqsniff.cli.grid import show_grid
from mqsniff.cli.talk import remark, say
from mqsniff.tables.escape import safe

if TYPE_CHECKING:
    from mqsniff.answers.check.differences import Difference
    from mqsniff.answers.check.expectations import Outcome
    from mqsniff.answers.check.goldens import Checked

VALUE_WIDTH: Final = 100
CHANGES_SHOWN: Final = 12
"""Changed fields of one row that are shown."""
KINDS_SHOWN: Final = 8
"""Kinds of further differences that are counted by name."""
_SIGNS: Final = {"new": "+", "missing": "-", "changed": "~", "moved": "="}


class CheckPage:
    """What a check of captures under ``paths`` shows; ``shown`` differences a capture, None: all."""

    def __init__(self, paths: Sequence[Path], *, shown: int | None, silent: bool) -> None:
        self._paths = paths
        self._shown = shown
        self._silent = silent

    def watched(self, results: Iterable[Checked], total: int) -> Iterator[Checked]:
        """The results; a bar on a terminal tells how many there are."""
        if not sys.stderr.isatty():
            yield from results
            return
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress

        with Progress(BarColumn(), MofNCompleteColumn(), console=Console(stderr=True), transient=True) as bar:
            yield from bar.track(results, total)

    def show(self, checked: Checked) -> None:
        """Print what is wrong with one capture."""
        if checked.status == "unreadable":
            say(f"mqsniff: {checked.remark}")
            return
        if self._silent or (not checked.differences and not checked.remark and checked.status != "failed"):
            return
        click.echo(safe(str(checked.capture)))
        for line in difference_lines(checked, self._shown):
            click.echo(f"  {line}")
        for outcome in checked.outcomes:
            if not outcome.passed:
                _show_outcome(outcome)
        if checked.remark:
            click.echo(f"  {safe(checked.remark)}")
        click.echo()

    def conclude(self, results: Sequence[Checked], *, as_json: bool) -> None:
        """Print a line for each capture and the totals, or all as JSON."""
        if as_json:
            import orjson

            click.echo(orjson.dumps(_document(results), default=str))
            return
        if any(checked.outcomes for checked in results):
            rows = [
                (str(checked.capture), outcome.name, "passed" if outcome.passed else "failed", outcome.says)
                for checked in results
                for outcome in checked.outcomes
            ]
            show_grid("", ("capture", "expectation", "result", "found"), rows)
        if any(checked.rows or not checked.outcomes for checked in results):
            show_grid("", ("capture", "messages", "problems", "rows", "result"), [_line(each) for each in results])
        remark(_totals(results))
        for hint in self._hints(results):
            remark(hint)

    def _hints(self, results: Sequence[Checked]) -> Iterator[str]:
        """What to do next."""
        statuses = {checked.status for checked in results}
        where = " ".join(safe(str(path)) for path in self._paths)
        if "no golden" in statuses:
            yield f"write the goldens that are missing: mqsniff check --update {where}"
        elif "different" in statuses:
            yield f"if the new rows are right: mqsniff check --update {where}, and review the change of the goldens"
        if "no capture" in statuses:
            yield "a golden without its capture: delete it, or bring the capture back"


def difference_lines(checked: Checked, shown: int | None) -> Iterator[str]:
    """The first differences of a capture by row and field, the rest counted."""
    from mqsniff.answers.check.differences import counted

    first = checked.differences[:shown]
    rest = checked.differences[len(first) :]
    for difference in first:
        yield from _lines_of(difference)
    if rest:
        kinds = counted(rest).most_common()
        yield f"and {len(rest):,} more differences (-v shows all):"
        for name, count in kinds[:KINDS_SHOWN]:
            yield f"    {count:>7,}  {safe(name)}"
        if len(kinds) > KINDS_SHOWN:
            yield f"    and {len(kinds) - KINDS_SHOWN} more kinds"


def _lines_of(difference: Difference) -> Iterator[str]:
    yield f"{_SIGNS[difference.kind]} {safe(difference.row)}"
    for change in difference.changes[:CHANGES_SHOWN]:
        yield f"    {safe(change.path)}: {_value(change.golden)} -> {_value(change.now)}"
    if len(difference.changes) > CHANGES_SHOWN:
        yield f"    and {len(difference.changes) - CHANGES_SHOWN} more fields"


def _value(value: Any) -> str:
    """A value on one line, cut to ``VALUE_WIDTH``."""
    import orjson

    from mqsniff.answers.check.differences import ABSENT

    if value is ABSENT:
        return "(absent)"
    text = safe(orjson.dumps(value).decode())
    return text if len(text) <= VALUE_WIDTH else f"{text[:VALUE_WIDTH]}… ({len(text)} characters)"


def _show_outcome(outcome: Outcome) -> None:
    """An expectation that fails, with the first rows that break it."""
    click.echo(f"  failed: {safe(outcome.name)}: {safe(outcome.says)}")
    for row in outcome.rows:
        cells = ", ".join(f"{name} {value}" for name, value in row.items() if value not in (None, []))
        click.echo(f"    {safe(cells)}")


def _line(checked: Checked) -> tuple[str, ...]:
    result = f"{len(checked.differences)} differ" if checked.differences else checked.status
    counts = (checked.rows["messages"], checked.rows["problems"], checked.rows.total())
    return str(checked.capture), *map(str, counts), result


def _totals(results: Sequence[Checked]) -> str:
    """How many captures have which result, in one line."""
    statuses = Counter(checked.status for checked in results)
    parts = [f"{count} {status}" for status, count in statuses.most_common()]
    rows = sum(checked.rows.total() for checked in results)
    differing = sum(len(checked.differences) for checked in results)
    outcomes = [outcome for checked in results for outcome in checked.outcomes]
    said = f"{len(results)} {'capture' if len(results) == 1 else 'captures'}: {', '.join(parts)}"
    if rows:
        said += f"; {rows:,} rows, {differing:,} differ"
    if outcomes:
        said += f"; {sum(each.passed for each in outcomes)} of {len(outcomes)} expectations hold"
    return said


def _document(results: Sequence[Checked]) -> dict[str, Any]:
    """All results as JSON: ``captures``, and ``totals`` by status."""
    from mqsniff.tables.schemas import SCHEMA_VERSION

    return {
        "schema": SCHEMA_VERSION,
        "captures": [_entry(checked) for checked in results],
        "totals": dict(Counter(checked.status for checked in results)),
    }


def _entry(checked: Checked) -> dict[str, Any]:
    return {
        "capture": safe(str(checked.capture)),
        "status": checked.status,
        "remark": checked.remark or None,
        "rows": dict(checked.rows),
        "differences": [_as_json(difference) for difference in checked.differences],
        "expectations": [
            {"name": each.name, "passed": each.passed, "found": each.says, "rows": each.rows}
            for each in checked.outcomes
        ],
    }


def _as_json(difference: Difference) -> dict[str, Any]:
    from mqsniff.answers.check.differences import ABSENT

    def value(held: Any) -> dict[str, Any]:
        return {} if held is ABSENT else {"value": held}

    return {
        "kind": difference.kind,
        "row": difference.row,
        "changes": [
            {"field": change.path, "golden": value(change.golden), "now": value(change.now)}
            for change in difference.changes
        ],
    }
