"""Options of ``spark.read.format("mqsniff")`` in, what its tasks do out.

1. Options of ``decode`` have the same names, in any case and without hyphens: ``show-secrets`` is ``showSecrets``. One
   that takes several values takes a JSON list too: ``option("topic", '["orders", "payments"]')``.
2. No option is ignored: those of ``decode`` that say how rows are printed are refused, with what Spark has instead;
   unknown ones are refused with the most similar name.
3. Filters look at the rows of one file, or of all (``scope``), as ``decode`` with these files does.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, get_args

from mqsniff.batch.filesystems import settings_file, with_settings
from mqsniff.batch.sourcekeys import KeyFiles
from mqsniff.decode.registry import Registry, load_dissectors
from mqsniff.dissector import USUAL, Settings
from mqsniff.filters.amounts import read_duration, read_limits
from mqsniff.filters.itemfilter import Filters
from mqsniff.filters.known import did_you_mean, unknown
from mqsniff.filters.moments import AskedTimes
from mqsniff.filters.options import FILTER_OPTIONS, FilterOption
from mqsniff.filters.readings import asked_filters
from mqsniff.limits import Limits
from mqsniff.tables.hashkey import HashKey
from mqsniff.tables.schemas import TableName
from mqsniff.tables.times import SECOND_NS
from mqsniff.tables.values import Redaction

PACKETS: Final = "packets"
TABLE_NAMES: Final = get_args(TableName)
SCOPES: Final = ("file", "connection")
MODES: Final = ("PERMISSIVE", "FAILFAST")
_PRINTED: Final = "prints rows; Spark's writers do that"
REFUSED: Final[Mapping[str, str]] = {
    "where": "use where() of the DataFrame",
    "maxmessages": "use limit() of the DataFrame",
    "n": "use limit() of the DataFrame",
    "fields": "use select() of the DataFrame, or option('columns', …)",
    "records": "read the table records",
    "jobs": "Spark's tasks are the processes",
    "domain": "mqsniff.batch.spark.run(…, domain=…) tells capture domains apart",
    "failon": "count the rows of problems",
    "packets": "read the table packets",
    **dict.fromkeys(
        ("o", "output", "out", "overwrite", "v", "verbose", "time", "color", "wide", "pager", "q", "quiet"), _PRINTED
    ),
}
"""Options of ``decode`` that a table does not take, and what to do."""
_STREAM: Final = ("log", "settle", "maxfilespertrigger")
"""Options of ``readStream`` alone."""
_OWN: Final = (
    "path",
    "paths",
    "table",
    "scope",
    "mode",
    "columns",
    "pushfilters",
    "tlskeys",
    "hashkey",
    "storage",
    *_STREAM,
)
_DECODING: Final = ("decodeas", "showsecrets", "showraw", "redact", "maxbytes", "limit")
_BOOLEANS: Final = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


def plain_name(name: str) -> str:
    """An option as it is looked up: ``show-secrets``, ``show_secrets`` and ``showSecrets`` are one."""
    return name.replace("-", "").replace("_", "").lower()


FILTERS: Final[Mapping[str, FilterOption]] = {plain_name(option.option): option for option in FILTER_OPTIONS}


@dataclass(frozen=True)
class SourceRequest:
    """What a reader is asked for; it travels to the tasks, so it holds texts only."""

    paths: tuple[str, ...] = field(repr=False)
    """May hold credentials of ``storage``."""
    table: str
    scope: str
    fails_fast: bool
    columns: tuple[str, ...]
    """Empty: all."""
    pushes_filters: bool
    keys: KeyFiles
    log: str
    """Folder in which a stream keeps what it has read; empty where there is no stream."""
    settle_s: float
    """How long a file of a stream must have stayed the same."""
    files_most: int
    """Files of a stream that are read together."""
    options: Mapping[str, tuple[str, ...]]
    """Filters and options for decoding, by plain name."""

    @classmethod
    def of(cls, options: Mapping[str, str]) -> SourceRequest:
        """The options as one; ValueError for one that is unknown, refused, or cannot be meant."""
        given = {plain_name(name): value for name, value in options.items()}
        known = (*_OWN, *_DECODING, *FILTERS)
        for name in options:
            plain = plain_name(name)
            if plain in REFUSED:
                raise ValueError(f"option {name}: {REFUSED[plain]}")
            if plain not in known:
                raise ValueError(f"there is no option {name!r}{did_you_mean(plain, known)}")
        made = cls(
            paths=_opened(_paths(given), given.get("storage", "")),
            table=given.get("table", PACKETS),
            scope=given.get("scope", ""),
            fails_fast=_mode(given.get("mode", MODES[0])) == "FAILFAST",
            columns=tuple(name.strip() for name in given.get("columns", "").split(",") if name.strip()),
            pushes_filters=_boolean("pushFilters", given.get("pushfilters", "false")),
            keys=KeyFiles(
                tuple(name.strip() for name in given.get("tlskeys", "").split(",") if name.strip()),
                given.get("hashkey", ""),
            ),
            log=given.get("log", ""),
            settle_s=_read("settle", read_duration, given.get("settle", "10s")) / SECOND_NS,
            files_most=_read("maxFilesPerTrigger", int, given.get("maxfilespertrigger", "1000")),
            options={name: _several(value) for name, value in given.items() if name in (*_DECODING, *FILTERS)},
        )
        made.check()
        return made

    def check_stream(self) -> None:
        """ValueError for what a stream cannot do."""
        if not self.log:
            raise ValueError(
                "readStream needs option('log', FOLDER), where it keeps what it has read: one for each query"
            )
        if self.scope == "connection":
            raise ValueError(
                "a stream reads each file by itself (scope=file); mqsniff batch --follow decodes whole connections"
            )
        if self.pushes_filters:
            raise ValueError("option pushFilters: Spark tells streams of no filters")
        if self.files_most < 1:
            raise ValueError("option maxFilesPerTrigger: at least one file")

    def check(self) -> None:
        """ValueError for what cannot be meant."""
        if self.table not in (PACKETS, *TABLE_NAMES):
            raise ValueError(unknown("table", self.table, (PACKETS, *TABLE_NAMES)))
        if self.table == PACKETS:
            if self.options:
                raise ValueError(f"option {next(iter(self.options))}: packets are not decoded; use where()")
        elif self.scope not in SCOPES:
            raise ValueError(
                f"{self.table} need whole connections, which may span files: use "
                "mqsniff.batch.spark.frames(spark, inputs), option('scope', 'connection') for all files in one task, "
                "or option('scope', 'file') for each file by itself"
            )
        self.filters, self.shown(None), self.decode_as, self.limits  # each raises for its options

    @cached_property
    def filters(self) -> tuple[Filters, AskedTimes]:
        """The filters, and the times among them that a capture decides."""
        chosen: dict[str, Any] = {}
        for name, option in FILTERS.items():
            values = self.options.get(name)
            if values is None:
                continue
            if option.takes == "flag":
                chosen[option.field] = _boolean(name, values[-1])
            else:
                read = tuple(_read(name, option.read, value) for value in values)
                chosen[option.field] = read[-1] if option.takes == "one" else read
        return asked_filters(chosen)

    @cached_property
    def limits(self) -> Limits:
        """The limits of a task."""
        limits: Limits = _read("limit", read_limits, self.options.get("limit", ()))
        return limits

    @property
    def decode_as(self) -> dict[int, str]:
        """Protocols by server port."""
        named = Registry(load_dissectors()).names() if "decodeas" in self.options else ()
        ports: dict[int, str] = {}
        for given in self.options.get("decodeas", ()):
            port, _, name = given.partition("=")
            if not port.isdecimal() or name not in named:
                raise ValueError(f"option decodeAs: {given!r} is no PORT=PROTOCOL; {unknown('protocol', name, named)}")
            ports[int(port)] = name
        return ports

    def shown(self, hash_key: HashKey | None) -> Redaction:
        """What is shown of secrets and payload."""
        parts = self.options.get("redact", ())
        if parts not in ((), ("payload",)):
            raise ValueError(f"option redact: {unknown('part of records', parts[0], ('payload',))}")
        most = self.options.get("maxbytes")
        secrets, raw = (_boolean(name, self.options.get(name, ("false",))[-1]) for name in ("showsecrets", "showraw"))
        return Redaction(
            secrets=secrets,
            raw=raw,
            payload=not parts,
            max_bytes=None if most is None else _read("maxBytes", int, most[-1]),
            hash_key=hash_key,
        )

    def settings(self) -> Settings:
        """What dissectors have to give for the table; filters look at everything."""
        filters, times = self.filters
        looks = bool(filters or any(times))
        wanted = {each for each in USUAL if looks or each == self.table}
        if self.table == "records" or filters.needs_records:
            wanted.add("records")
        return Settings(self.limits, frozenset(wanted))


def _opened(paths: tuple[str, ...], storage: str) -> tuple[str, ...]:
    """Paths and URIs with the settings of a file of Hadoop; ValueError if it cannot be read."""
    if not storage:
        return paths
    try:
        setting = settings_file(storage)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ValueError(f"option storage: {storage}: {(reason or '').lower()}") from None
    return tuple(with_settings(path, setting) for path in paths)


def _paths(given: Mapping[str, str]) -> tuple[str, ...]:
    """What ``load`` was given; Spark sends several as a JSON list."""
    paths = tuple(json.loads(given["paths"])) if "paths" in given else ()
    paths += (given["path"],) if given.get("path") else ()
    if not paths:
        raise ValueError('format("mqsniff") needs .load(path): a capture, a folder, a glob or a URI, or a list of them')
    return paths


def _several(value: str) -> tuple[str, ...]:
    """One value, or those of a JSON list."""
    if value.startswith("["):
        try:
            listed = json.loads(value)
        except ValueError:
            return (value,)
        return tuple(str(each) for each in listed)
    return (value,)


def _read(name: str, read: Callable[[Any], Any], value: object) -> Any:
    try:
        return read(value)
    except ValueError as error:
        raise ValueError(f"option {name}: {error}") from None


def _boolean(name: str, value: str) -> bool:
    known = _BOOLEANS.get(value.lower())
    if known is None:
        raise ValueError(f"option {name}: {value!r} is neither true nor false")
    return known


def _mode(mode: str) -> str:
    if mode.upper() not in MODES:
        raise ValueError(unknown("mode", mode, MODES))
    return mode.upper()


def kept_columns(names: Iterable[str], columns: Iterable[str]) -> list[str]:
    """Those of a table's columns that are wanted, in the order in which they are; ValueError for one that is none."""
    there = list(names)
    for column in columns:
        if column not in there:
            raise ValueError(f"option columns: {unknown('column', column, there)}")
    return [*columns] or there
