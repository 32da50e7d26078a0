"""Who vouches for a layout: encoders of other people, and captures of real brokers, by ``data/kafka_oracles.json``."""

from __future__ import annotations

import json
import pkgutil
from collections.abc import Mapping
from functools import cache
from typing import Final

from dissectors.kafka import specs

SELF: Final = "self"
"""A layout that only our own encoder has written."""


@cache
def vouchers() -> Mapping[str, frozenset[tuple[int, str, int]]]:
    """Oracle -> (API key, request or response, version) of the layouts that it was held against."""
    content = pkgutil.get_data("dissectors", "data/kafka_oracles.json")
    if content is None:
        raise FileNotFoundError("dissectors/data/kafka_oracles.json")
    keys = {api.name: key for key, api in specs.apis().items()}
    return {
        oracle: frozenset(
            (keys[name], kind, version)
            for kind, apis in kinds.items()
            for name, ranges in apis.items()
            for version in _versions(ranges)
        )
        for oracle, kinds in json.loads(content).items()
    }


def _versions(text: str) -> list[int]:
    parts = (part.partition("-") for part in text.split(","))
    return [version for first, dash, last in parts for version in range(int(first), int(last if dash else first) + 1)]


def oracles_of(key: int, kind: specs.Kind, version: int) -> tuple[str, ...]:
    """The oracles of a layout; ``self`` where there is none."""
    return tuple(oracle for oracle, held in vouchers().items() if (key, kind, version) in held) or (SELF,)
