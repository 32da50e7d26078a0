"""Kafka's small tables: errors.txt, enums.txt and releases.txt <-> plain data.

1. ``errors.txt``: a line ``CODE NAME [retriable]``.
2. ``enums.txt``: a line ``enum NAME [bits OTHER]``, under it indented ``VALUE TEXT``. ``bits OTHER``: bit n of a value
   stands for value n of OTHER; values listed stand for themselves.
3. ``releases.txt``: a line with the release, under it indented ``API VERSIONS [unstable]`` for each API whose versions
   are not those of the release before, ``API none`` for one that is gone. ``unstable``: the newest version is hidden
   unless the broker is told to show it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

Ranges = dict[int, list[Any]]
"""API key -> [first version, last version] or [first, last, "unstable"]."""


def _lines(text: str) -> Iterator[tuple[bool, list[str]]]:
    """Each line of content: whether it is indented, and its words."""
    for line in text.splitlines():
        words = line.partition("#")[0].split()
        if words:
            yield line[0].isspace(), words


def parse_errors(text: str) -> dict[str, dict[str, Any]]:
    """Code (as text) -> {"name", "retriable"}."""
    return {code: {"name": name, "retriable": rest == ["retriable"]} for _, (code, name, *rest) in _lines(text)}


def parse_enums(text: str) -> dict[str, dict[str, Any]]:
    """Name -> {"values": {value as text: text}, "bits": other enum where values are bit fields}."""
    enums: dict[str, dict[str, Any]] = {}
    values: dict[str, str] = {}
    for indented, words in _lines(text):
        if indented:
            values[str(int(words[0]))] = " ".join(words[1:])
            continue
        values = {}
        enums[words[1]] = {"values": values} | ({"bits": words[3]} if words[2:3] == ["bits"] else {})
    return enums


def parse_releases(text: str, keys: Mapping[str, int]) -> dict[str, Ranges]:
    """Release -> ranges of all its APIs; ``keys`` maps API names to keys."""
    releases: dict[str, Ranges] = {}
    current: Ranges = {}
    for indented, words in _lines(text):
        if not indented:
            current = dict(current)
            releases[words[0]] = current
        elif words[1] == "none":
            del current[keys[words[0]]]
        else:
            first, _, last = words[1].partition("-")
            current[keys[words[0]]] = [int(first), int(last or first), *words[2:]]
    return {release: dict(sorted(ranges.items())) for release, ranges in releases.items()}


def print_releases(releases: Mapping[str, Ranges], names: Mapping[int, str], comment: list[str]) -> str:
    """The text of ``parse_releases``; ``names`` maps keys to API names."""
    lines = [f"# {line}".rstrip() for line in comment]
    width = max(map(len, names.values()))
    before: Ranges = {}
    for release, ranges in releases.items():
        lines += ["", release]
        for key in sorted({*before, *ranges}):
            now = ranges.get(key)
            if now == before.get(key):
                continue
            text = "none" if now is None else f"{now[0]}-{now[1]}" if now[0] != now[1] else f"{now[0]}"
            unstable = "  unstable" if now and "unstable" in now else ""
            lines.append(f"  {names[key].ljust(width)}  {text}{unstable}")
        before = ranges
    return "\n".join(lines) + "\n"
