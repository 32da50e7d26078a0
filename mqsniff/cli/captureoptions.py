"""Options of ``mqsniff live`` for what it captures and where it writes packets: click parameters in, a choice out."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from mqsniff.cli.filtering import reading
from mqsniff.cli.inputs import complete_file
from mqsniff.cli.sections import all_of, option
from mqsniff.filters.amounts import read_duration, read_size
from mqsniff.limits import SECOND_NS

if TYPE_CHECKING:
    from mqsniff.cli.options import RunOptions
    from mqsniff.sources.live import CaptureWishes

_CAPTURE: Final = "Capture"
_FOLLOW: Final = "Following files"
_RECORD: Final = "Writing packets"
_BUFFER_MIN: Final = 2 << 20
_SNAPLEN: Final = (64, 1 << 26)


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureChoice:
    """What the user asked of a capture."""

    interfaces: tuple[str, ...] = ()
    listed: bool = False
    bpf: str | None = None
    ports_only: bool = False
    promiscuous: bool = True
    snaplen: int | None = None
    buffer: int | None = None
    packet_count: int | None = None
    duration_ns: int | None = None
    idle_ns: int | None = None
    user: str | None = None
    follow: tuple[str, ...] = ()
    state: Path | None = None
    every_ns: int | None = None
    record: Path | None = None
    ring_size: int | None = None
    ring_files: int | None = None
    ring_ns: int | None = None

    @classmethod
    def split(cls, options: dict[str, Any]) -> tuple[CaptureChoice, dict[str, Any]]:
        """The choice among the parameters of a command, and the other parameters."""
        own = {each.name for each in fields(cls)}
        made = cls(**{name: value for name, value in options.items() if name in own})
        made._check(options)
        return made, {name: value for name, value in options.items() if name not in own}

    def _check(self, options: dict[str, Any]) -> None:
        """Raise click.UsageError for a combination that cannot be meant."""
        given = {name for name in ("interfaces", "follow") if getattr(self, name)}
        of_interfaces = self.bpf or self.ports_only or self.user or self.record or self.buffer or self.snaplen
        refusals = (
            (not self.listed and len(given) != 1, "say what to read: -i IFACE or --follow PATH, one of the two"),
            (self.bpf is not None and self.ports_only, "--ports-only is a filter; -f gives another one"),
            (self.follow and of_interfaces, "-f, -w, --ports-only, --user, --buffer and --snaplen belong to -i"),
            (self.state is not None and not self.follow, "--state belongs to --follow"),
            (self._has_ring and self.record is None, "--ring-size, --ring-files and --ring-seconds belong to -w FILE"),
            (self.every_ns is not None and options.get("output") != "parquet", "--every belongs to -o parquet"),
            (self.every_ns is not None and self.every_ns < SECOND_NS, "--every: its least value is 1s"),
            (self.every_ns is not None and options.get("overwrite"), "--every adds to a folder; --overwrite clears it"),
            (self.ring_files is not None and not (self.ring_size or self.ring_ns),
             "--ring-files needs --ring-size or --ring-seconds, which end a file"),
            (self.buffer is not None and self.buffer < _BUFFER_MIN, "--buffer: its least value is 2MiB"),
            (self.snaplen is not None and not _SNAPLEN[0] <= self.snaplen <= _SNAPLEN[1],
             "--snaplen: 64 bytes to 64 MiB"),
        )  # fmt: skip
        for refused, why in refusals:
            if refused:
                raise click.UsageError(why)

    @property
    def _has_ring(self) -> bool:
        return not (self.ring_size is None and self.ring_files is None and self.ring_ns is None)

    def wishes(self, options: RunOptions) -> CaptureWishes:
        """What is wanted of an interface."""
        from mqsniff.sources.capturefilter import default_filter
        from mqsniff.sources.live import CaptureWishes
        from mqsniff.sources.packetring import BUFFER, SNAPLEN

        ports = self.known_ports(options) if self.ports_only else ()
        return CaptureWishes(
            bpf=self.bpf if self.bpf is not None else default_filter(os.environ, ports),
            is_default=self.bpf is None,
            count=self.packet_count,
            duration_ns=self.duration_ns,
            idle_ns=self.idle_ns,
            snaplen=self.snaplen or SNAPLEN,
            buffer=self.buffer or BUFFER,
            window=options.limits.window,
            promiscuous=self.promiscuous,
        )

    @staticmethod
    def known_ports(options: RunOptions) -> tuple[int, ...]:
        """Server ports of all protocols, and those of --decode-as."""
        from mqsniff.decode.registry import load_dissectors

        known = {port for each in load_dissectors() if each.dissector for port in each.dissector.ports}
        return tuple(sorted(known | set(options.decode_as)))


def _complete_interface(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    """Interfaces of this machine, for the shell."""
    return [name for name in ("any", *(each for _, each in socket.if_nameindex())) if name.startswith(incomplete)]


def _read_seconds(text: str) -> int:
    """A span of time; a bare number counts seconds."""
    try:
        number = float(text)
    except ValueError:
        number_ns = read_duration(text)
    else:
        number_ns = int(number * SECOND_NS) if 0 < number < 1e9 else 0
    if number_ns <= 0:
        raise ValueError(f"{text!r} is not a duration, such as 60, 90s or 10m")
    return number_ns


capture_options: Final = all_of((
    option(_CAPTURE, "-i", "--interface", "interfaces", multiple=True, metavar="IFACE",
           shell_complete=_complete_interface, help="Interface to listen on, or any; repeatable."),
    option(_CAPTURE, "--list", "listed", is_flag=True, help="List the interfaces, and end."),
    option(_CAPTURE, "-f", "--filter", "bpf", metavar="BPF",
           help="Capture filter, as tcpdump's.  [default: all that can carry TCP, but not this terminal's ssh]"),
    option(_CAPTURE, "--ports-only", is_flag=True,
           help="Capture only the usual ports of the protocols, and those of --decode-as: costs less, sees less."),
    option(_CAPTURE, "--promiscuous/--no-promiscuous", default=True, show_default=True,
           help="Take packets that are for other hosts too."),
    option(_CAPTURE, "--snaplen", metavar="SIZE", callback=reading(read_size),
           help="Bytes of a packet that are captured.  [default: 240KiB, which is all of it]"),
    option(_CAPTURE, "--buffer", metavar="SIZE", callback=reading(read_size),
           help="Memory in which packets wait for decoding; more bridges longer bursts.  [default: 48MiB]"),
    option(_CAPTURE, "--count", "packet_count", metavar="N", type=click.IntRange(min=1), help="Stop after N packets."),
    option(_CAPTURE, "--duration", "duration_ns", metavar="SPAN", callback=reading(_read_seconds),
           help="Stop after a time: 60 (seconds), 10m."),
    option(_CAPTURE, "--idle", "idle_ns", metavar="SPAN", callback=reading(_read_seconds),
           help="Stop when no packet came for so long."),
    option(_CAPTURE, "--user", metavar="NAME",
           help="Become this user once the sockets are open, for good; files are written as this user."),
    option(_FOLLOW, "--follow", metavar="PATH", multiple=True, shell_complete=complete_file,
           help="Read a capture that grows, or a folder into which captures are rotated, in place of an interface; "
                "repeatable."),
    option(_FOLLOW, "--state", metavar="FILE", type=click.Path(path_type=Path),
           help="Checkpoint of --follow: started again, the run goes on where it was; nothing is lost or doubled. "
                "For -o parquet, and for -o ndjson appended to a file (>>)."),
    option(_RECORD, "-w", "--write", "record", metavar="FILE", type=click.Path(path_type=Path),
           help="Write the packets to this pcapng file as well."),
    option(_RECORD, "--ring-size", metavar="SIZE", callback=reading(read_size),
           help="Begin another file after so many bytes; names get a number and a time."),
    option(_RECORD, "--ring-seconds", "ring_ns", metavar="SPAN", callback=reading(_read_seconds),
           help="Begin another file after so long."),
    option(_RECORD, "--ring-files", metavar="N", type=click.IntRange(min=1), help="Keep the last N files."),
    option("Output", "--every", "every_ns", metavar="SPAN", callback=reading(_read_seconds),
           help="Parquet: complete part files every so often, to be read at once, and add to what the folder holds."),
))  # fmt: skip
"""Everything that tells ``live`` what to read, and where packets go."""
