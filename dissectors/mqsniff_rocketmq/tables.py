"""The tables of ``data/rocketmq.json``: header and body of each code, and names of numbers.

1. The file is read when the first instance of the dissector is made, not at import.
2. If a current and a removed code have the same number, the current one is meant.
3. A code above 32767 that a binary header cut to 16 bits is found by its lower 16 bits.

Source: ``proto/rocketmq/``; its pages name the source of each fact.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import orjson

DATA: Final = Path(__file__).parent / "data" / "rocketmq.json"
FORMAT: Final = "mqsniff-rocketmq/1"

TEXT: Final = 0
INT32: Final = 1
INT64: Final = 2
BOOL: Final = 3
SECRET: Final = 4
FORMATTED: Final = 5
"""Types of header fields. Text of a FORMATTED field has a reader in ``texts.py``."""

_OFFSETS: Final = ("offset", "high_watermark", "log_start_offset")
_COLUMNS: Final = {"queue": "partition"} | {name: name for name in _OFFSETS}
"""Role -> column of ``partitions``."""

_KINDS: Final = {"text": TEXT, "int32": INT32, "int64": INT64, "bool": BOOL}

Shape: TypeAlias = "list[Any] | None"
"""The structure of a JSON body, as ``proto/rocketmq_build.py`` writes it."""


class HeaderField(NamedTuple):
    """A field of a header class."""

    name: str
    kind: int
    format: str
    """Name of the reader of a FORMATTED field."""


class BodyField(NamedTuple):
    """A field of a JSON body class."""

    name: str
    shape: Shape
    role: str
    secret: bool


@dataclass(frozen=True, slots=True)
class HeaderClass:
    """A header class: its extFields, and those that fill columns."""

    name: str
    status: str
    fields: Mapping[str, HeaderField]
    """Fields by wire name, with those of the class Common."""
    own: frozenset[str]
    """Names of the class's own fields and those of its parents."""
    required: frozenset[str]
    topic: str | None
    groups: tuple[str, ...]
    client: str | None
    queue: str | None
    offsets: tuple[tuple[str, str], ...]
    """(column of ``partitions``, name)."""


@dataclass(frozen=True, slots=True)
class BodyClass:
    """A JSON body class."""

    name: str
    status: str
    fields: Mapping[str, BodyField]
    columns: tuple[tuple[str, str], ...]
    """(column of ``partitions``, name), for the queue and its offsets."""


class CodePart(NamedTuple):
    """Header and body of the request or the response of a code; the default has neither."""

    header: HeaderClass
    header_name: str = ""
    optional: bool = False
    """Whether older peers leave out all fields of the header."""
    body: str = ""
    """The body: a kind (lower case), a JSON class, or a class in brackets for a list of it."""
    codes: str = ""
    """Group of response codes that is looked up first."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request code."""

    code: int
    name: str
    status: str
    who: tuple[str, ...]
    """Senders and receivers, as "C>B"."""
    request: CodePart
    response: CodePart
    records: str
    """produced, consumer, other, or empty."""
    waits: str
    """Field with the number of milliseconds for which the response may be held."""


class RemotingTables:
    """All tables."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        if data["format"] != FORMAT:
            raise ValueError(f"dissectors/mqsniff_rocketmq/data/rocketmq.json is {data['format']}, not {FORMAT}")
        common = data["headers"]["Common"]["fields"]
        self.headers = {name: _header(name, plain, common) for name, plain in data["headers"].items()}
        self.common = self.headers["Common"]
        self.bodies = {name: _body(name, plain) for name, plain in data["bodies"].items()}
        self.enums = {name: frozenset(values) for name, values in data["enums"].items()}
        self.every = [self._request(plain) for plain in data["requests"]]
        """Every request of the pages, also if another one has its number."""
        self.requests: dict[int, Request] = {}
        for request in self.every:
            self.requests.setdefault(request.code, request)
        self.cut = _cut_codes(self.requests)
        self.responses: dict[str, dict[int, str]] = {
            group: {int(code): name for code, name in names.items()} for group, names in data["responses"].items()
        }
        self.names: dict[str, dict[str, str]] = data["names"]
        self.languages = {int(number): name for number, name in self.names["languages"].items()}
        self.language_names = frozenset(self.languages.values())
        self.versions: list[str] = data["versions"]

    def __reduce__(self) -> tuple[Callable[[], RemotingTables], tuple[()]]:
        """They are the same in each process."""
        return tables, ()

    def _request(self, plain: Mapping[str, Any]) -> Request:
        part = self._part(plain.get("request", {}))
        waits = plain.get("waits", "")
        return Request(
            plain["code"],
            plain["name"],
            plain["status"],
            tuple(plain["who"]),
            part,
            self._part(plain.get("response", {}))._replace(codes=plain.get("codes", "")),
            plain.get("records", ""),
            part.header.fields[waits].name if waits else "",
        )

    def _part(self, plain: Mapping[str, Any]) -> CodePart:
        name = plain.get("header", "")
        header = self.headers[name] if name else self.common
        return CodePart(header, name, plain.get("optional", False), plain.get("body", ""))

    def response_name(self, code: int, group: str = "") -> str | None:
        """The name of a response code to a request of this group; None if it has none."""
        for names in (self.responses[group], self.responses[""], self.responses["legacy"]):
            if code in names:
                return names[code]
        return None

    def version_name(self, ordinal: object) -> str | None:
        """The release of a version number: "5.5.0" for 513; None if no release has it."""
        if not isinstance(ordinal, int) or not 0 <= ordinal < len(self.versions):
            return None
        return self.versions[ordinal].removeprefix("V").replace("_SNAPSHOT", "-SNAPSHOT").replace("_", ".")

    def language_name(self, language: object) -> str | None:
        """The name of a language, which is text in JSON and a number in a binary header; None if it has none."""
        if isinstance(language, int):
            return self.languages.get(language)
        return language if isinstance(language, str) and language in self.language_names else None


def _header(name: str, plain: Mapping[str, Any], common: list[list[Any]]) -> HeaderClass:
    fields: dict[str, HeaderField] = {}
    columns: dict[str, list[str]] = {}
    required = []
    for wire, field, kind, needed, role, secret in (*plain["fields"], *common):
        if wire in fields:
            continue
        code = SECRET if secret else _KINDS.get(kind, FORMATTED)
        fields[wire] = HeaderField(field, code, kind if code == FORMATTED else "")
        columns.setdefault(role, []).append(field)
        if needed:
            required.append(field)
    first = {role: names[0] for role, names in columns.items()}
    return HeaderClass(
        name,
        plain["status"],
        fields,
        frozenset(line[1] for line in plain["fields"]),
        frozenset(required),
        first.get("topic"),
        tuple(columns.get("group", ())),
        first.get("client"),
        first.get("queue"),
        tuple((role, first[role]) for role in _OFFSETS if role in first),
    )


def _body(name: str, plain: Mapping[str, Any]) -> BodyClass:
    fields = {wire: BodyField(field, shape, role, secret) for wire, field, shape, role, secret in plain["fields"]}
    columns = [(_COLUMNS[field.role], field.name) for field in fields.values() if field.role in _COLUMNS]
    return BodyClass(name, plain["status"], fields, tuple(columns))


def _cut_codes(requests: Mapping[int, Request]) -> dict[int, Request]:
    """Lower 16 bits (signed) of each code above 32767 -> its request, unless another code has that number."""
    cut = {((code + 0x8000) & 0xFFFF) - 0x8000: request for code, request in requests.items() if code > 0x7FFF}
    return {code: request for code, request in cut.items() if code not in requests}


@cache
def tables() -> RemotingTables:
    """The tables, read at the first call."""
    return RemotingTables(orjson.loads(DATA.read_bytes()))
