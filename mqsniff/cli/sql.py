"""``mqsniff sql FILE… QUERY``: captures or folders of tables in, the result of a query out.

1. What can be known to be wrong is told before anything is decoded: the query is first held against empty tables.
2. Captures are decoded into a folder of their own, only the tables that the query reads; it goes whatever happens.
3. A signal ends the decoding and the query; half of the tables are not asked.
4. Captures and folders given together are one set of tables.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from mqsniff.answers.captures import is_capture_name
from mqsniff.cli.filtering import filter_options, filters_of, where_option
from mqsniff.cli.known import OneOf, unknown
from mqsniff.cli.options import RunOptions, decode_options
from mqsniff.cli.sections import SectionedCommand, option
from mqsniff.cli.signals import INTERRUPTED, TERMINATED, code_of, ended_by_sigterm
from mqsniff.cli.talk import say
from mqsniff.filters.itemfilter import Filters
from mqsniff.tables.schemas import TABLES

if TYPE_CHECKING:
    from mqsniff.limits import Limits
    from mqsniff.lockedsql import Database

OUTPUTS: Final = ("table", "csv", "ndjson", "json", "parquet")

EPILOG: Final = """\b
Examples:
  mqsniff sql capture.pcap             which tables and columns there are
  mqsniff sql capture.pcap exchanges   what the columns of a table mean
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


@click.command(cls=SectionedCommand, epilog=EPILOG, no_args_is_help=True)
@click.argument("arguments", nargs=-1, required=True, metavar="FILE... [QUERY]")
@option(
    _SECTION, "-o", "--output", type=OneOf("output", OUTPUTS),
    help="Form of the result.  [default: table on a terminal, ndjson in a pipe]"
)  # fmt: skip
@option(_SECTION, "--out", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False),
        help="Parquet: file to write the result to.")  # fmt: skip
@option(_SECTION, "--overwrite", is_flag=True, help="Parquet: replace the file.")
@filter_options
@where_option
@decode_options
def command(
    arguments: tuple[str, ...], output: str | None, out: Path | None, *, overwrite: bool, **options: Any
) -> int:
    """Ask the tables with SQL.

    FILE is a capture, or a folder of tables that `mqsniff decode -o parquet` or `mqsniff batch` wrote. QUERY is one
    SELECT in DuckDB's dialect over the tables connections, messages, exchanges, partitions, records, topics and
    problems, or - for stdin; without one, tables and columns are listed, and the name of a table alone says what its
    columns mean. It can read nothing but these tables. Times are UTC.

    Filters and the options for decoding choose what captures put into the tables.
    """
    from mqsniff.answers.folders import FolderError
    from mqsniff.lockedsql import QueryError

    if (output == "parquet") != (out is not None) or (overwrite and out is None):
        raise click.UsageError("-o parquet and --out FILE [--overwrite] belong together; other results go to stdout")
    if out is not None and out.exists() and not overwrite:
        raise click.UsageError(f"{out} is there already; --overwrite replaces it")
    captures, folders, query = read_arguments(arguments)
    if not captures and (options["where"] is not None or any(options[name] for name in Filters.__dataclass_fields__)):
        raise click.UsageError("filters choose what captures put into the tables; ask folders of tables with WHERE")
    try:
        if query is None:
            show_tables(folders)
            return 0
        if query.strip() in TABLES:
            show_columns(query.strip())
            return 0
        if query.strip().isidentifier():
            raise click.UsageError(unknown("table", query.strip(), TABLES))
        with ended_by_sigterm(), TemporaryDirectory(prefix="mqsniff-sql-") as place:
            tables = QueryTables(folders, captures=bool(captures), place=Path(place), limits=options["limits"])
            tables.check(query)
            code = tables.decode(captures, query, options) if captures else 0
            if code not in (INTERRUPTED, TERMINATED) and tables.complete:
                _answer(tables, query, output or ("table" if sys.stdout.isatty() else "ndjson"), out)
            return code
    except (QueryError, FolderError) as error:
        say(f"mqsniff sql: {error}")
        return 2
    except KeyboardInterrupt as interrupt:
        return code_of(interrupt)


def read_arguments(arguments: Sequence[str]) -> SqlArguments:
    """Tell files, folders and the query apart; raises click.UsageError where there is no input."""
    from mqsniff.answers.folders import is_table_folder
    from mqsniff.tables.values import escaped

    *files, last = arguments
    query: str | None = None
    if last == "-" and files:
        query = _stdin()
    elif last == "-" or _is_there(last) or is_capture_name(last) or ("://" in last and " " not in last):
        files.append(last)
    else:
        query = last
    if not files:
        raise click.UsageError(f"no file in front of the query {query!r}")
    folders = tuple(Path(file) for file in files if is_table_folder(Path(file)))
    captures = tuple(file for file in files if Path(file) not in folders)
    for file in captures:
        if Path(file).is_dir():
            raise click.UsageError(f"{file}: a folder without tables (sub-folders such as messages)")
    return SqlArguments(captures, folders, query if query is None else escaped(query))


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
        self._spill = place / "spill"
        self._decoded = place / "tables"
        self._stored = [(folder, table_files(folder)) for folder in folders]
        self._there = tables_in(self._stored, list(TABLES) if captures else [])
        self.complete = not captures
        """Whether the tables hold what they will hold."""

    def open(self) -> Database:
        """The tables as a database; raises FolderError."""
        from mqsniff.answers.folders import table_dataset
        from mqsniff.lockedsql import Database

        datasets: dict[str, Any] = {
            table: table_dataset(table, [(folder, files.get(table, ())) for folder, files in self._stored])
            for table in self._there
        }
        return Database(datasets, self._spill, self._limits)

    def check(self, query: str) -> None:
        """Raise QueryError for a query that cannot be meant."""
        with self.open() as database:
            database.check(query)

    def decode(self, captures: Sequence[str], query: str, options: dict[str, Any]) -> int:
        """Decode captures into the tables that a query reads; the exit code of the run."""
        from mqsniff.answers.folders import table_files
        from mqsniff.cli.progress import Progress
        from mqsniff.cli.run import run
        from mqsniff.lockedsql import needed_tables
        from mqsniff.sources.files import FileSource

        needed = needed_tables(query, self._spill)
        self._there = tables_in(self._stored, list(needed))
        wanted = RunOptions(
            output="parquet",
            out=self._decoded,
            is_temporary=True,
            tables=needed,
            filters=filters_of(options),
            **options,
        )
        progress = Progress(silent_stdout=True)
        source = FileSource(captures, wanted.limits, progress)
        code = run(source, wanted, progress)
        self.complete = any(not capture.unreadable for capture in source.captures)
        if self.complete:
            self._stored.append((self._decoded, table_files(self._decoded)))
        return code


def tables_in(stored: Sequence[tuple[Path, Mapping[str, object]]], more: Iterable[str]) -> list[str]:
    """The tables of folders and some more, in their usual order."""
    there = {*more, *(table for _, files in stored for table in files)}
    return [table for table in TABLES if table in there] + sorted(there - {*TABLES})


def show_tables(folders: Sequence[Path]) -> None:
    """List tables and columns: of folders with their rows, else those that every capture has."""
    from mqsniff.answers.folders import table_dataset, table_files
    from mqsniff.cli.grid import show_grid

    stored = [(folder, table_files(folder)) for folder in folders]
    rows = []
    for table in tables_in(stored, [] if folders else list(TABLES)):
        files = [(folder, files[table]) for folder, files in stored if table in files]
        dataset = table_dataset(table, files)
        counted = (f"{dataset.count_rows():,}",) if folders else ()
        rows.append((table, *counted, ", ".join(dataset.schema.names)))
    show_grid("", ("table", "rows", "columns") if folders else ("table", "columns"), rows)
    say("ask with: mqsniff sql FILE... 'select ... from ...'; a table's name alone explains its columns")


def show_columns(name: str) -> None:
    """List the columns of a table, and what they mean."""
    from mqsniff.cli.grid import show_grid

    columns = next(columns for table, columns in TABLES.items() if table == name)
    rows = [(c.name, c.type, c.doc + (f" ({c.unit})" if c.unit else "")) for c in columns]
    show_grid("", ("column", "type", "what it means"), rows)


def _answer(tables: QueryTables, query: str, output: str, out: Path | None) -> None:
    """Run the query and write its result."""
    from mqsniff.cli.results import write_parquet, write_result

    with tables.open() as database:
        schema, batches = database.run(query)
        if out is None:
            write_result(output, schema, batches)
            return
        count = write_parquet(out, schema, batches)
        say(f"{count:,} row{'' if count == 1 else 's'} in {out}")
