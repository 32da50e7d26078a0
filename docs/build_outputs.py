"""What the README and the pages of docs/ show below a command, written anew from what the command prints today.

python docs/build_outputs.py            writes the pages

A line that is printed no more is replaced by the printed line that is most like it; what has no such line is told, and
changed by hand. Lines that are left out (``…``) stay so. ``tests/test_readme.py`` compares without writing.
"""

from __future__ import annotations

import difflib
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from click.testing import CliRunner

from mqsniff.cli import main

HOME: Final = Path(__file__).parents[1]
PAGES: Final = ("README.md", *sorted(path.relative_to(HOME).as_posix() for path in HOME.glob("docs/*.md")))
BLOCK: Final = re.compile(r"^```[a-z]*\n(.*?)^```", re.DOTALL | re.MULTILINE)
SECONDS: Final = re.compile(r"[0-9.]+ s$")
LEFT_OUT: Final = "…"
_LIKE: Final = 0.5


class ShownCommand(NamedTuple):
    """A command on a page, and the lines that stand below it."""

    page: str
    command: str
    lines: list[str]


def blocks_of(page: str) -> list[str]:
    """The code blocks of a page."""
    return BLOCK.findall((HOME / page).read_text())


def shown_on(page: str) -> Iterator[ShownCommand]:
    """The commands that a page shows with their output."""
    for block in blocks_of(page):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE) if block.startswith("$ ") else ():
            command, _, output = part.partition("\n")
            if command:
                yield ShownCommand(page, command, output.rstrip("\n").split("\n"))


def printed_by(command: str) -> list[str]:
    """What a command prints in this folder, as on a terminal; SkippedCommand where a tool is not installed."""
    program, *arguments = shlex.split(command.split(" | ", maxsplit=1)[0])
    if program != "mqsniff":
        return _printed_by_other(program, command)
    chosen = arguments[0] != "decode" or {"--table", "-o"} & {*arguments}
    printed = CliRunner().invoke(main, [*arguments, *([] if chosen else ["-o", "text"])]).output
    return [line.rstrip() for line in printed.splitlines()]


class SkippedCommand(Exception):  # noqa: N818  # no error
    """A tool of others that is not here, or not in the version that the page names."""


def _printed_by_other(program: str, command: str) -> list[str]:
    found = shutil.which(program)
    if found is None:
        raise SkippedCommand(f"{program} is not installed")
    version = subprocess.run([found, "--version"], capture_output=True, text=True, check=True).stdout  # noqa: S603
    if program == "tshark" and "TShark (Wireshark) 4.0." not in version:
        raise SkippedCommand("the page tells of tshark 4.0")
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=False)  # noqa: S603
    return [line.rstrip() for line in done.stdout.splitlines()]


def same(line: str) -> str:
    """A line without the seconds that a run took."""
    return SECONDS.sub("", line.rstrip())


def missing(shown: ShownCommand, printed: list[str]) -> list[str]:
    """The lines of a page that are not printed."""
    there = {same(line) for line in printed}
    return [line for line in shown.lines if line != LEFT_OUT and same(line) not in there]


def enter(folder: Path) -> None:
    """Make a folder in which commands find the samples, and may write, the current one."""
    for name in ("pcaps", "README.md"):
        (folder / name).symlink_to(HOME / name)
    os.chdir(folder)


def build() -> int:
    """Write the pages; the exit code is 1 where something has to be changed by hand."""
    by_hand = 0
    for page in PAGES:
        with TemporaryDirectory() as folder:
            enter(Path(folder))
            text = (HOME / page).read_text()
            for shown in shown_on(page):
                try:
                    printed = printed_by(shown.command)
                except SkippedCommand:
                    continue
                for line in missing(shown, printed):
                    near = difflib.get_close_matches(line, printed, 1, _LIKE)
                    by_hand += not near
                    print(f"{page}: $ {shown.command}\n  - {line}\n  + {near[0] if near else 'BY HAND'}")
                    text = text.replace(f"\n{line}\n", f"\n{near[0]}\n") if near else text
            (HOME / page).write_text(text)
            os.chdir(HOME)
    return int(bool(by_hand))


if __name__ == "__main__":
    sys.exit(build())
