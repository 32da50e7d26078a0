"""Options in, the filter chain of a run out, with summaries of what it gets and what passes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import click

from mqsniff.cli.options import RunOptions
from mqsniff.cli.outputs import output_of
from mqsniff.cli.talk import say
from mqsniff.filters.chain import FilterChain
from mqsniff.model import CaptureInfo, Item, Message


class CountedChain:
    """A filter chain that counts what it gets and what passes."""

    def __init__(self, chain: FilterChain, *, asks_sql: bool) -> None:
        from mqsniff.answers.summary import Summary

        self._chain = chain
        self._asks_sql = asks_sql
        self.seen = Summary()
        self.everything = Summary() if chain.drops else self.seen
        """Of all items, dropped ones too."""

    def of(
        self, items: Iterable[Item | None], learn: Callable[[Message], object] | None = None
    ) -> Iterator[Item | None]:
        """The items that pass; ``learn`` gets each message that teaches topic names.

        Raises click.UsageError where the condition of ``--where`` fails on a row.
        """
        observe = self.everything.take if self._chain.drops else None
        passed = self._chain.of(items, learn, observe)
        for item in _without_query_errors(passed) if self._asks_sql else passed:
            if item is not None:
                self.seen.take(item)
            yield item

    def plain(self) -> dict[str, Any]:
        """Everything that was counted, as plain values."""
        everything = None if self.everything is self.seen else self.everything.plain()
        return {"seen": self.seen.plain(), "everything": everything, "filters": self._chain.plain()}

    def add(self, plain: Mapping[str, Any]) -> None:
        """Add what another process counted, as ``plain`` gave it."""
        self.seen.add(plain["seen"])
        if plain["everything"] is not None:
            self.everything.add(plain["everything"])
        self._chain.add(plain["filters"])

    def sentences(self) -> Iterator[str]:
        """What each filter let pass, a line each."""
        return self._chain.sentences()


def filter_chain(options: RunOptions, captures: list[CaptureInfo]) -> CountedChain:
    """The filter chain that the options ask for; raises click.UsageError for a condition that fits no table."""
    chosen = where = None
    if options.filters:
        from mqsniff.filters.counting import CountingFilter

        chosen = CountingFilter(options.filters)
    if options.where is not None:
        from mqsniff.lockedsql.database import QueryError, condition_process
        from mqsniff.tables.values import escaped

        process = condition_process(options.limits)  # it starts while this process imports Arrow
        from mqsniff.filters.where import WhereFilter

        wanted = options.wanted(output_of(options))
        try:
            where = WhereFilter(escaped(options.where), wanted, captures, options.shown, process)
        except QueryError as error:
            raise click.UsageError(str(error)) from None
        if where.left_out:
            say(f"mqsniff: --where leaves out {', '.join(where.left_out)}: it does not fit their columns")
    return CountedChain(FilterChain(chosen, options.count, where), asks_sql=where is not None)


def _without_query_errors(items: Iterable[Item | None]) -> Iterator[Item | None]:
    """The items; a QueryError becomes a click.UsageError."""
    from mqsniff.lockedsql.database import QueryError

    try:
        yield from items
    except QueryError as error:
        raise click.UsageError(str(error)) from None
