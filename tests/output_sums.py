"""Folders of captures in, a checksum out of what each command writes of each capture: two builds must print the same.

A chore, no part of the tests: ``make check-compiled`` runs it with the Python sources and with the compiled build, and
compares the two. It runs in one process, since most captures are small, and all hashes have the same key.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryDirectory
from typing import Final

import click
import pyarrow.parquet as pq
from click.testing import CliRunner

from mqsniff.answers.captures import captures_under, key_logs_beside
from mqsniff.cli import main
from mqsniff.tables.schemas import TABLES

ALL_TABLES: Final = tuple(word for table in TABLES for word in ("--table", table))
COMMANDS: Final[dict[str, tuple[str, ...]]] = {
    "text": ("decode", "-o", "text", "--packets"),
    "verbose text": ("decode", "-o", "text", "-v", "--records", "--color", "always"),
    "relative text": ("decode", "-o", "text", "--time", "relative", "--redact", "payload"),
    "ndjson": ("decode", "-o", "ndjson", *ALL_TABLES),
    "cut ndjson": ("decode", "-o", "ndjson", "--records", "--max-bytes", "3"),
    "csv": ("decode", "-o", "csv"),
    "stats": ("stats", "--all", "--color", "always"),
    "stats by topic": ("stats", "--json", "--by", "topic"),
}


def written(arguments: Sequence[str], hash_key: str) -> str:
    """Checksum of the exit code and stdout of a command; an exception, or nothing decoded, ends the run."""
    done = CliRunner().invoke(main, [*arguments, "--hash-key", hash_key])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    if done.exit_code not in (0, 1):
        raise SystemExit(f"{' '.join(arguments)}: exit code {done.exit_code}: {done.stderr}")
    return hashlib.sha256(b"%d " % done.exit_code + done.stdout_bytes).hexdigest()


def parquet_of(arguments: Sequence[str], hash_key: str) -> str:
    """Checksum of all rows of all tables that ``decode -o parquet`` writes."""
    with TemporaryDirectory() as folder:
        digest = hashlib.sha256(written(["decode", "-o", "parquet", "--out", folder, *arguments], hash_key).encode())
        for part in sorted(Path(folder).rglob("*.parquet")):
            for rows in pq.read_table(part).to_pylist():
                digest.update(repr(rows).encode())
    return digest.hexdigest()


def sums(folders: Sequence[str], hash_key: str) -> None:
    """Print a line for each capture and command."""
    for capture in sorted(captures_under([Path(each) for each in folders])):
        own = [word for log in key_logs_beside(capture) for word in ("--tls-keys", log.name)] + [str(capture)]
        for name, command in COMMANDS.items():
            click.echo(f"{written([*command, *own], hash_key)} {capture} {name}")
        click.echo(f"{parquet_of(own, hash_key)} {capture} parquet")


if __name__ == "__main__":
    with NamedTemporaryFile() as key:
        key.write(bytes(16))
        key.flush()
        sums(sys.argv[1:], key.name)
