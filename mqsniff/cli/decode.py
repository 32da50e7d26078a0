"""``mqsniff decode FILE…``: captures in, text, NDJSON, CSV or Parquet out."""

from __future__ import annotations

from typing import Any, Final

import click

from mqsniff.cli.inputs import complete_file, input_files
from mqsniff.cli.options import RunOptions, jobs_option, run_options
from mqsniff.cli.sections import SectionedCommand, option

EPILOG: Final = """\b
Examples:
  mqsniff decode capture.pcapng                    a line a message
  mqsniff decode -v -n 20 capture.pcap.zst         20 messages, every field
  mqsniff decode --topic orders --errors x.pcap    errors of one topic
  mqsniff decode --records --key user-17 x.pcap    where one key went
  mqsniff decode --table exchanges day-*.pcap      rotated files, one capture
  mqsniff decode --where 'latency_ns > 1e8' --table exchanges -o csv x.pcap
  mqsniff decode -o parquet --out tables big.pcap  for SQL, pandas, Spark
  mqsniff decode --fail-on error x.pcap > rows     for scripts: exit 1
  ssh broker tcpdump -w - -U port 4150 | mqsniff decode -
"""


def _domain(ctx: click.Context, param: click.Parameter, pattern: str) -> str:
    """A pattern that tells captures apart."""
    from mqsniff.sources.domains import domain_finder

    try:
        domain_finder(pattern)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from None
    return pattern


domain_option: Final = option(
    "Decoding", "--domain", metavar="PATTERN", default="", callback=_domain,
    help="folder, or a regular expression such as 'tap-[0-9]+': files in whose names it finds the same text are "
         "one capture.  [default: all are one]")  # fmt: skip


@click.command(cls=SectionedCommand, epilog=EPILOG, no_args_is_help=True)
@click.argument("files", nargs=-1, required=True, metavar="FILE...", shell_complete=complete_file)
@run_options
@jobs_option
@domain_option
def command(files: tuple[str, ...], **options: Any) -> int:
    """Decode captures: text on a terminal, NDJSON into a pipe, or CSV, or Parquet files.

    FILE is a pcap or pcapng capture, also compressed (gzip, zstd, lz4, xz, bzip2), a folder with all captures below it,
    a glob, or - for stdin. Files given together
    are one capture, in the order of their packets' times, unless --domain tells them apart.

    Filters choose messages; their exchanges, records, problems and connections come along. --topic, --partition,
    --offset and --key choose among the records and partitions of a message too.
    """
    from mqsniff.cli.jobs import run_files
    from mqsniff.cli.progress import Progress

    files = input_files(files)
    wanted = RunOptions.of({**options, "live": "-" in files})
    progress = Progress(silent_stdout=wanted.output == "parquet")
    return run_files(files, wanted, progress)[0]
