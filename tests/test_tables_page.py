"""``docs/tables.md``: made from the schemas, and its queries answer something about real traffic."""

from __future__ import annotations

from pathlib import Path

import build_tables
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from click.testing import CliRunner
from kafkacraft import API_VERSIONS, TOPIC_ID, record_batch, request, response

from mqsniff.answers.folders import table_dataset, table_files
from mqsniff.answers.queries import named_queries
from mqsniff.cli import main
from mqsniff.lockedsql.database import Database
from mqsniff.tables.schemas import TABLES, arrow_schema
from mqsniff.testing.conversations import client, segments, server, write_pcap

HOME = Path(__file__).parent.parent
SHARE_FETCH = 78

QUERIES = list(named_queries().values())
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
    with Database(tmp_path_factory.mktemp("spill"), readable=[tmp_path_factory.getbasetemp()]) as database:
        database.open(tables)

        def rows(query):
            _, batches = database.run(query)
            return [row for batch in batches for row in batch.to_pylist()]

        yield rows


def test_the_page_is_what_the_schemas_and_queries_give():
    assert build_tables.PAGE.read_text() == build_tables.page(), "run: python docs/build_tables.py"


def test_a_stale_page_is_told(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(build_tables, "PAGE", tmp_path / "tables.md")
    assert build_tables.build(["--check"]) == 1
    assert "stale: tables.md" in capsys.readouterr().err
    assert build_tables.build([]) == 0
    assert build_tables.build(["--check"]) == 0
    (tmp_path / "tables.md").write_text(build_tables.page() + "\n")
    assert build_tables.build(["--check"]) == 1


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
    often_null = {"mechanism", "tls_version"} | ({"partition"} if "repeated" in query.about else set())
    assert all(any(row[name] is not None for row in rows) for name in rows[0].keys() - often_null)


TITLES = {"kafka": "Kafka", "nsq": "NSQ", "nsqlookupd": "nsqlookupd", "pulsar": "Pulsar", "rocketmq": "RocketMQ"}
USUAL = {
    "kafka": "kafka/kafka-3.9.1-java-4.4.0-cross-xa.pcapng",
    "nsq": "nsq/nsq-1.3.0-raw-lifecycle.pcap",
    "nsqlookupd": "nsq/nsqlookupd-1.3.0-raw.pcap",
    "pulsar": "pulsar/pulsar-4.2.4-java-acks-a.pcap",
    "rocketmq": "rocketmq/rocketmq-5.5.0-b-bserrocket-pop-raw.pcap",
}
"""A sample of each protocol that answers most queries."""
QUIET = ""
NO_RECORDS = {"nsqlookupd": None}
KAFKA_ALONE = {"nsq": None, "nsqlookupd": None, "pulsar": None, "rocketmq": None}
ANSWERS: dict[str, dict[str, str | None]] = {
    "The slowest exchanges": {},
    "Latency by command": {},
    "Errors by command": {},
    "From producer to consumer": {"nsq": None, **NO_RECORDS},
    "Consumer lag": {
        "nsq": None,
        "pulsar": None,
        **NO_RECORDS,
        "rocketmq": "rocketmq/rocketmq-5.5.0-cli5.5.0-a-push-consumer.pcapng",
    },
    "Deliveries that were repeated": {
        "kafka": "share.pcap",
        "nsq": "nsq/nsq-1.3.0-go-req-touch.pcap",
        **NO_RECORDS,
    },
    "How long consumers took": {"kafka": None, **NO_RECORDS},
    "Who connects": {},
    "Topics by volume": NO_RECORDS,
    "Traffic over time": {},
    "What a field of the body says": KAFKA_ALONE,
    "What records say": NO_RECORDS,
    "How groups were rebalanced": KAFKA_ALONE,
    "The network or the broker": {
        "kafka": "kafka/kafka-2.8.2-java-1.1.1-cross-xj.pcapng",
        "nsq": "nsq/nsq-1.3.0-nsqjs-deflate.pcap",
        "nsqlookupd": "nsq/nsqlookupd-1.3.0-restart.pcap",
        "pulsar": QUIET,
        "rocketmq": QUIET,
    },
    "What was not decoded": {
        "kafka": "kafka/kafka-4.4.0-midstream-java-4.4.0-mje.pcap",
        "rocketmq": "rocketmq/rocketmq-5.5.0-var-cut-200.pcapng",
    },
}
"""Beginning of a query's first sentence -> protocol -> a sample that it answers, where that is not the usual one.

None: it cannot answer for that protocol; QUIET: it could, but no sample of that protocol has what it asks for.
"""


@pytest.fixture(scope="module")
def ask_sample(tmp_path_factory):
    """Rows of a query over one sample, decoded once."""
    place = tmp_path_factory.mktemp("each")
    share_capture(place / "share.pcap")
    folders: dict[str, Path] = {}

    def rows(sample, query):
        if sample not in folders:
            path = place / sample if sample == "share.pcap" else HOME / "pcaps" / sample
            folders[sample] = place / f"tables-{len(folders)}"
            arguments = ["decode", "-o", "parquet", "--out", str(folders[sample]), str(path)]
            assert CliRunner().invoke(main, arguments).exit_code == 0
        folder = folders[sample]
        stored = {table: table_dataset(table, [(folder, files)]) for table, files in table_files(folder).items()}
        with Database(place / "spill", readable=[folder]) as database:
            return [row for batch in database.open(stored).run(query)[1] for row in batch.to_pylist()]

    return rows


def share_capture(path):
    """A member of a share group gets a record for the second time; nobody has committed a capture of one."""
    asked = {"group_id": "shared", "member_id": "m", "share_session_epoch": 0, "max_wait_ms": 500}
    partition = {"records": record_batch(b"again", base=7), "acquired_records": [acquired(7, 2)]}
    answered = [{"topic_id": TOPIC_ID, "partitions": [partition]}]
    dialogue = [
        client(request(API_VERSIONS, 3, 1)),
        server(response(API_VERSIONS, 3, 1)),
        client(request(SHARE_FETCH, 1, 2, asked)),
        server(response(SHARE_FETCH, 1, 2, {"responses": answered})),
    ]
    write_pcap(path, segments(dialogue), ports=(40_000, 9092))


def acquired(offset, count):
    return {"first_offset": offset, "last_offset": offset, "delivery_count": count}


@pytest.mark.parametrize("protocol", TITLES)
@pytest.mark.parametrize("begins", ANSWERS)
def test_a_query_answers_for_each_protocol_or_says_that_it_cannot(ask_sample, begins, protocol):
    (query,) = [query for query in QUERIES if query.about.startswith(begins)]
    sample = ANSWERS[begins].get(protocol, USUAL[protocol])
    rows = [row for row in ask_sample(sample or USUAL[protocol], query.sql) if row.get("protocol") in (None, protocol)]
    assert bool(rows) is bool(sample)
    if sample is None:
        told = query.remark + build_tables.QUERIES_INTRODUCTION
        assert TITLES[protocol] in told or "Kafka alone" in told


def test_every_query_stands_in_the_table_of_answers():
    assert len(ANSWERS) == len(QUERIES)


def about(word):
    (found,) = [query.sql for query in QUERIES if word in query.about]
    return found


def test_the_slowest_exchanges_come_first_and_none_waited(ask):
    rows = ask(about("slowest"))
    works = [row["work_ms"] for row in rows]
    assert works == sorted(works, reverse=True)
    assert all(row["work_ms"] == pytest.approx(row["latency_ms"] - (row["queue_ms"] or 0)) for row in rows)
    held = ask("select max(latency_ns) / 1e6 as ms from exchanges where held")[0]["ms"]
    assert held > works[0]


def test_what_may_have_been_held_is_not_called_slow(ask_sample):
    """Long polls lead no list of slow exchanges, also where nobody can tell whether they were held."""
    (query,) = [query.sql for query in QUERIES if "slowest" in query.about]
    waited = """select name, latency_ns / 1e6 as ms from exchanges
                where wait_limit_ns > 0 and held is not false and latency_ns is not null"""
    for sample in (USUAL["kafka"], "kafka/kafka-2.8.2-java-1.1.1-cross-xj.pcapng"):
        polls = [(row["name"], row["ms"]) for row in ask_sample(sample, waited)]
        assert polls
        assert not {*polls} & {(row["name"], row["latency_ms"]) for row in ask_sample(sample, query)}


def test_latencies_by_command_count_every_request_once(ask):
    rows = ask(about("Latency by command"))
    assert (
        sum(row["requests"] for row in rows)
        == ask("select count(*) n from exchanges where link = 'answer' and status <> 'unasked'")[0]["n"]
    )
    assert all(row["p50_ms"] <= row["p99_ms"] <= row["max_ms"] for row in rows if row["p50_ms"] is not None)


def test_errors_are_those_that_brokers_sent(ask, ask_sample):
    errors = {
        (row["protocol"], row["name"], row["error_name"]): row["errors"] for row in ask(about("Errors by command"))
    }
    assert errors == {("kafka", "Metadata", "UNKNOWN_TOPIC_OR_PARTITION"): 1}  # codes of the normal course are none
    refused = ask_sample("nsq/nsq-1.3.0-go-msg-timeout.pcap", about("Errors by command"))
    assert {(row["name"], row["error_name"]) for row in refused} >= {
        ("FIN", "E_FIN_FAILED"),
        ("MESSAGE", "E_FIN_FAILED"),
    }


@pytest.mark.parametrize(
    ("sample", "produced"),
    [
        (USUAL["kafka"], 30),
        ("pulsar/pulsar-4.2.4-py-partitioned-a.pcap", 14),
        ("pulsar/pulsar-4.2.4-java-acks-a.pcap", None),
        ("rocketmq/rocketmq-4.9.7-cli4.9.7-c-batch-and-delay.pcapng", None),
    ],
)
def test_every_record_that_is_on_both_ways_is_found(ask_sample, sample, produced):
    """Batches, delayed messages and partitions too; nothing is delivered before it was produced."""
    inner = about("From producer").split("order by")[0]
    (joined,) = ask_sample(
        sample, f"select count(*) n, count(distinct (topic, place)) places, min(transit_ms) least from ({inner})"
    )
    (there,) = ask_sample(
        sample,
        """select count(*) n
           from (select distinct topic, value from records where direction = 'produce' and ack = 'acked')
           semi join (select distinct topic, value from records where direction = 'deliver') using (topic, value)""",
    )
    assert joined["least"] > 0
    assert joined["places"] >= there["n"]
    assert produced is None or joined["n"] == produced


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


def test_a_message_in_chunks_counts_once_and_slots_that_were_left_out_do_not(tmp_path):
    usual = {"topic": "t", "protocol": "pulsar", "direction": "deliver", "message_id": "1:1", "attempts": 2}
    rows = [
        usual | {"value_size": 10},
        usual | {"value_size": 10, "left_out": "compacted"},
        usual | {"value_size": 30, "chunk_id": 0},
        usual | {"value_size": 30, "chunk_id": 1},
        usual | {"value_size": 60, "joined": True},
    ]
    schema = arrow_schema("records")
    table = pa.Table.from_pylist([{name: row.get(name) for name in schema.names} for row in rows], schema)
    with Database(tmp_path / "spill") as database:
        found = [
            row
            for batch in database.open({"records": table}).run(about("Topics by volume"))[1]
            for row in batch.to_pylist()
        ]
    assert [(row["records"], row["value_bytes"]) for row in found] == [(2, 70)]
