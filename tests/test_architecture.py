"""docs/architecture.md and CONTRIBUTING.md name what there is: rooms, files, and the functions on a packet's way."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from types import FrameType

import pytest
from builds import python_only
from click.testing import CliRunner

from mqsniff.cli import main
from mqsniff_kafka.records import batches
from mqsniff_kafka.records.compression import OpenedBatches

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/architecture.md").read_text()
PICTURE = PAGE.split("```")[1]
TABLE = "\n".join(line.split("|")[1] for line in PAGE.splitlines() if line.startswith("| `"))
SPINES = {part.partition("\n")[0]: part for part in PAGE.split("\n### ")[1:]}
STEP = re.compile(r"`((?:mqsniff|dissectors)/[\w/]+\.py):([\w.]+)`")


def steps(text: str) -> list[tuple[str, str]]:
    return STEP.findall(text)


def defined(path: Path) -> set[str]:
    """Names of the classes, functions and methods of a module."""
    names = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}.{each.name}" for each in node.body if isinstance(each, ast.FunctionDef)}
    return names


def called(arguments: list[str]) -> set[tuple[str, str]]:
    """File and name of all functions of the project that a command calls."""
    codes = set()

    def note(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call":
            codes.add(frame.f_code)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        result = CliRunner().invoke(main, arguments)
    finally:
        sys.setprofile(before)
    assert result.exit_code == 0, result.output
    files = {code: Path(code.co_filename) for code in codes}
    return {
        (path.relative_to(ROOT).as_posix(), code.co_qualname)
        for code, path in files.items()
        if path.is_relative_to(ROOT)
    }


@pytest.mark.parametrize("spine", SPINES)
def test_a_spine_has_about_a_dozen_steps(spine):
    numbers = re.findall(r"^(\d+)\. ", SPINES[spine], re.MULTILINE)
    assert numbers == [str(number) for number in range(1, len(numbers) + 1)]
    assert 10 <= len(numbers) <= 14


@pytest.mark.parametrize(("file", "name"), sorted({step for spine in SPINES.values() for step in steps(spine)}))
def test_a_step_names_a_function_that_exists(file, name):
    assert name in defined(ROOT / file)


@python_only
@pytest.mark.parametrize(
    ("spine", "capture"),
    [
        ("A small message", "pcaps/nsq/nsq-1.3.0-go-req-touch.pcap"),
        ("A record batch", "pcaps/kafka/kafka-3.9.1-java-4.4.0-cross-xa.pcapng"),
    ],
)
def test_a_run_calls_every_step(spine, capture, tmp_path, monkeypatch):
    monkeypatch.setattr(batches, "_OPENED", OpenedBatches())  # else batches that another test opened are not read again
    made = called(["decode", "-o", "parquet", "--out", str(tmp_path / "tables"), str(ROOT / capture)])
    assert [step for step in steps(SPINES[spine]) if step not in made] == []


def test_every_room_has_a_row_and_a_place_in_the_picture():
    rooms = {path.parent.name for path in (ROOT / "mqsniff").glob("*/__init__.py")}
    assert [room for room in rooms if f"`mqsniff/{room}/`" not in TABLE] == []
    assert [room for room in rooms - {"testing"} if not re.search(rf"\b{room}\b", PICTURE)] == []
    modules = {path.name for path in (ROOT / "mqsniff").glob("*.py")} - {"__init__.py", "__main__.py"}
    assert [name for name in modules if f"`mqsniff/{name}`" not in TABLE] == []


def test_every_room_of_the_table_is_there():
    named = re.findall(r"`([\w/.*]+)`", TABLE)
    assert named
    assert [name for name in named if not list(ROOT.glob(name))] == []


def test_every_file_that_contributing_names_is_there():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    named = set(re.findall(r"(?:docs|mqsniff|tests|proto|pcaps|benchmarks|dissectors)/[\w./-]*", text))
    named = {name.rstrip(".") for name in named} - {"dissectors/mqsniff_"}
    assert len(named) > 30
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


def test_decisions_have_numbers_of_their_own():
    files = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    numbers = [file.name.partition("-")[0] for file in files]
    assert len(numbers) == len(set(numbers))
    assert [file.name for file in files if not file.read_text().startswith(f"# {file.name[:3]}: ")] == []
