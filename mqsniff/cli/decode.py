"""``mqsniff decode FILE…``: captures in, text or NDJSON out."""

from __future__ import annotations

from typing import Any, Final

import click

from mqsniff.cli.options import RunOptions, run_options

EPILOG: Final = """\b
Examples:
  mqsniff decode capture.pcapng
  mqsniff decode -v -n 20 capture.pcap.zst           the first 20 messages with every field
  mqsniff decode --table exchanges day-*.pcap | jq   rotated files are one capture
  mqsniff decode --fail-on error x.pcap > rows       for scripts: exit 1 when something is wrong
  ssh broker tcpdump -w - -U port 4150 | mqsniff decode -
"""


@click.command(epilog=EPILOG, no_args_is_help=True)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@run_options
def command(files: tuple[str, ...], **options: Any) -> int:
    """Decode captures: text on a terminal, NDJSON into a pipe.

    FILE is a pcap or pcapng capture, also compressed (gzip, zstd, lz4, xz, bzip2), or - for stdin. Files given together
    are one capture, in the order of their packets' times.
    """
    from mqsniff.cli.progress import Progress
    from mqsniff.cli.run import run
    from mqsniff.sources.files import FileSource

    wanted, progress = RunOptions(**options), Progress()
    return run(FileSource(files, wanted.limits, progress), wanted, progress)
