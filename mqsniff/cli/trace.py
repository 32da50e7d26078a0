"""``mqsniff trace FILE…``: one record, group, connection or transaction through everything that happened to it."""

from __future__ import annotations

import contextlib
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from mqsniff.cli.decode import domain_option
from mqsniff.cli.filtering import read_key, read_name, read_offsets, reading
from mqsniff.cli.inputs import complete_file, input_files
from mqsniff.cli.known import OneOf
from mqsniff.cli.options import TIME_MODES, RunOptions, decode_options
from mqsniff.cli.sections import SectionedCommand, all_of, option

if TYPE_CHECKING:
    from mqsniff.answers.trace.steps import TracedKind
    from mqsniff.filters.recordfilter import OffsetRange

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
           help="A connection by its short name, as text shows it for these files (c3), by its connection_id, how that "
                "begins, or its client's ip:port."),
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
           help="Show at most this many bytes of a key or value.  [default: 64]"),
    decode_options,
    domain_option,
))  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceQuestion:
    """What the user wants to follow."""

    topics: tuple[str, ...]
    partitions: tuple[int, ...]
    offsets: tuple[OffsetRange, ...]
    keys: tuple[bytes, ...]
    message_ids: tuple[str, ...]
    groups: tuple[str, ...]
    connections: tuple[str, ...]
    transactions: tuple[str, ...]

    @property
    def kind(self) -> TracedKind:
        """What is traced; raises click.UsageError where that is nothing, or two things."""
        given: dict[TracedKind, object] = {
            "record": self.topics or self.partitions or self.offsets or self.keys or self.message_ids,
            "group": self.groups,
            "connection": self.connections,
            "transaction": self.transactions,
        }
        kinds = [kind for kind, there in given.items() if there]
        if not kinds:
            raise click.UsageError("say what to trace: --topic and --offset, --key, --message-id, --group, …")
        if len(kinds) > 1:
            raise click.UsageError(f"a trace follows one kind of thing, not a {' and a '.join(kinds)}")
        return kinds[0]


@click.command(cls=SectionedCommand, epilog=EPILOG, no_args_is_help=True)
@click.argument("files", nargs=-1, required=True, metavar="FILE...", shell_complete=complete_file)
@trace_options
def command(files: tuple[str, ...], *, as_json: bool, **options: Any) -> int:
    """Follow one record, group, connection or transaction through captures.

    A record: how it was produced and stored, each delivery, commit or acknowledgement, redeliveries, retry and dead
    letter topics, with the waits between. What the capture does not show is said.
    """
    from mqsniff.cli.signals import code_of, ended_by_sigterm
    from mqsniff.cli.tracerun import TraceRun

    question = TraceQuestion(**{each.name: options.pop(each.name) for each in fields(TraceQuestion)})
    kind = question.kind
    wanted = RunOptions(**options)
    twice = kind in ("record", "transaction")
    paths = input_files(files)
    try:
        with ended_by_sigterm(), _readable_twice(paths) if twice else contextlib.nullcontext(paths) as inputs:
            run = TraceRun(inputs, question, wanted, as_json=as_json)
            return run.records() if kind == "record" else run.others(kind)
    except KeyboardInterrupt as interrupt:
        return code_of(interrupt)


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
