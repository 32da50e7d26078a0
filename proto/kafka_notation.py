"""Kafka's schema pages: text in our notation <-> pages of message definitions; the notation is told in kafka/README.md.

1. ``parse_page(print_page(page)) == page``, and ``print_page(parse_page(text)) == text`` for every page that we keep.
2. What is left out means the usual: a field without versions stands wherever its parent does, a field without a tag
   stands in line.
3. Whatever the notation does not know is an error with its line, never skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

INDENT: Final = "  "
PRIMITIVES: Final = frozenset(
    "bool int8 int16 int32 int64 uint16 uint32 float64 uuid string bytes records".split()  # noqa: SIM905  # reads better
)
KINDS: Final = ("header", "request", "response", "data", "key", "value", "metadata")

_VERSIONS: Final = re.compile(r"none|\d+(?:\+|-\d+)?")
_NAME: Final = re.compile(r"[a-z][a-z0-9_]*")
_TYPE: Final = re.compile(r"(?P<array>\[\])?(?P<name>\w+)(?P<null>\?(?P<nullable>\d+(?:\+|-\d+)?)?)?")
_BLOCK: Final = re.compile(rf"(?P<kind>{'|'.join(KINDS)})(?:(?: (?P<key>\d+))? (?P<name>[A-Z]\w*))? (?P<rest>.*)")


class NotationError(ValueError):
    """A line that is not in the notation."""


@dataclass
class Field:
    """A field, or with ``type`` "struct:Name" and no fields, a use of a struct that stands elsewhere in the message."""

    name: str
    type: str
    """A primitive, or the name of a struct (a capital first)."""
    array: bool = False
    versions: str = ""
    """Empty: wherever the parent is."""
    nullable: str | None = None
    """None: never. Empty: wherever the field is."""
    tag: int | None = None
    tagged: str = ""
    """Versions in which the tag holds; empty: wherever the field is."""
    default: str | None = None
    marks: list[str] = field(default_factory=list)
    old_encoding: bool = False
    comment: str = ""
    fields: list[Field] = field(default_factory=list)


@dataclass
class Block:
    """One definition of a message: the versions that it holds for, and its fields."""

    kind: str
    key: int | None
    name: str
    versions: str
    flexible: str = "none"
    legacy: str = "none"
    """Those versions that the newest release no longer has."""
    variant: str = ""
    """The releases ("3.5-3.6") in which these versions meant this; empty for the meaning that stayed."""
    unstable: bool = False
    """The newest version was not released as stable."""
    fields: list[Field] = field(default_factory=list)
    structs: dict[str, list[Field]] = field(default_factory=dict)
    """Structs that several fields use."""
    comment: list[str] = field(default_factory=list)


@dataclass
class Page:
    """One file. Of an API: its key, name and listeners, its request and its response."""

    blocks: list[Block]
    comment: list[str] = field(default_factory=list)
    key: int | None = None
    name: str = ""
    listeners: list[str] = field(default_factory=list)


# ---- text -> page


def parse_page(text: str, place: str = "page") -> Page:
    """Read a page; NotationError names ``place`` and the line."""
    lines = _Lines(text, place)
    page = Page([])
    page.comment = lines.comments()
    if lines.peek().startswith("api "):
        _parse_api(lines, page)
    while lines.peek():
        page.blocks.append(_parse_block(lines, page))
    return page


class _Lines:
    """Lines with content, one after the other; blank ones are passed over."""

    def __init__(self, text: str, place: str) -> None:
        self.place = place
        self.numbered = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
        self.at = 0

    def peek(self) -> str:
        return self.numbered[self.at][1] if self.at < len(self.numbered) else ""

    def depth(self) -> int:
        line = self.peek()
        return (len(line) - len(line.lstrip())) // len(INDENT) if line else -1

    def take(self) -> str:
        line = self.peek()
        self.at += 1
        return line.strip()

    def comments(self) -> list[str]:
        found = []
        while self.peek().startswith("#"):
            found.append(self.take()[1:].strip())
        return found

    def error(self, why: str) -> NotationError:
        number, line = self.numbered[self.at - 1]
        return NotationError(f"{self.place}:{number}: {why}: {line.strip()}")


def _parse_api(lines: _Lines, page: Page) -> None:
    _, key, name, *rest = lines.take().split()
    page.key, page.name = int(key), name
    if rest:
        if rest[0] != "listeners":
            raise lines.error("expected listeners")
        page.listeners = rest[1:]


def _parse_block(lines: _Lines, page: Page) -> Block:
    comment = lines.comments()
    found = _BLOCK.fullmatch(re.sub(" +", " ", lines.take()))
    if not found:
        raise lines.error("expected a definition")
    kind = found["kind"]
    versions, *words = found["rest"].split()
    if not _VERSIONS.fullmatch(versions):
        raise lines.error("expected versions")
    name = found["name"] or f"{page.name}{kind.capitalize()}"
    block = Block(kind, int(found["key"]) if found["key"] else page.key, name, versions, comment=comment)
    queue = iter(words)
    for word in queue:
        if word in ("flexible", "legacy", "variant"):
            setattr(block, word, next(queue, ""))
        elif word == "unstable":
            block.unstable = True
        else:
            raise lines.error(f"unknown word {word}")
    while lines.depth() == 1:
        if lines.peek().split()[0] == "struct":
            _, struct = lines.take().split()
            block.structs[struct] = list(_parse_fields(lines, 2))
        else:
            block.fields += _parse_fields(lines, 1, one=True)
    return block


def _parse_fields(lines: _Lines, depth: int, *, one: bool = False) -> Iterator[Field]:
    while lines.depth() == depth:
        found = _parse_field(lines)
        found.fields = list(_parse_fields(lines, depth + 1))
        if found.fields and found.type in PRIMITIVES:
            raise lines.error("only a struct has fields")
        yield found
        if one:
            return
    if lines.depth() > depth:
        lines.take()
        raise lines.error("indented too far")


def _parse_field(lines: _Lines) -> Field:
    text, _, comment = lines.take().partition("#")
    name, kind, *words = text.split()
    shape = _TYPE.fullmatch(kind)
    if not _NAME.fullmatch(name) or not shape or not (shape["name"] in PRIMITIVES or shape["name"][0].isupper()):
        raise lines.error("expected a field")
    found = Field(name, shape["name"], bool(shape["array"]), comment=comment.strip())
    if shape["null"]:
        found.nullable = shape["nullable"] or ""
    queue = iter(words)
    for word in queue:
        if _VERSIONS.fullmatch(word):
            found.versions = word
        elif word == "tag":
            tag, _, found.tagged = next(queue, "").partition(":")
            found.tag = int(tag)
        elif word == "=":
            found.default = next(queue, "")
        elif word.startswith("@"):
            found.marks.append(word[1:])
        elif word == "old-encoding":
            found.old_encoding = True
        else:
            raise lines.error(f"unknown word {word}")
    return found


# ---- page -> text


def print_page(page: Page) -> str:
    """Write a page."""
    lines = [f"# {line}".rstrip() for line in page.comment]
    if page.key is not None:
        lines.append(
            " ".join([f"api {page.key} {page.name}", *(["listeners", *page.listeners] if page.listeners else [])])
        )
    for block in page.blocks:
        lines += ["", *_print_block(block, page)]
    return "\n".join(lines).strip("\n") + "\n"


def _print_block(block: Block, page: Page) -> Iterator[str]:
    yield from (f"# {line}".rstrip() for line in block.comment)
    head = [block.kind]
    if block.key != page.key:
        head.append(str(block.key))
    if block.name != f"{page.name}{block.kind.capitalize()}":
        head.append(block.name)
    head.append(block.versions)
    for word in ("flexible", "legacy", "variant"):
        value = getattr(block, word)
        if value not in ("none", ""):
            head.append(f" {word} {value}")
    if block.unstable:
        head.append(" unstable")
    yield " ".join(head)
    rows = list(_rows(block.fields, 1))
    for name, fields in block.structs.items():
        rows += [(INDENT + f"struct {name}", "", "", ""), *_rows(fields, 2)]
    yield from _columns(rows)


def _rows(fields: list[Field], depth: int) -> Iterator[tuple[str, str, str, str]]:
    """Each field as four columns: name, type, versions, the rest."""
    for one in fields:
        null = "" if one.nullable is None else f"?{one.nullable}"
        rest = []
        if one.tag is not None:
            rest.append(f"tag {one.tag}" + (f":{one.tagged}" if one.tagged else ""))
        if one.default is not None:
            rest.append(f"= {one.default}")
        rest += [f"@{mark}" for mark in one.marks]
        if one.old_encoding:
            rest.append("old-encoding")
        if one.comment:
            rest.append(f"# {one.comment}")
        yield INDENT * depth + one.name, ("[]" if one.array else "") + one.type + null, one.versions, "  ".join(rest)
        yield from _rows(one.fields, depth + 1)


def _columns(rows: list[tuple[str, str, str, str]]) -> Iterator[str]:
    """Rows with their columns under each other."""
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(3)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row[:3], widths, strict=True) if width]
        yield "  ".join([*cells, row[3]]).rstrip()


# ---- page -> plain data for the engine (mqsniff.spec.schema)


def plain_block(block: Block) -> dict[str, Any]:
    """A definition as plain data: structs put in at each place that uses them, what is usual left out."""
    known: dict[str, list[Field]] = dict(block.structs)
    for one in _all_fields([*block.fields, *(inner for fields in block.structs.values() for inner in fields)]):
        if one.fields:
            known.setdefault(one.type, one.fields)
    plain: dict[str, Any] = {"kind": block.kind, "name": block.name, "versions": block.versions}
    for word in ("flexible", "legacy", "variant", "unstable"):
        value = getattr(block, word)
        if value not in ("none", "", False):
            plain[word] = value
    plain["fields"] = [_plain_field(one, known) for one in block.fields]
    return plain


def _all_fields(fields: list[Field]) -> Iterator[Field]:
    for one in fields:
        yield one
        yield from _all_fields(one.fields)


def _plain_field(one: Field, known: dict[str, list[Field]]) -> dict[str, Any]:
    struct = one.type not in PRIMITIVES
    plain: dict[str, Any] = {"name": one.name, "type": "struct" if struct else one.type}
    if one.array:
        plain["array"] = True
    if one.versions:
        plain["versions"] = one.versions
    if one.nullable is not None:
        plain["nullable"] = one.nullable or "0+"
    if one.tag is not None:
        plain |= {"tag": one.tag, "tagged": one.tagged or "0+"}
    if one.old_encoding:
        plain["flexible"] = False
    marks = [mark for mark in one.marks if mark != "secret"]
    if marks:
        plain["mark"] = marks[0]
    if "secret" in one.marks:
        plain["secret"] = True
    if struct:
        fields = one.fields or known.get(one.type)
        if not fields:
            raise NotationError(f"{one.name}: no struct {one.type}")
        plain["fields"] = [_plain_field(inner, known) for inner in fields]
    return plain
