"""The items of a run and a condition in SQL in, the items whose rows meet it out, in their order.

1. The condition is tested on rows as they are shown, redacted and cut, table by table. It is a condition on one row: it
   has no subqueries.
2. A table that lacks a column of the condition is left out; it is an error if all tables do.
3. An item keeps those of its rows that meet the condition: single records and partitions, a message without its
   partitions, partitions without their message.
4. The opening of a connection comes before the first of its items that passes.
5. At most ``_ROWS`` rows, and those of one item, wait for the query; none wait while the input pauses or after Ctrl-C.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeAlias

import duckdb
import pyarrow as pa

from mqsniff.filters.recordfilter import take
from mqsniff.lockedsql import QueryError, locked, one_line, waited
from mqsniff.model import (
    ClosedItem,
    ConnectionInfo,
    ExchangeItem,
    Item,
    MessageItem,
    OpenedItem,
    PartitionItem,
    ProblemItem,
    RecordItem,
    TopicItem,
)
from mqsniff.tables.cells import array_of
from mqsniff.tables.rows import Captures, Row, rows_of
from mqsniff.tables.schemas import TABLES, Column, TableName, arrow_schema
from mqsniff.tables.values import Redaction

_ROWS: Final = 4096

Kept: TypeAlias = dict[TableName, list[bool]]
"""Table -> which rows of one item meet the condition."""


class WhereFilter:
    """Passes items whose rows meet a condition."""

    def __init__(self, condition: str, wanted: Collection[TableName], captures: Captures, shown: Redaction) -> None:
        """Raises QueryError for a condition that fits no wanted table."""
        self._captures = captures
        self._shown = shown
        self._connection = locked(None, {})
        self._worker = ThreadPoolExecutor(1)
        self._asked = {table: asked for table in TABLES if table in wanted and (asked := self._bound(table, condition))}
        self.left_out = tuple(table for table in TABLES if table in wanted and table not in self._asked)
        """Wanted tables that lack a column of the condition."""
        self.tables = tuple(self._asked)
        """Those that it is asked of."""
        if not self._asked:
            raise QueryError(self._why(condition, wanted))
        self._opened: dict[str, OpenedItem] = {}
        self._known: dict[str, ConnectionInfo] = {}
        self.rows = self.met = 0

    def of(self, items: Iterable[Item | None]) -> Iterator[Item | None]:
        """The items that pass; None stays where it is."""
        portion = _Portion(self._asked)
        try:
            for item in items:
                if item is not None:
                    portion.add(self._as_of_now(item), rows_of(item, self._captures, self._asked, self._shown))
                if item is None or portion.count >= _ROWS:
                    full, portion = portion, _Portion(self._asked)  # so that a Ctrl-C does not test it twice
                    yield from self._staying(full)
                if item is None:
                    yield None
        except KeyboardInterrupt:
            yield from self._staying(portion)
            raise
        yield from self._staying(portion)

    def _as_of_now(self, item: Item) -> Item:
        """The item with a copy of its connection: what is learned while the item waits must not change its rows."""
        if isinstance(item, TopicItem | OpenedItem | ClosedItem) or item.connection is None:
            return item
        info = item.connection
        known = self._known.get(info.connection_id)
        if known != info:
            known = self._known[info.connection_id] = replace(info, identity=replace(info.identity))
        return replace(item, connection=known)

    def _staying(self, portion: _Portion) -> Iterator[Item]:
        rows = portion.rows
        met = {table: self._ask(table, rows[table]) for table in rows}
        self.rows += sum(map(len, rows.values()))
        self.met += sum(map(len, met.values()))
        for item, places in portion.items:
            kept: Kept = {}
            for table, index in places:
                kept.setdefault(table, []).append(index in met[table])
            for part in _parts(item, kept):
                yield from self._told(part)
            if isinstance(item, OpenedItem):
                self._opened[item.connection.connection_id] = item
            elif isinstance(item, ClosedItem):
                self._opened.pop(item.connection.connection_id, None)
                self._known.pop(item.connection.connection_id, None)

    def _told(self, item: Item) -> Iterator[Item]:
        connection = None if isinstance(item, TopicItem) else item.connection
        if connection is not None and (opened := self._opened.pop(connection.connection_id, None)) is not None:
            yield opened
        yield item

    # ---- DuckDB

    def _bound(self, table: TableName, condition: str) -> _Asked | None:
        """The query for a table; None if the condition does not fit it."""
        columns = tuple(c for c in TABLES[table] if re.search(rf"\b{re.escape(c.name)}\b", condition, re.IGNORECASE))
        query = f'SELECT "#" FROM asked AS "{table}" WHERE ({condition}\n)'  # noqa: S608  # the user's own condition
        asked = _Asked(query, columns)
        self._connection.register("asked", asked.arrow([], self._shown))
        try:
            if len(self._connection.extract_statements(query)) != 1:
                return None
            self._connection.execute(f"PREPARE checked AS {query}")
            self._connection.execute("DEALLOCATE checked")
        except duckdb.Error:
            return None
        return asked

    def _ask(self, table: TableName, rows: list[Row]) -> set[int]:
        """The indexes of the rows that meet the condition."""
        if not rows:
            return set()
        asked = self._asked[table]
        self._connection.register("asked", asked.arrow(rows, self._shown))
        try:
            met = waited(self._connection, self._worker, lambda: self._connection.execute(asked.query).fetchall())
        except duckdb.Error as error:
            raise QueryError(f"--where: {one_line('', str(error))}") from None
        return {index for (index,) in met}

    def _why(self, condition: str, wanted: Collection[TableName]) -> str:
        """Why the condition fits no wanted table: tables that it fits, or DuckDB's error for the closest table."""
        tables = [table for table in TABLES if table in wanted]
        if fits := [table for table in TABLES if table not in wanted and self._bound(table, condition)]:
            choice = " or ".join(f"--table {table}" for table in fits)
            return f"--where {condition!r} does not fit {', '.join(tables)}; it fits {choice}"
        table = max(tables, key=lambda name: sum(column.name in condition for column in TABLES[name]))
        self._connection.register(table, arrow_schema(table).empty_table())
        try:
            self._connection.execute(f'PREPARE checked AS SELECT * FROM "{table}" WHERE {condition}')  # noqa: S608  # as above
        except duckdb.Error as error:
            return f"--where: {one_line(condition, str(error))}; asked: {', '.join(tables)}"
        return f"--where {condition!r} is no condition on one row"


class _Portion:
    """Items that wait for the query, and their rows by table."""

    def __init__(self, tables: Iterable[TableName]) -> None:
        self.items: list[tuple[Item, list[tuple[TableName, int]]]] = []
        """Each item with the table and index of its rows."""
        self.rows: dict[TableName, list[Row]] = {table: [] for table in tables}
        self.count = 0

    def add(self, item: Item, made: Iterable[tuple[TableName, Row]]) -> None:
        """Add an item and its rows."""
        places = []
        for table, row in made:
            places.append((table, len(self.rows[table])))
            self.rows[table].append(row)
        self.items.append((item, places))
        self.count += len(places)


class _Asked(NamedTuple):
    """The query for a table, and the columns that it uses."""

    query: str
    columns: tuple[Column, ...]

    def arrow(self, rows: list[Row], shown: Redaction) -> pa.Table:
        """Rows as Arrow, each with its number."""
        arrays = {"#": pa.array(range(len(rows)), pa.int64())}
        for column in self.columns:
            values: list[Any] = [row[column.name] for row in rows]
            if column.type == "json":
                values = [None if value is None else shown.json(value) for value in values]
            arrays[column.name] = array_of(values, column.type)
        return pa.table(arrays)


def _parts(item: Item, kept: Kept) -> Iterator[Item]:
    """The parts of an item that pass."""
    match item:
        case MessageItem(connection, message) | PartitionItem(connection, message):
            stays = kept.get("partitions", [False] * len(message.partitions))
            partitions = tuple(row for row, stay in zip(message.partitions, stays, strict=True) if stay)
            narrowed = message if all(stays) else replace(message, partitions=partitions)
            if isinstance(item, MessageItem) and any(kept.get("messages", ())):
                yield item if narrowed is message else replace(item, message=narrowed)
            elif partitions:
                yield PartitionItem(connection, narrowed)
        case RecordItem():
            indexes = [index for index, stays in enumerate(kept.get("records", ())) if stays]
            if indexes:
                yield item if len(indexes) == item.batch.count else replace(item, batch=take(item.batch, indexes))
        case ExchangeItem() | ProblemItem() | TopicItem() | ClosedItem():
            if any(any(rows) for rows in kept.values()):
                yield item
        case OpenedItem():
            pass
