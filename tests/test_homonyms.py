"""One class name, one meaning in the whole house (STYLE: no homonyms)."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = sorted(path for folder in ("mqsniff", "dissectors") for path in (ROOT / folder).rglob("*.py"))


def defined(tree: ast.Module) -> list[tuple[str, int]]:
    """(name, line) of each class, nested ones too, and of each type alias of a module."""
    classes = [(node.name, node.lineno) for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    return classes + [(name, node.lineno) for node in tree.body for name in aliases(node)]


def aliases(node: ast.stmt) -> list[str]:
    """Names of a statement that are type aliases: so annotated, or written as a class name (``Rows = list[Row]``)."""
    match node:
        case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation) if "TypeAlias" in ast.unparse(annotation):
            return [name]
        case ast.Assign(targets=targets):
            names = [target.id for target in targets if isinstance(target, ast.Name)]
            return [name for name in names if name.lstrip("_")[:1].isupper() and not name.isupper()]
        case _ if type(node).__name__ == "TypeAlias":  # the statement ``type X = ...`` of Python 3.12
            return [node.name.id]
        case _:
            return []


def homonyms(modules: dict[str, ast.Module]) -> dict[str, list[str]]:
    """Names that are defined more than once -> where."""
    places = defaultdict(list)
    for module, tree in modules.items():
        for name, line in defined(tree):
            places[name].append(f"{module}:{line}")
    return {name: found for name, found in places.items() if len(found) > 1}


def test_no_class_or_type_alias_is_defined_twice():
    modules = {str(path.relative_to(ROOT)): ast.parse(path.read_text()) for path in SOURCES}
    assert len(modules) > 200
    found = homonyms(modules)
    assert not found, "\n".join(f"{name} is defined in {' and in '.join(places)}" for name, places in found.items())


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("class Part: pass", "class Part: pass"),
        ("class _Part: pass", "class Outer:\n    class _Part: pass"),
        ("Part: TypeAlias = int", "class Part: pass"),
        ("Part = list[int]", "Part: typing.TypeAlias = int"),
        ("_Part = Callable[[int], int]", "_Part = int | None"),
    ],
)
def test_a_homonym_is_told_with_both_places(first, second):
    (places,) = homonyms({"one.py": ast.parse(first), "two.py": ast.parse(second)}).values()
    assert [place.split(":")[0] for place in places] == ["one.py", "two.py"]


def test_constants_and_instances_are_no_aliases():
    assert defined(ast.parse("PART = 1\npart = Part()\n_PARTS: Final = ()\nPart.size = 2")) == []
