"""Rows of cells in, a table on stdout out: drawn on a terminal, aligned columns in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click


def show_grid(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table; cells are plain text without control characters."""
    if sys.stdout.isatty():
        _draw(title, columns, rows)
        return
    if title:
        click.echo(title)
    widths = [max(len(cell) for cell in column) for column in zip(columns, *rows, strict=True)]
    for row in (columns, *rows):
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        click.echo(line.rstrip())


def _draw(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title or None, title_justify="left", box=box.SIMPLE_HEAD)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    Console().print(table)
