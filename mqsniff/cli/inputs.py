"""Names on the command line in, the captures that they mean out (``answers.captures``)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import click
from click.shell_completion import CompletionItem

from mqsniff.answers.captures import named_captures


def input_files(names: Iterable[str]) -> tuple[str, ...]:
    """The captures; raises click.UsageError for a folder or a glob without any."""
    try:
        return named_captures(names)
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def complete_file(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:  # noqa: ARG001  # click's
    """Let the shell complete names of files."""
    return [CompletionItem(incomplete, type="file")]
