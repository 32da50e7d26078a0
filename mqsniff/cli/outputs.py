"""Options in, the sink for the output out; each sink is imported only if it is used."""

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
"""Bytes of a record's key or value in text, by default."""


def output_of(options: RunOptions) -> str:
    """The output format: as the user says, else text on a terminal and NDJSON in a pipe."""
    return options.output or ("text" if sys.stdout.isatty() else "ndjson")


class SinkOutput(NamedTuple):
    """A sink and its callbacks."""

    sink: Sink
    close: Callable[[], object]
    """Flushes stdout, or closes files."""
    learn: Callable[[Message], object] | None = None
    """Gets each message that teaches topic names, also if filters drop it."""


def make_output(options: RunOptions, captures: list[CaptureInfo]) -> SinkOutput:
    """The output that the user asks for: files for Parquet, else stdout.

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
    """Stdout, buffered also under ``python -u``: sinks flush it when the input pauses.

    OSError if it is closed, before anything is decoded.
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
    """Whether to use colours: as the user says, else on a terminal that supports them, unless NO_COLOR is set."""
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
