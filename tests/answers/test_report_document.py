"""What a page of ``mqsniff report`` holds: numbers of ``stats``, times in buckets, and the rows after its numbers."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from mqsniff.answers.report import TrafficReport, document_of, html_of
from mqsniff.answers.report.document import TEXT_SHOWN, PageRun
from mqsniff.answers.report.links import BROKERS, CLIENTS, TOPICS, graph_of
from mqsniff.answers.report.page import escaped_json
from mqsniff.answers.report.rowsbehind import SUMS, RowsBehind, command_for, condition_of, sql_text
from mqsniff.answers.report.timegrid import BUCKETS, TimeGrid, amount_series
from mqsniff.answers.stats import RunFacts, TrafficStats
from mqsniff.answers.stats.keeping import KeptTallies
from mqsniff.answers.stats.sketch import LatencySketch
from mqsniff.decode.registry import load_dissectors
from mqsniff.dissector import WITH_RECORDS, Settings
from mqsniff.model import (
    ClosedItem,
    ConnectionInfo,
    Exchange,
    ExchangeItem,
    Frame,
    Message,
    MessageItem,
    Pending,
    Side,
)
from mqsniff.pipeline import Pipeline
from mqsniff.sources.files import FileSource
from mqsniff.tables.rows import rows_of
from mqsniff.tables.schemas import TABLES, arrow_type
from mqsniff.tables.values import Redaction

PCAPS = Path(__file__).parents[2] / "pcaps"
SAMPLES = [
    *sorted((PCAPS / "kafka").glob("*.pcap*[pg]"))[::6],
    *sorted((PCAPS / "pulsar").glob("*.pcap*[pg]"))[::5],
    *sorted((PCAPS / "rocketmq").glob("*.pcap*[pg]"))[::5],
    *sorted((PCAPS / "nsq").glob("*.pcap*[pg]"))[::5],
    PCAPS / "pulsar/pulsar-4.2.4-py-nack-dlq-a.pcap",
]
LEFT_OUT = {"body", "key", "value", "headers", "decoded", "beyond_int64", "ordering_key"}
RUN = PageRun(("mqsniff", "decode", "x.pcap"), "", ())


class Reported:
    """A capture as its document and as its tables."""

    def __init__(self, path: Path) -> None:
        pipeline = Pipeline(FileSource([str(path)]), Settings(wanted=WITH_RECORDS))
        known = [entry.dissector for entry in load_dissectors() if entry.dissector is not None]
        report, stats = TrafficReport(known), TrafficStats(known)
        plain = {table: [c for c in columns if c.name not in LEFT_OUT] for table, columns in TABLES.items()}
        rows: dict[str, list[dict[str, Any]]] = {table: [] for table in TABLES}
        for item in pipeline.items():
            if item is not None:
                report.take(item)
                stats.take(item)
                for table, row in rows_of(item, pipeline.captures, TABLES, Redaction()):
                    rows[table].append({column.name: row[column.name] for column in plain[table]})
        facts = RunFacts(captures=pipeline.captures, packets=pipeline.totals.packets)
        self.document = document_of(report, facts, RUN)
        self.stats = stats.rows(facts)
        self.report = report
        self._base = duckdb.connect()
        for table, columns in plain.items():
            schema = pa.schema([(c.name, pa.int64() if c.type == "timestamp" else arrow_type(c.type)) for c in columns])
            self._base.register(table, pa.Table.from_pylist(rows[table], schema))

    def count(self, table: str, condition: str) -> int:
        return self._base.sql(f"select count(*) from {table} where {condition or 'true'}").fetchall()[0][0]


@pytest.fixture(scope="module", params=SAMPLES, ids=lambda path: path.name)
def reported(request):
    return Reported(request.param)


def test_numbers_that_lead_to_rows_are_the_numbers_of_these_rows(reported):
    asked = 0
    for table in reported.document["tables"]:
        for row, condition in zip(table["rows"], table["conditions"], strict=False):
            for name, (rows, own) in table["behind"].items():
                number = row[table["columns"].index(name)]
                if not condition or not number or (table["section"], name) in SUMS:
                    continue
                if table["section"] == "problems" or (table["section"], name) == ("clients", "connections"):
                    continue  # those of a kind, whatever their text; a client's name may come after its connection
                both = f"({condition}) and ({own or 'true'})"
                assert reported.count(rows, both) == number, (table["section"], name, both)
                asked += 1
    assert asked


def test_series_add_up_to_the_numbers_of_stats(reported):
    series, stats = reported.document["series"], reported.stats
    counted = {row["name"]: (row["count"], row["size"]) for row in series["protocol"]}
    told = {row["protocol"]: (row["messages"], row["bytes"]) for row in stats["protocols"] if row["messages"]}
    assert counted == told
    assert sum(row["count"] for row in series["client"]) == stats["span"][0]["messages"]
    failed = sum(row["errors"] + row["unanswered"] for row in stats["commands"])
    late = sum(row["timed_out"] for row in stats["groups"])
    assert sum(row["count"] for row in reported.document["errors"]) == failed + late
    for row in reported.document["errors"]:
        if row.get("conditions"):
            assert reported.count("exchanges", row["conditions"]) == row["count"], row["conditions"]
    for row in reported.document["latency"]:
        same = next(c for c in stats["commands"] if (c["protocol"], c["name"]) == (row["protocol"], row["name"]))
        assert row["work"]["count"] == same["timed"] == sum(count for _, count in row["work"]["steps"])
        assert row["waits"]["count"] == same["waited"]
        assert row["work"]["quantiles"][1] == same["p95_ns"]


def test_a_page_of_much_is_small_and_says_what_it_leaves_out():
    report = TrafficReport()
    for number in range(4000):
        own = f"{number:0>150}"
        connection = ConnectionInfo(own, "", f"10.0.{number // 250}.{number % 250}", 1, "10.9.9.9", number, 0, 0)
        connection.identity.client_id, connection.protocol = f"client-{own}", "nsq"
        for again in range(3):
            at_ns = (number * 3 + again) * 10**9
            frame = Frame(Side.CLIENT, 0, 10, b"", at_ns, at_ns, 1, 1, 0)
            message = Message(frame, f"p{number % 500}", f"name{number}-{own}", "request", topics=(f"topic-{own}",))
            report.take(MessageItem(connection, message))
            pending = Pending(0, "answer", frame, message=message)
            report.take(ExchangeItem(connection, Exchange(pending, None, "unanswered", ended_ns=at_ns)))
        connection.client_bytes, connection.last_ts_ns = number, number * 10**10
        report.take(ClosedItem(connection))
    document = document_of(report, RunFacts(captures=[]), RUN)
    assert len(html_of(document | {"files": ["x"]})) < 5_000_000
    tables = {table["section"]: table for table in document["tables"]}
    for name in ("connections", "commands", "network"):
        assert len(tables[name]["rows"]) + tables[name]["left_out"] == 4000
    assert document["series"]["client"][-1]["name"] == "(248 and more others)"
    assert sum(row["count"] for row in document["series"]["client"]) == 12_000
    assert document["grid"]["count"] <= BUCKETS


def test_sections_are_those_of_stats(reported):
    facts = reported.stats["span"][0]
    assert reported.document["span"]["messages"] == facts["messages"]
    commands = next((t for t in reported.document["tables"] if t["section"] == "commands"), None)
    assert len(commands["rows"] if commands else []) == len(reported.stats["commands"])


def test_watching_lags_changes_nothing_that_is_counted(reported):
    # ``lags`` was asked at each bucket: groups are the same as those of a run that nobody asked
    kept = {(t["section"]): t["rows"] for t in reported.document["tables"]}
    groups = [(row[1], row[4], row[5]) for row in kept.get("groups", [])]
    assert groups == [(row["group"], row["lag"], row["commit_lag"]) for row in reported.stats["groups"]]


def test_a_grid_never_has_more_buckets_than_it_says_and_loses_nothing():
    grid, series = TimeGrid(), amount_series()
    for step in range(5000):
        series.at(grid, 1_700_000_000_000_000_000 + step * step * 1_000_000)[0] += 1
        assert 0 < grid.count <= BUCKETS
    assert sum(cell[0] for cell in series.of(grid) if cell) == 5000
    assert grid.count >= BUCKETS // 2


def test_earlier_times_widen_the_grid_too():
    grid, series = TimeGrid(), amount_series()
    for second in (100, 50, 0, 100):
        series.at(grid, second * 1_000_000_000)[0] += 1
    cells = [cell[0] for cell in series.of(grid) if cell]
    assert cells == [1, 1, 2]
    assert grid.count <= BUCKETS


def test_steps_of_a_sketch_count_all_durations_and_rise():
    sketch = LatencySketch()
    for duration in (0, 1, 5, 900, 1000, 1_000_000, 1_100_000, 999_999_999):
        sketch.add(duration)
    steps = sketch.steps()
    assert sum(count for _, count in steps) == 8
    assert [low for low, _ in steps] == sorted(low for low, _ in steps)
    assert steps[0] == (0, 1)


def test_five_hundred_clients_are_few_nodes_that_say_how_many_they_stand_for():
    links = KeptTallies(100_000, lambda: [0, 0])
    for client in range(500):
        for broker in range(40):
            amount = links.of(
                (f"app-{client}" if client < 450 else f"{chr(97 + client % 26)}x", f"b{broker}:9092", f"t{client % 99}")
            )
            amount[0] += 1
            amount[1] += 10
    graph = graph_of(links, [])
    assert len(graph["clients"]) <= CLIENTS + 1
    assert len(graph["brokers"]) <= BROKERS + 1
    assert len(graph["topics"]) <= TOPICS + 1
    assert any(node["name"] == "app-# ×450" and node["count"] == 450 for node in graph["clients"])
    assert "(24 other brokers)" in [node["name"] for node in graph["brokers"]]
    assert sum(link[3] for link in graph["links"]) == 500 * 40


def test_five_clients_keep_their_names():
    links = KeptTallies(10_000, lambda: [0, 0])
    for client in range(5):
        links.of((f"app-{client}", "b:1", None))[1] += 1
    graph = graph_of(links, [])
    assert [node["name"] for node in graph["clients"]] == [f"app-{n}" for n in range(5)]
    assert graph["topics"] == []


@pytest.mark.parametrize("text", ["plain", "it's", "a\nb", "\x1b[201~rm", "\u202eevil", "", "\n", "''\t'"])
def test_text_in_sql_is_that_text_and_printable(text):
    literal = sql_text(text)
    assert literal.isprintable()
    assert duckdb.sql(f"select {literal}").fetchall() == [(text,)]


def test_a_long_name_is_asked_by_its_start_and_length():
    name = "x" * 10_000
    condition = condition_of("network", {"server": name})
    assert len(condition) < 1000
    assert duckdb.sql(f"select count(*) from (select '{name}' as server) where {condition}").fetchall() == [(1,)]


def test_a_command_keeps_the_condition_of_its_run():
    command = command_for(RUN.prefix, RowsBehind("messages", "a or b"), "name = 'x'", "size > 1 or size < 0")
    assert command == (
        "mqsniff decode x.pcap -o ndjson --table messages --where "
        "'(size > 1 or size < 0) and name = '\"'\"'x'\"'\"' and (a or b)'"
    )


def test_text_cannot_end_the_document():
    hostile = {"a": "</script><script>alert(1)</script><!--", "b": "\u2028\u2029&amp;", "c": "\udce9"}
    text = escaped_json(hostile)
    assert not set(text) & set("<>&\u2028\u2029")
    assert json.loads(text) == hostile | {"c": "?"}


def test_the_policy_names_the_hashes_of_what_runs():
    import base64
    import hashlib

    page = html_of({"files": ["<b>.pcap"]})
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', page)[1]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    script = page[page.rindex("<script>") + 8 : page.rindex("</script>")]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"'sha256-{digest}'" in policy
    assert "</script" not in script
    assert "&lt;b&gt;.pcap" in page
    assert "http" not in re.sub(r"http://www\.w3\.org/2000/svg|http-equiv|/\*! https://github\S+", "", page)


def test_names_are_as_long_as_the_page_shows(reported):
    def texts(value):
        match value:
            case str():
                yield value
            case list():
                for item in value:
                    yield from texts(item)
            case dict():
                for key, item in value.items():
                    if key not in {"behind", "conditions", "run"}:
                        yield from texts(item)

    assert all(len(text) < TEXT_SHOWN + 30 for text in texts(reported.document))
