"""``mqsniff sql FILE… QUERY``: captures or folders of tables in, the result of a query out.

1. What can be known to be wrong is told before anything is decoded: the query is first compared with empty tables.
2. Captures are decoded into a folder of their own, only the tables that the query reads; it goes whatever happens.
3. A signal ends the decoding and the query, which runs in a process of its own; half of the tables are not asked.
4. Captures and folders given together are one set of tables.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from mqsniff.answers.captures import is_capture_name
from mqsniff.cli.filtering import filter_options, filters_of, where_option
from mqsniff.cli.inputs import complete_file
from mqsniff.cli.known import OneOf, unknown
from mqsniff.cli.options import RunOptions, decode_options, jobs_option
from mqsniff.cli.sections import SectionedCommand, option
from mqsniff.cli.signals import INTERRUPTED, TERMINATED, code_of, ended_by_sigterm
from mqsniff.cli.talk import remark, say
from mqsniff.filters.itemfilter import Filters
from mqsniff.sinks.privatefolder import private_folder
from mqsniff.tables.schemas import TABLES, TableName

if TYPE_CHECKING:
    from mqsniff.limits import Limits
    from mqsniff.lockedsql.database import Database

OUTPUTS: Final = ("table", "csv", "ndjson", "json", "parquet")

EPILOG: Final = """\b
Examples:
  mqsniff sql capture.pcap             its tables, and how many rows they have
  mqsniff sql capture.pcap exchanges   what the columns of a table mean
  mqsniff sql capture.pcap :slow       a query that has a name
  mqsniff sql --queries                all queries that have one
  mqsniff sql capture.pcap 'select name, count(*) n, avg(latency_ns) / 1e6 ms
                            from exchanges group by all order by n desc'
  mqsniff sql day-*.pcap.zst 'from problems' -o csv   many as one
  mqsniff decode -o parquet --out tables big.pcap     decode once, ...
  mqsniff sql tables 'select count(*) from records'   ... ask many times
  mqsniff sql tables - < query.sql                    the query from stdin
"""

_SECTION: Final = "Result"


class SqlArguments(NamedTuple):
    """What stands on the command line."""

    captures: tuple[str, ...]
    folders: tuple[Path, ...]
    query: str | None


def _complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
    """Names of queries after a colon, else files, for the shell."""
    if not incomplete.startswith(":"):
        return complete_file(ctx, param, incomplete)
    from mqsniff.answers.queries import named_queries

    return [f":{name}" for name in named_queries() if name.startswith(incomplete[1:])]


@click.command(cls=SectionedCommand, epilog=EPILOG, no_args_is_help=True)
@click.argument("arguments", nargs=-1, metavar="FILE... [QUERY]", shell_complete=_complete)
@option(
    _SECTION, "-o", "--output", type=OneOf("output", OUTPUTS),
    help="Form of the result.  [default: table on a terminal, ndjson in a pipe]"
)  # fmt: skip
@option(_SECTION, "--out", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False),
        help="Parquet: file to write the result to.")  # fmt: skip
@option(_SECTION, "--overwrite", is_flag=True, help="Parquet: replace the file.")
@option(_SECTION, "--cpu-seconds", metavar="N", type=click.IntRange(1),
        help="End a query that has used so much processor time.  [default: no limit]")  # fmt: skip
@option(_SECTION, "--queries", is_flag=True, help="List the queries that have a name, such as :slow, and stop.")
@filter_options
@where_option
@decode_options
@jobs_option
def command(
    arguments: tuple[str, ...],
    output: str | None,
    out: Path | None,
    cpu_seconds: int | None,
    *,
    overwrite: bool,
    queries: bool,
    **options: Any,
) -> int:
    """Ask the tables with SQL.

    FILE is a capture, or a folder of tables that `mqsniff decode -o parquet` or `mqsniff batch` wrote. QUERY is one
    SELECT in DuckDB's dialect over the tables connections, messages, exchanges, partitions, records, topics and
    problems, or - for stdin, or the name of a query, such as :slow. Without one, tables and their rows are listed; the
    name of a table alone says what its columns mean. It can read nothing but these tables. Times are UTC.

    Filters and the options for decoding choose what captures put into the tables.
    """
    from mqsniff.answers.folders import FolderError
    from mqsniff.lockedsql.database import QueryError

    if (output == "parquet") != (out is not None) or (overwrite and out is None):
        raise click.UsageError("-o parquet and --out FILE [--overwrite] belong together; other results go to stdout")
    if out is not None and out.exists() and not overwrite:
        raise click.UsageError(f"{out} is there already; --overwrite replaces it")
    if queries:
        show_queries()
        return 0
    asked = read_arguments(arguments)
    filtered = options["where"] is not None or any(options[name] for name in Filters.__dataclass_fields__)
    if not asked.captures and filtered:
        raise click.UsageError("filters choose what captures put into the tables; ask folders of tables with WHERE")
    try:
        if asked.query is None or asked.query.strip() in TABLES:
            _check_inputs(asked.captures)
        if asked.query is not None and asked.query.strip() in TABLES:
            show_columns(asked.query.strip())
            return 0
        return _ask(asked, output or ("table" if sys.stdout.isatty() else "ndjson"), out, cpu_seconds, options)
    except (QueryError, FolderError) as error:
        say(f"mqsniff sql: {error}")
        return 2
    except KeyboardInterrupt as interrupt:
        return code_of(interrupt)


def _ask(asked: SqlArguments, output: str, out: Path | None, cpu_seconds: int | None, options: dict[str, Any]) -> int:
    """Decode what a query reads and show its result, or the tables without one; the exit code."""
    with ended_by_sigterm(), private_folder() as place:
        captures, folders, query = asked
        tables = QueryTables(folders, captures=bool(captures), place=place, limits=options["limits"])
        if query is None:
            code = tables.decode(captures, tuple(TABLES), options) if captures else 0
            if code not in (INTERRUPTED, TERMINATED) and tables.complete:
                show_tables(tables)
            return code
        with tables.database(cpu_seconds) as database:
            code = 0
            if captures:
                tables.open_in(database).check(query)
                code = tables.decode(captures, database.needed_tables(query), options)
            if code not in (INTERRUPTED, TERMINATED) and tables.complete:
                _answer(tables.open_in(database), query, output, out)
            return code


def read_arguments(arguments: Sequence[str]) -> SqlArguments:
    """Tell files, folders and the query apart; raises click.UsageError where there is no input."""
    from mqsniff.answers.folders import is_table_folder
    from mqsniff.tables.values import escaped

    if not arguments:
        raise click.UsageError("a file is needed: mqsniff sql FILE... [QUERY]")
    *files, last = arguments
    query: str | None = None
    if last == "-" and files:
        query = _stdin()
    elif last == "-" or _is_there(last) or is_capture_name(last) or ("://" in last and " " not in last):
        files.append(last)
    else:
        query = last
    if not files:
        raise click.UsageError(f"no file before the query {query!r}")
    if query is None:
        _check_order(files)
    folders = tuple(Path(file) for file in files if is_table_folder(Path(file)))
    captures = tuple(file for file in files if Path(file) not in folders)
    for file in captures:
        if Path(file).is_dir():
            raise click.UsageError(f"{file}: a folder without tables (sub-folders such as messages)")
    return SqlArguments(captures, folders, None if query is None else escaped(_full(query)))


def _check_order(files: Sequence[str]) -> None:
    """Raise click.UsageError where a query stands before the files."""
    for file in files:
        if not _is_there(file) and not is_capture_name(file) and (" " in file or file in TABLES or file[:1] == ":"):
            raise click.UsageError(f"no file {file!r}; the query comes after the files: mqsniff sql FILE... {file!r}")


def _check_inputs(captures: Sequence[str]) -> None:
    """Raise click.UsageError for a file that is not there."""
    for capture in captures:
        if capture != "-" and "://" not in capture and not _is_there(capture):
            raise click.UsageError(f"{capture}: no such file")


def _full(query: str) -> str:
    """A query, or the one that a name such as :slow means; raises click.UsageError for a name that there is not."""
    name = query.strip()
    if name in TABLES:
        return query
    if name.isidentifier():
        raise click.UsageError(unknown("table", name, TABLES))
    if not name.startswith(":"):
        return query
    from mqsniff.answers.queries import named_queries

    known = named_queries()
    if name[1:] not in known:
        raise click.UsageError(unknown("query", name, [f":{each}" for each in known]))
    return known[name[1:]].sql


def _stdin() -> str:
    """The query that stands on stdin; raises click.UsageError where it cannot be read."""
    try:
        return sys.stdin.read()
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"stdin: {getattr(error, 'strerror', None) or 'no UTF-8'}") from None


def _is_there(text: str) -> bool:
    """Whether a file has this name; a query may be too long for one, or hold what no name can."""
    try:
        return text != "" and Path(text).exists()
    except (OSError, ValueError):
        return False


class QueryTables:
    """What a query may ask: tables of folders, and those that captures are decoded into, below ``place``."""

    def __init__(self, folders: Sequence[Path], *, captures: bool, place: Path, limits: Limits) -> None:
        from mqsniff.answers.folders import table_files

        self._limits = limits
        self._place = place
        self._decoded = place / "tables"
        named = [_plainly_named(folder, place / f"folder-{index}") for index, folder in enumerate(folders)]
        self._stored = [(folder, table_files(folder)) for folder in named]
        self._there = tables_in(self._stored, list(TABLES) if captures else [])
        self.complete = not captures
        """Whether the tables hold what they will hold."""

    def database(self, cpu_seconds: int | None) -> Database:
        """A database that can read the files of these tables; it is started now, and shows none of them yet."""
        from mqsniff.lockedsql.database import Database

        found = {file.resolve().parent for _, tables in self._stored for files in tables.values() for file in files}
        return Database(
            self._place / "spill",
            self._limits,
            readable=[self._place, *found],
            cpu_seconds=cpu_seconds,
            private=self._place,
        )

    def open_in(self, database: Database) -> Database:
        """Let a database show these tables; raises FolderError."""
        from mqsniff.answers.folders import table_dataset

        datasets: dict[str, Any] = {
            table: table_dataset(table, [(folder, files.get(table, ())) for folder, files in self._stored])
            for table in self._there
        }
        return database.open(datasets)

    def counted(self) -> Iterator[tuple[str, int, list[str]]]:
        """Each table with its rows and columns."""
        from mqsniff.answers.folders import table_dataset

        for table in self._there:
            files = [(folder, files[table]) for folder, files in self._stored if table in files]
            dataset = table_dataset(table, files)
            yield table, dataset.count_rows(), dataset.schema.names

    def decode(self, captures: Sequence[str], needed: tuple[TableName, ...], options: dict[str, Any]) -> int:
        """Decode captures into some tables; the exit code of the run."""
        from mqsniff.answers.folders import table_files
        from mqsniff.cli.jobs import run_files
        from mqsniff.cli.progress import Progress

        self._there = tables_in(self._stored, list(needed))
        filters = filters_of(options)
        wanted = RunOptions(
            output="parquet",
            out=self._decoded,
            is_temporary=True,
            tables=needed,
            filters=filters,
            **options,
        )
        progress = Progress(silent_stdout=True)
        code, read = run_files(tuple(captures), wanted, progress)
        self.complete = any(not capture.unreadable for capture in read)
        if self.complete:
            self._stored.append((self._decoded, table_files(self._decoded)))
        return code


def _plainly_named(folder: Path, link: Path) -> Path:
    """A folder under a name that can be sent to another process: names may be any bytes, Arrow's are UTF-8."""
    from mqsniff.sinks.outputfolder import is_unicode

    if is_unicode(str(folder.absolute())):
        return folder
    link.symlink_to(folder.absolute())
    return link


def tables_in(stored: Sequence[tuple[Path, Mapping[str, object]]], more: Iterable[str]) -> list[str]:
    """The tables of folders and some more, in their usual order."""
    there = {*more, *(table for _, files in stored for table in files)}
    return [table for table in TABLES if table in there] + sorted(there - {*TABLES})


def show_tables(tables: QueryTables) -> None:
    """List tables, their rows and their columns, and some queries to begin with."""
    from mqsniff.answers.queries import named_queries
    from mqsniff.cli.grid import show_grid

    rows = [(table, f"{count:,}", ", ".join(names)) for table, count, names in tables.counted()]
    show_grid("", ("table", "rows", "columns"), rows, numbers=(1,))
    remark("ask for example, or by a table's name what its columns mean; mqsniff sql --queries lists more:")
    for name in ("slow", "errors"):
        remark(f"  mqsniff sql FILE... :{name:<8}  {named_queries()[name].about}")
    remark("  mqsniff sql FILE... 'select protocol, name, count(*) as messages from messages group by all'")


def show_queries() -> None:
    """List the queries that have a name."""
    from mqsniff.answers.queries import named_queries
    from mqsniff.cli.grid import show_grid

    rows = [(f":{query.name}", f"{query.about} {query.remark}".strip()) for query in named_queries().values()]
    show_grid("", ("query", "what it tells"), rows)


def show_columns(name: str) -> None:
    """List the columns of a table, and what they mean."""
    from mqsniff.cli.grid import show_grid

    columns = next(columns for table, columns in TABLES.items() if table == name)
    rows = [(c.name, c.type, c.doc + (f" ({c.unit})" if c.unit else "")) for c in columns]
    show_grid("", ("column", "type", "what it means"), rows)


def _answer(database: Database, query: str, output: str, out: Path | None) -> None:
    """Run the query and write its result."""
    from mqsniff.cli.results import write_parquet, write_result

    schema, batches = database.run(query)
    if out is None:
        write_result(output, schema, batches)
        return
    count = write_parquet(out, schema, batches)
    remark(f"{count:,} row{'' if count == 1 else 's'} in {out}")
