"""``docs/metrics.md``, the dashboard, the unit and the Dockerfile: what they name is there."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import build_metrics
import pytest

from mqsniff.answers.metrics.families import FAMILIES, PROCESS_FAMILIES
from mqsniff.cli.live import command

DOCS = Path(__file__).parents[1] / "docs"

NAME = re.compile(r"\b(?:mqsniff|process)_\w+")
WORDS = re.compile(r"(?:by|without) \(([^)]*)\)|(\w+)=~?\"|\{\{(\w+)\}\}|label_values\([^,]*, (\w+)\)")


def exported():
    """Name of a series -> its labels."""
    names = {}
    for family in (*FAMILIES, *PROCESS_FAMILIES):
        labels = {label.name for label in family.labels} | {"instance", "job"}
        if family.kind == "histogram":
            names |= {f"{family.name}_{part}": labels for part in ("sum", "count")}
            names[f"{family.name}_bucket"] = labels | {"le"}
        else:
            names[family.exposed] = labels
    return names


def queries():
    board = json.loads((DOCS / "grafana.json").read_text())
    found = [(target["expr"], target["legendFormat"]) for panel in board["panels"] for target in panel["targets"]]
    return found + [
        (variable["definition"], "") for variable in board["templating"]["list"] if "definition" in variable
    ]


def test_the_page_has_every_metric_as_the_code_has_it():
    page = (DOCS / "metrics.md").read_text(encoding="utf-8")
    assert build_metrics.built(page) == page, "run docs/build_metrics.py"


@pytest.mark.parametrize(("query", "legend"), queries())
def test_the_dashboard_names_metrics_and_labels_that_are_exported(query, legend):
    series = exported()
    names = set(NAME.findall(query))
    assert names, query
    assert names <= series.keys()
    labels = {word for found in WORDS.findall(query + legend) for part in found for word in part.split(", ") if word}
    assert labels <= set.union(*(series[name] for name in names)), query


def test_the_dashboard_shows_every_metric():
    text = " ".join(query for query, _ in queries())
    shown = set(NAME.findall(text))
    for family in FAMILIES:
        assert any(name.startswith(family.exposed) for name in shown), f"{family.exposed} is on no panel"


def commands(name):
    """The lines of a file in docs/ that run ``live``, as lists of arguments after it."""
    text = (DOCS / name).read_text().replace("\\\n", " ").replace("\n#  ", "\n")
    return [shlex.split(line.split("live ", 1)[1]) for line in text.splitlines() if " live -i" in line]


@pytest.mark.parametrize("name", ["mqsniff-live.service", "Dockerfile"])
def test_the_options_of_a_service_are_options_of_live(name):
    known = {flag for param in command.params for flag in param.opts}
    (arguments,) = commands(name)
    used = {argument for argument in arguments if argument.startswith("-")}
    assert used <= known
    assert {"--summary", "--metrics"} <= used


def test_the_unit_gives_one_right_and_no_more():
    unit = (DOCS / "mqsniff-live.service").read_text().splitlines()
    for line in ("DynamicUser=yes", "AmbientCapabilities=CAP_NET_RAW", "CapabilityBoundingSet=CAP_NET_RAW"):
        assert line in unit
    for line in ("NoNewPrivileges=yes", "ProtectSystem=strict", "ProtectHome=yes", "PrivateDevices=yes"):
        assert line in unit
    assert "AF_PACKET" in next(line for line in unit if line.startswith("RestrictAddressFamilies="))


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not there")
def test_systemd_takes_the_unit(tmp_path):
    unit = tmp_path / "mqsniff-live.service"
    text = (DOCS / unit.name).read_text().replace("/opt/mqsniff/bin/mqsniff", "/bin/true")
    unit.write_text(text.replace("Documentation=man:mqsniff(1)\n", ""))
    done = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_image_runs_without_root_and_with_one_capability():
    text = (DOCS / "Dockerfile").read_text()
    users = re.findall(r"^USER (\w+)$", text, re.MULTILINE)
    assert users == ["mqsniff"]
    assert "setcap cap_net_raw+ep" in text
    assert "--cap-drop ALL --cap-add NET_RAW" in text
