"""The build. Where ``MQSNIFF_COMPILE=1`` asks for it, mypyc makes C extensions of the hot modules as they are.

1. Which modules they are stands in pyproject.toml, ``tool.mqsniff``; the others stay Python. All of it runs without
   being compiled: docs/decisions/011-compiled-modules.md.
2. mypyc works on a copy, in which the ``__init__`` of each dataclass is written out, which would stay interpreted;
   dissectors are marked as classes from which plugins in Python inherit, and classes of connections as ones that can be
   pickled (``mqsniff/batch/flowpickles.py``).
3. A compiled wheel needs librt, mypyc's library of vectors, in the version that it was built with or a later one.
"""

from __future__ import annotations

import ast
import os
import shutil
import tomllib
from importlib import metadata
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.egg_info import egg_info

HERE = Path(__file__).resolve().parent
COPY = HERE / "build" / "compiled-sources"
PACKAGES = (Path("mqsniff"), *sorted(Path("dissectors").glob("mqsniff_*")))
"""Folders of packages, beside each other in the copy, as their modules import each other."""
DISSECTORS = {"Dissector", "FramedDissector"}
MARK = "@mypyc_attr(allow_interpreted_subclasses=True)"
PICKLED = "@mypyc_attr(serializable=True)"
UNPICKLED = {"answers", "cli", "filters", "pipeline.py", "sinks", "tables"}
"""Folders and files of modules that no connection's state names: being pickled makes attributes slower."""
MARKS = "import typing\nif typing.TYPE_CHECKING: from mypy_extensions import mypyc_attr"
SLICES = """#pragma once
#include <Python.h>
static inline PyObject *bytes_of(const char *data, Py_ssize_t size) {
    return PyBytes_FromStringAndSize(data, size < 0 ? 0 : size);
}
static inline PyObject *bytearray_of(const char *data, Py_ssize_t size) {
    return PyByteArray_FromStringAndSize(data, size < 0 ? 0 : size);
}
#define PyBytes_FromStringAndSize bytes_of
#define PyByteArray_FromStringAndSize bytearray_of
"""
"""What goes before each file of C: a slice of bytes that stops before it starts is empty, an error in mypyc 2.4."""
LINK_TIME = ["-O3", "-flto", "-fno-semantic-interposition", "-fvisibility=hidden"]
"""Functions become part of their callers in other modules: 3 to 8 % of the CPU time of small messages."""


def extensions() -> list[Extension]:
    """The modules of ``tool.mqsniff.compiled``, ready to be compiled."""
    from mypyc.build import mypycify  # noqa: PLC0415  # not needed where nothing is compiled

    init_pickled_classes()
    settings = tomllib.loads((HERE / "pyproject.toml").read_text())["tool"]["mqsniff"]
    shutil.rmtree(COPY, ignore_errors=True)
    for package in PACKAGES:
        shutil.copytree(HERE / package, COPY / package.name, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    os.chdir(COPY)  # where mypy looks for the modules that these import
    try:
        paths = sorted(found(settings["compiled"]) - found(settings["interpreted"]))
        for path in paths:
            path.write_text(written_out(path.read_text(), pickled=not UNPICKLED.intersection(path.parts)))
        made = mypycify(
            [str(path) for path in paths],
            opt_level="3",
            target_dir=str(COPY),
            group_name="mqsniff",
            multi_file=True,
            debug_level="0",
        )
    finally:
        os.chdir(HERE)
    slices = COPY / "slices.h"
    slices.write_text(SLICES)
    for extension in made:
        extension.extra_compile_args += ["-include", str(slices), *LINK_TIME]
        extension.extra_link_args += LINK_TIME
    return made


def init_pickled_classes() -> None:
    """Have Python call the ``__init__`` of classes that can be pickled: mypyc 2.4 leaves it out."""
    from mypyc.codegen import emitclass  # noqa: PLC0415  # as in ``extensions``

    slot, emit = emitclass.SLOT_DEFS["__init__"]

    def called(cl, init_fn, emitter):  # noqa: ANN001, ANN202  # mypyc's own
        subclassed = cl.allow_interpreted_subclasses
        cl.allow_interpreted_subclasses = subclassed or cl.is_serializable()
        try:
            return emit(cl, init_fn, emitter)
        finally:
            cl.allow_interpreted_subclasses = subclassed

    emitclass.SLOT_DEFS["__init__"] = slot, called


def found(patterns: list[str]) -> set[Path]:
    """The files that patterns mean."""
    return {path for pattern in patterns for path in Path().glob(pattern)}


def written_out(text: str, *, pickled: bool) -> str:
    """A module with rule 2 applied; ``pickled``: whether its classes may be part of a connection's state."""
    lines = text.splitlines()
    classes = [node for node in ast.parse(text).body if isinstance(node, ast.ClassDef)]
    for node in reversed(classes):
        own = {each.name for each in node.body if isinstance(each, ast.FunctionDef)}
        for decorator in node.decorator_list:
            made = ast.unparse(decorator)
            if made.startswith("dataclass(") and "frozen" not in made and "__post_init__" not in own:
                lines[node.end_lineno : node.end_lineno] = constructor(node)
                lines[decorator.lineno - 1] = f"@{made.removesuffix(')')}, init=False)"
                own.add("__init__")
        first = (node.decorator_list[0].lineno if node.decorator_list else node.lineno) - 1
        if DISSECTORS.intersection((node.name, *map(ast.unparse, node.bases))):
            lines.insert(first, MARK)
        elif pickled and "__init__" in own:
            lines.insert(first, PICKLED)
    if MARK in lines or PICKLED in lines:
        lines.insert(lines.index("from __future__ import annotations") + 1, MARKS)
    return "\n".join(lines) + "\n"


def constructor(node: ast.ClassDef) -> list[str]:
    """The ``__init__`` that dataclass would make."""
    parameters, body = [], []
    for field in node.body:
        if not isinstance(field, ast.AnnAssign) or ast.unparse(field.annotation).startswith("ClassVar"):
            continue
        name, kind = ast.unparse(field.target), ast.unparse(field.annotation)
        default, value = "", name
        if isinstance(field.value, ast.Call) and ast.unparse(field.value.func) == "field":
            (factory,) = [word.value for word in field.value.keywords if word.arg == "default_factory"]
            default, value = " | None = None", f"{ast.unparse(factory)}() if {name} is None else {name}"
        elif field.value is not None:
            default = f" = {ast.unparse(field.value)}"
        parameters.append(f"{name}: {kind}{default}")
        body.append(f"        self.{name} = {value}")
    return ["", f"    def __init__(self, {', '.join(parameters)}) -> None:", *body]


class CompiledInfo(egg_info):
    """The metadata of a compiled build, with rule 3; what every build needs stands in pyproject.toml."""

    def run(self) -> None:
        """Write them."""
        self.distribution.install_requires.append(f"librt>={metadata.version('librt')}")
        super().run()


if os.environ.get("MQSNIFF_COMPILE") == "1":
    setup(ext_modules=extensions(), cmdclass={"egg_info": CompiledInfo})
else:
    setup()
