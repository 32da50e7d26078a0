"""Which build of the project is tested: its Python sources, or the one of ``make compiled``."""

from __future__ import annotations

from pathlib import Path

import pytest

from mqsniff import pipeline

COMPILED = not pipeline.__file__.endswith(".py")
PLACE = str(Path(pipeline.__file__).parents[1])
"""The folder that its modules come from, for processes that tests start."""

python_only = pytest.mark.skipif(COMPILED, reason="compiled modules have no constants and functions to replace")
