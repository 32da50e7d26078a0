"""A capture and its golden in, the differences out: a regression test for decoders.

1. The golden of ``x.pcap`` is ``x.pcap.golden.ndjson`` beside it: a line with the version of the tables' schema, then
   the rows of all tables, records included, secrets redacted, in the order of decoding. It names no folder,
   and its hashes are made with a published key.
2. Within a major version of the schema columns are only added, so a golden of an earlier version is compared without
   the columns that it does not know. A golden of another major version has to be written anew.
3. A golden whose rows differ in ignored fields only is the same, and is not rewritten.
"""

from __future__ import annotations

import io
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

import orjson

from mqsniff.answers.captures import key_logs_beside
from mqsniff.answers.check.differences import NOTHING_IGNORED, Difference, IgnoredFields, compare
from mqsniff.dissector import WITH_RECORDS, Settings
from mqsniff.pipeline import Pipeline
from mqsniff.sinks.ndjson import NdjsonSink
from mqsniff.sources.files import FileSource
from mqsniff.tables.hashkey import PUBLISHED, HashKey
from mqsniff.tables.rows import Row
from mqsniff.tables.schemas import SCHEMA_VERSION, TABLES
from mqsniff.tables.values import Redaction
from mqsniff.tls.keylog import KeyLog

if TYPE_CHECKING:
    from mqsniff.answers.check.expectations import Outcome

GOLDEN_SUFFIX: Final = ".golden.ndjson"
_SCHEMA_LINE: Final = orjson.dumps({"table": "schema", "version": SCHEMA_VERSION}) + b"\n"

CheckStatus: TypeAlias = Literal["same", "different", "no golden", "no capture", "updated", "failed", "unreadable"]
"""``failed``: an expectation does not hold; ``unreadable``: the capture or its golden cannot be read."""


class Decoding(NamedTuple):
    """How a capture is decoded and compared."""

    keys: Sequence[KeyLog] = ()
    """Key logs besides the one that lies beside the capture."""
    decode_as: Mapping[int, str] = {}
    """Protocols by server port."""
    ignored: IgnoredFields = NOTHING_IGNORED
    hash_key: HashKey = PUBLISHED
    """The key of hashes: the published one, unless the user gives another."""


PLAIN: Final = Decoding()


@dataclass(slots=True)
class Checked:
    """The result for one capture."""

    capture: Path
    status: CheckStatus
    rows: Counter[str] = field(default_factory=Counter)
    """Rows by table, as decoded now."""
    differences: list[Difference] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    """What became of the expectations."""
    remark: str = ""
    """One line: why it is unreadable, why it was not updated, or what a schema version means for it."""

    @property
    def passed(self) -> bool:
        """Whether nothing has to be done about it."""
        return self.status in ("same", "updated")


class GoldenRows(NamedTuple):
    """The rows of a golden, and the version of the schema that they were written with."""

    rows: list[Row]
    version: str


class GoldenError(Exception):
    """A capture that cannot be read, or a golden that is not NDJSON of rows."""


def golden_of(capture: Path) -> Path:
    """The path of the golden of a capture."""
    return capture.with_name(capture.name + GOLDEN_SUFFIX)


def check_capture(capture: Path, decoding: Decoding = PLAIN, *, update: bool = False) -> Checked:
    """Decode a capture and compare it with its golden, or write the golden if ``update``.

    Raises GoldenError for a golden or a capture that cannot be read, OSError for one that cannot be written.
    """
    golden = golden_of(capture)
    decoded = decode_rows(capture, decoding)
    now = read_golden(golden, decoded).rows
    counts = Counter(str(row["table"]) for row in now)
    before = golden.read_bytes() if golden.exists() else None
    if before == decoded:
        return Checked(capture, "same", counts)
    if before is None and not update:
        return Checked(capture, "no golden", counts)
    if before is not None:
        checked = _compared(capture, read_golden(golden, before), now, decoding.ignored)
        checked.rows = counts
        if not update or (checked.status == "same" and decoding.ignored):
            return checked
    _replace(golden, decoded)
    return Checked(capture, "updated", counts)


def _compared(capture: Path, golden: GoldenRows, now: list[Row], ignored: IgnoredFields) -> Checked:
    """A golden against the rows of today (rule 2)."""
    if golden.version.partition(".")[0] != SCHEMA_VERSION.partition(".")[0]:
        text = f"its golden has tables of schema {golden.version}, this is {SCHEMA_VERSION}: review and --update"
        return Checked(capture, "different", remark=text)
    text = ""
    if golden.version != SCHEMA_VERSION:
        text = f"its golden has tables of schema {golden.version}: columns that are newer are not compared"
        known = {name for row in golden.rows for name in row}
        now = [{name: value for name, value in row.items() if name in known} for row in now]
    differences = compare(golden.rows, now, ignored)
    return Checked(capture, "different" if differences else "same", differences=differences, remark=text)


def decode_rows(capture: Path, decoding: Decoding = PLAIN) -> bytes:
    """All rows of a capture as a golden has them; they name the capture without its folder.

    Raises GoldenError for a file that is not a capture.
    """
    keys = [*decoding.keys, *key_logs_beside(capture)]
    source, settings = FileSource([str(capture)]), Settings(wanted=WITH_RECORDS)
    pipeline = Pipeline(source, settings, decode_as=decoding.decode_as, keys=keys)
    written = io.BytesIO()
    sink = NdjsonSink(written, pipeline.captures, TABLES, Redaction(hash_key=decoding.hash_key))
    for item in pipeline.items(sink.tick):
        for info in pipeline.captures:
            info.name = capture.name
        if item is not None:
            sink.write(item)
    sink.tick()
    for info in pipeline.captures:
        if info.unreadable:
            raise GoldenError(f"{capture}: {info.unreadable}")
    return _SCHEMA_LINE + written.getvalue()


def read_golden(golden: Path, content: bytes) -> GoldenRows:
    """The rows of a golden; raises GoldenError for the first line that is not a row.

    A golden without a line for its schema is one of schema 1.0.
    """
    rows, version = [], "1.0"
    for number, line in enumerate(content.splitlines(), 1):
        try:
            row = _parse(line)
        except ValueError as error:
            raise GoldenError(f"{golden}:{number}: not a row of a table: {error}") from None
        if row["table"] == "schema":
            version = str(row.get("version"))
        else:
            rows.append(row)
    return GoldenRows(rows, version)


def stale_goldens(captures: Sequence[Path], folders: Sequence[Path]) -> list[Path]:
    """Goldens under folders whose capture is gone."""
    wanted = {golden_of(capture) for capture in captures}
    found = {file for folder in folders if folder.is_dir() for file in folder.rglob(f"*{GOLDEN_SUFFIX}")}
    return sorted(found - wanted)


def _parse(line: bytes) -> Row:
    row = orjson.loads(line)
    if not isinstance(row, dict) or (row.get("table") not in TABLES and row.get("table") != "schema"):
        raise ValueError("not a JSON object with the name of a table")
    return row


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
