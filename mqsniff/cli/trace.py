"""``mqsniff trace FILE…``: one record, group, connection or transaction through everything that happened to it."""

from __future__ import annotations

import contextlib
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from mqsniff.cli.decode import domain_option
from mqsniff.cli.filtering import read_key, read_name, read_offsets, reading
from mqsniff.cli.known import OneOf, did_you_mean
from mqsniff.cli.options import TIME_MODES, decode_options
from mqsniff.cli.outputs import wants_color
from mqsniff.cli.sections import SectionedCommand, all_of, option
from mqsniff.cli.talk import say

if TYPE_CHECKING:
    from mqsniff.answers.trace.acting import Acts
    from mqsniff.answers.trace.finding import RecordFinder, TracedRecord
    from mqsniff.answers.trace.steps import Trace
    from mqsniff.limits import Limits
    from mqsniff.model import CaptureInfo, ConnectionInfo, Item
    from mqsniff.pipeline import Pipeline
    from mqsniff.tables.values import Redaction
    from mqsniff.tls.keylog import KeyLog

EPILOG: Final = """\b
Examples:
  mqsniff trace x.pcap --topic orders --partition 0 --offset 1200
  mqsniff trace x.pcap --key user-17               each record with this key
  mqsniff trace x.pcap --message-id 92:0:-1        Pulsar, RocketMQ, NSQ
  mqsniff trace x.pcap --group billing             who joined, left and waited
  mqsniff trace x.pcap --transaction payments-1    begin to commit or abort
  mqsniff trace x.pcap --connection 9370739884     SYN to close
  mqsniff trace *.pcap --key user-17 --json | jq '.traces[].waits'
"""

_WHAT: Final = "What to trace (one of the kinds)"
_OUTPUT: Final = "Output"
_SHOWN: Final = 5
VALUE_BYTES: Final = 64
"""Bytes of keys and values that are shown, where the user does not say."""
_OFFSETS_TOLD: Final = 8
"""Partitions whose offsets are told where nothing was found."""

trace_options: Final = all_of((
    option(_WHAT, "--topic", "topics", multiple=True, metavar="NAME", callback=reading(read_name),
           help="Records of this topic, such as orders or 'orders-*'; Pulsar's also by their last part."),
    option(_WHAT, "--partition", "partitions", multiple=True, metavar="N", type=click.IntRange(min=0),
           help="Records of this partition or queue."),
    option(_WHAT, "--offset", "offsets", multiple=True, metavar="N[-M]", callback=reading(read_offsets),
           help="Records with this offset at the broker, or in a range of them."),
    option(_WHAT, "--key", "keys", multiple=True, metavar="TEXT", callback=reading(read_key),
           help="Records with this key, exact; 0x… for bytes."),
    option(_WHAT, "--message-id", "message_ids", multiple=True, metavar="ID", callback=reading(read_name),
           help="Records with this message id (Pulsar: ledger:entry:partition, with :index in a batch), or RocketMQ's "
                "unique key."),
    option(_WHAT, "--group", "groups", multiple=True, metavar="NAME", callback=reading(read_name),
           help="A consumer group, subscription or channel; * fits any text."),
    option(_WHAT, "--connection", "connections", multiple=True, metavar="ID", callback=reading(read_name),
           help="A connection by its connection_id, how that begins, or its client's ip:port."),
    option(_WHAT, "--transaction", "transactions", multiple=True, metavar="ID", callback=reading(read_name),
           help="A transaction: Kafka's transactional id, Pulsar's most:least, RocketMQ's unique key; * fits any."),
    option(_OUTPUT, "-n", "count", metavar="COUNT", type=click.IntRange(min=1), default=_SHOWN, show_default=True,
           help="Traces to show, the oldest first; the others are counted."),
    option(_OUTPUT, "--json", "as_json", is_flag=True, help="One JSON document: steps, waits, what was not seen."),
    option(_OUTPUT, "--time", type=OneOf("form of times", TIME_MODES), default="utc", show_default=True,
           help="Times in text."),
    option(_OUTPUT, "--color", type=OneOf("choice", ("auto", "always", "never")), default="auto", show_default=True,
           help="Colours in text; auto: on a terminal, unless NO_COLOR is set."),
    option(_OUTPUT, "--max-bytes", metavar="N", type=click.IntRange(min=0),
           help=f"Bytes of a key or value that are shown.  [default: {VALUE_BYTES}]"),
    decode_options,
    domain_option,
))  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceOptions:
    """What the user asked."""

    topics: tuple[str, ...]
    partitions: tuple[int, ...]
    offsets: tuple[Any, ...]
    keys: tuple[bytes, ...]
    message_ids: tuple[str, ...]
    groups: tuple[str, ...]
    connections: tuple[str, ...]
    transactions: tuple[str, ...]
    count: int
    as_json: bool
    time: Any
    color: str
    max_bytes: int | None
    decode_as: dict[int, str]
    show_secrets: bool
    show_raw: bool
    redact: tuple[str, ...]
    limits: Limits
    domain: str
    tls_keys: tuple[KeyLog, ...]

    @property
    def kind(self) -> str:
        """What is traced; raises click.UsageError where that is nothing, or two things."""
        by_record = bool(self.topics or self.partitions or self.offsets or self.keys or self.message_ids)
        given = {
            "record": by_record,
            "group": bool(self.groups),
            "connection": bool(self.connections),
            "transaction": bool(self.transactions),
        }
        kinds = [kind for kind, there in given.items() if there]
        if not kinds:
            raise click.UsageError("say what to trace: --topic and --offset, --key, --message-id, --group, …")
        if len(kinds) > 1:
            raise click.UsageError(f"a trace follows one kind of thing, not a {' and a '.join(kinds)}")
        return kinds[0]

    @property
    def shown(self) -> Redaction:
        """What is shown of secrets, undecoded bytes and record data."""
        from mqsniff.tables.values import Redaction

        most = VALUE_BYTES if self.max_bytes is None else self.max_bytes
        return Redaction(self.show_secrets, self.show_raw, "payload" not in self.redact, most)


@click.command(cls=SectionedCommand, epilog=EPILOG, no_args_is_help=True)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@trace_options
def command(files: tuple[str, ...], **options: Any) -> int:
    """Follow one record, group, connection or transaction through captures.

    A record: how it was produced and stored, each delivery, commit or acknowledgement, redeliveries, retry and dead
    letter topics, with the waits between. What the capture does not show is said.
    """
    wanted = TraceOptions(**options)
    kind = wanted.kind
    twice = kind in ("record", "transaction")
    with _readable_twice(files) if twice else contextlib.nullcontext(files) as inputs:
        run = TraceRun(inputs, wanted)
        return run.records() if kind == "record" else run.others(kind)


@contextlib.contextmanager
def _readable_twice(files: Sequence[str]) -> Iterator[list[str]]:
    """The inputs with pipes copied to files of ours: things are looked for first, then followed."""
    with contextlib.ExitStack() as stack:
        inputs = []
        for file in files:
            if file == "-" or ("://" not in file and Path(file).is_fifo()):
                copy = stack.enter_context(tempfile.NamedTemporaryFile(prefix="mqsniff-", suffix=".pcap"))
                with contextlib.nullcontext(sys.stdin.buffer) if file == "-" else Path(file).open("rb") as stream:
                    shutil.copyfileobj(stream, copy)
                copy.flush()
                inputs.append(copy.name)
            else:
                inputs.append(file)
        yield inputs


class TraceRun:
    """Reads the captures, and shows what came of it."""

    def __init__(self, files: Sequence[str], options: TraceOptions) -> None:
        from mqsniff.answers.summary import Summary
        from mqsniff.answers.trace.acting import Acts
        from mqsniff.decode.registry import load_dissectors

        self._files = tuple(files)
        self._options = options
        self._summary = Summary()
        self._topics: dict[str, str] = {}
        """Names of topic ids."""
        loaded = load_dissectors()
        self._acts: Acts = Acts(entry.dissector for entry in loaded if entry.dissector is not None)

    def records(self) -> int:
        """Trace records: find them, then follow them."""
        from mqsniff.answers.trace.finding import RecordFinder
        from mqsniff.answers.trace.records import RecordTracer
        from mqsniff.filters.patterns import Patterns
        from mqsniff.filters.recordfilter import RecordFilter

        o = self._options
        place = RecordFilter(Patterns(o.topics), o.partitions, o.offsets, o.keys)
        finder = RecordFinder(place.records, o.message_ids, self._acts, o.shown, o.limits)
        pipeline = self._read(finder.take)
        if self._all_unreadable(pipeline):
            return 2
        found = finder.found()
        if not found:
            self._say_records(finder)
            self._explain(pipeline)
        traces: list[Trace] = []
        if found:
            tracer = RecordTracer(found[: o.count], self._acts, o.shown, o.limits)
            pipeline = self._read(tracer.take)
            traces = tracer.finished()
        self._show(traces, pipeline.captures, found=len(found), more=finder.overflow)
        if found and (len(found) > len(traces) or finder.overflow):
            newest = "" if finder.overflow else f"; the newest is {_place_of(found[-1])}"
            self._say_more(len(found), len(traces), "records", newest, more=finder.overflow)
        return self._code(pipeline)

    def others(self, kind: str) -> int:
        """Trace groups, connections or transactions."""
        from mqsniff.answers.trace.connections import ConnectionTracer
        from mqsniff.answers.trace.groups import GroupTracer
        from mqsniff.answers.trace.transactions import TransactionTracer
        from mqsniff.filters.patterns import Patterns

        o = self._options
        tracer: Any
        match kind:
            case "group":
                tracer = GroupTracer(Patterns(o.groups).fit, self._acts, o.limits)
            case "transaction":
                tracer = TransactionTracer(Patterns(o.transactions).fit, self._acts, o.limits)
            case _:
                tracer = ConnectionTracer(_fits_connection(o.connections), o.limits)
        pipeline = self._read(lambda item, _: tracer.take(item))
        if self._all_unreadable(pipeline):
            return 2
        if kind == "transaction" and tracer.seen:
            pipeline = self._read(lambda item, _: tracer.again(item))
        found = tracer.finished()
        if not found:
            asked = (o.groups or o.connections or o.transactions)[0]
            say(_nothing(kind, asked, tracer.seen))
            self._explain(pipeline)
        self._show(found[: o.count], pipeline.captures, found=len(found), more=False)
        if len(found) > o.count:
            self._say_more(len(found), o.count, f"{kind}s", "")
        return self._code(pipeline)

    # ---- reading

    def _read(self, take: Callable[[Item, list[CaptureInfo]], None]) -> Pipeline:
        from mqsniff.cli.progress import Progress
        from mqsniff.dissector import WITH_RECORDS, Settings
        from mqsniff.model import TopicItem
        from mqsniff.pipeline import Pipeline
        from mqsniff.sources.files import FileSource

        o = self._options
        progress = Progress(silent_stdout=True)
        pipeline = Pipeline(
            FileSource(self._files, o.limits, progress),
            Settings(o.limits, WITH_RECORDS),
            decode_as=o.decode_as,
            domain=o.domain,
            keys=o.tls_keys,
        )
        with progress:
            for item in pipeline.items():
                if item is not None:
                    if isinstance(item, TopicItem):
                        self._topics[item.topic_id] = item.name
                    self._summary.take(item)
                    take(item, pipeline.captures)
        return pipeline

    def _explain(self, pipeline: Pipeline) -> None:
        """Say what was not decoded, where nothing was found."""
        if (explanation := self._summary.explanation(pipeline.totals)) is not None:
            say(explanation)

    def _all_unreadable(self, pipeline: Pipeline) -> bool:
        unreadable = [capture for capture in pipeline.captures if capture.unreadable]
        for capture in unreadable:
            say(f"mqsniff: {capture.name}: {capture.unreadable}")
        return bool(unreadable) and len(unreadable) == len(pipeline.captures)

    def _code(self, pipeline: Pipeline) -> int:
        for fault in self._acts.faults:
            say(f"mqsniff: {fault}")
        return 2 if any(capture.unreadable for capture in pipeline.captures) else 0

    # ---- showing

    def _show(self, traces: Sequence[Trace], captures: list[CaptureInfo], *, found: int, more: bool) -> None:
        from mqsniff.answers.trace.finish import finish

        o = self._options
        done = [finish(trace, self._topics) for trace in traces]
        if o.as_json:
            from mqsniff.answers.trace.document import document

            sys.stdout.buffer.write(document(done, captures, o.shown, found=found, more=more))
            return
        from mqsniff.answers.trace.text import TraceLook, TraceText

        terminal = sys.stdout.isatty()
        width = shutil.get_terminal_size().columns if terminal else None
        look = TraceLook(o.time, wants_color(o.color, terminal=terminal), width, replace(o.shown, max_bytes=None))
        text = TraceText(captures, look)
        for number, trace in enumerate(done, 1):
            if number > 1:
                click.echo()
            for line in text.lines(trace, number, found):
                click.echo(line, color=True)

    def _say_more(self, found: int, shown: int, what: str, newest: str, *, more: bool = False) -> None:
        at_least = "more than " if more else ""
        say(f"{at_least}{found:,} {what} fit: the {shown:,} oldest are shown (-n COUNT shows more){newest}")

    def _say_records(self, finder: RecordFinder) -> None:
        """Say what records there are instead."""
        if not finder.seen:
            say("mqsniff: no record fits: the captures show none")
            return
        topics = {topic for _, topic, _ in finder.partitions}
        count = f"{len(topics):,} topic{'' if len(topics) == 1 else 's'}"
        say(f"mqsniff: no record fits; records of {count} were seen {finder.seen:,} times")
        wanted = next(iter(self._options.topics), None)
        near = {topic for topic in topics if wanted is not None and wanted in topic} or topics
        if wanted is not None and near == topics and (meant := did_you_mean(wanted, topics)):
            say(f"mqsniff: no topic {wanted}{meant}")
        told = [place for place in finder.partitions if place[1] in near]
        for protocol, topic, partition in told[:_OFFSETS_TOLD]:
            seen = finder.partitions[protocol, topic, partition]
            where = topic if partition is None else f"{topic} partition {partition}"
            offsets = "" if seen.first is None else f", offsets {seen.first} to {seen.last}"
            say(f"  {protocol} {where}: {seen.records:,} times{offsets}")
        if len(told) > _OFFSETS_TOLD:
            say(f"  and {len(told) - _OFFSETS_TOLD:,} more partitions")


def _place_of(record: TracedRecord) -> str:
    """Where a record is, in a word or two."""
    offset, message_id = record.row["offset"], record.row["message_id"]
    where = f"offset {offset}" if offset is not None else message_id or ""
    return f"{record.topic} {where}".rstrip()


def _fits_connection(wanted: tuple[str, ...]) -> Callable[[ConnectionInfo], bool]:
    starts = tuple(text.lower() for text in wanted)

    def fits(connection: ConnectionInfo) -> bool:
        return connection.connection_id.startswith(starts) or connection.client in wanted

    return fits


def _nothing(kind: str, asked: str, seen: Any) -> str:
    """What is said where nothing fits."""
    names = [name for name, _ in seen.most_common(_OFFSETS_TOLD)]
    more = len(seen) - len(names)
    listed = (
        f"; there are {', '.join(names)}{f' and {more:,} more' if more > 0 else ''}" if names else "; there is none"
    )
    return f"mqsniff: no {kind} {asked}{did_you_mean(asked, seen)}{listed}"
