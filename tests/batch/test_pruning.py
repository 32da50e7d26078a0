"""Part files that readers can skip parts of: rows by time, statistics of pages, Bloom filters of connections."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest
from batchrows import PCAPS
from inprocess import InProcess

from mqsniff.batch.driver import run_job
from mqsniff.sinks.parts import PartFile, by_time, moments
from mqsniff.tables.schemas import TABLES, TableName, arrow_schema

START = datetime(2026, 1, 31, tzinfo=UTC)


def exchanges(*seconds: tuple[int | None, int | None]) -> pa.Table:
    rows = [
        {
            field.name: None if field.nullable else "x" if pa.types.is_string(field.type) else 0
            for field in arrow_schema("exchanges")
        }
        | {"connection_id": str(number)}
        | {"request_ts": at(request), "response_ts": at(response)}
        for number, (request, response) in enumerate(seconds)
    ]
    return pa.Table.from_pylist(rows, arrow_schema("exchanges"))


def at(second: int | None) -> datetime | None:
    return None if second is None else START + timedelta(seconds=second)


def test_rows_are_sorted_by_their_first_time_and_equal_ones_stay_in_their_order() -> None:
    rows = exchanges((5, 6), (None, 3), (None, None), (5, 5), (1, 9))
    assert by_time("exchanges", rows)["connection_id"].to_pylist() == ["4", "1", "0", "3", "2"]
    ordered = exchanges((1, 2), (2, 3))
    assert by_time("exchanges", ordered) is ordered


@pytest.mark.parametrize("table", TABLES)
def test_a_row_group_of_a_batch_run_is_sorted_by_time(table: TableName, tmp_path: Path) -> None:
    folder = PCAPS / "nsq"
    run_job(InProcess(), [str(path) for path in sorted(folder.glob("nsq-1.3.0-[agt]*.pcap"))[:6]], str(tmp_path))
    for path in (tmp_path / table).glob("*.parquet"):
        source = pq.ParquetFile(path)
        for index in range(source.num_row_groups):
            times = [moment for moment in moments(table, source.read_row_group(index)).to_pylist() if moment]
            assert times == sorted(times)


def test_a_part_says_where_times_are_and_which_connections_it_holds(tmp_path: Path) -> None:
    part = PartFile(pafs.LocalFileSystem(), "exchanges", str(tmp_path / "x.parquet"))
    part.write(exchanges(*((second, second) for second in range(3000))), {})
    part.close()
    group = pq.ParquetFile(tmp_path / "x.parquet").metadata.row_group(0)
    columns = {group.column(index).path_in_schema: group.column(index) for index in range(group.num_columns)}
    assert columns["request_ts"].has_column_index
    assert columns["request_ts"].has_offset_index
    assert [name for name, column in columns.items() if column.bloom_filter_length] == ["connection_id"]
    assert columns["connection_id"].bloom_filter_length < 16_000
