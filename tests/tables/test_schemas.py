"""The columns of the tables: what was released stays, what is firm is there, and Arrow sees plain types."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mqsniff.tables.schemas import SCHEMA_VERSION, STREAM_TABLES, TABLES, arrow_schema, names_of

RELEASED = json.loads(Path(__file__).with_name("released_schema.json").read_text())

GOLDENS = Path(__file__).parents[2].glob("pcaps/*/*.golden.ndjson")
NOT_IN_GOLDENS = {
    "connections": {"tls_alpn", "tunnel"},
    "records": {
        *("chunk_count", "chunk_id", "decoded", "joined", "key_hmac_sha256", "null_partition_key", "replicated_from"),
        "value_hmac_sha256",
    },
}
"""Columns that no sample fills, but tests of what gives them: ``decode/tls.py``, ``streams/tunnels.py``, Pulsar's
chunks and metadata, formats of internal topics."""

PLAIN_VALUES = {
    pa.string(): "x",
    pa.int64(): 1,
    pa.bool_(): True,
    pa.binary(): b"x",
    pa.timestamp("us", "UTC"): datetime(2026, 11, 21, tzinfo=UTC),
    pa.list_(pa.string()): ["x"],
}

FIRM = {
    "connections": (
        "connection_id community_id client_ip client_port server_ip server_port protocol detected_by outcome "
        "first_ts last_ts client_packets server_packets client_bytes server_bytes gap_bytes undecoded_bytes "
        "retransmitted_segments out_of_order_segments duplicate_packets sides_seen handshake_seen close_reason "
        "open_at_end client_rtt_ns server_rtt_ns client_software server_software user mechanism tls_version "
        "tls_cipher tls_alpn tls_server_name"
    ),
    "messages": (
        "connection_id side stream_offset client server client_id group capture first_packet last_capture "
        "last_packet ts ts_ns last_ts size protocol name version kind correlation topics topic_ids error_code "
        "error_name error_count body problems"
    ),
    "exchanges": (
        "connection_id side stream_offset client server client_id group link protocol name version correlation "
        "request_ts response_ts request_packet response_packet request_capture response_capture request_size "
        "response_size request_stream_offset response_stream_offset latency_ns total_ns queue_ns wait_limit_ns "
        "held throttle_ns status error_code error_name topics"
    ),
    "partitions": (
        "connection_id side stream_offset client server client_id group ts protocol name kind topic topic_id "
        "partition offset error_code error_name high_watermark log_start_offset leader_epoch batches records "
        "wire_bytes"
    ),
    "records": (
        "connection_id side stream_offset client server client_id group capture packet ts ts_ns direction "
        "protocol topic topic_id partition offset message_id client_offset ack record_ts deliver_at_ts key "
        "key_encoding value value_encoding value_size headers schema_id unique_key codec checksum_ok base_offset "
        "producer_id producer_epoch sequence transactional control aborted attempts reader batch_index "
        "record_index"
    ),
    "topics": "protocol topic_id name first_ts",
    "problems": (
        "connection_id side stream_offset client server client_id group capture packet ts ts_ns severity kind "
        "path detail size"
    ),
}


@pytest.mark.parametrize("table", FIRM)
def test_every_firm_column_is_there_once(table):
    names = names_of(table)
    assert set(FIRM[table].split()) <= set(names)
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("table", TABLES)
def test_columns_of_the_last_release_stand_where_they_stood(table):
    assert RELEASED["schema_version"].split(".")[0] == SCHEMA_VERSION.split(".")[0]
    released = RELEASED["tables"][table]
    today = [[column.name, column.type, column.nullable] for column in TABLES[table]]
    assert today[: len(released)] == released
    assert all(nullable for _, _, nullable in today[len(released) :])


@pytest.mark.parametrize("table", TABLES)
def test_files_of_the_last_release_and_of_today_are_read_together(table, tmp_path):
    today = arrow_schema(table)
    before = pa.schema([today.field(name) for name, _, _ in RELEASED["tables"][table]])
    for name, schema in (("before", before), ("today", today)):
        row = {field.name: PLAIN_VALUES.get(field.type) for field in schema}
        pq.write_table(pa.Table.from_pylist([row], schema=schema), tmp_path / f"{name}.parquet")
    read = duckdb.sql(f"from read_parquet('{tmp_path}/*.parquet', union_by_name = true)").to_arrow_table()
    assert read.schema.names == today.names
    for field in today:
        value = PLAIN_VALUES.get(field.type)
        assert read[field.name].cast(field.type).to_pylist() == [value if field.name in before.names else None, value]


def test_every_column_has_somebody_who_fills_it():
    filled = {table: {"beyond_int64", *NOT_IN_GOLDENS.get(table, ())} for table in TABLES}
    for golden in GOLDENS:
        for line in golden.read_bytes().splitlines():
            row = orjson.loads(line)
            filled.get(row["table"], set()).update(row)  # NDJSON leaves out what is null
    assert [(table, name) for table in TABLES for name in names_of(table) if name not in filled[table]] == []


@pytest.mark.parametrize("table", TABLES)
def test_arrow_gets_plain_types_only(table):
    schema = arrow_schema(table)
    plain = {pa.string(), pa.int64(), pa.bool_(), pa.binary(), pa.timestamp("us", "UTC"), pa.list_(pa.string())}
    assert schema.names == list(names_of(table))
    for field in schema:
        if field.name == "headers":
            members = field.type.value_type
            assert [(member.name, member.type) for member in members] == [("key", pa.string()), ("value", pa.binary())]
        else:
            assert field.type in plain
        assert field.metadata[b"doc"]
    assert schema.metadata[b"mqsniff.schema_version"] == SCHEMA_VERSION.encode()


@pytest.mark.parametrize("table", TABLES)
def test_names_tell_units_and_times(table):
    for column in TABLES[table]:
        assert column.name.endswith("_ns") == (column.unit == "ns"), column.name
        assert (column.name == "ts" or column.name.endswith("_ts")) == (column.type == "timestamp"), column.name


def test_the_schemas_need_no_arrow_until_it_is_asked_for():
    script = (
        "import sys, mqsniff.tables.rows, mqsniff.sinks.ndjson, mqsniff.sinks.text; print('pyarrow' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_text_and_ndjson_show_messages_problems_and_connections_by_default():
    assert STREAM_TABLES == ("messages", "problems", "connections")
    assert {*STREAM_TABLES} < {*TABLES}


@pytest.mark.parametrize("table", TABLES)
def test_arrow_fields_say_what_their_columns_mean_and_in_which_unit(table):
    told = [(field.name, field.nullable, field.metadata) for field in arrow_schema(table)]
    assert told == [
        (
            column.name,
            column.nullable,
            {b"doc": column.doc.encode()} | ({b"unit": column.unit.encode()} if column.unit else {}),
        )
        for column in TABLES[table]
    ]
