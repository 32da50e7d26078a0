"""What to trace in, traces on stdout out; where nothing fits, what there is on stderr."""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import click

from mqsniff.answers.summary import Summary
from mqsniff.answers.trace.acting import Acts
from mqsniff.answers.trace.connections import ConnectionTracer
from mqsniff.answers.trace.document import document
from mqsniff.answers.trace.finding import RecordFinder, TracedRecord
from mqsniff.answers.trace.finish import finish
from mqsniff.answers.trace.groups import GroupTracer
from mqsniff.answers.trace.records import RecordTracer
from mqsniff.answers.trace.steps import Trace, TracedKind
from mqsniff.answers.trace.text import TraceLook, TraceText
from mqsniff.answers.trace.transactions import TransactionTracer
from mqsniff.cli.known import did_you_mean
from mqsniff.cli.outputs import wants_color
from mqsniff.cli.pluginwatch import watched_plugins
from mqsniff.cli.progress import Progress
from mqsniff.cli.talk import remark, say, tell_key_logs
from mqsniff.decode.registry import load_dissectors
from mqsniff.dissector import WITH_RECORDS, Settings
from mqsniff.filters.itemfilter import SHORT_NAME
from mqsniff.filters.patterns import Patterns
from mqsniff.filters.recordfilter import RecordFilter
from mqsniff.model import ConnectionInfo, Item, TopicItem
from mqsniff.pipeline import Pipeline
from mqsniff.sources.files import FileSource

if TYPE_CHECKING:
    from mqsniff.cli.options import RunOptions
    from mqsniff.cli.trace import TraceQuestion
    from mqsniff.model import CaptureInfo

VALUE_BYTES: Final = 64
"""Bytes of keys and values that are shown, where the user does not say."""
_TOLD: Final = 8
"""Partitions, or names, that are told where nothing was found."""


class TraceRun:
    """Reads the captures, and shows what came of it."""

    def __init__(self, files: Sequence[str], question: TraceQuestion, options: RunOptions, *, as_json: bool) -> None:
        self._files = tuple(files)
        self._question = question
        self._options = options
        self._as_json = as_json
        most = VALUE_BYTES if options.max_bytes is None else options.max_bytes
        self._shown = replace(options.shown, max_bytes=most)
        self._count = options.count or 1
        self._acts = Acts(entry.dissector for entry in load_dissectors() if entry.dissector is not None)
        self._topics: dict[str, str] = {}
        """Names of topic ids."""
        self._captures: list[CaptureInfo] = []

    def records(self) -> int:
        """Trace records, which are found in a first reading and followed in a second; the exit code."""
        asked, limits = self._question, self._options.limits
        place = RecordFilter(Patterns(asked.topics), asked.partitions, asked.offsets, asked.keys)
        finder = RecordFinder(place.records, asked.message_ids, self._acts, self._shown, limits)
        explanation = self._read(finder.take)
        found = finder.found()
        if not found:
            return self._nothing(_other_records(finder, asked.topics), explanation)
        tracer = RecordTracer(found[: self._count], self._acts, self._shown, limits)
        self._read(tracer.take)
        self._show(tracer.finished(), found=len(found), more=finder.overflow)
        if len(found) > self._count or finder.overflow:
            newest = "" if finder.overflow else f"; the newest is {_place_of(found[-1])}"
            self._say_more(len(found), "records", newest, more=finder.overflow)
        return self._code()

    def others(self, kind: TracedKind) -> int:
        """Trace groups, connections or transactions; the exit code."""
        asked, limits = self._question, self._options.limits
        tracer: GroupTracer | TransactionTracer | ConnectionTracer
        match kind:
            case "group":
                tracer = GroupTracer(Patterns(asked.groups).fit, self._acts, limits)
            case "transaction":
                tracer = TransactionTracer(Patterns(asked.transactions).fit, self._acts, limits)
            case _:
                tracer = ConnectionTracer(_fits_connection(asked.connections), limits)
        explanation = self._read(lambda item, _: tracer.take(item))
        if isinstance(tracer, TransactionTracer):
            again = tracer.again
            self._read(lambda item, _: again(item))
        found = tracer.finished()
        if not found:
            name = (asked.groups or asked.connections or asked.transactions)[0]
            return self._nothing(_other_names(kind, name, tracer.seen), explanation)
        self._show(found[: self._count], found=len(found), more=tracer.overflow)
        if len(found) > self._count or tracer.overflow:
            self._say_more(len(found), f"{kind}s", more=tracer.overflow)
        return self._code()

    # ---- reading

    def _read(self, take: Callable[[Item, list[CaptureInfo]], None]) -> str | None:
        """Give everything to ``take``; what was not decoded, in a sentence."""
        options = self._options
        progress = Progress(silent_stdout=True)
        pipeline = Pipeline(
            FileSource(self._files, options.limits, progress),
            Settings(options.limits, WITH_RECORDS),
            decode_as=options.decode_as,
            domain=options.domain,
            keys=options.tls_keys,
        )
        self._captures, summary = pipeline.captures, Summary()
        with progress, watched_plugins(pipeline.captures):
            for item in pipeline.items():
                if item is None:
                    continue
                if isinstance(item, TopicItem):
                    self._topics[item.topic_id] = item.name
                summary.take(item)
                take(item, pipeline.captures)
        return summary.explanation(pipeline.totals)

    def _code(self) -> int:
        """Say what could not be read, or asked; the exit code."""
        for fault in self._acts.faults:
            say(f"mqsniff: {fault}")
        unreadable = [capture for capture in self._captures if capture.unreadable]
        for capture in unreadable:
            say(f"mqsniff: {capture.name}: {capture.unreadable}")
        tell_key_logs(self._options.tls_keys)
        return 2 if unreadable else 0

    # ---- showing

    def _show(self, traces: Sequence[Trace], *, found: int, more: bool = False) -> None:
        done = [finish(trace, self._topics) for trace in traces]
        if self._as_json:
            sys.stdout.buffer.write(document(done, self._captures, self._shown, found=found, more=more))
            return
        terminal = sys.stdout.isatty()
        look = TraceLook(
            self._options.time,
            wants_color(self._options.color, terminal=terminal),
            shutil.get_terminal_size().columns if terminal else None,
            replace(self._shown, max_bytes=None),
        )
        text = TraceText(self._captures, look)
        for number, trace in enumerate(done, 1):
            if number > 1:
                click.echo()
            for line in text.lines(trace, number, found):
                click.echo(line, color=True)

    def _say_more(self, found: int, what: str, newest: str = "", *, more: bool = False) -> None:
        at_least, shown = "more than " if more else "", min(found, self._count)
        say(f"{at_least}{found:,} {what} fit: the {shown:,} oldest are shown (-n COUNT shows more){newest}")

    def _nothing(self, sentences: Iterator[str], explanation: str | None) -> int:
        """Say what there is where nothing fits, unless nothing could be read; the exit code."""
        if self._as_json:
            self._show((), found=0)
        code = self._code()
        if not (self._captures and all(capture.unreadable for capture in self._captures)):
            for sentence in sentences:
                say(sentence)
            if explanation is not None:
                remark(explanation)
        return code


def _place_of(record: TracedRecord) -> str:
    """Where a record is, in a word or two."""
    offset, message_id = record.row["offset"], record.row["message_id"]
    where = f"offset {offset}" if offset is not None else message_id or ""
    return f"{record.topic} {where}".rstrip()


def _fits_connection(wanted: tuple[str, ...]) -> Callable[[ConnectionInfo], bool]:
    numbers = frozenset(int(text[1:]) for text in wanted if SHORT_NAME.fullmatch(text))
    starts = tuple(text.lower() for text in wanted if not SHORT_NAME.fullmatch(text))

    def fits(connection: ConnectionInfo) -> bool:
        if connection.number in numbers:
            return True
        return connection.connection_id.startswith(starts) or connection.client in wanted

    return fits


# ---- where nothing fits


def _other_records(finder: RecordFinder, topics: tuple[str, ...]) -> Iterator[str]:
    """What records there are instead."""
    if not finder.seen:
        yield "mqsniff: no record fits: the captures show none"
        return
    known = {topic for _, topic, _ in finder.partitions}
    count = f"{len(known):,} topic{'' if len(known) == 1 else 's'}"
    yield f"mqsniff: no record fits; records of {count} were seen {finder.seen:,} times"
    near = {topic for topic in known if any(wanted in topic for wanted in topics)}
    if topics and not near and (meant := did_you_mean(topics[0], known)):
        yield f"mqsniff: no topic {topics[0]}{meant}"
    told = [place for place in finder.partitions if not near or place[1] in near]
    for protocol, topic, partition in told[:_TOLD]:
        seen = finder.partitions[protocol, topic, partition]
        where = topic if partition is None else f"{topic} partition {partition}"
        offsets = "" if seen.first is None else f", offsets {seen.first} to {seen.last}"
        yield f"  {protocol} {where}: {seen.records:,} times{offsets}"
    if len(told) > _TOLD:
        yield f"  and {len(told) - _TOLD:,} more partitions"


def _other_names(kind: TracedKind, asked: str, seen: Counter[str]) -> Iterator[str]:
    """What groups, connections or transactions there are instead."""
    names = [name for name, _ in seen.most_common(_TOLD)]
    more = f" and {len(seen) - len(names):,} more" if len(seen) > len(names) else ""
    listed = f"there are {', '.join(names)}{more}" if names else "there is none"
    yield f"mqsniff: no {kind} {asked}{did_you_mean(asked, seen)}; {listed}"
