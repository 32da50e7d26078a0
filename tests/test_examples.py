"""The packages of examples/ keep their laws, run as their own authors run them."""

from __future__ import annotations

import json
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


@pytest.fixture
def installed(tmp_path):
    """A folder in which the example lies as if it were installed."""
    package = EXAMPLES / "mqsniff_mqtt"
    info = tmp_path / "mqsniff_mqtt-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mqsniff-mqtt\nVersion: 1.0\n")
    points = tomllib.loads((package / "pyproject.toml").read_text())["project"]["entry-points"]["mqsniff.dissectors"]
    lines = [f"{name} = {point}" for name, point in points.items()]
    (info / "entry_points.txt").write_text("\n".join(["[mqsniff.dissectors]", *lines, ""]))
    for name in ("mqsniff_mqtt.py", "test_mqtt.py"):
        (tmp_path / name).write_text((package / name).read_text())
    return tmp_path


def test_an_installed_plugin_decodes_what_mqsniff_only_names(installed):
    """Its entry point is found, and its connections are not told as those of another protocol."""
    written = run(installed, "-c", CAPTURE)
    assert written.returncode == 0, written.stderr
    done = run(installed, "-m", "mqsniff", "decode", "mqtt.pcap")
    assert "16 messages (mqtt 16), no problems" in done.stderr
    assert "not decoded" not in done.stderr


def test_a_plugin_that_describes_nothing_is_shown_with_its_names_and_ports(installed):
    shown = run(installed, "-m", "mqsniff", "protocols", "mqtt").stdout
    _, columns, row = shown.splitlines()
    assert columns.split() == ["name", "ports", "from", "decoded"]
    assert row.split() == ["mqtt", "1883", "mqsniff-mqtt", "1.0", "yes"]
    overview = run(installed, "-m", "mqsniff", "protocols").stdout
    assert [line.split() for line in overview.splitlines() if line.startswith("mqtt")] == [
        ["mqtt", "1883", "decoded", "from", "mqsniff-mqtt", "1.0"]
    ]
    report = json.loads(run(installed, "-m", "mqsniff", "protocols", "--json", "mqtt").stdout)
    assert [(each["names"], each["from"]) for each in report["protocols"]] == [(["mqtt"], "mqsniff-mqtt 1.0")]
