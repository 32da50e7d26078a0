"""``mqsniff live``: packets of interfaces, or of captures that grow, in; rows out as they come.

1. Ctrl-C or SIGTERM ends the capture: connections are closed, and output is flushed and counted; a second one ends the
   program at once. SIGHUP begins the next file of -w and of --every; where there is neither, it ends the capture.
2. Sockets are opened first, then rights are given up, then files are opened: those of today as those of tomorrow.
3. What the kernel dropped is told during the run and at its end.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Protocol

import click

from mqsniff.cli.captureoptions import CaptureChoice, capture_options
from mqsniff.cli.options import RunOptions, run_options
from mqsniff.cli.sections import SectionedCommand
from mqsniff.cli.signals import INTERRUPTED, TERMINATED, terminate
from mqsniff.cli.talk import remark, say
from mqsniff.cli.watchoptions import split_options, watch_options

if TYPE_CHECKING:
    from mqsniff.cli.liverun import LiveKeeper
    from mqsniff.cli.livewatch import LiveWatch
    from mqsniff.pipeline import Source
    from mqsniff.sinks.recording import CaptureRecorder
    from mqsniff.sources.live import LiveSource

EPILOG: Final = """\b
Examples:
  mqsniff live -i eth0
  mqsniff live -i eth0 -f 'tcp port 4150' --duration 60 --time delta
  mqsniff live -i eth0 --summary --metrics 127.0.0.1:9420
  mqsniff live -i lo -o ndjson | jq 'select(.error_name)'
  mqsniff live -i any -w now.pcapng --ring-size 100MB --ring-files 20
  mqsniff live -i eth0 -o parquet --out rows --every 10m
  mqsniff live --follow captures --state at.state -o ndjson >> rows.ndjson
"""


class Stoppable(Protocol):
    """A source that can be told to end."""

    def stop(self) -> None:
        """End soon; called from a signal handler."""
        ...


@click.command(cls=SectionedCommand, epilog=EPILOG, no_args_is_help=True)
@capture_options
@watch_options
@run_options
def command(**options: Any) -> int:
    """Decode the packets of interfaces, or of captures that grow, until Ctrl-C."""
    choice, options = CaptureChoice.split(options)
    if choice.listed:
        return _list()
    watched, wanted = split_options(options)
    from mqsniff.cli.liverun import bounded
    from mqsniff.cli.livewatch import opened

    wanted = replace(wanted, limits=bounded(wanted.limits))

    with opened(watched, wanted.limits) as watcher:
        return _read(choice, wanted, watcher)


def _list() -> int:
    from mqsniff.sources.live import list_interfaces

    click.echo("any    all of these, and those that come")
    for name, state in list_interfaces():
        click.echo(f"{name:<6} {state}".rstrip())
    return 0


def _read(choice: CaptureChoice, wanted: RunOptions, watcher: LiveWatch | None) -> int:
    """Read what was chosen, while the watcher looks on."""
    if not choice.follow:
        return _capture(choice, wanted, watcher)
    from mqsniff.cli.followrun import follow

    code = follow(choice, wanted, watcher)
    return 0 if code in (INTERRUPTED, TERMINATED) else code


def _capture(choice: CaptureChoice, wanted: RunOptions, watcher: LiveWatch | None) -> int:
    """Capture from interfaces."""
    from mqsniff.cli.liverun import LiveKeeper, with_periods
    from mqsniff.cli.privileges import PrivilegeError, become
    from mqsniff.sources.live import CaptureError, LiveSource

    try:
        source = LiveSource(choice.interfaces, choice.wishes(wanted), lambda text: say(f"mqsniff: {text}"))
        if choice.user is not None:
            become(choice.user)
    except (CaptureError, PrivilegeError) as error:
        say(f"mqsniff: {error}")
        return 2
    if choice.ports_only:
        ports = ", ".join(map(str, choice.known_ports(wanted)))
        source.captures[0].scope = f"only TCP ports {ports} were captured (--ports-only)"
    if choice.bpf is None and "not (" in (source.wishes.bpf or ""):
        remark("mqsniff: the ssh connection of this terminal is left out; -f chooses otherwise")
    if watcher is not None:
        watcher.count_interfaces(source.counts)
    return _run(source, choice, with_periods(wanted, choice), LiveKeeper(), watcher)


def _run(
    source: LiveSource, choice: CaptureChoice, wanted: RunOptions, keeper: LiveKeeper, watcher: LiveWatch | None
) -> int:
    from mqsniff.cli.liverun import recorder_of
    from mqsniff.cli.run import run
    from mqsniff.sinks.recording import RecordedSource

    failures: list[OSError] = []
    recorder: CaptureRecorder | None = None
    reads: Source = source
    if choice.record is not None:
        try:
            recorder = recorder_of(choice, choice.record, source)
        except OSError as error:
            say(f"mqsniff: -w {choice.record}: {error.strerror or error}")
            return 2
        reads = RecordedSource(source, recorder, failures.append)
    rotations = [recorder.rotate] if recorder is not None else []
    if choice.every_ns is not None:
        rotations.append(keeper.rotate)
    with stopped_by_signal(source, rotations):
        code = run(reads, wanted, keeper=keeper, watcher=watcher)
    for failure in failures:
        say(f"mqsniff: -w {choice.record}: {failure.strerror or failure}; the capture ended there")
        code = 2
    return 0 if code in (INTERRUPTED, TERMINATED) else code


@contextmanager
def stopped_by_signal(source: Stoppable, rotations: Sequence[Callable[[], object]] | None = None) -> Iterator[None]:
    """The first Ctrl-C or SIGTERM ends the source, the second one the program; SIGHUP rotates, if there is what can."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}

    def stop(_signal: int, _frame: object) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, terminate)
        source.stop()

    def rotate(_signal: int, _frame: object) -> None:
        for each in rotations or ():
            each()

    for number in numbers:
        if number == signal.SIGHUP and before[number] is signal.SIG_IGN and not rotations:
            continue  # nohup
        signal.signal(number, rotate if number == signal.SIGHUP and rotations else stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
