"""The packages of examples/ keep their laws, run as their own authors run them."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
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


CAPTURE = """
from pathlib import Path
from mqsniff.testing import segments, write_pcap
from test_mqtt import TestMqtt
write_pcap(Path("mqtt.pcap"), segments(TestMqtt.conversations["a consumer"]))
"""


def test_an_installed_plugin_decodes_what_mqsniff_only_names(tmp_path):
    """Its entry point is found, and its connections are not told as those of another protocol."""
    package = EXAMPLES / "mqsniff_mqtt"
    info = tmp_path / "mqsniff_mqtt-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mqsniff-mqtt\nVersion: 1.0\n")
    points = tomllib.loads((package / "pyproject.toml").read_text())["project"]["entry-points"]["mqsniff.dissectors"]
    lines = [f"{name} = {point}" for name, point in points.items()]
    (info / "entry_points.txt").write_text("\n".join(["[mqsniff.dissectors]", *lines, ""]))
    for name in ("mqsniff_mqtt.py", "test_mqtt.py"):
        (tmp_path / name).write_text((package / name).read_text())
    written = run(tmp_path, "-c", CAPTURE)
    assert written.returncode == 0, written.stderr
    done = run(tmp_path, "-m", "mqsniff", "decode", "mqtt.pcap")
    assert "16 messages (mqtt 16), no problems" in done.stderr
    assert "not decoded" not in done.stderr
