"""Columns of cells with roles in, lines for a terminal or a pipe out: aligned, coloured, no wider than the screen.

1. Where a grid is too wide, the columns of the least weight go, one by one; then the first column is cut.
2. Numbers are aligned right, text left; a cell may be red, dim or plain.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from mqsniff.sinks.paint import Paint, Role, TextPart
from mqsniff.tables.escape import safe

GAP: Final = 2
NAME_MIN: Final = 12
"""Cells that the first column keeps before others go."""
KEPT: Final = 100
"""Weight of a column that never goes."""
NAME_MAX: Final = 60
"""Cells of a text that a column is widened for."""

GridCell: TypeAlias = "str | tuple[str, Role]"


class GridColumn(NamedTuple):
    """A column: its title, how it is aligned, and how much it is wanted where there is no room for all."""

    title: str
    right: bool = True
    weight: int = 50


class GridLines:
    """Makes lines of one width."""

    def __init__(self, *, color: bool = False, width: int | None = None) -> None:
        self.width = width
        self._paint = Paint(color=color, width=width)

    def line(self, *parts: TextPart) -> str:
        """A line of parts."""
        return self._paint.line([(role, safe(text)) for role, text in parts])

    def grid(self, columns: Sequence[GridColumn], rows: Sequence[Sequence[GridCell]]) -> list[str]:
        """A head and a line a row; columns without any text are left out."""
        cells = [[_cell(cell) for cell in row] for row in rows]
        there = [at for at in range(len(columns)) if at == 0 or any(row[at][1] for row in cells)]
        widths = {at: max(len(columns[at].title), *(min(len(row[at][1]), NAME_MAX) for row in cells)) for at in there}
        shown = self._fitting(columns, there, widths)
        head: list[TextPart] = [("time", self._place(columns[at].title, columns[at], widths[at])) for at in shown]
        body = [[(row[at][0], self._place(row[at][1], columns[at], widths[at])) for at in shown] for row in cells]
        return [self._joined(head), *map(self._joined, body)]

    def _fitting(self, columns: Sequence[GridColumn], there: list[int], widths: dict[int, int]) -> list[int]:
        """The columns that there is room for; the first one's width is made to fit."""
        shown = list(there)
        if self.width is None:
            return shown
        while len(shown) > 1:
            rest = sum(widths[at] + GAP for at in shown[1:])
            if rest + min(widths[0], max(NAME_MIN, self.width // 4)) <= self.width:
                break
            worst = min(shown[1:], key=lambda at: (columns[at].weight, -at))
            if columns[worst].weight >= KEPT:
                break
            shown.remove(worst)
        widths[0] = max(min(widths[0], self.width - sum(widths[at] + GAP for at in shown[1:])), 1)
        return shown

    def _joined(self, parts: list[TextPart]) -> str:
        spaced: list[TextPart] = []
        for index, part in enumerate(parts):
            if index:
                spaced.append(("", " " * GAP))
            spaced.append(part)
        return self._paint.line(spaced)

    def _place(self, text: str, column: GridColumn, width: int) -> str:
        if len(text) > width:
            text = text[: width - 1] + "…"
        return text.rjust(width) if column.right else text.ljust(width)


def _cell(cell: GridCell) -> TextPart:
    text, role = cell if isinstance(cell, tuple) else (cell, "")
    return role, safe(text)
