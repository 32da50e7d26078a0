"""Options that ``decode`` and ``live`` share: click parameters in, a ``RunOptions`` out.

1. A value that cannot be meant is refused before anything is read.
2. What needs the list of protocols loads it only when the option is given.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar, get_args

import click

from mqsniff.limits import Limits
from mqsniff.model import ProblemKind, Severity
from mqsniff.sinks.clock import TimeMode
from mqsniff.tables.schemas import STREAM_TABLES, TABLES, TableName

CONDITIONS: Final = ("empty", "answer-error")
FAIL_ON: Final = (*get_args(Severity), *get_args(ProblemKind), *CONDITIONS)
TIME_MODES: Final = get_args(TimeMode)

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What the user asked of a run, whatever its source is."""

    output: str | None
    tables: tuple[TableName, ...]
    verbose: bool
    records: bool
    decode_as: dict[int, str]
    show_secrets: bool
    show_raw: bool
    redact: tuple[str, ...]
    limits: Limits
    fail_on: tuple[str, ...]
    count: int | None
    time: TimeMode
    color: str
    max_bytes: int | None

    def wanted(self, output: str) -> tuple[TableName, ...]:
        """The tables that go out; in NDJSON records are one of them, in text they stand under their message."""
        chosen = self.tables or STREAM_TABLES
        if self.records and output == "ndjson" and "records" not in chosen:
            return (*chosen, "records")
        return chosen

    @property
    def needs_records(self) -> bool:
        """Whether record batches have to be opened."""
        return self.records or "records" in self.tables


def _decode_as(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[int, str]:
    """PORT=PROTO pairs as a dict."""
    if not values:
        return {}
    from mqsniff.decode.registry import Registry, load_dissectors

    known = Registry(load_dissectors()).names()
    chosen: dict[int, str] = {}
    for value in values:
        port, _, name = value.partition("=")
        if not port.isdecimal() or not 0 < int(port) < 65_536:
            raise click.BadParameter(f"{value!r} is no PORT=PROTO, such as 14150=nsq", ctx, param)
        if name not in known:
            raise click.BadParameter(f"no protocol {name!r}; there are {', '.join(known)}", ctx, param)
        chosen[int(port)] = name
    return chosen


def _limits(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> Limits:
    """NAME=VALUE pairs on top of the defaults."""
    limits = Limits()
    for value in values:
        name, _, number = value.partition("=")
        try:
            limits = limits.with_value(name, int(number))
        except KeyError:
            raise click.BadParameter(f"no limit {name!r}; there are {', '.join(Limits.names())}", ctx, param) from None
        except ValueError:
            raise click.BadParameter(f"{value!r}: the value must be a whole number above 0", ctx, param) from None
    return limits


_OPTIONS: Final = (
    click.option("-o", "--output", type=click.Choice(["text", "ndjson"]),
                 help="Form of the output.  [default: text on a terminal, ndjson in a pipe]"),
    click.option("--table", "tables", multiple=True, type=click.Choice(list(TABLES)), metavar="NAME",
                 help=f"Table to show, of {', '.join(TABLES)}; repeatable.  [default: {', '.join(STREAM_TABLES)}]"),
    click.option("-v", "--verbose", is_flag=True, help="Text: show every field of a message under it."),
    click.option("--records", is_flag=True, help="Show records: in text under their message, in NDJSON as a table."),
    click.option("-n", "--max-messages", "count", metavar="COUNT", type=click.IntRange(min=1),
                 help="Stop after COUNT messages."),
    click.option("--decode-as", multiple=True, metavar="PORT=PROTO", callback=_decode_as,
                 help="Read connections to a server port as this protocol; repeatable."),
    click.option("--time", type=click.Choice(TIME_MODES), default="utc", show_default=True, help="Times in text."),
    click.option("--color", type=click.Choice(["auto", "always", "never"]), default="auto", show_default=True,
                 help="Colours in text; auto: on a terminal, unless NO_COLOR is set."),
    click.option("--max-bytes", metavar="N", type=click.IntRange(min=0),
                 help="Bytes of a record's key or value that are shown.  [default: 256 in text, all in NDJSON]"),
    click.option("--show-secrets", is_flag=True, help="Show passwords, tokens and the like."),
    click.option("--show-raw", is_flag=True, help="Show bytes that nobody decoded, not just their size and hash."),
    click.option("--redact", multiple=True, type=click.Choice(["payload"]),
                 help="Leave out the keys, values and headers of records."),
    click.option("--limit", "limits", multiple=True, metavar="NAME=VALUE", callback=_limits,
                 help="Change a cap (`mqsniff protocols --json` lists them); repeatable."),
    click.option("--fail-on", multiple=True, type=click.Choice(FAIL_ON), metavar="KIND",
                 help="Exit 1 when this was found: a kind of problem, a severity (that one or worse), empty (no "
                      "message) or answer-error (a broker answered with an error); repeatable."),
)  # fmt: skip


def run_options(command: Command) -> Command:
    """Add the shared options to a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command
