"""A source and what the user asked in, a run and its exit code out; for decode and live alike.

1. Rows go to stdout as they come; whatever ends the run, what was done is flushed.
2. Totals, explanations and errors go to stderr, each in one line.
3. Unreadable input (2) beats ``--fail-on`` (1).
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Final

import click

from mqsniff.cli.options import RunOptions
from mqsniff.model import CaptureInfo, Closed, Decoded, Item, Opened

if TYPE_CHECKING:
    from mqsniff.answers.summary import Summary
    from mqsniff.pipeline import Pipeline, Source
    from mqsniff.sinks import Sink

TEXT_MAX_BYTES: Final = 256
"""Bytes of a record's key or value in text, where the user does not say."""

INTERRUPTED: Final = 130


def run(source: Source, options: RunOptions, talk: AbstractContextManager[object] | None = None) -> int:
    """Decode everything that a source gives, inside of what talks meanwhile; the exit code."""
    from mqsniff.answers.summary import Summary
    from mqsniff.dissector import Settings
    from mqsniff.pipeline import Pipeline

    pipeline = Pipeline(source, Settings(options.limits, records=options.needs_records), decode_as=options.decode_as)
    sink = make_sink(options, pipeline.captures)
    summary = Summary()
    started = time.monotonic()
    interrupted = False
    try:
        with talk if talk is not None else nullcontext():
            _pump(pipeline, sink, summary, options.count)
    except KeyboardInterrupt:
        interrupted = True
    sink.tick()
    code = _conclude(pipeline, summary, options, time.monotonic() - started)
    return INTERRUPTED if interrupted else code


def make_sink(options: RunOptions, captures: list[CaptureInfo]) -> Sink:
    """The sink that the user asked for, on stdout."""
    from mqsniff.sinks.ndjson import NdjsonSink
    from mqsniff.sinks.text import TextOptions, TextSink
    from mqsniff.tables.values import Shown

    stdout = sys.stdout.buffer
    terminal = sys.stdout.isatty()
    output = options.output or ("text" if terminal else "ndjson")
    max_bytes = TEXT_MAX_BYTES if options.max_bytes is None and output == "text" else options.max_bytes
    shown = Shown(options.show_secrets, options.show_raw, "payload" not in options.redact, max_bytes)
    tables = options.wanted(output)
    if output == "ndjson":
        return NdjsonSink(stdout, captures, tables, shown)
    text = TextOptions(
        time=options.time,
        body=options.verbose,
        records=options.records,
        color=wants_color(options.color, terminal=terminal),
        width=shutil.get_terminal_size().columns if terminal else None,
        encoding=sys.stdout.encoding if terminal else "utf-8",
        tables=tables,
        shown=shown,
    )
    return TextSink(stdout, captures, text)


def wants_color(choice: str, *, terminal: bool) -> bool:
    """Whether to colour: as the user says, else on a terminal that can and whose user has not set NO_COLOR."""
    if choice != "auto":
        return choice == "always"
    return terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _pump(pipeline: Pipeline, sink: Sink, summary: Summary, count: int | None) -> None:
    """Everything from the pipeline to the sink; what was written so far is shown whenever the input pauses."""
    items: Iterable[Item | None] = pipeline.items()
    for item in items if count is None else _first_messages(items, count):
        if item is None:
            sink.tick()
        else:
            summary.take(item)
            sink.write(item)


def _first_messages(items: Iterable[Item | None], count: int) -> Iterator[Item | None]:
    """Items up to the last one that belongs to message number ``count``."""
    for item in items:
        if count == 0 and (item is None or isinstance(item, Decoded | Opened | Closed)):
            return
        yield item
        if isinstance(item, Decoded):
            count -= 1


def _conclude(pipeline: Pipeline, summary: Summary, options: RunOptions, seconds: float) -> int:
    """Say what the run came to, and give its exit code."""
    unreadable = [capture for capture in pipeline.captures if capture.unreadable]
    for capture in unreadable:
        click.echo(f"mqsniff: {capture.name}: {capture.unreadable}", err=True)
    if unreadable and len(unreadable) == len(pipeline.captures):
        return 2
    dropped = sum(capture.dropped for capture in pipeline.captures)
    click.echo(summary.totals(pipeline.totals, dropped, seconds), err=True)
    if (explanation := summary.explanation(pipeline.totals)) is not None:
        click.echo(explanation, err=True)
    found = list(summary.found(options.fail_on))
    if found:
        click.echo(f"mqsniff: failed, since there is: {', '.join(found)}", err=True)
    if unreadable:
        return 2
    return 1 if found else 0
