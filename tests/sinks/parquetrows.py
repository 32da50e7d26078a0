"""Rows of Parquet folders as NDJSON has them, by plain Python: an oracle for what the two outputs have in common."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from mqsniff.dissector import WITH_RECORDS, Settings
from mqsniff.limits import Limits
from mqsniff.model import Item
from mqsniff.pipeline import Pipeline
from mqsniff.sinks.ndjson import NdjsonSink
from mqsniff.sinks.parquet import ParquetSink
from mqsniff.sinks.parts import WrittenPart
from mqsniff.sources.files import FileSource
from mqsniff.tables.schemas import TABLES, TableName, names_of
from mqsniff.tables.values import Redaction

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def decode_both(
    captures: list[Path], folder: Path, stream: Any, shown: Redaction | None = None, **options: Any
) -> list[WrittenPart]:
    """Decode captures once, into Parquet tables and as NDJSON."""
    shown = shown or Redaction()
    pipeline = Pipeline(FileSource([str(path) for path in captures]), Settings(Limits(), wanted=WITH_RECORDS))
    ndjson = NdjsonSink(stream, pipeline.captures, TABLES, shown)
    sink = ParquetSink(str(folder), pipeline.captures, TABLES, shown, **options)
    for item in pipeline.items():
        if item is not None:
            ndjson.write(item)
            sink.write(item)
    return sink.close()


def items_of(captures: list[Path]) -> tuple[Pipeline, list[Item]]:
    """A pipeline and all that it gave."""
    pipeline = Pipeline(FileSource([str(path) for path in captures]), Settings(Limits(), wanted=WITH_RECORDS))
    return pipeline, [item for item in pipeline.items() if item is not None]


def rows_of_parts(folder: Path, table: str) -> list[dict[str, Any]]:
    """All rows of a table, as Arrow gives them."""
    parts = sorted((folder / table).glob("*.parquet"))
    return [row for part in parts for row in pq.read_table(part).to_pylist()]


def as_ndjson(table: TableName, row: dict[str, Any]) -> dict[str, Any]:
    """A row of a Parquet table as a line of NDJSON says it, times to the microsecond."""
    told: dict[str, Any] = {"table": table}
    for column in TABLES[table]:
        value = row[column.name]
        if value is None:
            continue
        match column.type:
            case "json":
                value = json.loads(value)
            case "payload":
                base = row[f"{column.name}_encoding"] == "base64"
                value = base64.b64encode(value).decode() if base else value.decode()
            case "headers":
                value = [{"key": one["key"], "value": _shown(one["value"])} for one in value]
            case "timestamp":
                value = f"{(value - EPOCH) // timedelta(microseconds=1)}"
        told[column.name] = value
    return told


def in_microseconds(line: dict[str, Any]) -> dict[str, Any]:
    """A line of NDJSON with its times as ``as_ndjson`` gives them."""
    times = names_of(line["table"], "timestamp")
    return {name: _micros(value) if name in times else value for name, value in line.items()}


def _micros(text: str) -> str:
    second, _, fraction = text.removesuffix("Z").partition(".")
    whole = datetime.fromisoformat(second).replace(tzinfo=UTC) - EPOCH
    return f"{whole // timedelta(seconds=1)}{fraction[:6]}"


def _shown(value: bytes | None) -> Any:
    """The rule for bytes, from its words."""
    if value is None:
        return None
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}
    odd = any((ord(char) < 32 and char not in "\t\r\n") or 127 <= ord(char) < 160 for char in text)
    return {"base64": base64.b64encode(value).decode()} if odd else text
