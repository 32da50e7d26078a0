"""A plugin of pytest: sorts tests by the time they took before, and leaves out long ones and those that need Spark."""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path
from time import process_time
from typing import Any

import pytest

QUICK_SECONDS = 0.2
"""Tests up to this time run in the order of their files, longer ones behind them by their time."""


class QuickFirst:
    """The plugin, with a file of CPU seconds by test; no test that took more than ``seconds_max`` runs."""

    def __init__(self, path: Path, seconds_max: float, *, learns: bool, spark: bool = False) -> None:
        self._path = path
        self._seconds_max = seconds_max
        self._learns = learns
        self._spark = spark
        self._seconds: dict[str, float] = json.loads(path.read_text()) if path.exists() else {}

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Choose and sort the tests that were found."""
        known = [(self._seconds.get(item.nodeid, 0), item) for item in items if self._runs(item)]
        items[:] = [item for seconds, item in sorted(known, key=lambda each: each[0]) if seconds <= self._seconds_max]

    def _runs(self, item: Any) -> bool:
        return self._spark or "spark" not in item.fixturenames

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: Any) -> Generator[None, object, object]:
        """Remember how long a test took, if it is no quick one."""
        before = process_time()
        result = yield
        if (seconds := process_time() - before) > QUICK_SECONDS:
            self._seconds[item.nodeid] = seconds
        return result

    def pytest_sessionfinish(self) -> None:
        """Write the times down for the runs of mutants."""
        if self._learns:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.write_text(json.dumps(self._seconds, indent=0))
