"""``mqsniff explain FILE… N``: the messages that touch a packet, field by field beside their bytes."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from mqsniff.cli.known import OneOf
from mqsniff.cli.options import TIME_MODES, RunOptions, decode_options
from mqsniff.cli.sections import SectionedCommand, option
from mqsniff.cli.signals import code_of, ended_by_sigterm
from mqsniff.cli.talk import say

if TYPE_CHECKING:
    from mqsniff.answers.explain import Explanation
    from mqsniff.answers.packetfinder import PacketFinder
    from mqsniff.pipeline import Pipeline

EPILOG: Final = """\b
Examples:
  mqsniff explain capture.pcap 113           the messages of packet 113
  mqsniff explain capture.pcap 113 --wide    all bytes and values
  mqsniff explain capture.pcap 113 --json | jq '.messages[0].fields'
  mqsniff explain a.pcap b.pcap b.pcap:113   packet 113 of b, a read before it
"""

_SECTION: Final = "Output"


class ExplainArguments(NamedTuple):
    """What stands on the command line."""

    files: tuple[str, ...]
    capture: str
    """The file that the packet is in."""
    number: int


@click.command(cls=SectionedCommand, epilog=EPILOG, no_args_is_help=True)
@click.argument("arguments", nargs=-1, required=True, metavar="FILE... N")
@option(_SECTION, "--message", "chosen", metavar="K", type=click.IntRange(min=1),
        help="Show the K-th message that touches the packet only.")  # fmt: skip
@option(_SECTION, "--json", "as_json", is_flag=True, help="One JSON object: packet, display_filter, messages, why.")
@option(_SECTION, "--wide", is_flag=True, help="Show all bytes and values, and cut no line.")
@option(_SECTION, "--max-bytes", metavar="N", type=click.IntRange(min=0),
        help="Show at most this many bytes of a field.  [default: one row; JSON: all]")  # fmt: skip
@option(_SECTION, "--time", type=OneOf("form of times", TIME_MODES), default="utc", show_default=True,
        help="Times in text.")  # fmt: skip
@option(_SECTION, "--color", type=OneOf("choice", ("auto", "always", "never")), default="auto", show_default=True,
        help="Colours in text; auto: on a terminal, unless NO_COLOR is set.")  # fmt: skip
@decode_options
def command(arguments: tuple[str, ...], chosen: int | None, *, as_json: bool, wide: bool, **options: Any) -> int:
    """Explain a packet: the messages that it carries, field by field beside their bytes.

    N is the number of a packet in FILE, from 1, as Wireshark and the columns first_packet and last_packet count it. A
    message that goes over several packets is shown as a whole. With several files, which are read as one capture, N is
    written NAME:N.

    Each field has its offset in the message, its size, its bytes in hex, its name, its value and what that means;
    records of batches too, those of compressed ones at offsets in the decompressed bytes. Secrets are hidden in values
    and bytes (**) unless --show-secrets. Where no message touches the packet, the reason is told, and where the nearest
    messages are.
    """
    from mqsniff.answers.explain import Explainer
    from mqsniff.answers.packetfinder import PacketFinder

    asked = read_explain_arguments(arguments)
    wanted = RunOptions(**options)
    finder = PacketFinder()
    pipeline = _pipeline(asked, wanted, finder)
    try:
        with ended_by_sigterm():
            explanation = Explainer(finder).explain(pipeline.items())
    except KeyboardInterrupt as interrupt:
        return code_of(interrupt)
    if (refusal := _refusal(asked, pipeline, finder)) is not None:
        say(f"mqsniff: {refusal}")
        return 2
    if chosen is not None and explanation.found:
        if chosen > len(explanation.found):
            raise click.UsageError(f"{len(explanation.found)} messages touch packet {asked.number}, not {chosen}")
        explanation.found = explanation.found[chosen - 1 : chosen]
    _write(explanation, asked, pipeline, wanted, as_json=as_json, wide=wide)
    return 0


def read_explain_arguments(arguments: tuple[str, ...]) -> ExplainArguments:
    """Tell files and packet apart; raises click.UsageError."""
    *files, last = arguments
    name, _, number = last.rpartition(":")
    if not number.isdecimal() or int(number) < 1 or len(number) > 12:
        raise click.UsageError(f"{last!r} is not a packet number, such as 113; it comes after FILE")
    if not files:
        raise click.UsageError("no FILE before the packet number")
    if not name:
        if len(set(files)) > 1:
            raise click.UsageError(f"packet {number} of which file? write it as {Path(files[-1]).name}:{number}")
        return ExplainArguments(tuple(files), files[0], int(number))
    fitting = [file for file in dict.fromkeys(files) if file == name or Path(file).name == name]
    if len(fitting) != 1:
        raise click.UsageError(f"{name!r} names {'none' if not fitting else 'more than one'} of the files")
    return ExplainArguments(tuple(files), fitting[0], int(number))


def _pipeline(asked: ExplainArguments, wanted: RunOptions, finder: PacketFinder) -> Pipeline:
    from mqsniff.cli.progress import Progress
    from mqsniff.dissector import USUAL, Settings
    from mqsniff.pipeline import Pipeline
    from mqsniff.sources.files import FileSource

    source = FileSource(asked.files, wanted.limits, Progress())
    finder.look_for(
        lambda: next((each.index for each in source.captures if each.name == asked.capture), None), asked.number
    )
    settings = Settings(wanted.limits, USUAL | {"spans"})
    return Pipeline(source, settings, decode_as=wanted.decode_as, observer=finder, keys=wanted.tls_keys)


def _refusal(asked: ExplainArguments, pipeline: Pipeline, finder: PacketFinder) -> str | None:
    """Why nothing can be told of the packet."""
    capture = next((each for each in pipeline.captures if each.name == asked.capture), None)
    if capture is not None and capture.unreadable:
        return f"{capture.name}: {capture.unreadable}"
    if finder.segment is None and finder.problem is None and (capture is None or capture.packets < asked.number):
        count = 0 if capture is None else capture.packets
        return f"{asked.capture}: there is no packet {asked.number}: it has {count:,}"
    return None


def _write(
    explanation: Explanation,
    asked: ExplainArguments,
    pipeline: Pipeline,
    wanted: RunOptions,
    *,
    as_json: bool,
    wide: bool,
) -> None:
    from mqsniff.answers.packetpage import PacketPage
    from mqsniff.cli.outputs import wants_color
    from mqsniff.sinks.panes import PaneOptions
    from mqsniff.sinks.textoptions import TextOptions

    terminal = sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if terminal and not wide else None
    text = TextOptions(
        time=wanted.time,
        color=wants_color(wanted.color, terminal=terminal),
        width=width,
        encoding=sys.stdout.encoding if terminal else "utf-8",
        shown=wanted.shown,
    )
    panes = PaneOptions(width, wanted.max_bytes, wide, wanted.shown)
    page = PacketPage(sys.stdout.buffer, pipeline.captures, (asked.capture, asked.number), text, panes)
    if as_json:
        page.write_json(explanation)
    else:
        page.write_text(explanation)
