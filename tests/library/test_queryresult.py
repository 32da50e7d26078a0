"""The result of a query, as rows, Arrow and data frames; and Arrow streams for other libraries."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest

import mqsniff

CAPTURE = "pcaps/kafka/kafka-3.9.1-java-4.4.0-cross-xa.pcapng"
QUERY = "select name, count(*) as n from messages group by all order by n desc, name limit 2"


@pytest.fixture(scope="module")
def capture():
    with mqsniff.read(CAPTURE) as opened:
        yield opened


def test_rows_are_dicts(capture):
    result = capture.sql(QUERY)
    assert list(result) == [{"name": "ApiVersions", "n": 20}, {"name": "Fetch", "n": 6}]
    assert (len(result), result.columns) == (2, ["name", "n"])
    assert repr(result) == "<mqsniff result: 2 rows of name, n>"


def test_columns_that_come_twice_get_numbers(capture):
    assert capture.sql("select 1 as a, 2 as a").columns == ["a", "a_1"]


def test_one_value(capture):
    assert capture.sql("select 7").one() == 7
    with pytest.raises(ValueError, match="2 rows of 2 columns"):
        capture.sql(QUERY).one()


def test_pandas_takes_it(capture):
    frame = capture.sql(QUERY).to_pandas()
    assert frame["n"].tolist() == [20, 6]
    assert len(capture.table("exchanges").to_pandas()) == 28


def test_polars_takes_results_and_rows(capture):
    polars = pytest.importorskip("polars")
    assert polars.DataFrame(capture.sql(QUERY))["n"].to_list() == [20, 6]
    assert polars.DataFrame(capture.exchanges()).height == 28


def test_duckdb_and_arrow_take_streams(capture):
    exchanges = pa.table(capture.exchanges())
    assert duckdb.sql("select count(*) from exchanges").fetchall() == [(28,)]
    assert exchanges.num_rows == pa.table(capture.sql("from exchanges")).num_rows
