"""``mqsniff --version``: the version, and which build of it runs."""

from __future__ import annotations

import platform
from importlib.util import find_spec

import click

from mqsniff import __version__

_HOT_MODULE = "mqsniff.topics"
"""One of those that the compiled wheel has as C extensions."""


def version_line() -> str:
    """Such as ``mqsniff 0.1.0 (compiled; CPython 3.11.2)``."""
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return f"mqsniff {__version__} ({'compiled' if is_compiled() else 'not compiled'}; {python})"


def is_compiled() -> bool:
    """Whether the hot modules are C extensions."""
    spec = find_spec(_HOT_MODULE)
    return spec is not None and spec.origin is not None and not spec.origin.endswith(".py")


def print_version(context: click.Context, _parameter: click.Parameter, wanted: object) -> None:
    """Callback of the option."""
    if wanted and not context.resilient_parsing:
        click.echo(version_line())
        context.exit()
