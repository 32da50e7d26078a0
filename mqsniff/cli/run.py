"""A source and what the user asked in, a run and its exit code out; for decode and live alike.

1. Rows go out as they come; whatever ends the run, a signal too, what was done is flushed, and files are closed.
2. Totals, what the filters came to, explanations and errors go to stderr, each in one line.
3. Totals speak of everything that was read, ``--fail-on`` and ``-n`` of what the filters chose.
4. Unreadable input (2) beats ``--fail-on`` (1).
"""

from __future__ import annotations

import gc
import shlex
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol

import click

from mqsniff.cli.choice import CountedChain, filter_chain
from mqsniff.cli.options import RunOptions
from mqsniff.cli.outputs import SinkOutput, make_output, output_of
from mqsniff.cli.pluginwatch import foreign_dissectors, watched_plugins
from mqsniff.cli.signals import code_of, ended_by_sigterm
from mqsniff.cli.talk import remark, say, tell_key_logs
from mqsniff.model import CaptureInfo, Item, ProblemItem

if TYPE_CHECKING:
    from mqsniff.pipeline import Pipeline, Source, Totals


_FILES_NAMED: Final = 3


class Watcher(Protocol):
    """Looks at the items of a run that go out: a sink that begins with the run."""

    def begin(self, pipeline: Pipeline) -> None:
        """Get ready; the pipeline gives nothing yet."""
        ...

    def write(self, item: Item) -> None:
        """Look at the next item."""
        ...

    def tick(self) -> None:
        """The input pauses."""
        ...


class Finished(Protocol):
    """What is told of at the end of a run."""

    @property
    def captures(self) -> list[CaptureInfo]:
        """The inputs."""
        ...

    totals: Totals


class OutputError(click.ClickException):
    """Files that cannot be written, in one line."""

    exit_code = 2


class RunKeeper(Protocol):
    """Stands between the items of a run and its sink: what lets a run go on after its end, and rotates its files."""

    def begin(self, pipeline: Pipeline, output: SinkOutput) -> None:
        """Get ready, before the first item."""
        ...

    def kept(self, items: Iterable[Item | None]) -> Iterator[Item | None]:
        """The items that go out."""
        ...


def run(
    source: Source,
    options: RunOptions,
    talk: AbstractContextManager[object] | None = None,
    keeper: RunKeeper | None = None,
    watcher: Watcher | None = None,
    *,
    skip: int = 0,
) -> int:
    """Decode everything that a source gives, inside of what talks meanwhile; the exit code.

    ``skip``: bytes of rows that are on stdout already.
    Raises click.UsageError for an output, or a condition, that cannot be meant, OutputError for files that cannot be
    written.
    """
    from mqsniff.pipeline import Pipeline

    if any(options.times):
        source, options = _at_times(source, options)
    settings = options.settings(output_of(options))
    pipeline = Pipeline(source, settings, decode_as=options.decode_as, domain=options.domain, keys=options.tls_keys)
    choice = filter_chain(options, pipeline.captures)
    output = make_output(options, pipeline.captures, skip)
    if keeper is not None:
        keeper.begin(pipeline, output)
    if watcher is not None:
        from mqsniff.sinks.beside import PairedSink

        watcher.begin(pipeline)
        output = output._replace(sink=PairedSink(output.sink, watcher))
    started = time.monotonic()
    gc.freeze()  # modules and their tables stay: collecting need not look at them again
    try:
        with ended_by_sigterm():
            items = choice.of(pipeline.items(output.write_waiting), output.learn)
            if keeper is not None:
                items = keeper.kept(items)
            if announces(options) and not skip:
                items = _announced(items)
            ended = _pump(items, output, pipeline.captures, talk)
    except OSError as error:
        if options.out is None:
            raise
        raise OutputError(f"{options.out}: {error.strerror or error}") from None
    except (TypeError, ValueError, AttributeError) as error:
        if not (foreign := foreign_dissectors()):
            raise
        what = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
        raise OutputError(f"rows cannot be written ({what}): {foreign} breaks the contract of dissectors") from error
    code = conclude(pipeline, choice, options, time.monotonic() - started)
    return ended or code


def _at_times(source: Source, options: RunOptions) -> tuple[Source, RunOptions]:
    """The source and options with times that the capture decides."""
    from mqsniff.filters.moments import NO_TIMES, at_times
    from mqsniff.sources.files import FileSource

    again = None if options.live else lambda names: FileSource(names, options.limits)
    try:
        peeked, filters = at_times(source, options.filters, options.times, again)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    return peeked, replace(options, filters=filters, times=NO_TIMES)


def announces(options: RunOptions) -> bool:
    """Whether the user did not ask for NDJSON and gets it."""
    return options.output is None and output_of(options) == "ndjson"


def announce() -> None:
    """Say how to get text."""
    remark("mqsniff: stdout is no terminal, so it gets NDJSON; for text: -o text --color always | less -RS")


def _announced(items: Iterator[Item | None]) -> Iterator[Item | None]:
    """The items; before the first row of a capture that can be read, a line says how to get text."""
    for item in items:
        if item is not None and not (isinstance(item, ProblemItem) and item.connection is None):
            announce()
            yield item
            break
        yield item
    yield from items


def _pump(
    items: Iterable[Item | None],
    output: SinkOutput,
    captures: Sequence[CaptureInfo],
    talk: AbstractContextManager[object] | None,
) -> int:
    """Everything from the pipeline to the sink, shown whenever the input pauses; the exit code if a signal ended it."""
    sink = output.sink
    try:
        with talk if talk is not None else nullcontext(), watched_plugins(captures):
            for item in items:
                if item is None:
                    sink.tick()
                else:
                    sink.write(item)
    except KeyboardInterrupt as interrupt:
        return code_of(interrupt)
    finally:
        output.close()
    return 0


def _point_to_stats(pipeline: Finished) -> None:
    """Name the command that gives an overview of the same files."""
    names = [capture.name for capture in pipeline.captures]
    files = shlex.join(names) if len(names) <= _FILES_NAMED else "FILE..."
    remark(f"an overview of it: mqsniff stats {files}")


def _scopes(pipeline: Finished) -> Iterator[str]:
    """What part of the traffic was captured, where it was not all."""
    return (f"{capture.name}: {capture.scope}" for capture in pipeline.captures if capture.scope)


def conclude(pipeline: Finished, choice: CountedChain, options: RunOptions, seconds: float) -> int:
    """Say what the run came to, and give its exit code."""
    unreadable = [capture for capture in pipeline.captures if capture.unreadable]
    for capture in unreadable:
        say(f"mqsniff: {capture.name}: {capture.unreadable}")
    if unreadable and len(unreadable) == len(pipeline.captures):
        if options.out is not None and not options.is_temporary:
            say("mqsniff: no input could be read, so no tables were written")
        return 2
    tell_key_logs(options.tls_keys)
    dropped = sum(capture.dropped for capture in pipeline.captures)
    remark(choice.everything.totals(pipeline.totals, dropped, seconds))
    for sentence in (*_scopes(pipeline), *choice.sentences()):
        remark(sentence)
    if (explanation := choice.everything.explanation(pipeline.totals)) is not None:
        remark(explanation)
    if output_of(options) == "text" and choice.everything.messages and not options.live:
        _point_to_stats(pipeline)
    found = list(choice.seen.found(options.fail_on))
    if found:
        say(f"mqsniff: failed, since there is: {', '.join(found)}")
    if unreadable:
        return 2
    return 1 if found else 0
