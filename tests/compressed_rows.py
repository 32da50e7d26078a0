"""Folders of captures in, the rows that differ once a capture is compressed out: no honest capture may meet the budget.

A chore, no part of the tests: ``make compressed CAPTURES=DIR``, or ``python tests/compressed_rows.py DIR…``.

1. Every capture alone, all columns of all tables: the plain file against the same as zstd (level 19), xz and bzip2. A
   problem of kind ``limit`` that the plain one has not is a row that differs.
2. Then all captures of the folders as one run, plain and as zstd: one free part (``capture_rows_free``) for all.
3. What a capture uses of its budget is told: the most, and how many would meet it without the free part.
"""

from __future__ import annotations

import bz2
import lzma
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

import click
import zstandard
from batchrows import decoded, differing

from mqsniff.answers.captures import captures_under
from mqsniff.dissector import WITH_RECORDS, Settings
from mqsniff.limits import Limits
from mqsniff.model import ProblemItem
from mqsniff.pipeline import Pipeline
from mqsniff.sources.files import FileSource
from mqsniff.tables.escape import safe

CODECS: Final[dict[str, Callable[[bytes], bytes]]] = {
    "zstd": zstandard.ZstdCompressor(level=19).compress,
    "xz": lzma.compress,
    "bzip2": bz2.compress,
}
LIMITS: Final = Limits()
COMPRESSED: Final = (b"\x28\xb5\x2f\xfd", b"\xfd7zXZ\x00", b"BZh", b"\x1f\x8b", b"\x04\x22\x4d\x18")
"""First bytes of files that are compressed already."""


class Use(NamedTuple):
    """What a capture spends of the budget of compressed captures."""

    spent: int
    """Rows and work."""
    taken: int
    """Bytes of the compressed file."""
    limits: Counter[str]
    """Problems of kind ``limit``, by what they say."""

    @property
    def part(self) -> float:
        """Part of its budget."""
        return self.spent / (LIMITS.capture_rows_free + self.taken // LIMITS.capture_row_cost)

    @property
    def needs_the_free_part(self) -> bool:
        """Whether the bytes alone do not pay."""
        return self.spent > self.taken // LIMITS.capture_row_cost


def use(files: Sequence[Path], taken: int) -> Use:
    """What files spend in one run, if they were compressed to so many bytes."""
    pipeline = Pipeline(FileSource(list(map(str, files)), LIMITS), Settings(LIMITS, wanted=WITH_RECORDS))
    limits: Counter[str] = Counter()
    budget = pipeline._rows
    budget.bounded = True  # what counts in compressed captures counts here too
    for item in pipeline.items():
        if isinstance(item, ProblemItem) and item.problem.kind == "limit":
            limits[item.problem.detail] += 1
    return Use(budget.spent, taken, limits)


def compare(captures: Iterable[Path], place: Path) -> tuple[list[str], list[Use], list[Path]]:
    """(what differs, what each spends as zstd, the captures as zstd) of captures alone."""
    found: list[str] = []
    uses: list[Use] = []
    kept: list[Path] = []
    for number, capture in enumerate(captures):
        data = capture.read_bytes()
        if data.startswith(COMPRESSED):
            continue
        expected = decoded(capture.parent, [capture.name], place / "rows")
        for codec, compress in CODECS.items():
            folder = place / codec / str(number)
            folder.mkdir(parents=True)
            packed = folder / capture.name
            packed.write_bytes(compress(data))
            shutil.rmtree(place / "rows")
            rows = decoded(folder, [capture.name], place / "rows")
            for table, (ours, theirs) in differing(expected, rows).items():
                found.append(f"{safe(str(capture))}: {codec}: {table}: {''.join((*ours[:1], *theirs[:1]))[:2000]}")
            if codec == "zstd":
                uses.append(use([capture], packed.stat().st_size))
                kept.append(packed)
            else:
                shutil.rmtree(folder)
        shutil.rmtree(place / "rows")
    return found, uses, kept


@click.command()
@click.argument("folders", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
def main(folders: tuple[Path, ...]) -> None:
    """Compare the rows of every capture under FOLDERS with those of the same capture, compressed."""
    captures = captures_under(folders)
    with TemporaryDirectory(prefix="mqsniff-compressed-") as name:
        found, uses, kept = compare(captures, Path(name))
        taken = sum(each.taken for each in uses)
        plain, packed = use(captures, taken), use(kept, taken)
    for line in found:
        click.echo(line)
    nearest = max(uses, key=lambda each: each.part)
    needing = sum(each.needs_the_free_part for each in uses)
    click.echo(
        f"{len(uses)} captures, {len(uses) * len(CODECS)} runs, {len(found)} tables differ; the nearest to its budget"
        f" spends {nearest.spent:,} of it with {nearest.taken:,} bytes of zstd, {nearest.part:.1%}; without free rows"
        f" {needing} would meet it"
    )
    more = packed.limits - plain.limits
    click.echo(
        f"all as one run: {packed.spent:,} rows and work, {taken:,} bytes of zstd, {packed.part:.1%} of the budget;"
        f" {more.total()} limit problems more than plain {dict(more) or ''}"
    )
    sys.exit(1 if found or more else 0)


if __name__ == "__main__":
    main()
