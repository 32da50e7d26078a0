"""Values of a body in, lines of an indented tree out; also single values on one line.

1. Strings are quoted and escaped, so that nothing in a body can look like structure, colour or another line.
2. Redacted, undecoded and binary values are in angle brackets, which no quoted string can imitate.
3. A list of plain values stays on one line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

from mqsniff.model import PayloadBytes, PayloadChecksum, PayloadMap, PayloadText, Secret, Undecoded
from mqsniff.tables.escape import quoted, safe
from mqsniff.tables.values import NESTING_MAX, Redaction, base64, text_of

FieldNames: TypeAlias = Callable[[str, int], str | None]
"""A field and a number in it -> the number's name, if it has one."""

_PLAIN: Final = re.compile(r'[^ "=<>\\]+')


def tree_lines(
    body: dict[str, Any], shown: Redaction, indent: int, code_name: FieldNames | None = None
) -> Iterator[str]:
    """Lines of a body, each member on its own line, without newlines; numbers with the names that they have."""
    yield from _members(body, shown, indent, 0, code_name)


def inline(value: Any, shown: Redaction) -> str:
    """A value on one line."""
    match value:
        case PayloadMap() | PayloadText() | PayloadBytes() | PayloadChecksum() if not shown.payload:
            return safe(shown.json(value).decode())
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return quoted(value)
        case Secret():
            return _bytes(value.data) if shown.secrets else f"<redacted, {len(value)} bytes>"
        case Undecoded():
            return _bytes(value.data) if shown.raw else _undecoded(value.data, shown)
        case bytes() | bytearray() | memoryview():
            return _bytes(bytes(value))
    return safe(shown.json(value).decode())


def brief(value: Any, shown: Redaction) -> str:
    """As ``inline``, but a string of one plain word has no quotes."""
    if type(value) is str and value.isprintable() and _PLAIN.fullmatch(value):
        return value
    return inline(value, shown)


def _members(
    members: dict[str, Any], shown: Redaction, indent: int, depth: int, named: FieldNames | None
) -> Iterator[str]:
    for key, value in members.items():
        yield from _node(f"{safe(str(key))}:", value, shown, indent, depth, named)


def _node(  # noqa: PLR0917  # what it is, and how it is shown
    label: str, value: Any, shown: Redaction, indent: int, depth: int, named: FieldNames | None
) -> Iterator[str]:
    pad = " " * indent
    if named is not None and type(value) is int and (name := named(label[:-1], value)):
        yield f"{pad}{label} {value} {safe(name)}"
        return
    if depth >= NESTING_MAX or not _nested(value):
        yield f"{pad}{label} {inline(value, shown)}"
        return
    yield f"{pad}{label}"
    if isinstance(value, PayloadMap) and not shown.payload:
        value = shown.redacted(value)
    if isinstance(value, dict):
        yield from _members(value, shown, indent + 2, depth + 1, named)
        return
    for item in value:
        yield from _item(item, shown, indent + 2, depth + 1, named)


def _item(value: Any, shown: Redaction, indent: int, depth: int, named: FieldNames | None) -> Iterator[str]:
    """One item of a list; the first member of an object follows the dash."""
    if not isinstance(value, dict) or not value:
        yield from _node("-", value, shown, indent, depth, None)
        return
    lines = _members(value, shown, indent + 2, depth, named)
    yield " " * indent + "- " + next(lines).lstrip()
    yield from lines


def _nested(value: Any) -> bool:
    """Whether a value needs lines of its own."""
    if isinstance(value, dict):
        return bool(value)
    return isinstance(value, list | tuple) and any(isinstance(item, dict | list | tuple) and item for item in value)


def _bytes(data: bytes) -> str:
    text = text_of(data)
    return f"<base64 {base64(data)}>" if text is None else quoted(text)


def _undecoded(data: bytes, shown: Redaction) -> str:
    hashed = shown.hash(data)
    return f"<undecoded, {len(data)} bytes{f', hmac_sha256 {hashed}' if hashed else ''}>"
