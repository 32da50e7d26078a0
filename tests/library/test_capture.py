"""A capture as an object: rows, tables, SQL and statistics equal those of the commands."""

from __future__ import annotations

import gc
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import mqsniff
from mqsniff.cli import main
from mqsniff.tables.schemas import TABLES, arrow_schema

CAPTURE = "pcaps/kafka/kafka-3.9.1-java-4.4.0-cross-xa.pcapng"
NSQ = "pcaps/nsq/nsq-1.3.0-go-req-touch.pcap"


def ndjson(*arguments: str) -> list[dict]:
    printed = CliRunner().invoke(main, ["decode", "-o", "ndjson", *arguments]).stdout
    return [json.loads(line) for line in printed.splitlines()]


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("file", [CAPTURE, NSQ])
def test_rows_are_those_of_decode(file, table):
    rows = list(getattr(mqsniff.read(file), table)())
    lines = ndjson("--table", table, file)
    assert len(rows) == len(lines)
    for row, line in zip(rows, lines, strict=True):
        for name in TABLES[table]:
            value = getattr(row, name.name)
            if name.type in ("text", "int64", "bool", "json"):
                assert value == line.get(name.name)
            elif name.type == "texts":
                assert list(value or ()) == line.get(name.name, [])
            elif name.type == "timestamp" and value is not None:
                assert value.isoformat()[:26] == line[name.name][:26].replace("Z", "")


@pytest.mark.parametrize("table", TABLES)
def test_tables_have_the_columns_of_the_schema_and_the_rows_of_decode(table):
    with mqsniff.read(CAPTURE) as capture:
        found = capture.table(table)
        assert found.schema.equals(arrow_schema(table), check_metadata=True)
        assert found.num_rows == len(list(getattr(capture, table)()))
        assert getattr(capture, table)().table().equals(found)


def test_rows_are_decoded_while_they_are_iterated():
    capture = mqsniff.read(NSQ)
    first = next(iter(capture.messages()))
    assert first.name == "MAGIC"
    assert first._fields[:3] == ("connection_id", "side", "stream_offset")
    assert len(list(capture.messages())) == len(list(capture.messages())) == 109


def test_keys_and_values_are_bytes_and_bodies_are_dicts():
    records = list(mqsniff.read(CAPTURE).records())
    assert records[0].value.startswith(b"v2-v2")
    message = next(row for row in mqsniff.read(CAPTURE).messages() if row.name == "Metadata" and row.kind == "response")
    assert message.body["brokers"][0]["host"]


def test_secrets_are_redacted_unless_they_are_asked_for():
    said = b"  V2AUTH\n\x00\x00\x00\x06secret"
    hidden, shown = (
        list(mqsniff.decode_bytes("nsq", client=said, show_secrets=asked).messages())[1].body for asked in (False, True)
    )
    assert hidden == {"secret": {"redacted": 6}}
    assert shown == {"secret": "secret"}


def test_payload_can_be_redacted():
    records = list(mqsniff.read(CAPTURE, redact="payload").records())
    assert {record.value for record in records} == {None}
    assert records[0].value_encoding == "redacted"


def test_statistics_are_those_of_stats():
    printed = CliRunner().invoke(main, ["stats", "--json", CAPTURE]).stdout
    assert mqsniff.read(CAPTURE).stats() == json.loads(printed)
    by_topic = CliRunner().invoke(main, ["stats", "--json", "--by", "topic", CAPTURE]).stdout
    assert mqsniff.read(CAPTURE).stats(by="topic") == json.loads(by_topic)
    with pytest.raises(mqsniff.OptionError, match="no division 'day'"):
        mqsniff.read(CAPTURE).stats(by="day")


def test_sql_asks_the_tables_that_the_filters_leave():
    query = "select count(*) from messages"
    assert mqsniff.read(CAPTURE).sql(query).one() == 56
    assert mqsniff.read(CAPTURE, topic="xa.zstd", errors=True).sql(query).one() == 1


def test_a_named_query_is_asked_by_its_name():
    assert "latency_ms" in mqsniff.read(CAPTURE).sql(":slow").columns
    with pytest.raises(mqsniff.QueryError, match="did you mean :slow"):
        mqsniff.read(CAPTURE).sql(":slw")


@pytest.mark.parametrize("query", ["select x from messages", "copy messages to 'x.csv'", "selec", "from 'README.md'"])
def test_a_query_that_cannot_run_is_a_query_error_before_anything_is_decoded(query):
    capture = mqsniff.read(CAPTURE)
    with pytest.raises(mqsniff.QueryError):
        capture.sql(query)
    assert not capture._stored


def test_an_unknown_table_is_an_option_error():
    with pytest.raises(mqsniff.OptionError, match="did you mean messages"):
        mqsniff.read(CAPTURE).table("message")


def test_a_table_is_decoded_once_and_its_folder_goes(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    capture = mqsniff.read(NSQ)
    assert capture.table("messages").num_rows == 109
    (folder,) = tmp_path.iterdir()
    monkeypatch.setattr(capture, "_open_source", None)
    assert capture.sql("select count(*) from messages").one() == 109
    capture.close()
    assert not folder.exists()
    assert not list(tmp_path.iterdir())


def test_a_folder_goes_with_its_object(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    mqsniff.read(NSQ).table("messages")
    gc.collect()
    assert not list(tmp_path.iterdir())


def test_a_file_that_is_not_there_is_told_at_once():
    with pytest.raises(mqsniff.UnreadableError, match=r"no\.pcap: no such file"):
        mqsniff.read("no.pcap")
    with pytest.raises(mqsniff.OptionError, match="a file is needed"):
        mqsniff.read()


@pytest.mark.parametrize("ask", [lambda c: list(c.messages()), lambda c: c.table("topics"), lambda c: c.stats()])
def test_a_file_that_is_no_capture_is_told_when_rows_are_asked_for(ask):
    capture = mqsniff.read("README.md", NSQ)
    with pytest.raises(mqsniff.UnreadableError, match=r"README\.md: not a capture"):
        ask(capture)


def test_a_folder_means_the_captures_in_it(tmp_path):
    with pytest.raises(mqsniff.UnreadableError, match="no captures in this folder"):
        mqsniff.read(tmp_path)
    assert NSQ in mqsniff.read(Path("pcaps/nsq")).names


def test_notebooks_show_rows_as_tables_of_escaped_text():
    said = b"  V2PUB <b>\n\x00\x00\x00\x02hi"
    shown = mqsniff.decode_bytes("nsq", client=said).messages()._repr_html_()
    assert "<b>" not in shown.replace("<body>", "")
    assert "<th>name</th>" in shown
    assert "3 rows" in shown or "2 rows" in shown
    assert "the first 20 rows; there are more" in mqsniff.read(NSQ).messages()._repr_html_()
    assert NSQ in mqsniff.read(NSQ)._repr_html_()
    assert "<td" in mqsniff.read(NSQ).sql("select name, count(*) from messages group by all")._repr_html_()


def test_a_table_can_be_asked_again_after_an_interrupt(monkeypatch):
    capture = mqsniff.read(NSQ)
    good = capture._open_source

    class Interrupted:
        def __init__(self):
            self.source = good()
            self.captures = self.source.captures

        def batches(self):
            yield from self.source.batches()
            raise KeyboardInterrupt

    monkeypatch.setattr(capture, "_open_source", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        capture.table("messages")
    monkeypatch.setattr(capture, "_open_source", good)
    assert capture.table("messages").num_rows == 109


@pytest.mark.parametrize(
    "file", ["pcaps/broken/cut.pcap.gz", "pcaps/broken/record-cut.pcap", "pcaps/broken/head-only.pcap"]
)
def test_damage_is_rows_and_no_error(file):
    capture = mqsniff.read(file)
    lines = ndjson("--table", "problems", file)
    assert len(list(capture.problems())) == len(lines)
    assert capture.table("problems").num_rows == len(lines)
    assert capture.stats()["health"]
