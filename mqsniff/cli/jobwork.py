"""One worker of a run: the files and the options in, its lines or part files, and a report of plain values, out.

1. It does what ``run`` does, for the connections of its share; the process that started it does the rest.
2. A signal ends it as it ends a run: part files are completed, and the report says so.
3. Its folder goes with it if it fails, or the process that started it is gone.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from mqsniff.cli.choice import filter_chain
from mqsniff.cli.options import RunOptions
from mqsniff.cli.outputs import output_of, stream_sink
from mqsniff.cli.pluginwatch import foreign_dissectors, watched_plugins
from mqsniff.jobs.lines import FRAME, LineCollector, LineFrame, send_report
from mqsniff.jobs.places import AFTER
from mqsniff.jobs.share import Orphaned, Share, ShareExceeded
from mqsniff.jobs.workers import whole
from mqsniff.model import Item
from mqsniff.pipeline import Pipeline
from mqsniff.sinks import Sink
from mqsniff.sinks.ndjson import NdjsonSink
from mqsniff.sources.files import FileSource


@dataclass(frozen=True, slots=True)
class JobTask:
    """What all workers of a run are told."""

    files: tuple[str, ...]
    options: RunOptions
    shares: Callable[[int], Share]
    """Makes the share of a worker, by its number."""
    staging: Path | None
    """The folder below which part files are written; None: lines go to the other process."""

    def __call__(self, job: int, channel: Connection) -> None:
        """Be a worker."""
        place = None if self.staging is None else self.staging / str(job)
        try:
            report = _Work(self, job, channel, place).done()
        except KeyboardInterrupt:
            report = {"kind": "early", "interrupted": True}
        except ShareExceeded:
            report = {"kind": "together"}
        except OSError as error:
            if isinstance(error, BrokenPipeError):
                self._clear(place)
                raise
            report = {"kind": "failed", "said": error.strerror or str(error), "number": error.errno}
        except (TypeError, ValueError, AttributeError) as error:
            if not (foreign := foreign_dissectors()):
                raise
            what = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
            said = f"rows cannot be written ({what}): {foreign} breaks the contract of dissectors"
            report = {"kind": "foreign", "said": said}
        except Orphaned:
            self._clear(place)
            return
        with whole():
            send_report(channel, report)

    def _clear(self, place: Path | None) -> None:
        if place is not None:
            shutil.rmtree(place, ignore_errors=True)
            if not any(place.parent.iterdir()):
                place.parent.rmdir()


class _Work:
    """The run of one worker."""

    def __init__(self, task: JobTask, job: int, channel: Connection, place: Path | None) -> None:
        options = task.options
        self._channel = channel
        self._share = share = task.shares(job)
        self._progress: tuple[int, int | None] = (0, None)
        self._pipeline = Pipeline(
            FileSource(task.files, options.limits, self._read),
            options.settings(output_of(options)),
            decode_as=options.decode_as,
            domain=options.domain,
            keys=options.tls_keys,
            share=share,
        )
        captures = self._pipeline.captures
        self._choice = filter_chain(options, captures)
        self._lines = LineCollector()
        self._parts: Any = None
        if place is None:
            self._sink: Sink = stream_sink(options, captures, self._lines)
            self._lines.drain()  # a header: the other process writes it
        else:
            from mqsniff.sinks.parquet import ParquetSink

            tables = [table for table in options.wanted("parquet") if table != "topics"]
            place.mkdir(parents=True)
            self._sink = self._parts = ParquetSink(str(place), captures, tables, options.shown, limits=options.limits)
        self._waits = self._sink if isinstance(self._sink, NdjsonSink) else None
        """The sink whose lines may wait."""
        share.exact = place is None or options.filters.topics != ()
        share.on_wait = self._send

    def _read(self, done: int, total: int | None) -> None:
        self._progress = (done, total)

    def _send(self) -> None:
        """Send the lines so far: all before the current place."""
        share = self._share
        self._sink.tick()
        self._lines.mark(share.place)
        share.publish()
        with whole():
            items, lines = self._lines.drain()
            news = [tuple(each) for each in share.news]
            share.news.clear()
            LineFrame(share.place, self._progress, news, items).send(self._channel, lines)

    def done(self) -> dict[str, Any]:
        """Do it; the report."""
        interrupted = False
        try:
            with watched_plugins(self._pipeline.captures):
                self._pump()
            self._share.place = AFTER
        except KeyboardInterrupt:
            interrupted = True
        parts = []
        if self._parts is not None:
            parts = [asdict(part) for part in self._parts.close_parts()]
        self._send()
        captures = [(each.name, each.dropped, each.scope, each.unreadable) for each in self._pipeline.captures]
        taught = [] if self._parts is None else list(self._parts.topics.rows())
        return {
            "kind": "done",
            "interrupted": interrupted,
            "captures": captures,
            "totals": asdict(self._pipeline.totals),
            "choice": self._choice.plain(),
            "parts": parts,
            "taught": taught,
        }

    def _pump(self) -> None:
        learn = write_waiting = None
        if self._parts is not None:
            learn, write_waiting = self._parts.topics.learn, self._parts.write_waiting
        sink, lines, share, waits = self._sink, self._lines, self._share, self._waits
        item: Item | None
        for item in self._choice.of(self._pipeline.items(write_waiting), learn):
            if item is None:
                self._send()
                continue
            sink.write(item)
            if lines.mark(share.place, 0 if waits is None else waits.waiting) > FRAME:
                self._send()
