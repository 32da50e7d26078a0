"""docs/trace.md shows what the program prints today."""

from __future__ import annotations

import re
import shlex
from dataclasses import fields
from pathlib import Path

import pytest
from click.testing import CliRunner

from mqsniff.answers.trace.document import STEP_KEYS, TRACE_KEYS
from mqsniff.cli import main
from mqsniff.limits import Limits

HOME = Path(__file__).parent.parent
PAGE = (HOME / "docs" / "trace.md").read_text()
BLOCKS = [block.split("\n", 1) for block in re.findall(r"```\n\$ (.*?)```", PAGE, re.DOTALL)]


@pytest.mark.parametrize(("command", "output"), BLOCKS, ids=[command for command, _ in BLOCKS])
def test_every_line_that_the_page_shows_is_printed(command, output, monkeypatch):
    monkeypatch.chdir(HOME)
    _, *arguments = shlex.split(command)
    printed = CliRunner().invoke(main, arguments).stdout.splitlines()
    wanted = [line for line in output.splitlines() if line != "…"]
    assert wanted
    assert [line for line in wanted if line not in printed] == []


def test_the_page_names_every_key_of_the_document_and_every_limit():
    names = set(re.findall(r"`(\w+)`", PAGE))
    assert {*TRACE_KEYS, *STEP_KEYS} <= names
    assert {each.name for each in fields(Limits) if each.name.startswith("trace_")} <= names
