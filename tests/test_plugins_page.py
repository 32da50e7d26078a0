"""docs/plugins.md: its example is a plugin that keeps the laws, and the names that it teaches exist."""

from __future__ import annotations

import ast
import inspect
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import mqsniff.plugin
import mqsniff.testing
from mqsniff.plugin import (
    Candidate,
    Dissector,
    Frame,
    FramedDissector,
    Message,
    Pending,
    Problem,
    RecordBatch,
    Sample,
    Settings,
)

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "plugins.md").read_text()
FILES = dict(re.findall(r"`([\w.]+)`:\n\n```\w+\n(.*?)```", PAGE, re.DOTALL))


@pytest.fixture(scope="module")
def package(tmp_path_factory) -> Path:
    """The package of the page, written as it stands there."""
    folder = tmp_path_factory.mktemp("mqsniff_parcel")
    for name, text in FILES.items():
        (folder / name).write_text(text)
    return folder


def run(package: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    paths = [str(package), *(path for path in sys.path if path)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "MQSNIFF_EXAMPLES": "5"}
    return subprocess.run(
        [sys.executable, *arguments], cwd=package, env=environment, capture_output=True, text=True, check=False
    )


def test_the_example_keeps_the_laws(package):
    done = run(package, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_parcel.py")
    assert done.returncode == 0, done.stdout[-3000:]


def test_a_plugin_that_forgets_is_told(package):
    """The kit names what a table would leave empty without a word."""
    source = (package / "mqsniff_parcel.py").read_text()
    forgets = source.replace('"direction": "produce" if kind == PUT else "deliver", ', "").replace(
        "self.expect_reply(number)\n        else:", "pass\n        else:"
    )
    assert forgets != source
    (package / "mqsniff_forgetful.py").write_text(forgets)
    test = (package / "test_parcel.py").read_text().replace("mqsniff_parcel", "mqsniff_forgetful")
    (package / "test_forgetful.py").write_text(test)
    done = run(package, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_forgetful.py", "-k", "columns")
    assert done.returncode == 1
    assert "column 'direction' is not filled" in done.stdout
    assert "opens no link 'answer'" in done.stdout


def test_the_project_file_names_the_entry_point():
    project = tomllib.loads(FILES["pyproject.toml"])["project"]
    (point,) = project["entry-points"]["mqsniff.dissectors"].values()
    module, _, name = point.partition(":")
    assert f"class {name}(FramedDissector)" in FILES[f"{module}.py"]


def test_the_names_of_the_page_exist():
    known = {*mqsniff.plugin.__all__, *mqsniff.testing.__all__}
    members = {name for cls in (Dissector, FramedDissector) for name in dir(cls)}
    imported = set()
    for text in FILES.values():
        for names in re.findall(r"from mqsniff\.(?:plugin|testing) import (?:\(([^)]*)\)|([^\n]*))", text):
            imported |= {name.strip() for name in "".join(names).split(",") if name.strip()}
    assert imported <= known
    called = set(re.findall(r"`(?:self|super\(\))\.(\w+)\(", PAGE))
    assert called <= members


def test_every_type_that_the_contract_names_can_be_imported_from_one_place():
    elsewhere = {"Any", "Callable", "ClassVar", "Collection", "Iterable", "Iterator", "Sequence"}
    public = {*mqsniff.plugin.__all__} | elsewhere
    classes = [Dissector, FramedDissector, Settings, Sample, Candidate, Frame, Message, Pending, Problem, RecordBatch]
    for cls in classes:
        for node in ast.parse(inspect.getsource(cls)).body[0].body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                arguments = [*node.args.args, *node.args.kwonlyargs]
                annotations = [node.returns, *(each.annotation for each in arguments)]
            else:
                annotations = [node.annotation] if isinstance(node, ast.AnnAssign) else []
            named = {each.id for told in annotations if told for each in ast.walk(told) if isinstance(each, ast.Name)}
            assert {name for name in named if name[0].isupper()} <= public, cls
