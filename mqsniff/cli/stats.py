"""``mqsniff stats FILE…``: captures in, what is in them, what is wrong and where, on one screen out.

1. Nothing but counts is kept, so memory does not grow with the captures.
2. Ctrl-C shows what was counted by then.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from mqsniff.cli.filtering import filter_options, where_option
from mqsniff.cli.known import OneOf
from mqsniff.cli.options import RunOptions, decode_options
from mqsniff.cli.sections import SectionedCommand, option
from mqsniff.cli.talk import remark, say, tell_key_logs
from mqsniff.tables.schemas import TABLES

if TYPE_CHECKING:
    from mqsniff.answers.stats import RunFacts
    from mqsniff.answers.stats.keeping import StatRow
    from mqsniff.cli.choice import CountedChain
    from mqsniff.cli.statsgrid import GridLines
    from mqsniff.dissector import Dissector, Settings
    from mqsniff.model import Item
    from mqsniff.pipeline import Pipeline

BY: Final = ("broker", "client", "topic", "connection")
TOP: Final = 5

EPILOG: Final = """\b
Examples:
  mqsniff stats capture.pcapng                what is in it, what is wrong
  mqsniff stats --all capture.pcapng          every section, every row
  mqsniff stats --by broker day-*.pcap.zst    commands of each broker
  mqsniff stats --topic orders --from 10:00 x.pcap
  mqsniff stats today.pcap --against yesterday.pcap
  mqsniff stats --json x.pcap | jq '.commands[] | select(.errors > 0)'

docs/stats.md says what each number means.
"""

_PAGE: Final = "Page"


class Collected(NamedTuple):
    """What a run came to."""

    sections: dict[Any, list[StatRow]]
    code: int
    ended: bool = False
    """Whether a signal ended it."""


class EndedRun(NamedTuple):
    """How a run ended, and what it knows beside its items."""

    facts: RunFacts
    code: int
    by_signal: bool


@click.command(cls=SectionedCommand, epilog=EPILOG, no_args_is_help=True)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@option(_PAGE, "--all", "everything", is_flag=True, help="Show every section and every row, not the first screen.")
@option(_PAGE, "--top", metavar="N", type=click.IntRange(min=1), help=f"Rows of each section.  [default: {TOP}]")
@option(_PAGE, "--by", type=OneOf("division", BY), help="Count commands apart for each broker, client, ….")
@option(
    _PAGE,
    "--against",
    multiple=True,
    metavar="FILE",
    help="Compare with another capture: new and gone errors, commands, clients, latency that moved; repeatable.",
)
@option(_PAGE, "--json", "as_json", is_flag=True, help="Print JSON: a list of rows for each section.")
@option(_PAGE, "--color", type=OneOf("choice", ("auto", "always", "never")), default="auto", show_default=True,
        help="Colours; auto: on a terminal, unless NO_COLOR is set.")  # fmt: skip
@filter_options
@where_option
@decode_options
def command(files: tuple[str, ...], *, everything: bool, top: int | None, by: str | None, as_json: bool,
            against: tuple[str, ...], color: str, **options: Any) -> int:  # fmt: skip
    """Count what is in captures: one screen that says what is in them, what is wrong and where.

    Span, trust in the capture, errors and missing answers, protocols, commands with their latency, topics, clients,
    groups, network. FILE is as for `mqsniff decode`; filters choose what is counted.
    """
    wanted = RunOptions.of({**options, "tables": tuple(TABLES)})
    collected = _collected(files, wanted, by)
    before = _collected(against, wanted, by) if against and collected is not None and not collected.ended else None
    if collected is None or (against and before is None and not collected.ended):
        return 2
    if before is not None:
        from mqsniff.answers.stats import changes

        collected.sections["changes"] = changes(collected.sections, before.sections)
    code = collected.code or (before.code if before is not None else 0)
    if as_json:
        import orjson

        click.echo(orjson.dumps(wanted.shown.plain(collected.sections), option=orjson.OPT_INDENT_2).decode())
        return code
    from mqsniff.cli.statspage import StatsPage

    page = StatsPage(_lines(color), top=None if everything else top or TOP, by=by)
    for line in page.of(collected.sections):
        click.echo(line, color=True)
    return code


def _lines(color: str) -> GridLines:
    """Lines for stdout, as wide as it is."""
    from mqsniff.cli.outputs import wants_color
    from mqsniff.cli.statsgrid import GridLines

    terminal = sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if terminal else None
    return GridLines(color=wants_color(color, terminal=terminal), width=width)


def _collected(files: tuple[str, ...], options: RunOptions, by: Any) -> Collected | None:
    """Everything counted; None where no input could be read."""
    from mqsniff.answers.stats import TrafficStats

    counted: list[TrafficStats] = []

    def begin(known: list[type[Dissector]]) -> Callable[[Item], None]:
        counted.append(TrafficStats(known, options.limits, by))
        return counted[0].take

    ended = counted_run(files, options, begin)
    if ended is None:
        return None
    return Collected(counted[0].rows(ended.facts), ended.code, ended.by_signal)


def counted_run(
    files: tuple[str, ...], options: RunOptions, begin: Callable[[list[type[Dissector]]], Callable[[Item], None]]
) -> EndedRun | None:
    """A run whose items go to what ``begin`` returns; None where no input could be read."""
    from mqsniff.answers.stats import facts_of
    from mqsniff.cli.choice import filter_chain
    from mqsniff.cli.pluginwatch import watched_plugins
    from mqsniff.cli.progress import Progress
    from mqsniff.cli.signals import code_of, ended_by_sigterm
    from mqsniff.decode.registry import load_dissectors
    from mqsniff.pipeline import Pipeline
    from mqsniff.sources.files import FileSource

    progress = Progress(silent_stdout=True)
    pipeline = Pipeline(
        FileSource(files, options.limits, progress),
        _settings(options),
        decode_as=options.decode_as,
        domain=options.domain,
        keys=options.tls_keys,
    )
    choice = filter_chain(options, pipeline.captures)
    take = begin([entry.dissector for entry in load_dissectors() if entry.dissector is not None])
    started, code = time.monotonic(), 0
    try:
        with ended_by_sigterm(), progress, watched_plugins(pipeline.captures):
            for item in choice.of(pipeline.items()):
                if item is not None:
                    take(item)
    except KeyboardInterrupt as interrupt:
        code = code_of(interrupt)
    unreadable = [capture for capture in pipeline.captures if capture.unreadable]
    for capture in unreadable:
        say(f"mqsniff: {capture.name}: {capture.unreadable}")
    if unreadable and len(unreadable) == len(pipeline.captures):
        return None
    tell_key_logs(options.tls_keys)
    _say_totals(pipeline, choice, time.monotonic() - started)
    return EndedRun(facts_of(pipeline), code or (2 if unreadable else 0), bool(code))


def _say_totals(pipeline: Pipeline, choice: CountedChain, seconds: float) -> None:
    """Say what there was, and why there may be little of it."""
    dropped = sum(capture.dropped for capture in pipeline.captures)
    remark(choice.everything.totals(pipeline.totals, dropped, seconds))
    for sentence in choice.sentences():
        remark(sentence)
    if (explanation := choice.everything.explanation(pipeline.totals)) is not None:
        remark(explanation)


def _settings(options: RunOptions) -> Settings:
    """What is asked of dissectors: of records their number and size, unless filters look at them."""
    settings = options.settings("ndjson")
    if options.filters or options.where is not None:
        return settings
    return replace(settings, wanted=settings.wanted | {"amounts"})
