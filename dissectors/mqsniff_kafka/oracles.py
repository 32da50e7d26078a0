"""Oracles of layouts: encoders of other projects whose bytes our decoder was tested with.

1. An oracle covers today's meaning of a version only: "Kafka 2.8.2" means the message classes of that release.
2. A layout without an oracle has a reason in the file.

``tests/kafka_oracle_table.py`` writes ``proto/kafka_oracles.json``; tests compare it with the oracles.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeAlias

from mqsniff_kafka import specs

LayoutPlace: TypeAlias = tuple[int, str, int]
"""API key, request or response, version."""

TABLE: Final = Path(__file__).resolve().parents[2] / "proto" / "kafka_oracles.json"
"""Only in a checkout: it is no part of the package."""
SELF: Final = "self"
"""A layout that only our own encoder has written."""


@cache
def vouchers() -> Mapping[str, frozenset[LayoutPlace]]:
    """Oracle -> the layouts that it covers; Kafka's own classes first."""
    return {oracle: frozenset(_places(table)) for oracle, table in _file()["oracles"].items()}


@cache
def reasons() -> Mapping[LayoutPlace, str]:
    """Layouts that have no oracle -> why there is none."""
    return {place: reason for reason, table in _file()[SELF].items() for place in _places(table)}


@cache
def _file() -> dict[str, Any]:
    if not TABLE.is_file():
        return {"oracles": {}, SELF: {}}
    file: dict[str, Any] = json.loads(TABLE.read_text())
    return file


def _places(table: Mapping[str, Mapping[str, str]]) -> Iterator[LayoutPlace]:
    """The layouts of a table: request or response -> API -> versions."""
    keys = {api.name: key for key, api in specs.apis().items()}
    for kind, apis in table.items():
        for name, ranges in apis.items():
            yield from ((keys[name], kind, version) for version in _versions(ranges))


def _versions(text: str) -> list[int]:
    parts = (part.partition("-") for part in text.split(","))
    return [version for first, dash, last in parts for version in range(int(first), int(last if dash else first) + 1)]


def oracles_of(key: int, kind: specs.DefinitionKind, version: int) -> tuple[str, ...]:
    """The oracles of a layout; ``self`` if there is none."""
    return tuple(oracle for oracle, held in vouchers().items() if (key, kind, version) in held) or (SELF,)
