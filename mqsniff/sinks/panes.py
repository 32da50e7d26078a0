"""Fields of a message beside their bytes in, lines for people or JSON out: place, bytes, name, value and meaning.

1. What ``Redaction`` hides of values is hidden in the bytes too (``tables.masking``): ``**`` for each byte.
2. Fields stand under the path of what holds them, which has a line of its own where it changes: on a narrow terminal
   at the left, since paths are long.
3. Decompressed bytes stand indented under the field that holds them; offsets in them count from their own beginning,
   which the line above them says.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from mqsniff.model import OpenedBytes, Span
from mqsniff.sinks.paint import TextPart
from mqsniff.sinks.tree import inline
from mqsniff.tables.escape import safe
from mqsniff.tables.masking import hidden_in
from mqsniff.tables.values import Redaction

HIDDEN: Final = "**"
TEXT_MAX: Final = 256
"""Characters of a value that are shown unless the user says otherwise."""
_ROWS: Final = ((120, 16), (100, 12))
"""(columns of a terminal, bytes in a row of it); 8 on a narrower one."""
_ROW_USUAL: Final = 16
_ROW_NARROW: Final = 8
_LEAF: Final = re.compile(r"(?P<parent>.*?)(?P<leaf>\[\d+\]|[^.\[\]]+)\Z", re.DOTALL)


@dataclass(frozen=True, slots=True)
class PaneOptions:
    """How fields are shown."""

    width: int | None = None
    """Columns of the terminal; None for a pipe."""
    max_bytes: int | None = None
    """Bytes of a field that are shown; None: one row of them, and the beginning of the value."""
    wide: bool = False
    """Show all bytes and values."""
    shown: Redaction = field(default_factory=Redaction)

    @property
    def row(self) -> int:
        """Bytes in one row."""
        if self.width is None:
            return _ROW_USUAL
        return next((count for columns, count in _ROWS if self.width >= columns), _ROW_NARROW)


def pane_lines(spans: Sequence[Span], data: bytes, options: PaneOptions, indent: int = 2) -> Iterator[list[TextPart]]:
    """Lines of the fields of ``data``."""
    digits = max(6, len(str(len(data))))
    cells = 3 * options.row - 1
    group = ""
    pad = " " * indent
    for span in spans:
        parent, leaf = _parted(span.path)
        if parent != group:
            group = parent
            if parent:
                room = 2 * digits + cells + 5 if options.row > _ROW_NARROW else 0
                yield [("topic", f"{pad}{'':{room}}{safe(parent)}")]
        first, *more = _rows(span, data, options)
        name = f"{'  ' if parent else ''}{safe(leaf)}"
        yield [
            ("time", f"{pad}{span.start:>{digits}} {span.stop - span.start:>{digits}}  "),
            ("sent", f"{first:<{cells}}  "),
            ("name", name),
            ("detail", f": {_value(span, options)}"),
            ("tcp", f"  {safe(span.meaning)}" if span.meaning else ""),
        ]
        for row in more:
            yield [("sent", f"{pad}{'':{2 * digits + 3}}{row}")]
        if span.inside is not None:
            yield from _inside_lines(span.inside, options, indent)


def _inside_lines(inside: OpenedBytes, options: PaneOptions, indent: int) -> Iterator[list[TextPart]]:
    """Decompressed bytes, a little further right."""
    pad = " " * (indent + 2)
    said = "as it stands" if inside.codec.startswith("a batch") else f"decompressed ({inside.codec})"
    yield [("latency", f"{pad}inside, {said}: {len(inside.data)} bytes; offsets count from their first one")]
    yield from pane_lines(inside.spans, inside.data, options, indent + 2)


def _parted(path: str) -> tuple[str, str]:
    """(the path of what holds a field, its own name)."""
    found = _LEAF.fullmatch(path)
    return (found["parent"].removesuffix("."), found["leaf"]) if found is not None else ("", path or "-")


def _value(span: Span, options: PaneOptions) -> str:
    text = inline(span.value, options.shown)
    most = max(options.max_bytes, 8) if options.max_bytes is not None else TEXT_MAX
    return text if options.wide or len(text) <= most else f"{text[:most]}…"


def _rows(span: Span, data: bytes, options: PaneOptions) -> list[str]:
    """The bytes of a field in hex, as many rows as the options want, at least one."""
    size = span.stop - span.start
    wanted = size if options.wide else min(size, options.row if options.max_bytes is None else options.max_bytes)
    if wanted < size and wanted and wanted % options.row == 0:
        wanted -= 1  # room for the ellipsis
    cells = hex_cells(span, data, options.shown, wanted)
    if wanted < size:
        cells.append("…")
    return [" ".join(cells[at : at + options.row]) for at in range(0, len(cells), options.row)] or [""]


def hex_cells(span: Span, data: bytes, shown: Redaction, wanted: int) -> list[str]:
    """The first bytes of a field, two digits or ``**`` each."""
    stop = min(span.stop, span.start + wanted)
    cells = [f"{byte:02x}" for byte in data[span.start : stop]]
    for hidden in hidden_in(span, data, shown):
        for at in range(max(hidden.start, span.start), min(hidden.stop, stop)):
            cells[at - span.start] = HIDDEN
    return cells


# ---- JSON


def field_objects(spans: Iterable[Span], data: bytes, options: PaneOptions) -> Iterator[dict[str, Any]]:
    """Fields as JSON has them."""
    shown = options.shown
    for span in spans:
        size = span.stop - span.start
        wanted = size if options.max_bytes is None else min(size, options.max_bytes)
        made: dict[str, Any] = {
            "offset": span.start,
            "size": size,
            "hex": "".join(hex_cells(span, data, shown, wanted)),
            "path": span.path,
            "value": shown.plain(span.value),
            "meaning": span.meaning or None,
        }
        if span.inside is not None:
            inside = span.inside
            made["inside"] = {
                "codec": inside.codec,
                "size": len(inside.data),
                "fields": list(field_objects(inside.spans, inside.data, options)),
            }
        yield made
