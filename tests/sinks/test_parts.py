"""Part files: their names, when a new one begins, what their footers say, and what is left when a run gives up."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

from mqsniff.limits import Limits
from mqsniff.sinks.parts import PartFiles
from mqsniff.tables.arrow import Block
from mqsniff.tables.schemas import SCHEMA_VERSION, arrow_schema

LOCAL = pafs.LocalFileSystem()


def record():
    """A block of one row of ``records``."""
    row = dict.fromkeys(arrow_schema("records").names)
    for field in arrow_schema("records"):
        if not field.nullable:
            row[field.name] = "x" if field.type == pa.string() else 0
    row |= {"key": b"k", "value": b"v", "topic": "t", "partition": 1, "codec": "none", "offset": 7, "decoded": "{}"}
    return pa.RecordBatch.from_pylist([row], schema=arrow_schema("records"))


RECORDS = record()


def topics(first=0, count=3, topic_ids=None):
    """A block of the table ``topics``."""
    rows = [
        {"protocol": "kafka", "topic_id": f"id-{at}", "name": f"topic-{at}", "first_ts": None}
        for at in range(first, first + count)
    ]
    schema = pa.schema([field.with_nullable(True) for field in arrow_schema("topics")])
    made = pa.RecordBatch.from_pylist(rows, schema=schema)
    made = made.set_column(
        3, arrow_schema("topics").field(3), pa.repeat(pa.scalar(0, pa.timestamp("us", "UTC")), count)
    )
    return Block("topics", made.cast(arrow_schema("topics")), topic_ids or {})


def ids(path):
    return pq.read_table(path)["topic_id"].to_pylist()


def test_a_part_gets_its_name_when_it_is_whole(tmp_path):
    files = PartFiles(LOCAL, str(tmp_path), prefix="p0-a1", limits=Limits(row_group_size=1))
    files.write(topics())
    assert [path.name for path in (tmp_path / "topics").iterdir()] == ["p0-a1-00000.parquet.tmp"]
    (part,) = files.close()
    assert [path.name for path in (tmp_path / "topics").iterdir()] == ["p0-a1-00000.parquet"]
    assert (part.table, part.path, part.rows) == ("topics", f"{tmp_path}/topics/p0-a1-00000.parquet", 3)
    assert part.bytes == (tmp_path / "topics" / "p0-a1-00000.parquet").stat().st_size


def test_a_full_part_is_whole_while_the_run_goes_on(tmp_path):
    files = PartFiles(LOCAL, str(tmp_path), limits=Limits(row_group_size=1, part_size=1))
    for number in range(3):
        files.write(topics(number, 1))
    names = ["part-00000.parquet", "part-00001.parquet", "part-00002.parquet"]
    assert sorted(path.name for path in (tmp_path / "topics").iterdir()) == names
    parts = files.close()
    assert [ids(part.path) for part in parts] == [["id-0"], ["id-1"], ["id-2"]]


def test_row_groups_end_at_their_size(tmp_path):
    block = topics(0, 100)
    files = PartFiles(LOCAL, str(tmp_path), limits=Limits(row_group_size=2 * block.rows.nbytes))
    for _ in range(5):
        files.write(block)
    (part,) = files.close()
    metadata = pq.read_metadata(part.path)
    assert [metadata.row_group(at).num_rows for at in range(metadata.num_row_groups)] == [200, 200, 100]


def test_what_waits_for_row_groups_of_all_tables_together_is_bounded(tmp_path):
    many, few = topics(0, 100), Block("records", RECORDS, {})
    room = 3 * (many.rows.nbytes + few.rows.nbytes)
    files = PartFiles(LOCAL, str(tmp_path), limits=Limits(tables_buffer=room))
    for _ in range(20):
        files.write(many)
        files.write(few)
        assert files.waiting <= room
    assert sorted((part.table, part.rows) for part in files.close()) == [("records", 20), ("topics", 2000)]


def test_every_wanted_table_has_a_part(tmp_path):
    files = PartFiles(LOCAL, str(tmp_path))
    files.write(topics())
    parts = files.close(("topics", "records"))
    assert [(part.table, part.rows) for part in parts] == [("topics", 3), ("records", 0)]
    assert pq.read_schema(parts[1].path).equals(arrow_schema("records"))


def test_columns_of_the_caller_stand_behind_the_tables_own(tmp_path):
    files = PartFiles(LOCAL, str(tmp_path), extra={"run_id": "r1"})
    files.write(topics())
    (part, empty) = files.close(("topics", "records"))
    assert pq.read_schema(part.path).names == [*arrow_schema("topics").names, "run_id"]
    assert pq.read_schema(empty.path).names[-1] == "run_id"
    assert set(pq.read_table(part.path)["run_id"].to_pylist()) == {"r1"}


def test_the_footer_names_table_and_version(tmp_path):
    files = PartFiles(LOCAL, str(tmp_path))
    files.write(topics())
    (part,) = files.close()
    metadata = pq.read_metadata(part.path).metadata
    assert metadata[b"mqsniff.table"] == b"topics"
    assert metadata[b"mqsniff.schema_version"] == SCHEMA_VERSION.encode()


def test_columns_are_packed_with_zstd_and_dictionaries_stay_out_of_what_never_repeats(tmp_path):
    files = PartFiles(LOCAL, str(tmp_path))
    files.write(Block("records", RECORDS, {}))
    (part,) = files.close()
    group = pq.read_metadata(part.path).row_group(0)
    columns = {group.column(at).path_in_schema: group.column(at) for at in range(group.num_columns)}
    assert {column.compression for column in columns.values()} == {"ZSTD"}
    encoded = {name for name, column in columns.items() if "RLE_DICTIONARY" in column.encodings}
    assert {"topic", "client", "codec", "partition"} <= encoded
    assert not encoded & {"value", "key", "offset", "ts", "ts_ns", "decoded"}
    differences = {name for name, column in columns.items() if "DELTA_BINARY_PACKED" in column.encodings}
    assert {"offset", "ts_ns", "packet", "record_index"} <= differences
    assert columns["offset"].statistics.min == 7
    assert columns["value"].statistics is None


def test_numbers_of_any_size_are_read_as_they_were_written(tmp_path):
    files = PartFiles(LOCAL, str(tmp_path))
    offsets = [-(1 << 63), (1 << 63) - 1, None, 0, -(1 << 63)]
    files.write(records_with(offsets, "offset"))
    (part,) = files.close()
    assert pq.read_table(part.path)["offset"].to_pylist() == offsets
    assert duckdb.sql(f"select \"offset\" from '{part.path}'").fetchall() == [(offset,) for offset in offsets]


def records_with(values, name="value"):
    """A block of ``records`` that have these values."""
    rows = pa.Table.from_batches([RECORDS] * len(values))
    index = rows.schema.get_field_index(name)
    rows = rows.set_column(index, rows.schema.field(index), pa.array(values, rows.schema.field(index).type))
    return Block("records", rows.combine_chunks().to_batches()[0], {})


@pytest.mark.parametrize(
    ("values", "packed"),
    [([b"a", b"b"] * 4, True), ([b"%d" % at for at in range(8)], False), ([b"a", None, None, b"b"], True)],
    ids=["twice", "once", "null"],
)
def test_values_get_a_dictionary_where_they_repeat(values, packed, tmp_path):
    files = PartFiles(LOCAL, str(tmp_path))
    files.write(records_with(values))
    (part,) = files.close()
    group = pq.read_metadata(part.path).row_group(0)
    (column,) = (group.column(at) for at in range(group.num_columns) if group.column(at).path_in_schema == "value")
    assert ("RLE_DICTIONARY" in column.encodings) == packed
    assert pq.read_schema(part.path).equals(arrow_schema("records"))
    assert pq.read_table(part.path)["value"].to_pylist() == values


def test_topic_ids_of_a_part_lose_their_name_where_rows_differ(tmp_path):
    files = PartFiles(LOCAL, str(tmp_path), limits=Limits(row_group_size=1))
    a, b, c = ("kafka", "a"), ("kafka", "b"), ("kafka", "c")
    files.write(topics(topic_ids={a: "x", b: "y", c: None}))
    files.write(topics(topic_ids={a: "x", b: None, c: "z"}))
    (part,) = files.close()
    assert part.topic_ids == {a: "x", b: None, c: None}


@pytest.mark.parametrize("part_size", [1, 1 << 20], ids=["whole parts", "open parts"])
def test_a_run_that_gives_up_leaves_nothing(tmp_path, part_size):
    files = PartFiles(LOCAL, str(tmp_path), limits=Limits(row_group_size=1, part_size=part_size))
    for number in range(3):
        files.write(topics(number))
    files.discard()
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_file_system_that_shows_whole_files_only_gets_the_name_at_once(tmp_path):
    class Bucket(pafs.FileSystemHandler):
        """An object store: what it holds is whole."""

        def __init__(self):
            self.names = []

        def get_type_name(self):
            return "bucket"

        def create_dir(self, path, recursive):
            pass

        def open_output_stream(self, path, metadata):
            self.names.append(path)
            return pa.PythonFile((tmp_path / "object").open("wb"))

        def _unused(self, *_):
            raise NotImplementedError

        copy_file = delete_dir = delete_dir_contents = delete_file = delete_root_dir_contents = _unused
        get_file_info = get_file_info_selector = move = normalize_path = open_append_stream = _unused
        open_input_file = open_input_stream = _unused

    bucket = Bucket()
    files = PartFiles(pafs.PyFileSystem(bucket), "out")
    files.write(topics())
    (part,) = files.close()
    assert bucket.names == [part.path] == ["out/topics/part-00000.parquet"]
    assert ids(tmp_path / "object") == ["id-0", "id-1", "id-2"]
