"""Items of a run in, those that the user asked for out: filters, then ``-n``, then ``--where``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from mqsniff.model import ClosedItem, Item, Message, MessageItem, OpenedItem

if TYPE_CHECKING:  # DuckDB and difflib are heavy
    from mqsniff.filters.counting import CountingFilter
    from mqsniff.filters.where import WhereFilter


class FilterChain:
    """The filters of a run in their order; without any, all items pass."""

    def __init__(self, chosen: CountingFilter | None, count: int | None, where: WhereFilter | None) -> None:
        self._chosen = chosen
        self._count = count
        self._where = where

    @property
    def drops(self) -> bool:
        """Whether an item may be dropped before the end of the run."""
        return self._chosen is not None or self._where is not None

    def of(
        self,
        items: Iterable[Item | None],
        learn: Callable[[Message], object] | None = None,
        observe: Callable[[Item], object] | None = None,
    ) -> Iterator[Item | None]:
        """The items that pass; None stays where it is.

        ``learn`` gets each message that teaches topic names, ``observe`` each item, whether they pass or not. Raises
        QueryError where the condition of ``--where`` fails on a row.
        """
        if self._count is not None:
            items = self._up_to(items, self._count)
        if learn is not None:
            items = _learning(items, learn)
        if observe is not None:
            items = _observed(items, observe)
        if self._chosen is not None:
            items = self._chosen.of(items)
        if self._where is not None:
            items = self._where.of(items)
        return iter(items)

    def _up_to(self, items: Iterable[Item | None], count: int) -> Iterator[Item | None]:
        """Items up to the last one that belongs to the ``count``-th message that the filters choose.

        First in the chain: the message that is read only to find the end is counted nowhere.
        """
        passed = 0
        for item in items:
            chosen = passed if self._chosen is None else self._chosen.matched
            if chosen >= count and (item is None or isinstance(item, MessageItem | OpenedItem | ClosedItem)):
                return
            passed += isinstance(item, MessageItem)
            yield item

    def plain(self) -> dict[str, Any] | None:
        """What the filters counted, as plain values; None without filters."""
        return None if self._chosen is None else self._chosen.plain()

    def add(self, plain: Mapping[str, Any] | None) -> None:
        """Add what the filters of another process counted."""
        if self._chosen is not None and plain is not None:
            self._chosen.add(plain)

    def sentences(self) -> Iterator[str]:
        """What each filter let pass, a line each."""
        if self._chosen is not None:
            yield self._chosen.sentence()
        if self._where is not None:
            tables = ", ".join(self._where.tables)
            yield f"{self._where.met:,} of {self._where.rows:,} rows met --where ({tables})"


def _learning(items: Iterable[Item | None], learn: Callable[[Message], object]) -> Iterator[Item | None]:
    for item in items:
        if isinstance(item, MessageItem) and item.message.teaches:
            learn(item.message)
        yield item


def _observed(items: Iterable[Item | None], observe: Callable[[Item], object]) -> Iterator[Item | None]:
    for item in items:
        if item is not None:
            observe(item)
        yield item
