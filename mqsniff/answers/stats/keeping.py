"""Tallies by key, of which a limited number is kept; the rest is counted together."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Any, Final, Generic, TypeAlias, TypeVar

StatRow: TypeAlias = dict[str, Any]
"""A row of an answer: plain values by column; times and durations are integers, in nanoseconds."""

CellKey: TypeAlias = tuple[str, str, int | None, str, str | None]
"""What messages are added up by: (protocol, name, version, kind, topic where they are counted by topic)."""

OTHERS: Final = "(others)"
"""The name of what was counted together."""

KeyT = TypeVar("KeyT", bound=Hashable)
TallyT = TypeVar("TallyT")


class KeptTallies(Generic[KeyT, TallyT]):
    """A tally for each key, as long as there is room; then one for all others."""

    def __init__(self, limit: int, make: Callable[[], TallyT]) -> None:
        self.kept: dict[KeyT, TallyT] = {}
        self.others: TallyT | None = None
        self._limit = limit
        self._make = make

    def of(self, key: KeyT) -> TallyT:
        """The tally to count something of this key in."""
        found = self.kept.get(key)
        if found is None:
            found = self._new(key)
        return found

    def _new(self, key: KeyT) -> TallyT:
        if len(self.kept) < self._limit:
            found = self.kept[key] = self._make()
            return found
        if self.others is None:
            self.others = self._make()
        return self.others

    def __iter__(self) -> Iterator[tuple[KeyT | None, TallyT]]:
        """(key, tally) of all; the key of those that were counted together is None."""
        yield from self.kept.items()
        if self.others is not None:
            yield None, self.others

    def __len__(self) -> int:
        return len(self.kept)


def counted(counts: dict[str, int]) -> dict[str, int]:
    """Counts by name, the most frequent first, then by name."""
    return dict(sorted(counts.items(), key=lambda one: (-one[1], one[0])))


def add_all(counts: dict[str, int], more: dict[str, int]) -> None:
    """Add counts to counts, in place."""
    for name, number in more.items():
        counts[name] = counts.get(name, 0) + number
