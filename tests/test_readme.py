"""The README shows what the program prints today."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from mqsniff.cli import main

HOME = Path(__file__).parent.parent
BLOCKS = re.findall(r"```\n(\$ .*?)```", (HOME / "README.md").read_text(), re.DOTALL)
SHOWN = [part.split("\n", 1) for block in BLOCKS for part in re.split(r"^\$ ", block, flags=re.MULTILINE) if part]
SECONDS = re.compile(r"[0-9.]+ s$")


def lines(text: str) -> list[str]:
    return [SECONDS.sub("", line) for line in text.splitlines()]


@pytest.mark.parametrize(("command", "output"), SHOWN, ids=[command for command, _ in SHOWN])
def test_every_line_that_the_readme_shows_is_printed(command, output, monkeypatch):
    monkeypatch.chdir(HOME)
    program, *arguments = shlex.split(command.split(" | ")[0])
    assert program == "mqsniff"
    chosen = arguments[0] in ("explain", "stats") or {"--table", "-o"} & {*arguments}
    as_on_a_terminal = [] if chosen else ["-o", "text"]
    printed = lines(CliRunner().invoke(main, [*arguments, *as_on_a_terminal]).output)
    wanted = [line for line in lines(output) if line != "…"]
    assert wanted
    assert [line for line in wanted if line not in printed] == []
