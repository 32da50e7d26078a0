"""Parts of a line in, a line out: bare for a pipe, coloured and cut to the width, or wrapped, for a terminal.

1. Without colour and width nothing of rich is imported and a line is a join of its parts.
2. Colours are the terminal's own sixteen, so that they fit its background.
3. Parts come by importance and are cut from the end. An error and a latency stay whole: padding, protocol and the end
   of the command's name go before them.
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
    "failure",
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
    "failure": "bold red",
    "error": "bold red",
    "warning": "yellow",
    "info": "bright_blue",
}


WHOLE: Final[frozenset[Role]] = frozenset(("failure", "latency"))
"""Roles of parts that are never cut while there is room for them alone."""
_WRAPPED: Final = " " * 8
"""What the further lines of a wrapped one begin with."""
_NAME_MIN: Final = 6
"""Cells of a command's name that are left where an error and a latency need the rest."""


class Paint:
    """Turns parts into lines for one kind of output."""

    def __init__(self, *, color: bool = False, width: int | None = None, wide: bool = False) -> None:
        """``wide``: lines are wrapped at the width, not cut."""
        self._width = width
        self._wide = wide
        self._codes = _codes() if color else {}

    def line(self, head: Sequence[TextPart], rest: Sequence[TextPart] = ()) -> str:
        """The line, without its newline: its columns, then the parts by importance."""
        parts = [*head, *rest]
        text = "".join([text for _, text in parts])
        width = self._width
        if width is not None and not (len(text) <= width and text.isascii()):
            parts = _wrap(parts, width) if self._wide else _fit(head, rest, width)
            text = "".join([text for _, text in parts])
        if not self._codes:
            return text.rstrip()
        return "".join([self._painted(role, text) for role, text in parts]).rstrip()

    def _painted(self, role: Role, text: str) -> str:
        codes = self._codes.get(role)
        return f"{codes[0]}{text}{codes[1]}" if codes is not None else text


def _codes() -> dict[Role, tuple[str, str]]:
    """What stands before and after the text of a role."""
    from rich.color import ColorSystem  # noqa: PLC0415  # only a terminal needs rich
    from rich.style import Style  # noqa: PLC0415  # as above

    codes: dict[Role, tuple[str, str]] = {}
    for role, style in STYLES.items():
        before, _, behind = Style.parse(style).render("|", color_system=ColorSystem.STANDARD).partition("|")
        codes[role] = before, behind
    return codes


def _fit(head: Sequence[TextPart], rest: Sequence[TextPart], width: int) -> list[TextPart]:
    """Parts that fill at most so many cells: what is less important goes first, an error and a latency not at all."""
    if _sum(head) + _sum(rest) <= width:
        return [*head, *rest]
    if _sum([*head, *(part for part in rest if part[0] in WHOLE or part[0] == "topic")]) >= width:
        rest = [(role, _last_part(text)) if role == "topic" else (role, text) for role, text in rest]
    whole = [part for part in rest if part[0] in WHOLE]
    fitting = [*_squeezed(head, width - _sum(whole)), *whole] if whole else list(head)
    if _sum(fitting) > width:
        return _filled([], fitting, width)
    return _filled(fitting, [part for part in rest if part[0] not in WHOLE], width)


def _last_part(topic: str) -> str:
    """A topic without its domain, tenant and namespace: what tells it apart is behind them."""
    return topic if "://" not in topic else "  …/" + topic.rpartition("/")[2]


def _filled(fitting: list[TextPart], more: Sequence[TextPart], width: int) -> list[TextPart]:
    """What fits, then as much of more as there is room for; an ellipsis where something was cut."""
    left = width - _sum(fitting)
    for place, (role, text) in enumerate(more):
        cells = _cells(text)
        if cells > left or (cells == left and place + 1 < len(more)):
            if left > 0:
                fitting.append((role, _cut(text, left - 1).rstrip() + "…"))
            break
        fitting.append((role, text))
        left -= cells
    return fitting


def _squeezed(head: Sequence[TextPart], room: int) -> Sequence[TextPart]:
    """The columns of a line in less room: without padding, then without the protocol, then with less of the name."""
    if _sum(head) <= room:
        return head
    *before, (role, name) = head
    name = name.rstrip()
    if _sum(before) + _cells(name) > room:
        before = [part for part in before if part[0] != "tcp"]
    left = room - _sum(before)
    if _cells(name) > left >= _NAME_MIN:
        name = _cut(name, left - 1) + "…"
    return [*before, (role, name)]


def _wrap(parts: Sequence[TextPart], width: int) -> list[TextPart]:
    """The parts on as many lines as they need; one that is longer than a line is left to the terminal."""
    wrapped: list[TextPart] = []
    filled = 0
    for role, text in parts:
        cells = _cells(text)
        if filled and filled + _cells(text.rstrip()) > width:
            last_role, last = wrapped[-1]
            wrapped[-1] = last_role, last.rstrip()
            text = text.lstrip()  # noqa: PLW2901  # the gap before it is the line's end now
            cells = _cells(text)
            wrapped.append(("", "\n" + _WRAPPED))
            filled = len(_WRAPPED)
        wrapped.append((role, text))
        filled += cells
    return wrapped


def _sum(parts: Sequence[TextPart]) -> int:
    return sum(_cells(text) for _, text in parts)


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
