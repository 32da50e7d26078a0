"""Specifications of generated binary protocols as plain data in, the layout of one version out.

1. A specification is plain data (text, numbers, lists, dicts), so that it can be kept in files, built and compared.
2. ``resolve`` makes the layout of one version: what stands on the wire, in order, without any "if the version is".
3. A layout knows nothing of bytes in hand: ``interpret.py`` and ``compile.py`` read by it.

The type system is that of Apache Kafka's message generator (KIP-482 for flexible versions and tagged fields).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, TypeAlias, cast

NEWEST: Final = 0x7FFF
"""The last version that an open range ("3+") holds: versions are int16."""

Type: TypeAlias = Literal[
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint16",
    "uint32",
    "float64",
    "uuid",
    "string",
    "bytes",
    "records",
    "struct",
]
"""``records`` are bytes that a decoder leaves where they are."""

FIXED: Final[Mapping[str, tuple[str, int]]] = {
    "bool": ("?", 1),
    "int8": ("b", 1),
    "int16": ("h", 2),
    "int32": ("i", 4),
    "int64": ("q", 8),
    "uint16": ("H", 2),
    "uint32": ("I", 4),
    "float64": ("d", 8),
    "uuid": ("16s", 16),
}
"""Types of fixed width: their letter in ``struct`` and their size in bytes."""

INTEGERS: Final = frozenset({"int8", "int16", "int32", "int64", "uint16", "uint32"})

UNKNOWN_TAGS: Final = "unknown_tags"
"""Where a body keeps tagged fields that its layout does not know: tag (as text) -> bytes."""


# ---- specification: all versions


class Versions(NamedTuple):
    """A range of versions, both ends inside; empty where ``last`` is below ``first``."""

    first: int
    last: int

    def holds(self, version: int) -> bool:
        """Tell whether the version lies inside."""
        return self.first <= version <= self.last

    @classmethod
    def parse(cls, text: str) -> Versions:
        """Read "3", "0-12", "3+" or "none"; ValueError for anything else."""
        if text == "none":
            return NEVER
        if text.endswith("+"):
            return cls(int(text[:-1]), NEWEST)
        first, dash, last = text.partition("-")
        return cls(int(first), int(last if dash else first))

    def __str__(self) -> str:
        if self.last < self.first:
            return "none"
        if self.last == NEWEST:
            return f"{self.first}+"
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"


NEVER: Final = Versions(0, -1)


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """A field in all versions."""

    name: str
    type: Type
    array: bool
    versions: Versions
    nullable: Versions
    tag: int | None
    tagged: Versions
    """Versions in which the field stands in the tagged block rather than in line."""
    flexible: bool
    """False for a field that keeps the old encoding in flexible versions too."""
    mark: str
    """What the values mean: an entity or an enum of the protocol, or "" where they stand for themselves."""
    secret: bool
    fields: tuple[FieldSpec, ...]

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> FieldSpec:
        """Read plain data: these names, versions as text; all but ``name`` and ``type`` may be left out."""
        return cls(
            name=plain["name"],
            type=cast("Type", plain["type"]),
            array=plain.get("array", False),
            versions=Versions.parse(plain.get("versions", "0+")),
            nullable=Versions.parse(plain.get("nullable", "none")),
            tag=plain.get("tag"),
            tagged=Versions.parse(plain.get("tagged", "none")),
            flexible=plain.get("flexible", True),
            mark=plain.get("mark", ""),
            secret=plain.get("secret", False),
            fields=tuple(cls.from_plain(inner) for inner in plain.get("fields", ())),
        )


@dataclass(frozen=True, slots=True)
class MessageSpec:
    """A message in all versions of one definition."""

    name: str
    versions: Versions
    flexible: Versions
    fields: tuple[FieldSpec, ...]

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> MessageSpec:
        """Read plain data: these names, versions as text; ``flexible`` may be left out."""
        return cls(
            plain["name"],
            Versions.parse(plain["versions"]),
            Versions.parse(plain.get("flexible", "none")),
            tuple(FieldSpec.from_plain(inner) for inner in plain["fields"]),
        )


# ---- layout: one version


class FieldLayout(NamedTuple):
    """A field of one version."""

    name: str
    type: Type
    array: bool
    nullable: bool
    compact: bool
    """Lengths and counts are unsigned varints of n + 1."""
    tag: int | None
    mark: str
    secret: bool
    struct: Struct | None


class Struct(NamedTuple):
    """What stands on the wire in one version: fields in line, then, in flexible versions, the block of tagged ones."""

    items: tuple[FieldLayout, ...]
    tagged: tuple[FieldLayout, ...]
    flexible: bool


def resolve(spec: MessageSpec, version: int) -> Struct:
    """Give the layout of one version; ValueError for a version outside of the definition's."""
    if not spec.versions.holds(version):
        raise ValueError(f"{spec.name} has no version {version}")
    return _struct(spec.fields, version, flexible=spec.flexible.holds(version))


def _struct(fields: tuple[FieldSpec, ...], version: int, *, flexible: bool) -> Struct:
    items = [_item(spec, version, flexible=flexible) for spec in fields if spec.versions.holds(version)]
    in_line = tuple(item for item in items if item.tag is None)
    tagged = tuple(sorted((item for item in items if item.tag is not None), key=lambda item: item.tag or 0))
    return Struct(in_line, tagged, flexible)


def _item(spec: FieldSpec, version: int, *, flexible: bool) -> FieldLayout:
    return FieldLayout(
        spec.name,
        spec.type,
        spec.array,
        spec.nullable.holds(version),
        flexible and spec.flexible,
        spec.tag if flexible and spec.tagged.holds(version) else None,
        spec.mark,
        spec.secret,
        _struct(spec.fields, version, flexible=flexible) if spec.type == "struct" else None,
    )
