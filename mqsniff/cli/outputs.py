"""Options in, the sink for the output out; each sink is imported only if it is used."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple, cast

import click

from mqsniff.cli.options import ParquetPeriod, RunOptions
from mqsniff.model import CaptureInfo, Message

if TYPE_CHECKING:
    from mqsniff.sinks import Sink
    from mqsniff.sinks.outputfolder import OutputFolder
    from mqsniff.sinks.parquetperiods import PeriodicParquetSink
    from mqsniff.sinks.textoptions import CodeNames, TextOptions

SILENT: Final = "none"
"""The output of a run that only counts; not for users to choose."""
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
    write_waiting: Callable[[], object] | None = None
    """Writes the rows that wait where ``tick`` does not; more may follow."""


def make_output(options: RunOptions, captures: list[CaptureInfo], skip: int = 0) -> SinkOutput:
    """The output that the user asks for: files for Parquet, else stdout.

    ``skip``: bytes of rows that stdout has got already.
    Raises click.UsageError for a folder that cannot, or must not, be written to.
    """
    if output_of(options) == SILENT:
        from mqsniff.sinks.beside import SilentSink

        silent = SilentSink()
        return SinkOutput(silent, silent.tick)
    if output_of(options) == "parquet":
        from mqsniff.sinks.outputfolder import OutputFolder, OutputFolderError
        from mqsniff.sinks.parquet import ParquetSink

        folder = OutputFolder(str(options.out))
        try:
            folder.prepare(overwrite=options.overwrite or options.period is not None)
        except OutputFolderError as error:
            raise click.UsageError(str(error)) from None
        if options.period is not None:
            periodic = _periodic_sink(options, options.period, folder, captures)
            return SinkOutput(periodic, periodic.close, periodic.topics.learn, periodic.write_waiting)
        sink = ParquetSink(folder, captures, options.wanted("parquet"), options.shown, limits=options.limits)
        return SinkOutput(sink, sink.close, sink.topics.learn, sink.write_waiting)
    if options.fields and output_of(options) not in ("text", "csv"):
        raise click.UsageError(f"--fields belongs to -o text and -o csv, and this is {output_of(options)}")
    if output_of(options) == "text" and not options.fields:
        return _text_output(options, captures)
    stream = stream_sink(options, captures, stdout_of_rows(skip))
    return SinkOutput(stream, stream.tick)


def _periodic_sink(
    options: RunOptions, period: ParquetPeriod, folder: OutputFolder, captures: list[CaptureInfo]
) -> PeriodicParquetSink:
    from mqsniff.sinks.parquetperiods import PeriodicParquetSink

    return PeriodicParquetSink(
        folder,
        captures,
        options.wanted("parquet"),
        options.shown,
        period_s=period.seconds,
        run=period.run,
        first=period.first,
        limits=options.limits,
    )


class RestOfRows(io.RawIOBase):
    """Stdout for a run that is done once more: what was written the first time is left out."""

    def __init__(self, stream: BinaryIO, skip: int) -> None:
        self._stream = stream
        self._skip = skip

    def writable(self) -> bool:
        """See io.IOBase."""
        return True

    def write(self, data: Any, /) -> int:
        """Write what is new."""
        left_out = min(self._skip, len(data))
        self._skip -= left_out
        if left_out < len(data):
            self._stream.write(memoryview(data)[left_out:])
        return len(data)

    def flush(self) -> None:
        """See io.IOBase."""
        self._stream.flush()


def stdout_of_rows(skip: int = 0) -> BinaryIO:
    """Stdout, without the first bytes of what is written to it."""
    stream = _stdout()
    return cast("BinaryIO", RestOfRows(stream, skip)) if skip else stream


def _stdout() -> BinaryIO:
    """Stdout, buffered also under ``python -u``: sinks flush it when the input pauses.

    OSError if it is closed, before anything is decoded.
    """
    stream = sys.stdout.buffer
    with contextlib.suppress(io.UnsupportedOperation):  # a stream of a test
        os.write(stream.fileno(), b"")
    return open(stream.fileno(), "wb", closefd=False) if isinstance(stream, io.RawIOBase) else stream


def stream_sink(options: RunOptions, captures: list[CaptureInfo], stream: BinaryIO) -> Sink:
    """Rows to a stream."""
    output = output_of(options)
    match output:
        case "ndjson":
            from mqsniff.sinks.ndjson import NdjsonSink

            return NdjsonSink(stream, captures, options.wanted(output), options.shown)
        case "csv":
            from mqsniff.sinks.csv import CsvSink

            (table,) = options.wanted(output)
            return CsvSink(stream, captures, table, options.shown, options.fields, terminal=sys.stdout.isatty())
    from mqsniff.sinks.columns import ColumnSink

    return ColumnSink(stream, captures, options.fields, _text_options(options))


def wants_color(choice: str, *, terminal: bool) -> bool:
    """Whether to use colours: as the user says, else on a terminal that supports them, unless NO_COLOR is set."""
    if choice != "auto":
        return choice == "always"
    return terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _code_names() -> CodeNames:
    from mqsniff.decode.registry import code_names, load_dissectors

    return code_names(load_dissectors())


def _text_output(options: RunOptions, captures: list[CaptureInfo]) -> SinkOutput:
    """Text on stdout, or through a pager, which scrolls lines that are too long: they are not cut for it."""
    from dataclasses import replace

    from mqsniff.cli.pager import Pager, pager_command
    from mqsniff.sinks.text import TextSink

    command = pager_command(wanted=options.pager) if sys.stdout.isatty() else None
    if command is None:
        text = TextSink(_stdout(), captures, _text_options(options))
        return SinkOutput(text, text.close)
    pager = Pager(command)
    shown = TextSink(pager.stream, captures, replace(_text_options(options), width=None))

    def close() -> None:
        try:
            shown.close()
        finally:
            pager.close()

    return SinkOutput(shown, close)


def _text_options(options: RunOptions) -> TextOptions:
    from dataclasses import replace

    from mqsniff.sinks.textoptions import TextOptions

    terminal = sys.stdout.isatty()
    shown = options.shown if options.max_bytes is not None else replace(options.shown, max_bytes=TEXT_MAX_BYTES)
    return TextOptions(
        time=options.time,
        body=options.verbose,
        records=options.records,
        network=options.verbose or bool(options.tables),
        color=wants_color(options.color, terminal=terminal),
        width=shutil.get_terminal_size().columns if terminal else None,
        wide=options.wide,
        packets=options.packets,
        live=options.live,
        code_name=_code_names() if options.verbose else None,
        encoding=sys.stdout.encoding if terminal else "utf-8",
        tables=options.wanted("text"),
        shown=shown,
    )
