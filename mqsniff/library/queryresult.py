"""The result of a query: an Arrow table that is iterated as rows and shown in notebooks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from mqsniff.answers.results import unique_names
from mqsniff.library.html import html_table
from mqsniff.library.typedrows import SHOWN_ROWS

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


class QueryResult:
    """What ``Capture.sql`` answers: iterate it for rows as dicts, or take it as Arrow, pandas or Polars."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table.rename_columns(unique_names(table.column_names))

    @property
    def columns(self) -> list[str]:
        """The names of the columns; one that comes twice has a number after it."""
        return list(self._table.column_names)

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for batch in self._table.to_batches():
            yield from batch.to_pylist()

    def one(self) -> Any:
        """The value of a result of one row and one column; ValueError for another one."""
        if self._table.shape != (1, 1):
            raise ValueError(
                f"the result has {self._table.num_rows} rows of {self._table.num_columns} columns, not one"
            )
        return self._table.column(0)[0].as_py()

    def table(self) -> pa.Table:
        """The result as a ``pyarrow.Table``."""
        return self._table

    def to_pandas(self) -> pd.DataFrame:
        """The result as a data frame; needs pandas."""
        return self._table.to_pandas()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The Arrow PyCapsule interface."""
        return self._table.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        return f"<mqsniff result: {len(self)} rows of {', '.join(self.columns)}>"

    def _repr_html_(self) -> str:
        rows = (tuple(row.values()) for row in self)
        return html_table(self.columns, rows, SHOWN_ROWS, len(self))
