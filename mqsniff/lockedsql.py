"""Tables and a query in, batches of its result out: DuckDB without access to anything but these tables.

1. The tables are Arrow datasets that this process reads: DuckDB itself may open no file, socket or extension, and its
   configuration is locked. A query that tries it fails with a one-line error.
2. A query is one statement that reads: SELECT and similar (WITH, FROM, VALUES, DESCRIBE, SHOW, SUMMARIZE), or EXPLAIN
   of one. Several statements are refused, since there can be only one result.
3. Memory is bounded (``Limits.query_memory``); beyond it DuckDB spills to a temporary folder, the only place where it
   may write. A query that cannot spill fails.
4. DuckDB runs in its own thread and the caller waits for it, so that a signal ends a query at any time.
5. Times are UTC.
6. An error is one line: what, near where; for a wrong name, the names that exist; and how to write common expressions
   for these tables.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

import duckdb

from mqsniff.errors import QueryError as QueryError  # noqa: PLC0414  # users of this module catch it
from mqsniff.limits import Limits
from mqsniff.tables.escape import safe
from mqsniff.tables.schemas import TABLES, TableName, arrow_schema

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_ROWS: Final = 8192
"""Rows of a result in memory at once."""

_EXPLAIN: Final = re.compile(r"\s*EXPLAIN\b\s*(?:ANALYZE\b|\([^)]*\))?", re.IGNORECASE)
_WAIT_S: Final = 0.2
"""Period of waiting for a query: after it, a signal that another thread got is handled, and an interrupt that came
before the query began is repeated."""
_NEAR: Final = 24
"""Characters of a query that an error shows."""

_LINE: Final = re.compile(r"^LINE (\d+): ", re.MULTILINE)
_KIND: Final = re.compile(r"^[A-Z][A-Za-z ]+ Error: ")
_LOCKED: Final = "file system operations are disabled by configuration"
_HINTS: Final = (
    (re.compile(r"\bBLOB\b"), re.compile(""), "keys and values are bytes: decode(value) is their text"),
    (re.compile(r"Cannot extract field"), re.compile(r"\bbody\b"), "body is JSON text: body ->> '$.field'"),
    (
        re.compile("^syntax error"),
        re.compile(r'(?<!")\b(group(?!"|\s+by\b)|offset(?!"|\s+\d))\b', re.IGNORECASE),
        'columns whose names are words of SQL stand in double quotes: "group", "offset"',
    ),
)
"""(pattern of an error, pattern of its query, how to write it instead)."""

Result = TypeVar("Result")


class Database:
    """Tables to query; ``spill`` is a folder for DuckDB, which the caller deletes."""

    def __init__(self, tables: Mapping[str, Any], spill: Path, limits: Limits | None = None) -> None:
        self._tables = dict(tables)
        self._connection = locked(spill, self._tables, limits)
        self._worker = ThreadPoolExecutor(1)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._worker.shutdown()
        self._connection.close()

    def check(self, query: str) -> None:
        """Raise QueryError unless a query is one statement that reads and is valid for these tables."""
        with self._told(query):
            self._waited(lambda: self._check(query))

    def _check(self, query: str) -> None:
        statements = self._connection.extract_statements(query)
        if not statements:
            raise QueryError("the query is empty")
        if len(statements) > 1:
            raise QueryError(f"{len(statements)} statements; a query is one, since only one result can go out")
        self._check_kind(query, _kind(statements[0]))

    def _check_kind(self, query: str, kind: str) -> None:
        """Raise QueryError for a statement that does more than read, or is invalid."""
        match kind:
            case "SELECT":
                self._connection.execute(f"PREPARE checked AS {query}")
                self._connection.execute("DEALLOCATE checked")
            case "EXPLAIN" if (found := _EXPLAIN.match(query)) is not None:
                self._check(query[found.end() :])
            case "MULTI":
                raise QueryError("PIVOT needs the values that become columns: PIVOT … ON column IN ('a', 'b') …")
            case _:
                raise QueryError(f"{_verb(query)} does more than read; a query is SELECT, WITH, DESCRIBE or EXPLAIN")

    def run(self, query: str) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """The columns of a result and its batches, which come as they are computed; raises QueryError."""
        self.check(query)
        with self._told(query):
            reader = self._waited(lambda: self._reader(query))
        return reader.schema, self._batches(query, reader)

    def _reader(self, query: str) -> pa.RecordBatchReader:
        relation = self._connection.sql(query)
        make = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader
        return make(BATCH_ROWS)

    def _batches(self, query: str, reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        with self._told(query):
            while (batch := self._waited(lambda: next(reader, None))) is not None:
                yield batch

    def _waited(self, work: Callable[[], Result]) -> Result:
        return waited(self._connection, self._worker, work)

    @contextmanager
    def _told(self, query: str) -> Iterator[None]:
        """Turn errors of DuckDB, or of Arrow that reads files for it, into a QueryError."""
        import pyarrow as pa  # noqa: PLC0415  # heavy

        try:
            yield
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            raise QueryError(self._with_names(query, str(error))) from None

    def _with_names(self, query: str, text: str) -> str:
        """An error; for a wrong name, with the names that exist."""
        what = one_line(query, text)
        if "Table with name" in text:
            return f"{what}; tables: {', '.join(self._tables)}"
        if "column" in what and ("not found" in what or "does not have" in what):
            return "; ".join((what, *self._columns(query)))
        return what

    def _columns(self, query: str) -> Iterator[str]:
        """The columns of the tables that a query names."""
        for name, table in self._tables.items():
            if re.search(rf"\b{re.escape(name)}\b", query, re.IGNORECASE):
                yield f"{name} has: {', '.join(table.schema.names)}"


def one_line(query: str, text: str) -> str:
    """A multi-line error of DuckDB as one line: what is wrong, and near where."""
    what, _, rest = text.partition("\n")
    what = _KIND.sub("", what).rstrip("!.: ").replace("Values list ", "Table ")
    if text.startswith("Out of Memory Error"):
        return f"the query needs more memory than it may have ({what}); --limit query_memory=BYTES gives it more"
    if _LOCKED in what:
        what = what.replace(_LOCKED, "a query reads the tables and nothing else")
    if (place := _near(query, text)) is not None:
        what += f" (near {place})"
    hints = [hint for error, pending, hint in _HINTS if error.search(what) and pending.search(query)]
    if "Table with name" not in what:
        hints += [f"d{line[1:]}" for line in rest.splitlines() if line.startswith("Did you mean")][:1]
    return safe("; ".join((what, *hints)))  # it may quote what traffic wrote


def locked(spill: Path | None, tables: Mapping[str, Any], limits: Limits | None = None) -> duckdb.DuckDBPyConnection:
    """A connection with access to some Arrow tables only; without ``spill`` it stays in memory."""
    connection = duckdb.connect(
        ":memory:", config={"autoinstall_known_extensions": False, "autoload_known_extensions": False}
    )
    for name, table in tables.items():
        connection.register(name, table)
    settings = {
        "python_enable_replacements": "false",
        "TimeZone": "'UTC'",
        "memory_limit": f"'{(limits or Limits()).query_memory}B'",
        "temp_directory": _quoted(str(spill or "")),
        "allow_persistent_secrets": "false",
        "secret_directory": "''",
        "allow_community_extensions": "false",
        "enable_external_access": "false",
        "lock_configuration": "true",
    }
    for name, value in settings.items():
        connection.execute(f"SET {name} = {value}")
    return connection


def waited(connection: duckdb.DuckDBPyConnection, worker: ThreadPoolExecutor, work: Callable[[], Result]) -> Result:
    """The result of work that a connection does in a worker thread; a signal that is raised here interrupts it."""
    future = worker.submit(work)
    try:
        while not future.done():
            wait((future,), _WAIT_S)
    finally:
        while not future.done():
            connection.interrupt()
            wait((future,), _WAIT_S)
    return future.result()


def empty_tables() -> dict[TableName, Any]:
    """Every table without rows: enough to check a query before decoding."""
    return {table: arrow_schema(table).empty_table() for table in TABLES}


def needed_tables(query: str, spill: Path) -> tuple[TableName, ...]:
    """The tables that a query may read; all if it names none, as SHOW TABLES does."""
    connection = locked(spill, {f"made {table}": rows for table, rows in empty_tables().items()})
    for table in TABLES:
        connection.execute(f'CREATE TABLE "{table}" AS FROM "made {table}"')
    try:
        named = {name.lower() for name in connection.get_table_names(query)}
    except duckdb.Error:  # DuckDB cannot list the tables of every query, such as one with JOIN USING
        named = set(re.findall(r"\w+", query.lower()))
    finally:
        connection.close()
    return tuple(table for table in TABLES if table in named) or tuple(TABLES)


def _kind(statement: duckdb.Statement) -> str:
    """The type of a statement; for some, DuckDB's Python module has no name."""
    try:
        return statement.type.name
    except ValueError:
        return "unknown"


def _verb(query: str) -> str:
    """The first word of a statement."""
    word = re.search(r"[A-Za-z]+", query)
    return word.group().upper() if word else "this"


def _near(query: str, text: str) -> str | None:
    """The text at which DuckDB's caret points, with its line number."""
    found = _LINE.search(text)
    if found is None:
        return None
    shown, _, below = text[found.start() :].partition("\n")
    caret = below.partition("\n")[0].find("^")
    if caret < 0:
        return None
    place = shown[caret : caret + _NEAR].strip() or "the end"
    return f"line {found[1]}: {place}" if "\n" in query.strip() else place


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
