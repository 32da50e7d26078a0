"""Whether annotations tell the truth at run time: what functions of the compiled modules take, return and yield.

mypyc believes annotations and raises TypeError where a value has another type; pure Python shows nothing of it. This
looks at the calls of a run, as far as mypyc does: members of tuples of a fixed size, not those of lists and dicts.
"""

from __future__ import annotations

import importlib
import inspect
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any, Final, Self, get_args, get_type_hints

from mqsniff.testing.typed import fits

HOME: Final = Path(__file__).parent.parent
_GENERATOR: Final = inspect.CO_GENERATOR
_UNRESOLVED: Final = "unresolved"


def compiled_modules() -> list[ModuleType]:
    """The modules that ``tool.mqsniff`` of pyproject.toml has compiled."""
    settings = tomllib.loads((HOME / "pyproject.toml").read_text())["tool"]["mqsniff"]
    found, left = ({path for pattern in settings[key] for path in HOME.glob(pattern)} for key in settings)
    names = [".".join(path.relative_to(HOME).with_suffix("").parts).removesuffix(".__init__") for path in found - left]
    return [importlib.import_module(name) for name in sorted(names)]


def functions_of(module: ModuleType) -> Iterator[FunctionType]:
    """Functions and methods that a module defines."""
    for thing in vars(module).values():
        members = vars(thing).values() if inspect.isclass(thing) else (thing,)
        for member in members:
            inner = getattr(member, "fget", None) or getattr(member, "__func__", None) or member
            inner = getattr(inner, "__wrapped__", inner)
            made = getattr(inner, "__code__", None) is None or inner.__code__.co_filename != module.__file__
            if isinstance(inner, FunctionType) and not made:
                yield inner


class Watch:
    """A context in which calls are looked at; ``lies`` says what was found, each thing once."""

    def __init__(self) -> None:
        self.lies: set[str] = set()
        self.looked = 0
        self._known: dict[CodeType, tuple[FunctionType, dict[str, Any] | None]] = {
            function.__code__: (function, None) for module in compiled_modules() for function in functions_of(module)
        }

    def __enter__(self) -> Self:
        sys.setprofile(self._see)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _see(self, frame: FrameType, event: str, value: Any) -> None:
        if event not in {"call", "return"} or frame.f_code not in self._known:
            return
        function, hints = self._known[frame.f_code]
        if hints is None:
            hints = _hints(function)
            self._known[frame.f_code] = function, hints
        self.looked += 1
        if event == "call":
            if frame.f_lasti <= 0 or not frame.f_code.co_flags & _GENERATOR:
                self._arguments(function, frame, hints)
        elif "return" in hints:
            self._result(function, frame, hints["return"], value)

    def _arguments(self, function: FunctionType, frame: FrameType, hints: dict[str, Any]) -> None:
        code = frame.f_code
        for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]:
            value = frame.f_locals.get(name, _UNRESOLVED)
            if name in hints and value is not _UNRESOLVED and not fits(value, hints[name]):
                self.lies.add(f"{function.__module__}.{function.__qualname__}({name}: {type(value).__name__})")

    def _result(self, function: FunctionType, frame: FrameType, hint: Any, value: Any) -> None:
        if frame.f_code.co_flags & _GENERATOR:
            if value is None:
                return  # the end of a generator, or a None that nobody can tell from it
            hint = (*get_args(hint), Any)[0]
        if not fits(value, hint) and value is not None:
            self.lies.add(f"{function.__module__}.{function.__qualname__} -> {type(value).__name__}: {value!r}"[:200])


def _hints(function: FunctionType) -> dict[str, Any]:
    """The annotations of a function; none where they name what only type checkers import."""
    from mqsniff import model  # after the modules that it is asked for

    missing = {name: noun for name, noun in vars(model).items() if name not in function.__globals__}
    try:
        return get_type_hints(function, localns=missing | {"Value": Any})
    except NameError:
        return {}
