"""``mqsniff protocols [NAME]``: what can be decoded, by the dissectors' own descriptions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from mqsniff.cli.filtering import complete_protocol
from mqsniff.cli.known import unknown
from mqsniff.cli.sections import SectionedCommand, option
from mqsniff.cli.talk import remark, say

if TYPE_CHECKING:
    from mqsniff.decode.registry import LoadedDissector

EPILOG: Final = """\b
Examples:
  mqsniff protocols           which protocols, and how much of each
  mqsniff protocols nsq       its commands, frames, formats and errors
  mqsniff protocols tls       how it is known, and what is shown of it
  mqsniff protocols problems  the kinds of problems, and what to do about each
  mqsniff protocols limits    their ranges, and when to change them
  mqsniff protocols --seen pcaps   what the captures in pcaps exercise
  mqsniff protocols --json    all of it for programs, and all tables' columns
"""

LIMITS: Final = "limits"
PROBLEMS: Final = "problems"

DescribedRows = list[dict[str, Any]]


@click.command(cls=SectionedCommand, epilog=EPILOG)
@click.argument("name", required=False, shell_complete=complete_protocol)
@option("What to show", "--seen", multiple=True, metavar="DIR", type=click.Path(exists=True, path_type=Path),
        help="Show what captures under DIR exercise: commands, versions, codes, codecs, kinds of problems; "
             "repeatable.")  # fmt: skip
@option("Output", "-v", "--verbose", is_flag=True,
        help="Show also how it was checked: coverage, oracles; of --seen every name.")  # fmt: skip
@option("Output", "--json", "as_json", is_flag=True, help="Print JSON, with everything.")
@click.pass_context
def command(ctx: click.Context, name: str | None, *, seen: tuple[Path, ...], verbose: bool, as_json: bool) -> int:
    """Show what can be decoded.

    All protocols, or everything of the protocol NAME; NAME may also be limits or problems.
    """
    from mqsniff.decode.nameable import FOREIGN
    from mqsniff.decode.registry import load_dissectors, protocols

    loaded = load_dissectors()
    there = [*dict.fromkeys(n for entry in loaded for n in _names(entry)), *protocols(loaded), LIMITS, PROBLEMS]
    if name is not None and name not in there:
        ctx.fail(unknown("protocol", name, list(dict.fromkeys(there))))
    chosen = [entry for entry in loaded if name is None or name in _names(entry)]
    if seen:
        from mqsniff.cli.seen import show_seen

        return show_seen(seen, chosen, verbose=verbose, as_json=as_json)
    if as_json:
        _print_json(chosen, name)
    elif name is None:
        _print_overview(loaded, verbose=verbose)
    elif chosen:
        _print_details(chosen, verbose=verbose)
    elif name == LIMITS:
        _print_tables({LIMITS: _limit_rows()})
    elif name == PROBLEMS:
        _print_tables({"kinds_of_problems": _kind_rows()})
    else:
        _print_tables({"protocol": [_foreign_row(name, FOREIGN[name])]})
    for entry in loaded:
        if entry.problem:
            say(f"mqsniff: {entry.problem}")
    return 0


def _names(entry: LoadedDissector) -> tuple[str, ...]:
    """Protocols of an entry point; its own name if it could not be loaded."""
    return entry.dissector.names if entry.dissector is not None else (entry.name,)


def _tables(entry: LoadedDissector, *, verbose: bool = True) -> dict[str, DescribedRows]:
    """The description of a dissector: name of a table -> its rows; ``verbose``: also those for developers."""
    if entry.dissector is None:
        return {}
    tables: dict[str, DescribedRows] = dict(entry.dissector.describe())
    if verbose:
        return tables
    hidden = entry.dissector.makers
    return {
        table: [{column: value for column, value in row.items() if column not in hidden} for row in rows]
        for table, rows in tables.items()
        if table not in hidden
    }


def _named_rows(entry: LoadedDissector) -> DescribedRows:
    """What can be said of the protocols of a dissector without ``describe``."""
    from mqsniff.decode.registry import package_of

    if entry.dissector is None:
        return []
    messages = sorted(entry.dissector.message_names() or ())
    more = {"ports": _ports(entry), "from": package_of(entry.name), "messages": messages, "decoded": True}
    return [{"name": name, **more} for name in entry.dissector.names]


def _ports(entry: LoadedDissector) -> list[int]:
    return sorted(entry.dissector.ports) if entry.dissector is not None else []


def _limit_rows() -> DescribedRows:
    from mqsniff.limits import Limits

    return [
        {
            "limit": name,
            "default": limit.default,
            "least": limit.least,
            "greatest": limit.most,
            "unit": limit.unit or "number",
            "what_it_bounds": limit.why,
            "what_to_do": limit.advice,
        }
        for name, limit in Limits.about().items()
    ]


def _kind_rows() -> DescribedRows:
    from mqsniff.model.kinds import PROBLEM_KINDS

    return [
        {"kind": kind, "meaning": about.meaning, "what_to_do": about.advice} for kind, about in PROBLEM_KINDS.items()
    ]


def _foreign_row(name: str, foreign: Any) -> dict[str, Any]:
    return {"name": name, **foreign._asdict(), "decoded": False}


def _print_overview(entries: list[LoadedDissector], *, verbose: bool) -> None:
    from mqsniff.cli.grid import show_grid
    from mqsniff.decode.nameable import FOREIGN
    from mqsniff.decode.registry import protocols

    rows = [(", ".join(_names(entry)), ", ".join(map(str, _ports(entry))), _held(entry, verbose)) for entry in entries]
    decoded = {name for entry in entries for name in _names(entry)}
    rows += [(name, "", "named, not decoded") for name in protocols(entries) if name in FOREIGN and name not in decoded]
    show_grid("", ("protocol", "ports", "what is known"), rows)
    remark("mqsniff protocols NAME shows all of one; NAME may also be limits or problems")


def _held(entry: LoadedDissector, verbose: bool) -> str:  # noqa: FBT001  # as the option
    """The sizes of a dissector's tables, in words; without tables, where it comes from."""
    from mqsniff.decode.registry import package_of

    if entry.dissector is None:
        return "cannot be loaded"
    counts = ", ".join(_counted(table, rows) for table, rows in _tables(entry, verbose=verbose).items())
    return counts or " from ".join(filter(None, ("decoded", package_of(entry.name))))


def _print_details(entries: list[LoadedDissector], *, verbose: bool) -> None:
    for entry in entries:
        _print_tables(_tables(entry, verbose=verbose) or {"protocol": _named_rows(entry)})


def _print_tables(tables: dict[str, DescribedRows]) -> None:
    from mqsniff.cli.grid import show_table

    for index, (table, rows) in enumerate(tables.items()):
        if index:
            click.echo()
        columns = _columns(rows)
        cells = [[_cell(row.get(column)) for column in columns] for row in rows]
        show_table(_counted(table, rows), [_spoken(column) for column in columns], cells)


def _columns(rows: DescribedRows) -> Sequence[str]:
    """All columns of a table, except those that are empty in every row."""
    named = dict.fromkeys(column for row in rows for column in row)
    return [column for column in named if any(_cell(row.get(column)) for row in rows)]


def _print_json(entries: list[LoadedDissector], name: str | None) -> None:
    import orjson

    click.echo(orjson.dumps(dict(_report(entries, name)), option=orjson.OPT_INDENT_2).decode())


def _report(entries: list[LoadedDissector], name: str | None) -> Iterator[tuple[str, Any]]:
    """The parts of the report; with ``name``, without other protocols."""
    from mqsniff import __version__
    from mqsniff.decode.nameable import FOREIGN
    from mqsniff.decode.registry import package_of
    from mqsniff.limits import Limits
    from mqsniff.tables.schemas import SCHEMA_VERSION, TABLES

    yield "mqsniff", __version__
    yield "schema_version", SCHEMA_VERSION
    yield (
        "protocols",
        [
            {
                "names": _names(entry),
                "ports": _ports(entry),
                "from": package_of(entry.name) or None,
                "problem": entry.problem or None,
                "counts": {table: len(rows) for table, rows in _tables(entry).items()},
                **_tables(entry),
            }
            for entry in entries
        ],
    )
    yield "foreign", [_foreign_row(n, foreign) for n, foreign in FOREIGN.items() if name in (None, n)]
    yield "tables", {table: [column._asdict() for column in columns] for table, columns in TABLES.items()}
    kinds = _kind_rows()
    yield "problem_kinds", [row["kind"] for row in kinds]
    yield "kinds_of_problems", kinds
    yield "limits", {limit: about._asdict() for limit, about in Limits.about().items()}


def _counted(table: str, rows: DescribedRows) -> str:
    """The title of a table, with its number of rows."""
    return f"{len(rows)} {_spoken(table.removesuffix('s') if len(rows) == 1 else table)}"


def _spoken(name: str) -> str:
    return name.replace("_", " ")


def _cell(value: object) -> str:
    """A value of a description as a cell."""
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case list() | tuple() | set() | frozenset():
            return ", ".join(map(_cell, value))
    return str(value)
