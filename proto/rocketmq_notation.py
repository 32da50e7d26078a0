"""Pages of ``proto/rocketmq/`` in, plain data out; each page tells its notation in its head.

1. Comments begin with ``#`` at the start of a line or behind two spaces. A line that is indented belongs to the last
   line that is not.
2. Whatever the notation does not know is an error with its page and line, never skipped.
3. Names in bodies are the wire's in snake_case, unless the page gives another.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

ROLES: Final = frozenset({"topic", "group", "client", "queue", "offset", "high_watermark", "log_start_offset"})
HEADER_TYPES: Final = {
    "String": "text",
    "BoundaryType": "text",
    "int": "int32",
    "Integer": "int32",
    "long": "int64",
    "Long": "int64",
    "boolean": "bool",
    "Boolean": "bool",
    "List<PlainAccessConfig>": "text",
    "Properties": "properties",
    "PopHandle": "pop_handle",
    "PopStartOffsets": "pop_start_offsets",
    "PopMessageOffsets": "pop_message_offsets",
    "PopOrderCounts": "pop_order_counts",
    "RecallHandle": "recall_handle",
}
"""Types of header fields -> what their text becomes."""

SCALARS: Final = frozenset(
    {"String", "int", "Integer", "long", "Long", "boolean", "Boolean", "double", "AtomicLong", "BitSet"}
)
BODY_KINDS: Final = frozenset(
    {
        "message",
        "message-batch",
        "stored-message",
        "stored-messages",
        "timer-checkpoint",
        "register-broker",
        "java-properties",
        "json",
        "text",
    }
)
STATUSES: Final = ("current", "newer", "unused", "legacy", "alias")

_REQUEST: Final = re.compile(rf"(-?\d+) ([A-Z][A-Z0-9_]*)(?: ({'|'.join(STATUSES[1:])}))?((?: +[A-Z]>[A-Z])*)")
_CLASS: Final = re.compile(r"class (\w+)(?: < (\w+))?(?: (newer|legacy))?")
_FIELD: Final = re.compile(r"(\w+)(?: as (\w+))? +([A-Za-z]\w*(?:<.+>)?(?:\[\])?)(!?)((?: +\w+)*)")


class NotationError(ValueError):
    """A line that is not in the notation."""


@dataclass
class FieldLine:
    """A field of a class, as written."""

    wire: str
    name: str
    type: str
    required: bool
    role: str
    secret: bool


@dataclass
class ClassBlock:
    """A class, as written: its own fields only."""

    name: str
    parent: str
    status: str
    fields: list[FieldLine] = field(default_factory=list)


def snake_case(name: str) -> str:
    """A capital starts a word unless a capital stands before it."""
    return re.sub(r"(?<=[^A-Z_])(?=[A-Z])", "_", name).lower()


Block = tuple[int, str, list[tuple[int, str]]]
"""Number and text of a line that is not indented, and of the indented lines behind it."""


def blocks(text: str) -> Iterator[Block]:
    """The lines of a page without comments, grouped."""
    block: Block | None = None
    for number, raw in enumerate(text.splitlines(), 1):
        line = re.sub(r"(^|  )#.*", "", raw).rstrip()
        if not line:
            continue
        if line[0] != " ":
            if block is not None:
                yield block
            block = (number, line, [])
        elif block is None:
            raise NotationError(f"line {number}: indented, and nothing before it")
        else:
            block[2].append((number, line.strip()))
    if block is not None:
        yield block


def _match(pattern: re.Pattern[str], line: str, number: int) -> re.Match[str]:
    found = pattern.fullmatch(line)
    if found is None:
        raise NotationError(f"line {number}: cannot be read: {line}")
    return found


# ---- requests.txt


def parse_requests(text: str) -> list[dict[str, Any]]:
    """Every request code in the order of the page."""
    return [_request(*block) for block in blocks(text)]


def _request(number: int, head: str, lines: list[tuple[int, str]]) -> dict[str, Any]:
    found = _match(_REQUEST, head, number)
    request: dict[str, Any] = {"code": int(found[1]), "name": found[2], "status": found[3] or "current"}
    request["who"] = found[4].split()
    for at, line in lines:
        key, _, rest = line.partition(" ")
        rest = rest.strip()
        if key in request:
            raise NotationError(f"line {at}: {key} stands twice")
        match key:
            case "request" | "response":
                request[key] = _frame(rest, at)
            case "records" if rest in ("produced", "consumer", "other"):
                request[key] = rest
            case "waits" | "codes":
                request[key] = rest
            case _:
                raise NotationError(f"line {at}: no such thing: {line}")
    return request


def _frame(text: str, number: int) -> dict[str, Any]:
    """``Header``, ``Header?``, ``Header + body`` or ``+ body``."""
    header, _, body = (part.strip() for part in text.partition("+"))
    frame: dict[str, Any] = {}
    if header:
        frame["header"] = header.removesuffix("?")
        if header.endswith("?"):
            frame["optional"] = True
    if body:
        if body[0].islower() and body not in BODY_KINDS:
            raise NotationError(f"line {number}: no such body: {body}")
        frame["body"] = body
    return frame


# ---- responses.txt, names.txt, versions.txt


def parse_responses(text: str) -> dict[str, dict[str, str]]:
    """Group ('' for the first) -> code -> name."""
    groups: dict[str, dict[str, str]] = {"": {}}
    group = ""
    for number, line, _ in blocks(text):
        key, _, name = line.partition(" ")
        if key == "group":
            group = name
            groups[group] = {}
            continue
        if not re.fullmatch(r"-?\d+", key) or key in groups[group]:
            raise NotationError(f"line {number}: no code, or one that stands twice: {line}")
        groups[group][key] = name
    return groups


def parse_names(text: str) -> dict[str, dict[str, str]]:
    """Table -> what stands before the first space -> what stands behind it."""
    tables: dict[str, dict[str, str]] = {}
    for number, head, lines in blocks(text):
        word, _, name = head.partition(" ")
        if word != "table" or name in tables:
            raise NotationError(f"line {number}: no table, or one that stands twice: {head}")
        tables[name] = dict(line.split(" ", 1) for _, line in lines)  # type: ignore[misc]
    return tables


def parse_versions(text: str) -> list[str]:
    """Names in order."""
    return [line for _, line, _ in blocks(text)]


# ---- headers.txt, bodies.txt


def parse_classes(text: str) -> tuple[dict[str, ClassBlock], dict[str, list[str]]]:
    """(class by name, values of enums by name)."""
    classes: dict[str, ClassBlock] = {}
    enums: dict[str, list[str]] = {}
    for number, head, lines in blocks(text):
        if head.startswith("enum "):
            enums[head.removeprefix("enum ")] = [value for _, line in lines for value in line.split()]
            continue
        found = _match(_CLASS, head, number)
        if found[1] in classes:
            raise NotationError(f"line {number}: {found[1]} stands twice")
        block = ClassBlock(found[1], found[2] or "", found[3] or "current")
        block.fields = [_field(line, number) for number, line in lines]
        classes[block.name] = block
    return classes, enums


def _field(line: str, number: int) -> FieldLine:
    found = _match(_FIELD, line, number)
    words = found[5].split()
    roles = [word for word in words if word in ROLES]
    if len(roles) > 1 or set(words) - ROLES - {"secret"}:
        raise NotationError(f"line {number}: no such role: {found[5].strip()}")
    name = found[2] or snake_case(found[1])
    return FieldLine(found[1], name, found[3], bool(found[4]), roles[0] if roles else "", "secret" in words)


def parse_type(text: str) -> Any:
    """A Java type of a body field: a name, ``["list", type]`` or ``["map", key type, type]``."""
    text = text.strip()
    if text.endswith("[]"):
        return ["list", parse_type(text[:-2])]
    outer, _, inner = text.partition("<")
    if not inner:
        return ["map", "String", "String"] if text == "Properties" else text
    parts = _split(inner.removesuffix(">"))
    match outer, len(parts):
        case (("List" | "Set"), 1):
            return ["list", parse_type(parts[0])]
        case "Map", 2:
            return ["map", parse_type(parts[0]), parse_type(parts[1])]
    raise NotationError(f"no such type: {text}")


def _split(text: str) -> list[str]:
    """Split at commas that stand in no angle brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter == "<") - (letter == ">")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts
