"""Changes inputs by chance: without atheris, and in every test run. The same number gives the same inputs."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence

from .judging import Finding, Target, judge
from .mutation import mutated


def changed(target: Target, seeds: Sequence[bytes], number: int) -> Iterator[bytes]:
    """Inputs without end: seeds, each with a few changes."""
    chance = random.Random(f"{target.name} {number}")
    while True:
        yield mutated(chance.choice(seeds), target.size_max, chance, seeds)


def findings(
    target: Target, seeds: Sequence[bytes], *, number: int = 0, runs: int | None = None, seconds: float | None = None
) -> Iterator[tuple[bytes, Finding | None]]:
    """What so many inputs, or so many seconds of them, give."""
    began = time.monotonic()
    for count, data in enumerate(changed(target, seeds, number)):
        if count == runs or (seconds is not None and time.monotonic() - began > seconds):
            return
        yield data, judge(target, data)
