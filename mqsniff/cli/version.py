"""``mqsniff --version``: the version, and which build of it runs."""

from __future__ import annotations

import platform

import click

from mqsniff import __version__
from mqsniff.buildkind import build_kind


def version_line() -> str:
    """Such as ``mqsniff 0.1.0 (compiled; CPython 3.11.2)``."""
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return f"mqsniff {__version__} ({build_kind()}; {python})"


def print_version(context: click.Context, _parameter: click.Parameter, wanted: object) -> None:
    """Callback of the option."""
    if wanted and not context.resilient_parsing:
        click.echo(version_line())
        context.exit()
