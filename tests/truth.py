"""Folders of captures in, a table out that holds the rows against what the clients of the captures know they did.

A chore, no part of the tests: ``make truth CAPTURES=DIR``, or ``python tests/truth.py [--all] DIR…``.

1. Beside ``x.pcap`` stands ``x.json``, from the client's own log, never from a dissector; captures without one are left
   out.
2. One adapter a protocol knows how to read that file: ``truth_<protocol>.py`` beside this one, with
   ``check(truth, rows) -> list[Finding]``. Rows are dicts with every column of their table and ``table`` in front,
   values typed as in ``mqsniff.tables.rows``, of all tables, records included, in the order in which they came.
3. What agrees is one line a capture (``--all`` shows each comparison). What differs with a note is explained; what
   differs without one makes the exit code 1.
4. An adapter may have a ``tally(truth, rows)`` too: rows of cells under ``TALLY``, shown before, with their sums.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from mqsniff.answers.captures import captures_under, key_logs_beside
from mqsniff.cli.grid import show_grid
from mqsniff.dissector import WITH_RECORDS, Settings
from mqsniff.pipeline import Pipeline
from mqsniff.sources.files import FileSource
from mqsniff.tables.rows import rows_of
from mqsniff.tables.schemas import TABLES
from mqsniff.tables.values import Redaction

PROTOCOLS: Final = ("kafka", "nsq", "pulsar", "rocketmq")
CELL: Final = 60
"""Characters of a value that are shown."""


class Finding(NamedTuple):
    """One comparison; ``note`` says why the two may differ, or what was not compared."""

    what: str
    expected: Any
    found: Any
    note: str = ""

    @property
    def verdict(self) -> str:
        """ok, explained or differs."""
        if self.expected == self.found:
            return "ok"
        return "explained" if self.note else "differs"


Adapter = Callable[[dict[str, Any], Iterable[dict[str, Any]]], Sequence[tuple[str, Any, Any, str]]]


def truths_under(folders: Sequence[Path]) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Captures with the truth that stands beside them, in order of name."""
    for capture in captures_under(folders):
        beside = capture.parent / (capture.name.partition(".pcap")[0] + ".json")
        if beside.exists():
            yield capture, json.loads(beside.read_bytes())


def protocol_of(capture: Path, truth: dict[str, Any]) -> str | None:
    """Name of the adapter for a capture: told by its truth, else by its own name."""
    if truth.get("foreign"):
        return "foreign"
    if truth.get("lab"):
        return "lab"
    told = (str(truth.get("protocol") or "").lower(), capture.name.lower())
    return next((name for text in told for name in PROTOCOLS if text.startswith(name)), None)


def adapter_for(protocol: str | None) -> Adapter | None:
    """The ``check`` of a protocol's adapter; None where nobody wrote one."""
    if protocol is None or find_spec(f"truth_{protocol}") is None:
        return None
    check: Adapter = importlib.import_module(f"truth_{protocol}").check
    return check


def tallies_of(protocol: str | None) -> Any:
    """The module of an adapter that tallies; None where it does not, or nobody wrote one."""
    if protocol is None or find_spec(f"truth_{protocol}") is None:
        return None
    module = importlib.import_module(f"truth_{protocol}")
    return module if hasattr(module, "tally") else None


def decode_capture(capture: Path) -> tuple[list[dict[str, Any]], int]:
    """(rows of all tables, packets) of a capture."""
    keys = key_logs_beside(capture)
    pipeline = Pipeline(FileSource([str(capture)]), Settings(wanted=WITH_RECORDS), keys=keys)
    rows = [
        {"table": table, **row}
        for item in pipeline.items()
        if item is not None
        for table, row in rows_of(item, pipeline.captures, TABLES, Redaction())
    ]
    return rows, pipeline.totals.packets


def check_rows(rows: list[dict[str, Any]], packets: int, truth: dict[str, Any], adapter: Adapter) -> list[Finding]:
    """Compare the rows of a capture."""
    findings = [Finding(*finding) for finding in adapter(truth, rows)]
    if truth.get("packets") is not None:
        findings.insert(0, Finding("packets", truth["packets"], packets))
    internal = sum(row["table"] == "problems" and row["kind"] == "internal" for row in rows)
    return [*findings, Finding("problems of kind internal", 0, internal)]


def lines_of(capture: str, findings: Sequence[Finding], *, everything: bool) -> Iterator[tuple[str, ...]]:
    """Cells of the table: what agrees on one line, what differs on one each; each comparison on its own if asked."""
    agreeing = [finding for finding in findings if finding.verdict == "ok"]
    if not everything:
        yield capture, f"{len(agreeing)} of {len(findings)} comparisons agree", "", "", "ok" if agreeing else "-", ""
    for finding in findings:
        if everything or finding.verdict != "ok":
            what, expected, found, note = finding
            yield capture, what, cell(expected), cell(found), finding.verdict, note


def sums_of(lines: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """What columns of numbers come to."""
    columns = zip(*lines, strict=True)
    return tuple(
        str(sum(int(text or 0) for text in column)) if all(text.isdecimal() or not text for text in column) else ""
        for column in columns
    )


def cell(value: Any) -> str:
    """A value in few characters."""
    text = value if isinstance(value, str) else repr(value)
    text = text.encode("unicode_escape").decode()
    return text if len(text) <= CELL else f"{text[:CELL]}…"


@click.command()
@click.argument("folders", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--all", "everything", is_flag=True, help="Show each comparison, not only those that differ.")
@click.option("--tally/--no-tally", default=True, help="Show what there is by partition or the like, too.")
@click.option("--only", metavar="TEXT", help="Captures with this text in their name.")
def main(folders: tuple[Path, ...], *, everything: bool, tally: bool, only: str | None) -> None:
    """Compare rows with the truth beside captures."""
    verdicts: Counter[str] = Counter()
    lines: list[tuple[str, ...]] = []
    tallies: dict[tuple[str, ...], list[tuple[str, ...]]] = defaultdict(list)
    left_out: Counter[str] = Counter()
    captures = 0
    for capture, truth in truths_under(folders):
        if only and only not in capture.name:
            continue
        protocol = protocol_of(capture, truth)
        adapter = adapter_for(protocol)
        if adapter is None:
            left_out[protocol or "no known protocol"] += 1
            continue
        captures += 1
        rows, packets = decode_capture(capture)
        findings = check_rows(rows, packets, truth, adapter)
        if tally and (tallying := tallies_of(protocol)) is not None:
            tallies[tallying.TALLY] += [(capture.name, *cells) for cells in tallying.tally(truth, rows)]
        verdicts.update(finding.verdict for finding in findings)
        lines += lines_of(capture.name, findings, everything=everything)
    for head, cells in tallies.items():
        show_grid("", ("capture", *head), [*cells, sums_of(cells)])
        click.echo()
    show_grid("", ("capture", "what", "expected", "found", "result", "note"), lines)
    counts = ", ".join(f"{verdicts[name]} {name}" for name in ("ok", "explained", "differs"))
    click.echo(f"\n{captures} captures, {verdicts.total()} comparisons: {counts}")
    for protocol, number in left_out.items():
        click.echo(f"not compared: {number} captures of {protocol} (no adapter)")
    sys.exit(1 if verdicts["differs"] or not captures else 0)


if __name__ == "__main__":
    # This folder is on the path, and with it ``tests/dissectors``: the package of that name must be found before it.
    sys.path.insert(0, str(Path(__file__).parents[1]))
    main()
