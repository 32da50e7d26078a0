"""Names of captures in, a ``Capture`` out: its rows, its tables, SQL over them, its statistics.

1. ``read`` looks whether the files are there, and reads none; each method decodes what it needs.
2. Tables are decoded into a temporary folder of Parquet files, once for each table, with the code of ``decode -o
   parquet``: memory is bounded, and topic names are those known at the end.
3. The folder goes with ``close``, at the end of ``with``, or with the object.
"""

from __future__ import annotations

import shutil
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from os import fspath
from pathlib import Path
from tempfile import mkdtemp
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, Self, Unpack, cast, get_args

from mqsniff.answers.captures import named_captures
from mqsniff.answers.folders import table_dataset, table_files
from mqsniff.answers.queries import named_queries
from mqsniff.answers.stats import TrafficStats, facts_of
from mqsniff.decode.registry import load_dissectors
from mqsniff.errors import OptionError, QueryError, UnreadableError
from mqsniff.filters.known import unknown
from mqsniff.library.html import html_table
from mqsniff.library.queryresult import QueryResult
from mqsniff.library.request import FilteredRun, PathName, ReadOptions, ReadRequest
from mqsniff.library.rows import (
    ConnectionsRow,
    ExchangesRow,
    MessagesRow,
    PartitionsRow,
    ProblemsRow,
    RecordsRow,
    TableRow,
    TopicsRow,
)
from mqsniff.library.typedrows import SHOWN_ROWS, Rows, typed_rows
from mqsniff.lockedsql.database import Database
from mqsniff.pipeline import Source
from mqsniff.sinks.parquet import ParquetSink
from mqsniff.sources.files import FileSource
from mqsniff.tables.schemas import TABLES, TableName, arrow_schema
from mqsniff.tables.values import escaped

if TYPE_CHECKING:
    import pyarrow as pa

StatsDivision = Literal["broker", "client", "topic", "connection"]
_DIVISIONS: Final = get_args(StatsDivision)


class Capture:
    """What is in some captures, as far as the filters of ``read`` choose it.

    Rows are decoded while they are iterated. Tables, SQL and statistics read the captures when they are asked for.
    """

    def __init__(self, names: Sequence[str], open_source: Callable[[], Source], request: ReadRequest) -> None:
        self.names: tuple[str, ...] = tuple(names)
        """The names of the captures, as the column ``capture`` has them."""
        self._open_source = open_source
        self._request = request
        self._folder: Path | None = None
        self._stored: dict[TableName, tuple[Path, Sequence[Path]]] = {}

    # ---- rows

    def connections(self) -> Rows[ConnectionsRow]:
        """A row a TCP connection, when it has ended."""
        return self._rows("connections")

    def messages(self) -> Rows[MessagesRow]:
        """A row a message: a request, an answer, or what needs none."""
        return self._rows("messages")

    def exchanges(self) -> Rows[ExchangesRow]:
        """A row a request and its answer, or half of one; with latency and status."""
        return self._rows("exchanges")

    def partitions(self) -> Rows[PartitionsRow]:
        """A row a topic or partition inside a message."""
        return self._rows("partitions")

    def records(self) -> Rows[RecordsRow]:
        """A row a record that was produced or delivered, with key, value and headers."""
        return self._rows("records")

    def topics(self) -> Rows[TopicsRow]:
        """A row a topic id and its name that the traffic taught."""
        return self._rows("topics")

    def problems(self) -> Rows[ProblemsRow]:
        """A row anything odd."""
        return self._rows("problems")

    def _rows(self, table: TableName) -> Rows[Any]:
        return Rows(table, lambda: self._iterated(table), lambda: self.table(table))

    def _iterated(self, table: TableName) -> Iterator[TableRow]:
        run = FilteredRun(self._open_source(), self._request, (table,))
        with closing(cast("Any", run.items())) as items:
            yield from typed_rows(items, run.captures, (table,), self._request.shown)

    # ---- tables

    def table(self, name: TableName) -> pa.Table:
        """All rows of a table as a ``pyarrow.Table``; docs/tables.md names the tables and their columns.

        Times are timestamps of microseconds in UTC, bodies are JSON text. Raises OptionError for an unknown table.
        """
        if name not in TABLES:
            raise OptionError(unknown("table", name, TABLES))
        self._decode((name,))
        return table_dataset(name, (self._stored[name],)).to_table().cast(arrow_schema(name))

    def sql(self, query: str) -> QueryResult:
        """The result of one SELECT in DuckDB's dialect over the tables, or of a named query such as ``":slow"``.

        A query reads these tables and nothing else. Raises QueryError, with what is wrong in one line.
        """
        text = escaped(_named(query))
        place = self._place()
        with Database(place / "spill", self._request.limits, readable=[place]) as database:
            database.open({table: arrow_schema(table).empty_table() for table in TABLES}).check(text)
            needed = database.needed_tables(text)
            self._decode(needed)
            datasets: dict[str, Any] = {table: table_dataset(table, (self._stored[table],)) for table in needed}
            schema, batches = database.open(datasets).run(text)
            return QueryResult(_table_of(list(batches), schema))

    def _decode(self, tables: Sequence[TableName]) -> None:
        """Decode tables that are not decoded yet, in one run."""
        missing = tuple(table for table in tables if table not in self._stored)
        if not missing:
            return
        folder = self._place() / f"run-{len(self._stored)}"
        run = FilteredRun(self._open_source(), self._request, missing)
        sink = ParquetSink(str(folder), run.captures, missing, self._request.shown, limits=self._request.limits)
        try:
            for item in run.items(sink.write_waiting):
                sink.write(item)
        except BaseException:
            sink.discard()
            raise
        sink.close()
        files = table_files(folder)
        self._stored |= {table: (folder, files[table]) for table in missing}

    def _place(self) -> Path:
        """The temporary folder of this capture."""
        if self._folder is None:
            self._folder = Path(mkdtemp(prefix="mqsniff-"))
            self._forget = weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        return self._folder

    def close(self) -> None:
        """Delete the tables that were decoded; they are decoded again if they are asked for."""
        if self._folder is not None:
            self._forget()
            self._folder, self._stored = None, {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ---- statistics

    def stats(self, by: StatsDivision | None = None) -> dict[str, list[dict[str, Any]]]:
        """The numbers of ``mqsniff stats --json``: a list of rows for each section (docs/stats.md).

        ``by`` counts commands apart for each broker, client, topic or connection.
        """
        if by is not None and by not in _DIVISIONS:
            raise OptionError(f"by: {unknown('division', by, _DIVISIONS)}")
        run = FilteredRun(self._open_source(), self._request, tuple(TABLES), extra=("amounts",))
        known = [entry.dissector for entry in load_dissectors() if entry.dissector is not None]
        stats = TrafficStats(known, self._request.limits, by)
        for item in run.items():
            stats.take(item)
        return cast("dict[str, list[dict[str, Any]]]", self._request.shown.plain(stats.rows(facts_of(run.pipeline))))

    # ---- showing

    def __repr__(self) -> str:
        return f"<mqsniff capture {', '.join(self.names)}>"

    def _repr_html_(self) -> str:
        sizes = [(name, Path(name).stat().st_size if Path(name).is_file() else None) for name in self.names]
        return html_table(("capture", "bytes"), sizes, SHOWN_ROWS, len(sizes))


def read(*files: PathName, **options: Unpack[ReadOptions]) -> Capture:
    """Captures, to be decoded: pcap or pcapng, also compressed; folders and globs mean the captures in them.

    Several files are one capture, in the order of their packets. The keywords are the filters of the commands
    (``topic="orders"``, ``errors=True``, ``from_="+30s"``) and their options for decoding (``tls_keys``,
    ``show_secrets``, ``limit``). Raises OptionError for a value that cannot be meant, UnreadableError for a file that
    is not there; what is no capture raises UnreadableError when rows are asked for.
    """
    if not files:
        raise OptionError("a file is needed: mqsniff.read('x.pcap')")
    request = ReadRequest.of(options)
    try:
        names = named_captures([fspath(file) for file in files])
    except ValueError as error:
        raise UnreadableError(str(error)) from None
    for name in names:
        if "://" not in name and not Path(name).exists():
            raise UnreadableError(f"{name}: no such file or directory")
    return Capture(names, lambda: FileSource(names, request.limits), request)


def _named(query: str) -> str:
    """A query, or the one that a name such as ``:slow`` means."""
    if not query.startswith(":"):
        return query
    known = named_queries()
    if query[1:] not in known:
        raise QueryError(unknown("query", query, [f":{name}" for name in known]))
    return known[query[1:]].sql


def _table_of(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    import pyarrow as pa  # noqa: PLC0415  # loaded by now

    return pa.Table.from_batches(batches, schema)
