"""What surrounds the run of ``mqsniff live``: the recorder of -w, and who ends the periods of --every."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mqsniff.cli.captureoptions import CaptureChoice
from mqsniff.cli.options import ParquetPeriod, RunOptions
from mqsniff.limits import MIB, SECOND_NS, Limits
from mqsniff.model import Item

if TYPE_CHECKING:
    from mqsniff.cli.outputs import SinkOutput
    from mqsniff.pipeline import Pipeline
    from mqsniff.sinks.recording import CaptureRecorder
    from mqsniff.sources.live import LiveSource


LIVE_LIMITS: Final = {
    "connections_max": 32_768,
    "topics_max": 65_536,
    "row_group_size": 4 * MIB,
    "tables_buffer": 16 * MIB,
}
"""Defaults of ``live``: a run of weeks beside a broker gets less memory than one of minutes on files."""


def bounded(limits: Limits) -> Limits:
    """Limits with the defaults of ``live`` where the user changed nothing."""
    usual = Limits()
    changed: dict[str, Any] = {
        name: value for name, value in LIVE_LIMITS.items() if getattr(limits, name) == getattr(usual, name)
    }
    return replace(limits, **changed)


def with_periods(wanted: RunOptions, choice: CaptureChoice) -> RunOptions:
    """The options with the periods that --every asks for."""
    if choice.every_ns is None:
        return wanted
    period = ParquetPeriod(seconds=choice.every_ns / SECOND_NS, run=new_run())
    return replace(wanted, period=period)


def new_run() -> str:
    """A name for a run that no other has."""
    return secrets.token_hex(4)


def recorder_of(choice: CaptureChoice, path: Path, source: LiveSource) -> CaptureRecorder:
    """The recorder of -w; OSError if the file cannot be written."""
    from mqsniff.sinks.recording import CaptureRecorder, RingWishes

    seconds = None if choice.ring_ns is None else choice.ring_ns / SECOND_NS
    ring = RingWishes(size=choice.ring_size, seconds=seconds, files=choice.ring_files)
    comments = [f"captured by mqsniff live on {source.captures[0].name} ({sys.platform})"]
    if source.wishes.bpf is not None:
        comments.append(f"filter: {source.wishes.bpf}")
    if source.captures[0].scope:
        comments.append(source.captures[0].scope)
    return CaptureRecorder(path, source, ring, comments)


class LiveKeeper:
    """Ends the period of an output when it is asked to."""

    def __init__(self) -> None:
        self._output: SinkOutput | None = None

    def begin(self, pipeline: Pipeline, output: SinkOutput) -> None:  # noqa: ARG002  # the contract of RunKeeper
        """See RunKeeper."""
        self._output = output

    def kept(self, items: Iterable[Item | None]) -> Iterator[Item | None]:
        """See RunKeeper: all of them."""
        yield from items

    def rotate(self) -> None:
        """End the period with the next tick; called from a signal handler."""
        from mqsniff.sinks.parquetperiods import PeriodicParquetSink

        if self._output is not None and isinstance(self._output.sink, PeriodicParquetSink):
            self._output.sink.rotate()
