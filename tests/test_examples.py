"""The packages of examples/ keep their laws, run as their own authors run them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
PACKAGES = sorted(path.parent for path in EXAMPLES.glob("*/pyproject.toml"))


def run(package: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    paths = [str(package), *(str(Path(path).resolve()) for path in sys.path if path)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "MQSNIFF_EXAMPLES": "5"}
    return subprocess.run(
        [sys.executable, *arguments], cwd=package, env=environment, capture_output=True, text=True, check=False
    )


def test_there_are_examples():
    assert [package.name for package in PACKAGES] == ["mqsniff_mqtt"]


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)
def test_an_example_passes_its_tests(package):
    done = run(package, "-m", "pytest", "-q", "-p", "no:cacheprovider", ".")
    assert done.returncode == 0, done.stdout[-3000:]


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)
def test_an_example_is_typed(package):
    done = run(package, "-m", "mypy", "--config-file", "../../pyproject.toml", f"{package.name}.py")
    assert done.returncode == 0, done.stdout[-3000:]
