"""A document in, an HTML file out that needs nothing else.

1. Scripts and styles stand in the file, and the content-security policy names their hashes: nothing else runs, nothing
   is loaded, nothing is sent.
2. The document is JSON in a ``<script>`` that no browser runs; ``<``, ``>`` and ``&`` are escapes there, so no text of
   the wire can end it.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from importlib.resources import files
from typing import Any, Final

SCRIPTS: Final = ("uplot.js", "base.js", "charts.js", "latency.js", "timelines.js", "graph.js", "tables.js", "main.js")
STYLES: Final = ("uplot.css", "report.css")
_ESCAPES: Final = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def html_of(document: dict[str, Any]) -> str:
    """The page."""
    script, style = (_joined(names) for names in (SCRIPTS, STYLES))
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    names = [name.rpartition("/")[2] for name in document["files"]]
    title = names[0] if len(names) == 1 else f"{len(names)} captures"
    parts = {"policy": policy, "title": html.escape(title), "style": style, "data": escaped_json(document)}
    page = _text("page.html")
    for name, text in {**parts, "script": script}.items():
        before, mark, after = page.partition(f"<!--{name}-->")
        if not mark:
            message = f"page.html has no place for {name}"
            raise ValueError(message)
        page = f"{before}{text}{after}"
    return page


def escaped_json(value: Any) -> str:
    """JSON that can stand inside of ``<script>``."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    text = text.encode(errors="replace").decode()
    for character, escape in _ESCAPES.items():
        text = text.replace(character, escape)
    return text


def _joined(names: tuple[str, ...]) -> str:
    return "\n".join(_text(name) for name in names)


def _text(name: str) -> str:
    return files("mqsniff.answers.report").joinpath("data", name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
