"""Folders of captures in, the rows that a run in windows and one run do not both give for each of them out.

A chore, no part of the tests: ``make same-windows CAPTURES=DIR``, or ``python tests/batch/same_windows.py DIR…``.

1. Every pcap capture alone, cut into files as tcpdump does when it rotates: one run over all of them against one run
   for each (``--append``) and runs of windows (``--window``), all columns of all tables. Tasks run in this process.
2. Keys beside a capture (``x.keys``) are given to all runs.
3. A capture whose rows differ is told with the tables and two rows of each; then the exit code is 1.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
from batchrows import Tables, committed, differing, records_of, rotated
from inprocess import InProcess

from mqsniff.answers.captures import captures_under
from mqsniff.batch.driver import run_job
from mqsniff.batch.inputs import InputError
from mqsniff.batch.job import JobOptions
from mqsniff.tables.escape import safe
from mqsniff.tables.hashkey import HashKey
from mqsniff.tls.keylog import KeyLog

ROW = 400
"""Characters of a row that are shown."""
PCAP = (b"\xd4\xc3\xb2\xa1", b"\xa1\xb2\xc3\xd4", b"\x4d\x3c\xb2\xa1", b"\xa1\xb2\x3c\x4d")


def rows_in_runs(files: list[Path], out: Path, **options: Any) -> Tables:
    """The rows of a run for each of some files, one after the other."""
    for number in range(1, len(files) + 1):
        run_job(InProcess(), [str(file) for file in files[:number]], str(out), JobOptions(append=True, **options))
    return committed(out, hashes=True)


def rows_of(files: list[Path], out: Path, **options: Any) -> Tables:
    """The rows of one command."""
    run_job(InProcess(), [str(file) for file in files], str(out), JobOptions(**options))
    return committed(out, hashes=True)


def differences(capture: Path, place: Path, count: int) -> Iterator[str]:
    """What differs for a capture that is cut into so many files; ``place`` is an empty folder."""
    pieces = place / "pieces"
    pieces.mkdir()
    rotated(capture, pieces, count)
    files = sorted(pieces.iterdir())
    keys = capture.with_suffix(".keys")
    given: dict[str, Any] = {"hash_key": HashKey(b"the key of a comparison, 32 bytes"), "partitions": 3}
    if keys.exists():
        given["tls_keys"] = (KeyLog(str(keys)),)
    try:
        expected = rows_of(files, place / "one", **given)
    except InputError:
        return
    found = {
        "--append": rows_in_runs(files, place / "append", **given),
        "--window": rows_of(files, place / "window", window_ns=random.Random(count).choice((10**6, 10**9)), **given),
    }
    for name, rows in found.items():
        for table, (ours, theirs) in differing(expected, rows).items():
            both = [text for pair in zip(ours[:1] or [""], theirs[:1] or [""], strict=True) for text in pair]
            first = next((at for at, (a, b) in enumerate(zip(*both, strict=False)) if a != b), 0)
            yield f"{name}: {table}: {len(set(expected[table]) ^ set(rows[table]))} rows"
            yield from (f"  {sign} {text[max(first - 200, 0) :][:ROW]}" for sign, text in zip("-+", both, strict=True))


@click.command()
@click.argument("folders", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--files", default=5, show_default=True, help="Files that a capture is cut into.")
def main(folders: tuple[Path, ...], files: int) -> None:
    """Compare the rows of windows with those of one run for every pcap capture under FOLDERS."""
    captures = [path for path in captures_under(folders) if path.read_bytes()[:4] in PCAP]
    differ = 0
    for number, capture in enumerate(captures, 1):
        count = min(files, len(records_of(capture.read_bytes())[1]))
        with TemporaryDirectory(prefix="mqsniff-same-windows-") as place:
            told = list(differences(capture, Path(place), count)) if count > 1 else []
        if sys.stderr.isatty():
            click.echo(f"\r{number}/{len(captures)}", nl=number == len(captures), err=True)
        differ += bool(told)
        for line in told:
            click.echo(f"{safe(str(capture))}: {safe(line)}")
    click.echo(f"{len(captures)} captures, {2 * len(captures)} jobs in windows, {differ} captures differ")
    sys.exit(1 if differ else 0)


if __name__ == "__main__":
    main()
