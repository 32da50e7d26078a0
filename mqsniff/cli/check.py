"""``mqsniff check DIR…``: compares every capture below folders with its golden; exit 1 if they differ."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from mqsniff.cli.options import tls_option
from mqsniff.cli.sections import SectionedCommand, option
from mqsniff.cli.talk import say, tell_key_logs

if TYPE_CHECKING:
    from mqsniff.answers.check import Checked, Difference
    from mqsniff.tls.keylog import KeyLog

EPILOG: Final = """The golden of x.pcap is x.pcap.golden.ndjson beside it: the rows of all tables.
TLS of x.pcap is decrypted with the key log x.keys, if that lies beside it.

\b
Examples:
  mqsniff check pcaps            exit 1 if a row differs or a golden lacks
  mqsniff check --update pcaps   write the goldens anew; read git diff then
"""

SHOWN: Final = 10
VALUE_WIDTH: Final = 100


@click.command(cls=SectionedCommand, epilog=EPILOG, no_args_is_help=True)
@click.argument("paths", nargs=-1, required=True, metavar="DIR...", type=click.Path(exists=True, path_type=Path))
@option("Goldens", "--update", is_flag=True, help="Write the goldens of captures that have none or differ.")
@tls_option
@option("Goldens", "-v", "--verbose", is_flag=True, help=f"Show all differences, not {SHOWN} a capture.")
def command(paths: tuple[Path, ...], *, update: bool, verbose: bool, tls_keys: tuple[KeyLog, ...]) -> int:
    """Compare captures with their goldens.

    Decodes every capture under DIR and compares all rows, field by field.
    """
    from mqsniff.answers.captures import captures_under
    from mqsniff.answers.check import Checked, GoldenError, check_capture, stale_goldens

    captures = captures_under(paths)
    if not captures:
        say(f"mqsniff: no captures under {', '.join(map(str, paths))}")
        return 2
    results: list[Checked] = []
    for capture in captures:
        try:
            checked = check_capture(capture, update=update, keys=tls_keys)
        except (GoldenError, OSError) as error:
            say(f"mqsniff: {error}")
            return 2
        results.append(checked)
        _show_differences(checked, len(checked.differences) if verbose else SHOWN)
    tell_key_logs(tls_keys)
    results += [Checked(golden, "no capture") for golden in stale_goldens(captures, paths)]
    _show_summary(results)
    return 0 if all(checked.status in ("same", "updated") for checked in results) else 1


def _show_differences(checked: Checked, shown: int) -> None:
    """Print the differences of one capture, by row and field."""
    if not checked.differences:
        return
    from mqsniff.tables.escape import safe

    click.echo(safe(str(checked.capture)))
    for difference in checked.differences[:shown]:
        _show_difference(difference)
    hidden = len(checked.differences) - shown
    if hidden > 0:
        click.echo(f"  and {hidden} more (-v shows all)")
    click.echo()


def _show_difference(difference: Difference) -> None:
    from mqsniff.tables.escape import safe

    sign = {"new": "+", "missing": "-", "changed": "~", "moved": "="}[difference.kind]
    click.echo(f"  {sign} {safe(difference.row)}")
    for change in difference.changes:
        click.echo(f"      {safe(change.path)}: {_value(change.golden)} -> {_value(change.now)}")


def _value(value: Any) -> str:
    """A value on one line, cut to ``VALUE_WIDTH``."""
    import orjson

    from mqsniff.answers.check import ABSENT
    from mqsniff.tables.escape import safe

    if value is ABSENT:
        return "(absent)"
    text = safe(orjson.dumps(value).decode())
    return text if len(text) <= VALUE_WIDTH else f"{text[:VALUE_WIDTH]}… ({len(text)} characters)"


def _show_summary(results: list[Checked]) -> None:
    from mqsniff.cli.grid import show_grid

    rows = [
        (
            str(checked.capture),
            str(checked.rows["messages"]),
            str(checked.rows["problems"]),
            str(checked.rows.total()),
            f"{len(checked.differences)} differ" if checked.differences else checked.status,
        )
        for checked in results
    ]
    show_grid("", ("capture", "messages", "problems", "rows", "result"), rows)
