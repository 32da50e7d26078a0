"""``docs/tables.md``: made from the schemas, and its queries answer something about real traffic."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pyarrow.compute as pc
import pytest
from click.testing import CliRunner

from mqsniff.answers.folders import table_dataset, table_files
from mqsniff.answers.sql import Database
from mqsniff.cli import main
from mqsniff.tables.schemas import TABLES

HOME = Path(__file__).parent.parent
SPEC = importlib.util.spec_from_file_location("build_tables", HOME / "docs" / "build_tables.py")
build_tables = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(build_tables)

QUERIES = build_tables.queries(build_tables.QUERIES.read_text())
SAMPLES = [
    "kafka/kafka-3.9.1-java-4.4.0-cross-xa.pcapng",
    "nsq/nsq-1.3.0-go-req-touch.pcap",
    "nsq/nsq-1.3.0-nsqjs-deflate.pcap",
    "nsq/nsq-1.3.0-var-loss-client.pcap",
    "pulsar/pulsar-4.2.4-py-nack-dlq-a.pcap",
    "rocketmq/rocketmq-5.5.0-cli5.5.0-a-push-consumer.pcapng",
]


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    folder = tmp_path_factory.mktemp("samples") / "tables"
    files = [str(HOME / "pcaps" / sample) for sample in SAMPLES]
    assert CliRunner().invoke(main, ["decode", "-o", "parquet", "--out", str(folder), *files]).exit_code == 0
    return {table: table_dataset(table, [(folder, files)]) for table, files in table_files(folder).items()}


@pytest.fixture(scope="module")
def ask(tables, tmp_path_factory):
    with Database(tables, tmp_path_factory.mktemp("spill")) as database:

        def rows(query):
            _, batches = database.run(query)
            return [row for batch in batches for row in batch.to_pylist()]

        yield rows


def test_the_page_is_what_the_schemas_and_queries_give():
    assert build_tables.PAGE.read_text() == build_tables.page(), "run: python docs/build_tables.py"


def test_a_stale_page_is_told(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(build_tables, "PAGE", tmp_path / "tables.md")
    assert build_tables.main(["--check"]) == 1
    assert "stale: docs/tables.md" in capsys.readouterr().err
    assert build_tables.main([]) == 0
    assert build_tables.main(["--check"]) == 0
    (tmp_path / "tables.md").write_text(build_tables.page() + "\n")
    assert build_tables.main(["--check"]) == 1


@pytest.mark.parametrize("table", TABLES)
def test_every_column_stands_on_the_page_with_its_place_and_meaning(table):
    section = build_tables.page().split(f"\n## {table}\n")[1].split("\n## ")[0]
    shown = [line.split(" | ") for line in section.splitlines() if line.startswith("| ") and line[2].isdigit()]
    assert [cells[1].strip("*") for cells in shown] == [column.name for column in TABLES[table]]
    assert [cells[5].removesuffix(" |") for cells in shown] == [column.doc for column in TABLES[table]]
    assert {cells[1].strip("*") for cells in shown if "**" in cells[1]} == set(build_tables.KEYS[table])


@pytest.mark.parametrize("table", build_tables.APART)
def test_keys_tell_rows_apart(tables, table):
    columns = [*build_tables.KEYS[table], *build_tables.APART[table]]
    rows = tables[table].to_table(columns=columns)
    assert rows.num_rows > 0
    counted = rows.group_by(columns).aggregate([([], "count_all")])
    assert pc.max(counted["count_all"]).as_py() == 1


def test_there_are_ten_queries_and_more():
    assert len(QUERIES) >= 10
    assert all(query.about.endswith(".") and query.sql for query in QUERIES)


@pytest.mark.parametrize("query", QUERIES, ids=[query.about.split(".")[0].split(",")[0] for query in QUERIES])
def test_every_query_answers_something(ask, query):
    rows = ask(query.sql)
    assert rows
    assert all(
        any(row[name] is not None for row in rows) for name in rows[0] if name not in ("mechanism", "tls_version")
    )


def about(word):
    (found,) = [query.sql for query in QUERIES if word in query.about]
    return found


def test_the_slowest_exchanges_come_first_and_none_was_held(ask):
    latencies = [row["latency_ms"] for row in ask(about("slowest"))]
    assert latencies == sorted(latencies, reverse=True)
    held = ask("select max(latency_ns) / 1e6 as ms from exchanges where held")[0]["ms"]
    assert held > latencies[0]


def test_latencies_by_command_count_every_request_once(ask):
    rows = ask(about("Latency by command"))
    assert (
        sum(row["requests"] for row in rows)
        == ask("select count(*) n from exchanges where link = 'answer' and status <> 'unasked'")[0]["n"]
    )
    assert all(row["p50_ms"] <= row["p99_ms"] <= row["max_ms"] for row in rows if row["p50_ms"] is not None)


def test_errors_are_those_that_brokers_sent(ask):
    errors = {(row["protocol"], row["error_name"]): row["errors"] for row in ask(about("Errors by command"))}
    assert errors[("kafka", "UNSUPPORTED_VERSION")] == 5
    assert errors[("rocketmq", "TOPIC_NOT_EXIST")] == 2


def test_every_record_of_the_kafka_sample_is_found_on_both_ways(ask):
    joined = ask(f"select count(*) n, min(transit_ms) least from ({about('From producer').split('order by')[0]}) "
                 "where protocol = 'kafka'")  # fmt: skip
    assert joined[0]["n"] == 30
    assert joined[0]["least"] > 0


def test_lag_is_what_was_left_to_read(ask):
    kafka = {row["partition"]: row["lag"] for row in reversed(ask(about("Consumer lag"))) if row["topic"] == "xa.zstd"}
    assert kafka == {0: 14, 1: 8, 2: 8}
    assert sum(kafka.values()) == 30


def test_repeated_deliveries_are_those_that_were_requeued(ask):
    rows = ask(about("repeated"))
    assert {row["protocol"] for row in rows} == {"nsq", "pulsar"}
    requeued = ask("select count(*) n from messages where name = 'REQ'")[0]["n"]
    assert len([row for row in rows if row["protocol"] == "nsq"]) == requeued


def test_volumes_are_the_same_on_both_ways(ask):
    kafka = {
        row["direction"]: row["value_bytes"] for row in ask(about("Topics by volume")) if row["protocol"] == "kafka"
    }
    assert kafka == {"produce": 2400, "deliver": 2400}


def test_traffic_over_time_is_all_traffic(ask):
    rows = ask(about("over time"))
    whole = ask("select count(*) n, sum(size) b from messages")[0]
    assert (sum(row["messages"] for row in rows), sum(row["bytes"] for row in rows)) == (whole["n"], whole["b"])
