"""``mqsniff protocols [NAME]``: what can be decoded, as the dissectors describe it themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, get_args

import click

if TYPE_CHECKING:
    from mqsniff.decode.registry import Loaded

EPILOG: Final = """\b
Examples:
  mqsniff protocols         which protocols, and how much of each
  mqsniff protocols nsq     its commands, frames and errors
  mqsniff protocols --json  for programs; with the schema version, the columns of all tables and the limits
"""


@click.command(epilog=EPILOG)
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def command(ctx: click.Context, name: str | None, *, as_json: bool) -> int:
    """Show what can be decoded.

    All protocols, or everything of the protocol NAME.
    """
    from mqsniff.decode.registry import load_dissectors

    loaded = load_dissectors()
    chosen = [entry for entry in loaded if name is None or name in _names(entry)]
    if not chosen:
        ctx.fail(f"no protocol {name!r}; there are {', '.join(n for entry in loaded for n in _names(entry))}")
    if as_json:
        _print_json(chosen)
    elif name is None:
        _print_overview(chosen)
    else:
        _print_details(chosen)
    for entry in loaded:
        if entry.problem:
            click.echo(f"mqsniff: {entry.problem}", err=True)
    return 0


def _names(entry: Loaded) -> tuple[str, ...]:
    """Protocols of an entry point; its own name where it could not be loaded."""
    return entry.dissector.names if entry.dissector is not None else (entry.name,)


def _tables(entry: Loaded) -> dict[str, list[dict[str, Any]]]:
    """What a dissector says that it knows: name of a table -> its rows."""
    return dict(entry.dissector.describe()) if entry.dissector is not None else {}


def _ports(entry: Loaded) -> list[int]:
    return sorted(entry.dissector.ports) if entry.dissector is not None else []


def _print_overview(entries: list[Loaded]) -> None:
    from mqsniff.cli.grid import show_grid

    rows = [
        (
            ", ".join(_names(entry)),
            ", ".join(map(str, _ports(entry))),
            ", ".join(f"{len(rows)} {_spoken(table)}" for table, rows in _tables(entry).items()),
        )
        for entry in entries
    ]
    show_grid("", ("protocol", "ports", "decodes"), rows)


def _print_details(entries: list[Loaded]) -> None:
    from mqsniff.cli.grid import show_grid

    for entry in entries:
        for index, (table, rows) in enumerate(_tables(entry).items()):
            if index:
                click.echo()
            columns = list(dict.fromkeys(column for row in rows for column in row))
            cells = [[_cell(row.get(column)) for column in columns] for row in rows]
            show_grid(f"{len(rows)} {_spoken(table)}", [_spoken(column) for column in columns], cells)


def _print_json(entries: list[Loaded]) -> None:
    import orjson

    from mqsniff import __version__
    from mqsniff.limits import Limits
    from mqsniff.model import ProblemKind
    from mqsniff.tables.schemas import SCHEMA_VERSION, TABLES

    report = {
        "mqsniff": __version__,
        "schema_version": SCHEMA_VERSION,
        "protocols": [
            {
                "names": _names(entry),
                "ports": _ports(entry),
                "problem": entry.problem or None,
                "counts": {table: len(rows) for table, rows in _tables(entry).items()},
                **_tables(entry),
            }
            for entry in entries
        ],
        "tables": {table: [column._asdict() for column in columns] for table, columns in TABLES.items()},
        "problem_kinds": get_args(ProblemKind),
        "limits": {name: limit._asdict() for name, limit in Limits.about().items()},
    }
    click.echo(orjson.dumps(report, option=orjson.OPT_INDENT_2).decode())


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
