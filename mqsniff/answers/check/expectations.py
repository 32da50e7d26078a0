"""Statements about captures in (a TOML file), those that hold and the rows that break the others out.

1. Each ``[[expect]]`` makes one check: ``errors``, ``unanswered``, ``problems``, ``p50`` to ``p99``, ``max``,
   ``version_min``, ``plaintext_passwords``, ``seen`` or ``sql``; ``protocol``, ``command``, ``topic`` and ``client``
   say what it is about, ``name`` names it.
2. A check is SQL over the tables: its rows break the expectation. So nothing is trusted that a query may not do.
3. An expectation about commands or topics that the capture does not hold has failed, unless ``optional`` is true: a
   test that measures nothing must not pass.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

from mqsniff.tables.rows import Row

EXPECTED_SUFFIX: Final = ".expect.toml"
ROWS_SHOWN: Final = 5
"""Rows that an outcome keeps of those that break it."""

Ask: TypeAlias = Callable[[str], list[Row]]
"""Runs a query over the tables of a capture; raises QueryError."""

_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(ns|us|ms|s)")
_NS: Final = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
_PERCENTILES: Final = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "max": 1.0}
_COUNTED: Final = ("errors", "unanswered", "problems", "plaintext_passwords")
_CHECKS: Final = (*_COUNTED, *_PERCENTILES, "version_min", "seen", "sql")
_CONDITIONS: Final = ("protocol", "command", "topic", "client")
_OTHERS: Final = ("name", "optional", "kinds", "rows")
_IN_CLEAR: Final = ("PLAIN", "OAUTHBEARER", "AUTH", "token", "basic")
"""Mechanisms that send a password, a token or a shared secret as it is."""
_EXCHANGE: Final = (
    'request_ts, client, server, name, topics, status, error_name, work_ns / 1e6 as work_ms, request_packet as "packet"'
)
_ANSWERED: Final = "link = 'answer' and work_ns is not null and held is not true"


class ExpectationError(Exception):
    """A file of expectations that cannot be used; the text is one line."""


class Expectation(NamedTuple):
    """One ``[[expect]]``."""

    name: str
    check: str
    value: Any
    conditions: Mapping[str, str] = {}
    optional: bool = False
    kinds: tuple[str, ...] = ()
    """Kinds of problems that ``problems`` counts; empty: all of severity error and warning."""


@dataclass(slots=True)
class Outcome:
    """What became of an expectation."""

    name: str
    passed: bool
    says: str
    """What was found, in a few words."""
    rows: list[Row] = field(default_factory=list)
    """The first rows that break it."""


def expected_beside(capture: Path) -> Path | None:
    """The expectations of ``x.pcap``: ``x.pcap.expect.toml`` beside it, if there is one."""
    file = capture.with_name(capture.name + EXPECTED_SUFFIX)
    return file if file.is_file() else None


def read_expectations(file: Path) -> list[Expectation]:
    """The expectations of a file; raises ExpectationError."""
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ExpectationError(f"{file}: {error}") from None
    entries = document.get("expect")
    if not isinstance(entries, list) or not entries or set(document) != {"expect"}:
        raise ExpectationError(f"{file}: it holds [[expect]] tables and nothing else")
    expectations = []
    for number, entry in enumerate(entries, 1):
        try:
            expectations.append(_read(entry))
        except ValueError as error:
            raise ExpectationError(f"{file}: expectation {number}: {error}") from None
    return expectations


def _read(entry: Mapping[str, Any]) -> Expectation:
    """An expectation from its table; raises ValueError."""
    for key in entry:
        if key not in (*_CHECKS, *_CONDITIONS, *_OTHERS):
            raise ValueError(f"no key {key!r}; there are {', '.join((*_CHECKS, *_CONDITIONS, *_OTHERS))}")
    checks = [key for key in entry if key in _CHECKS]
    if len(checks) != 1:
        raise ValueError(f"one of {', '.join(_CHECKS)} is needed, and one only")
    check, value = checks[0], entry[checks[0]]
    conditions = {key: entry[key] for key in _CONDITIONS if key in entry}
    for key, text in conditions.items():
        if not isinstance(text, str) or not text:
            raise ValueError(f"{key} is text")
    kinds = entry.get("kinds", [])
    if kinds and (check != "problems" or not isinstance(kinds, list) or not all(isinstance(k, str) for k in kinds)):
        raise ValueError('kinds is a list of kinds, such as ["gap"], and belongs to problems')
    if check == "seen" and "topic" not in conditions and "command" not in conditions:
        raise ValueError("seen needs a topic or a command")
    value = _value(check, value, entry.get("rows"))
    name = entry.get("name") or _named(check, entry[check], conditions)
    return Expectation(str(name), check, value, conditions, bool(entry.get("optional")), tuple(kinds))


def _value(check: str, value: Any, rows: Any) -> Any:
    """The value of a check as its query needs it; raises ValueError."""
    if rows is not None and (check != "sql" or rows not in ("none", "some")):
        raise ValueError('rows is "none" (the query finds what must not be) or "some", and belongs to sql')
    if check in _PERCENTILES:
        found = _DURATION.fullmatch(value) if isinstance(value, str) else None
        if found is None:
            raise ValueError(f'{check} is a duration, such as "50ms"')
        return int(float(found[1]) * _NS[found[2]])
    if check == "sql":
        if not isinstance(value, str) or not value.strip():
            raise ValueError("sql is a query")
        return value, rows or "none"
    if type(value) is not int or value < 0:
        raise ValueError(f"{check} is a whole number")
    return value


def _named(check: str, value: Any, conditions: Mapping[str, str]) -> str:
    """A name for an expectation that has none."""
    about = " ".join(conditions.values())
    match check:
        case "seen":
            return f"{about} seen at least {value} times" if value != 1 else f"{about} seen"
        case "version_min":
            return f"{about or 'requests'} in version {value} or newer"
        case "sql":
            return " ".join(value.split())[:60]
        case "plaintext_passwords":
            return f"at most {value} plaintext passwords" if value else "no plaintext password"
        case _ if check in _PERCENTILES:
            return f"{check} of {about or 'all commands'} below {value}"
    count = f"at most {value} {check}" if value else {"unanswered": "nothing unanswered"}.get(check, f"no {check}")
    return f"{count} of {about}" if about else count


def evaluate(expectation: Expectation, ask: Ask) -> Outcome:
    """What a capture says to an expectation; raises QueryError for SQL that cannot be run."""
    if expectation.check in _COUNTED:
        return _at_most(expectation, ask)
    if expectation.check in _PERCENTILES:
        return _below(expectation, ask)
    return {"version_min": _new_enough, "seen": _seen, "sql": _by_query}[expectation.check](expectation, ask)


def _at_most(expectation: Expectation, ask: Ask) -> Outcome:
    """At most so many rows of a kind."""
    breaking = {
        "errors": ("exchanges", _EXCHANGE, "status in ('error', 'partial')", "request_ts"),
        "unanswered": ("exchanges", _EXCHANGE, "status = 'unanswered' and link = 'answer'", "request_ts"),
        "problems": ("problems", 'ts, client, server, severity, kind, detail, "packet"', _kinds(expectation), "ts"),
        "plaintext_passwords": (
            "connections",
            'first_ts, client, server, protocol, "user", mechanism, first_packet as "packet"',
            f"mechanism in ({_list(_IN_CLEAR)}) and tls_version is null",
            "first_ts",
        ),
    }
    table, columns, condition, order = breaking[expectation.check]
    where = " and ".join([condition, *_conditions(expectation, table)])
    (row,) = ask(f"select count(*) as found from {table} where {where}")  # noqa: S608  # quoted by _text
    found = int(row["found"])
    passed = found <= expectation.value
    rows = [] if passed else ask(f"select {columns} from {table} where {where} order by {order} limit {ROWS_SHOWN}")  # noqa: S608
    return Outcome(expectation.name, passed, f"{found:,} found, {expectation.value:,} allowed", rows)


def _below(expectation: Expectation, ask: Ask) -> Outcome:
    """A percentile of the time that brokers worked (``work_ns``, without waiting for data)."""
    where = " and ".join([_ANSWERED, *_conditions(expectation, "exchanges")])
    share = _PERCENTILES[expectation.check]
    query = f"select count(*) as found, quantile_cont(work_ns, {share}) as value from exchanges where {where}"  # noqa: S608
    (row,) = ask(query)
    if not row["found"]:
        return Outcome(expectation.name, expectation.optional, "nothing to measure: no such exchange")
    value, limit = float(row["value"]), expectation.value
    says = f"{value / 1e6:,.3f} ms over {row['found']:,} exchanges, {limit / 1e6:,.3f} ms allowed"
    slow = f"select {_EXCHANGE} from exchanges where {where} and work_ns > {limit} order by work_ns desc"  # noqa: S608
    return Outcome(expectation.name, value <= limit, says, [] if value <= limit else ask(f"{slow} limit {ROWS_SHOWN}"))


def _new_enough(expectation: Expectation, ask: Ask) -> Outcome:
    """No request of a version below one."""
    base = " and ".join(["kind in ('request', 'oneway')", "version is not null", *_conditions(expectation, "messages")])
    old = f"{base} and version < {expectation.value}"
    (row,) = ask(
        f"select count(*) as requests, count(*) filter (version < {expectation.value}) as old, min(version) as least "  # noqa: S608
        f"from messages where {base}"
    )
    if not row["requests"]:
        return Outcome(expectation.name, expectation.optional, "nothing to look at: no such request with a version")
    says = f"oldest version {row['least']}, {row['old']:,} of {row['requests']:,} requests are too old"
    columns = 'ts, client, server, client_id, name, version, first_packet as "packet"'
    rows = ask(f"select {columns} from messages where {old} order by ts limit {ROWS_SHOWN}") if row["old"] else []  # noqa: S608
    return Outcome(expectation.name, not row["old"], says, rows)


def _seen(expectation: Expectation, ask: Ask) -> Outcome:
    """At least so many messages with a topic or a command."""
    where = " and ".join(_conditions(expectation, "messages"))
    (row,) = ask(f"select count(*) as found from messages where {where}")  # noqa: S608
    found = int(row["found"])
    says = f"{found:,} messages, {expectation.value:,} needed"
    if found >= expectation.value:
        return Outcome(expectation.name, passed=True, says=says)
    names = "select unnest(topics) as seen_instead from messages"
    if "topic" not in expectation.conditions:
        names = "select name as seen_instead from messages"
    others = f"select seen_instead, count(*) as messages from ({names}) group by all order by messages desc"  # noqa: S608
    return Outcome(expectation.name, expectation.optional, says, ask(f"{others} limit {ROWS_SHOWN}"))


def _by_query(expectation: Expectation, ask: Ask) -> Outcome:
    """A query of the user: it finds what must not be, or what must."""
    query, wanted = expectation.value
    rows = ask(query.strip().rstrip(";"))
    passed = bool(rows) == (wanted == "some")
    says = "1 row" if len(rows) == 1 else f"{len(rows):,} rows"
    return Outcome(expectation.name, passed, says, [] if wanted == "some" else rows[:ROWS_SHOWN])


def _kinds(expectation: Expectation) -> str:
    return f"kind in ({_list(expectation.kinds)})" if expectation.kinds else "severity in ('error', 'warning')"


def _conditions(expectation: Expectation, table: str) -> Iterator[str]:
    """What an expectation is about, as SQL; a topic of Pulsar also goes by its last part."""
    for key, text in expectation.conditions.items():
        match key:
            case "protocol":
                yield f"protocol = {_text(text)}"
            case "command" if table != "connections":
                yield f"lower(name) = lower({_text(text)})"
            case "client":
                named = f"client = {_text(text)} or client_id = {_text(text)}"
                yield f"({named} or starts_with(client, {_text(text + ':')}))"
            case "topic" if table in ("messages", "exchanges"):
                yield f"len(list_filter(topics, lambda t: t = {_text(text)} or ends_with(t, {_text('/' + text)}))) > 0"


def _list(texts: tuple[str, ...]) -> str:
    return ", ".join(map(_text, texts))


def _text(text: str) -> str:
    """A literal of SQL."""
    return "'" + text.replace("'", "''") + "'"
