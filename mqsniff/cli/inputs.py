"""Names on the command line in, the captures that they mean out: files, folders with all below them, globs, stdin.

A name that is there is taken as it is, whatever characters it has. A glob takes what is named as captures are, if there
is any: goldens and notes lie beside them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from glob import glob, has_magic
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from mqsniff.answers.captures import captures_under, is_capture_name


def input_files(names: Iterable[str]) -> tuple[str, ...]:
    """The captures; raises click.UsageError for a folder or a glob without any."""
    return tuple(file for name in names for file in _files_of(name))


def complete_file(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:  # noqa: ARG001  # click's
    """Let the shell complete names of files."""
    return [CompletionItem(incomplete, type="file")]


def _files_of(name: str) -> Iterator[str]:
    if name == "-" or "://" in name:
        yield name
        return
    path = Path(name)
    if _is_folder(path):
        found = captures_under((path,))
        if not found:
            raise click.UsageError(f"{name}: no captures in this folder")
        yield from map(str, found)
    elif has_magic(name) and not path.exists():
        found = captures_under(Path(place) for place in glob(name, recursive=True))  # noqa: PTH207  # absolute ones too
        captures = [file for file in found if is_capture_name(file.name)] or found
        if not captures:
            raise click.UsageError(f"{name}: no captures there")
        yield from map(str, captures)
    else:
        yield name


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False
