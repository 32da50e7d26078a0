"""Options of ``mqsniff live`` for what it shows and exports beside rows: click parameters in, ``WatchOptions`` out."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Final
from urllib.parse import urlsplit

import click

from mqsniff.cli.filtering import reading
from mqsniff.cli.options import RunOptions
from mqsniff.cli.outputs import SILENT
from mqsniff.cli.sections import all_of, option
from mqsniff.filters.amounts import read_duration
from mqsniff.limits import SECOND_NS

OTLP_PATH: Final = "/v1/metrics"
_WATCH: Final = "Summary and metrics"


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchOptions:
    """What the user asked to see beside rows."""

    summary: bool = False
    interval_ns: int | None = None
    metrics: tuple[str, int] | None = None
    metrics_topics: int | None = None
    otlp: str | None = None
    color: str = "auto"

    def __bool__(self) -> bool:
        return self.summary or self.metrics is not None or self.otlp is not None

    def check(self) -> None:
        """Raise click.UsageError for a combination that cannot be meant."""
        if self.interval_ns is not None and not self.summary:
            raise click.UsageError("--interval belongs to --summary")
        if self.interval_ns is not None and self.interval_ns < SECOND_NS:
            raise click.UsageError("--interval: its least value is 1s")
        if self.metrics_topics is not None and self.metrics is None and self.otlp is None:
            raise click.UsageError("--metrics-topics belongs to --metrics and --otlp")


def read_address(text: str) -> tuple[str, int]:
    """ADDR:PORT as host and port; ValueError if one of them is not there."""
    host, colon, port = text.rpartition(":")
    host = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not colon or not host or not port.isascii() or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"{text!r} is no address with a port, such as 127.0.0.1:9420, 0.0.0.0:9420 or [::1]:9420")
    return host, int(port)


def read_endpoint(text: str) -> str:
    """The URL of a collector; without a path it gets that of OTLP."""
    try:
        parts = urlsplit(text)
        good = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good:
        raise ValueError("not the URL of a collector, such as http://127.0.0.1:4318")
    return parts._replace(path=OTLP_PATH).geturl() if parts.path in {"", "/"} else text


watch_options: Final = all_of((
    option(_WATCH, "--summary", is_flag=True,
           help="Show a table of commands, rates, latency, errors and topics in place of rows; not on a terminal: a "
                "line every --interval."),
    option(_WATCH, "--interval", "interval_ns", metavar="TIME", callback=reading(read_duration),
           help="Time that rates and latency of --summary are of.  [default: 10s]"),
    option(_WATCH, "--metrics", metavar="ADDR:PORT", callback=reading(read_address),
           help="Serve metrics for Prometheus there and nowhere else (docs/metrics.md)."),
    option(_WATCH, "--metrics-topics", metavar="N", type=click.IntRange(min=0),
           help="Count records of the first N topics apart.  [default: 0]"),
    option(_WATCH, "--otlp", metavar="URL", callback=reading(read_endpoint),
           help="Send the same metrics to a collector of OpenTelemetry, by OTLP over HTTP."),
))  # fmt: skip
"""What is shown and exported beside rows."""


def split_options(options: dict[str, Any]) -> tuple[WatchOptions, RunOptions]:
    """The parameters of ``live`` apart: what to watch, and the run; raises click.UsageError where they do not fit."""
    own = {field.name for field in fields(WatchOptions)} - {"color"}
    watched = WatchOptions(color=options["color"], **{name: options[name] for name in own})
    watched.check()
    wanted = RunOptions.of({name: value for name, value in options.items() if name not in own} | {"live": True})
    if watched.summary and wanted.output in {"text", "ndjson", "csv"}:
        raise click.UsageError(f"--summary stands on stdout in place of rows; it does not go with -o {wanted.output}")
    if not watched:
        return watched, wanted
    return watched, replace(wanted, counted=True, output=wanted.output or (SILENT if watched.summary else None))
