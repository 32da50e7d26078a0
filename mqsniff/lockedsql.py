"""Tables and a query in, batches of its result out: DuckDB, closed to everything but these tables.

1. The tables are Arrow datasets that this process reads: DuckDB itself may open no file, no socket and no extension,
   and its configuration is locked. What a query from elsewhere tries beyond that fails with one line.
2. A query is one statement that reads: SELECT and its kin (WITH, FROM, VALUES, DESCRIBE, SHOW, SUMMARIZE), or EXPLAIN
   of one. Several statements are refused, since only one result can go out.
3. Memory is bounded (``Limits.query_memory``); beyond it DuckDB spills into a folder of ours: the one place where it
   may write. What cannot be spilled fails.
4. DuckDB works in a thread of its own and the caller waits for it, so that a signal always ends a query, however long.
5. Times are UTC.
6. An error is one line: what, near where, the names there are when a name is wrong, and how to write what these tables
   ask for.
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

from mqsniff.limits import Limits
from mqsniff.tables.escape import safe
from mqsniff.tables.schemas import TABLES, TableName, arrow_schema

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_ROWS: Final = 8192
"""Rows of a result that stand in memory together."""

_EXPLAIN: Final = re.compile(r"\s*EXPLAIN\b\s*(?:ANALYZE\b|\([^)]*\))?", re.IGNORECASE)
_WAIT_S: Final = 0.2
"""How long to wait at once: a signal that reached another thread is seen then, and an interrupt that came before its
query had begun, and was lost, is told again."""
_NEAR: Final = 24
"""Characters of a query that are shown of the place of an error."""

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
"""(what an error says, what its query holds, how to write it instead)."""

Result = TypeVar("Result")


class QueryError(Exception):
    """A query that cannot be run, in one line."""


class Database:
    """Tables to ask; ``spill`` is a folder that DuckDB may fill, and whoever made it deletes."""

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
        """Raise QueryError unless a query is one statement that reads, and means something for these tables."""
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
        """Raise QueryError for a statement that does more than read, or that fails to mean something."""
        match kind:
            case "SELECT":
                self._connection.execute(f"PREPARE checked AS {query}")
                self._connection.execute("DEALLOCATE checked")
            case "EXPLAIN" if (found := _EXPLAIN.match(query)) is not None:
                self._check(query[found.end() :])
            case "MULTI":
                raise QueryError("PIVOT wants the values that become columns: PIVOT … ON column IN ('a', 'b') …")
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
        """Turn what DuckDB raises, or Arrow that reads the files for it, into a QueryError."""
        import pyarrow as pa  # noqa: PLC0415  # heavy

        try:
            yield
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            raise QueryError(self._with_names(query, str(error))) from None

    def _with_names(self, query: str, text: str) -> str:
        """An error with the names that there are, when a name is wrong."""
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
    """What DuckDB says of a query in many lines, as what is wrong and near where."""
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
    """A connection that knows some Arrow tables and can reach nothing else; without ``spill`` it stays in memory."""
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
    """The outcome of what a connection does in a worker; a signal that is raised here meanwhile ends it."""
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
    """Every table without rows: enough to see what a query means before anything is decoded."""
    return {table: arrow_schema(table).empty_table() for table in TABLES}


def needed_tables(query: str, spill: Path) -> tuple[TableName, ...]:
    """The tables that a query may read; all of them where it names none, as SHOW TABLES does."""
    connection = locked(spill, {f"made {table}": rows for table, rows in empty_tables().items()})
    for table in TABLES:
        connection.execute(f'CREATE TABLE "{table}" AS FROM "made {table}"')
    try:
        named = {name.lower() for name in connection.get_table_names(query)}
    except duckdb.Error:  # it cannot take every query apart: JOIN USING is one
        named = set(re.findall(r"\w+", query.lower()))
    finally:
        connection.close()
    return tuple(table for table in TABLES if table in named) or tuple(TABLES)


def _kind(statement: duckdb.Statement) -> str:
    """What a statement does; DuckDB has statements that its Python side has no name for."""
    try:
        return statement.type.name
    except ValueError:
        return "unknown"


def _verb(query: str) -> str:
    """The first word of a statement."""
    word = re.search(r"[A-Za-z]+", query)
    return word.group().upper() if word else "this"


def _near(query: str, text: str) -> str | None:
    """Where DuckDB's caret points, as the text that stands there and its line."""
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
