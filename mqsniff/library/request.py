"""Keywords of the user in, what a run has to do out: filters, redaction, limits, keys.

The filters are those of the commands, by name (``filters.options``); the other keywords are their options for decoding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from os import PathLike, fspath
from typing import Any, Final, TypeAlias, TypedDict

from mqsniff.decode.registry import Registry, load_dissectors
from mqsniff.dissector import USUAL, Settings, Wanted
from mqsniff.errors import OptionError, UnreadableError
from mqsniff.filters.chain import FilterChain
from mqsniff.filters.counting import CountingFilter
from mqsniff.filters.itemfilter import Filters
from mqsniff.filters.known import did_you_mean, unknown
from mqsniff.filters.moments import AskedTimes, at_times
from mqsniff.filters.options import FILTER_OPTIONS, FilterOption
from mqsniff.filters.readings import asked_filters
from mqsniff.filters.where import WhereFilter
from mqsniff.limits import Limits
from mqsniff.model import Item
from mqsniff.pipeline import Pipeline, Source
from mqsniff.sources.domains import domain_finder
from mqsniff.sources.files import FileSource
from mqsniff.tables.hashkey import HashKey, HashKeyError
from mqsniff.tables.schemas import TableName
from mqsniff.tables.values import Redaction, escaped
from mqsniff.tls.keylog import KeyLog

FilterValue: TypeAlias = str | int | float | bytes | datetime
PathName: TypeAlias = str | PathLike[str]


class DecodeOptions(TypedDict, total=False):
    """How traffic is read, for ``read``, ``live`` and ``decode_bytes``."""

    decode_as: Mapping[int, str]
    """Protocols by server port, for connections whose protocol is not found."""
    domain: str
    """A folder, or a regular expression: files in whose names it finds the same text are one capture."""
    tls_keys: PathName | Iterable[PathName]
    """Key logs that open TLS, besides the keys in pcapng files."""
    show_secrets: bool
    """Show passwords, tokens and the like."""
    show_raw: bool
    """Show bytes that were not decoded, not just their size and hash."""
    redact: str | Iterable[str]
    """``"payload"`` leaves out keys, values and header values of records, but for their sizes and hashes."""
    hash_key: PathName
    """A file with the key of the hashes of what is not shown; without it the key is random for each ``read``."""
    max_bytes: int
    """Show at most this many bytes of a record's key or value."""
    limit: Mapping[str, int]
    """Limits by name (``mqsniff protocols limits``), in bytes, nanoseconds or numbers."""


class ReadOptions(DecodeOptions, total=False):
    """The keywords of ``read`` and ``live``. A filter takes one value, or several."""

    protocol: str | Iterable[str]
    name: str | Iterable[str]
    topic: str | Iterable[str]
    group: str | Iterable[str]
    partition: int | Iterable[int]
    offset: int | str | Iterable[int | str]
    key: str | bytes | Iterable[str | bytes]
    header: str | Iterable[str]
    grep: str | Iterable[str]
    client: str | Iterable[str]
    host: str | Iterable[str]
    port: int | Iterable[int]
    connection: str | Iterable[str]
    errors: bool
    slower: str
    from_: str | float | datetime
    to: str | float | datetime
    where: str
    """A condition in SQL on one row; tables without its columns are left out."""
    max_messages: int
    """Stop after so many messages that the filters chose."""


KEYWORDS: Final = tuple(ReadOptions.__annotations__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRequest:
    """What the user asked of the runs over an input."""

    filters: Filters
    times: AskedTimes
    where: str | None
    max_messages: int | None
    decode_as: dict[int, str]
    domain: str
    keys: tuple[str, ...]
    shown: Redaction
    limits: Limits

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> ReadRequest:
        """The keywords as one; OptionError for a value that cannot be meant, TypeError for an unknown keyword."""
        values = dict(options)
        filters, times = _filters(values)
        keys = values.pop("tls_keys", ())
        made = cls(
            filters=filters,
            times=times,
            where=values.pop("where", None),
            max_messages=_at_least("max_messages", values.pop("max_messages", None), 1),
            decode_as=_decode_as(values.pop("decode_as", {})),
            domain=_domain(values.pop("domain", "")),
            keys=tuple(map(fspath, (keys,) if isinstance(keys, str | PathLike) else keys)),
            shown=_redaction(values),
            limits=_limits(values.pop("limit", {})),
        )
        for name in values:
            raise TypeError(f"unexpected keyword {name!r}{did_you_mean(name, KEYWORDS)}")
        return made

    def settings(self, tables: Sequence[TableName], extra: Iterable[Wanted] = ()) -> Settings:
        """What dissectors have to give for these tables; filters look at everything."""
        looks = bool(self.filters or any(self.times)) or self.where is not None
        wanted = {each for each in USUAL if looks or each in tables}
        if "records" in tables or self.filters.needs_records:
            wanted.add("records")
        return Settings(self.limits, frozenset((*wanted, *(() if looks else extra))))


class FilteredRun:
    """One run over a source, as it was asked for."""

    def __init__(
        self, source: Source, request: ReadRequest, tables: Sequence[TableName], extra: Iterable[Wanted] = ()
    ) -> None:
        """``extra``: more that dissectors give, unless filters look at everything anyway.

        Raises OptionError, QueryError or UnreadableError for what is wrong with the request.
        """
        again = (lambda names: FileSource(names, request.limits)) if isinstance(source, FileSource) else None
        try:
            source, filters = at_times(source, request.filters, request.times, again)
        except ValueError as error:
            raise OptionError(str(error)) from None
        self.pipeline = Pipeline(
            source,
            request.settings(tables, extra),
            decode_as=request.decode_as,
            domain=request.domain,
            keys=[_key_log(name, live=any(c.format == "live" for c in source.captures)) for name in request.keys],
        )
        self.captures = self.pipeline.captures
        where = None
        if request.where is not None:
            where = WhereFilter(escaped(request.where), tables, self.captures, request.shown)
        self._chain = FilterChain(CountingFilter(filters) if filters else None, request.max_messages, where)

    def items(self, write_waiting: Callable[[], object] | None = None) -> Iterator[Item]:
        """The items that pass; raises UnreadableError before the first one where an input cannot be read.

        ``write_waiting`` is called before the last problems.
        """
        for item in self._chain.of(self._checked(write_waiting)):
            if item is not None:
                yield item
        self._check()

    def _checked(self, write_waiting: Callable[[], object] | None) -> Iterator[Item | None]:
        looked = False
        for item in self.pipeline.items(write_waiting):
            if not looked and self.captures:
                looked = True
                self._check()
            yield item

    def _check(self) -> None:
        for capture in self.captures:
            if capture.unreadable:
                raise UnreadableError(f"{capture.name}: {capture.unreadable}")


# ---- keywords


def _filters(values: dict[str, Any]) -> tuple[Filters, AskedTimes]:
    """Take the filters out of the keywords."""
    chosen: dict[str, Any] = {}
    for option in FILTER_OPTIONS:
        value = values.pop(option.keyword, None)
        if option.takes == "flag":
            chosen[option.field] = bool(value)
        elif value is not None:
            one = isinstance(value, FilterValue) or option.takes == "one"
            read = [_read(option, each) for each in ((value,) if one else value)]
            chosen[option.field] = read[0] if option.takes == "one" else tuple(read)
    try:
        return asked_filters(chosen)
    except ValueError as error:
        raise OptionError(str(error)) from None


def _read(option: FilterOption, value: object) -> Any:
    if isinstance(value, bytes) and option.keyword == "key":
        return value
    text = value.isoformat() if isinstance(value, datetime) else str(value)
    try:
        return option.read(text)
    except ValueError as error:
        raise OptionError(f"{option.keyword}: {error}") from None


def _redaction(values: dict[str, Any]) -> Redaction:
    """Take what is shown of secrets and payload out of the keywords."""
    redact = values.pop("redact", ())
    parts = (redact,) if isinstance(redact, str) else tuple(redact)
    for part in parts:
        if part != "payload":
            raise OptionError(f"redact: {unknown('part of records', str(part), ('payload',))}")
    most = _at_least("max_bytes", values.pop("max_bytes", None), 0)
    secrets, raw = bool(values.pop("show_secrets", False)), bool(values.pop("show_raw", False))
    return Redaction(secrets, raw, "payload" not in parts, most, _hash_key(values.pop("hash_key", None)))


def _hash_key(file: PathName | None) -> HashKey:
    """The key in a file, or a random one."""
    if file is None:
        return HashKey.random()
    try:
        return HashKey.of_file(file)
    except OSError as error:
        raise OptionError(f"hash_key: {fspath(file)}: {error.strerror or error}") from None
    except HashKeyError as error:
        raise OptionError(f"hash_key: {fspath(file)} {error}") from None


def _at_least(name: str, value: Any, least: int) -> int | None:
    if value is not None and (not isinstance(value, int) or value < least):
        raise OptionError(f"{name}: {value!r} is no whole number from {least} on")
    return value


def _decode_as(ports: Mapping[int, str]) -> dict[int, str]:
    known = Registry(load_dissectors()).names() if ports else ()
    for port, name in ports.items():
        if not 0 < port < 65_536:
            raise OptionError(f"decode_as: {port} is no port")
        if name not in known:
            raise OptionError(f"decode_as: {unknown('protocol', name, known)}")
    return dict(ports)


def _domain(pattern: str) -> str:
    try:
        domain_finder(pattern)
    except ValueError as error:
        raise OptionError(f"domain: {error}") from None
    return pattern


def _limits(values: Mapping[str, int]) -> Limits:
    limits, known = Limits(), Limits.about()
    for name, value in values.items():
        if name not in known:
            raise OptionError(f"limit: {unknown('limit', name, known)}")
        try:
            limits = limits.with_value(name, value)
        except ValueError as error:
            raise OptionError(f"limit: {name}={error}") from None
    return limits


def _key_log(name: str, *, live: bool) -> KeyLog:
    try:
        return KeyLog(name, follow=live)
    except OSError as error:
        raise UnreadableError(f"{name}: {error.strerror or error}") from None
