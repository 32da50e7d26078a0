"""The source of a module in, its mutants out: each is the same source with one small fault.

1. A mutant replaces a span of the text; everything else stays as it is, so that lines keep their numbers.
2. What cannot change results is left alone: annotations, docstrings, decorators, ``assert`` and ``strict=True`` (both
   say what is so), a ``return None`` that ends a function, ``__slots__``, texts for people (those with a blank), and
   the names of types.
3. A mutant has a rank by its own text only. So a sample of the lowest ranks changes little when other code does.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from difflib import ndiff
from hashlib import sha256
from itertools import islice, pairwise, zip_longest
from typing import Final, NamedTuple

COMPARISONS: Final = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: (r"is\s+not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: (r"not\s+in", "in"),
}
"""Pattern of an operator in the source, and what replaces it."""

ARITHMETIC: Final = {
    ast.Add: (r"\+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: (r"\*", "+"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "//"),
    ast.Pow: (r"\*\*", "*"),
    ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: (r"\|", "&"),
    ast.BitXor: (r"\^", "&"),
}

LEFT_ALONE: Final = frozenset({"__slots__", "__all__", "__match_args__"})
TYPES: Final = re.compile(r"None|int|str|bytes|bool|float|object|type|_?[A-Z]\w*[a-z]\w*(\[.*\])?")
"""What stands beside ``|`` where a type is meant."""


class Mutant(NamedTuple):
    """A module's source with one fault."""

    module: str
    """Path from the root of the repository."""
    line: int
    kind: str
    source: str
    """The whole source with the fault."""
    removed: tuple[str, ...]
    """The lines that differ, as they were; stripped."""
    added: tuple[str, ...]
    """The lines that differ, as they are; stripped."""
    function: str
    """Name of the innermost function or class around it; empty outside of all."""

    @property
    def key(self) -> tuple[str, str, str, str]:
        """Its name in the list of equivalent mutants: module, function, lines as they were, lines as they are."""
        return self.module, self.function, *self._texts

    @property
    def _texts(self) -> tuple[str, str]:
        return "\n".join(self.removed), "\n".join(self.added)

    @property
    def rank(self) -> bytes:
        """Place in the order of which a sample takes the first ones."""
        return sha256("\0".join((self.module, *self._texts, self.kind)).encode()).digest()


class _Change(NamedTuple):
    """A span of the source, as UTF-8, and what replaces it."""

    kind: str
    start: int
    stop: int
    text: str


def mutants_of(module: str, source: str) -> list[Mutant]:
    """All mutants of a module, in the order of their lines; a few are no Python (``sample`` takes none of them)."""
    data = source.encode()
    functions = _functions(source)
    found: dict[str, Mutant] = {}
    for change in sorted(_Finder(data).changes(), key=lambda change: (change.start, change.stop, change.text)):
        mutated = (data[: change.start] + change.text.encode() + data[change.stop :]).decode()
        if mutated == source or mutated in found:
            continue
        line = data.count(b"\n", 0, change.start) + 1
        removed, added = _difference(source, mutated)
        found[mutated] = Mutant(module, line, change.kind, mutated, removed, added, functions.get(line, ""))
    return list(found.values())


def sample(mutants: list[Mutant], size: int, seed: int) -> list[Mutant]:
    """At most ``size`` of the mutants, by ``seed``, in the order of module and line."""
    ranked = sorted(mutants, key=lambda mutant: sha256(b"%d" % seed + mutant.rank).digest())
    chosen = islice((mutant for mutant in ranked if _is_python(mutant.source)), size)
    return sorted(chosen, key=lambda mutant: (mutant.module, mutant.line))


def _functions(source: str) -> dict[int, str]:
    """The innermost function or class of each line that has one."""
    names: dict[int, str] = {}
    for node in ast.walk(ast.parse(source)):  # outer ones come first
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names |= dict.fromkeys(range(node.lineno, (node.end_lineno or node.lineno) + 1), node.name)
    return names


def _is_python(source: str) -> bool:
    try:
        compile(source, "mutant", "exec", dont_inherit=True)
    except SyntaxError:
        return False
    return True


def _difference(before: str, after: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    old, new = before.splitlines(), after.splitlines()
    start = next(at for at, (a, b) in enumerate(zip_longest(old, new)) if a != b)
    tail = 0
    while tail < min(len(old), len(new)) - start and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    lines = list(ndiff(old[start : len(old) - tail], new[start : len(new) - tail]))
    return tuple(x[2:].strip() for x in lines if x[0] == "-"), tuple(x[2:].strip() for x in lines if x[0] == "+")


class _Finder:
    """Finds the changes of one source."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._lines = [0]
        for line in data.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))

    def changes(self) -> Iterator[_Change]:
        """Every change, some of which give the same text."""
        for node in _mutable(ast.parse(self._data)):
            yield from self._of_operators(node)
            match node:
                case ast.If() | ast.While() | ast.IfExp():
                    yield from self._negated(node.test)
                case ast.comprehension():
                    for test in node.ifs:
                        yield from self._negated(test)
                case ast.Constant():
                    yield from self._constant(node)
                case ast.Call():
                    yield from self._swapped(node)
            if isinstance(node, ast.stmt):
                yield from self._deleted(node)

    def _of_operators(self, node: ast.AST) -> Iterator[_Change]:
        match node:
            case ast.Compare():
                yield from self._comparison(node)
            case ast.BinOp() if not self._is_type(node):
                yield from self._operator("arithmetic", node.left, node.right, ARITHMETIC[type(node.op)])
            case ast.AugAssign():
                yield from self._augmented(node)
            case ast.BoolOp():
                word, other = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
                for left, right in pairwise(node.values):
                    yield from self._operator("boolean", left, right, (word, other))
            case ast.UnaryOp(op=ast.Not()):
                yield self._replaced("boolean", node, self._text(node.operand))

    def _at(self, line: int, column: int) -> int:
        return self._lines[line - 1] + column

    def _span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._at(node.lineno, node.col_offset), self._at(node.end_lineno, node.end_col_offset)

    def _text(self, node: ast.expr) -> str:
        start, stop = self._span(node)
        return self._data[start:stop].decode()

    def _replaced(self, kind: str, node: ast.expr | ast.stmt, text: str) -> _Change:
        return _Change(kind, *self._span(node), text)

    def _operator(self, kind: str, left: ast.expr, right: ast.expr, change: tuple[str, str]) -> Iterator[_Change]:
        start, stop = self._span(left)[1], self._span(right)[0]
        found = re.search(change[0].encode(), self._data[start:stop])
        if found is not None:
            yield _Change(kind, start + found.start(), start + found.end(), change[1])

    def _comparison(self, node: ast.Compare) -> Iterator[_Change]:
        for left, right, op in zip([node.left, *node.comparators], node.comparators, node.ops, strict=False):
            yield from self._operator("comparison", left, right, COMPARISONS[type(op)])

    def _augmented(self, node: ast.AugAssign) -> Iterator[_Change]:
        pattern, other = ARITHMETIC[type(node.op)]
        start, stop = self._span(node.target)[1], self._span(node.value)[0]
        found = re.search(pattern.encode(), self._data[start:stop])
        if found is not None:
            yield _Change("arithmetic", start + found.start(), start + found.end(), other)

    def _negated(self, test: ast.expr) -> Iterator[_Change]:
        if not isinstance(test, ast.UnaryOp | ast.Constant):
            yield self._replaced("negated condition", test, f"(not ({self._text(test)}))")

    def _constant(self, node: ast.Constant) -> Iterator[_Change]:
        value, text = node.value, self._text(node)
        if isinstance(value, bool):
            yield self._replaced("constant", node, str(not value))
        elif isinstance(value, int):
            yield self._replaced("constant", node, f"{value + 1}")
        elif isinstance(value, str | bytes) and value and text[-1] in "'\"" and " " not in text and "\n" not in text:
            yield self._replaced("constant", node, f"{text[:-1]}X{text[-1]}")

    def _swapped(self, node: ast.Call) -> Iterator[_Change]:
        """The first two arguments of a call in each other's place."""
        first = node.args[:2]
        if len(first) < 2 or any(isinstance(argument, ast.Starred) for argument in first):
            return
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        if name in ("isinstance", "max", "maximum", "min", "minimum"):
            return
        left, right = first
        (start, left_stop), (right_start, stop) = self._span(left), self._span(right)
        between = self._data[left_stop:right_start].decode()
        if "(" not in between and ")" not in between:
            yield _Change("swapped arguments", start, stop, self._text(right) + between + self._text(left))

    def _deleted(self, node: ast.stmt) -> Iterator[_Change]:
        match node:
            case ast.Return(value=value) if value is not None and not _is_none(value):
                yield self._replaced("deleted statement", node, "return None")
            case ast.Return() | ast.AugAssign() | ast.Raise() | ast.Break() | ast.Continue() | ast.Delete():
                yield self._replaced("deleted statement", node, "pass")
            case ast.Expr(value=ast.Yield() | ast.YieldFrom()):
                yield self._replaced("deleted statement", node, "if 0: yield")
            case ast.Expr():
                yield self._replaced("deleted statement", node, "pass")
            case ast.Assign(targets=[ast.Attribute() | ast.Subscript(), *_]):
                yield self._replaced("deleted statement", node, "pass")

    def _is_type(self, node: ast.BinOp) -> bool:
        sides = (self._text(node.left).split("|")[-1].strip(), self._text(node.right).strip())
        return isinstance(node.op, ast.BitOr) and all(TYPES.fullmatch(side) for side in sides)


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _ends_with_nothing(node: ast.stmt) -> bool:
    """Whether a function that ends with this returns None with it and without it."""
    return isinstance(node, ast.Return) and (node.value is None or _is_none(node.value))


def _is_skipped(node: ast.AST) -> bool:
    match node:
        case ast.Assert() | ast.JoinedStr() | ast.Import() | ast.ImportFrom() | ast.MatchClass():
            return True
        case ast.Expr(value=ast.Constant()):
            return True  # a docstring, or ...
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case ast.Assign(targets=[ast.Name(id=name)]) if name in LEFT_ALONE:
            return True
        case ast.AnnAssign(annotation=ast.Name(id="TypeAlias")):
            return True
        case ast.Assign(value=ast.Call(func=ast.Name(id="TypeVar" | "ParamSpec" | "NewType"))):
            return True
        case ast.Call(func=ast.Name(id="cast" | "NamedTuple" | "TypedDict")):
            return True
        case ast.FunctionDef(decorator_list=[ast.Name(id="overload"), *_]):
            return True
        case ast.keyword(arg="strict", value=ast.Constant(value=True)):
            return True
    return False


def _mutable(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes that may be mutated (rule 2)."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "bases", "type_comment", "type_params"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(node, ast.FunctionDef) and child is node.body[-1] and _ends_with_nothing(child):
                continue
            if isinstance(child, ast.AST) and not _is_skipped(child):
                yield child
                yield from _mutable(child)
