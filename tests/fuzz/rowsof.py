"""All rows of captures, for comparisons: names of files in, by line, their rows out, a line of JSON each.

It runs with any build of the project: ``PYTHONSAFEPATH=1 PYTHONPATH=build/compiled python tests/fuzz/rowsof.py``.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from mqsniff.answers.captures import key_logs_beside
from mqsniff.dissector import WITH_RECORDS, Settings
from mqsniff.limits import KIB, Limits
from mqsniff.pipeline import Pipeline
from mqsniff.sources.files import FileSource
from mqsniff.tables.rows import rows_of
from mqsniff.tables.schemas import TABLES
from mqsniff.tables.values import Redaction

LIMITS = Limits(
    frame_max=64 * KIB,
    search_max=64 * KIB,
    wait_max=64 * KIB,
    decompress_max=64 * KIB,
    inflate_start=64 * KIB,
    inflate_free=64 * KIB,
    records_free=1000,
)
SHOWN = Redaction(secrets=True, raw=True)


def rows_in(path: str) -> tuple[dict[str, list[dict[str, Any]]], Pipeline]:
    """The rows of a capture, by table, and the run."""
    from pathlib import Path

    keys = key_logs_beside(Path(path))
    pipeline = Pipeline(FileSource([path], LIMITS), Settings(LIMITS, WITH_RECORDS), keys=keys)
    rows: dict[str, list[dict[str, Any]]] = {table: [] for table in TABLES}
    for item in pipeline.items():
        if item is not None:
            for table, row in rows_of(item, pipeline.captures, TABLES, SHOWN):
                rows[table].append(row)
    return rows, pipeline


def text_of(rows: dict[str, list[dict[str, Any]]]) -> str:
    """Rows as one line."""
    return json.dumps([[table, SHOWN.json(row).decode()] for table, own in rows.items() for row in own])


if __name__ == "__main__":
    from mqsniff import pipeline as built

    print(built.__file__, flush=True)
    for line in sys.stdin:
        print(text_of(rows_in(line.rstrip("\n"))[0]), flush=True)
