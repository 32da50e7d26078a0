"""Rows of cells in, a table on stdout out: drawn on a terminal, aligned columns in a pipe."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Collection, Sequence
from textwrap import wrap
from typing import Final, Literal

import click

from mqsniff.tables.escape import safe

PADDED_MAX: Final = 120
"""Cells are padded up to this width in a pipe: one long value must not widen all rows."""

WORD_WIDTH_MAX: Final = 40
"""Longest word that a drawn grid does not break, in characters."""
GRID_GAP: Final = 3
"""Characters between columns of a drawn grid."""
TEXT_WIDTH_MIN: Final = 20
"""Minimum width of a column of text on a terminal."""


def show_grid(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    numbers: Collection[int] = (),
    whole_words: bool = False,
) -> None:
    """Print a table, with control characters escaped. ``numbers``: columns that are aligned right."""
    columns, rows = list(map(safe, columns)), [list(map(safe, row)) for row in rows]
    if sys.stdout.isatty():
        _draw(title, columns, rows, numbers, whole_words=whole_words)
        return
    if title:
        click.echo(title)
    widths = [min(max(map(len, column)), PADDED_MAX) for column in zip(columns, *rows, strict=True)]
    for row in (columns, *rows):
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def show_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table as a grid, or as a block of lines per row if the terminal is too narrow."""
    if sys.stdout.isatty() and _least_width(columns, rows) > shutil.get_terminal_size().columns:
        click.secho(title, italic=True)
        show_blocks(columns, rows)
    else:
        show_grid(title, columns, rows, whole_words=True)


def _least_width(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    """Minimum width of a readable grid: no word is broken, and columns of text hold some words per line."""
    total = 0
    for column in zip(columns, *rows, strict=True):
        word = max(len(word) for cell in column for word in (cell.split() or [""]))
        total += max(word, min(max(map(len, column)), TEXT_WIDTH_MIN)) + GRID_GAP
    return total


def show_blocks(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a block of lines per row, without empty cells; its first line is its name, which may follow a number."""
    columns, rows = list(map(safe, columns)), [list(map(safe, row)) for row in rows]
    width = max(map(len, columns))
    room = max(shutil.get_terminal_size().columns - width - 4, TEXT_WIDTH_MIN)
    for row in rows:
        heads = 2 if row[0].lstrip("-").isdecimal() else 1
        click.secho("  ".join(row[:heads]), bold=True)
        for name, text in zip(columns[heads:], row[heads:], strict=True):
            for number, line in enumerate(wrap(text, room, break_on_hyphens=False)):
                click.echo(f"  {('' if number else name).ljust(width)}  {line}")


def _draw(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], numbers: Collection[int], *, whole_words: bool
) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title or None, title_justify="left", box=box.SIMPLE_HEAD)
    for index, column in enumerate(columns):
        cells = (column, *(row[index] for row in rows))
        least = min(max(len(word) for cell in cells for word in (cell.split() or [""])), WORD_WIDTH_MAX)
        justify: Literal["left", "right"] = "right" if index in numbers else "left"
        table.add_column(Text(column), justify=justify, overflow="fold", min_width=least if whole_words else None)
    for row in rows:
        table.add_row(*map(Text, row))
    Console().print(table)
