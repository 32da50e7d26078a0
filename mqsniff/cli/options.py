"""Options that ``decode`` and ``live`` share: click parameters in, a ``RunOptions`` out.

1. A value, or a combination, that cannot be meant is refused before anything is read.
2. What needs the list of protocols loads it only when the option is given.
"""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, get_args

import click

from mqsniff.cli.filtering import filter_options, filters_of, where_option
from mqsniff.cli.known import OneOf, unknown
from mqsniff.cli.sections import Decorator, all_of, option
from mqsniff.cli.talk import say
from mqsniff.filters.amounts import read_limits
from mqsniff.filters.itemfilter import NO_FILTERS, Filters
from mqsniff.filters.moments import NO_TIMES, AskedTimes
from mqsniff.limits import Limits
from mqsniff.model import ProblemKind, Severity
from mqsniff.sinks.clock import TimeMode
from mqsniff.tables.schemas import STREAM_TABLES, TABLES, TableName

if TYPE_CHECKING:
    from mqsniff.dissector import Settings
    from mqsniff.tables.hashkey import HashKey
    from mqsniff.tables.values import Redaction
    from mqsniff.tls.keylog import KeyLog

KEYS_VARIABLE: Final = "SSLKEYLOGFILE"
OUTPUTS: Final = ("text", "ndjson", "csv", "parquet")

CONDITIONS: Final = ("empty", "answer-error", "unanswered", "reset", "timeout")
FAIL_ON: Final = (*get_args(Severity), *get_args(ProblemKind), *CONDITIONS)
TIME_MODES: Final = get_args(TimeMode)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetPeriod:
    """When parts of Parquet are completed, and what they are called after."""

    seconds: float | None
    """None: when a checkpoint is made."""
    run: str
    first: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What the user asked of a run, whatever its source is."""

    decode_as: dict[int, str]
    show_secrets: bool
    show_raw: bool
    redact: tuple[str, ...]
    limits: Limits
    output: str | None = None
    tables: tuple[TableName, ...] = ()
    out: Path | None = None
    is_temporary: bool = False
    """Whether ``out`` is nobody's but ours."""
    overwrite: bool = False
    verbose: bool = False
    records: bool = False
    fail_on: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    """Columns that go out; none: those of the form."""
    count: int | None = None
    wide: bool = False
    pager: bool = False
    packets: bool = False
    live: bool = False
    """Whether packets come while somebody watches."""
    period: ParquetPeriod | None = None
    """How parts of Parquet are completed while a run goes on; None: at its end."""
    counted: bool = False
    """Whether everything is counted, as `mqsniff stats` does, beside the rows or in place of them."""
    domain: str = ""
    time: TimeMode = "utc"
    color: str = "auto"
    max_bytes: int | None = None
    where: str | None = None
    filters: Filters = NO_FILTERS
    times: AskedTimes = NO_TIMES
    """Times of the filters that the capture decides."""
    tls_keys: tuple[KeyLog, ...] = ()
    """Key logs that open TLS."""
    hash_key: HashKey | None = None
    """The key of hashes of what is not shown; None: a random one."""
    jobs: int | None = None
    """Processes that decode; None: as it pays."""

    def __post_init__(self) -> None:
        """Make the key of the run, if the user gave none."""
        if self.hash_key is None:
            from mqsniff.tables.hashkey import HashKey

            object.__setattr__(self, "hash_key", HashKey.random())

    @classmethod
    def of(cls, options: dict[str, Any]) -> RunOptions:
        """The parameters of a command as one; raises click.UsageError for a combination that cannot be meant."""
        filters = filters_of(options)
        made = cls(filters=filters, **options)
        if made.output == "csv" and len(made.wanted("csv")) > 1:
            raise click.UsageError("-o csv writes one table at a time; choose one with --table")
        tables = made.wanted("csv")
        known = dict.fromkeys(column.name for table in tables for column in TABLES[table])
        for name in made.fields:
            if name not in known:
                raise click.UsageError(f"--fields: {unknown('field', name, list(known))} (of {', '.join(tables)})")
        if made.output == "parquet" and made.out is None:
            raise click.UsageError("-o parquet needs --out DIR, a folder to write to")
        if made.output != "parquet" and (made.out is not None or made.overwrite):
            raise click.UsageError("--out and --overwrite belong to -o parquet; other outputs go to stdout")
        return made

    def wanted(self, output: str) -> tuple[TableName, ...]:
        """The tables that go out; records are one of them where they do not stand under their message, as in text."""
        match output:
            case "parquet":
                return self.tables or tuple(TABLES)
            case "csv":
                return self.tables or (("records",) if self.records else ("messages",))
            case "text" if self.fields:
                return self.tables or (("records",) if self.records else ("messages",))
        chosen = self.tables or STREAM_TABLES
        if self.records and output == "ndjson" and "records" not in chosen:
            return (*chosen, "records")
        return chosen

    @property
    def shown(self) -> Redaction:
        """What is shown of secrets, undecoded bytes and record data."""
        from mqsniff.tables.values import Redaction

        payload = "payload" not in self.redact
        return Redaction(self.show_secrets, self.show_raw, payload, self.max_bytes, self.hash_key)

    def settings(self, output: str) -> Settings:
        """What is asked of dissectors; filters look at everything."""
        from mqsniff.dissector import USUAL, Settings

        tables = self.wanted(output)
        all_of_it = output == "text" or bool(self.filters or any(self.times)) or self.where is not None
        wanted = {each for each in USUAL if all_of_it or each in tables}
        if self.counted:
            wanted |= USUAL | {"records"}
            if not (self.needs_records(output) or self.filters or any(self.times) or self.where is not None):
                wanted.add("amounts")
        elif self.needs_records(output):
            wanted.add("records")
        return Settings(self.limits, frozenset(wanted))

    def needs_records(self, output: str) -> bool:
        """Whether record batches have to be opened."""
        return self.records or "records" in self.wanted(output) or self.filters.needs_records


def _decode_as(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[int, str]:
    """PORT=PROTO pairs as a dict."""
    if not values:
        return {}
    from mqsniff.decode.registry import Registry, load_dissectors

    known = Registry(load_dissectors()).names()
    chosen: dict[int, str] = {}
    for value in values:
        port, _, name = value.partition("=")
        if not port.isdecimal() or not 0 < int(port) < 65_536:
            raise click.BadParameter(f"{value!r} is not PORT=PROTO, such as 14150=nsq", ctx, param)
        if name not in known:
            raise click.BadParameter(unknown("protocol", name, known), ctx, param)
        chosen[int(port)] = name
    return chosen


def _fields(ctx: click.Context, param: click.Parameter, text: str) -> tuple[str, ...]:  # noqa: ARG001  # click's
    """Names between commas."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _tls_keys(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[KeyLog, ...]:
    """Key logs; that of SSLKEYLOGFILE, if it is there, where none is given. In ``live`` it may come, and grow."""
    live = ctx.info_name == "live"
    default = os.environ.get(KEYS_VARIABLE)
    names = values or ((default,) if default and (live or os.path.exists(default)) else ())  # noqa: PTH110
    if not names:
        return ()
    from mqsniff.tls.keylog import KeyLog

    logs = []
    for name in names:
        try:
            logs.append(KeyLog(name, follow=live))
        except OSError as error:
            raise click.BadParameter(f"{name}: {error.strerror or error}", ctx, param) from None
    return tuple(logs)


def _hash_key(ctx: click.Context, param: click.Parameter, name: str | None) -> HashKey | None:
    """The key in a file; what anybody can read is no secret, which is said."""
    if name is None:
        return None
    from mqsniff.tables.hashkey import HashKey, HashKeyError, others_can_read

    try:
        key = HashKey.of_file(name)
    except OSError as error:
        raise click.BadParameter(f"{name}: {error.strerror or error}", ctx, param) from None
    except HashKeyError as error:
        raise click.BadParameter(f"{name} {error}", ctx, param) from None
    if others_can_read(name):
        say(f"mqsniff: others on this machine can read the key in {name}: chmod 600 {shlex.quote(name)}")
    return key


def _limits(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> Limits:
    """NAME=VALUE pairs on top of the defaults."""
    try:
        return read_limits(values)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from None


def _complete_limit(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001  # click's
    return [f"{name}=" for name in Limits.about() if name.startswith(incomplete)]


def _complete_field(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001  # click's
    """Columns of the tables that were chosen before, for the last name between commas."""
    before, comma, name = incomplete.rpartition(",")
    tables = ctx.params.get("tables") or ("messages",)
    known = dict.fromkeys(column.name for table in TABLES if table in tables for column in TABLES[table])
    return [f"{before}{comma}{each}" for each in known if each.startswith(name)]


_OUTPUT: Final = "Output"
_DECODING: Final = "Decoding"

tls_option: Final = option(
    _DECODING, "--tls-keys", multiple=True, metavar="FILE", callback=_tls_keys,
    help="Decrypt TLS with this key log, as SSLKEYLOGFILE makes it; repeatable.  [default: the file that the variable "
         "SSLKEYLOGFILE names; what pcapng captures hold is used in any case]")  # fmt: skip
"""What opens TLS."""


def _key_option(default: str) -> Decorator:
    return option(
        _DECODING, "--hash-key", metavar="FILE", callback=_hash_key,
        help="Key of the hashes that stand for redacted and undecoded bytes, 16 bytes or more (openssl rand -hex 32 "
             f"makes one): in all runs with it, equal bytes have equal hashes.  [default: {default}]")  # fmt: skip


hash_key_option: Final = _key_option("a random key for each run")
"""What hashes are made with."""

golden_key_option: Final = _key_option("a published key")
"""What hashes in goldens are made with."""

decode_options: Final = all_of((
    option(_DECODING, "--decode-as", multiple=True, metavar="PORT=PROTO", callback=_decode_as,
           help="Read connections to a server port as this protocol; repeatable."),
    tls_option,
    option(_DECODING, "--show-secrets", is_flag=True, help="Show passwords, tokens and the like."),
    option(_DECODING, "--show-raw", is_flag=True,
           help="Show bytes that were not decoded, not just their size and hash."),
    option(_DECODING, "--redact", multiple=True, type=OneOf("part of records", ("payload",)),
           help="Replace keys, values and header values of records by their sizes and keyed hashes."),
    hash_key_option,
    option(_DECODING, "--limit", "limits", multiple=True, metavar="NAME=VALUE", callback=_limits,
           shell_complete=_complete_limit,
           help="Change a limit, such as tables_buffer=64MiB (`mqsniff protocols limits` lists them); repeatable."),
))  # fmt: skip
"""How traffic is read, for every command that decodes."""

jobs_option: Final = option(
    _DECODING, "--jobs", metavar="N", type=click.IntRange(1, 256),
    help="Processes that decode to NDJSON, CSV, Parquet or for SQL, each the connections of its share; rows and their "
         "order are those of one. Text, stdin, -n, --where, --connection c3 and times without a date take one.  "
         "[default: the cores for large files, else 1]")  # fmt: skip
"""How many processes decode."""

run_options: Final = all_of((
    option(_OUTPUT, "-o", "--output", type=OneOf("output", OUTPUTS),
           help="Form of the output.  [default: text on a terminal, ndjson in a pipe]"),
    option(_OUTPUT, "--table", "tables", multiple=True, type=OneOf("table", TABLES), metavar="NAME",
           help=f"Table to show, of {', '.join(TABLES)}; repeatable.  [default: {', '.join(STREAM_TABLES)}; "
                "csv: messages; parquet: all]"),
    option(_OUTPUT, "--fields", metavar="A,B,C", default="", callback=_fields, shell_complete=_complete_field,
           help="Text and CSV: these columns of the table, in this order (docs/tables.md, or `mqsniff sql FILE TABLE`, "
                "tells what they mean)."),
    option(_OUTPUT, "--out", metavar="DIR", type=click.Path(path_type=Path),
           help="Parquet: folder to write to, a folder a table in it."),
    option(_OUTPUT, "--overwrite", is_flag=True, help="Parquet: replace the tables in the folder."),
    option(_OUTPUT, "-v", "--verbose", is_flag=True,
           help="Text: show every field of a message under it, and what the network did."),
    option(_OUTPUT, "--records", is_flag=True,
           help="Show records: in text under their message, else as the table records."),
    option(_OUTPUT, "-n", "--max-messages", "count", metavar="COUNT", type=click.IntRange(min=1),
           help="Stop after COUNT messages that the filters chose."),
    option(_OUTPUT, "--time", type=OneOf("form of times", TIME_MODES), default="utc", show_default=True,
           help="Times in text."),
    option(_OUTPUT, "--color", type=OneOf("choice", ("auto", "always", "never")), default="auto", show_default=True,
           help="Colours in text; auto: on a terminal, unless NO_COLOR is set."),
    option(_OUTPUT, "--wide", is_flag=True, help="Text on a terminal: wrap long lines instead of cutting them."),
    option(_OUTPUT, "--pager", is_flag=True,
           help="Text on a terminal: use a pager: $MQSNIFF_PAGER, or less -RS; always, if that variable is set."),
    option(_OUTPUT, "--packets", is_flag=True,
           help="Text: show the number of the packet in which each message begins (#113)."),
    option(_OUTPUT, "--max-bytes", metavar="N", type=click.IntRange(min=0),
           help="Show at most this many bytes of a record's key or value.  [default: 256 in text, else all]"),
    option(_OUTPUT, "--fail-on", multiple=True, type=OneOf("kind", FAIL_ON), metavar="KIND",
           help="Exit 1 when this was found in what the filters chose: a kind of problem (see mqsniff protocols "
                "problems), a severity (that one or worse), empty (no message), answer-error (a broker answered with "
                "an error), unanswered (a request got no answer), reset (a side reset a connection) or timeout (an "
                "answer, a handshake, a heartbeat or a client that gave up says so); repeatable."),
    filter_options,
    where_option,
    decode_options,
))  # fmt: skip
"""Everything that ``decode`` and ``live`` share."""
