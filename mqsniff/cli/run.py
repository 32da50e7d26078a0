"""A source and what the user asked in, a run and its exit code out; for decode and live alike.

1. Rows go out as they come; whatever ends the run, a signal too, what was done is flushed, and files are closed.
2. Totals, what the filters came to, explanations and errors go to stderr, each in one line.
3. Totals speak of everything that was read, ``--fail-on`` and ``-n`` of what the filters chose.
4. Unreadable input (2) beats ``--fail-on`` (1).
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

import click

from mqsniff.cli.choice import CountedChain, filter_chain
from mqsniff.cli.options import RunOptions
from mqsniff.cli.outputs import SinkOutput, make_output, output_of
from mqsniff.cli.signals import code_of, ended_by_sigterm
from mqsniff.cli.talk import say
from mqsniff.model import Item

if TYPE_CHECKING:
    from mqsniff.pipeline import Pipeline, Source


class OutputError(click.ClickException):
    """Files that cannot be written, in one line."""

    exit_code = 2


def run(source: Source, options: RunOptions, talk: AbstractContextManager[object] | None = None) -> int:
    """Decode everything that a source gives, inside of what talks meanwhile; the exit code.

    Raises click.UsageError for an output, or a condition, that cannot be meant, OutputError for files that cannot be
    written.
    """
    from mqsniff.pipeline import Pipeline

    settings = options.settings(output_of(options))
    pipeline = Pipeline(source, settings, decode_as=options.decode_as, domain=options.domain, keys=options.tls_keys)
    choice = filter_chain(options, pipeline.captures)
    output = make_output(options, pipeline.captures)
    started = time.monotonic()
    try:
        with ended_by_sigterm():
            ended = _pump(choice.of(pipeline.items(), output.learn), output, talk)
    except OSError as error:
        if options.out is None:
            raise
        raise OutputError(f"{options.out}: {error.strerror or error}") from None
    code = _conclude(pipeline, choice, options, time.monotonic() - started)
    return ended or code


def _pump(items: Iterable[Item | None], output: SinkOutput, talk: AbstractContextManager[object] | None) -> int:
    """Everything from the pipeline to the sink, shown whenever the input pauses; the exit code if a signal ended it."""
    sink = output.sink
    try:
        with talk if talk is not None else nullcontext():
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


def _conclude(pipeline: Pipeline, choice: CountedChain, options: RunOptions, seconds: float) -> int:
    """Say what the run came to, and give its exit code."""
    unreadable = [capture for capture in pipeline.captures if capture.unreadable]
    for capture in unreadable:
        say(f"mqsniff: {capture.name}: {capture.unreadable}")
    if unreadable and len(unreadable) == len(pipeline.captures):
        if options.out is not None and not options.is_temporary:
            say("mqsniff: no input could be read, so no tables were written")
        return 2
    for log in options.tls_keys:
        if (sentence := log.sentence()) is not None:
            say(f"mqsniff: {sentence}")
    dropped = sum(capture.dropped for capture in pipeline.captures)
    say(choice.everything.totals(pipeline.totals, dropped, seconds))
    for sentence in choice.sentences():
        say(sentence)
    if (explanation := choice.everything.explanation(pipeline.totals)) is not None:
        say(explanation)
    found = list(choice.seen.found(options.fail_on))
    if found:
        say(f"mqsniff: failed, since there is: {', '.join(found)}")
    if unreadable:
        return 2
    return 1 if found else 0
