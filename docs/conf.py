"""The site of docs/: ``make docs`` builds it into build/site; a warning fails the build (decision 021)."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any, Final

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "dissectors")]

from mqsniff import __version__  # noqa: E402  # the checkout's own
from mqsniff.filters.options import FILTER_OPTIONS  # noqa: E402

HERE: Final = Path(__file__).parent
PATTERN: Final = re.compile(r"^[\w/]+\*\n", re.MULTILINE)
"""Lines of a table of contents that stand for pages of which there may be none."""
OUTSIDE: Final = re.compile(r"\[([^\]]+)\]\((?:\.\./)+([\w./-]+)\)")
"""Links to files of the repository that are no pages of the site."""

project = "mqsniff"
copyright = "the mqsniff authors"  # noqa: A001  # Sphinx's name
release = version = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc"]
source_suffix = {".md": "markdown"}
myst_heading_anchors = 3
smartquotes = False  # --errors is two hyphens
autodoc_typehints = "description"
autodoc_member_order = "bysource"

html_theme = "furo"
html_title = "mqsniff"
html_show_sphinx = False
html_copy_source = False
html_static_path = ["site.css"]
html_css_files = ["site.css"]
html_theme_options = {"navigation_with_keys": True}
highlight_language = "none"


def setup(app: Any) -> None:
    """Change what pages say to the site, where it differs from what they say to a reader of the repository."""
    app.connect("source-read", _name_outside)
    app.connect("source-read", _leave_out_absent)
    app.connect("source-read", _tell_filters)


def _name_outside(_app: Any, name: str, source: list[str]) -> None:
    levels = "../" * (name.count("/") + 1)
    source[0] = OUTSIDE.sub(lambda link: link[0] if levels not in link[0] else f"{link[1]} (`{link[2]}`)", source[0])


def _leave_out_absent(_app: Any, _name: str, source: list[str]) -> None:
    source[0] = PATTERN.sub(lambda line: line[0] if [*HERE.glob(f"{line[0].strip()}.md")] else "", source[0])


def _tell_filters(_app: Any, name: str, source: list[str]) -> None:
    """Write the table of filters: the names of the keywords, and the text of the options in the help."""
    if name == "reference":
        rows = [f"| `{each.keyword}` | {each.text.rstrip('.').replace('|', '&#124;')} |\n" for each in FILTER_OPTIONS]
        source[0] = source[0].replace(
            "<!-- filters -->\n", "| keyword | what it chooses |\n|---|---|\n" + "".join(rows)
        )
