"""Which build of the project is tested: its Python sources, or the one of ``make compiled``."""

from __future__ import annotations

import pytest

from mqsniff import pipeline

COMPILED = not pipeline.__file__.endswith(".py")

python_only = pytest.mark.skipif(COMPILED, reason="compiled modules have no constants and functions to replace")
