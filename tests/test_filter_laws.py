"""What the filters promise, on every kind of sample: chosen rows are rows of the whole run, and exactly those that meet
the options where a row can tell by itself."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from click.testing import CliRunner

from mqsniff.cli import main
from mqsniff.tables.schemas import TABLES

PCAPS = Path(__file__).parent.parent / "pcaps"
SAMPLES = [
    "kafka/kafka-0.10.2.2-mixed-magic-mix.c.pcap",
    "kafka/kafka-3.9.1-java-4.4.0-cross-xa.pcapng",
    "kafka/kafka-3.9.1-franz-go-max-0.8.0-codecs-fz39080s.pcap",
    "nsq/nsq-1.3.0-go-req-touch.pcap",
    "nsq/nsq-1.3.0-var-loss-client.pcap",
    "pulsar/pulsar-4.2.4-py-nack-dlq-a.pcap",
    "pulsar/pulsar-4.2.4-py-partitioned-a.pcap",
    "rocketmq/rocketmq-5.5.0-cli5.5.0-a-push-consumer.pcapng",
    "rocketmq/rocketmq-4.9.7-cli4.9.7-c-produce-sync-async-oneway.pcapng",
]
ALL_TABLES = [argument for table in TABLES for argument in ("--table", table)]


def decoded(sample, *options):
    done = CliRunner().invoke(main, ["decode", *ALL_TABLES, *options, str(PCAPS / sample)])
    assert done.exit_code == 0, done.stderr
    return done.stdout.splitlines()


@pytest.fixture(scope="module", params=SAMPLES)
def sample(request):
    return request.param


@pytest.fixture(scope="module")
def whole(sample):
    return decoded(sample)


@pytest.fixture(scope="module")
def rows(whole):
    return [json.loads(line) for line in whole]


def of(rows, *tables):
    return [row for row in rows if row["table"] in tables]


def commonest(rows, column, *tables):
    """A value that a filter can be tried with."""
    found = Counter(row[column] for row in of(rows, *tables) if column in row)
    return found.most_common()[len(found) // 2][0] if found else None


def options_to_try(rows):
    topic = commonest(rows, "topic", "records")
    yield "--topic", topic
    yield "--partition", commonest(rows, "partition", "partitions")
    yield "--offset", commonest(rows, "offset", "records")
    yield "--key", commonest(rows, "key", "records")
    yield "--name", commonest(rows, "name", "messages")
    yield "--group", commonest(rows, "group", "messages")
    yield "--client", commonest(rows, "client", "messages")
    yield "--connection", commonest(rows, "connection_id", "messages")[:12]
    yield "--from", rows[len(rows) // 2].get("ts")


def test_chosen_rows_are_rows_of_the_whole_run_in_its_order(sample, whole, rows):
    tried = 0
    for option, value in options_to_try(rows):
        if value is None:
            continue
        chosen = decoded(sample, option, str(value))
        rest = iter(whole)
        assert [line for line in chosen if line not in rest] == [], option
        assert len(chosen) < len(whole) or option in ("--client", "--group", "--connection", "--partition"), option
        tried += bool(chosen)
    assert tried >= 4


def met(rows, predicate):
    return [row for row in rows if predicate(row)]


def chosen(sample, *options):
    return [json.loads(line) for line in decoded(sample, *options)]


def test_records_of_a_topic_a_partition_an_offset_and_a_key_come_alone_and_all(sample, rows):
    for option, column in (
        ("--topic", "topic"),
        ("--partition", "partition"),
        ("--offset", "offset"),
        ("--key", "key"),
    ):
        value = commonest(rows, column, "records")
        if value is None:
            continue
        wanted = met(of(rows, "records"), lambda row, c=column, v=value: row.get(c) == v)
        assert of(chosen(sample, option, str(value)), "records") == wanted, option


def test_messages_of_a_time_a_name_and_a_connection_are_those_that_say_so(sample, rows):
    messages = of(rows, "messages")
    ts = messages[len(messages) // 2]["ts"]
    assert of(chosen(sample, "--from", ts), "messages") == met(messages, lambda row: row["ts"] >= ts)
    assert of(chosen(sample, "--to", ts), "messages") == met(messages, lambda row: row["ts"] < ts)
    connection = commonest(rows, "connection_id", "messages")
    of_connection = met(rows, lambda row: row.get("connection_id") == connection and row["table"] != "topics")
    assert [row for row in chosen(sample, "--connection", connection) if "connection_id" in row] == of_connection
    name = commonest(rows, "name", "messages")
    named = of(chosen(sample, "--name", name.lower()), "messages")
    assert [row for row in named if row["name"] == name] == met(messages, lambda row: row["name"] == name)
    assert {row["kind"] for row in named if row["name"] != name} <= {"response"}


def test_errors_are_the_messages_that_carry_one_and_the_exchanges_that_failed(sample, rows):
    out = chosen(sample, "--errors")
    broken = {
        (row.get("connection_id"), row.get("side"), row.get("stream_offset"))
        for row in of(rows, "problems")
        if row["severity"] == "error" and "name" in row
    }
    key = ("connection_id", "side", "stream_offset")
    assert of(out, "messages") == met(
        of(rows, "messages"),
        lambda row: (
            (row["error_count"] > 0 if "error_count" in row else bool(row.get("error_code") or row.get("error_name")))
            or tuple(row[name] for name in key) in broken
        ),
    )
    bad = ("error", "partial", "unanswered", "lost")
    wanted = [row for row in of(rows, "exchanges") if row["status"] in bad]
    assert [row for row in of(out, "exchanges") if row["status"] in bad] == wanted


def test_hosts_and_ports_choose_whole_connections(sample, rows):
    host, _, port = commonest(rows, "server", "messages").rpartition(":")
    for option, value, end in (("--port", port, -1), ("--host", host.strip("[]"), 0)):
        out = [row for row in chosen(sample, option, value) if "connection_id" in row]
        kept = {
            row["connection_id"]
            for row in of(rows, "connections")
            if value in (row["client"].rpartition(":")[end].strip("[]"), row["server"].rpartition(":")[end].strip("[]"))
        }
        assert kept
        assert out == met(rows, lambda row, k=kept: row.get("connection_id") in k)


@pytest.mark.parametrize(
    ("condition", "tables", "predicate"),
    [
        ("size % 2 = 0", ("messages", "problems"), lambda row: row.get("size", 1) % 2 == 0),
        (
            "name ilike '%e%' and stream_offset > 100",
            ("messages", "exchanges", "partitions", "problems"),
            lambda row: "e" in row.get("name", "").lower() and row.get("stream_offset", 0) > 100,
        ),
        (
            "topic is not null and side = 'client'",
            ("partitions", "records"),
            lambda row: "topic" in row and row["side"] == "client",
        ),
    ],
)
def test_a_condition_keeps_exactly_the_rows_that_meet_it(sample, rows, condition, tables, predicate):
    assert chosen(sample, "--where", condition) == met(of(rows, *tables), predicate)


def test_filtered_parquet_holds_the_filtered_records(sample, rows, tmp_path):
    topic = commonest(rows, "topic", "records")
    key = commonest(rows, "key", "records")
    for number, options in enumerate((["--topic", topic], ["--key", key], ["--where", "record_index % 2 = 0"])):
        if options[1] is None:
            continue
        folder = tmp_path / str(number)
        done = CliRunner().invoke(
            main, ["decode", "-o", "parquet", "--out", str(folder), "--table", "records", *options, str(PCAPS / sample)]
        )
        assert done.exit_code == 0, done.stderr
        stored = ds.dataset(folder / "records").to_table().to_pylist()
        wanted = of(chosen(sample, *options), "records")
        names = ("stream_offset", "topic", "partition", "offset", "record_index", "value_size", "message_id")
        assert [[row[name] for name in names] for row in stored] == [
            [row.get(name) for name in names] for row in wanted
        ]
        assert [[header["key"] for header in row["headers"] or ()] for row in stored] == [
            [header["key"] for header in row.get("headers", ())] for row in wanted
        ]
