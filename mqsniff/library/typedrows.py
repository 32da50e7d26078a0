"""Items of a run in, typed rows out; and ``Rows``, which decodes its input whenever it is iterated.

1. A row has the columns of its table (docs/tables.md) in their order; null is None.
2. Times are datetimes in UTC, in microseconds; columns ``*_ns`` are exact. A time outside the years 1 to 9999 is None.
3. Bodies are dicts as in NDJSON, redacted in the same way; keys and values of records are bytes.
4. Topic names are those known by then; ``Capture.table`` shows those known at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast

from mqsniff.library.html import html_table
from mqsniff.library.rows import ROW_TYPES, TableRow
from mqsniff.model import Item
from mqsniff.tables.rows import Captures, rows_of
from mqsniff.tables.schemas import TABLES, ColumnType, TableName
from mqsniff.tables.values import Redaction, escaped

if TYPE_CHECKING:
    import pyarrow as pa

SHOWN_ROWS: Final = 20
"""Rows that a notebook shows."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

RowT = TypeVar("RowT", bound=TableRow)


class Rows(Generic[RowT]):
    """The rows of one table of a capture: iterate it, as often as you like.

    Each iteration decodes the capture anew, row by row, in memory that does not grow with it. A notebook shows the
    first rows. Polars, DuckDB, pandas and others take it as an Arrow stream: ``polars.DataFrame(capture.messages())``.
    """

    def __init__(
        self, table: TableName, iterate: Callable[[], Iterator[TableRow]], arrow: Callable[[], pa.Table]
    ) -> None:
        self.table_name: TableName = table
        self._iterate = iterate
        self._arrow = arrow

    def __iter__(self) -> Iterator[RowT]:
        return cast("Iterator[RowT]", self._iterate())

    def table(self) -> pa.Table:
        """All rows as a ``pyarrow.Table``, with the topic names that were known at the end."""
        return self._arrow()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The Arrow PyCapsule interface."""
        return self._arrow().__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        return f"<mqsniff rows of {self.table_name}>"

    def _repr_html_(self) -> str:
        names = [column.name for column in TABLES[self.table_name]]
        return html_table(names, self._iterate(), SHOWN_ROWS)


def typed_rows(
    items: Iterable[Item], captures: Captures, tables: tuple[TableName, ...], shown: Redaction
) -> Iterator[TableRow]:
    """The rows that items make in some tables."""
    made = {table: (ROW_TYPES[table], _conversions(table, shown)) for table in tables}
    for item in items:
        for table, row in rows_of(item, captures, tables, shown):
            kind, conversions = made[table]
            values = list(row.values())
            for index, convert in conversions:
                if values[index] is not None:
                    values[index] = convert(values[index])
            yield kind._make(values)


def _conversions(table: TableName, shown: Redaction) -> list[tuple[int, Callable[[Any], Any]]]:
    """(index, what makes a Python value of it) of the columns that need it."""
    makers: dict[ColumnType, Callable[[Any], Any]] = {
        "text": _text,
        "texts": _texts,
        "timestamp": _time,
        "json": shown.plain,
        "headers": _headers,
    }
    return [(index, makers[column.type]) for index, column in enumerate(TABLES[table]) if column.type in makers]


def _text(text: str) -> str:
    return text if text.isascii() else str(escaped(text))


def _texts(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(map(_text, texts))


def _time(ts_ns: int) -> datetime | None:
    try:
        return _EPOCH + timedelta(microseconds=ts_ns // 1000)
    except OverflowError:
        return None


def _headers(headers: Iterable[dict[str, Any]]) -> tuple[tuple[str, Any], ...]:
    return tuple((_text(header["key"]), header["value"]) for header in headers)
