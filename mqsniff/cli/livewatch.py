"""What ``mqsniff live`` does beside its rows: ``--summary``, ``--metrics`` and ``--otlp``.

1. ``opened`` binds and checks everything, before packets are captured and before rights are given up.
2. Items are counted where they are written; pages and snapshots are made in ``tick``, between two batches.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final

import click

from mqsniff.cli.talk import say
from mqsniff.cli.watchoptions import WatchOptions
from mqsniff.limits import SECOND_NS, Limits
from mqsniff.model import Item

if TYPE_CHECKING:
    from mqsniff.answers.metrics.meters import TrafficMeters
    from mqsniff.answers.metrics.otlp import MetricsExporter
    from mqsniff.answers.metrics.prometheus import MetricsEndpoint
    from mqsniff.answers.metrics.snapshots import MetricsSnapshot, SnapshotDesk
    from mqsniff.answers.stats.recent import CaptureCounts, LiveFigures, RecentStats
    from mqsniff.cli.livescreen import LiveScreen
    from mqsniff.cli.statsgrid import GridLines
    from mqsniff.pipeline import Pipeline
    from mqsniff.sources.live import InterfaceCounts

INTERVAL_NS: Final = 10 * SECOND_NS
SLICE_LEAST_S: Final = 0.5
"""Shortest time between two pages."""
_NAMED: Final = 2
"""Captures that are named."""
_MISSING: Final = "needs more packages: pip install 'mqsniff[metrics]'"


class ListenError(click.ClickException):
    """An address that cannot be listened on, in one line."""

    exit_code = 2


class LiveWatch:
    """Counts the items of a run, and shows and exports what it counted."""

    def __init__(
        self,
        options: WatchOptions,
        limits: Limits,
        endpoint: MetricsEndpoint | None = None,
        exporter: MetricsExporter | None = None,
    ) -> None:
        self._options = options
        self._limits = limits
        self._endpoint = endpoint
        self._exporter = exporter
        self._pipeline: Pipeline | None = None
        self._recent: RecentStats | None = None
        self._screen: LiveScreen | None = None
        self._meters: TrafficMeters | None = None
        self._desk: SnapshotDesk | None = None
        self._interfaces: Sequence[InterfaceCounts] = ()
        self._told: set[str] = set()
        self._open = ExitStack()
        self._stdout = sys.stdout
        """Taken before decoding begins: then ``sys.stdout`` is where prints of plugins go."""

    def count_interfaces(self, counts: Sequence[InterfaceCounts]) -> None:
        """Tell of these interfaces, which somebody else counts."""
        self._interfaces = counts

    def begin(self, pipeline: Pipeline) -> None:
        """Get ready for the items of a run."""
        from mqsniff.decode.registry import load_dissectors

        self._pipeline = pipeline
        known = [entry.dissector for entry in load_dissectors() if entry.dissector is not None]
        if self._options.summary:
            from mqsniff.answers.stats.recent import SLICES, RecentStats

            interval_s = (self._options.interval_ns or INTERVAL_NS) / SECOND_NS
            terminal = self._stdout.isatty()
            slices = min(SLICES, max(1, int(interval_s / SLICE_LEAST_S))) if terminal else 1
            self._recent = RecentStats(known, self._limits, interval_s / slices, slices)
            if terminal:
                from mqsniff.cli.livescreen import LiveScreen

                self._screen = self._open.enter_context(LiveScreen(self._stdout))
        if self._endpoint is not None or self._exporter is not None:
            from mqsniff.answers.metrics.meters import TrafficMeters
            from mqsniff.answers.metrics.snapshots import SnapshotDesk

            self._meters = TrafficMeters(known, self._limits, self._options.metrics_topics or 0)
            self._desk = SnapshotDesk(self._snapshot)
            for server in (self._endpoint, self._exporter):
                if server is not None:
                    server.serve(self._desk)

    def write(self, item: Item) -> None:
        """Count an item. Hot."""
        if self._recent is not None:
            self._recent.write(item)
        if self._meters is not None:
            self._meters.write(item)

    def tick(self) -> None:
        """Show and export what is due."""
        if self._desk is not None:
            self._desk.answer()
        if self._recent is not None and self._recent.is_due():
            self._recent.turn(self._capture_counts())
            self._show()

    def end(self) -> None:
        """Show the whole run, send what it came to, and listen no more."""
        if self._recent is not None and self._pipeline is not None:
            self._recent.turn(self._capture_counts())
            self._open.close()
            self._print(self._recent.figures(whole=True))
        if self._desk is not None:
            self._desk.close()
        if self._exporter is not None:
            self._exporter.close()
        if self._endpoint is not None:
            self._endpoint.close()

    def _snapshot(self) -> MetricsSnapshot:
        assert self._meters is not None
        assert self._pipeline is not None
        for cap, met in self._meters.caps_met().items():
            if met and cap not in self._told:
                self._told.add(cap)
                remedy = "--metrics-topics" if cap == "topics" else "--limit metrics_rows_max"
                say(f"mqsniff: metrics: more {cap} than are counted apart; the rest is (others), see {remedy}")
        return self._meters.snapshot(self._pipeline.totals, self._pipeline.captures, self._interfaces)

    def _capture_counts(self) -> CaptureCounts:
        from mqsniff.answers.stats.recent import CaptureCounts

        assert self._pipeline is not None
        captures, totals = self._pipeline.captures, self._pipeline.totals
        return CaptureCounts(totals.packets, sum(capture.dropped for capture in captures), totals.connections)

    @property
    def _name(self) -> str:
        assert self._pipeline is not None
        names = [capture.name for capture in self._pipeline.captures]
        return ", ".join(names) if len(names) <= _NAMED else f"{names[-1]} and {len(names) - 1:,} before it"

    @property
    def _notes(self) -> list[str]:
        """What part of the traffic is captured, where it is not all."""
        assert self._pipeline is not None
        return [capture.scope for capture in self._pipeline.captures if capture.scope]

    def _show(self) -> None:
        """The page of now on the screen, or a line of it."""
        from mqsniff.cli.livepage import page, period_line

        assert self._recent is not None
        figures = self._recent.figures()
        if self._screen is None:
            click.echo(period_line(figures, self._name, time.time(), self._notes), file=self._stdout)
        else:
            lines = self._lines(self._screen.width)
            self._screen.show(page(figures, self._name, lines, self._screen.height, self._notes))

    def _print(self, figures: LiveFigures) -> None:
        """The whole run, as the last thing on stdout."""
        from mqsniff.cli.livepage import page

        width = None
        if self._stdout.isatty():
            import shutil

            width = shutil.get_terminal_size().columns
        for line in page(figures, self._name, self._lines(width), None, self._notes):
            click.echo(line, file=self._stdout, color=True)

    def _lines(self, width: int | None) -> GridLines:
        from mqsniff.cli.outputs import wants_color
        from mqsniff.cli.statsgrid import GridLines

        return GridLines(color=wants_color(self._options.color, terminal=self._stdout.isatty()), width=width)


@contextmanager
def opened(options: WatchOptions, limits: Limits) -> Iterator[LiveWatch | None]:
    """What was asked for, ready to begin; None where nothing was.

    Raises click.ClickException, in one line, where an address cannot be listened on or packages are missing.
    """
    if not options:
        yield None
        return
    endpoint = exporter = None
    try:
        if options.metrics is not None:
            endpoint = _endpoint(*options.metrics)
        if options.otlp is not None:
            from mqsniff.answers.metrics.otlp import MetricsExporter

            exporter = MetricsExporter(options.otlp, say)
    except ImportError:
        asked = "--metrics" if options.metrics is not None else "--otlp"
        raise click.UsageError(f"{asked} {_MISSING}") from None
    watch = LiveWatch(options, limits, endpoint, exporter)
    try:
        yield watch
    finally:
        watch.end()


def _endpoint(host: str, port: int) -> MetricsEndpoint:
    from mqsniff.answers.metrics.prometheus import MetricsEndpoint

    try:
        made = MetricsEndpoint(host, port)
    except OSError as error:
        why = error.strerror or str(error)
        raise ListenError(f"--metrics {host}:{port}: cannot listen there: {why}") from None
    say(f"mqsniff: metrics at {made.url}")
    return made
