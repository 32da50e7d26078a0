"""What the user asked for in, the sink that writes it out; each sink is imported when it is wanted."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, BinaryIO, Final, NamedTuple

import click

from mqsniff.cli.options import RunOptions
from mqsniff.model import CaptureInfo, Message

if TYPE_CHECKING:
    from mqsniff.sinks import Sink

TEXT_MAX_BYTES: Final = 256
"""Bytes of a record's key or value in text, where the user does not say."""


def output_of(options: RunOptions) -> str:
    """The form of the output: as the user says, else text for people and NDJSON for programs."""
    return options.output or ("text" if sys.stdout.isatty() else "ndjson")


class SinkOutput(NamedTuple):
    """A sink, and what belongs to it."""

    sink: Sink
    close: Callable[[], object]
    """Ends it: a flush of stdout, or files that are closed."""
    learn: Callable[[Message], object] | None = None
    """Takes messages that teach topic names and are not chosen."""


def make_output(options: RunOptions, captures: list[CaptureInfo]) -> SinkOutput:
    """The output that the user asked for: files for Parquet, else stdout.

    Raises click.UsageError for a folder that cannot, or must not, be written to.
    """
    if output_of(options) == "parquet":
        from mqsniff.sinks.outputfolder import OutputFolder, OutputFolderError
        from mqsniff.sinks.parquet import ParquetSink

        folder = OutputFolder(str(options.out))
        try:
            folder.prepare(overwrite=options.overwrite)
        except OutputFolderError as error:
            raise click.UsageError(str(error)) from None
        sink = ParquetSink(folder, captures, options.wanted("parquet"), options.shown, limits=options.limits)
        return SinkOutput(sink, sink.close, sink.topics.learn)
    stream = _stream_sink(options, captures)
    return SinkOutput(stream, stream.tick)


def _stdout() -> BinaryIO:
    """Stdout, which takes blocks also where Python was told not to buffer: sinks flush it whenever the input pauses.

    OSError where it is closed: nothing has to be decoded to know that.
    """
    stream = sys.stdout.buffer
    with contextlib.suppress(io.UnsupportedOperation):  # a stream of a test
        os.write(stream.fileno(), b"")
    return open(stream.fileno(), "wb", closefd=False) if isinstance(stream, io.RawIOBase) else stream


def _stream_sink(options: RunOptions, captures: list[CaptureInfo]) -> Sink:
    output = output_of(options)
    match output:
        case "ndjson":
            from mqsniff.sinks.ndjson import NdjsonSink

            return NdjsonSink(_stdout(), captures, options.wanted(output), options.shown)
        case "csv":
            from mqsniff.sinks.csv import CsvSink

            (table,) = options.wanted(output)
            return CsvSink(_stdout(), captures, table, options.shown, terminal=sys.stdout.isatty())
    return _text_sink(options, captures)


def wants_color(choice: str, *, terminal: bool) -> bool:
    """Whether to colour: as the user says, else on a terminal that can and whose user has not set NO_COLOR."""
    if choice != "auto":
        return choice == "always"
    return terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _text_sink(options: RunOptions, captures: list[CaptureInfo]) -> Sink:
    from dataclasses import replace

    from mqsniff.sinks.text import TextOptions, TextSink

    terminal = sys.stdout.isatty()
    shown = options.shown if options.max_bytes is not None else replace(options.shown, max_bytes=TEXT_MAX_BYTES)
    text = TextOptions(
        time=options.time,
        body=options.verbose,
        records=options.records,
        network=options.verbose or bool(options.tables),
        color=wants_color(options.color, terminal=terminal),
        width=shutil.get_terminal_size().columns if terminal else None,
        encoding=sys.stdout.encoding if terminal else "utf-8",
        tables=options.wanted("text"),
        shown=shown,
    )
    return TextSink(_stdout(), captures, text)
