"""A capture in, answers of SQL about its tables out: what expectations are evaluated with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from mqsniff.answers.captures import key_logs_beside
from mqsniff.answers.check.expectations import Ask, Expectation, Outcome, evaluate
from mqsniff.answers.check.goldens import Decoding, GoldenError
from mqsniff.answers.folders import table_dataset, table_files
from mqsniff.dissector import WITH_RECORDS, Settings
from mqsniff.limits import Limits
from mqsniff.lockedsql.database import Database
from mqsniff.pipeline import Pipeline
from mqsniff.sinks.parquet import ParquetSink
from mqsniff.sources.files import FileSource
from mqsniff.tables.rows import Row
from mqsniff.tables.schemas import TABLES
from mqsniff.tables.values import Redaction

ROWS_MAX: Final = 10_000
"""Rows of a query that are looked at."""


def outcomes_of(capture: Path, expectations: Sequence[Expectation], decoding: Decoding) -> list[Outcome]:
    """What a capture says to expectations; raises GoldenError for a file that is not a capture, and QueryError."""
    with asking(capture, decoding) as ask:
        return [evaluate(expectation, ask) for expectation in expectations]


@contextmanager
def asking(capture: Path, decoding: Decoding) -> Iterator[Ask]:
    """Decode a capture into tables that can be asked."""
    limits = Limits()
    with TemporaryDirectory(prefix="mqsniff-check-") as place:
        tables = Path(place, "tables")
        _decode(capture, decoding, tables, limits)
        files = table_files(tables)
        datasets: dict[str, Any] = {table: table_dataset(table, [(tables, files.get(table, ()))]) for table in TABLES}
        with Database(Path(place, "spill"), limits, readable=[Path(place).resolve()]).open(datasets) as database:

            def ask(query: str) -> list[Row]:
                rows: list[Row] = []
                for batch in database.run(query)[1]:
                    rows += batch.to_pylist()
                    if len(rows) >= ROWS_MAX:
                        break
                return rows[:ROWS_MAX]

            yield ask


def _decode(capture: Path, decoding: Decoding, out: Path, limits: Limits) -> None:
    """Decode a capture into a folder of tables."""
    keys = [*decoding.keys, *key_logs_beside(capture)]
    source, settings = FileSource([str(capture)], limits), Settings(limits, WITH_RECORDS)
    pipeline = Pipeline(source, settings, decode_as=decoding.decode_as, keys=keys)
    sink = ParquetSink(str(out), pipeline.captures, tuple(TABLES), Redaction(hash_key=decoding.hash_key), limits=limits)
    try:
        for item in pipeline.items(sink.write_waiting):
            if item is not None:
                sink.write(item)
    finally:
        sink.close()
    for info in pipeline.captures:
        if info.unreadable:
            raise GoldenError(f"{capture}: {info.unreadable}")
