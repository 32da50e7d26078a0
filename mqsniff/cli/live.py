"""``mqsniff live -i IFACE``: packets of an interface in, text or NDJSON out as they come.

1. Ctrl-C or SIGTERM ends the capture: connections are closed, and output is flushed and counted; a second one ends the
   program at once.
2. The number of packets that the kernel dropped is shown at the end.
"""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import click

from mqsniff.cli.options import RunOptions, run_options
from mqsniff.cli.sections import SectionedCommand, option
from mqsniff.cli.signals import INTERRUPTED, TERMINATED, terminate
from mqsniff.cli.talk import say

if TYPE_CHECKING:
    from mqsniff.sources.live import LiveSource

EPILOG: Final = """\b
Examples:
  mqsniff live -i eth0
  mqsniff live -i eth0 -f 'tcp port 4150' --duration 60 --time delta
  mqsniff live -i lo -o ndjson | jq 'select(.error_name)'
"""

SECOND_NS: Final = 1_000_000_000
_CAPTURE: Final = "Capture"


def _complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001  # click's
    """Interfaces of this machine, for the shell."""
    return [name for _, name in socket.if_nameindex() if name.startswith(incomplete)]


@click.command(cls=SectionedCommand, epilog=EPILOG, no_args_is_help=True)
@option(_CAPTURE, "-i", "--interface", required=True, metavar="IFACE", shell_complete=_complete,
        help="Interface to capture from.")  # fmt: skip
@option(_CAPTURE, "-f", "--filter", "bpf", metavar="BPF", help="Capture filter, as tcpdump's.")
@option(_CAPTURE, "--count", "packets", metavar="N", type=click.IntRange(min=1), help="Stop after N packets.")
@option(_CAPTURE, "--duration", metavar="SECONDS", type=click.FloatRange(min=0, min_open=True),
        help="Stop after this many seconds.")  # fmt: skip
@run_options
def command(interface: str, bpf: str | None, packets: int | None, duration: float | None, **options: Any) -> int:
    """Decode the packets of an interface until Ctrl-C."""
    from mqsniff.cli.run import run
    from mqsniff.sources.live import CaptureError, LiveSource

    wanted = RunOptions.of({**options, "live": True})
    duration_ns = None if duration is None else int(duration * SECOND_NS)
    try:
        source = LiveSource(interface, bpf=bpf, count=packets, duration_ns=duration_ns)
    except CaptureError as error:
        say(f"mqsniff: {error}")
        return 2
    with stopped_by_signal(source):
        code = run(source, wanted)
    return 0 if code in (INTERRUPTED, TERMINATED) else code


@contextmanager
def stopped_by_signal(source: LiveSource) -> Iterator[None]:
    """The first Ctrl-C or SIGTERM ends the source, the second one the program."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def stop(_signal: int, _frame: object) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, terminate)
        source.stop()

    for number in before:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
