"""Folders of captures in, the rows that ``decode`` and ``batch`` do not both give for each of them out.

A chore, no part of the tests: ``make same-rows CAPTURES=DIR``, or ``python tests/batch/same_rows.py DIR…``.

1. Every capture alone, all columns of all tables: ``decode`` against a batch job with 1 and with 7 partitions, whose
   tasks run in this process; the latter keeps payloads in files.
2. A capture whose rows differ is told with the tables and two rows of each; then the exit code is 1.
3. ``--split-size`` cuts captures into pieces as small as one likes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

import click
from batchrows import Tables, committed, decoded, differing
from inprocess import InProcess

from mqsniff.answers.captures import captures_under
from mqsniff.batch.driver import run_job
from mqsniff.batch.inputs import InputError
from mqsniff.batch.job import JobOptions
from mqsniff.batch.plan import SPLIT_SIZE
from mqsniff.tables.escape import safe

PARTITIONS: Final = (1, 7)
ROW: Final = 2_000
"""Characters of a row that are shown."""


class Difference(NamedTuple):
    """A table of which two jobs give other rows."""

    capture: str
    partitions: int
    table: str
    rows: int
    """Rows that only one of both has."""
    ours: str
    """The first row that ``decode`` alone gives."""
    theirs: str
    """The first one that the job alone gives."""


def differences(capture: Path, place: Path, split_size: int = SPLIT_SIZE) -> Iterator[Difference]:
    """What differs for a capture; ``place`` is a folder for the tables."""
    expected = decoded(capture.parent, [capture.name], place / "decode")
    for partitions in PARTITIONS:
        out = place / f"batch-{partitions}"
        try:
            steps = InProcess(str(place) if partitions > 1 else "")
            run_job(steps, [str(capture)], str(out), JobOptions(partitions=partitions, split_size=split_size))
        except InputError:  # neither gives a row of it
            assert not any(expected.values()), capture
            return
        found = committed(out)
        for table, (ours, theirs) in differing(expected, found).items():
            rows = _count(expected, found, table)
            yield Difference(capture.name, partitions, table, rows, "".join(ours[:1]), "".join(theirs[:1]))


def _count(one: Tables, other: Tables, table: str) -> int:
    return len(set(one[table]) ^ set(other[table]))


def _columns(ours: str, theirs: str) -> Iterable[str]:
    """Both rows, without what they have in common at their ends."""
    first = next((at for at, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), 0)
    return (text[max(first - 80, 0) :][:ROW] for text in (ours, theirs))


@click.command()
@click.argument("folders", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--split-size", default=SPLIT_SIZE, show_default=True, help="Bytes of a capture that one task reads.")
def main(folders: tuple[Path, ...], split_size: int) -> None:
    """Compare the rows of decode and batch for every capture under FOLDERS."""
    captures = captures_under(folders)
    found: list[Difference] = []
    for number, capture in enumerate(captures, 1):
        with TemporaryDirectory(prefix="mqsniff-same-rows-") as place:
            some = list(differences(capture, Path(place), split_size))
        if sys.stderr.isatty():
            click.echo(f"\r{number}/{len(captures)}", nl=number == len(captures), err=True)
        for each in some:
            click.echo(f"{safe(str(capture))}: {each.partitions} partitions: {each.table}: {each.rows} rows")
            for sign, row in zip("-+", _columns(each.ours, each.theirs), strict=True):
                click.echo(f"  {sign} {safe(row)}")
        found += some
    runs = len(captures) * len(PARTITIONS)
    differ = len({(each.capture, each.partitions) for each in found})
    click.echo(f"{len(captures)} captures, {runs} jobs, {differ} differ, {sum(each.rows for each in found)} rows")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
