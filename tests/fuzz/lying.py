"""Every length field of every format made to lie, by construction: what the formats say in, cases to try out.

1. A case is a name, bytes in parts, and a function that tries bytes. Its lengths and counts are parts of their own.
2. Each lie is tried for itself: 0, one less, one more, the largest, a million more, -1, the least.
3. Nothing may raise; bytes are decoded or named; time and memory are judged as for fuzzing. A lie may not look like
   the truth: what comes out differs, or a problem says what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple

from lengths import Part, honest, lies

from .judging import Finding, Target, judge


class LengthCase(NamedTuple):
    """A message of a format."""

    name: str
    parts: list[Part]
    attempt: Callable[[bytes], Any]
    """Tries bytes; gives what came of them, to compare."""


class LieCount(NamedTuple):
    """What a run has tried."""

    messages: int
    lies: int


class Liar:
    """Tries cases, and collects findings."""

    def __init__(self, *, each: bool) -> None:
        """``each``: every lie of every length, not one of them."""
        self._each = each
        self.findings: list[tuple[str, bytes, Finding]] = []
        self.messages = self.lies = 0

    def run(self, cases: Iterable[LengthCase]) -> LieCount:
        """Try all cases; the counts are of this run."""
        before = LieCount(self.messages, self.lies)
        for case in cases:
            self._try(case)
        return LieCount(self.messages - before.messages, self.lies - before.lies)

    def _try(self, case: LengthCase) -> None:
        truth = case.attempt(honest(case.parts))
        told: list[Any] = []
        target = Target(case.name, "", lambda data: told.append(case.attempt(data)), lambda: (), ())
        for lie in lies(case.parts, each=self._each, shift=self.messages):
            finding = judge(target, lie.data)
            if finding is None and told[-1] == truth:
                finding = Finding("silent", case.name, "what came out is what the truth gives, without a problem")
            if finding is not None:
                self.findings.append((f"{case.name}: length {lie.index} {lie.name}", lie.data, finding))
            told.clear()
            self.lies += 1
        self.messages += 1


def sampled(cases: Iterable[LengthCase], step: int) -> Iterator[LengthCase]:
    """Each ``step``th case."""
    return islice(cases, 0, None, step)
