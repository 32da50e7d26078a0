"""Spans for the scalars of JSON, with the paths and secrets of the decoded body.

1. A span begins after the one before it: keys and punctuation belong to the scalar after them.
2. An empty object or array is a span of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mqsniff.limits import Limits
from mqsniff.model import Secret, Span, Value
from mqsniff_rocketmq.extfields import read_ext
from mqsniff_rocketmq.fastjson import Token, tokens
from mqsniff_rocketmq.headers import NAMES
from mqsniff_rocketmq.notes import ProblemNotes
from mqsniff_rocketmq.tables import Shape, tables
from mqsniff_rocketmq.texts import holds_secret, is_secret_name, read_bit_set

HEADER = "header"
"""Shape of a JSON header: ["header", class of its ext fields]."""


class _Level:
    """An object or array that is not closed yet."""

    __slots__ = ("at_key", "empty", "index", "is_object", "keyed", "path", "shape", "wire")

    def __init__(self, path: str, shape: Shape, *, is_object: bool) -> None:
        self.path = path
        self.shape = shape
        self.is_object = is_object
        self.at_key = is_object
        self.wire = ""
        self.index = 0
        self.empty = True
        self.keyed = False
        """Whether the current member has an object as its key."""

    def named(self, key: Value) -> None:
        """The key of the next member."""
        self.wire = str(key)
        self.at_key = self.keyed = False

    def advance(self) -> None:
        """A comma: the next member or element begins."""
        self.index += 1
        self.at_key = self.is_object


def json_spans(data: bytes, start: int, stop: int, path: str, shape: Shape) -> Iterator[Span]:
    """Spans of the JSON in ``data[start:stop]``."""
    at = start
    levels: list[_Level] = []
    for token in tokens(data[start:stop]):
        end = start + token.stop
        match token.mark:
            case b"{" | b"[":
                here = _next_place(levels, path, shape)
                levels.append(_Level(*here[:2], is_object=token.mark == b"{"))
            case b"}" | b"]" if levels:
                level = levels.pop()
                if level.empty:
                    yield Span(level.path, at, end, {} if level.is_object else [])
                    at = end
            case b"," if levels:
                levels[-1].advance()
            case b"" if levels and levels[-1].at_key:
                levels[-1].named(token.value)
            case b"":
                yield _scalar(token, _next_place(levels, path, shape), (at, end))
                at = end
        if not levels:
            break
    if at < stop:
        yield Span(path, at, stop, None, "end of JSON")


def _next_place(levels: list[_Level], path: str, shape: Shape) -> tuple[str, Shape, str]:
    """Path, shape and name of the value that begins here; it may be the key of a map."""
    if not levels:
        return path, shape, ""
    level = levels[-1]
    level.empty = False
    if not level.at_key:
        return _member(level)
    level.at_key, level.keyed = False, True
    return f"{level.path}[{level.index}].key", level.shape[1] if level.shape and level.shape[0] == "pairs" else None, ""


def _member(level: _Level) -> tuple[str, Shape, str]:
    """Path, shape and name of the next value in a level; the name decides whether it is a secret."""
    prefix = f"{level.path}." if level.path else ""
    if level.keyed:
        shape = level.shape[2] if level.shape and level.shape[0] == "pairs" else None
        return f"{level.path}[{level.index}].value", shape, ""
    match level.shape:
        case ["header", ext]:
            name = NAMES.get(level.wire)
            inner: Shape = ["ext", ext] if name == "ext_fields" else None
            return f"{prefix}{name or f'unknown_fields.{level.wire}'}", inner, level.wire
        case ["ext", ext]:
            field = tables().headers[ext].fields.get(level.wire)
            return f"{prefix}{field.name if field else f'unknown_fields.{level.wire}'}", ["value", ext], level.wire
        case ["class", name] if level.is_object:
            known = tables().bodies[name].fields.get(level.wire)
            if known is None:
                return f"{prefix}unknown_fields.{level.wire}", None, level.wire
            return f"{prefix}{known.name}", ["secret"] if known.secret else known.shape, ""
        case ["list", inner_shape] if not level.is_object:
            return f"{level.path}[{level.index}]", inner_shape, ""
        case ["map", inner_shape] if level.is_object:
            return f"{prefix}{level.wire}", inner_shape, level.wire
    if level.is_object:
        return f"{prefix}{level.wire}", None, level.wire
    return f"{level.path}[{level.index}]", None, ""


def _scalar(token: Token, here: tuple[str, Shape, str], place: tuple[int, int]) -> Span:
    path, shape, name = here
    value: Any = token.value
    meaning = ""
    match shape:
        case ["value", ext]:
            value = _typed(ext, name, value)
            meaning = "" if path.endswith(f".{name}") else name
        case ["bits"] if isinstance(value, str):
            found = read_bit_set(value)
            value, meaning = (value, "") if found is None else (found, value)
        case ["secret"]:
            value = Secret(str(value).encode(errors="replace"))
        case _ if isinstance(value, str) and name and (is_secret_name(name) or holds_secret(value)):
            value = Secret(value.encode(errors="replace"))
        case _ if path in {"language", "version"}:
            known = tables()
            meaning = (known.version_name(value) if path == "version" else known.language_name(value)) or ""
    return Span(path, *place, value, meaning if meaning != value else "")


def _typed(ext: str, name: str, value: Value) -> Value:
    """An ext field, typed as in the decoded body."""
    header = tables().headers[ext]
    found = read_ext({name: value}, header, ProblemNotes(Limits()))
    field = header.fields.get(name)
    typed: Value = found[field.name] if field else found["unknown_fields"][name]
    return typed
