"""The inputs of a run and what was learned of them in, the rows of the table ``files`` out: where every row came from.

1. The table is of batch runs only; its columns are plain data like those of the others, and so is ``run_id``, which
   every table of a batch run has at its end.
2. URIs stand here without credentials.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from mqsniff.tables.schemas import SCHEMA_VERSION, Column, TableName, arrow_schema, arrow_type

if TYPE_CHECKING:
    import pyarrow as pa

FILES: Final = "files"
RUN_ID: Final = Column("run_id", "text", "run that wrote the row", "", nullable=False)

FILE_COLUMNS: Final = (
    Column("uri", "text", "where it was read from, without credentials", "", nullable=False),
    Column("capture", "text", "its name in the other tables", "", nullable=False),
    Column("size", "int64", "its length as it is stored", "bytes"),
    Column("mark", "text", "modification time or entity tag: what tells two contents of one place apart"),
    Column("format", "text", "pcap, pcapng, … or unknown", "", nullable=False),
    Column("compression", "text", "gzip, zstd, … or empty", "", nullable=False),
    Column("linktypes", "texts", "link types of its packets, as numbers"),
    Column("first_ts", "timestamp", "first packet"),
    Column("last_ts", "timestamp", "last packet"),
    Column("packets", "int64", "packets in it", "packets", nullable=False),
    Column("other_packets", "int64", "those of them that are no TCP", "packets", nullable=False),
    Column("dropped", "int64", "packets that the capturing side says it lost", "packets", nullable=False),
    Column("status", "text", "ok, or what is wrong: cut, empty, unreadable, …", "", nullable=False),
    Column("error", "text", "why it could not be read, or not to its end"),
    Column("domain", "text", "capture domain", "", nullable=False),
)


@cache
def run_schema(table: TableName | str) -> pa.Schema:
    """The Arrow schema of a table of a batch run: that of ``decode``, and ``run_id``."""
    import pyarrow as pa  # noqa: PLC0415  # start-up is a budget

    run_id = pa.field(RUN_ID.name, arrow_type(RUN_ID.type), RUN_ID.nullable, {"doc": RUN_ID.doc})
    if table != FILES:
        return arrow_schema(table).append(run_id)
    fields = [pa.field(c.name, arrow_type(c.type), c.nullable, {"doc": c.doc}) for c in FILE_COLUMNS]
    return pa.schema([*fields, run_id], metadata={"mqsniff.table": FILES, "mqsniff.schema_version": SCHEMA_VERSION})


def with_run(rows: pa.RecordBatch, table: TableName | str, run: str) -> pa.RecordBatch:
    """Rows of a table with the run that wrote them."""
    import pyarrow as pa  # noqa: PLC0415  # as above

    named = pa.repeat(pa.scalar(run, pa.string()), rows.num_rows)
    return pa.RecordBatch.from_arrays([*rows.columns, named], schema=run_schema(table))


def file_rows(rows: Sequence[Mapping[str, Any]], run: str) -> pa.RecordBatch:
    """Rows of ``files``; times in nanoseconds."""
    import pyarrow as pa  # noqa: PLC0415  # as above

    from mqsniff.tables.cells import array_of  # noqa: PLC0415  # it imports pyarrow

    columns = [array_of([row.get(column.name) for row in rows], column.type) for column in FILE_COLUMNS]
    columns.append(pa.array([run] * len(rows), pa.string()))
    return pa.RecordBatch.from_arrays(columns, schema=run_schema(FILES))
