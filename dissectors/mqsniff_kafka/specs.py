"""Layouts by API key and version: Kafka's definitions, built from ``proto/kafka`` into ``data/kafka.jsonl``.

1. The file is read at the first call; each line is parsed at its first use.
2. Unknown keys and versions are not cached: traffic must not grow memory.
3. If a version had other bytes in older releases, it has several layouts, today's first: take the one that consumes the
   frame exactly, today's if several do.
"""

from __future__ import annotations

import json
import pkgutil
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from mqsniff.spec.layout import Layout
from mqsniff.spec.schema import MessageSpec, Versions

DefinitionKind: TypeAlias = Literal["request", "response"]

FORMAT: Final = "mqsniff-kafka/1"


class Definition(NamedTuple):
    """One definition of a message."""

    spec: MessageSpec
    legacy: Versions
    """Versions that the newest release no longer has."""
    variant: str
    """The releases in which these versions had this layout; "" for today's."""
    unstable: bool
    """Whether the newest version was never released as stable."""


class Api(NamedTuple):
    """An API as in the index."""

    key: int
    name: str
    about: str
    listeners: tuple[str, ...]
    versions: Versions
    """Requests and responses always have the same versions."""
    legacy: Versions
    flexible_requests: Versions
    flexible_responses: Versions
    line: int
    """Line of its definitions in the file."""


# ---- the file


@cache
def _lines() -> list[bytes]:
    content = pkgutil.get_data("mqsniff_kafka", "data/kafka.jsonl")
    if content is None:
        raise FileNotFoundError("dissectors/mqsniff_kafka/data/kafka.jsonl")
    return content.splitlines()


@cache
def _index() -> dict[str, Any]:
    index: dict[str, Any] = json.loads(_lines()[0])
    if index["format"] != FORMAT:
        raise ValueError(f"kafka.jsonl is {index['format']}, wanted {FORMAT}: run python proto/build.py")
    return index


def _table(name: str) -> dict[str, Any]:
    table: dict[str, Any] = json.loads(_lines()[_index()[name]])
    return table


@cache
def _definitions(line: int) -> Mapping[str, tuple[Definition, ...]]:
    """The definitions of a line by kind, today's first."""
    found: dict[str, tuple[Definition, ...]] = {}
    for plain in json.loads(_lines()[line]):
        one = Definition(
            MessageSpec.from_plain(plain),
            Versions.parse(plain.get("legacy", "none")),
            plain.get("variant", ""),
            plain.get("unstable", False),
        )
        found[plain["kind"]] = (*found.get(plain["kind"], ()), one)
    return found


@cache
def _by_version(line: int, kind: str) -> Mapping[int, tuple[Layout, ...]]:
    """Version -> layouts of a line's definitions; cached by line, never by numbers of the traffic."""
    found: dict[int, tuple[Layout, ...]] = {}
    for one in _definitions(line)[kind]:
        for version in range(one.spec.versions.first, one.spec.versions.last + 1):
            so_far = found.get(version, ())
            found_by = _layout, (line, kind, version, len(so_far))
            found[version] = (*so_far, Layout(one.spec, version, one.variant, found_by))
    return found


def _layout(line: int, kind: str, version: int, place: int) -> Layout:
    """One of these layouts."""
    return _by_version(line, kind)[version][place]


# ---- APIs


@cache
def apis() -> Mapping[int, Api]:
    """Every API by its key."""
    return {
        int(key): Api(
            int(key),
            plain["name"],
            plain["about"],
            tuple(plain["listeners"]),
            Versions.parse(plain["request"][0]),
            Versions.parse(plain["request"][2]),
            Versions.parse(plain["request"][1]),
            Versions.parse(plain["response"][1]),
            plain["line"],
        )
        for key, plain in _index()["apis"].items()
    }


def definitions(key: int, kind: DefinitionKind) -> tuple[Definition, ...]:
    """The definitions of an API's requests or responses, today's first; empty for an unknown key."""
    api = apis().get(key)
    return _definitions(api.line)[kind] if api else ()


def layouts(key: int, kind: DefinitionKind, version: int) -> tuple[Layout, ...]:
    """The layouts of a version of a request or response, today's first; empty if unknown."""
    api = apis().get(key)
    return _by_version(api.line, kind).get(version, ()) if api else ()


def release() -> str:
    """The newest release of Kafka in the definitions."""
    return str(_index()["release"])


# ---- structures in records, and before messages


def data(name: str, version: int) -> tuple[Layout, ...]:
    """Layouts of a structure without an API key, such as "ConsumerProtocolSubscription"; empty if unknown."""
    return _data(name).get(version, ())


def newest_data_version(name: str) -> int:
    """The newest version of such a structure; ValueError for an unknown name."""
    return max(_data(name))


@cache
def _data(name: str) -> Mapping[int, tuple[Layout, ...]]:
    line = _index()["data"].get(name)
    if line is None:
        return {}
    (kind,) = _definitions(line)
    return _by_version(line, kind)


def record(page: str, kind: Literal["key", "value", "metadata"], key: int, version: int) -> tuple[Layout, ...]:
    """Layouts of a record of an internal topic, by page in ``proto/kafka/records`` and type; empty if unknown."""
    line = _index()["records"].get(page, {}).get(kind, {}).get(str(key))
    return _by_version(line, kind).get(version, ()) if line else ()


def data_versions(name: str) -> Versions:
    """The versions of a structure without an API key; KeyError for an unknown name."""
    versions = _data(name)
    return Versions(min(versions), max(versions))


def record_types(page: str) -> Iterator[tuple[str, int, str, str]]:
    """(key, value or metadata; type; name of the layout; its versions) of the records of an internal topic's page."""
    for kind, lines in _index()["records"][page].items():
        for number, line in lines.items():
            for one in _definitions(line)[kind]:
                yield kind, int(number), one.spec.name, str(one.spec.versions)


# ---- tables


@cache
def errors() -> Mapping[int, str]:
    """Error code -> name."""
    return {int(code): error["name"] for code, error in _table("errors").items()}


@cache
def retriable_errors() -> frozenset[int]:
    """Error codes after which a client may retry."""
    return frozenset(int(code) for code, error in _table("errors").items() if error["retriable"])


@cache
def _enums() -> dict[str, Any]:
    return _table("enums")


@cache
def enum(name: str) -> Mapping[int, str]:
    """Value -> name of an enum; empty for a mark that is no enum."""
    return {int(value): text for value, text in _enums().get(name, {"values": {}})["values"].items()}


@cache
def enum_bits(name: str) -> str:
    """The enum whose values are the bits of this one; "" if its values are no bit fields."""
    return str(_enums().get(name, {}).get("bits", ""))


@cache
def releases() -> Mapping[str, Mapping[int, tuple[int, int, bool]]]:
    """Release -> API key -> (first version, last version, whether the last is hidden as unstable), oldest first."""
    return {
        name: {int(key): (first, last, bool(rest)) for key, (first, last, *rest) in ranges.items()}
        for name, ranges in _table("releases").items()
    }
