"""Captures and the dissectors' descriptions in; what the captures exercise of them, and what not, out.

1. Commands (with versions where the protocol has them), codes, codecs and login mechanisms are compared with the tables
   that a dissector describes; kinds of problems, capture formats and protocols with those of the engine.
2. Captures are decoded one by one; nothing but counts is kept.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from mqsniff.answers.captures import key_logs_beside
from mqsniff.dissector import WITH_RECORDS, Settings
from mqsniff.model.kinds import PROBLEM_KINDS
from mqsniff.pipeline import Pipeline
from mqsniff.sources.files import FileSource
from mqsniff.tables.rows import Row, rows_of
from mqsniff.tables.values import Redaction

if TYPE_CHECKING:
    from mqsniff.decode.registry import LoadedDissector
    from mqsniff.dissector import Table

ALL: Final = "(all)"
"""Protocol of what belongs to none."""
_TABLES: Final = ("connections", "messages", "partitions", "records", "problems")
_DESCRIBED: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "commands": (
        ("apis", "name"),
        ("nsqlookupd_commands", "command"),
        ("commands", "name"),
        ("requests", "name"),
        ("frame_types", "name"),
        ("other_messages", "name"),
    ),
    "codes": (("errors", "name"), ("response_codes", "name"), ("nsqlookupd_errors", "name")),
    "codecs": (("codecs", "name"),),
    "mechanisms": (("sasl_mechanisms", "name"),),
}
"""What is compared -> the tables of a description that list it, with their column of names."""
_INSTEAD: Final = {"commands": "command", "errors": "code", "nsqlookupd_errors": "code"}
"""Column of tables whose rows have no name: NSQ's codes and commands are words."""
SISTER: Final = "nsqlookupd"
"""Protocol whose tables are also in nsq's description, with its name before theirs."""
_SUCCESS: Final = 0
"""Code of an answer without an error, which is not one."""


class Exercised(NamedTuple):
    """Something that is listed, such as the error codes of a protocol."""

    protocol: str
    what: str
    seen: dict[str, int]
    """Listed names, with how often they came."""
    unseen: list[str]
    other: dict[str, int]
    """Names that came and are not listed."""


class Sightings:
    """Names that captures show, counted by protocol and by what they name."""

    def __init__(self) -> None:
        self._seen: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        self.unreadable: dict[str, str] = {}
        """Captures that could not be read, and why."""
        self.captures = 0

    def read(self, capture: Path) -> None:
        """Decode a capture and count what it shows."""
        pipeline = Pipeline(
            FileSource([str(capture)]), Settings(wanted=WITH_RECORDS), keys=list(key_logs_beside(capture))
        )
        for item in pipeline.items():
            if item is not None:
                for table, row in rows_of(item, pipeline.captures, _TABLES, Redaction()):
                    self._take(table, row)
        (info,) = pipeline.captures
        self.captures += 1
        if info.unreadable:
            self.unreadable[str(capture)] = info.unreadable
        else:
            self._count(ALL, "capture formats", " ".join(filter(None, (info.format, info.compression))))

    def of(self, protocol: str, what: str) -> Mapping[str, int]:
        """How often each name came."""
        return self._seen.get((protocol, what), {})

    def _count(self, protocol: str, what: str, name: str | None) -> None:
        if name:
            self._seen[protocol, what][name] += 1

    def _take(self, table: str, row: Row) -> None:
        protocol = row.get("protocol") or ""
        match table:
            case "connections":
                self._count(ALL, "protocols", protocol)
                self._count(protocol, "mechanisms", row.get("mechanism"))
            case "messages":
                self._count(protocol, "commands", row["name"])
                if row.get("version") is not None:
                    self._count(protocol, "versions", f"{row['name']} v{row['version']}")
                self._count(protocol, "codes", row.get("error_name"))
            case "partitions":
                self._count(protocol, "codes", row.get("error_name"))
            case "records":
                self._count(protocol, "codecs", row.get("codec"))
            case "problems":
                self._count(ALL, "kinds of problems", row["kind"])


def exercised(sightings: Sightings, loaded: Sequence[LoadedDissector]) -> Iterator[Exercised]:
    """What the sightings cover of what dissectors and the engine list."""
    from mqsniff.decode.registry import protocols  # noqa: PLC0415  # it imports every plugin's package

    yield _compared(ALL, "protocols", protocols(list(loaded)), sightings)
    yield _compared(ALL, "kinds of problems", PROBLEM_KINDS, sightings)
    yield _compared(ALL, "capture formats", (), sightings)
    for entry in loaded:
        if entry.dissector is None:
            continue
        tables: dict[str, Table] = dict(entry.dissector.describe())
        for protocol in entry.dissector.names:
            listed = _listed(_of_protocol(tables, protocol))
            listed.setdefault("commands", dict.fromkeys(sorted(entry.dissector.message_names() or ())))
            for what, names in listed.items():
                if names or sightings.of(protocol, what):
                    yield _compared(protocol, what, names, sightings)


def _of_protocol(tables: Mapping[str, Table], protocol: str) -> dict[str, Table]:
    """The tables without those of a sister protocol: those of nsqlookupd begin with its name."""
    return {name: rows for name, rows in tables.items() if not name.startswith(f"{SISTER}_") or protocol == SISTER}


def _listed(tables: Mapping[str, Any]) -> dict[str, dict[str, None]]:
    """Names that a description lists, by what they are; versions only where commands have them."""
    listed: dict[str, dict[str, None]] = {}
    for what, places in _DESCRIBED.items():
        names = [
            str(row.get(column) or row.get(_INSTEAD.get(table, column)))
            for table, column in places
            for row in tables.get(table, ())
            if what != "codes" or row.get("code", row.get("number")) != _SUCCESS
        ]
        if names:
            listed[what] = dict.fromkeys(names)
    versions = [
        f"{row['name']} v{number}"
        for row in tables.get("apis", ())
        for number in _numbers(str(row.get("versions") or ""))
    ]
    if versions:
        listed["versions"] = dict.fromkeys(versions)
    return listed


def _numbers(text: str) -> Iterable[int]:
    """The numbers of "0-13" or "4"; none of anything else."""
    first, _, last = text.partition("-")
    if not first.isdecimal() or not (last or first).isdecimal():
        return ()
    return range(int(first), int(last or first) + 1)


def _compared(protocol: str, what: str, names: Iterable[str], sightings: Sightings) -> Exercised:
    """Listed names against those that came; names differ in case between specifications and columns."""
    came = sightings.of(protocol, what)
    folded = {name.lower(): name for name in came}
    listed = {name: folded.get(name.lower()) for name in names}
    seen = {name: came[found] for name, found in listed.items() if found is not None}
    known = {name.lower() for name in listed}
    other = {name: count for name, count in came.items() if name.lower() not in known}
    return Exercised(protocol, what, seen, [name for name, found in listed.items() if found is None], other)
