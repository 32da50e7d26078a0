"""Which build of mqsniff runs: Python alone, or with hot modules as C extensions."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

_HOT_MODULE: Final = "mqsniff.topics"
"""One of those that the compiled wheel has as C extensions."""


def is_compiled() -> bool:
    """Whether the hot modules are C extensions."""
    spec = find_spec(_HOT_MODULE)
    return spec is not None and spec.origin is not None and not spec.origin.endswith(".py")


def build_kind() -> str:
    """``compiled`` or ``not compiled``."""
    return "compiled" if is_compiled() else "not compiled"
