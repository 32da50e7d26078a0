"""Rows of cells in, a table on stdout out: drawn on a terminal, aligned columns in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from typing import Final

import click

from mqsniff.sinks.escape import safe

PADDED_MAX: Final = 120
"""Characters that a cell is filled up to in a pipe: one long value must not widen all rows."""


def show_grid(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: Collection[int] = ()
) -> None:
    """Print a table, what a terminal would act on as escapes. ``numbers``: columns that are aligned right."""
    columns, rows = list(map(safe, columns)), [list(map(safe, row)) for row in rows]
    if sys.stdout.isatty():
        _draw(title, columns, rows, numbers)
        return
    if title:
        click.echo(title)
    widths = [min(max(map(len, column)), PADDED_MAX) for column in zip(columns, *rows, strict=True)]
    for row in (columns, *rows):
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _draw(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], numbers: Collection[int]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title or None, title_justify="left", box=box.SIMPLE_HEAD)
    for index, column in enumerate(columns):
        table.add_column(Text(column), justify="right" if index in numbers else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    Console().print(table)
