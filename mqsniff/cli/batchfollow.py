"""``mqsniff batch --follow``: a landing folder in, tables that grow out, until a signal.

1. The first Ctrl-C or SIGTERM ends the command when its run is committed, the second one at once: then the run leaves
   nothing, and the same command decodes those captures again.
2. One Spark session serves all runs; after a run that failed the next one opens another.
3. Each run is a report: lines on stderr, with ``--json`` one line of JSON on stdout.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from mqsniff.batch.driver import IsReady
from mqsniff.batch.filesystems import takes_settings, with_settings
from mqsniff.batch.follow import FollowFailed, FollowLeft, Landing, follow
from mqsniff.batch.inputs import InputError
from mqsniff.batch.job import JobOptions, JobReport, JobStage, counted
from mqsniff.batch.session import SessionError, close_session, need_pyspark, open_session
from mqsniff.batch.store import StoreError, redacted, shown_uri
from mqsniff.cli.progress import SparkProgress
from mqsniff.cli.signals import terminate
from mqsniff.cli.talk import remark, say, tell_key_logs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POLL_S: Final = 5.0
"""Seconds between two looks at a landing folder, at most."""
POLL_MIN_S: Final = 0.2


class _Follower:
    """The runs of one command."""

    def __init__(self, inputs: Sequence[str], out: str, options: JobOptions, where: dict[str, Any]) -> None:
        self._inputs = inputs
        self._out = out
        self._options = options
        self._where = where
        self._session: SparkSession | None = None
        self._progress = SparkProgress()
        self.over = threading.Event()
        """Set when the command shall end after its run."""

    def run(self, ready: IsReady) -> JobReport:
        """Decode the captures that are ready."""
        from mqsniff.batch.spark import run_ready

        with SparkProgress() as self._progress:
            if self._session is not None:
                self._progress.watch(self._session)
            return run_ready(
                self._opened, self._inputs, self._out, self._options, on_stage=self._progress.begin, ready=ready
            )

    def _opened(self) -> SparkSession:
        if self._session is None:
            self._progress.begin(JobStage("starting Spark"))
            self._session = open_session(**self._where)
            self._progress.watch(self._session)
            self.listen()  # Spark sets a handler of its own
        return self._session

    def open_stores(self) -> tuple[list[str], str]:
        """Inputs and tables with the session's settings of Hadoop, where such are taken."""
        if any(map(takes_settings, (*self._inputs, self._out))):
            from mqsniff.batch.sparksteps import hadoop_setting

            setting = hadoop_setting(self._opened())
            self._inputs = [with_settings(uri, setting) for uri in self._inputs]
            self._out = with_settings(self._out, setting)
        return list(self._inputs), self._out

    def close(self) -> None:
        """Stop the session, if there is one."""
        if self._session is not None:
            close_session(self._session)
            self._session = None

    def listen(self) -> None:
        """Take Ctrl-C and SIGTERM."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._stop)

    def _stop(self, _number: int, _frame: object) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, terminate)
        self.over.set()

    def wait(self, seconds: float) -> bool:
        """Wait, unless the command shall end; whether it goes on."""
        return not self.over.wait(seconds)


def follow_landing(
    inputs: Sequence[str],
    out: str,
    options: JobOptions,
    where: dict[str, Any],
    *,
    settle_s: float,
    as_json: bool,
) -> int:
    """Decode what arrives until a signal; the exit code."""
    need_pyspark()
    follower = _Follower(inputs, out, options, where)
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    follower.listen()
    remark(f"following {', '.join(map(shown_uri, inputs))}: Ctrl-C ends it after the run that it is in, twice at once")
    stores = follower.open_stores()
    poll_s = min(POLL_S, max(settle_s / 2, POLL_MIN_S))
    retried = (InputError, SessionError, StoreError)
    runs = follow(
        follower.run, *stores, Landing(settle_s), wait=follower.wait, poll_s=poll_s, retried=retried
    )  # fmt: skip
    done = 0
    try:
        for event in runs:
            match event:
                case FollowFailed():
                    follower.close()
                    say(f"mqsniff: {redacted(str(event.error))}; again in {event.pause_s:.0f} s")
                case FollowLeft():
                    say(f"mqsniff: {event.why}")
                case JobReport():
                    done += 1
                    _show(event, as_json=as_json)
    finally:
        follower.close()
        for number, handler in before.items():
            signal.signal(number, handler)
    tell_key_logs(options.tls_keys)
    remark(f"{counted(done, 'run')} committed; the same command goes on from here")
    return 0


def _show(report: JobReport, *, as_json: bool) -> None:
    """Say what a run did; inputs that were decoded before are not named again and again."""
    import orjson

    from mqsniff.cli.batch import show_report
    from mqsniff.tables.values import escaped

    report.skipped = []
    if as_json:
        click.echo(orjson.dumps(escaped(report.plain())).decode())
    show_report(report, as_json=False)
