"""The database of a query: what it answers, what it refuses, and what it says of a mistake."""

from __future__ import annotations

import os
import signal
import time
from threading import Timer

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from mqsniff.limits import Limits
from mqsniff.lockedsql import Database, QueryError, empty_tables, needed_tables
from mqsniff.tables.schemas import TABLES

ROWS = pa.table({"name": ["Fetch", "Produce", "Fetch"], "size": [1, 2, 3]})


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A folder with what an attacker would like: a secret, other tables, and the files of the tables themselves."""
    (tmp_path / "secret.txt").write_text("the,secret\n1,2\n")
    (tmp_path / "secret.json").write_text('{"the": "secret"}\n')
    pq.write_table(pa.table({"the": ["secret"]}), tmp_path / "secret.parquet")
    (tmp_path / "messages").mkdir()
    pq.write_table(ROWS, tmp_path / "messages" / "part-00000.parquet")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MQSNIFF_TEST_SECRET", "the secret")
    return tmp_path


@pytest.fixture
def database(home):
    with Database({"messages": ds.dataset(home / "messages", format="parquet")}, home / "spill") as database:
        yield database


def answer(database, query):
    _, batches = database.run(query)
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


READING_ELSEWHERE = [
    "select * from 'secret.parquet'",
    "select * from read_parquet('secret.parquet')",
    "select * from read_parquet('messages/part-00000.parquet')",
    "select * from parquet_metadata('secret.parquet')",
    "select * from parquet_kv_metadata('secret.parquet')",
    "select * from read_csv('secret.txt')",
    "select * from read_csv_auto('secret.txt')",
    "select * from sniff_csv('secret.txt')",
    "select * from read_text('secret.txt')",
    "select * from read_text('messages/../secret.txt')",
    "select * from read_text('/etc/passwd')",
    "select * from read_text('file:///etc/passwd')",
    "select * from read_blob('secret.txt')",
    "select * from read_json('secret.json')",
    "select * from read_ndjson_objects('secret.json')",
    "select * from read_csv('/dev/stdin')",
    "select * from read_csv('http://127.0.0.1:9/x.csv')",
    "select * from read_parquet('s3://bucket/x.parquet')",
    "select * from glob('*')",
    "select * from glob('/etc/*')",
    "select * from query('select * from read_text(''secret.txt'')')",
    "select (select content from read_text('secret.txt'))",
    "with t as (select * from read_text('secret.txt')) select * from t",
    "from read_text('secret.txt')",
    "explain analyze select * from read_text('secret.txt')",
    "describe select * from read_text('secret.txt')",
    "summarize select * from read_text('secret.txt')",
    "select getenv('MQSNIFF_TEST_SECRET')",
    "select * from ROWS",
    "select * from python_arrow_scan()",
    "select * from pandas_scan(1)",
    "select * from arrow_scan(1, 2, 3)",
    "select * from sqlite_scan('secret.txt', 'x')",
    "select * from duckdb_extensions()",
    "select * from query_table('secret.parquet')",
    "select * from json_execute_serialized_sql(json_serialize_sql('select * from read_text(''secret.txt'')'))",
    'select * from "secret.parquet"',
    "from 'https://127.0.0.1:9/x.parquet'",
]
WRITING = [
    "copy messages to 'evil.csv'",
    "copy (select 1) to 'messages/part-00000.parquet'",
    "copy messages from 'secret.txt'",
    "with w as (copy (select 1) to 'evil.csv') select 1",
    "with w as (copy (select 1) to 'messages/part-00000.parquet') select 1",
    "explain analyze copy (select 1) to 'evil.csv'",
    "export database 'evil'",
    "import database 'evil'",
    "attach 'evil.db'",
    "attach 'evil.db' as evil; create table evil.t as select 1",
    "create table t as select 1",
    "create or replace view messages as select 1",
    "create macro evil() as 1",
    "create secret evil (type s3, key_id 'a', secret 'b')",
    "insert into messages values ('x', 1)",
    "delete from messages",
    "update messages set size = 0",
    "drop view messages",
    "checkpoint",
    "vacuum",
    "begin",
    "prepare evil as select 1",
    "call enable_logging(storage = 'file', storage_config = {'path': 'evil'})",
    "select * from enable_logging(storage = 'file', storage_config = {'path': 'evil'})",
    "pragma enable_profiling",
    "explain create table t as select 1",
    "explain analyze create table t as select 1",
    "explain (analyze) create table t as select 1",
    "explain /* then */ analyze /* now */ create table t as select 1",
    "explain analyze prepare evil as select 1",
    "explain explain create table t as select 1",
    "merge into messages using messages m on true when matched then delete",
    "update extensions",
]
LOOSENING = [
    "set enable_external_access = true",
    "set lock_configuration = false",
    "set allowed_directories = ['/']",
    "set temp_directory = '/tmp'",
    "explain set memory_limit = '1TB'",
    "explain analyze set memory_limit = '1TB'",
    "set variable x = 1",
    "reset lock_configuration",
    "pragma threads = 64",
    "pragma memory_limit = '1TB'",
    "set TimeZone = 'Asia/Tokyo'",
    "install httpfs",
    "load httpfs",
    "install spatial from community",
    "load './evil.duckdb_extension'",
    "use memory",
]
MANY = ["select 1; select 2", "select 1; copy messages to 'evil.csv'", "; ;", "", "-- nothing\n"]


def state(folder):
    return {
        (path.relative_to(folder).as_posix(), path.read_bytes() if path.is_file() else None)
        for path in folder.rglob("*")
        if path.name != "spill"
    }


@pytest.mark.parametrize("query", [*READING_ELSEWHERE, *WRITING, *LOOSENING, *MANY])
def test_an_attack_fails_with_one_line_and_changes_nothing(database, home, query):
    before = state(home)
    with pytest.raises(QueryError) as failed:
        answer(database, query)
    assert "\n" not in str(failed.value)
    assert "the secret" not in str(failed.value)
    assert state(home) == before
    assert answer(database, "select count(*) from messages") == [(3,)]


@pytest.mark.parametrize(
    "query", ["explain select 1", "EXPLAIN ANALYZE\nfrom messages", "explain (format json) select 1"]
)
def test_a_plan_is_shown(database, query):
    assert len(answer(database, query)) == 1


def test_only_the_tables_can_be_seen(database):
    assert answer(database, "show tables") == [("messages",)]
    assert answer(database, "select table_name from information_schema.tables") == [("messages",)]


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("select name, sum(size) from messages group by name order by name", [("Fetch", 4), ("Produce", 2)]),
        ("from messages select size where name = 'Produce'", [(2,)]),
        ("with big as (select * from messages where size > 1) select count(*) from big;", [(2,)]),
        ("values (1), (2)", [(1,), (2,)]),
        ("select current_setting('TimeZone')", [("UTC",)]),
        ("from (pivot messages on name in ('Fetch') using count(*)) select sum(\"Fetch\")", [(2,)]),
        ("select * from duckdb_secrets()", []),
        ("select value from duckdb_settings() where value ilike '%.duckdb%'", []),
        ("describe select name from messages", [("name", "VARCHAR", "YES", None, None, None)]),
    ],
)
def test_a_query_is_answered(database, query, rows):
    assert answer(database, query) == rows


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("select nme from messages", ('Referenced column "nme" not found in FROM clause (near nme from messages); '
                                     "messages has: name, size")),
        ("select m.nme from messages m", ('Table "m" does not have a column named "nme" (near m.nme from messages m); '
                                         "messages has: name, size")),
        ("select * from mesages", "Table with name mesages does not exist (near mesages); tables: messages"),
        ("selec 1", 'syntax error at or near "selec" (near selec 1)'),
        ("select name\nfrom messages\nwhere size >", 'syntax error at or near ">" (near line 3: >)'),
        ("select flor(1.5)", 'Scalar Function with name flor does not exist (near flor(1.5)); did you mean "floor"?'),
        ("select name::int from messages", "Could not convert string 'Fetch' to INT32"),
        ("select 1; select 2", "2 statements; a query is one, since only one result can go out"),
        ("copy messages to 'x'", "COPY does more than read; a query is SELECT, WITH, DESCRIBE or EXPLAIN"),
        ("update extensions", "UPDATE does more than read"),
        ("explain analyze create table t as select 1", "CREATE does more than read"),
        ("pivot messages on name using count(*)", ("PIVOT needs the values that become columns: "
                                                  "PIVOT … ON column IN ('a', 'b') …")),
        ("", "the query is empty"),
        ("select length('x'::blob)", "No function matches the given name and argument types 'length(BLOB)'"),
    ],
)  # fmt: skip
def test_an_error_says_what_where_and_what_there_is(database, query, told):
    with pytest.raises(QueryError) as failed:
        answer(database, query)
    assert str(failed.value).startswith(told)


@pytest.mark.parametrize(
    ("query", "hint"),
    [
        ("select value like 'x%' from records", "; keys and values are bytes: decode(value) is their text"),
        ("select body.client_id from messages", "; body is JSON text: body ->> '$.field'"),
        ("select group, count(*) from messages group by 1", 'double quotes: "group", "offset"'),
        ("select max(offset) from records", 'double quotes: "group", "offset"'),
    ],
)
def test_what_these_tables_want_otherwise_is_said(home, query, hint):
    with Database(empty_tables(), home / "spill") as database, pytest.raises(QueryError) as failed:
        answer(database, query)
    assert str(failed.value).endswith(hint)


@pytest.mark.parametrize(
    "query", ["selec name from messages group by 1", 'selec "offset" from records limit 1 offset 5']
)
def test_words_that_are_right_are_not_blamed(home, query):
    with Database(empty_tables(), home / "spill") as database, pytest.raises(QueryError) as failed:
        answer(database, query)
    assert "double quotes" not in str(failed.value)


@pytest.mark.parametrize(
    ("query", "tables"),
    [
        ("select * from messages m join problems p using (connection_id)", ("messages", "problems")),
        (
            "with x as (from exchanges) select * from x where topics in (select name from topics)",
            ("exchanges", "topics"),
        ),
        ('select count(*) from "RECORDS"', ("records",)),
        ("describe connections", ("connections",)),
        ("show tables", tuple(TABLES)),
        ("select * from read_text('secret.txt')", tuple(TABLES)),
        ("nonsense", tuple(TABLES)),
    ],
)
def test_only_tables_that_a_query_reads_are_needed(home, query, tables):
    assert needed_tables(query, home / "spill") == tables


def test_every_table_can_be_checked_before_it_has_rows(home):
    with Database(empty_tables(), home / "spill") as database:
        for table in TABLES:
            assert answer(database, f"from {table}") == []


def test_a_result_larger_than_memory_is_spilled_and_streamed(home):
    with Database({"messages": ROWS}, home / "spill") as database:
        schema, batches = database.run("select i, repeat('x', 100) from range(300_000) t(i) order by i desc")
        first = next(batches)
        assert (len(schema), first.column(0)[0].as_py()) == (2, 299_999)
        assert sum(map(len, batches)) == 300_000 - len(first)


def test_memory_is_bounded(home):
    with (
        Database({}, home / "spill", Limits(query_memory=64 << 20)) as database,
        pytest.raises(QueryError, match=r"more memory .*--limit query_memory=BYTES") as failed,
    ):
        answer(database, "select list(i) from range(100_000_000) t(i)")
    assert "\n" not in str(failed.value)


@pytest.mark.parametrize(
    "query",
    [
        "select count(*) from range(10_000_000_000_000) t(i) where i % 7 = 3",
        "with recursive r as (select 1 as i union all select i + 1 from r) select max(i) from r",
        "select i from range(10_000_000_000) t(i) order by hash(i)",
    ],
)
def test_a_signal_ends_a_query_that_never_would(home, query):
    watchdog = Timer(1.0, os.kill, (os.getpid(), signal.SIGINT))
    with Database({}, home / "spill", Limits(query_memory=256 << 20)) as database:
        watchdog.start()
        began = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            answer(database, query)
        assert time.monotonic() - began < 10
        assert answer(database, "select 1") == [(1,)]


def test_a_damaged_file_is_told_in_one_line(home):
    part = home / "messages" / "part-00000.parquet"
    damaged = bytearray(part.read_bytes())
    damaged[4:60] = b"\xff" * 56
    part.write_bytes(damaged)
    with Database({"messages": ds.dataset(home / "messages", format="parquet")}, home / "spill") as database:
        with pytest.raises(QueryError) as failed:
            answer(database, "select * from messages")
        assert "\n" not in str(failed.value)


def test_a_file_that_goes_away_is_told_in_one_line(database, home):
    (home / "messages" / "part-00000.parquet").unlink()
    with pytest.raises(QueryError, match="part-00000"):
        answer(database, "select * from messages")
