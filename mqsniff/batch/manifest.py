"""Manifests: the inputs and the part files of a run, as one JSON file. They decide which files of a folder count.

1. A manifest is written once, when all files that it names are complete; it never changes.
2. The ledger of inputs is the union of the committed manifests; there is no second list that could disagree.
3. URIs hold no credentials; bytes of names that are not UTF-8 are escaped.
4. A checkpoint holds copies of manifests in one file, so that a thousand runs are not a thousand reads. It decides
   nothing: without it, or if it is damaged, the manifests are read one by one.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from typing import Any, Final, NamedTuple, TypeAlias

import orjson

from mqsniff.batch.inputs import Listed
from mqsniff.tables.values import escaped

FORMAT: Final = 1


class ManifestError(Exception):
    """A manifest that cannot be read; the text is one line."""


class ManifestInput(NamedTuple):
    """An input file as it was decoded; ``mark`` changes with its content: modification time or entity tag."""

    uri: str
    size: int
    mark: str
    status: str = "ok"


def manifest_input(listed: Listed) -> ManifestInput:
    """An input as a manifest lists it."""
    return ManifestInput(escaped(listed.uri), listed.size, "" if listed.mtime_ns is None else str(listed.mtime_ns))


class Published(NamedTuple):
    """One committed part file; ``path`` is relative to the folder of the tables."""

    table: str
    path: str
    rows: int
    size: int
    topic_ids: tuple[tuple[str, str, str | None], ...] = ()
    """(protocol, topic id, name that its rows show) in runs that carry: a later run may learn another name."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """One run."""

    run: str
    digest: str
    """Digest of inputs and options: equal for the same command on the same files."""
    version: str
    schema_version: str
    inputs: tuple[ManifestInput, ...]
    parts: tuple[Published, ...]
    replaces: tuple[str, ...] = ()
    """Runs whose files no longer count."""
    options: Mapping[str, Any] = field(default_factory=dict)
    report: Mapping[str, Any] = field(default_factory=dict)
    drops: tuple[str, ...] = ()
    """Part files of earlier runs that no longer count: those of open connections, and those with other topic names."""
    carried: tuple[Published, ...] = ()
    """Files of ``_mqsniff/carried`` that the next run goes on from."""

    def encoded(self, *, indented: bool = True) -> bytes:
        """As JSON, or as one line of it."""
        plain = asdict(self) | {
            "format": FORMAT,
            "inputs": [taken._asdict() for taken in self.inputs],
            "parts": [_plain_part(part) for part in self.parts],
            "carried": [_plain_part(part) for part in self.carried],
        }
        return orjson.dumps(escaped(plain), option=orjson.OPT_INDENT_2 if indented else 0)

    @classmethod
    def decoded(cls, data: bytes) -> Manifest:
        """From JSON; ManifestError for other JSON or a later format."""
        try:
            plain = orjson.loads(data)
            if plain.pop("format") > FORMAT:
                raise ManifestError("a manifest of a later mqsniff")
            plain["inputs"] = tuple(ManifestInput(**taken) for taken in plain["inputs"])
            plain["parts"] = tuple(map(_part, plain["parts"]))
            plain["carried"] = tuple(map(_part, plain.get("carried", ())))
            plain["drops"] = tuple(plain.get("drops", ()))
            plain["replaces"] = tuple(plain["replaces"])
            return cls(**plain)
        except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
            raise ManifestError(f"no manifest: {error}") from None


def _plain_part(part: Published) -> dict[str, Any]:
    """A part as JSON values."""
    plain = part._asdict()
    if not part.topic_ids:
        del plain["topic_ids"]
    return plain


def _part(plain: dict[str, Any]) -> Published:
    """A part from what ``_plain_part`` returned."""
    ids = tuple((protocol, topic_id, name) for protocol, topic_id, name in plain.pop("topic_ids", ()))
    return Published(**plain, topic_ids=ids)


def run_digest(inputs: Iterable[ManifestInput], options: Mapping[str, Any]) -> str:
    """Digest of the inputs, in any order, and of the options that change rows."""
    named = sorted((taken.uri, taken.size, taken.mark) for taken in inputs)
    plain = orjson.dumps(escaped([named, dict(options)]), option=orjson.OPT_SORT_KEYS)
    return blake2b(plain, digest_size=16).hexdigest()


ManifestCopies: TypeAlias = dict[str, tuple[int, bytes]]
"""Path of a manifest -> its size, to compare with the file, and a line of JSON with its content."""


def encoded_checkpoint(checkpoint: ManifestCopies) -> bytes:
    """As JSON lines, compressed."""
    heads = (orjson.dumps([path, size]) for path, (size, _) in checkpoint.items())
    lines = (head + b"\t" + line for head, (_, line) in zip(heads, checkpoint.values(), strict=True))
    return gzip.compress(b"\n".join(lines), compresslevel=1)


def decoded_checkpoint(data: bytes | None) -> ManifestCopies:
    """From what ``encoded_checkpoint`` returned; empty for None and for anything else (rule 4)."""
    checkpoint: ManifestCopies = {}
    try:
        for line in gzip.decompress(data or b"").splitlines():
            head, _, manifest = line.partition(b"\t")
            path, size = orjson.loads(head)
            checkpoint[path] = size, manifest
    except (OSError, EOFError, ValueError, TypeError, zlib.error):  # orjson's error is a ValueError
        return {}
    return checkpoint
