"""The vectors that Kafka's own classes made (vectors/README.md), and the layouts of ours that read them."""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from mqsniff.spec.compile import FALLBACK_ERRORS
from mqsniff.spec.layout import Layout
from mqsniff_kafka import specs

FOLDER = Path(__file__).parent / "vectors"
WHOLE = ("4.4.0", "3.9.2", "2.8.2", "1.1.1")
"""Releases of which every message is there; of the others only what these wrote in no such form."""


class Vector(NamedTuple):
    """A message that Kafka filled and wrote."""

    release: str
    name: str
    """Kafka's name of the message in this release."""
    key: int
    """Of the API, or of the kind of record; -1 where there is none."""
    version: int
    case: str
    """How it was filled: "most" with all that it can hold, "least" with nulls and nothing, or in between."""
    data: bytes
    value: dict[str, Any]
    """What was put in, under Kafka's names of this release."""
    unknown_tags: dict[str, bytes]
    """Tagged fields that no release knows, put into the message itself."""
    header: int | None
    """The version of the header that the release puts before it."""

    def __str__(self) -> str:
        return f"{self.name} v{self.version} ({self.case}) of Kafka {self.release}"

    @property
    def kind(self) -> specs.DefinitionKind | None:
        """None for what is neither a request nor a response."""
        kinds: tuple[specs.DefinitionKind, ...] = ("request", "response")
        return next((kind for kind in kinds if self.name.endswith(kind.capitalize())), None)


# ---- lines


def releases() -> list[str]:
    """Every release with vectors, those with every message first."""
    found = {path.name.removeprefix("messages-").removesuffix(".ndjson.xz") for path in FOLDER.glob("messages-*")}
    return [*WHOLE, *sorted(found.difference(WHOLE), reverse=True)]


@cache
def vectors(release: str) -> tuple[Vector, ...]:
    """The messages of a release."""
    return tuple(
        Vector(
            release,
            line["name"],
            line["key"],
            line["version"],
            line["case"],
            bytes.fromhex(line["bytes"]),
            line["value"],
            {tag: bytes.fromhex(raw) for tag, raw in line.get("unknown_tags", {}).items()},
            line.get("header"),
        )
        for line in lines(f"messages-{release}")
    )


def lines(name: str) -> Iterator[dict[str, Any]]:
    """The objects of a file."""
    with lzma.open(FOLDER / f"{name}.ndjson.xz", "rt", encoding="utf-8") as file:
        yield from map(json.loads, file)


# ---- layouts


def layouts_of(vector: Vector) -> tuple[Layout, ...]:
    """Our layouts of the message, today's first; none where we have none."""
    if vector.kind is not None:
        return specs.layouts(vector.key, vector.kind, vector.version)
    # Kafka 4.0 gave keys of records the record's type for a version; they have had one form only.
    return _named().get((vector.name, 0 if vector.name.endswith("Key") else vector.version), ())


def named(name: str, version: int, note: str = "") -> Layout:
    """The layout of a structure of records by its name, as some releases had it; today's where they had no other."""
    layouts = {layout.note: layout for layout in _named()[name, version]}
    return layouts.get(note) or layouts[""]


@cache
def _named() -> dict[tuple[str, int], tuple[Layout, ...]]:
    """Every layout of what is neither request nor response, by name and version."""
    index = specs._index()
    places = [
        (kind, line) for kinds in index["records"].values() for kind, table in kinds.items() for line in table.values()
    ]
    places += [(kind, line) for line in index["data"].values() for kind in specs._definitions(line)]
    found: dict[tuple[str, int], tuple[Layout, ...]] = {}
    for kind, line in dict.fromkeys(places):
        for layout in (layout for some in specs._by_version(line, kind).values() for layout in some):
            same = (layout.name, layout.version)
            found[same] = (*found.get(same, ()), layout)
    return found


def read(vector: Vector) -> tuple[Layout, dict[str, Any]]:
    """The first of our layouts that reads the message's bytes to the last one, compiled, and what it finds.

    AssertionError where none does.
    """
    for layout in layouts_of(vector):
        try:
            body, stop = layout.fast(vector.data, 0, len(vector.data), len(vector.data))
        except FALLBACK_ERRORS:
            continue
        if stop == len(vector.data):
            return layout, body
    raise AssertionError(f"{vector}: read by none of {layouts_of(vector)}")


@cache
def covered(release: str) -> frozenset[tuple[str, int, str]]:
    """(name, version, note) of the layouts that a release wrote with all that they can hold."""
    layouts = (read(vector)[0] for vector in vectors(release) if vector.case == "most")
    return frozenset((layout.name, layout.version, layout.note) for layout in layouts)


def vouched(release: str) -> set[tuple[int, str, int]]:
    """(API key, request or response, version) of which a release wrote today's meaning."""
    kinds: tuple[specs.DefinitionKind, ...] = ("request", "response")
    return {
        (key, kind, version)
        for key, api in specs.apis().items()
        for kind in kinds
        for version in range(api.versions.first, api.versions.last + 1)
        if (specs.layouts(key, kind, version)[0].name, version, "") in covered(release)
    }
