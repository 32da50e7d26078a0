"""A directory of Kafka's message definitions in, our pages in ``proto/kafka/`` brought up to date.

    python proto/kafka_import.py DIR --release 4.6

DIR is searched for ``*.json``: a checkout of Apache Kafka will do. What changed, and what a person should look at, is
printed. The rules:

1. For the versions that the new definition holds, it is right, names included.
2. Versions that it no longer holds stay: fields that only they had are grafted into the definition. Where that cannot
   be done so that every old version reads as before, the old definition stays beside the new one.
3. Where a version number now means other bytes, the old meaning stays as a ``variant`` of the releases before.
4. Marks and comments written by hand stay with the field of the same path.
5. Field names become snake_case: a capital starts a word unless a capital stands before it.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from kafka_merge import held, inside, merge, spelled, walk
from kafka_notation import Block, Field, Page, parse_page, print_page
from kafka_tables import parse_releases, print_releases

HERE: Final = Path(__file__).parent / "kafka"
KINDS: Final = {"coordinator-key": "key", "coordinator-value": "value"}
"""Kafka's names of kinds -> ours, where they differ."""

FAMILIES: Final = {
    "group-coordinator": "consumer_offsets",
    "transaction-coordinator": "transaction_state",
    "share-coordinator": "share_group_state",
    "metadata": "cluster_metadata",
    "storage": "remote_log_metadata",
}
"""Kafka's module -> the page that its records stand in."""

AUTOMATIC_MARKS: Final = {"error_code": "error"}
"""Names whose meaning is the same everywhere."""

# ---- definitions


def snake_case(name: str) -> str:
    """Kafka's generator's rule: a capital starts a word unless a capital stands before it."""
    return re.sub(r"(?<=[^A-Z])(?=[A-Z])", "_", name).lower()


def strip_comments(text: str) -> str:
    """JSON with ``//`` and ``/* */`` comments -> JSON; what looks like a comment inside a string stays."""
    pattern = r'"(?:\\.|[^"\\])*"|//[^\n]*|/\*.*?\*/'
    return re.sub(pattern, lambda found: found[0] if found[0].startswith('"') else " ", text, flags=re.DOTALL)


def read_definition(path: Path) -> dict[str, Any] | None:
    """A message definition, None for a file that holds something else. Text behind the object is ignored."""
    try:
        found, _ = json.JSONDecoder().raw_decode(strip_comments(path.read_text(encoding="utf-8")).lstrip())
    except ValueError:
        return None
    is_message = isinstance(found, dict) and "validVersions" in found and "type" in found
    return found if is_message else None


def block_of(definition: dict[str, Any], versions: str | None = None) -> Block:
    """A definition as a block, cut down to what its ``versions`` need."""
    valid = versions or definition["validVersions"]
    whole = inside(valid, range(256))
    return Block(
        KINDS.get(definition["type"], definition["type"]),
        definition.get("apiKey"),
        definition["name"],
        valid,
        flexible=definition.get("flexibleVersions", "none"),
        unstable=str(definition.get("latestVersionUnstable", False)).lower() == "true",
        fields=_fields_of(definition.get("fields", ()), whole),
        structs={one["name"]: _fields_of(one["fields"], whole) for one in definition.get("commonStructs", ())},
    )


def _fields_of(definitions: Iterable[dict[str, Any]], whole: set[int]) -> list[Field]:
    """Fields that some version of ``whole``, the parent's versions, has."""
    found = []
    for one in definitions:
        part = inside(one.get("versions", one.get("taggedVersions", "0+")), whole)
        if part:
            found.append(_field_of(one, part, whole))
    return found


def _field_of(one: dict[str, Any], part: set[int], whole: set[int]) -> Field:
    name = snake_case(one["name"])
    nullable = inside(one.get("nullableVersions", "none"), part)
    tagged = inside(one.get("taggedVersions", "none"), part)
    text = _default_text(one.get("default", ""))
    entity = [snake_case(one["entityType"])] if "entityType" in one else []
    automatic = [AUTOMATIC_MARKS[name]] if name in AUTOMATIC_MARKS else []
    return Field(
        name,
        one["type"].removeprefix("[]"),
        array=one["type"].startswith("[]"),
        versions=spelled(part, whole),
        nullable=spelled(nullable, part) if nullable else None,
        tag=int(one["tag"]) if tagged else None,
        tagged=spelled(tagged, part) if tagged else "",
        default=text if text not in ("", "0", "false") else None,
        marks=automatic or entity,
        old_encoding=one.get("flexibleVersions") == "none",
        fields=_fields_of(one.get("fields", ()), part),
    )


def _default_text(default: object) -> str:
    """A default as text: Kafka's definitions have text, numbers, booleans and null."""
    if default is None:
        return "null"
    return str(default).lower() if isinstance(default, bool) else str(default)


# ---- pages


class Book:
    """All pages of a directory, by path."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.pages = {
            path: parse_page(path.read_text(encoding="utf-8"), path.name) for path in sorted(home.rglob("*.kafka"))
        }
        self.names_before = {page.name: page.key for page in self.pages.values() if page.key is not None}

    def api_page(self, key: int, name: str) -> Page:
        """The page of an API, a new one where there is none."""
        for page in self.pages.values():
            if page.key == key:
                return page
        page = Page([], key=key, name=name)
        self.pages[self.home / "apis" / f"{snake_case(name)}.kafka"] = page
        return page

    def record_page(self, kind: str, name: str, module: str) -> Page:
        """The page on which a record stands, or should."""
        for page in self.pages.values():
            if any(block.kind == kind and block.name == name for block in page.blocks):
                return page
        path = self.home / "records" / f"{FAMILIES.get(module, snake_case(name))}.kafka"
        return self.pages.setdefault(path, Page([]))

    def take(self, definition: dict[str, Any], module: str, releases_before: str) -> list[str]:
        """Put a definition in its place; gives what is worth telling."""
        new = block_of(definition)
        if new.kind in ("request", "response"):
            page = self.api_page(int(new.key or 0), definition["name"].removesuffix(new.kind.capitalize()))
            page.name = definition["name"].removesuffix(new.kind.capitalize())
            page.listeners = definition.get("listeners", page.listeners)
            same = [one for one in page.blocks if one.kind == new.kind and not one.variant]
        else:
            page = self.record_page(new.kind, new.name, module)
            same = [one for one in page.blocks if (one.kind, one.name) == (new.kind, new.name) and not one.variant]
        old = next((one for one in same if one.legacy != one.versions), same[0] if same else None)
        if old is None and new.versions == "none":
            return []
        if old is None:
            page.blocks.append(new)
            page.blocks.sort(key=_order)
            return [f"{new.name}: new", *_worth_a_look(new, None)]
        merged = merge(new, old, releases_before)
        merged.main.name = new.name
        at = page.blocks.index(old)
        page.blocks[at : at + 1] = [merged.main]
        page.blocks += merged.beside
        page.blocks.sort(key=_order)
        return merged.notes + _worth_a_look(new, old)

    def write(self) -> None:
        """Write every page."""
        for path, page in self.pages.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(print_page(page), encoding="utf-8")


def _order(block: Block) -> tuple[bool, int, int]:
    """Today's definitions before variants; by key; request before response, key before value."""
    kinds = ("header", "request", "response", "data", "key", "value", "metadata")
    return bool(block.variant), block.key or 0, kinds.index(block.kind)


def _worth_a_look(new: Block, old: Block | None) -> list[str]:
    """Fields of bytes that nobody has marked yet: they may be secrets, or hold a format of their own."""
    before = {one.name for one in walk(old)} if old else set()
    fresh = [one.name for one in walk(new) if one.type in ("bytes", "records") and one.name not in before]
    return [f"{new.name}: {name} is bytes: a secret, or a format of its own?" for name in fresh]


def definitions_in(directory: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """(module, definition) of every message under a directory, those of Kafka's tests left out."""
    for path in sorted(directory.rglob("*.json")):
        parts = path.relative_to(directory).parts
        if "test" in parts:
            continue
        definition = read_definition(path)
        if definition is not None:
            yield next((part for part in parts if part in FAMILIES), "clients"), definition


def releases_with(home: Path, book: Book, release: str, ranges: dict[int, list[Any]]) -> str:
    """The text of releases.txt with a release added or replaced."""
    path = home / "releases.txt"
    text = path.read_text(encoding="utf-8")
    releases = parse_releases(text, book.names_before)
    releases[release] = dict(sorted(ranges.items()))
    comment = [line[1:].strip() for line in text.splitlines() if line.startswith("#")]
    names = {page.key: page.name for page in book.pages.values() if page.key is not None}
    return print_releases(releases, names, comment)


def take_in(directory: Path, home: Path, release: str) -> list[str]:
    """Bring the pages in ``home`` up to date with the definitions in ``directory``; gives what is worth telling."""
    book = Book(home)
    ranges: dict[int, list[Any]] = {}
    notes = []
    for module, definition in definitions_in(directory):
        notes += book.take(definition, module, releases_before=f"before-{release}")
        first, last = held(definition["validVersions"])
        if definition["type"] == "request" and first <= last:
            unstable = ["unstable"] if block_of(definition).unstable else []
            ranges[definition["apiKey"]] = [first, last, *unstable]
    if not ranges:
        return ["no message definitions found: nothing changed"]
    releases = releases_with(home, book, release, ranges)
    book.write()
    (home / "releases.txt").write_text(releases, encoding="utf-8")
    missing = [page.name for page in book.pages.values() if page.key is not None and page.key not in ranges]
    return notes + [f"{name}: not in this release; its page stays as it was" for name in missing]


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description="Bring proto/kafka/ up to date with a release of Apache Kafka.")
    parser.add_argument("directory", type=Path, help="where its message definitions (*.json) are")
    parser.add_argument("--release", required=True, help="the release, as in releases.txt: 4.6")
    arguments = parser.parse_args()
    for line in take_in(arguments.directory, HERE, arguments.release):
        print(line)
    print("Now run: python proto/build.py")
    return 0


if __name__ == "__main__":
    sys.exit(main())
