"""``mqsniff report FILE… --out report.html``: captures in, one HTML page about them out, to look at and to pass on.

1. Its numbers are those of ``mqsniff stats`` with the same options.
2. Ctrl-C writes the page of what was counted by then.
3. The page is written beside its name, then moved there: a run that fails leaves an old page as it is.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from mqsniff.cli.filtering import filter_options, where_option
from mqsniff.cli.options import RunOptions, decode_options
from mqsniff.cli.sections import SectionedCommand, SectionedOption, option
from mqsniff.cli.stats import EndedRun, counted_run
from mqsniff.cli.talk import remark
from mqsniff.tables.schemas import TABLES

if TYPE_CHECKING:
    from collections.abc import Callable

    from mqsniff.answers.report import TrafficReport
    from mqsniff.dissector import Dissector
    from mqsniff.model import Item

EPILOG: Final = """\b
Examples:
  mqsniff report capture.pcapng                report.html about all of it
  mqsniff report day-*.pcap.zst --out day.html
  mqsniff report --topic orders --from 10:00 x.pcap

Open the page in any browser: it needs no network, and sends nothing. docs/report.md says what it shows.
"""

_PAGE: Final = "Page"
_ARGUMENTS: Final = "mqsniff.report.arguments"


class ReportCommand(SectionedCommand):
    """The command; it remembers its words, of which the page makes further commands."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse, as click does."""
        ctx.meta[_ARGUMENTS] = list(args)
        return super().parse_args(ctx, args)


@click.command(cls=ReportCommand, epilog=EPILOG, no_args_is_help=True)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@option(_PAGE, "--out", metavar="PAGE", type=click.Path(dir_okay=False), default="report.html", show_default=True,
        help="The page to write; - for stdout.")  # fmt: skip
@filter_options
@where_option
@decode_options
@click.pass_context
def command(ctx: click.Context, /, files: tuple[str, ...], *, out: str, **options: Any) -> int:
    """Write one HTML page about captures, to look at and to pass on.

    What they hold and how far they can be trusted, traffic, latency, errors, groups and connections over time, and
    tables that sort and filter; each number has the command that shows the rows after it. FILE is as for
    `mqsniff decode`; filters choose what the page is about.
    """
    from mqsniff.answers.report import TrafficReport

    wanted = RunOptions.of({**options, "tables": tuple(TABLES)})
    reports: list[TrafficReport] = []

    def begin(known: list[type[Dissector]]) -> Callable[[Item], None]:
        reports.append(TrafficReport(known, wanted.limits))
        return reports[0].take

    ended = counted_run(files, wanted, begin)
    if ended is None:
        return 2
    page = _page(reports[0], ended, wanted, _words(ctx, files)).encode()
    if out == "-":
        sys.stdout.buffer.write(page)
        return ended.code
    _write(Path(out), page)
    remark(f"{out}: {len(page) / 1e6:.2f} MB, open it in a browser")
    return ended.code


def _page(report: TrafficReport, ended: EndedRun, options: RunOptions, words: list[str]) -> str:
    """The page as text."""
    from mqsniff.answers.report import document_of, html_of
    from mqsniff.answers.report.document import PageRun
    from mqsniff.cli.statsgrid import GridLines
    from mqsniff.cli.statshead import StatsHead

    sections = {str(name): rows for name, rows in report.stats.rows(ended.facts).items()}
    lines = list(StatsHead(GridLines(color=False, width=None), top=5).of(sections))[1:]
    head = [(line[:10].strip(), line[10:].strip()) for line in lines]
    document = document_of(report, ended.facts, PageRun(words, options.where or "", head))
    return html_of(options.shown.plain(document))


def _words(ctx: click.Context, files: tuple[str, ...]) -> list[str]:
    """The words of ``decode`` for the same run: its files, and its options but ``--where`` and those of the page."""
    given, _, order = ctx.command.make_parser(ctx).parse_args(args=list(ctx.meta[_ARGUMENTS]))
    words = ["mqsniff", "decode", *(file for file in files if not file.startswith("-"))]
    words += [file if file == "-" else f"./{file}" for file in files if file.startswith("-")]
    told = set()
    for param in order:
        if (
            not isinstance(param, SectionedOption)
            or param.name in {"out", "where", "quiet", None}
            or param.name in told
        ):
            continue
        told.add(param.name)
        values = given[param.name] if param.multiple else [given[param.name]]
        name = max(param.opts, key=len)
        for value in values:
            words += [name] if param.is_flag else [name, str(value)]
    return words


def _write(path: Path, page: bytes) -> None:
    """Write the page under its name, whole or not at all."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_bytes(page)
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise click.FileError(str(path), error.strerror or str(error)) from None
