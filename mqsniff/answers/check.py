"""A capture and its golden in, the differences out: a regression test for decoders, by row and field.

1. The golden of ``x.pcap`` is ``x.pcap.golden.ndjson`` beside it: the rows of all tables, records included, secrets
   redacted, in the order of decoding.
2. Rows are matched by their keys, connections by their endpoints, so that one additional row does not shift the rest.
3. The order of rows is compared too, if all rows are there.
"""

from __future__ import annotations

import io
import os
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import orjson

from mqsniff.answers.captures import key_logs_beside
from mqsniff.dissector import WITH_RECORDS, Settings
from mqsniff.pipeline import Pipeline
from mqsniff.sinks.ndjson import NdjsonSink
from mqsniff.sources.files import FileSource
from mqsniff.tables.rows import Row
from mqsniff.tables.schemas import TABLES
from mqsniff.tables.values import Redaction
from mqsniff.tls.keylog import KeyLog

GOLDEN_SUFFIX: Final = ".golden.ndjson"

_TELLING: Final[dict[str, tuple[str, ...]]] = {
    "exchanges": ("link", "name"),
    "partitions": ("topic", "topic_id", "partition"),
    "records": ("batch_index", "record_index"),
    "topics": ("protocol", "topic_id"),
    "problems": ("kind", "path"),
}
"""Columns that identify the rows of one message."""

CheckStatus: TypeAlias = Literal["same", "different", "no golden", "no capture", "updated"]


class Absent:
    """Stands for a field that a row does not have."""

    def __repr__(self) -> str:
        return "absent"


ABSENT: Final = Absent()


@dataclass(frozen=True, slots=True)
class Change:
    """A field with another value; ``path`` may lead into bodies, as in ``body.metadata[3].name``."""

    path: str
    golden: Any
    now: Any


@dataclass(frozen=True, slots=True)
class Difference:
    """A row that is missing, new, changed or moved, described in words."""

    kind: Literal["missing", "new", "changed", "moved"]
    row: str
    changes: tuple[Change, ...] = ()


@dataclass(slots=True)
class Checked:
    """The result for one capture."""

    capture: Path
    status: CheckStatus
    rows: Counter[str] = field(default_factory=Counter)
    """Rows by table, as decoded now."""
    differences: list[Difference] = field(default_factory=list)


class GoldenError(Exception):
    """A capture that cannot be read, or a golden that is not NDJSON of rows."""


def golden_of(capture: Path) -> Path:
    """The path of the golden of a capture."""
    return capture.with_name(capture.name + GOLDEN_SUFFIX)


def check_capture(capture: Path, *, update: bool = False, keys: Sequence[KeyLog] = ()) -> Checked:
    """Decode a capture and compare it with its golden, or write the golden; ``keys`` besides those beside it.

    Raises GoldenError for a golden or a capture that cannot be read, OSError for one that cannot be written.
    """
    golden = golden_of(capture)
    decoded = decode_rows(capture, keys)
    now = [_parse(line) for line in decoded.splitlines()]
    counts = Counter(str(row["table"]) for row in now)
    before = golden.read_bytes() if golden.exists() else None
    if before == decoded:
        return Checked(capture, "same", counts)
    if update:
        _replace(golden, decoded)
        return Checked(capture, "updated", counts)
    if before is None:
        return Checked(capture, "no golden", counts)
    differences = compare(read_golden(golden, before), now)
    return Checked(capture, "different" if differences else "same", counts, differences)


def decode_rows(capture: Path, keys: Sequence[KeyLog] = ()) -> bytes:
    """All rows of a capture as NDJSON; they name the capture without its folder.

    Raises GoldenError for a file that is no capture.
    """
    keys = [*keys, *key_logs_beside(capture)]
    pipeline = Pipeline(FileSource([str(capture)]), Settings(wanted=WITH_RECORDS), keys=keys)
    written = io.BytesIO()
    sink = NdjsonSink(written, pipeline.captures, TABLES, Redaction())
    for item in pipeline.items():
        for info in pipeline.captures:
            info.name = capture.name
        if item is not None:
            sink.write(item)
    for info in pipeline.captures:
        if info.unreadable:
            raise GoldenError(f"{capture}: {info.unreadable}")
    return written.getvalue()


def read_golden(golden: Path, content: bytes) -> list[Row]:
    """The rows of a golden; raises GoldenError for the first line that is no row."""
    rows = []
    for number, line in enumerate(content.splitlines(), 1):
        try:
            rows.append(_parse(line))
        except ValueError as error:
            raise GoldenError(f"{golden}:{number}: no row of a table: {error}") from None
    return rows


def stale_goldens(captures: Sequence[Path], folders: Sequence[Path]) -> list[Path]:
    """Goldens under folders whose capture is gone."""
    wanted = {golden_of(capture) for capture in captures}
    found = {file for folder in folders if folder.is_dir() for file in folder.rglob(f"*{GOLDEN_SUFFIX}")}
    return sorted(found - wanted)


def compare(golden: Sequence[Row], now: Sequence[Row]) -> list[Difference]:
    """The differences, in the order of the decoded rows; missing rows come last."""
    before, after = dict(_keyed(golden)), dict(_keyed(now))
    differences: list[Difference] = []
    for key, row in after.items():
        if key not in before:
            differences.append(Difference("new", describe(row)))
        elif changes := tuple(_changes("", before[key], row)):
            differences.append(Difference("changed", describe(row), changes))
    differences += [Difference("missing", describe(row)) for key, row in before.items() if key not in after]
    if before.keys() == after.keys():
        differences += _moved(before, after)
    return differences


def describe(row: Row) -> str:
    """A row in a few words: its table, name and position."""
    table = str(row.get("table"))
    what = " ".join(str(row[name]) for name in ("protocol", "name", "kind", "topic", "severity") if name in row)
    where = []
    if "client" in row:
        where.append(f"{row['client']} - {row['server']}")
    if "side" in row:
        where.append(f"{row['side']} at {row.get('stream_offset')}")
    number = row.get("first_packet", row.get("packet", row.get("request_packet")))
    if number is not None:
        where.append(f"packet {number}")
    return f"{table}: {what}" + (f" ({', '.join(where)})" if where else "")


def _parse(line: bytes) -> Row:
    row = orjson.loads(line)
    if not isinstance(row, dict) or row.get("table") not in TABLES:
        raise ValueError("not a JSON object with the name of a table")
    return row


def _keyed(rows: Sequence[Row]) -> Iterator[tuple[Hashable, Row]]:
    """Rows with their identity: key, identifying columns of the table, and a number among equal ones."""
    connections: dict[Any, tuple[Any, Any, int]] = {}
    ends: Counter[tuple[Any, Any]] = Counter()
    seen: defaultdict[Hashable, int] = defaultdict(int)
    for row in rows:
        connection_id = row.get("connection_id")
        if connection_id not in connections:
            pair = row.get("client"), row.get("server")
            connections[connection_id] = *pair, ends[pair]
            ends[pair] += 1
        telling = tuple(str(row.get(name)) for name in _TELLING.get(row["table"], ()))
        key = row["table"], connections[connection_id], row.get("side"), row.get("stream_offset"), telling
        yield (key, seen[key]), row
        seen[key] += 1


def _changes(path: str, golden: Any, now: Any) -> Iterator[Change]:
    """Fields that differ, as deep as both have the same structure."""
    if isinstance(golden, dict) and isinstance(now, dict):
        for name in [*golden, *(name for name in now if name not in golden)]:
            inner = f"{path}.{name}" if path else name
            yield from _changes(inner, golden.get(name, ABSENT), now.get(name, ABSENT))
    elif isinstance(golden, list) and isinstance(now, list) and len(golden) == len(now):
        for index, (one, other) in enumerate(zip(golden, now, strict=True)):
            yield from _changes(f"{path}[{index}]", one, other)
    elif golden != now or type(golden) is not type(now):
        yield Change(path, golden, now)


def _moved(before: dict[Hashable, Row], after: dict[Hashable, Row]) -> Iterator[Difference]:
    """The first row at another position, if all rows are the same."""
    for old, new in zip(before, after, strict=True):
        if old != new:
            yield Difference("moved", describe(after[new]), (Change("comes before", describe(before[old]), ABSENT),))
            return


def _replace(path: Path, content: bytes) -> None:
    """Write a file atomically."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_bytes(content)
        draft.replace(path)
    except OSError as error:
        raise GoldenError(f"{path}: {error.strerror or error}") from None
    finally:
        draft.unlink(missing_ok=True)
