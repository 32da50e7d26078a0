"""Parts of a line in, a line out: bare for a pipe, coloured and cut to the width for a terminal.

1. Without colour and width nothing of rich is imported and a line is a join of its parts.
2. Colours are the terminal's own sixteen, so that they fit its background.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

Role: TypeAlias = Literal[
    "",
    "time",
    "connection",
    "sent",
    "answered",
    "name",
    "topic",
    "detail",
    "latency",
    "tcp",
    "error",
    "warning",
    "info",
]
TextPart: TypeAlias = tuple[Role, str]

STYLES: Final[dict[Role, str]] = {
    "time": "dim",
    "connection": "",
    "sent": "cyan",
    "answered": "green",
    "name": "bold",
    "topic": "magenta",
    "detail": "",
    "latency": "blue",
    "tcp": "dim",
    "error": "bold red",
    "warning": "yellow",
    "info": "bright_blue",
}


class Paint:
    """Turns parts into lines for one kind of output."""

    def __init__(self, *, color: bool = False, width: int | None = None) -> None:
        self._width = width
        self._codes = _codes() if color else {}

    def line(self, parts: Sequence[TextPart]) -> str:
        """The line, without its newline."""
        if self._width is not None:
            parts = _fit(parts, self._width)
        if not self._codes:
            return "".join([text for _, text in parts]).rstrip()
        return "".join([self._painted(role, text) for role, text in parts]).rstrip()

    def _painted(self, role: Role, text: str) -> str:
        codes = self._codes.get(role)
        return f"{codes[0]}{text}{codes[1]}" if codes is not None else text


def _codes() -> dict[Role, tuple[str, str]]:
    """What stands before and behind the text of a role."""
    from rich.color import ColorSystem  # noqa: PLC0415  # only a terminal needs rich
    from rich.style import Style  # noqa: PLC0415  # as above

    codes: dict[Role, tuple[str, str]] = {}
    for role, style in STYLES.items():
        before, _, behind = Style.parse(style).render("|", color_system=ColorSystem.STANDARD).partition("|")
        codes[role] = before, behind
    return codes


def _fit(parts: Sequence[TextPart], width: int) -> Sequence[TextPart]:
    """Parts that fill at most so many cells, the last one ending in an ellipsis where something was cut."""
    if sum(_cells(text) for _, text in parts) <= width:
        return parts
    fitting: list[TextPart] = []
    left = width - 1
    for role, text in parts:
        if (cells := _cells(text)) > left:
            fitting.append((role, _cut(text, left) + "…"))
            break
        fitting.append((role, text))
        left -= cells
    return fitting


def _cells(text: str) -> int:
    """How many columns of a terminal text fills."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # noqa: PLC0415  # only a terminal needs rich

    return cell_len(text)


def _cut(text: str, cells: int) -> str:
    if text.isascii():
        return text[:cells]
    from rich.cells import set_cell_size  # noqa: PLC0415  # only a terminal needs rich

    return set_cell_size(text, cells)
