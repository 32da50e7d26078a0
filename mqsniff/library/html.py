"""Rows in, a table of HTML for notebooks out. Text from the wire stays text: it is escaped, whatever it holds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from html import escape
from itertools import islice
from typing import Any, Final

from mqsniff.tables.escape import safe

CELL_MAX: Final = 60
"""Characters of a cell."""


def html_table(names: Sequence[str], rows: Iterable[Sequence[Any]], most: int, total: int | None = None) -> str:
    """The first rows; columns without any value are left out. ``total``: how many rows there are, where it is known."""
    taken = list(islice(rows, most + 1))
    shown = taken[:most]
    kept = [index for index in range(len(names)) if any(row[index] is not None for row in shown)]
    head = "".join(f"<th>{escape(names[index])}</th>" for index in kept)
    body = "".join("<tr>" + "".join(_cell(row[index]) for index in kept) + "</tr>" for row in shown)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><p>{_count(shown, taken, total)}</p>"


def _count(shown: Sequence[object], taken: Sequence[object], total: int | None) -> str:
    rows = f"{len(shown):,} row{'' if len(shown) == 1 else 's'}"
    if len(taken) == len(shown):
        return rows
    return f"the first {rows} of {total:,}" if total is not None else f"the first {rows}; there are more"


def _cell(value: Any) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f'<td style="text-align:right">{value}</td>'
    text = _words(value)
    cut = text if len(text) <= CELL_MAX else text[:CELL_MAX] + "…"
    return f'<td style="text-align:left">{escape(safe(cut))}</td>'


def _words(value: Any) -> str:
    match value:
        case None:
            return ""
        case datetime():
            return value.isoformat(" ")
        case bytes():
            return value[: CELL_MAX + 1].decode(errors="backslashreplace")
        case tuple() | list() if all(isinstance(each, str) for each in value):
            return ", ".join(value)
    return str(value)
