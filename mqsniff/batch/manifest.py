"""Manifests: what a run took and what it wrote, as one JSON file; the truth about which files of a folder count.

1. A manifest is written once, when everything that it names is whole; it never changes.
2. The ledger of inputs is what the committed manifests say together: no second list that could disagree.
3. No URI in it holds credentials; bytes of names that are no UTF-8 stand as escapes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from typing import Any, Final, NamedTuple

import orjson

from mqsniff.tables.values import escaped

FORMAT: Final = 1


class ManifestError(Exception):
    """A manifest that cannot be understood, in one line."""


class Taken(NamedTuple):
    """An input file as a run took it; ``mark`` tells its content apart: modification time or entity tag."""

    uri: str
    size: int
    mark: str
    status: str = "ok"


class Published(NamedTuple):
    """One file of a table; ``path`` is relative to the folder of the tables."""

    table: str
    path: str
    rows: int
    size: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """One run."""

    run: str
    digest: str
    """Of inputs and options: the same command on the same files has the same."""
    version: str
    schema_version: str
    inputs: tuple[Taken, ...]
    parts: tuple[Published, ...]
    replaces: tuple[str, ...] = ()
    """Runs whose files no longer count."""
    options: Mapping[str, Any] = field(default_factory=dict)
    report: Mapping[str, Any] = field(default_factory=dict)

    def encoded(self) -> bytes:
        """As JSON."""
        plain = asdict(self) | {
            "format": FORMAT,
            "inputs": [taken._asdict() for taken in self.inputs],
            "parts": [part._asdict() for part in self.parts],
        }
        return orjson.dumps(escaped(plain), option=orjson.OPT_INDENT_2)

    @classmethod
    def decoded(cls, data: bytes) -> Manifest:
        """From JSON; ManifestError where it is none of ours or of a later format."""
        try:
            plain = orjson.loads(data)
            if plain.pop("format") > FORMAT:
                raise ManifestError("a manifest of a later mqsniff")
            plain["inputs"] = tuple(Taken(**taken) for taken in plain["inputs"])
            plain["parts"] = tuple(Published(**part) for part in plain["parts"])
            plain["replaces"] = tuple(plain["replaces"])
            return cls(**plain)
        except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
            raise ManifestError(f"no manifest: {error}") from None


def run_digest(inputs: Iterable[Taken], options: Mapping[str, Any]) -> str:
    """A name for what a run is asked to do: the inputs in any order, and the options that change rows."""
    named = sorted((taken.uri, taken.size, taken.mark) for taken in inputs)
    plain = orjson.dumps(escaped([named, dict(options)]), option=orjson.OPT_SORT_KEYS)
    return blake2b(plain, digest_size=16).hexdigest()
