"""The result of a query in, a drawn table, CSV, NDJSON, JSON or Parquet out.

1. Rows are written as they come; only a drawn table waits for all rows that it shows, to know the widths of columns.
2. On a terminal, a result that is too wide is shown as a block of lines per row.
3. A Parquet file is written atomically.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import click

from mqsniff.answers.results import cell, json_line, result_rows, unique_names
from mqsniff.cli.grid import show_grid
from mqsniff.cli.talk import say
from mqsniff.sinks.csv import csv_line
from mqsniff.tables.escape import safe

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_DRAWN: Final = 1000
"""Rows of a drawn table; other formats have all rows."""

CELL_WIDTH: Final = 60
"""Characters of a cell that a drawn table shows on one line."""

_SMALL: Final = 0.01
"""Numbers from this on are shown with four decimals, smaller ones with all digits."""

_EMPTY_DIGITS: Final = re.compile(r"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6})000(Z?)$")

_COLUMN_WIDTH_MIN: Final = 12
"""Minimum width of a readable column."""

ResultBatches: TypeAlias = "Iterator[pa.RecordBatch]"


def write_result(output: str, schema: pa.Schema, batches: ResultBatches) -> None:
    """Write a result to stdout as ``table``, ``csv``, ``ndjson`` or ``json``."""
    names, rows = unique_names(schema.names), result_rows(batches)
    match output:
        case "csv":
            terminal = sys.stdout.isatty()
            _write(csv_line(map(cell, row), terminal=terminal) for row in _with_head(names, rows))
        case "ndjson":
            _write(json_line(names, row) + b"\n" for row in rows)
        case "json":
            _write(_json_array(names, rows))
        case _:
            _draw(names, schema, rows)


def write_parquet(path: Path, schema: pa.Schema, batches: ResultBatches) -> int:
    """Write a result to a Parquet file; returns the number of rows. Raises click.UsageError if that fails."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    named = pa.schema([field.with_name(name) for field, name in zip(schema, unique_names(schema.names), strict=True)])
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    count = 0
    try:
        with draft.open("xb") as stream, pq.ParquetWriter(stream, named, compression="zstd") as writer:
            for batch in batches:
                writer.write_batch(batch.rename_columns(named.names))
                count += len(batch)
        draft.replace(path)
    except OSError as error:
        raise click.UsageError(f"{path}: {error.strerror or error}") from None
    except pa.ArrowException as error:
        raise click.UsageError(f"{path}: Parquet cannot hold this result: {str(error).partition(chr(10))[0]}") from None
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
    return count


def _write(lines: Iterable[bytes]) -> None:
    for line in lines:
        sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()


def _with_head(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[Sequence[Any]]:
    yield names
    yield from rows


def _json_array(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[bytes]:
    before = b"[\n  "
    for row in rows:
        yield before + json_line(names, row)
        before = b",\n  "
    yield b"[]\n" if before[:1] == b"[" else b"\n]\n"


def _draw(names: Sequence[str], schema: pa.Schema, rows: Iterator[Sequence[Any]]) -> None:
    shown = [[_drawn(value) for value in row] for row in islice(rows, ROWS_DRAWN)]
    more = next(rows, None) is not None
    heads = list(map(safe, names))
    if not sys.stdout.isatty():
        show_grid("", heads, shown)
    elif len(names) * (_COLUMN_WIDTH_MIN + 2) > shutil.get_terminal_size().columns:
        _list(heads, shown)
    else:
        show_grid("", heads, [list(map(_cut, row)) for row in shown], numbers=_numbers(schema))
    count = f"{len(shown):,} row{'' if len(shown) == 1 else 's'}"
    say(f"the first {count}; -o csv or ndjson gives all" if more else count)


def _drawn(value: Any) -> str:
    """A value for a drawn table: numbers rounded, control characters escaped."""
    match value:
        case None:
            return ""
        case float() if abs(value) >= _SMALL:
            return f"{value:.4f}".rstrip("0").rstrip(".")
    return _EMPTY_DIGITS.sub(r"\1\2", safe(str(cell(value))))


def _cut(text: str) -> str:
    return text if len(text) <= CELL_WIDTH else text[: CELL_WIDTH - 1] + "…"


def _list(names: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a block of lines per row, without empty cells."""
    width = max(map(len, names))
    for number, row in enumerate(rows, 1):
        click.secho(f"row {number}", dim=True)
        for name, text in zip(names, row, strict=True):
            if text:
                click.echo(f"  {name.ljust(width)}  {text}")


def _numbers(schema: pa.Schema) -> list[int]:
    """Indexes of columns that hold numbers."""
    from pyarrow import types

    kinds = (types.is_integer, types.is_floating, types.is_decimal)
    return [index for index, field in enumerate(schema) if any(holds(field.type) for holds in kinds)]
