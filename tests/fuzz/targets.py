"""All targets by name."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from . import target_codecs, target_dissectors, target_packets, target_probes, target_rows, target_texts, target_tls
from .judging import Target


@cache
def targets() -> dict[str, Target]:
    """Name -> target."""
    return {target.name: target for target in _all()}


def _all() -> Iterator[Target]:
    for module in (
        target_packets,
        target_probes,
        target_dissectors,
        target_rows,
        target_codecs,
        target_tls,
        target_texts,
    ):
        yield from module.targets()


def target_of(name: str) -> Target:
    """A target; KeyError for a name that none has."""
    return targets()[name]
