"""Every sample's tables in Parquet: the rows of NDJSON, names that are known later aside, whoever reads them."""

from __future__ import annotations

import io
import json
from collections import Counter
from pathlib import Path

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from parquetrows import as_ndjson, decode_both, in_microseconds, rows_of_parts

from mqsniff.answers.captures import captures_under
from mqsniff.tables.schemas import TABLES, arrow_schema

PCAPS = Path(__file__).parents[2] / "pcaps"
SAMPLES = sorted(captures_under([PCAPS]))
FILLED = ("topic", "topics", "decoded")


@pytest.fixture(scope="module", params=SAMPLES, ids=lambda path: str(path.relative_to(PCAPS)))
def written(request, tmp_path_factory):
    """(folder of tables, lines of NDJSON) of a sample."""
    folder, stream = tmp_path_factory.mktemp("tables"), io.BytesIO()
    decode_both([request.param], folder, stream)
    return folder, [json.loads(line) for line in stream.getvalue().splitlines()]


def unfilled(row):
    return {name: value for name, value in row.items() if name not in FILLED}


def multiset(rows):
    return Counter(json.dumps(row, sort_keys=True) for row in rows)


def test_rows_are_those_of_ndjson(written):
    folder, lines = written
    for table in TABLES:
        rows = [as_ndjson(table, row) for row in rows_of_parts(folder, table)]
        expected = [in_microseconds(line) for line in lines if line["table"] == table]
        assert multiset(map(unfilled, rows)) == multiset(map(unfilled, expected))
        plain = [row for row in rows if not row.get("topic_id") and not row.get("topic_ids")]
        assert multiset(plain) <= multiset(expected)


def test_the_files_have_the_schema_to_the_letter(written):
    folder, _ = written
    for table in TABLES:
        (part,) = (folder / table).iterdir()
        schema = pq.read_schema(part)
        assert schema.equals(arrow_schema(table), check_metadata=False)
        assert not any(pa.types.is_dictionary(field.type) for field in schema)
        assert schema.metadata == arrow_schema(table).metadata


@pytest.fixture(scope="module")
def duck():
    connection = duckdb.connect()
    connection.execute("set timezone = 'UTC'")
    return connection


DUCKDB_TYPES = {
    "text": "VARCHAR",
    "texts": "VARCHAR[]",
    "int64": "BIGINT",
    "bool": "BOOLEAN",
    "timestamp": "TIMESTAMP WITH TIME ZONE",
    "json": "VARCHAR",
    "payload": "BLOB",
    "headers": 'STRUCT("key" VARCHAR, "value" BLOB)[]',
}


def test_duckdb_reads_the_same_types_and_rows(written, duck):
    folder, _ = written
    for table, columns in TABLES.items():
        read = f"from read_parquet('{folder}/{table}/*.parquet')"
        told = duck.execute(f"describe {read}").fetchall()
        assert [(name, kind) for name, kind, *_ in told] == [(one.name, DUCKDB_TYPES[one.type]) for one in columns]
        found = duck.sql(read).to_arrow_table().cast(plain_schema(table))
        assert found.to_pylist() == rows_of_parts(folder, table)


def test_pandas_reads_the_same_types_and_rows(written):
    folder, _ = written
    for table in TABLES:
        frame = pd.read_parquet(folder / table, dtype_backend="pyarrow")
        assert {name: kind.pyarrow_dtype for name, kind in frame.dtypes.items()} == {
            field.name: field.type for field in arrow_schema(table)
        }
        found = pa.Table.from_pandas(frame, schema=plain_schema(table), preserve_index=False)
        assert found.to_pylist() == rows_of_parts(folder, table)


def plain_schema(table):
    """The schema of a table whose columns may all be null."""
    return pa.schema([field.with_nullable(True) for field in arrow_schema(table)])
