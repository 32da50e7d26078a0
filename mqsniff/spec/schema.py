"""Specifications of generated binary protocols as plain data, and the layout of one version.

1. A specification is plain data (text, numbers, lists, dicts), so that it can be stored, built and compared.
2. ``resolve`` makes the layout of one version: the fields on the wire, in order, without conditions on the version.
3. ``interpret.py`` and ``compile.py`` decode bytes by a layout.

The type system is that of Apache Kafka's message generator (KIP-482 for flexible versions and tagged fields).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, TypeAlias, cast

NEWEST: Final = 0x7FFF
"""Last version of an open range ("3+"): versions are int16."""

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
"""Types of fields; ``records`` are bytes that a decoder does not copy."""

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
"""Type of fixed width -> (letter in ``struct``, bytes)."""

INTEGERS: Final = frozenset({"int8", "int16", "int32", "int64", "uint16", "uint32"})

UNKNOWN_TAGS: Final = "unknown_tags"
"""Name in bodies of unknown tagged fields: tag (as text) -> bytes."""


# ---- specification: all versions


class Versions(NamedTuple):
    """A range of versions with both ends; empty if ``last`` is below ``first``."""

    first: int
    last: int

    def holds(self, version: int) -> bool:
        """Whether the range contains a version."""
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
    """Versions in which the field is in the tagged block."""
    flexible: bool
    """False for a field with the old encoding in flexible versions too."""
    mark: str
    """Meaning of the values: an entity or an enum of the protocol, or ""."""
    secret: bool
    fields: tuple[FieldSpec, ...]

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> FieldSpec:
        """From plain data with these names, versions as text; all but ``name`` and ``type`` are optional."""
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
        """From plain data with these names, versions as text; ``flexible`` is optional."""
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
    """Whether lengths and counts are unsigned varints of n + 1."""
    tag: int | None
    mark: str
    secret: bool
    struct: Struct | None


class Struct(NamedTuple):
    """A struct in one version: fields in order, then, in flexible versions, the tagged block."""

    items: tuple[FieldLayout, ...]
    tagged: tuple[FieldLayout, ...]
    flexible: bool


def resolve(spec: MessageSpec, version: int) -> Struct:
    """The layout of one version; ValueError for a version that the definition does not have."""
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
