"""What the user wants to see in, the items of a run that are seen out: filters, then ``-n``, then ``--where``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import click

from mqsniff.cli.options import RunOptions
from mqsniff.cli.outputs import output_of
from mqsniff.cli.talk import say
from mqsniff.model import CaptureInfo, ClosedItem, Item, Message, MessageItem, OpenedItem

if TYPE_CHECKING:
    from mqsniff.answers.summary import Summary
    from mqsniff.filters.counting import CountingFilter
    from mqsniff.filters.where import WhereFilter


class FilterChain:
    """All that decides on items, in its order; with nothing to decide, everything is seen."""

    def __init__(self, chosen: CountingFilter | None, count: int | None, where: WhereFilter | None) -> None:
        from mqsniff.answers.summary import Summary

        decides = chosen is not None or where is not None
        self.seen = Summary()
        self.everything = Summary() if decides else self.seen
        """What was decided on, seen or not."""
        self._chosen = chosen
        self._count = count
        self._where = where

    def of(
        self, items: Iterable[Item | None], learn: Callable[[Message], object] | None = None
    ) -> Iterator[Item | None]:
        """The items that are seen; ``learn`` takes every message that teaches topic names, seen or not.

        Raises click.UsageError for a condition that turns out to fail on some row.
        """
        if self._count is not None:
            items = self._up_to(items, self._count)
        if learn is not None:
            items = _learning(items, learn)
        if self.everything is not self.seen:
            items = _counted(items, self.everything)
        if self._chosen is not None:
            items = self._chosen.of(items)
        if self._where is not None:
            items = _asked(items, self._where)
        return _counted(items, self.seen)

    def _up_to(self, items: Iterable[Item | None], count: int) -> Iterator[Item | None]:
        """Items up to the last one that belongs to the ``count``-th message that the filters choose.

        It stands before all that counts: a message that is only looked at to find the end is in no figure.
        """
        passed = 0
        for item in items:
            chosen = passed if self._chosen is None else self._chosen.matched
            if chosen >= count and (item is None or isinstance(item, MessageItem | OpenedItem | ClosedItem)):
                return
            passed += isinstance(item, MessageItem)
            yield item

    def sentences(self) -> Iterator[str]:
        """What came of each decision, a line each."""
        if self._chosen is not None:
            yield self._chosen.sentence()
        if self._where is not None:
            tables = ", ".join(self._where.tables)
            yield f"{self._where.met:,} of {self._where.rows:,} rows met --where ({tables})"


def filter_chain(options: RunOptions, captures: list[CaptureInfo]) -> FilterChain:
    """What the options ask for; raises click.UsageError for a condition that cannot be meant."""
    chosen = where = None
    if options.filters:
        from mqsniff.filters.counting import CountingFilter

        chosen = CountingFilter(options.filters)
    if options.where is not None:
        where = _where(options, options.where, captures)
    return FilterChain(chosen, options.count, where)


def _where(options: RunOptions, condition: str, captures: list[CaptureInfo]) -> WhereFilter:
    from mqsniff.answers.sql import QueryError
    from mqsniff.filters.where import WhereFilter
    from mqsniff.tables.values import escaped

    try:
        where = WhereFilter(escaped(condition), options.wanted(output_of(options)), captures, options.shown)
    except QueryError as error:
        raise click.UsageError(str(error)) from None
    if where.left_out:
        say(f"mqsniff: --where leaves out {', '.join(where.left_out)}: it does not fit their columns")
    return where


def _counted(items: Iterable[Item | None], summary: Summary) -> Iterator[Item | None]:
    for item in items:
        if item is not None:
            summary.take(item)
        yield item


def _learning(items: Iterable[Item | None], learn: Callable[[Message], object]) -> Iterator[Item | None]:
    for item in items:
        if isinstance(item, MessageItem) and item.message.teaches:
            learn(item.message)
        yield item


def _asked(items: Iterable[Item | None], where: WhereFilter) -> Iterator[Item | None]:
    from mqsniff.answers.sql import QueryError

    try:
        yield from where.of(items)
    except QueryError as error:
        raise click.UsageError(str(error)) from None
