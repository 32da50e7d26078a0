"""Tables and a query in, batches of its result out: DuckDB without access to anything but these tables.

This runs in the query process (``worker.py``); commands use ``database.py``.

1. The tables are Arrow datasets that this process reads: DuckDB itself may open no file, socket or extension, and its
   configuration is locked. A query that tries it fails with a one-line error.
2. A query is one statement that reads: SELECT and similar (WITH, FROM, VALUES, DESCRIBE, SHOW, SUMMARIZE), or EXPLAIN
   of one. Several statements are refused, since there can be only one result.
3. DuckDB counts most of its memory: beyond its part of ``Limits.query_memory`` it spills to a folder, up to
   ``Limits.query_spill``, the only place where it may write. A query that cannot spill fails.
4. Times are UTC.
5. An error is one line: what, near where; for a wrong name, the names that exist; and how to write common expressions
   for these tables.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import duckdb
import pyarrow as pa

from mqsniff.limits import Limits
from mqsniff.tables.escape import safe
from mqsniff.tables.schemas import TABLES, TableName, arrow_schema

BATCH_ROWS: Final = 8192
"""Rows of a result in memory at once."""

PIECE: Final = 4 << 20
"""Bytes of rows that are passed on at once, unless one row is larger."""

_COUNTED: Final = 0.625
"""Part of ``query_memory`` that DuckDB's own account gets: Arrow's buffers and many functions are not in it."""

_EXPLAIN: Final = re.compile(r"\s*EXPLAIN\b\s*(?:ANALYZE\b|\([^)]*\))?", re.IGNORECASE)
_NEAR: Final = 24
"""Characters of a query that an error shows."""

_LINE: Final = re.compile(r"^LINE (\d+): ", re.MULTILINE)
_KIND: Final = re.compile(r"^[A-Z][A-Za-z ]+ Error: ")
_LOCKED: Final = "file system operations are disabled by configuration"
_OUT_OF_MEMORY: Final = "Out of Memory Error"
_NO_MEMORY: Final = re.compile(r"bad_alloc|bad allocation|(?:malloc|realloc|calloc) of size|failed to allocate")
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


class RefusedQueryError(Exception):
    """A query that cannot be run; the text is one line."""


class LockedDatabase:
    """DuckDB with access to some Arrow tables only; without ``spill`` it stays in memory."""

    def __init__(self, tables: Mapping[str, Any], spill: str | None, limits: Limits) -> None:
        self._tables = dict(tables)
        self._limits = limits
        self._connection = locked(spill, self._tables, limits)

    def close(self) -> None:
        """Free what it holds."""
        self._connection.close()

    def check(self, query: str) -> None:
        """Raise RefusedQueryError unless a query is one statement that reads and is valid for these tables."""
        with self._told(query):
            self._check(query)

    def _check(self, query: str) -> None:
        statements = self._connection.extract_statements(query)
        if not statements:
            raise RefusedQueryError("the query is empty")
        if len(statements) > 1:
            raise RefusedQueryError(f"{len(statements)} statements; a query is one, since only one result can go out")
        self._check_kind(query, _kind(statements[0]))

    def _check_kind(self, query: str, kind: str) -> None:
        """Raise RefusedQueryError for a statement that does more than read, or is invalid."""
        match kind:
            case "SELECT":
                self._connection.execute(f"PREPARE checked AS {query}")
                self._connection.execute("DEALLOCATE checked")
            case "EXPLAIN" if (found := _EXPLAIN.match(query)) is not None:
                self._check(query[found.end() :])
            case "MULTI":
                raise RefusedQueryError("PIVOT needs the values that become columns: PIVOT … ON column IN ('a', 'b') …")
            case _:
                raise RefusedQueryError(
                    f"{_verb(query)} does more than read; a query is SELECT, WITH, DESCRIBE or EXPLAIN"
                )

    def run(self, query: str) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """The columns of a result and its batches, which come as they are computed; raises RefusedQueryError."""
        self.check(query)
        with self._told(query):
            relation = self._connection.sql(query)
            make = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader
            reader = make(BATCH_ROWS)
        return reader.schema, self._batches(query, reader)

    def _batches(self, query: str, reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        with self._told(query):
            for batch in reader:
                yield from self._pieces(batch)

    def _pieces(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """A batch in pieces of at most PIECE bytes; raises RefusedQueryError for a row that is too large."""
        rows, most = batch.num_rows, self._limits.query_row
        if batch.nbytes <= min(PIECE, most) or (rows == 1 and batch.nbytes <= most):
            yield batch
        elif rows > 1:
            yield from self._pieces(batch.slice(0, rows // 2))
            yield from self._pieces(batch.slice(rows // 2))
        else:
            much = f"{batch.nbytes} bytes, and may have {most}"
            raise RefusedQueryError(f"a row of the result has {much}; --limit query_row=BYTES allows more")

    @contextmanager
    def _told(self, query: str) -> Iterator[None]:
        """Turn errors of DuckDB, or of Arrow that reads files for it, into a RefusedQueryError."""
        try:
            yield
        except (duckdb.Error, pa.ArrowException, OSError, MemoryError) as error:
            raise RefusedQueryError(self._with_names(query, _text(error))) from None

    def _with_names(self, query: str, text: str) -> str:
        """An error; for a wrong name, with the names that exist."""
        what = one_line(query, text, self._limits)
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

    # ---- conditions on rows (``mqsniff.filters.where``)

    def misfit(self, table: str, rows: pa.Table, query: str, condition: str) -> str | None:
        """Why a query on a table that gets these rows is none, in one line; None if it is one."""
        self._connection.register(table, rows)
        try:
            if len(self._connection.extract_statements(query)) != 1:
                return "no condition"
            self._connection.execute(f"PREPARE checked AS {query}")
            self._connection.execute("DEALLOCATE checked")
        except duckdb.Error as error:
            return one_line(condition, _text(error), self._limits)
        return None

    def met(self, table: str, rows: pa.Table, query: str) -> list[int]:
        """The numbers that a query gives for these rows of a table; raises RefusedQueryError."""
        self._connection.register(table, rows)
        with self._told(""):
            return [number for (number,) in self._connection.execute(query).fetchall()]


def _text(error: BaseException) -> str:
    """The text of an error; a lack of memory has DuckDB's name, whoever found it."""
    text = str(error)
    if _NO_MEMORY.search(text) or isinstance(error, MemoryError):
        return text if text.startswith(_OUT_OF_MEMORY) else f"{_OUT_OF_MEMORY}: {text or 'an allocation failed'}"
    return text


def one_line(query: str, text: str, limits: Limits) -> str:
    """A multi-line error of DuckDB as one line: what is wrong, and near where."""
    what, _, rest = text.partition("\n")
    what = _KIND.sub("", what).rstrip("!.: ").replace("Values list ", "Table ")
    if "max_temp_directory_size" in text:
        return f"the query needs more than {limits.query_spill} bytes of disk; --limit query_spill=BYTES gives it more"
    if text.startswith(_OUT_OF_MEMORY):
        had = f"the {limits.query_memory} bytes it may have"
        return safe(f"the query needs more memory than {had} ({what}); --limit query_memory=BYTES gives it more")
    if _LOCKED in what:
        what = what.replace(_LOCKED, "a query reads the tables and nothing else")
    if (place := _near(query, text)) is not None:
        what += f" (near {place})"
    hints = [hint for error, pending, hint in _HINTS if error.search(what) and pending.search(query)]
    if "Table with name" not in what:
        hints += [f"d{line[1:]}" for line in rest.splitlines() if line.startswith("Did you mean")][:1]
    return safe("; ".join((what, *hints)))  # it may quote what traffic wrote


def locked(spill: str | None, tables: Mapping[str, Any], limits: Limits) -> duckdb.DuckDBPyConnection:
    """A connection with access to some Arrow tables only."""
    connection = duckdb.connect(
        ":memory:", config={"autoinstall_known_extensions": False, "autoload_known_extensions": False}
    )
    for name, table in tables.items():
        connection.register(name, table)
    settings = {
        "python_enable_replacements": "false",
        "TimeZone": "'UTC'",
        "memory_limit": f"'{int(limits.query_memory * _COUNTED)}B'",
        "temp_directory": _quoted(spill or ""),
        "max_temp_directory_size": f"'{limits.query_spill}B'",
        "allow_persistent_secrets": "false",
        "secret_directory": "''",
        "allow_community_extensions": "false",
        "enable_external_access": "false",
        "lock_configuration": "true",
    }
    for name, value in settings.items():
        connection.execute(f"SET {name} = {value}")
    return connection


def empty_tables() -> dict[TableName, Any]:
    """Every table without rows: enough to check a query before decoding."""
    return {table: arrow_schema(table).empty_table() for table in TABLES}


def needed_tables(query: str) -> tuple[TableName, ...]:
    """The tables that a query may read; all if it names none, as SHOW TABLES does."""
    connection = locked(None, {f"made {table}": rows for table, rows in empty_tables().items()}, Limits())
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
