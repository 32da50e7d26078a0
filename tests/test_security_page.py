"""docs/security.md names every limit, and no other; the lock file pins with hashes, and names no host."""

from __future__ import annotations

import importlib.metadata
import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

from mqsniff.limits import Limits

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "security.md").read_text()
BOUNDS = PAGE.partition("## What bounds what")[2].partition("\n## ")[0]
LOCK = (ROOT / ".ci" / "requirements.lock").read_text()


def test_every_limit_is_named_once_and_exists():
    named = re.findall(r"`([a-z_]+)`", BOUNDS.partition("|---|---|\n")[2])
    assert sorted(named) == sorted(Limits.about())


def test_every_file_that_is_linked_is_there():
    for page in (ROOT / "docs" / "security.md", ROOT / "docs" / "reliability.md", ROOT / "SECURITY.md"):
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            assert (page.parent / target).exists(), target


def test_every_test_that_the_table_of_faults_names_is_there():
    page = (ROOT / "docs" / "reliability.md").read_text()
    named = set(re.findall(r"`((?:tests|benchmarks)/[\w/.]+)`", page))
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name.partition("[")[0]).lower()


def pinned_extras() -> dict[str, set[str]]:
    """Each pinned package's name, and the extras that its pin names."""
    found: dict[str, set[str]] = {}
    for name, extras in re.findall(r"^([\w.-]+)(?:\[(.*)\])?==", LOCK, re.MULTILINE):
        found.setdefault(normal(name), set()).update(normal(extra) for extra in extras.split(",") if extra)
    return found


def test_a_pin_names_the_extras_that_another_package_asks_for():
    # Without them, older pips look for `coverage[toml]` past the pin of `coverage`, and refuse a newer release.
    pins = pinned_extras()
    asked = [
        (normal(requirement.name), {normal(extra) for extra in requirement.extras})
        for distribution in importlib.metadata.distributions()
        if normal(distribution.metadata["Name"]) in pins
        for requirement in map(Requirement, distribution.requires or ())
        if requirement.extras and (requirement.marker is None or requirement.marker.evaluate({"extra": ""}))
    ]
    assert ("coverage", {"toml"}) in asked
    assert [(name, extras - pins[name]) for name, extras in asked if not extras <= pins[name]] == []


def test_the_lock_pins_every_dependency_with_hashes_and_names_no_host():
    pinned = set(pinned_extras())
    entries = re.split(r"\n(?=[\w.-]+(?:\[.*\])?==)", LOCK)[1:]
    assert len(entries) >= len(pinned) > 0
    assert all("--hash=sha256:" in entry for entry in entries)
    assert "://" not in LOCK
    assert "-index" not in LOCK
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *extras["dev"], *extras["spark"], *extras["testing"]]
    names = {normal(re.split(r"[<>=!~;\s]", each)[0]) for each in wanted} - {"mqsniff"}
    assert names <= pinned
