"""The README and the pages of docs/ show what the program prints today, and name options that exist.

1. In a block, ``$ mqsniff …`` is run, and every line below it must be printed; ``…`` stands for lines left out.
2. Every other line of a block that begins with ``mqsniff`` needs captures, rights or brokers that a test has not: its
   command and its options must exist.
3. ``>>>`` is Python: it is run, and its output compared (doctest).
"""

from __future__ import annotations

import doctest
import re
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path

import build_outputs
import click
import pytest

from mqsniff.cli import COMMANDS, main
from mqsniff.library.request import KEYWORDS
from mqsniff.model.kinds import EXCHANGE_STATUSES, PROBLEM_KINDS
from mqsniff.tables.schemas import TABLES

HOME = Path(__file__).parent.parent

PAGES = {page: (HOME / page).read_text() for page in build_outputs.PAGES}
BLOCKS = [(page, block) for page in PAGES for block in build_outputs.blocks_of(page)]
SHOWN = [shown for page in PAGES for shown in build_outputs.shown_on(page)]


@pytest.fixture(scope="module")
def places(tmp_path_factory) -> dict[str, Path]:
    """A folder with the samples for each page, where commands may write; those of one page follow each other."""
    folders = {page: tmp_path_factory.mktemp("page") for page in PAGES}
    with chdir(HOME):
        for folder in folders.values():
            build_outputs.enter(folder)
    return folders


@pytest.mark.parametrize("shown", SHOWN, ids=[f"{shown.page} {shown.command}" for shown in SHOWN])
def test_every_line_that_a_page_shows_is_printed(shown, places, monkeypatch):
    monkeypatch.chdir(places[shown.page])
    try:
        printed = build_outputs.printed_by(shown.command)
    except build_outputs.SkippedCommand as reason:
        pytest.skip(str(reason))
    assert any(shown.lines)
    assert build_outputs.missing(shown, printed) == [], "python docs/build_outputs.py writes what is printed"


def named_commands() -> Iterator[tuple[str, list[str]]]:
    """The commands of all blocks that are named and not run."""
    for page, block in BLOCKS:
        for line in block.replace("\\\n", " ").splitlines():
            for part in line.split(" | "):
                if part.startswith("mqsniff "):
                    yield page, re.findall(r"""(?:[^\s"']|"[^"]*"|'[^']*')+""", part.partition("  #")[0])[1:]


@pytest.mark.parametrize(("page", "arguments"), list(named_commands()))
def test_every_command_that_a_page_names_exists_with_its_options(page, arguments):
    context = click.Context(main, info_name="mqsniff")
    if arguments[0] not in COMMANDS:
        assert arguments[0].startswith("-") or "." in arguments[0] or "FILE" in arguments[0], arguments
        return
    command = main.get_command(context, arguments[0])
    known = {name for param in command.params for name in (*param.opts, *param.secondary_opts)} | {"--help", "-h"}
    options = [each.partition("=")[0] for each in arguments if re.match(r"--|-[a-zA-Z]$", each)]
    assert [option for option in options if option not in known] == [], page


@pytest.mark.parametrize("page", [page for page, text in PAGES.items() if ">>> " in text])
def test_the_python_of_a_page_prints_what_it_shows(page, places, monkeypatch):
    monkeypatch.chdir(places[page])
    blocks = "\n".join(block for name, block in BLOCKS if name == page and block.startswith(">>> "))
    test = doctest.DocTestParser().get_doctest(blocks, {}, page, page, 0)
    said: list[str] = []
    flags = doctest.ELLIPSIS | doctest.REPORT_NDIFF
    result = doctest.DocTestRunner(optionflags=flags).run(test, out=said.append)
    assert test.examples
    assert result.failed == 0, "".join(said)


def test_each_status_and_each_kind_of_problem_is_told_with_what_to_do():
    page = PAGES["docs/statuses.md"]
    for name, about in (*EXCHANGE_STATUSES.items(), *PROBLEM_KINDS.items()):
        assert f"| `{name}` | {about.meaning} | {about.advice} |" in page


def test_the_library_page_names_every_keyword_and_every_error():
    page = PAGES["docs/library.md"]
    assert [name for name in KEYWORDS if f"`{name}`" not in page] == []
    assert [name for name in TABLES if f"`{name}`" not in page] == []
    import mqsniff

    assert [name for name in mqsniff.__all__ if name.endswith("Error") and f"`{name}`" not in page] == []


def test_the_cookbook_answers_twenty_questions():
    assert len(re.findall(r"^## .*\?$", PAGES["docs/cookbook.md"], re.MULTILINE)) >= 20


def test_every_page_stands_in_the_table_of_contents():
    contents = PAGES["docs/index.md"] + PAGES["docs/decisions.md"]
    blocks = re.findall(r"```{toctree}\n(.*?)```", contents, re.DOTALL)
    entries = [line for block in blocks for line in block.splitlines()]
    patterns = [entry for entry in entries if entry and not entry.startswith(":")]
    pages = [path.relative_to(HOME / "docs") for path in (HOME / "docs").rglob("*.md")]
    assert len(pages) > 20
    found = [page for page in pages if any(page.with_suffix("").match(pattern) for pattern in patterns)]
    assert [str(page) for page in pages if page not in found] == ["index.md"]
